"""What happened to a notification, in order, each step with a sentence a person understands.

Stored are the transitions that nothing else tells. Acceptance follows from the row itself, and a
claim from what its lease led to: an attempt, or a lease given back (so its time is the latest it
can have been; an attempt follows its claim within seconds).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID

from functions.core.states import Reason, Status


class Step(Protocol):
    """A stored transition, as read."""

    @property
    def at(self) -> datetime: ...
    @property
    def actor(self) -> str: ...
    @property
    def from_status(self) -> str: ...
    @property
    def to_status(self) -> str: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def lease_number(self) -> int | None: ...
    @property
    def attempt_id(self) -> UUID | None: ...
    @property
    def receipt_id(self) -> UUID | None: ...


class Call(Protocol):
    """An attempt, as read."""

    @property
    def id(self) -> UUID: ...
    @property
    def lease_number(self) -> int: ...
    @property
    def started_at(self) -> datetime: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the timeline; ``from_status`` is None for the first."""

    at: datetime
    actor: str
    from_status: str | None
    to_status: str
    reason: str | None
    attempt_id: UUID | None
    receipt_id: UUID | None
    sentence: str


def timeline(
    *,
    accepted_at: datetime,
    due_at: datetime,
    current_lease: tuple[int, datetime] | None,
    attempts: Sequence[Call],
    transitions: Sequence[Step],
) -> list[Entry]:
    """Return every step in order of time, acceptance first.

    ``due_at`` is when it was first to be sent; ``current_lease`` the number of a live lease and the
    latest time it can have been taken.
    """
    entries = [_accepted(accepted_at, due_at)]
    entries += _claims(current_lease, attempts, transitions)
    entries += [
        Entry(
            at=step.at,
            actor=step.actor,
            from_status=step.from_status,
            to_status=step.to_status,
            reason=step.reason,
            attempt_id=step.attempt_id,
            receipt_id=step.receipt_id,
            sentence=sentence(step),
        )
        for step in transitions
    ]
    # Stable: at one instant a claim stands before what its lease led to.
    return entries[:1] + sorted(entries[1:], key=lambda entry: entry.at)


def _accepted(accepted_at: datetime, due_at: datetime) -> Entry:
    moment = due_at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    when = "at once" if due_at <= accepted_at else f"from {moment} on"
    return Entry(
        at=accepted_at,
        actor="client",
        from_status=None,
        to_status=Status.PENDING,
        reason=None,
        attempt_id=None,
        receipt_id=None,
        sentence=f"The request was accepted and stored; it is to be sent {when}.",
    )


def _claims(
    current_lease: tuple[int, datetime] | None,
    attempts: Sequence[Call],
    transitions: Sequence[Step],
) -> list[Entry]:
    """Return one entry per lease: what the claim did, at the latest time it can have been."""
    latest: dict[int, datetime] = {}
    if current_lease is not None:
        latest[current_lease[0]] = current_lease[1]
    for step in transitions:
        if step.from_status == Status.LEASED and step.lease_number is not None:
            latest[step.lease_number] = min(step.at, latest.get(step.lease_number, step.at))
    opened = {attempt.lease_number: attempt for attempt in attempts}
    latest.update({number: attempt.started_at for number, attempt in opened.items()})
    return [
        Entry(
            at=at,
            actor="claim",
            from_status=Status.PENDING,
            to_status=Status.LEASED,
            reason=None,
            attempt_id=opened[number].id if number in opened else None,
            receipt_id=None,
            sentence=(
                f"It was taken up for sending (lease {number}) and handed to the provider."
                if number in opened
                else f"It was taken up for sending (lease {number})."
            ),
        )
        for number, at in sorted(latest.items())
    ]


def sentence(step: Step) -> str:
    """Return what a stored transition means, in one sentence."""
    specific = _BY_REASON.get((step.to_status, step.reason or ""))
    return specific or _plainly(step)


