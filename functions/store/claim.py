"""What a round of the claim does: see what is due, reserve, lease pages, decide, release."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row, scalar_row

from functions.core.policy import POLICY_VERSION, Allow, Defer, Suppress, Verdict
from functions.store.connection import Database
from functions.store.lock import lock_notifications

NO_ORGANIZATION = UUID(int=0)
"""The cursor before the first organization."""

START_RUN = """
    INSERT INTO runs (name, generation) VALUES (%(name)s, 1)
    ON CONFLICT (name) DO UPDATE SET generation = runs.generation + 1,
                                     started_at = clock_timestamp()
    RETURNING generation
"""


def start_run(database: Database, *, name: str) -> int:
    """Raise the generation of ``name`` and return it: older runs see it and end."""

    def start(connection: psycopg.Connection) -> int:
        with connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(START_RUN, {"name": name}).fetchone()  # pyright: ignore[reportReturnType]

    return database.run(start)


# Rows whose time has come enter the claim's index. The time stands in a sub-select: as a bare
# volatile function it could not bound the index scan, and a million scheduled rows would be read.
PROMOTE = """
    UPDATE notifications SET ready = true
     WHERE id = ANY(ARRAY(
           SELECT id FROM notifications
            WHERE status = 'pending' AND NOT ready
              AND available_at <= (SELECT coalesce(%(now)s, clock_timestamp()))
            ORDER BY available_at
            LIMIT %(limit)s
              FOR UPDATE SKIP LOCKED))
"""
PROMOTED_AT_ONCE = 1000


def promote(database: Database, *, now: datetime | None = None) -> int:
    """Make up to 1000 rows ready whose ``available_at`` has come; return how many."""
    parameters = {"now": now, "limit": PROMOTED_AT_ONCE}
    return database.run(lambda connection: connection.execute(PROMOTE, parameters).rowcount)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A channel as a round finds it."""

    channel: str
    page: int
    max_in_flight: int
    lease_seconds: float
    leased: int
    high: bool
    normal: bool
    low: bool
    generation: int

    @property
    def ready(self) -> list[str]:
        """Priorities with something ready, highest first."""
        return [name for name in ("high", "normal", "low") if getattr(self, name)]


# One index descent per channel and priority; `leased` counts an index of live leases only.
SURVEY = """
    SELECT c.name AS channel, c.page, c.max_in_flight, c.lease_seconds,
           (SELECT count(*) FROM notifications n
             WHERE n.channel = c.name AND n.lease_until IS NOT NULL AND n.status = 'leased')
           AS leased,
           EXISTS (SELECT FROM notifications n WHERE n.channel = c.name AND n.priority = 'high'
                      AND n.status = 'pending' AND n.ready) AS high,
           EXISTS (SELECT FROM notifications n WHERE n.channel = c.name AND n.priority = 'normal'
                      AND n.status = 'pending' AND n.ready) AS normal,
           EXISTS (SELECT FROM notifications n WHERE n.channel = c.name AND n.priority = 'low'
                      AND n.status = 'pending' AND n.ready) AS low,
           coalesce((SELECT r.generation FROM runs r WHERE r.name = %(run)s), 0) AS generation
      FROM channels c
     WHERE c.paused_at IS NULL
     ORDER BY c.name
"""


def survey(database: Database, *, run: str) -> list[Survey]:
    """Return what is ready per channel that is not paused, and the newest generation of ``run``."""

    def read(connection: psycopg.Connection) -> list[Survey]:
        with connection.cursor(row_factory=class_row(Survey)) as cursor:
            return cursor.execute(SURVEY, {"run": run}).fetchall()

    return database.run(read)


# The bucket is refilled by the time that passed, never by less than nothing (a clock stepped back),
# and pays in the same statement. No lock is held between this and the lease.
RESERVE = """
    UPDATE channels c
       SET tokens = r.level - r.granted, refilled_at = greatest(c.refilled_at, r.at)
      FROM (SELECT name, level, at,
                   floor(least(level, %(wanted)s, greatest(max_in_flight - %(leased)s, 0)))::int
                   AS granted
              FROM (SELECT c.name, c.max_in_flight, t.at,
                           least(c.burst, c.tokens + c.rate
                                 * greatest(0, extract(epoch FROM t.at - c.refilled_at))) AS level
                      FROM channels c
                     CROSS JOIN LATERAL (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
                     WHERE c.name = %(channel)s AND c.paused_at IS NULL
                       FOR UPDATE OF c SKIP LOCKED) bucket) r
     WHERE c.name = r.name AND r.granted > 0
    RETURNING r.granted
"""


