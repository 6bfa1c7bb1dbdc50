"""What a sender reads before an attempt, and the two ends that need no attempt at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core.states import MAX_STARTS
from functions.store.connection import Database
from functions.store.lock import lock_notifications


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A notification as its sender loads it; ``token`` is the id its attempt will carry."""

    id: UUID
    organization_id: UUID
    lease_number: int
    status: str
    channel: str
    recipient: str | None
    content: str
    """JSON as text: what one row's content does to its reader shall not touch its neighbours."""
    priority: str
    created_at: datetime
    key_epoch: int
    token: UUID

    @property
    def idempotency_key(self) -> str:
        """The key the provider sees: the same for every attempt of one epoch."""
        return f"{self.id}.{self.key_epoch}" if self.key_epoch else str(self.id)


LOAD = """
    SELECT id, organization_id, lease_number, status, channel, recipient,
           content::text AS content, priority,
           created_at, key_epoch, uuidv7() AS token
      FROM notifications
     WHERE id = ANY(%(ids)b::uuid[])
"""


def load(database: Database, ids: Sequence[UUID]) -> dict[UUID, Delivery]:
    """Return what is known of ``ids``, each with a fresh token; unknown ids are absent."""

    def read(connection: psycopg.Connection) -> dict[UUID, Delivery]:
        with connection.cursor(row_factory=class_row(Delivery)) as cursor:
            return {row.id: row for row in cursor.execute(LOAD, {"ids": list(ids)})}

    return database.run(read)


# Counted although the lease may be stale: what kills its handler kills it under any lease. An
# attempt that a killed handler left open keeps its lease, so that the sweep closes it as unknown.
RECORD_START = """
    WITH started AS (
        UPDATE notifications n
           SET starts = n.starts + 1,
               status = CASE WHEN n.starts + 1 >= %(limit)s THEN 'dead' ELSE n.status END,
               reason = CASE WHEN n.starts + 1 >= %(limit)s THEN 'crash_loop' ELSE n.reason END,
               lease_until = CASE WHEN n.starts + 1 >= %(limit)s AND n.attempt_id IS NULL
                                  THEN NULL ELSE n.lease_until END,
               updated_at = t.at
          FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE n.id = %(id)s AND n.status IN ('pending', 'leased')
        RETURNING n.id, n.organization_id, OLD.status AS from_status, NEW.status AS to_status,
                  n.lease_number, t.at
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason,
            lease_number)
    SELECT id, organization_id, at, 'sender', from_status, to_status, 'crash_loop', lease_number
      FROM started
     WHERE to_status = 'dead'
    RETURNING notification_id
"""


def record_start(database: Database, id: UUID, *, now: datetime | None = None) -> bool:
    """Count a handler start on ``id`` that an earlier one did not finish; True when that was one
    too many and the notification is now held as a crash loop."""
    parameters = {"id": id, "limit": MAX_STARTS, "now": now}
    return database.run(
        lambda connection: connection.execute(RECORD_START, parameters).fetchone() is not None
    )


HOLD_UNREADABLE = """
    WITH held AS (
        UPDATE notifications n
           SET status = 'dead', reason = 'unreadable', lease_until = NULL, updated_at = t.at
          FROM unnest(%(ids)b::uuid[], %(leases)b::int4[]) AS m (id, lease_number)
         CROSS JOIN (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE n.id = m.id AND n.lease_number = m.lease_number
           AND n.status = 'leased' AND n.attempt_id IS NULL
        RETURNING n.id, n.organization_id, n.lease_number, t.at
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason,
            lease_number)
    SELECT id, organization_id, at, 'sender', 'leased', 'dead', 'unreadable', lease_number
      FROM held
"""


def hold_unreadable(
    database: Database, leases: Sequence[tuple[UUID, int]], *, now: datetime | None = None
) -> None:
    """Hold the notifications (id, lease number) whose content no provider call can be made of."""
    if not leases:
        return
    ids = [id for id, _ in leases]
    parameters = {"ids": ids, "leases": [number for _, number in leases], "now": now}

    def hold(connection: psycopg.Connection) -> None:
        lock_notifications(connection, ids)
        connection.execute(HOLD_UNREADABLE, parameters)

    database.run(hold, pipelined=True)
