"""Sweep: take back leases that ran out, and end what expired while it waited.

Conditional and bounded: a fresh lease or a finished row is not touched, locked rows are skipped,
and each statement ends at 500 rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import psycopg
from psycopg.rows import class_row, scalar_row

from functions.core.declaration import Declaration, names_of_keyed, names_of_looking_up
from functions.store.channel import ChannelRow
from functions.store.connection import Database

SWEPT_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """How many rows a sweep took back, by what became of them."""

    released: int
    """Under the lease no attempt was opened: pending again."""
    in_doubt: int
    """An attempt was open: closed as unknown, and due again under the same key or uncertain."""
    dead: int
    settled: int
    """Moved by evidence meanwhile; the attempt left open was closed."""

    @property
    def total(self) -> int:
        return self.released + self.in_doubt + self.dead + self.settled


# Leases past their time, oldest first; a worker that is just closing holds its row, and keeps it.
LOCK_LOST = """
    SELECT id
      FROM notifications
     WHERE channel = %(channel)s AND lease_until IS NOT NULL
       AND lease_until <= (SELECT coalesce(%(now)s, clock_timestamp()))
     ORDER BY lease_until
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
"""

# Its own statement, on a snapshot younger than the locks: in one statement the decision would read
# the rows as they were before, and take back what evidence had decided in between.
# closed:  the attempts left open under the leases: their outcome is unknown, unless a report told.
# judged:  evidence keeps the status it gave; a keyed provider may be asked again, same key. Rows
#          join through their primary key: the planner must never choose to read the whole table.
SWEEP = """
    WITH instant AS MATERIALIZED (SELECT coalesce(%(now)s, clock_timestamp()) AS at),
    closed AS (
        UPDATE attempts a
           SET outcome = CASE WHEN EXISTS (SELECT FROM receipts r
                                             WHERE r.notification_id = a.notification_id
                                               AND r.attempt_id = a.id AND r.applied
                                               AND r.evidence_rank > 0)
                              THEN 'accepted' ELSE 'unknown' END,
               code = 'lease_expired', finished_at = t.at
          FROM notifications n CROSS JOIN instant t
         WHERE n.id = ANY(%(ids)b::uuid[]) AND a.notification_id = ANY(%(ids)b::uuid[])
           AND a.notification_id = n.id AND a.id = n.attempt_id AND a.outcome IS NULL
        RETURNING a.notification_id, NEW.outcome
    ),
    judged AS MATERIALIZED (
        SELECT n.id, t.at, (o.open AND o.unknown)::int AS doubt,
               CASE WHEN o.open AND o.keyed THEN o.backoff_seconds ELSE 0 END AS delay_seconds,
               CASE WHEN n.status <> 'leased' THEN n.status
                    WHEN NOT o.open THEN 'pending'
                    WHEN NOT o.keyed THEN 'uncertain'
                    WHEN n.attempts_spent >= n.max_attempts THEN 'dead'
                    WHEN t.at + o.backoff_seconds * interval '1 second' >= n.expires_at
                    THEN 'unconfirmed'
                    ELSE 'pending' END AS status,
               CASE WHEN n.status <> 'leased' THEN n.reason
                    WHEN NOT o.open OR NOT o.keyed THEN NULL
                    WHEN n.attempts_spent >= n.max_attempts THEN 'outcome_unknown'
                    WHEN t.at + o.backoff_seconds * interval '1 second' >= n.expires_at
                    THEN 'expired' END AS reason
          FROM notifications n
         CROSS JOIN instant t
         CROSS JOIN LATERAL (
               SELECT n.id IN (SELECT notification_id FROM closed) AS open,
                      n.id IN (SELECT notification_id FROM closed WHERE outcome = 'unknown')
                      AS unknown,
                      coalesce(n.provider = ANY(%(keyed_providers)s), false) AS keyed,
                      (%(halves)b::float8[])[least(greatest(n.attempts_spent, 1),
                                                   %(halves_count)s)]
                      * (1 + random()) AS backoff_seconds) o
         WHERE n.id = ANY(%(ids)b::uuid[])
    ),
    swept AS (
        UPDATE notifications n
           SET status = j.status, reason = j.reason,
               in_doubt = n.in_doubt + j.doubt,
               attempt_id = CASE WHEN j.status = 'uncertain' THEN n.attempt_id END,
               lease_until = NULL,
               ready = CASE WHEN j.status = 'pending' THEN j.delay_seconds = 0 ELSE n.ready END,
               available_at = CASE WHEN j.status = 'pending' AND j.delay_seconds > 0
                                   THEN j.at + j.delay_seconds * interval '1 second'
                                   ELSE n.available_at END,
               next_check_at = CASE WHEN j.status = 'uncertain'
                                    THEN j.at + least(
                                         %(grace_seconds)s,
                                         CASE WHEN n.provider = ANY(%(looking_up)s)
                                              THEN %(check_seconds)s END) * interval '1 second'
                                    ELSE n.next_check_at END,
               decide_at = CASE WHEN j.status = 'uncertain'
                                THEN j.at + %(grace_seconds)s * interval '1 second' END,
               final_at = CASE WHEN j.status = 'unconfirmed' AND n.status = 'leased' THEN j.at
                               ELSE n.final_at END,
               updated_at = j.at
          FROM judged j
         WHERE n.id = j.id AND n.id = ANY(%(ids)b::uuid[])
        RETURNING n.id, n.organization_id, OLD.status AS from_status, NEW.status AS to_status,
                  OLD.attempt_id, n.lease_number, j.doubt, j.at
    ),
    logged AS (
        INSERT INTO transitions
               (notification_id, organization_id, at, actor, from_status, to_status, reason,
                lease_number, attempt_id)
        SELECT id, organization_id, at, 'sweeper', from_status, to_status, 'lease_expired',
               lease_number, attempt_id
          FROM swept
         WHERE from_status <> to_status
    )
    SELECT count(*) FILTER (WHERE from_status = 'leased' AND to_status = 'pending'
                              AND doubt = 0)::int AS released,
           count(*) FILTER (WHERE from_status = 'leased' AND doubt = 1
                              AND to_status <> 'dead')::int AS in_doubt,
           count(*) FILTER (WHERE from_status = 'leased' AND to_status = 'dead')::int AS dead,
           count(*) FILTER (WHERE from_status <> 'leased')::int AS settled
      FROM swept
