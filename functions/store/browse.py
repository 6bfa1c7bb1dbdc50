"""Read back what became of notifications; every statement names the organization."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core.errors import Fault
from functions.core.states import Reason
from functions.store.chain_story import Delivery, deliveries_of
from functions.store.connection import Database
from functions.store.invalid import asked_of
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
    """Of a parent: that of the child it shows."""
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
    place: int | None
    """Which candidate it is, from 0; of a parent: which one it shows."""


# A parent is never due itself: shown is when its first child was. Its channel is that of the child
# which it is like; the column keeps the first of all, for its event.
READ_NOTIFICATION = """
    SELECT id, organization_id, batch_id, batch_index, status, reason,
           coalesce(channels[candidate + 1], channel) AS channel, recipient,
           recipient_id, content, priority, category, event_id, reference, metadata, send_at,
           expires_at,
           CASE WHEN channels IS NULL THEN available_at ELSE eligible_at END AS available_at,
           attempts_spent, max_attempts, lease_number, lease_until, key_epoch, created_at,
           updated_at, final_at, discarded_at, next_check_at, decide_at, polls, provider,
           in_doubt, starts, evidence_rank, submitted_at, complained, hold_id, parent_id,
           template_name, template_version, channels, candidate AS place, next_step_at
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
        found = cursor.execute(READ_NOTIFICATION, parameters).fetchall()
    return next(iter(as_asked(connection, found)), None)


def as_asked(
    connection: psycopg.Connection, notifications: Sequence[Notification]
) -> list[Notification]:
    """Return the notifications, those of invalid requests with what was asked for."""
    invalid = [one.id for one in notifications if one.reason == Reason.INVALID]
    asked = asked_of(connection, invalid)
    return [
        dataclasses.replace(
            one, event_id=asked[one.id].event_id, recipient_id=asked[one.id].recipient_id
        )
        if one.id in asked
        else one
        for one in notifications
    ]


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
class Child:
    """A candidate of a parent, as far as the parent's story needs it."""

    id: UUID
    place: int | None
    channel: str
    status: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A notification and everything that happened to it."""

    notification: Notification
    attempts: list[Attempt]
    receipts: list[Receipt]
    transitions: list[Transition]
    children: list[Child]
    """Of a parent, in order."""
    deliveries: list[Delivery]
    """Of a parent: which of them was delivered when."""
    faults: list[Fault]
    """Of what was asked for by SQL and is not valid."""


READ_CHILDREN = """
    SELECT id, candidate AS place, channel, status, created_at
      FROM notifications
     WHERE parent_id = %(notification_id)s
     ORDER BY candidate, id
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
    children: list[Child] = []
    deliveries: list[Delivery] = []
    if notification.channels is not None:
        with connection.cursor(row_factory=class_row(Child)) as cursor:
            children = cursor.execute(READ_CHILDREN, parameters).fetchall()
        deliveries = deliveries_of(connection, notification_id)
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
            deliveries=deliveries,
            faults=(
                faults_of(connection, notification_id)
                if notification.reason == Reason.INVALID
                else []
            ),
        )
