"""What was decided of a notification and from what, and the notifications that belong to it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row, dict_row

from functions.store.connection import Database
from functions.store.invalid import asked_of
from functions.store.request import faults_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A notification by one of several channels, or the one that has those; ``place`` is from 0."""

    id: UUID
    place: int | None
    channel: str
    status: str
    reason: str | None
    created_at: datetime
    available_at: datetime
    expires_at: datetime | None
    lease_until: datetime | None
    next_check_at: datetime | None
    discarded_at: datetime | None
    hold_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A notification as far as it was asked for by reference, and decided."""

    recipient_id: str | None
    template_name: str | None
    template_version: int | None
    erased_at: datetime | None
    verdict: str | None
    policy_version: int | None
    decision: dict[str, Any] | None
    locale: str | None
    has_contact_point: bool
    addresses: list[str]
    place: int | None
    channels: list[str] | None
    next_step_at: datetime | None
    parent: Candidate | None
    children: list[Candidate]
    faults: list[dict[str, str]]


READ_DECIDED = """
    SELECT recipient_id, template_name, template_version, erased_at, verdict, policy_version,
           decision, locale, contact_hash IS NOT NULL AS has_contact_point, candidate AS place,
           channels, next_step_at,
           ARRAY(SELECT address
                   FROM contact_points p
                  WHERE p.organization_id = n.organization_id AND p.recipient_id = n.recipient_id)
           AS addresses
      FROM notifications n
     WHERE id = %(notification_id)s
"""

READ_PARENT = """
    SELECT p.id, p.candidate AS place, p.channels[p.candidate + 1] AS channel, p.status, p.reason,
           p.created_at, p.available_at, p.expires_at, p.lease_until, p.next_check_at,
           p.discarded_at, p.hold_id
      FROM notifications n
      JOIN notifications p ON p.id = n.parent_id
     WHERE n.id = %(notification_id)s
"""

READ_CHILDREN = """
    SELECT id, candidate AS place, channel, status, reason, created_at, available_at, expires_at,
           lease_until, next_check_at, discarded_at, hold_id
      FROM notifications
     WHERE parent_id = %(notification_id)s
     ORDER BY candidate
"""


def decided_of(connection: psycopg.Connection, notification_id: UUID) -> Decided:
    """Return what was decided of a notification that there is, as part of the transaction."""
    which = {"notification_id": notification_id}
    with (
        connection.cursor(row_factory=dict_row) as rows,
        connection.cursor(row_factory=class_row(Candidate)) as candidates,
    ):
        (row,) = rows.execute(READ_DECIDED, which).fetchall()
        # Of an invalid request the row itself has nothing: it refers to whatever it refers to.
        for asked in asked_of(connection, [notification_id]).values():
            row |= {"recipient_id": asked.recipient_id, "template_name": asked.template_name}
        return Decided(
            **row,
            parent=candidates.execute(READ_PARENT, which).fetchone(),
            children=candidates.execute(READ_CHILDREN, which).fetchall(),
            faults=[
                {"pointer": one.pointer, "code": one.code, "detail": one.detail}
                for one in faults_of(connection, notification_id)
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request by SQL that has no notification of its own, or none yet."""

    repeats: UUID | None
    """The notification whose event it repeats."""
    is_waiting: bool


FIND_REQUEST = """
    SELECT repeats, drained_at IS NULL AS is_waiting FROM requests WHERE id = %(id)s
"""


def find_request(database: Database, *, id: UUID) -> Request | None:
    """Return what there is about the request ``id``; None when there is none."""

    def find(connection: psycopg.Connection) -> Request | None:
        with connection.cursor(row_factory=class_row(Request)) as cursor:
            return cursor.execute(FIND_REQUEST, {"id": id}).fetchone()

    return database.run(find)
