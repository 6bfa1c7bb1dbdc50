"""Withdraw notifications that have not been handed over, one or a whole batch.

A notification by several channels is withdrawn with all its candidates, or not at all. Whatever
decides is locked first, and read by the next statement: a sub-select beside the lock would answer
from an old snapshot (it did: 200 with an attempt open). After a 200 no provider call is made, for
good.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core.errors import NotFound, TooLate
from functions.core.states import Status
from functions.store.browse import History, history_of
from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCancelled:
    """How many of the notifications are withdrawn now, never, or were before."""

    cancelled: int
    too_late: int
    already_cancelled: int


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

    def work(connection: psycopg.Connection) -> History:
        _cancel(connection, [notification_id], organization_id=organization_id, now=now)
        history = history_of(
            connection, organization_id=organization_id, notification_id=notification_id
        )
        if history is None:
            raise NotFound
        if history.notification.status != Status.CANCELLED:
            raise TooLate(history.notification.status)
        return history

    return database.run(work)


FIND_BATCH = """
    SELECT notification_ids
      FROM batches
     WHERE organization_id = %(organization_id)s AND id = %(batch_id)s
"""


def cancel_batch(
    database: Database, *, organization_id: UUID, batch_id: UUID, now: datetime | None = None
) -> BatchCancelled:
    """Cancel whatever of the batch can still be cancelled; raises NotFound."""
    parameters = {"organization_id": organization_id, "batch_id": batch_id}

    def work(connection: psycopg.Connection) -> BatchCancelled:
        batch = connection.execute(FIND_BATCH, parameters).fetchone()
        if batch is None:
            raise NotFound
        return _cancel(connection, batch[0], organization_id=organization_id, now=now)

    return database.run(work)


# In id order like every set writer: a child's id is greater than its parent's.
LOCK_WITH_CHILDREN = """
    SELECT channels IS NOT NULL
      FROM notifications
     WHERE organization_id = %(organization_id)s
       AND id = ANY(ARRAY(
           SELECT unnest(%(ids)b::uuid[])
           UNION ALL
           SELECT id FROM notifications WHERE parent_id = ANY(%(ids)b::uuid[])))
     ORDER BY id
       FOR UPDATE
"""

# named:     what was asked for, as it was when it was locked, and whether it can be withdrawn: of a
#            parent, whether any of its candidates still goes on and none may have been accepted.
# withdrawn: the children that wait with their parents. One that is withdrawn alone ends its chain,
#            when its parent is told. A parent may show a discarded one while an earlier one waits.
CANCEL = """
    WITH named AS MATERIALIZED (
        SELECT n.id, n.status,
               CASE WHEN n.channels IS NULL
                    THEN n.status IN ('pending', 'leased') AND n.attempt_id IS NULL
                         AND n.in_doubt = 0 AND n.evidence_rank = 0
                    ELSE n.status <> 'cancelled' AND NOT children.may_be_accepted
                         AND (n.status IN ('pending', 'uncertain') OR children.go_on)
                    END AS can_be
          FROM notifications n
         CROSS JOIN LATERAL (
               SELECT coalesce(bool_or(c.attempt_id IS NOT NULL OR c.in_doubt > 0
                                       OR c.evidence_rank > 0), false) AS may_be_accepted,
                      coalesce(bool_or(c.status IN ('pending', 'leased')), false) AS go_on
                 FROM notifications c
                WHERE c.parent_id = n.id AND n.channels IS NOT NULL) children
         WHERE n.organization_id = %(organization_id)s AND n.id = ANY(%(ids)b::uuid[])
    ),
    withdrawn AS (
        UPDATE notifications n
           SET status = 'cancelled', reason = NULL, lease_until = NULL, in_doubt = 0,
               next_step_at = NULL, discarded_at = NULL, final_at = t.at, updated_at = t.at
          FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE n.id = ANY(ARRAY(
               SELECT id FROM named WHERE can_be
               UNION ALL
               SELECT c.id
                 FROM named
                 JOIN notifications c ON c.parent_id = named.id
                WHERE named.can_be AND c.status IN ('pending', 'leased')))
        RETURNING n.id, n.organization_id, OLD.status AS from_status, t.at
    ),
    recorded AS (
        INSERT INTO transitions
               (notification_id, organization_id, at, actor, from_status, to_status)
        SELECT id, organization_id, at, 'client', from_status, 'cancelled' FROM withdrawn
    )
    SELECT count(*) FILTER (WHERE can_be)::int AS cancelled,
           count(*) FILTER (WHERE NOT can_be AND status <> 'cancelled')::int AS too_late,
           count(*) FILTER (WHERE status = 'cancelled')::int AS already_cancelled
      FROM named
"""


def _cancel(
    connection: psycopg.Connection,
    ids: Sequence[UUID],
    *,
    organization_id: UUID,
    now: datetime | None,
) -> BatchCancelled:
    """Cancel those of ``ids`` that can still be, as part of the caller's transaction."""
    parameters = {"organization_id": organization_id, "ids": list(ids), "now": now}
    locked = connection.execute(LOCK_WITH_CHILDREN, parameters).fetchall()
    if (True,) in locked:
        # A child may have been started while its parent was waited for; now none can be.
        connection.execute(LOCK_WITH_CHILDREN, parameters)
    with connection.cursor(row_factory=class_row(BatchCancelled)) as cursor:
        (counted,) = cursor.execute(CANCEL, parameters).fetchall()
        return counted