def reserve(
    database: Database, *, channel: str, wanted: int, leased: int, now: datetime | None = None
) -> int:
    """Take up to ``wanted`` tokens, within what rate, burst and in-flight budget allow."""
    parameters = {"channel": channel, "wanted": wanted, "leased": leased, "now": now}

    def take(connection: psycopg.Connection) -> int:
        with connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(RESERVE, parameters).fetchone() or 0

    return database.run(take)


GIVE_BACK = """
    UPDATE channels SET tokens = least(burst, tokens + %(unused)s) WHERE name = %(channel)s
"""


def give_back(database: Database, *, channel: str, unused: int) -> None:
    """Return tokens that were reserved and not needed."""
    parameters = {"channel": channel, "unused": unused}
    database.run(lambda connection: connection.execute(GIVE_BACK, parameters))


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A notification under a fresh lease, with what the policy reads of it."""

    id: UUID
    organization_id: UUID
    lease_number: int
    channel: str
    priority: str
    category: str
    decided: bool
    """An earlier lease stored the same verdict under the same policy version."""
    cursor: UUID
    """The last organization of this page's turn: where the next page begins."""
    now: datetime


# turn, again: the organizations with something ready, one index descent each, from the cursor on
#              and around; at most a page of them.
# share:       rows per organization, so that they take turns; a short page is filled by the next.
# due:         the rows, oldest first within each organization; locked ones belong to somebody else.
LEASE_PAGE = """
    WITH RECURSIVE turn (organization_id, seat) AS (
        (SELECT organization_id, 1
           FROM notifications
          WHERE channel = %(channel)s AND priority = %(priority)s AND status = 'pending' AND ready
            AND organization_id > %(after)s
          ORDER BY organization_id LIMIT 1)
        UNION ALL
        (SELECT next.organization_id, turn.seat + 1
           FROM turn
          CROSS JOIN LATERAL (
                SELECT organization_id
                  FROM notifications
                 WHERE channel = %(channel)s AND priority = %(priority)s
                   AND status = 'pending' AND ready
                   AND organization_id > turn.organization_id
                 ORDER BY organization_id LIMIT 1) next
          WHERE turn.seat < %(page)s)
    ),
    again (organization_id, seat) AS (
        (SELECT organization_id, (SELECT count(*) FROM turn)::int + 1
           FROM notifications
          WHERE channel = %(channel)s AND priority = %(priority)s AND status = 'pending' AND ready
            AND organization_id <= %(after)s
            AND (SELECT count(*) FROM turn) < %(page)s
          ORDER BY organization_id LIMIT 1)
        UNION ALL
        (SELECT next.organization_id, again.seat + 1
           FROM again
          CROSS JOIN LATERAL (
                SELECT organization_id
                  FROM notifications
                 WHERE channel = %(channel)s AND priority = %(priority)s
                   AND status = 'pending' AND ready
                   AND organization_id > again.organization_id AND organization_id <= %(after)s
                 ORDER BY organization_id LIMIT 1) next
          WHERE again.seat < %(page)s)
    ),
    organization AS MATERIALIZED (
        SELECT organization_id, seat FROM turn UNION ALL SELECT organization_id, seat FROM again
    ),
    share AS (
        SELECT ceil(%(page)s::numeric / greatest(count(*), 1))::int AS size FROM organization
    ),
    due AS MATERIALIZED (
        SELECT row.id
          FROM organization
         CROSS JOIN share
         CROSS JOIN LATERAL (
               SELECT id, row_number() OVER (ORDER BY available_at, id) AS place
                 FROM (SELECT id, available_at
                         FROM notifications n
                        WHERE channel = %(channel)s AND priority = %(priority)s
                          AND status = 'pending' AND ready
                          AND n.organization_id = organization.organization_id
                        ORDER BY available_at, id
                        LIMIT share.size
                          FOR UPDATE SKIP LOCKED) locked) row
         ORDER BY row.place, organization.seat
         LIMIT %(page)s
    )
    UPDATE notifications n
       SET status = 'leased', reason = NULL, lease_number = n.lease_number + 1,
           lease_until = t.at + %(lease_seconds)s * interval '1 second',
           leased_by = %(leased_by)s, updated_at = t.at
      FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
     WHERE n.id = ANY(ARRAY(SELECT id FROM due))
    RETURNING n.id, n.organization_id, n.lease_number, n.channel, n.priority, n.category,
              (n.verdict = 'allow' AND n.policy_version = %(policy_version)s) IS TRUE AS decided,
              (SELECT organization_id FROM organization ORDER BY seat DESC LIMIT 1) AS cursor,
              t.at AS now
"""


