"""The token bucket of a channel: leases in t seconds stay within rate · t + burst.

Paid in one short statement before the lease; no lock is held in between, so that a claimer that
stops for a while stalls nobody (with the channel locked for the page, two claimers were slower than
one). Tokens that a lost connection or a crash leaves unused are gone; time brings others.

A provider that asks to slow down has the rate halved, and the bucket emptied, once a second at
most. What is left of the rate doubles every 15 s, by itself: nobody has to write that it recovers.
"""

from datetime import datetime

import psycopg
from psycopg.rows import scalar_row

from functions.store.connection import Database

RECOVERY_SECONDS = 15.0
"""In which a slowed channel's rate doubles."""

LEAST_FACTOR = 1 / 64
"""Of the rate: no provider slows a channel further. From there back takes a minute and a half."""

# The bucket is refilled by the time that passed, never by less than nothing (a clock stepped back),
# and pays in the same statement. A bucket that another claimer is paying from gives nothing.
# A slowed one is refilled by the integral of its growing rate, so that it does not matter how often
# it is asked. With `before` and `after`, in doublings since it was slowed, up to the one at which
# the rate is whole again: before and after = 0 for one that is not slowed.
RESERVE = """
    UPDATE channels c
       SET tokens = r.level - r.granted, refilled_at = greatest(c.refilled_at, r.at)
      FROM (SELECT name, at, level,
                   floor(least(level, %(wanted)s, greatest(max_in_flight - %(leased)s, 0)))::int
                   AS granted
              FROM (SELECT c.name, c.max_in_flight, t.at,
                           least(c.burst, c.tokens + c.rate * greatest(0,
                                 s.seconds - (d.after - d.before) * %(recovery_seconds)s
                                 + c.slow_factor * (2 ^ d.after - 2 ^ d.before)
                                   * %(recovery_seconds)s / ln(2.0::float8))) AS level
                      FROM channels c
                     CROSS JOIN LATERAL (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
                     CROSS JOIN LATERAL (
                           SELECT greatest(0, extract(epoch FROM t.at - c.refilled_at))::float8
                                  AS seconds) s
                     CROSS JOIN LATERAL (
                           SELECT -ln(c.slow_factor) / ln(2.0::float8) AS most,
                                  coalesce(greatest(0, extract(epoch FROM c.refilled_at
                                                                          - c.slowed_at)), 0)
                                  / %(recovery_seconds)s AS since) w
                     CROSS JOIN LATERAL (
                           SELECT least(w.since, w.most) AS before,
                                  least(w.since + s.seconds / %(recovery_seconds)s, w.most)
                                  AS after) d
                     WHERE c.name = %(channel)s AND c.paused_at IS NULL
                       FOR UPDATE OF c SKIP LOCKED) bucket) r
     WHERE c.name = r.name AND r.granted > 0
    RETURNING r.granted
"""


def reserve(
    database: Database, *, channel: str, wanted: int, leased: int, now: datetime | None = None
) -> int:
    """Take up to ``wanted`` tokens, within what rate, burst and in-flight budget allow."""
    parameters = {
        "channel": channel,
        "wanted": wanted,
        "leased": leased,
        "recovery_seconds": RECOVERY_SECONDS,
        "now": now,
    }

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


# Whoever waited for another's slowing down finds it done within the second, and changes nothing.
SLOW = """
    UPDATE channels c
       SET slow_factor = greatest(
               %(least_factor)s,
               least(1, c.slow_factor * 2 ^ least(
                   greatest(0, coalesce(extract(epoch FROM t.at - c.slowed_at), 0))
                   / %(recovery_seconds)s, 64)) / 2),
           slowed_at = t.at, tokens = 0, refilled_at = greatest(c.refilled_at, t.at)
      FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
     WHERE c.name = %(channel)s
       AND (c.slowed_at IS NULL OR c.slowed_at <= t.at - interval '1 second'
            OR c.slowed_at > t.at + interval '1 second')
"""


def slow(database: Database, *, channel: str, now: datetime | None = None) -> bool:
    """Halve the channel's rate and empty its bucket, since its provider asked to slow down; return
    whether that had not been done within the last second."""
    parameters = {
        "channel": channel,
        "recovery_seconds": RECOVERY_SECONDS,
        "least_factor": LEAST_FACTOR,
        "now": now,
    }
    return database.run(lambda connection: connection.execute(SLOW, parameters).rowcount > 0)
