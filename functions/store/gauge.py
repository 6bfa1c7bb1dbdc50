"""Gauges: how much waits and for how long, read from the queue of record itself.

The sweeper publishes them, so that a dead claim does not blind the alarms about it.
"""

from dataclasses import dataclass
from datetime import datetime

import psycopg
from psycopg.rows import class_row, scalar_row

from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyGauge:
    """What is ready to be claimed, per channel and priority."""

    channel: str
    priority: str
    ready: int
    oldest_eligible_age_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelGauge:
    """What is on its way or held, per channel."""

    channel: str
    leased: int
    waiting: int
    uncertain: int
    submitted: int
    dead: int
    open_breakers: int


# Every channel and priority appears, so that an alarm sees zero and not silence. A row whose time
# has come but that no claim has promoted counts too: that is exactly what a dead claim looks like.
READY_GAUGES = """
    SELECT c.name AS channel, p.priority, count(n.id)::int AS ready,
           coalesce(extract(epoch FROM (SELECT coalesce(%(now)s, clock_timestamp()))
                            - min(n.eligible_at)), 0)::float8 AS oldest_eligible_age_seconds
      FROM channels c
     CROSS JOIN (VALUES ('high'), ('normal'), ('low')) AS p (priority)
      LEFT JOIN (
           SELECT id, channel, priority, eligible_at
             FROM notifications
            WHERE status = 'pending' AND ready
           UNION ALL
           SELECT id, channel, priority, eligible_at
             FROM notifications
            WHERE status = 'pending' AND NOT ready
              AND available_at <= (SELECT coalesce(%(now)s, clock_timestamp()))) n
        ON n.channel = c.name AND n.priority = p.priority
     GROUP BY c.name, p.priority
     ORDER BY c.name, p.priority
"""

# Each count reads one partial index of live rows, once for all channels. Parents of fallback
# candidates only show how these stand, and are not counted beside them.
CHANNEL_GAUGES = """
    SELECT c.name AS channel,
           coalesce(sum(live.number) FILTER (WHERE live.kind = 'leased'), 0)::int AS leased,
           coalesce(sum(live.number) FILTER (WHERE live.kind = 'waiting'), 0)::int AS waiting,
           coalesce(sum(live.number) FILTER (WHERE live.kind = 'uncertain'), 0)::int AS uncertain,
           coalesce(sum(live.number) FILTER (WHERE live.kind = 'submitted'), 0)::int AS submitted,
           coalesce(sum(live.number) FILTER (WHERE live.kind = 'dead'), 0)::int AS dead,
           (SELECT count(*) FROM breakers b
             WHERE b.channel = c.name AND b.opened_at IS NOT NULL)::int AS open_breakers
      FROM channels c
      LEFT JOIN (
           SELECT channel, status AS kind, count(*) AS number
             FROM notifications
            WHERE status = 'leased' AND lease_until IS NOT NULL
            GROUP BY channel, status
           UNION ALL
           SELECT channel, 'waiting', count(*)
             FROM notifications
            WHERE status = 'pending' AND NOT ready AND channels IS NULL
            GROUP BY channel
           UNION ALL
           SELECT channel, status, count(*)
             FROM notifications
            WHERE status IN ('submitted', 'uncertain') AND channels IS NULL
            GROUP BY channel, status
           UNION ALL
           SELECT channel, status, count(*)
             FROM notifications
            WHERE status = 'dead' AND discarded_at IS NULL AND channels IS NULL
            GROUP BY channel, status) live
        ON live.channel = c.name
     GROUP BY c.name
     ORDER BY c.name
"""


def ready_gauges(database: Database, *, now: datetime | None = None) -> list[ReadyGauge]:
    """Return what is ready per channel and priority, with the age of the oldest in seconds."""

    def read(connection: psycopg.Connection) -> list[ReadyGauge]:
        with connection.cursor(row_factory=class_row(ReadyGauge)) as cursor:
            return cursor.execute(READY_GAUGES, {"now": now}).fetchall()

    return database.run(read)


def channel_gauges(database: Database) -> list[ChannelGauge]:
    """Return what is on its way, waiting or held per channel."""

    def read(connection: psycopg.Connection) -> list[ChannelGauge]:
        with connection.cursor(row_factory=class_row(ChannelGauge)) as cursor:
            return cursor.execute(CHANNEL_GAUGES).fetchall()

    return database.run(read)


STOPPED_ENDPOINTS = """
    SELECT count(*)::int FROM endpoints WHERE paused_at IS NOT NULL OR disabled_at IS NOT NULL
"""


def stopped_endpoints(database: Database) -> int:
    """Return how many endpoints are paused or disabled."""

    def read(connection: psycopg.Connection) -> int:
        with connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(STOPPED_ENDPOINTS).fetchone() or 0

    return database.run(read)
