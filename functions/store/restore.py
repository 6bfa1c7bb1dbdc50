"""After a restore: what may have been sent in the part of history that was lost.

A database restored to a moment knows nothing of what happened after it. Whatever it shows as
waiting or leased, and whose time had come, may have been handed to a provider since. So before
anything is sent again each of these gets an attempt of unknown outcome in the ledger, and is
uncertain: evidence, the provider's own keys, or the channel's policy decides, as for any other
unknown outcome.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import scalar_row

from functions.core.declaration import Declaration, names_of_keyed
from functions.store.action import Action, record_action, result_of
from functions.store.connection import Database

PAUSE = """
    UPDATE channels SET paused_at = clock_timestamp() WHERE paused_at IS NULL RETURNING name
"""

RESUME = """
    UPDATE channels SET paused_at = NULL WHERE name = ANY(%(names)s) RETURNING name
"""


def pause_all(database: Database, *, action: Action) -> list[str]:
    """Pause every channel, so that no attempt begins; return those that were not paused before."""

    def work(connection: psycopg.Connection) -> list[str]:
        if (done := result_of(connection, action)) is not None:
            return done["paused"]
        with connection.cursor(row_factory=scalar_row) as cursor:
            names = sorted(cursor.execute(PAUSE).fetchall())
        record_action(connection, action, result={"paused": names})
        return names

    return database.run(work)


def resume(database: Database, names: Sequence[str], *, action: Action) -> list[str]:
    """Let the channels ``names`` go on."""

    def work(connection: psycopg.Connection) -> list[str]:
        if (done := result_of(connection, action)) is not None:
            return done["resumed"]
        with connection.cursor(row_factory=scalar_row) as cursor:
            resumed = sorted(cursor.execute(RESUME, {"names": list(names)}).fetchall())
        record_action(connection, action, result={"resumed": resumed})
        return resumed

    return database.run(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """How many rows of one page are in doubt now; perhaps none, though others follow. The next page
    begins after ``last_id``, which is None when there is none."""

    marked: int
    last_id: UUID | None


WALKED_PER_ROW = 100
"""Rows that are looked at for each that one page may mark: most are final and long past, and a
statement that walked over all of them would be cut by its timeout."""

# A page is a walk along the primary key: without statistics the planner would sort what it read of
# all the rest of the table.
IN_ORDER = "SET LOCAL enable_sort = off"

LAST_WALKED = """
    SELECT id
      FROM notifications
     WHERE %(after)s::uuid IS NULL OR id > %(after)s
     ORDER BY id
    OFFSET %(walked)s - 1
     LIMIT 1
"""

# What was accepted after the restore cannot have been sent in what was lost, and what is in doubt
# under a key of ours cannot be more so. The last condition makes a repetition mark nothing twice,
# whatever has been decided about a row meanwhile.
LOCK_GAP = """
    SELECT id
      FROM notifications n
     WHERE status IN ('pending', 'leased')
       AND (in_doubt = 0 OR NOT coalesce(provider = ANY(%(keyed)s), false))
       AND created_at <= %(since)s
       AND available_at <= (SELECT coalesce(%(now)s, clock_timestamp()))
       AND (%(after)s::uuid IS NULL OR id > %(after)s)
       AND (%(last_walked)s::uuid IS NULL OR id <= %(last_walked)s)
       AND NOT EXISTS (SELECT FROM transitions t
                        WHERE t.notification_id = n.id AND t.reason = 'restored'
                          AND t.at > %(since)s)
     ORDER BY id
     LIMIT %(limit)s
       FOR UPDATE
