"""The database's clock: the only one that decides anything."""

import psycopg
from psycopg.rows import scalar_row

from functions.store.connection import Database

DATABASE_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"


def database_clock(database: Database) -> float:
    """Return the database's clock in unix seconds: what decides whether a callback is too old."""

    def read(connection: psycopg.Connection) -> float:
        with connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(DATABASE_CLOCK).fetchone() or 0.0

    return database.run(read)
