"""Withdraw notifications that have not been handed over, one or a whole batch.

What decides are columns of the row: after waiting for its lock, READ COMMITTED re-checks the row
and nothing else, so a sub-select on open attempts would answer from an old snapshot (it did: 200
with an attempt open). After a 200 no provider call is made, for good.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core.errors import NotFound, TooLate
from functions.core.states import Status
from functions.store.browse import History, history_of
from functions.store.connection import Database

CANCEL = """
    WITH cancelled AS (
        UPDATE notifications n
           SET status = 'cancelled', reason = NULL, lease_until = NULL,
               final_at = coalesce(%(now)s, clock_timestamp()),
               updated_at = coalesce(%(now)s, clock_timestamp())
         WHERE n.organization_id = %(organization_id)s
           AND n.id = %(notification_id)s
           AND n.status IN ('pending', 'leased')
           AND n.attempt_id IS NULL
           AND n.in_doubt = 0
           AND n.evidence_rank = 0
        RETURNING n.id, n.organization_id, OLD.status AS from_status, NEW.final_at AS at
    )
    INSERT INTO transitions (notification_id, organization_id, at, actor, from_status, to_status)
    SELECT id, organization_id, at, 'client', from_status, 'cancelled' FROM cancelled
"""


def cancel_notification(
    database: Database,
    *,
    organization_id: UUID,
    notification_id: UUID,
    now: datetime | None = None,
) -> History:
    """Cancel the notification, or find it cancelled already; return it with its history.

    Raises NotFound, and TooLate when an attempt is open or one may have been accepted.
    """
    parameters = {
        "organization_id": organization_id,
        "notification_id": notification_id,
        "now": now,
    }

    def work(connection: psycopg.Connection) -> History:
        connection.execute(CANCEL, parameters)
        history = history_of(
            connection, organization_id=organization_id, notification_id=notification_id
        )
        if history is None:
            raise NotFound
        if history.notification.status != Status.CANCELLED:
            raise TooLate(history.notification.status)
        return history

    return database.run(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCancelled:
    """How many of the batch's notifications are withdrawn now, never, or were before."""

    cancelled: int
    too_late: int
    already_cancelled: int


# Locked in id order like every set writer, and in a statement of its own: the next one decides on
# rows as they are once nobody else can move them.
LOCK_BATCH = """
    SELECT n.id
      FROM notifications n
     WHERE n.organization_id = %(organization_id)s
       AND n.id = ANY(ARRAY(
               SELECT unnest(notification_ids)
                 FROM batches
                WHERE organization_id = %(organization_id)s AND id = %(batch_id)s))
     ORDER BY n.id
       FOR UPDATE
"""

CANCEL_LOCKED = """
    WITH cancelled AS (
        UPDATE notifications n
           SET status = 'cancelled', reason = NULL, lease_until = NULL,
               final_at = t.at, updated_at = t.at
          FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE n.organization_id = %(organization_id)s
           AND n.id = ANY(%(ids)b::uuid[])
           AND n.status IN ('pending', 'leased')
           AND n.attempt_id IS NULL
           AND n.in_doubt = 0
           AND n.evidence_rank = 0
        RETURNING n.id, n.organization_id, OLD.status AS from_status, t.at
    ),
    recorded AS (
        INSERT INTO transitions
               (notification_id, organization_id, at, actor, from_status, to_status)
        SELECT id, organization_id, at, 'client', from_status, 'cancelled' FROM cancelled
    ),
    before AS ( -- the snapshot of this statement: as the rows were when they were locked
        SELECT count(*) AS number, count(*) FILTER (WHERE status = 'cancelled') AS already
          FROM notifications
         WHERE organization_id = %(organization_id)s
           AND id = ANY(%(ids)b::uuid[])
    )
    SELECT c.number::int AS cancelled,
           (before.number - before.already - c.number)::int AS too_late,
           before.already::int AS already_cancelled
      FROM before
     CROSS JOIN (SELECT count(*) AS number FROM cancelled) c
"""

HAS_BATCH = """
    SELECT FROM batches WHERE organization_id = %(organization_id)s AND id = %(batch_id)s
"""


def cancel_batch(
    database: Database, *, organization_id: UUID, batch_id: UUID, now: datetime | None = None
) -> BatchCancelled:
    """Cancel whatever of the batch can still be cancelled; raises NotFound."""
    parameters = {"organization_id": organization_id, "batch_id": batch_id, "now": now}

    def work(connection: psycopg.Connection) -> BatchCancelled:
        if connection.execute(HAS_BATCH, parameters).fetchone() is None:
            raise NotFound
        ids = [row[0] for row in connection.execute(LOCK_BATCH, parameters)]
        with connection.cursor(row_factory=class_row(BatchCancelled)) as cursor:
            cursor.execute(CANCEL_LOCKED, {**parameters, "ids": ids})
            (counted,) = cursor.fetchall()
            return counted

    return database.run(work)
