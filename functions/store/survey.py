"""What a round of the claim begins with: whose run it is, what became due, what is ready."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row, scalar_row

from functions.core.share import WEIGHTS
from functions.core.states import Stream
from functions.store.connection import Database

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
# While retries are off somewhere it promotes nothing: that is for `promote_first` to do.
PROMOTE = """
    UPDATE notifications SET ready = true
     WHERE id = ANY(ARRAY(
           SELECT id FROM notifications
            WHERE status = 'pending' AND NOT ready
              AND available_at <= (SELECT coalesce(%(now)s, clock_timestamp()))
              AND (SELECT bool_and(retries) FROM channels)
            ORDER BY available_at
            LIMIT %(limit)s
              FOR UPDATE SKIP LOCKED))
"""
PROMOTED_AT_ONCE = 1000


def promote(database: Database, *, now: datetime | None = None) -> int:
    """Make up to 1000 rows ready whose ``available_at`` has come; return how many."""
    parameters = {"now": now, "limit": PROMOTED_AT_ONCE}
    return database.run(lambda connection: connection.execute(PROMOTE, parameters).rowcount)


Place = tuple[datetime, UUID]
"""Of a row among those that wait: when it is due, and its id."""

FIRST_PLACE: Place = (datetime(1, 1, 2, tzinfo=UTC), UUID(int=0))
WALKED_AT_ONCE = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A part of what is due, walked over: how many of it are ready now, and how far it went."""

    promoted: int
    walked: int
    place: Place

    @property
    def is_over(self) -> bool:
        """Nothing more was due."""
        return self.walked < WALKED_AT_ONCE


# walked:   what is due after a place, without a lock: most of it may be retries that stay. The row
#           comparison bounds the index by its first column, and filters by its second.
# promoted: whatever happened to a row since. Not as the conjunction that it is: that is the
#           condition of the index of all that waits, which would then be read instead of its ids.
PROMOTE_FIRST = """
    WITH walked AS MATERIALIZED (
        SELECT id, available_at,
               attempts_spent = 0 AND in_doubt = 0
               OR channel = ANY(ARRAY(SELECT name FROM channels WHERE retries)) AS goes_on
          FROM notifications
         WHERE status = 'pending' AND NOT ready
           AND available_at <= (SELECT coalesce(%(now)s, clock_timestamp()))
           AND (available_at, id) > (%(after)s, %(after_id)s)
         ORDER BY available_at, id
         LIMIT %(limit)s
    ),
    promoted AS (
        UPDATE notifications SET ready = true
         WHERE id = ANY(ARRAY(
               SELECT id FROM notifications
                WHERE id = ANY(ARRAY(SELECT id FROM walked WHERE goes_on))
                  FOR UPDATE SKIP LOCKED))
           AND CASE status WHEN 'pending' THEN NOT ready ELSE false END
        RETURNING id
    )
    SELECT (SELECT count(*) FROM promoted)::int AS promoted,
           (SELECT count(*) FROM walked)::int AS walked, last.available_at, last.id
      FROM (SELECT NULL) one
      LEFT JOIN (SELECT available_at, id FROM walked
                  ORDER BY available_at DESC, id DESC LIMIT 1) last ON true
"""


def promote_first(database: Database, *, after: Place, now: datetime | None = None) -> Walk:
    """Make ready what is due after ``after``, but for retries of channels where they are off.

    It walks over those once and then begins after them, so that however many wait they cost a
    round nothing. What becomes due later stands later. What is seen too late, because its writer
    committed late or held it, is found when somebody begins at ``FIRST_PLACE`` again.
    """
    at, id = after
    parameters = {"after": at, "after_id": id, "limit": WALKED_AT_ONCE, "now": now}

    def walk(connection: psycopg.Connection) -> Walk:
        ((promoted, walked, *last),) = connection.execute(PROMOTE_FIRST, parameters).fetchall()
        place = after if last[0] is None else (last[0], last[1])
        return Walk(promoted=promoted, walked=walked, place=place)

    return database.run(walk)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A channel as a round finds it; nothing is ready in a paused one, nor in a paused stream, nor
    in one whose own bucket is empty."""

    channel: str
    provider: str
    fallback_provider: str | None
    page: int
    max_in_flight: int
    lease_seconds: float
    retries: bool
    leased: int
    transactional: list[str]
    bulk: list[str]
    """Priorities with something ready, by stream."""
    paced: list[str]
    """Streams with a bucket of their own."""
    generation: int

    @property
    def ready(self) -> dict[str, list[str]]:
        """Streams with something ready by priority, highest first."""
        found = {str(Stream.TRANSACTIONAL): self.transactional, str(Stream.BULK): self.bulk}
        ready = {
            priority: [stream for stream in found if priority in found[stream]]
            for priority in WEIGHTS
        }
        return {priority: streams for priority, streams in ready.items() if streams}


# lane: the streams and priorities with something ready, one index descent each. Only the claim's
#       index has this order, and so no other is taken: asked for one row of each by its values, the
#       planner read a whole table in another order where it thought that every row would do.
# `leased` counts live leases only. Paused channels are listed too: the generation must be seen even
# when all of them are.
SURVEY = """
    WITH RECURSIVE lane (channel, stream, priority) AS (
        (SELECT channel, stream, priority
           FROM notifications
          WHERE status = 'pending' AND ready
          ORDER BY channel, stream, priority LIMIT 1)
        UNION ALL
        (SELECT next.channel, next.stream, next.priority
           FROM lane
          CROSS JOIN LATERAL (
                SELECT channel, stream, priority
                  FROM notifications
                 WHERE status = 'pending' AND ready
                   AND (channel, stream, priority) > (lane.channel, lane.stream, lane.priority)
                 ORDER BY channel, stream, priority LIMIT 1) next)
    ),
    open AS (
        SELECT s.channel, s.name AS stream, array_agg(lane.priority) AS priorities
          FROM lane
          JOIN streams s ON s.channel = lane.channel AND s.name = lane.stream
         WHERE s.paused_at IS NULL
           AND (s.rate IS NULL
                OR least(s.burst, s.tokens + s.rate * greatest(0, extract(
                         epoch FROM clock_timestamp() - s.refilled_at))) >= 1)
         GROUP BY s.channel, s.name
    )
    SELECT c.name AS channel, c.provider, c.fallback_provider, c.page, c.max_in_flight,
           c.lease_seconds, c.retries,
           (SELECT count(*) FROM notifications n
             WHERE n.channel = c.name AND n.lease_until IS NOT NULL AND n.status = 'leased')
           AS leased,
           coalesce(transactional.priorities, '{}') AS transactional,
           coalesce(bulk.priorities, '{}') AS bulk,
           ARRAY(SELECT s.name FROM streams s WHERE s.channel = c.name AND s.rate IS NOT NULL)
           AS paced,
           coalesce((SELECT r.generation FROM runs r WHERE r.name = %(run)s), 0) AS generation
      FROM channels c
      LEFT JOIN open transactional
             ON transactional.channel = c.name AND transactional.stream = 'transactional'
            AND c.paused_at IS NULL
      LEFT JOIN open bulk
             ON bulk.channel = c.name AND bulk.stream = 'bulk' AND c.paused_at IS NULL
     ORDER BY c.name
"""


def survey(database: Database, *, run: str) -> list[Survey]:
    """Return what is ready per channel, and the newest generation of ``run``."""

    def read(connection: psycopg.Connection) -> list[Survey]:
        with connection.cursor(row_factory=class_row(Survey)) as cursor:
            return cursor.execute(SURVEY, {"run": run}).fetchall()

    return database.run(read)