"""


def sweep(
    database: Database,
    *,
    channel: ChannelRow,
    declarations: Sequence[Declaration],
    now: datetime | None = None,
) -> Swept:
    """Take back up to 500 leases of ``channel`` whose time has passed."""
    halves = [channel.backoff.ceiling_seconds(k) / 2 for k in range(1, 33)]
    parameters = {
        "channel": channel.name,
        "limit": SWEPT_AT_ONCE,
        "keyed_providers": names_of_keyed(declarations),
        "looking_up": names_of_looking_up(declarations),
        "check_seconds": channel.check_base_seconds,
        "halves": halves,
        "halves_count": len(halves),
        "grace_seconds": channel.grace_seconds,
        "now": now,
    }

    def take_back(connection: psycopg.Connection) -> Swept:
        with connection.cursor(row_factory=scalar_row) as lost:
            ids = lost.execute(LOCK_LOST, parameters).fetchall()
        nothing = Swept(released=0, in_doubt=0, dead=0, settled=0)
        if not ids:
            return nothing
        with connection.cursor(row_factory=class_row(Swept)) as cursor:
            return cursor.execute(SWEEP, parameters | {"ids": ids}).fetchone() or nothing

    return database.run(take_back)


# A parent of fallback candidates follows them: they have its `expires_at`.
EXPIRE = """
    WITH expired AS (
        UPDATE notifications n
           SET status = CASE WHEN n.in_doubt > 0 THEN 'unconfirmed' ELSE 'expired' END,
               reason = 'expired', final_at = t.at, updated_at = t.at
          FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE n.id = ANY(ARRAY(
               SELECT id FROM notifications
                WHERE status = 'pending'
                  AND expires_at <= (SELECT coalesce(%(now)s, clock_timestamp()))
                  AND channels IS NULL
                ORDER BY expires_at
                LIMIT %(limit)s
                  FOR UPDATE SKIP LOCKED))
        RETURNING n.id, n.organization_id, n.status, t.at
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason)
    SELECT id, organization_id, at, 'sweeper', 'pending', status, 'expired' FROM expired
"""


def expire(database: Database, *, now: datetime | None = None) -> int:
    """End up to 500 pending notifications whose ``expires_at`` has passed; return how many."""
    parameters = {"limit": SWEPT_AT_ONCE, "now": now}
    return database.run(lambda connection: connection.execute(EXPIRE, parameters).rowcount)
