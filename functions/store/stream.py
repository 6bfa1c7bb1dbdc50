"""A stream's own pace within its channel's: a second token bucket, where it has one.

As with the channel's, a bucket is paid in one short statement before the lease, and what was not
needed is given back. A stream without a rate of its own has no bucket, and costs no statement.
"""

from datetime import datetime

import psycopg
from psycopg.rows import scalar_row

from functions.store.connection import Database

RESERVE_STREAM = """
    UPDATE streams s
       SET tokens = r.level - r.granted, refilled_at = greatest(s.refilled_at, r.at)
      FROM (SELECT channel, name, at, level, floor(least(level, %(wanted)s))::int AS granted
              FROM (SELECT s.channel, s.name, t.at,
                           least(s.burst, s.tokens + s.rate
                                 * greatest(0, extract(epoch FROM t.at - s.refilled_at))) AS level
                      FROM streams s
                     CROSS JOIN LATERAL (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
                     WHERE s.channel = %(channel)s AND s.name = %(stream)s
                       AND s.rate IS NOT NULL AND s.paused_at IS NULL
                       FOR UPDATE OF s SKIP LOCKED) bucket) r
     WHERE s.channel = r.channel AND s.name = r.name AND r.granted > 0
    RETURNING r.granted
"""


def reserve_stream(
    database: Database, *, channel: str, stream: str, wanted: int, now: datetime | None = None
) -> int:
    """Take up to ``wanted`` tokens of the stream's own bucket."""
    parameters = {"channel": channel, "stream": stream, "wanted": wanted, "now": now}

    def take(connection: psycopg.Connection) -> int:
        with connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(RESERVE_STREAM, parameters).fetchone() or 0

    return database.run(take)


GIVE_BACK_STREAM = """
    UPDATE streams
       SET tokens = least(burst, tokens + %(unused)s)
     WHERE channel = %(channel)s AND name = %(stream)s AND rate IS NOT NULL
"""


def give_back_stream(database: Database, *, channel: str, stream: str, unused: int) -> None:
    """Return tokens that were reserved and not needed."""
    parameters = {"channel": channel, "stream": stream, "unused": unused}
    database.run(lambda connection: connection.execute(GIVE_BACK_STREAM, parameters))
