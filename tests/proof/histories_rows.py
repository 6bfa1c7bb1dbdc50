"""What the database holds, as random histories look at it: plain rows, read by its owner.

Everything is read again after each step, in one round trip. The statements are ours and simple, so
that what they say does not depend on the product's.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import class_row

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A notification: what decides about it, and what it tells."""

    id: UUID
    organization_id: UUID
    channel: str
    recipient_hash: bytes
    category: str
    expires_at: datetime | None
    max_attempts: int
    status: str
    reason: str | None
    ready: bool
    available_at: datetime
    final_at: datetime | None
    discarded_at: datetime | None
    lease_number: int
    lease_until: datetime | None
    attempt_id: UUID | None
    attempts_spent: int
    in_doubt: int
    starts: int
    waiting_since: datetime | None
    provider: str | None
    key_epoch: int
    key_first_used_at: datetime | None
    evidence_rank: int
    evidence_at: datetime | None
    evidence_key: str | None
    submitted_at: datetime | None
    next_check_at: datetime | None
    decide_at: datetime | None
    complained: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    notification_id: UUID
    lease_number: int
    id: UUID
    provider: str
    started_at: datetime
    finished_at: datetime | None
    outcome: str | None
    evidence_rank: int
    reference: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A receipt as it was kept."""

    notification_id: UUID | None
    attempt_id: UUID | None
    event_key: str
    evidence_rank: int
    complaint: bool
    address_at_fault: bool
    recipient_hash: bytes | None
    occurred_at: datetime
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A stored transition."""

    notification_id: UUID
    from_status: str
    to_status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """What is known of an address: it is suppressed, or was lifted."""

    organization_id: UUID
    channel: str
    recipient_hash: bytes
    category: str | None
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything at one moment; nothing runs while it is read."""

    rows: Mapping[UUID, Row]
    attempts: Mapping[UUID, Sequence[Attempt]]
    receipts: Mapping[UUID, Sequence[Kept]]
    orphans: Sequence[Kept]
    moves: Mapping[UUID, Sequence[Move]]
    facts: Sequence[Fact]

    def attempt(self, id: UUID, token: UUID) -> Attempt | None:
        """Return the attempt ``token`` of a notification, None while there is none."""
        return next((one for one in self.attempts.get(id, ()) if one.id == token), None)

    def doubts(self, id: UUID) -> list[Attempt]:
        """Return the attempts of a notification whose outcome nobody knows."""
        return [one for one in self.attempts.get(id, ()) if one.outcome == "unknown"]


ROWS = """
    SELECT id, organization_id, channel, recipient_hash, category, expires_at, max_attempts,
           status, reason, ready, available_at, final_at, discarded_at, lease_number, lease_until,
           attempt_id, attempts_spent, in_doubt, starts, waiting_since, provider, key_epoch,
           key_first_used_at, evidence_rank, evidence_at, evidence_key, submitted_at,
           next_check_at, decide_at, complained
      FROM notifications
     ORDER BY id
"""
ATTEMPTS = """
    SELECT notification_id, lease_number, id, provider, started_at, finished_at, outcome,
           evidence_rank, reference
      FROM attempts
     ORDER BY notification_id, lease_number
"""
RECEIPTS = """
    SELECT notification_id, attempt_id, event_key, evidence_rank, complaint, address_at_fault,
           recipient_hash, occurred_at, reason
      FROM receipts
     ORDER BY id
"""
MOVES = "SELECT notification_id, from_status, to_status FROM transitions ORDER BY id"
FACTS = """
    SELECT organization_id, channel, recipient_hash, category, kind FROM suppressions ORDER BY id
"""


def read_snapshot(owner: psycopg.Connection) -> Snapshot:
    """Read everything there is."""
    with owner.pipeline():
        rows = _reading(owner, ROWS, Row)
        attempts = _reading(owner, ATTEMPTS, Attempt)
        receipts = _reading(owner, RECEIPTS, Kept)
        moves = _reading(owner, MOVES, Move)
        facts = _reading(owner, FACTS, Fact)
    kept = receipts.fetchall()
    return Snapshot(
        rows={row.id: row for row in rows.fetchall()},
        attempts=_by_notification(attempts.fetchall()),
        receipts=_by_notification([one for one in kept if one.notification_id]),
        orphans=[one for one in kept if one.notification_id is None],
        moves=_by_notification(moves.fetchall()),
        facts=facts.fetchall(),
    )


def _reading(owner: psycopg.Connection, statement: str, kind: type[T]) -> psycopg.Cursor[T]:
    cursor = owner.cursor(row_factory=class_row(kind), binary=True)
    return cursor.execute(statement.encode(), prepare=True)


R = TypeVar("R", Attempt, Kept, Move)


def _by_notification(rows: Sequence[R]) -> dict[UUID, list[R]]:
    found: defaultdict[UUID, list[R]] = defaultdict(list)
    for row in rows:
        if row.notification_id is not None:
            found[row.notification_id].append(row)
    return dict(found)
