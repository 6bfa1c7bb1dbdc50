"""The token bucket of a channel: leases in t seconds stay within rate · t + burst.

Paid in one short statement before the lease; no lock is held in between, so that a claimer that
stops for a while stalls nobody (with the channel locked for the page, two claimers were slower than
one). Tokens that a lost connection or a crash leaves unused are gone; time brings others.
"""

from datetime import datetime

import psycopg
from psycopg.rows import scalar_row

from functions.store.connection import Database

# The bucket is refilled by the time that passed, never by less than nothing (a clock stepped back),
# and pays in the same statement. A bucket that another claimer is paying from gives nothing.
RESERVE = """
    UPDATE channels c
       SET tokens = r.level - r.granted, refilled_at = greatest(c.refilled_at, r.at)
      FROM (SELECT name, at, level,
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