"""

# open:     an attempt that the restore shows as open is the one in doubt.
# recorded: where there is none, one stands for what the lost history may hold. It takes the next
#           lease number: a message that was queued under it then opens nothing now.
# marked:   looked up at once where the provider can be asked, or knows our key.
MARK = """
    WITH instant AS MATERIALIZED (SELECT coalesce(%(now)s, clock_timestamp()) AS at),
    gap AS MATERIALIZED (
        SELECT n.id, n.attempt_id, n.lease_number, coalesce(n.provider, c.provider) AS provider,
               c.grace_seconds
          FROM notifications n
          JOIN channels c ON c.name = n.channel
         WHERE n.id = ANY(%(ids)b::uuid[])
    ),
    open AS (
        UPDATE attempts a
           SET outcome = 'unknown', code = 'restored', finished_at = t.at
          FROM gap g CROSS JOIN instant t
         WHERE a.notification_id = ANY(%(ids)b::uuid[])
           AND a.notification_id = g.id AND a.id = g.attempt_id AND a.outcome IS NULL
        RETURNING a.notification_id, a.id
    ),
    recorded AS (
        INSERT INTO attempts (notification_id, lease_number, id, provider, started_at, finished_at,
                              outcome, code)
        SELECT g.id, g.lease_number + 1, uuidv7(), g.provider, least(%(since)s, t.at), t.at,
               'unknown', 'restored'
          FROM gap g CROSS JOIN instant t
         WHERE g.attempt_id IS NULL
        RETURNING notification_id, id, lease_number
    ),
    marked AS (
        UPDATE notifications n
           SET status = 'uncertain', reason = NULL, in_doubt = n.in_doubt + 1,
               attempt_id = coalesce(r.id, n.attempt_id),
               lease_number = coalesce(r.lease_number, n.lease_number), lease_until = NULL,
               provider = g.provider,
               key_first_used_at = coalesce(n.key_first_used_at, least(%(since)s, t.at)),
               next_check_at = t.at,
               decide_at = t.at + CASE WHEN g.provider = ANY(%(keyed)s) THEN 0
                                       ELSE g.grace_seconds END * interval '1 second',
               updated_at = t.at
          FROM gap g
          LEFT JOIN recorded r ON r.notification_id = g.id
         CROSS JOIN instant t
         WHERE n.id = g.id AND n.id = ANY(%(ids)b::uuid[])
        RETURNING n.id, n.organization_id, OLD.status AS from_status, n.attempt_id,
                  n.lease_number, t.at
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason,
            lease_number, attempt_id, operator_action_id)
    SELECT id, organization_id, at, 'operator', from_status, 'uncertain', 'restored', lease_number,
           attempt_id, %(operator_action_id)s
      FROM marked
"""


def mark_gap(
    database: Database,
    *,
    since: datetime,
    declarations: Sequence[Declaration],
    after: UUID | None = None,
    limit: int = 500,
    action: Action,
    now: datetime | None = None,
) -> Marked:
    """Make up to ``limit`` rows uncertain that may have been sent after ``since``, the moment that
    the database was restored to. Repeating it, or going on after a crash, marks nothing twice.

    A provider that honours our key, or can be asked, needs no grace.
    """
    parameters = {
        "since": since,
        "keyed": names_of_keyed(declarations),
        "after": after,
        "limit": limit,
        "walked": limit * WALKED_PER_ROW,
        "now": now,
    }

    def work(connection: psycopg.Connection) -> Marked:
        if (done := result_of(connection, action)) is not None:
            last_id = done["last_id"] and UUID(done["last_id"])
            return Marked(marked=done["marked"], last_id=last_id)
        connection.execute(IN_ORDER)
        with connection.cursor(row_factory=scalar_row) as cursor:
            last_walked = cursor.execute(LAST_WALKED, parameters, prepare=False).fetchone()
            values = {**parameters, "last_walked": last_walked}
            ids = cursor.execute(LOCK_GAP, values, prepare=False).fetchall()
        if ids:
            connection.execute(MARK, {**values, "ids": ids, "operator_action_id": action.id})
        last_id = ids[-1] if len(ids) == limit else last_walked
        result = {"marked": len(ids), "last_id": last_id and str(last_id)}
        record_action(connection, action, result=result, now=now)
        return Marked(marked=len(ids), last_id=last_id)

    return database.run(work)
