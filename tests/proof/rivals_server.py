"""The server all systems share in the comparison: thrown away, with a database for each probe."""

import asyncio
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from infra.local.postgres import HOST, SUPERUSER, Postgres
from tests.conftest import TEST_OPTIONS, free_port, owner_connection

_numbers = count(1)


@contextmanager
def thrown_away_server() -> Generator[Postgres]:
    """Yield a running server that is deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="sendoff-rivals-") as folder:
        path = Path(folder)
        server = Postgres(path / "cluster", free_port(), path / "postgres.log", TEST_OPTIONS)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def new_database(server: Postgres, *, template: str = "template1") -> str:
    """Create a database; return its name."""
    name = f"probe_{next(_numbers)}"
    with owner_connection(server, "postgres") as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
    return name


def url_of(server: Postgres, name: str) -> str:
    return f"postgresql://{SUPERUSER}@{HOST}:{server.port}/{name}"


WAITS = "SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"


async def waits_for_a_lock(owner: psycopg.Connection, who: psycopg.AsyncConnection[Any]) -> None:
    """Return once ``who`` waits for a lock that another connection holds."""
    while owner.execute(WAITS, [who.info.backend_pid]).fetchone() is None:
        await asyncio.sleep(0)
