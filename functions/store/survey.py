"""What a round of the claim begins with: whose run it is, what became due, what is ready."""

from dataclasses import dataclass
from datetime import datetime

import psycopg
from psycopg.rows import class_row, scalar_row

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
    """A channel as a round finds it; nothing is ready in a paused one."""

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


# One index descent per channel and priority: the order makes it one. EXISTS alone is planned for a
# row that is there, and reads the whole table where none is. `leased` counts live leases only.
# Paused channels are listed too: the generation must be seen even when all of them are.
SURVEY = """
    SELECT c.name AS channel, c.page, c.max_in_flight, c.lease_seconds,
           (SELECT count(*) FROM notifications n
             WHERE n.channel = c.name AND n.lease_until IS NOT NULL AND n.status = 'leased')
           AS leased,
           c.paused_at IS NULL AND (
               SELECT true FROM notifications n
                WHERE n.channel = c.name AND n.priority = 'high'
                  AND n.status = 'pending' AND n.ready
                ORDER BY n.organization_id LIMIT 1) IS NOT NULL AS high,
           c.paused_at IS NULL AND (
               SELECT true FROM notifications n
                WHERE n.channel = c.name AND n.priority = 'normal'
                  AND n.status = 'pending' AND n.ready
                ORDER BY n.organization_id LIMIT 1) IS NOT NULL AS normal,
           c.paused_at IS NULL AND (
               SELECT true FROM notifications n
                WHERE n.channel = c.name AND n.priority = 'low'
                  AND n.status = 'pending' AND n.ready
                ORDER BY n.organization_id LIMIT 1) IS NOT NULL AS low,
           coalesce((SELECT r.generation FROM runs r WHERE r.name = %(run)s), 0) AS generation
      FROM channels c
     ORDER BY c.name
"""


def survey(database: Database, *, run: str) -> list[Survey]:
    """Return what is ready per channel, and the newest generation of ``run``."""

    def read(connection: psycopg.Connection) -> list[Survey]:
        with connection.cursor(row_factory=class_row(Survey)) as cursor:
            return cursor.execute(SURVEY, {"run": run}).fetchall()

    return database.run(read)
