"""Read back what became of notifications; every statement names the organization."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row, scalar_row

from functions.core.errors import Fault
from functions.core.states import Reason
from functions.store.connection import Database
from functions.store.request import faults_of, repeats_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A notification as its organization may see it."""

    id: UUID
    organization_id: UUID
    batch_id: UUID | None
    batch_index: int | None
    status: str
    reason: str | None
    channel: str
    recipient: str | None
    recipient_id: str | None
    content: Any
    priority: str
    category: str
    event_id: str | None
    reference: str | None
    metadata: dict[str, str]
    send_at: datetime | None
    expires_at: datetime | None
    available_at: datetime
    """Of a parent: when its first child was due."""
    attempts_spent: int
    max_attempts: int
    lease_number: int
    lease_until: datetime | None
    key_epoch: int
    created_at: datetime
    updated_at: datetime
    final_at: datetime | None
    discarded_at: datetime | None
    next_check_at: datetime | None
    decide_at: datetime | None
    polls: int
    provider: str | None
    in_doubt: int
    starts: int
    evidence_rank: int
    submitted_at: datetime | None
    complained: bool
    hold_id: UUID | None
    parent_id: UUID | None
    template_name: str | None
    template_version: int | None
    next_step_at: datetime | None
    """Of a parent: when its next child is started, if nothing else is heard."""
    channels: list[str] | None
    """Of a parent: its candidates, in order."""


# A parent is never due itself: shown is when its first child was.
READ_NOTIFICATION = """
    SELECT id, organization_id, batch_id, batch_index, status, reason, channel, recipient,
           recipient_id, content, priority, category, event_id, reference, metadata, send_at,
           expires_at,
           CASE WHEN channels IS NULL THEN available_at ELSE eligible_at END AS available_at,
           attempts_spent, max_attempts, lease_number, lease_until, key_epoch, created_at,
           updated_at, final_at, discarded_at, next_check_at, decide_at, polls, provider,
           in_doubt, starts, evidence_rank, submitted_at, complained, hold_id, parent_id,
           template_name, template_version, channels, next_step_at
      FROM notifications
     WHERE organization_id = %(organization_id)s
       AND id = %(notification_id)s
"""


def read_notification(
    connection: psycopg.Connection, *, organization_id: UUID, notification_id: UUID
) -> Notification | None:
    """Return the notification, as part of the caller's transaction; None when it is not theirs."""
    parameters = {"organization_id": organization_id, "notification_id": notification_id}
    with connection.cursor(row_factory=class_row(Notification)) as cursor:
        return cursor.execute(READ_NOTIFICATION, parameters).fetchone()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    id: UUID
    lease_number: int
    provider: str
    started_at: datetime
    finished_at: datetime | None
    outcome: str | None
    reference: str | None
    http_status: int | None
    code: str | None
    detail: str | None
    retry_after_seconds: int | None
    scope: str | None
    settled: str | None
    """Who settled an unknown outcome as not accepted, if anybody did."""


READ_ATTEMPTS = """
    SELECT id, lease_number, provider, started_at, finished_at, outcome, reference, http_status,
           code, detail, retry_after_seconds, scope, settled
      FROM attempts
     WHERE notification_id = %(notification_id)s
     ORDER BY lease_number
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    id: UUID
    received_at: datetime
    occurred_at: datetime
    type: str
    reference: str | None
    reason: str | None
    permanent: bool
    applied: bool
    evidence_rank: int
    complaint: bool
    address_at_fault: bool


READ_RECEIPTS = """
    SELECT id, received_at, occurred_at, type, reference, reason, permanent, applied,
           evidence_rank, complaint, address_at_fault
      FROM receipts
     WHERE notification_id = %(notification_id)s
     ORDER BY id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    at: datetime
    actor: str
    from_status: str
    to_status: str
    reason: str | None
    lease_number: int | None
    attempt_id: UUID | None
    receipt_id: UUID | None
    operator_action_id: UUID | None


READ_TRANSITIONS = """
    SELECT at, actor, from_status, to_status, reason, lease_number, attempt_id, receipt_id,
           operator_action_id
      FROM transitions
     WHERE notification_id = %(notification_id)s
     ORDER BY id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A notification and everything that happened to it."""

    notification: Notification
    attempts: list[Attempt]
    receipts: list[Receipt]
    transitions: list[Transition]
    children: list[UUID]
    """Of a parent, in order."""
    faults: list[Fault]
    """Of what was asked for by SQL and is not valid."""


READ_CHILDREN = """
    SELECT id FROM notifications WHERE parent_id = %(notification_id)s ORDER BY candidate, id
"""

# The statements tell one story: they must see the same moment.
SAME_MOMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"