def lease_page(
    database: Database,
    *,
    channel: str,
    priority: str,
    page: int,
    after: UUID,
    lease_seconds: float,
    leased_by: str,
    now: datetime | None = None,
) -> list[Leased]:
    """Lease at most ``page`` ready rows, organizations in turn after the cursor ``after``."""
    parameters = {
        "channel": channel,
        "priority": priority,
        "page": page,
        "after": after,
        "lease_seconds": lease_seconds,
        "leased_by": leased_by,
        "policy_version": POLICY_VERSION,
        "now": now,
    }

    def lease(connection: psycopg.Connection) -> list[Leased]:
        with connection.cursor(row_factory=class_row(Leased)) as cursor:
            return cursor.execute(LEASE_PAGE, parameters).fetchall()

    return database.run(lease)


# Fenced by the lease, and only while no attempt is open.
RECORD_VERDICTS = """
    WITH decision AS MATERIALIZED (
        SELECT * FROM unnest(%(ids)b::uuid[], %(leases)b::int4[], %(verdicts)b::text[],
                             %(reasons)b::text[], %(untils)b::timestamptz[])
                      AS d (id, lease_number, verdict, reason, until)
    ),
    decided AS (
        UPDATE notifications n
           SET verdict = d.verdict, policy_version = %(policy_version)s,
               status = CASE d.verdict WHEN 'allow' THEN n.status
                                       WHEN 'defer' THEN 'pending'
                                       ELSE CASE WHEN n.in_doubt > 0 THEN 'unconfirmed'
                                                 ELSE 'suppressed' END END,
               reason = CASE d.verdict WHEN 'allow' THEN n.reason ELSE d.reason END,
               ready = CASE d.verdict WHEN 'defer' THEN false ELSE n.ready END,
               available_at = coalesce(d.until, n.available_at),
               eligible_at = coalesce(d.until, n.eligible_at),
               lease_until = CASE d.verdict WHEN 'allow' THEN n.lease_until END,
               final_at = CASE d.verdict WHEN 'suppress' THEN t.at ELSE n.final_at END,
               updated_at = t.at
          FROM decision d
         CROSS JOIN (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE n.id = d.id AND n.lease_number = d.lease_number
           AND n.status = 'leased' AND n.attempt_id IS NULL
        RETURNING n.id, n.organization_id, n.lease_number, NEW.status, NEW.reason, t.at
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason,
            lease_number)
    SELECT id, organization_id, at, 'policy', 'leased', status, reason, lease_number
      FROM decided
     WHERE status <> 'leased'
"""


def record_verdicts(
    database: Database,
    verdicts: Sequence[tuple[Leased, Verdict]],
    *,
    now: datetime | None = None,
) -> None:
    """Store each verdict; a deferred row waits until its time, a suppressed one ends.

    A verdict that an earlier lease already stored under this policy version is not written again.
    """
    news = [
        (row, verdict)
        for row, verdict in verdicts
        if not (row.decided and isinstance(verdict, Allow))
    ]
    if not news:
        return
    parameters = {
        "ids": [row.id for row, _ in news],
        "leases": [row.lease_number for row, _ in news],
        "verdicts": [verdict.name for _, verdict in news],
        "reasons": [
            verdict.reason if isinstance(verdict, Defer | Suppress) else None for _, verdict in news
        ],
        "untils": [verdict.until if isinstance(verdict, Defer) else None for _, verdict in news],
        "policy_version": POLICY_VERSION,
        "now": now,
    }

    def record(connection: psycopg.Connection) -> None:
        lock_notifications(connection, [row.id for row, _ in news])
        connection.execute(RECORD_VERDICTS, parameters)

    database.run(record, pipelined=True)


RELEASE = """
    WITH released AS (
        UPDATE notifications n
           SET status = 'pending', ready = true, lease_until = NULL, leased_by = NULL,
               updated_at = t.at
          FROM unnest(%(ids)b::uuid[], %(leases)b::int4[]) AS m (id, lease_number)
         CROSS JOIN (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE n.id = m.id AND n.lease_number = m.lease_number
           AND n.status = 'leased' AND n.attempt_id IS NULL
        RETURNING n.id, n.organization_id, n.lease_number, t.at
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason,
            lease_number)
    SELECT id, organization_id, at, 'claim', 'leased', 'pending', 'not_dispatched', lease_number
      FROM released
"""


def release(
    database: Database, leases: Sequence[tuple[UUID, int]], *, now: datetime | None = None
) -> None:
    """Give back those of the leases (id, lease number) under which no attempt was opened."""
    if not leases:
        return
    ids = [id for id, _ in leases]
    parameters = {"ids": ids, "leases": [number for _, number in leases], "now": now}

    def give(connection: psycopg.Connection) -> None:
        lock_notifications(connection, ids)
        connection.execute(RELEASE, parameters)

    database.run(give, pipelined=True)
