"""Checks of what waits for evidence: next look, cutoff, and the end of an uncertain one's grace."""

from dataclasses import dataclass
from datetime import datetime

import psycopg
from psycopg.rows import class_row, scalar_row

from functions.store.connection import Database

CHECKED_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """How many rows a check looked at, and what it decided for them."""

    looked_at: int
    unconfirmed: int
    retried: int
    held: int


LOCK_DUE = """
    SELECT id
      FROM notifications
     WHERE status IN ('submitted', 'uncertain')
       AND next_check_at <= (SELECT coalesce(%(now)s, clock_timestamp()))
     ORDER BY next_check_at
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
"""

# A submitted row is looked at 30 s after submission, then at doubling distances (±20 %, capped),
# but never beyond its cutoff, when it ends as unconfirmed. An uncertain row's grace over, its
# channel's declared policy decides: try again, or hold it for a person. Its own statement, on a
# snapshot younger than the locks: a receipt that came in between has decided already.
CHECK = """
    WITH instant AS MATERIALIZED (SELECT coalesce(%(now)s, clock_timestamp()) AS at),
    judged AS MATERIALIZED (
        SELECT n.id, t.at, d.cutoff_at,
               least(c.check_base_seconds * 2 ^ least(n.checks + 1, 30), c.check_cap_seconds)
               * (0.8 + 0.4 * random()) AS distance_seconds,
               CASE WHEN n.status = 'submitted'
                    THEN CASE WHEN d.cutoff_at <= t.at THEN 'unconfirmed' ELSE 'submitted' END
                    WHEN d.given_up THEN 'dead'
                    WHEN n.expires_at <= t.at THEN 'unconfirmed'
                    ELSE 'pending' END AS status,
               CASE WHEN n.status = 'submitted'
                    THEN CASE WHEN d.cutoff_at <= t.at THEN 'no_receipt_by_cutoff' END
                    WHEN d.given_up THEN 'outcome_unknown'
                    WHEN n.expires_at <= t.at THEN 'expired' END AS reason
          FROM notifications n
          JOIN channels c ON c.name = n.channel
         CROSS JOIN instant t
         CROSS JOIN LATERAL (
               SELECT n.submitted_at + c.cutoff_seconds * interval '1 second' AS cutoff_at,
                      c.unknown_policy = 'hold' OR n.attempts_spent >= n.max_attempts
                      AS given_up) d
         WHERE n.id = ANY(%(ids)b::uuid[])
    ),
    checked AS (
        UPDATE notifications n
           SET status = j.status, reason = j.reason, checks = n.checks + 1,
               next_check_at = CASE WHEN j.status = 'submitted'
                                    THEN least(j.at + j.distance_seconds * interval '1 second',
                                               j.cutoff_at) END,
               attempt_id = CASE WHEN n.status = 'uncertain' THEN NULL ELSE n.attempt_id END,
               ready = CASE WHEN j.status = 'pending' THEN true ELSE n.ready END,
               available_at = CASE WHEN j.status = 'pending' THEN j.at ELSE n.available_at END,
               final_at = CASE WHEN j.status = 'unconfirmed' THEN j.at ELSE n.final_at END,
               updated_at = j.at
          FROM judged j
         WHERE n.id = j.id AND n.id = ANY(%(ids)b::uuid[])
        RETURNING n.id, n.organization_id, OLD.status AS from_status, NEW.status AS to_status,
                  NEW.reason, j.at
    ),
    logged AS (
        INSERT INTO transitions
               (notification_id, organization_id, at, actor, from_status, to_status, reason)
        SELECT id, organization_id, at, 'reconcile', from_status, to_status, reason
          FROM checked
         WHERE from_status <> to_status
    )
    SELECT count(*)::int AS looked_at,
           count(*) FILTER (WHERE to_status = 'unconfirmed')::int AS unconfirmed,
           count(*) FILTER (WHERE to_status = 'pending')::int AS retried,
           count(*) FILTER (WHERE to_status = 'dead')::int AS held
      FROM checked
"""


def check(database: Database, *, now: datetime | None = None) -> Checked:
    """Look at up to 500 rows whose ``next_check_at`` has come."""

    def look(connection: psycopg.Connection) -> Checked:
        parameters = {"limit": CHECKED_AT_ONCE, "now": now}
        with connection.cursor(row_factory=scalar_row) as due:
            ids = due.execute(LOCK_DUE, parameters).fetchall()
        nothing = Checked(looked_at=0, unconfirmed=0, retried=0, held=0)
        if not ids:
            return nothing
        with connection.cursor(row_factory=class_row(Checked)) as cursor:
            return cursor.execute(CHECK, parameters | {"ids": ids}).fetchone() or nothing

    return database.run(look)