def read_history(
    database: Database, *, organization_id: UUID, notification_id: UUID
) -> History | None:
    """Return the notification with everything that happened to it; None if not theirs.

    The id of a request that repeated an event leads to the notification that was first.
    """

    def work(connection: psycopg.Connection) -> History | None:
        connection.execute(SAME_MOMENT)
        found = history_of(
            connection, organization_id=organization_id, notification_id=notification_id
        )
        if found is not None or (first := repeats_of(connection, notification_id)) is None:
            return found
        return history_of(connection, organization_id=organization_id, notification_id=first)

    return database.run(work)


def history_of(
    connection: psycopg.Connection, *, organization_id: UUID, notification_id: UUID
) -> History | None:
    """Return the history, as part of the caller's transaction; None when it is not theirs."""
    notification = read_notification(
        connection, organization_id=organization_id, notification_id=notification_id
    )
    if notification is None:
        return None
    # The id is known to be this organization's: those below need no further predicate.
    parameters = {"notification_id": notification_id}
    children: list[UUID] = []
    if notification.channels is not None:
        with connection.cursor(row_factory=scalar_row) as cursor:
            children = cursor.execute(READ_CHILDREN, parameters).fetchall()
    with (
        connection.cursor(row_factory=class_row(Attempt)) as attempts,
        connection.cursor(row_factory=class_row(Receipt)) as receipts,
        connection.cursor(row_factory=class_row(Transition)) as transitions,
    ):
        return History(
            notification=notification,
            attempts=attempts.execute(READ_ATTEMPTS, parameters).fetchall(),
            receipts=receipts.execute(READ_RECEIPTS, parameters).fetchall(),
            transitions=transitions.execute(READ_TRANSITIONS, parameters).fetchall(),
            children=children,
            faults=(
                faults_of(connection, notification_id)
                if notification.reason == Reason.INVALID
                else []
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a list is narrowed to; None is no bound. Ids order by time, so times are id bounds."""

    status: list[str] | None = None
    channel: list[str] | None = None
    batch_id: UUID | None = None
    event_id: str | None = None
    recipient_id: str | None = None
    reference: str | None = None
    first_id: UUID | None = None
    """Inclusive."""
    end_id: UUID | None = None
    """Exclusive."""


# Planned for the values at hand at each call (prepare=False): an absent filter folds away, and an
# event or a batch gets the index that finds it. Otherwise the organization stands as a range: were
# it an equality, the primary key would give the order too, and the planner might read through every
# newer row of every other organization.
LIST_NOTIFICATIONS = """
    SELECT id, organization_id, batch_id, batch_index, status, reason, channel, recipient,
           recipient_id, NULL AS content, priority, category, event_id, reference, metadata,
           send_at, expires_at,
           CASE WHEN channels IS NULL THEN available_at ELSE eligible_at END AS available_at,
           attempts_spent, max_attempts, lease_number, lease_until, key_epoch, created_at,
           updated_at, final_at, discarded_at, next_check_at, decide_at, polls, provider,
           in_doubt, starts, evidence_rank, submitted_at, complained, hold_id, parent_id,
           template_name, template_version, channels, next_step_at
      FROM notifications
     WHERE organization_id >= %(organization_id)s
       AND organization_id <= %(organization_id)s
       AND (%(status)s::text[] IS NULL OR status = ANY(%(status)s::text[]))
       AND (%(channel)s::text[] IS NULL OR channel = ANY(%(channel)s::text[]))
       AND (%(event_id)s::text IS NULL
            OR organization_id = %(organization_id)s AND event_id = %(event_id)s)
       AND (%(recipient_id)s::text IS NULL OR recipient_id = %(recipient_id)s)
       AND (%(reference)s::text IS NULL OR reference = %(reference)s)
       AND (%(first_id)s::uuid IS NULL OR id >= %(first_id)s)
       AND (%(end_id)s::uuid IS NULL OR id < %(end_id)s)
       AND (%(after)s::uuid IS NULL OR id < %(after)s)
       AND (%(batch_id)s::uuid IS NULL
            OR organization_id = %(organization_id)s AND id = ANY(ARRAY(
               SELECT unnest(notification_ids)
                 FROM batches
                WHERE id = %(batch_id)s AND organization_id = %(organization_id)s)))
     ORDER BY organization_id DESC, id DESC
     LIMIT %(limit)s
"""


def list_notifications(
    database: Database,
    *,
    organization_id: UUID,
    filters: Filters,
    after: UUID | None,
    limit: int,
) -> list[Notification]:
    """Return at most ``limit`` notifications older than ``after``, newest first, no content."""
    parameters = {
        "organization_id": organization_id,
        "status": filters.status,
        "channel": filters.channel,
        "batch_id": filters.batch_id,
        "event_id": filters.event_id,
        "recipient_id": filters.recipient_id,
        "reference": filters.reference,
        "first_id": filters.first_id,
        "end_id": filters.end_id,
        "after": after,
        "limit": limit,
    }

    def work(connection: psycopg.Connection) -> list[Notification]:
        with connection.cursor(row_factory=class_row(Notification)) as cursor:
            return cursor.execute(LIST_NOTIFICATIONS, parameters, prepare=False).fetchall()

    return database.run(work)
