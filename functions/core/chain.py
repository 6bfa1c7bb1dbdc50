"""Chains: a notification by several channels in order, of which the next one starts when the last
one came to nothing.

A parent is never sent itself. Each of its candidates is a notification of its own, made when it
starts. The parent shows the one that was delivered; else the newest that may still be, for an
earlier one can outlive it; else the last that came to an end.

The newest candidate is                                The next one starts
suppressed, failed, dead, withdrawn                    at once
pending, leased, uncertain, submitted, unconfirmed     when the time it has is over
delivered, cancelled, expired                          never

Never, too, when another candidate was delivered, when the parent was cancelled or erased or has
expired, and when there is no further channel. A candidate that waits when another is delivered is
withdrawn, if it provably was not sent: nobody shall be told twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from functions.core.states import Status

WITHDRAWN = "fallback_delivered"
"""Why a candidate is cancelled by its chain: another one was delivered first."""

STARTED, AFTER = "fallback_started", "fallback_after"
"""Why the next one starts: the last one ended, or its time is over."""

_CAME_TO_NOTHING = frozenset({Status.SUPPRESSED, Status.FAILED, Status.DEAD})
_STOPS = frozenset({Status.DELIVERED, Status.CANCELLED, Status.EXPIRED})
_LIVE = frozenset({Status.PENDING, Status.LEASED, Status.UNCERTAIN, Status.SUBMITTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A notification by several channels, as of the moment ``at``.

    ``is_cancelled``: by a client, and stays so; one that shows a cancelled candidate does not.
    """

    id: UUID
    status: str
    channel_count: int
    expires_at: datetime | None
    is_cancelled: bool
    is_erased: bool
    fallback_doubles: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A child of a parent; ``place`` counts from 0, and its time is over at ``next_at``."""

    id: UUID
    parent_id: UUID
    place: int
    status: str
    reason: str | None
    told_status: str | None
    """Where it stood when its parent was told of it last."""
    final_at: datetime | None
    attempt_id: UUID | None
    in_doubt: int
    evidence_rank: int
    complained: bool
    next_at: datetime

    @property
    def standing(self) -> str:
        """Where it stands in the eyes of its parent, which a lease does not concern."""
        return Status.PENDING if self.status == Status.LEASED else self.status

    @property
    def is_withdrawn(self) -> bool:
        return self.status == Status.CANCELLED and self.reason == WITHDRAWN

    @property
    def may_be_accepted(self) -> bool:
        return self.attempt_id is not None or self.in_doubt > 0 or self.evidence_rank > 0

    @property
    def is_unsent(self) -> bool:
        """It waits, and nothing of it may have been accepted."""
        return self.standing == Status.PENDING and not self.may_be_accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What comes next of a chain."""

    shown: Candidate
    """What the parent shows, unless the next candidate starts."""
    status: str
    """Of the parent."""
    starts: str | None
    """Why the next candidate starts, if it does."""
    place: int
    """Of the newest candidate, or of the one that starts."""
    next_at: datetime | None
    """When the next one starts, if nothing else is heard."""
    withdrawn: Sequence[Candidate]
    complained: bool
    doubles: int
    """How many candidates were delivered beyond the first, so far."""


def next_step(parent: Parent, candidates: Sequence[Candidate]) -> Step:
    """Return what comes next, by where the candidates are: the same until one of them moves, or the
    time of the newest is over."""
    delivered = [one for one in candidates if one.status == Status.DELIVERED]
    newest = max(candidates, key=lambda one: one.place)
    starts = next_at = None
    if not delivered and _may_start_after(newest, parent):
        if newest.status in _CAME_TO_NOTHING or newest.is_withdrawn:
            starts = STARTED
        elif newest.next_at <= parent.at:
            starts = AFTER
        else:
            next_at = newest.next_at
    shown = _shown(candidates, delivered)
    return Step(
        shown=shown,
        status=Status.PENDING if starts else _status_of(shown, goes_on=next_at is not None),
        starts=starts,
        place=newest.place + (starts is not None),
        next_at=next_at,
        withdrawn=[one for one in candidates if one.is_unsent] if delivered else [],
        complained=any(one.complained for one in candidates),
        doubles=max(parent.fallback_doubles, len(delivered) - 1),
    )


def _may_start_after(newest: Candidate, parent: Parent) -> bool:
    return (
        newest.place + 1 < parent.channel_count
        and (newest.status not in _STOPS or newest.is_withdrawn)
        and not (parent.is_cancelled or parent.is_erased)
        and (parent.expires_at is None or parent.expires_at > parent.at)
    )


def _shown(candidates: Sequence[Candidate], delivered: Sequence[Candidate]) -> Candidate:
    """Return the one delivered, of several the first that was known to be; else the newest that
    goes on, else the last.

    Of those that ended not one that gave way to another, whose delivery turned out to have failed;
    nor one that was cancelled where any may have been accepted: what shows cancelled was not sent.
    """
    if delivered:
        return min(delivered, key=lambda one: (one.final_at is None, one.final_at, one.place))
    unsent = not any(one.may_be_accepted for one in candidates)
    live = [one for one in candidates if one.status in _LIVE]
    ended = [
        one
        for one in candidates
        if one.status != Status.CANCELLED or (unsent and not one.is_withdrawn)
    ]
    return max(live or ended or candidates, key=lambda one: one.place)


def _status_of(shown: Candidate, *, goes_on: bool) -> str:
    """Return what a parent shows: never a lease, and no end while its chain goes on."""
    if shown.status == Status.UNCONFIRMED and goes_on:
        return Status.UNCERTAIN if shown.in_doubt else Status.SUBMITTED
    return shown.standing
