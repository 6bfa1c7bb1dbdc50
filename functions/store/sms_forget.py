"""What of the books of SMS no longer decides anything, and goes."""

from datetime import datetime

import psycopg
from psycopg.rows import scalar_row

from functions.core.abuse import hour_of
from functions.core.usual import HOURS
from functions.store.connection import Database

FORGOTTEN_AT_ONCE = 1000
PREFIX_DAYS = 60
"""Without a message: nothing of what was usual is left by then."""

# A full bucket and a reservation of another day say nothing; nobody waits for a row that is used.
FORGET_NUMBERS = """
    DELETE FROM sms_numbers
     WHERE ctid = ANY(ARRAY(
           SELECT ctid
             FROM sms_numbers
            WHERE full_at < %(now)s - interval '2 days'
            ORDER BY full_at
            LIMIT %(limit)s
              FOR UPDATE SKIP LOCKED))
"""

FORGET_RESERVATIONS = """
    DELETE FROM sms_reservations
     WHERE ctid = ANY(ARRAY(
           SELECT ctid
             FROM sms_reservations
            WHERE day < (%(now)s AT TIME ZONE 'UTC')::date - 1
            ORDER BY day
            LIMIT %(limit)s
              FOR UPDATE SKIP LOCKED))
"""

FORGET_PREFIXES = """
    DELETE FROM sms_slices
     WHERE ctid = ANY(ARRAY(
           SELECT ctid
             FROM sms_slices
            WHERE hour < %(hour)s AND kind = 'prefix'
            ORDER BY hour
            LIMIT %(limit)s
              FOR UPDATE SKIP LOCKED))
"""

READ_CLOCK = "SELECT coalesce(%(now)s, clock_timestamp())"


def forget(database: Database, *, now: datetime | None = None) -> int:
    """Delete up to 1000 rows each of what no longer decides anything; return how many."""

    def work(connection: psycopg.Connection) -> int:
        with connection.cursor(row_factory=scalar_row) as cursor:
            (at,) = cursor.execute(READ_CLOCK, {"now": now}).fetchall()
        values = {
            "now": at,
            "hour": hour_of(at) - PREFIX_DAYS * HOURS,
            "limit": FORGOTTEN_AT_ONCE,
        }
        numbers = connection.execute(FORGET_NUMBERS, values).rowcount
        reservations = connection.execute(FORGET_RESERVATIONS, values).rowcount
        return numbers + reservations + connection.execute(FORGET_PREFIXES, values).rowcount

    return database.run(work)
