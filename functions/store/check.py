"""Checks of what waits for evidence: when to look, whom to ask, and when waiting ends.

A submitted row is looked at 30 s after submission, then at doubling distances (±20 %, capped), but
never beyond its cutoff, when it ends as unconfirmed. An uncertain row waits for its grace; then its
provider's keys or its channel's policy decide. Where the provider can be asked, a look asks it: at
a steady pace per provider, and at most 12 times per notification.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row, scalar_row

from functions.core.declaration import Declaration
from functions.store.connection import Database
from functions.store.lock import lock_notifications
from functions.store.uncertain import settle_not_accepted

CHECKED_AT_ONCE = 500
MAX_POLLS = 12

LATE_SECONDS = 1.0
"""By so much a question may be late: for that long nothing is given away after the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """A question to a provider, to be asked ``offset_seconds`` from now: no sooner, no later than
    LATE_SECONDS after, and no closer than ``turn_seconds`` to the one before it."""

    id: UUID
    provider: str
    channel: str
    key_epoch: int
    offset_seconds: float
    turn_seconds: float

    @property
    def idempotency_key(self) -> str:
        return f"{self.id}.{self.key_epoch}" if self.key_epoch else str(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """How many rows a check looked at, what it decided for them, and what it would like to ask."""

    looked_at: int = 0
    unconfirmed: int = 0
    retried: int = 0
    held: int = 0
    inquiries: list[Inquiry] = field(default_factory=list[Inquiry])


LOCK_DUE = """
    SELECT id
      FROM notifications
     WHERE status IN ('submitted', 'uncertain')
       AND next_check_at <= (SELECT coalesce(%(now)s, clock_timestamp()))
     ORDER BY next_check_at
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
"""

# Who gives turns away does so alone: two runs that read the same moment side by side would both
# give away what follows it. Before the turns, and in a statement of its own, for the same reason as
# with every other lock.
LOCK_PACE = """
    INSERT INTO polls (provider, reserved_until)
    SELECT provider, coalesce(%(now)s, clock_timestamp())
      FROM unnest(%(looking_up)b::text[]) AS p (provider)
     ORDER BY provider
    ON CONFLICT (provider) DO UPDATE SET reserved_until = polls.reserved_until
"""

# Its own statement, on a snapshot younger than the locks: a receipt that came in between has
# decided already.
# pace:   the slowest poll_rate of the channels that use a provider, and the time up to which its
#         asking is given away already, by whichever run.
# asked:  as many of the rows as can be asked within the horizon, the longest due first. A row that
#         finds no place is looked at again at its next distance, so that no decision waits for a
#         queue of questions.
# judged: an uncertain row is decided when its grace is over; one that is being asked is not.
CHECK = """
    WITH instant AS MATERIALIZED (SELECT coalesce(%(now)s, clock_timestamp()) AS at),
    due AS MATERIALIZED (
        SELECT n.id, n.channel, n.provider, n.key_epoch, n.next_check_at, n.status, n.polls,
               n.attempts_spent, n.max_attempts, n.expires_at, t.at,
               n.submitted_at + c.cutoff_seconds * interval '1 second' AS cutoff_at,
               n.status = 'uncertain' AND coalesce(n.decide_at, t.at) <= t.at AS to_decide,
               c.unknown_policy, c.check_base_seconds, c.provider = n.provider AS is_current,
               least(c.check_base_seconds * 2 ^ least(n.checks + 1, 30), c.check_cap_seconds)
               * (0.8 + 0.4 * random()) AS distance_seconds
          FROM notifications n
          JOIN channels c ON c.name = n.channel
         CROSS JOIN instant t
         WHERE n.id = ANY(%(ids)b::uuid[])
    ),
    pace AS MATERIALIZED (
        SELECT c.provider, min(c.poll_rate) AS rate,
               greatest(t.at, max(p.reserved_until)) AS free_at
          FROM channels c
          JOIN polls p ON p.provider = c.provider
         CROSS JOIN instant t
         WHERE c.provider = ANY(%(looking_up)s)
         GROUP BY c.provider, t.at
        HAVING min(c.poll_rate) > 0
    ),
    asked AS MATERIALIZED (
        SELECT *
          FROM (SELECT d.id, d.channel, d.provider, d.key_epoch, p.rate, p.free_at,
                       extract(epoch FROM p.free_at - d.at)
                       + (row_number() OVER (PARTITION BY d.provider
                                             ORDER BY d.next_check_at, d.id) - 1) / p.rate
                       AS offset_seconds
                  FROM due d
                  JOIN pace p ON p.provider = d.provider
                 WHERE d.polls < %(max_polls)s AND d.is_current
                   AND (d.status = 'uncertain' OR d.cutoff_at > d.at)) placed
         WHERE offset_seconds < %(horizon_seconds)s
    ),
    reserved AS (
        UPDATE polls p
           SET reserved_until = a.free_at + a.turns / a.rate * interval '1 second'
                                + %(late_seconds)s * interval '1 second'
          FROM (SELECT provider, min(free_at) AS free_at, min(rate) AS rate, count(*) AS turns
                  FROM asked
                 GROUP BY provider) a
         WHERE p.provider = a.provider
    ),
    judged AS MATERIALIZED (
        SELECT d.id, d.at, d.cutoff_at, d.to_decide, d.check_base_seconds, d.distance_seconds,
               a.id IS NOT NULL AS is_asked,
               CASE WHEN d.status = 'submitted'
                    THEN CASE WHEN d.cutoff_at <= d.at THEN 'unconfirmed' ELSE 'submitted' END
                    WHEN a.id IS NOT NULL OR NOT d.to_decide THEN 'uncertain'
                    WHEN v.given_up THEN 'dead'
                    WHEN d.expires_at <= d.at THEN 'unconfirmed'
                    ELSE 'pending' END AS status,
               CASE WHEN d.status = 'submitted'
                    THEN CASE WHEN d.cutoff_at <= d.at THEN 'no_receipt_by_cutoff' END
                    WHEN a.id IS NOT NULL OR NOT d.to_decide THEN NULL
                    WHEN v.given_up THEN 'outcome_unknown'
                    WHEN d.expires_at <= d.at THEN 'expired' END AS reason
          FROM due d
          LEFT JOIN asked a ON a.id = d.id
         CROSS JOIN LATERAL (
               SELECT d.attempts_spent >= d.max_attempts
                      OR NOT coalesce(d.provider = ANY(%(keyed)s), false)
                      AND d.unknown_policy = 'hold' AS given_up) v
    ),
    checked AS (
        UPDATE notifications n
           SET status = j.status, reason = j.reason, checks = n.checks + 1,
               polls = n.polls + j.is_asked::int,
               next_check_at = CASE j.status
                    WHEN 'submitted'
                    THEN least(j.at + j.distance_seconds * interval '1 second', j.cutoff_at)
                    WHEN 'uncertain'
                    THEN CASE WHEN j.to_decide
                              THEN j.at + j.check_base_seconds * interval '1 second'
                              ELSE least(j.at + j.distance_seconds * interval '1 second',
                                         n.decide_at) END END,
               decide_at = CASE WHEN j.status = 'uncertain' THEN n.decide_at END,
               attempt_id = CASE WHEN n.status = 'uncertain' AND j.status <> 'uncertain'
                                 THEN NULL ELSE n.attempt_id END,
               ready = CASE WHEN j.status = 'pending' THEN true ELSE n.ready END,
               available_at = CASE WHEN j.status = 'pending' THEN j.at ELSE n.available_at END,
               final_at = CASE WHEN j.status = 'unconfirmed' THEN j.at ELSE n.final_at END,
               updated_at = j.at
          FROM judged j
         WHERE n.id = j.id AND n.id = ANY(%(ids)b::uuid[])
        RETURNING n.id, n.organization_id, OLD.status AS from_status, NEW.status AS to_status,
                  coalesce(NEW.reason, 'grace_over') AS reason, OLD.attempt_id, j.at
    ),
    logged AS (
        INSERT INTO transitions
               (notification_id, organization_id, at, actor, from_status, to_status, reason,
                attempt_id)
        SELECT id, organization_id, at, 'reconcile', from_status, to_status, reason, attempt_id
          FROM checked
         WHERE from_status <> to_status
    )
    SELECT to_status, count(*)::int AS number, NULL::uuid AS id, NULL AS provider, NULL AS channel,
           NULL::int AS key_epoch, NULL::float8 AS offset_seconds, NULL::float8 AS turn_seconds
      FROM checked
     GROUP BY to_status
    UNION ALL
    SELECT NULL, NULL, id, provider, channel, key_epoch, offset_seconds::float8, 1 / rate
      FROM asked
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A count of rows by what was decided, or a question."""

    to_status: str | None
    number: int
    id: UUID
    provider: str
    channel: str
    key_epoch: int
    offset_seconds: float
    turn_seconds: float


def check(
    database: Database,
    *,
    declarations: Sequence[Declaration],
    horizon_seconds: float = 0.0,
    now: datetime | None = None,
) -> Checked:
    """Look at up to 500 rows whose ``next_check_at`` has come.

    ``horizon_seconds``: for how long questions may still be asked; the answer names each of them
    and its turn. A question is counted when it is given out, asked or not.
    """
    parameters: dict[str, Any] = {
        "limit": CHECKED_AT_ONCE,
        "keyed": [one.name for one in declarations if one.keyed],
        "looking_up": [one.name for one in declarations if one.looks_up],
        "max_polls": MAX_POLLS,
        "late_seconds": LATE_SECONDS,
        "horizon_seconds": horizon_seconds,
        "now": now,
    }

    def look(connection: psycopg.Connection) -> Checked:
        with connection.cursor(row_factory=scalar_row) as due:
            ids = due.execute(LOCK_DUE, parameters).fetchall()
        if not ids:
            return Checked()
        if horizon_seconds > 0:
            connection.execute(LOCK_PACE, parameters)
        with connection.cursor(row_factory=class_row(_Row)) as cursor:
            return _checked(cursor.execute(CHECK, parameters | {"ids": ids}).fetchall())

    return database.run(look)


def _checked(rows: Sequence[_Row]) -> Checked:
    counts = {row.to_status: row.number for row in rows if row.to_status is not None}
    return Checked(
        looked_at=sum(counts.values()),
        unconfirmed=counts.get("unconfirmed", 0),
        retried=counts.get("pending", 0),
        held=counts.get("dead", 0),
        inquiries=[
            Inquiry(
                id=row.id,
                provider=row.provider,
                channel=row.channel,
                key_epoch=row.key_epoch,
                offset_seconds=row.offset_seconds,
                turn_seconds=row.turn_seconds,
            )
            for row in rows
            if row.to_status is None
        ],
    )


# A row whose grace is not over may still be on its way to the provider: it is asked again later.
OVERDUE = """
    SELECT id
      FROM notifications
     WHERE id = ANY(%(ids)b::uuid[]) AND status = 'uncertain'
       AND coalesce(decide_at, %(now)s, clock_timestamp()) <= coalesce(%(now)s, clock_timestamp())
"""


def record_never_accepted(
    database: Database, ids: Sequence[UUID], *, now: datetime | None = None
) -> int:
    """Let those of ``ids`` that are uncertain, their grace over, be due again: their provider says
    that it never accepted them. Return how many."""

    def work(connection: psycopg.Connection) -> int:
        lock_notifications(connection, ids)
        with connection.cursor(row_factory=scalar_row) as cursor:
            overdue = cursor.execute(OVERDUE, {"ids": list(ids), "now": now}).fetchall()
        return settle_not_accepted(
            connection, overdue, actor="reconcile", reason="never_accepted", now=now
        )

    return database.run(work) if ids else 0


GIVE_BACK_POLLS = """
    UPDATE notifications SET polls = polls - 1
     WHERE id = ANY(%(ids)b::uuid[]) AND polls > 0
"""


def give_back_polls(database: Database, ids: Sequence[UUID]) -> None:
    """Take back the questions about ``ids`` that were given out and never asked."""

    def give_back(connection: psycopg.Connection) -> None:
        lock_notifications(connection, ids)
        connection.execute(GIVE_BACK_POLLS, {"ids": list(ids)})

    if ids:
        database.run(give_back)
