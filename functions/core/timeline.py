"""What happened to a notification, in order, each step with the evidence behind it in a sentence.

Stored are the transitions that nothing else tells. Acceptance follows from the row itself, and a
claim from what its lease led to: an attempt, or a lease given back (so its time is the latest it
can have been; an attempt follows its claim within seconds).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from functions.core.candidate_words import channel_words, in_order, moved_by, started_words
from functions.core.cause import cause_of
from functions.core.chain_told import delivered_by
from functions.core.decided import Told
from functions.core.errors import Fault
from functions.core.evidence_words import attempt_words, duration, moment, receipt_words
from functions.core.history import Attempt, Delivery, OperatorAction, Receipt, Row, Step
from functions.core.sentence import Evidence, sentence
from functions.core.states import Status

TOLD_FAULTS = 10
"""Of what was asked for, in a sentence."""

NOT_TAKEN = frozenset({"transient", "throttled", "blocked"})
"""Outcomes after which another provider may be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the timeline; ``from_status`` is None for the first.

    ``by`` names the operator, where an operator did it and may be named.
    """

    at: datetime
    actor: str
    by: str | None = None
    from_status: str | None
    to_status: str
    reason: str | None
    attempt_id: UUID | None
    receipt_id: UUID | None
    sentence: str


def timeline(
    notification: Row,
    *,
    attempts: Sequence[Attempt],
    receipts: Sequence[Receipt],
    transitions: Sequence[Step],
    operator_actions: Sequence[OperatorAction] = (),
    decide_at: datetime | None = None,
    next_provider: str | None = None,
    decided: Told | None = None,
    faults: Sequence[Fault] = (),
    deliveries: Sequence[Delivery] = (),
) -> list[Entry]:
    """Return every step in order of time, acceptance first.

    ``operator_actions`` are named in the sentences: leave them out where operators stay unnamed.
    ``decide_at`` is the end of the wait of a notification that is uncertain, ``next_provider`` whom
    it was passed on to, ``decided`` what more is known of what was asked and decided; ``faults``
    are told with their pointers; by ``deliveries`` a parent's are told by their channels.
    """
    numbers = numbers_of(attempts)
    known = {attempt.id: attempt for attempt in attempts}
    reports = {receipt.id: receipt for receipt in receipts}
    actions = {action.id: action for action in operator_actions}
    entries = _claims(notification, attempts, transitions)
    for place, step in enumerate(transitions, start=1):
        attempt = known.get(step.attempt_id) if step.attempt_id else None
        report = reports.get(step.receipt_id) if step.receipt_id else None
        # Asked for only when there are any: who may not name operators need not read their ids.
        action = (
            actions.get(step.operator_action_id) if actions and step.operator_action_id else None
        )
        is_last = place == len(transitions)
        evidence = Evidence(
            **_of_attempt(attempt, numbers),
            **_of_next_one(attempt, attempts, next_provider),
            **_of_report(report, step, attempts),
            **_of_operator(action),
            **(moved_by(step, decided) | delivered_by(step, deliveries)),
            what=f"{notification.category} by {channel_words(notification.channel)}",
            channel=channel_words(notification.channel),
            faults=_faults(decided, faults),
            deferral=_deferral(notification, step, decided) if is_last else "",
            again=_again(notification) if is_last else "",
            until=_until(notification, decide_at) if is_last else "",
        )
        entries.append(_entry(step, action, sentence(step, evidence)))
    # Stable: at one instant a claim stands before what its lease led to.
    return [
        _accepted(notification, transitions, decided),
        *sorted(entries, key=lambda entry: entry.at),
    ]


def numbers_of(attempts: Sequence[Attempt]) -> dict[UUID, int]:
    """Return the ordinal of each attempt."""
    return {attempt.id: number for number, attempt in enumerate(attempts, start=1)}


def open_at(time: datetime, attempts: Sequence[Attempt]) -> int | None:
    """Return the ordinal of the attempt that was open at ``time``."""
    for number, attempt in enumerate(attempts, start=1):
        ended = attempt.finished_at is not None and attempt.finished_at <= time
        if attempt.started_at <= time and not ended:
            return number
    return None


def _entry(step: Step, action: OperatorAction | None, words: str) -> Entry:
    return Entry(
        at=step.at,
        actor=step.actor,
        by=action.actor if action else None,
        from_status=step.from_status,
        to_status=step.to_status,
        reason=step.reason,
        attempt_id=step.attempt_id,
        receipt_id=step.receipt_id,
        sentence=words,
    )


def _accepted(notification: Row, transitions: Sequence[Step], decided: Told | None) -> Entry:
    due_at = notification.send_at or notification.created_at
    when = "at once" if due_at <= notification.created_at else f"from {moment(due_at)} on"
    if notification.parent_id is not None:
        words = started_words(notification, decided, when=when)
    elif any(step.actor == "accept" for step in transitions):
        words = "It was asked for within a transaction of the database."
    elif decided is not None and decided.channels:
        words = (
            f"The request was accepted and stored, for {in_order(decided.channels)}, until one of "
            f"them is delivered; the first is to be sent {when}."
        )
    else:
        words = f"The request was accepted and stored; it is to be sent {when}."
    return Entry(
        at=notification.created_at,
        actor="client" if notification.parent_id is None else "fallback",
        from_status=None,
        to_status=Status.PENDING,
        reason=None,
        attempt_id=None,
        receipt_id=None,
        sentence=words,
    )


def _claims(
    notification: Row, attempts: Sequence[Attempt], transitions: Sequence[Step]
) -> list[Entry]:
    """Return one entry per lease: what the claim did, at the latest time it can have been."""
    latest: dict[int, datetime] = {}
    if notification.status == Status.LEASED:
        latest[notification.lease_number] = notification.updated_at
    # After a restore an attempt stands for what the lost history may hold; no claim is known of it.
    restored = {step.attempt_id for step in transitions if step.reason == "restored"}
    for step in transitions:
        if (
            step.from_status == Status.LEASED
            and step.lease_number is not None
            and step.reason != "restored"
        ):
            latest[step.lease_number] = min(step.at, latest.get(step.lease_number, step.at))
    opened = {one.lease_number: one for one in attempts if one.id not in restored}
    latest.update({number: attempt.started_at for number, attempt in opened.items()})
    numbers = numbers_of(attempts)
    return [
        _claim(number, at, opened.get(number), numbers) for number, at in sorted(latest.items())
    ]


def _claim(
    lease_number: int, at: datetime, attempt: Attempt | None, numbers: dict[UUID, int]
) -> Entry:
    words = f"It was taken up for sending (lease {lease_number})"
    if attempt is not None:
        words += f", and attempt {numbers[attempt.id]} was opened at {attempt.provider}"
    return Entry(
        at=at,
        actor="claim",
        from_status=Status.PENDING,
        to_status=Status.LEASED,
        reason=None,
        attempt_id=attempt.id if attempt else None,
        receipt_id=None,
        sentence=f"{words}.",
    )


def _of_attempt(attempt: Attempt | None, numbers: dict[UUID, int]) -> dict[str, str]:
    if attempt is None:
        return {}
    number = numbers[attempt.id]
    words = {"attempt": attempt_words(number, attempt), "number": f"attempt {number}"}
    if attempt.scope is not None:
        words["scope"] = attempt.scope
    if attempt.retry_after_seconds is not None:
        words["wait"] = f" for {duration(attempt.retry_after_seconds)}"
    return words


def _of_next_one(
    attempt: Attempt | None, attempts: Sequence[Attempt], next_provider: str | None
) -> dict[str, str]:
    """Return with whom it goes on, where that is somebody else than whom ``attempt`` was made
    with, who provably did not take it."""
    if attempt is None or attempt.outcome not in NOT_TAKEN:
        return {}
    after = [one for one in attempts if one.lease_number > attempt.lease_number]
    if not after:
        return {"passed_on": next_provider} if next_provider else {}
    return {"instead": after[0].provider} if after[0].provider != attempt.provider else {}


def _of_report(report: Receipt | None, step: Step, attempts: Sequence[Attempt]) -> dict[str, str]:
    if report is None:
        return {}
    opened = open_at(report.received_at, attempts) if cause_of(step) == "report" else None
    # What a replay weighs anew was not kept waiting for its notification.
    at = step.at if cause_of(step) == "report" else report.received_at
    return {"report": receipt_words(report, at=at, opened=opened)}


def _of_operator(action: OperatorAction | None) -> dict[str, str]:
    if action is None:
        return {}
    words = {"operator": action.actor}
    if action.arguments.get("may_send_twice"):
        words["consent"] = ", accepting that it may be sent twice"
    if note := action.arguments.get("note"):
        words["note"] = f', noting "{note}"'
    return words


def _again(notification: Row) -> str:
    if notification.status != Status.PENDING or notification.hold_id is not None:
        return ""
    return (
        f"; the next try is due at {moment(notification.available_at)}, as attempt "
        f"{notification.attempts_spent + 1} of {notification.max_attempts}"
    )


def _until(notification: Row, decide_at: datetime | None) -> str:
    if notification.status != Status.UNCERTAIN or decide_at is None:
        return ""
    return f" until {moment(decide_at)}"


def _faults(decided: Told | None, faults: Sequence[Fault]) -> str:
    if faults:
        told = [f"{fault.pointer or 'the whole'} {fault.code}" for fault in faults[:TOLD_FAULTS]]
        return f": {', '.join(told)}{' …' if len(faults) > TOLD_FAULTS else ''}"
    if decided is None or not decided.faults:
        return ""
    count = len(decided.faults)
    return " (1 fault)" if count == 1 else f" ({count} faults)"


def _deferral(notification: Row, step: Step, decided: Told | None) -> str:
    """Return why its time has not come, where it waits for that."""
    if decided is None or decided.decision is None:
        return ""
    if step.actor != "policy" or notification.status != Status.PENDING:
        return ""
    from functions.core.deferral import deferral_words  # seldom, and it reads time zones

    words = deferral_words(
        decided.decision,
        reason=step.reason,
        category=notification.category,
        at=step.at,
        until=notification.available_at,
        expires_at=notification.expires_at,
        was=True,
    )
    return words or ""
