"""What was learnt or tried and moved nothing: it stands in no transition, and explains as much."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from functions.core.evidence import Rank
from functions.core.evidence_words import attempt_words, receipt_words, scope_words, why_unmade
from functions.core.history import Attempt, Dossier, History, WeighedReceipt
from functions.core.states import Status
from functions.core.timeline import Entry, numbers_of, open_at

_RANKS: dict[str, Rank] = {
    Status.SUBMITTED: Rank.ACCEPTED,
    Status.FAILED: Rank.SOFT_FAILURE,
    Status.DELIVERED: Rank.DELIVERED,
}
_ENDED_BY_US = frozenset({Status.CANCELLED, Status.SUPPRESSED})


@dataclass(frozen=True, slots=True)
class Course:
    """Where the notification was at any time."""

    entries: Sequence[Entry]

    def status_at(self, time: datetime) -> str:
        status = self.entries[0].to_status
        for entry in self.entries:
            if entry.at > time:
                break
            status = entry.to_status
        return status

    def is_ended_by_us_at(self, time: datetime) -> bool:
        """Whether it had been ended as never submitted: what a report suppresses had been."""
        last = self.entries[0]
        for entry in self.entries:
            if entry.at > time:
                break
            last = entry if entry.to_status != last.to_status else last
        return last.to_status in _ENDED_BY_US and last.receipt_id is None


def remarks(dossier: Dossier, entries: Sequence[Entry]) -> list[Entry]:
    """Return an entry for each attempt, report and command that none of ``entries`` tells."""
    course = Course(entries)
    return [
        *_erasure(dossier, course),
        *_attempts(dossier.history, course),
        *_reports(dossier.history, course),
        *_actions(dossier, course),
    ]


def with_fates(history: History, entries: Sequence[Entry]) -> list[Entry]:
    """Return ``entries`` with what each report meant for the address, where it meant something."""
    fates = {receipt.id: _fate_of_address(receipt) for receipt in history.receipts}
    return [
        dataclasses.replace(entry, sentence=f"{entry.sentence} {fate}")
        if entry.receipt_id and (fate := fates.get(entry.receipt_id))
        else entry
        for entry in entries
    ]


def _fate_of_address(receipt: WeighedReceipt) -> str:
    if not receipt.applied:
        return ""
    if receipt.complaint:
        return "The recipient complained: the address is suppressed from now on."
    if receipt.address_at_fault:
        return "The address is at fault and suppressed from now on."
    return ""


def _remark(
    at: datetime,
    actor: str,
    status: str,
    sentence: str,
    *,
    by: str | None = None,
    attempt_id: UUID | None = None,
    receipt_id: UUID | None = None,
) -> Entry:
    return Entry(
        at=at,
        actor=actor,
        by=by,
        from_status=status,
        to_status=status,
        reason=None,
        attempt_id=attempt_id,
        receipt_id=receipt_id,
        sentence=sentence,
    )


def _erasure(dossier: Dossier, course: Course) -> list[Entry]:
    """What was erased when it had ended already, or is decided by evidence still."""
    erased_at = dossier.decided.erased_at
    told = any(
        step.actor == "client" and step.reason == "erased" for step in dossier.history.transitions
    )
    if erased_at is None or told:
        return []
    return [
        _remark(
            erased_at,
            "client",
            course.status_at(erased_at),
            "The recipient was erased, as the organization asked: neither their address nor its "
            "words are kept. It moved nothing.",
        )
    ]


def _attempts(history: History, course: Course) -> list[Entry]:
    """Attempts that were closed without a change: something else had decided already."""
    told = {step.attempt_id for step in history.transitions if step.receipt_id is None}
    numbers = numbers_of(history.attempts)
    return [
        _remark(
            attempt.finished_at,
            "sweeper" if attempt.code == "lease_expired" else "sender",
            status := course.status_at(attempt.finished_at),
            f"{attempt_words(numbers[attempt.id], attempt)}{_came_to(attempt)}. It moved nothing: "
            f"the notification was {status} by then.",
            attempt_id=attempt.id,
        )
        for attempt in history.attempts
        if attempt.finished_at is not None and attempt.id not in told
    ]


def _came_to(attempt: Attempt) -> str:
    match attempt.outcome:
        case None:
            return ""
        case "unknown":
            return ", so it may have been accepted"
        case outcome:
            about = "" if why_unmade(attempt) else scope_words(attempt.scope)
            return f", which counts as {outcome}{about}"


def _reports(history: History, course: Course) -> list[Entry]:
    told = {step.receipt_id for step in history.transitions}
    known = 0
    entries: list[Entry] = []
    for receipt in sorted(history.receipts, key=lambda one: one.received_at):
        if receipt.id not in told:
            status = course.status_at(receipt.received_at)
            words = receipt_words(
                receipt,
                at=receipt.received_at,
                opened=open_at(receipt.received_at, history.attempts),
            )
            before = max(known, _RANKS.get(status, Rank.NONE))
            ended = course.is_ended_by_us_at(receipt.received_at)
            why = _why_nothing_moved(receipt, status, before, ended_by_us=ended)
            sentence = f"{words}. {why}"
            entries.append(
                _remark(receipt.received_at, "provider", status, sentence, receipt_id=receipt.id)
            )
        if receipt.applied:
            known = max(known, receipt.evidence_rank)
    return entries


def _why_nothing_moved(
    receipt: WeighedReceipt, status: str, known: int, *, ended_by_us: bool
) -> str:
    if not receipt.applied:
        return "It names another recipient, so it changes nothing."
    if receipt.evidence_rank == Rank.NONE:
        return "It says nothing of delivery, so it is kept and changes nothing."
    if ended_by_us:
        return (
            f"The notification was {status}, with nothing submitted as far as is known: the report "
            "is kept and counted, and changes nothing."
        )
    if receipt.evidence_rank < known:
        return "Stronger evidence was known, so it changes nothing."
    if (
        status not in _RANKS
    ):  # or it would have moved: it was weighed late, or beside a stronger one
        return "By the time it was weighed as much was known, so it changes nothing."
    if receipt.evidence_rank > known:
        return f"It is stronger evidence of what it was already: {status}."
    return "As much was known, so it changes nothing."


def _actions(dossier: Dossier, course: Course) -> list[Entry]:
    told = {step.operator_action_id for step in dossier.history.transitions}
    return [
        _remark(
            action.at,
            "operator",
            course.status_at(action.at),
            f"{action.actor} gave the command {action.command}, which moved nothing here.",
            by=action.actor,
        )
        for action in dossier.operator_actions
        if action.id not in told
    ]
