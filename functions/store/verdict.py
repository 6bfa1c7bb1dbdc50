"""A stored verdict, and what the policy would be told if it were asked now: nothing is changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row, tuple_row

from functions.core.policy import Recipient
from functions.store.browse import SAME_MOMENT
from functions.store.connection import Database
from functions.store.contact_fact import SuppressedPoint, suppressed_points_of
from functions.store.decided import Decided, decided_of
from functions.store.policy import Asked, recipients_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A notification as the policy reads it."""

    id: UUID
    organization_id: UUID
    status: str
    channel: str
    channels: list[str] | None
    category: str
    stream: str
    priority: str
    recipient_id: str | None
    expires_at: datetime | None
    in_doubt: int
    contact_hash: bytes | None
    locale: str | None
    had_attempt: bool
    is_erased: bool
    is_over: bool
    """Nothing more is sent of it by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A notification with what was decided of it (the last verdict against it was made ``at``, for
    ``reason``), and what is known by now of its recipient, by channel that it may go by."""

    subject: Subject
    decided: Decided
    at: datetime | None
    reason: str | None
    recipients: Mapping[str, Recipient | None]
    suppressed_points: Sequence[SuppressedPoint]
    now: datetime


READ_SUBJECT = """
    SELECT id, organization_id, status, channel, channels, category, stream, priority, recipient_id,
           expires_at, in_doubt, contact_hash, locale,
           key_first_used_at IS NOT NULL AS had_attempt, erased_at IS NOT NULL AS is_erased,
           final_at IS NOT NULL OR status = 'dead' AS is_over
      FROM notifications
     WHERE id = %(notification_id)s
"""

# The verdicts that are stored as transitions are those against it.
READ_LAST = """
    SELECT at, reason, clock_timestamp()
      FROM (SELECT 1) one
      LEFT JOIN LATERAL (
           SELECT at, reason
             FROM transitions
            WHERE notification_id = %(notification_id)s AND actor IN ('policy', 'claim')
              AND from_status = 'leased'
            ORDER BY id DESC LIMIT 1) last ON true
"""


def read_judged(database: Database, *, notification_id: UUID) -> Judged | None:
    """Return what the policy said and would be told now; None when there is no such notification.

    Of one moment: what is compared must not move meanwhile.
    """
    which = {"notification_id": notification_id}

    def read(connection: psycopg.Connection) -> Judged | None:
        connection.execute(SAME_MOMENT)
        with (
            connection.cursor(row_factory=class_row(Subject)) as subjects,
            connection.cursor(row_factory=tuple_row) as rows,
        ):
            subject = subjects.execute(READ_SUBJECT, which).fetchone()
            if subject is None:
                return None
            ((at, reason, now),) = rows.execute(READ_LAST, which).fetchall()
        channels = subject.channels or [subject.channel]
        asked = [] if subject.recipient_id is None else [_asked(subject, one) for one in channels]
        known = recipients_of(connection, asked) or [None] * len(channels)
        return Judged(
            subject=subject,
            decided=decided_of(connection, notification_id),
            at=at,
            reason=reason,
            recipients=dict(zip(channels, known, strict=True)),
            suppressed_points=suppressed_points_of(connection, notification_id),
            now=now,
        )

    return database.run(read)


def _asked(subject: Subject, channel: str) -> Asked:
    return Asked(
        organization_id=subject.organization_id,
        recipient_id=subject.recipient_id or "",
        channel=channel,
        category=subject.category,
    )
