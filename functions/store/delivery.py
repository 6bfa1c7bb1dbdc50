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
# `counted` is what the count came to when this very start was recorded before, and the answer to
# its COMMIT was lost: then it stands there already.
RECORD_STARTS = """
    WITH started AS (
        UPDATE notifications n
           SET starts = n.starts + 1,
               status = CASE WHEN n.starts + 1 >= %(limit)s THEN 'dead' ELSE n.status END,
               reason = CASE WHEN n.starts + 1 >= %(limit)s THEN 'crash_loop' ELSE n.reason END,
               lease_until = CASE WHEN n.starts + 1 >= %(limit)s AND n.attempt_id IS NULL
                                  THEN NULL ELSE n.lease_until END,
               updated_at = t.at
          FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t,
               unnest(%(ids)b::uuid[], %(counted)b::int4[]) AS c (id, counted)
         WHERE n.id = ANY(%(ids)b::uuid[]) AND n.id = c.id AND n.status IN ('pending', 'leased')
           AND (c.counted = 0 OR n.starts < c.counted)
        RETURNING n.id, n.organization_id, OLD.status AS from_status, NEW.status AS to_status,
                  n.lease_number, n.starts, t.at
    ),
    logged AS (
        INSERT INTO transitions
               (notification_id, organization_id, at, actor, from_status, to_status, reason,
                lease_number)
        SELECT id, organization_id, at, 'sender', from_status, to_status, 'crash_loop',
               lease_number
          FROM started
         WHERE to_status = 'dead'
    )
    SELECT id, starts FROM started
"""


def record_starts(
    database: Database, ids: Sequence[UUID], *, now: datetime | None = None
) -> set[UUID]:
    """Count a handler start on each of ``ids``, until ``finish_starts`` or the close takes it back;
    return those for which that was one too many: they are held as a crash loop now."""
    counts: dict[UUID, int] = dict.fromkeys(ids, 0)

    def count(connection: psycopg.Connection) -> set[UUID]:
        parameters = {
            "ids": list(counts),
            "counted": list(counts.values()),
            "limit": MAX_STARTS,
            "now": now,
        }
        lock_notifications(connection, list(counts))
        with connection.cursor() as cursor:
            counts.update(cursor.execute(RECORD_STARTS, parameters).fetchall())
        return {id for id, starts in counts.items() if starts >= MAX_STARTS}

    return database.run(count) if counts else set()


FINISH_STARTS = """
    UPDATE notifications n
       SET starts = greatest(n.starts - f.number, 0)
      FROM (SELECT id, count(*)::int AS number FROM unnest(%(ids)b::uuid[]) AS e (id) GROUP BY id) f
     WHERE n.id = ANY(%(ids)b::uuid[]) AND n.id = f.id
       AND n.starts > 0 AND n.status IN ('pending', 'leased', 'uncertain')
"""


def finish_starts(database: Database, ids: Sequence[UUID]) -> None:
    """Take back one start for each time that ``ids`` name a notification: it came to its end,
    whatever that was. Repeated after a lost COMMIT it takes back one more, which errs on the side
    of trying again."""

    def finish(connection: psycopg.Connection) -> None:
        lock_notifications(connection, ids)
        connection.execute(FINISH_STARTS, {"ids": list(ids)})

    database.run(finish, pipelined=True)


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