def _plainly(step: Step) -> str:
    to = Status(step.to_status)
    reason = f" ({step.reason})" if step.reason and step.reason != to else ""
    if to is Status.CANCELLED:
        return "It was cancelled before anything was sent."
    return f"{_BY_STATUS[to]}{reason}."


_BY_STATUS: dict[Status, str] = {
    Status.PENDING: "It goes back to waiting and will be tried again",
    Status.LEASED: "It was taken up for sending",
    Status.UNCERTAIN: "The outcome of the attempt is unknown; it is not repeated blindly",
    Status.SUBMITTED: "The provider accepted it; its delivery is not confirmed yet",
    Status.DELIVERED: "It was delivered",
    Status.FAILED: "The provider accepted it and then reported that it could not be delivered",
    Status.UNCONFIRMED: "It may have been accepted, but nothing confirms it; it is not sent again",
    Status.SUPPRESSED: "It was not sent: the recipient must not be contacted",
    Status.CANCELLED: "It was cancelled before anything was sent",
    Status.EXPIRED: "Its time to be sent passed before it could be sent",
    Status.DEAD: "It is held for a person to look at",
}

_BY_REASON: dict[tuple[str, str], str] = {
    (Status.PENDING, "transient"): (
        "The provider did not accept it for a passing reason; it will be tried again."
    ),
    (Status.PENDING, "throttled"): (
        "The provider asked to slow down; it will be tried again, and no attempt is counted."
    ),
    (Status.PENDING, "blocked"): (
        "Our account at the provider is blocked or misconfigured; it will be tried again, and no "
        "attempt is counted."
    ),
    (Status.PENDING, "unknown"): (
        "No usable answer came back; it will be repeated under the same key, which the provider "
        "recognises."
    ),
    (Status.PENDING, "not_dispatched"): (
        "It could not be handed to the queue; the lease was given back at once."
    ),
    (Status.PENDING, "lease_expired"): (
        "Nothing was heard of the lease in time; it goes back to waiting."
    ),
    (Status.PENDING, "paused"): "The channel is paused; it goes back to waiting.",
    (Status.UNCERTAIN, "lease_expired"): (
        "The sender vanished during the attempt, so its outcome is unknown; it is not repeated "
        "blindly."
    ),
    (Status.SUPPRESSED, Reason.SUPPRESSED): (
        "It was not sent: the recipient is on the suppression list."
    ),
    (Status.SUPPRESSED, Reason.REFUSED): (
        "The provider refused the address: opted out, or no longer valid."
    ),
    (Status.UNCONFIRMED, Reason.NO_RECEIPT_BY_CUTOFF): (
        "The provider accepted it and never reported what became of it; waiting ended."
    ),
    (Status.UNCONFIRMED, Reason.PROVIDER_GIVES_NO_RECEIPTS): (
        "The provider accepted it, and gives no reports of delivery."
    ),
    (Status.UNCONFIRMED, Reason.EXPIRED): (
        "Its time passed while an earlier attempt may have been accepted; it is not sent again."
    ),
    (Status.EXPIRED, Reason.EXPIRED): (
        "Its time to be sent passed before anything was accepted by a provider."
    ),
    (Status.DEAD, Reason.REJECTED): (
        "The provider rejected it for good; it is held for a person to look at."
    ),
    (Status.DEAD, Reason.BUDGET_SPENT): (
        "Every attempt it may have failed; it is held for a person to look at."
    ),
    (Status.DEAD, Reason.OUTCOME_UNKNOWN): (
        "An attempt may have been accepted and another could send it twice; it is held for a "
        "person to decide."
    ),
    (Status.DEAD, Reason.CRASH_LOOP): (
        "Senders that worked on it kept failing; it is held for a person to look at."
    ),
    (Status.DEAD, Reason.WAITED_TOO_LONG): (
        "The provider kept asking to wait for too long; it is held for a person to look at."
    ),
    (Status.DEAD, Reason.UNREADABLE): (
        "What is stored cannot be sent by its channel; it is held for a person to look at."
    ),
}
