"""Databases for random histories: a server of their own, one database per worker, three roles."""

import shutil
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
from psycopg import sql

from functions.core.login import Login
from functions.migrate.migrate import migrate
from functions.store.connection import Database, connector
from infra.local.postgres import HOST, SUPERUSER, Postgres
from tests.conftest import MEMORY, TEST_OPTIONS, free_port, owner_connection
from tests.proof.histories_connections import Connections, connections

TEMPLATE = "template"


@contextmanager
def served() -> Generator[Postgres]:
    """Yield a running server with a migrated database to clone, gone afterwards."""
    folder = Path(
        tempfile.mkdtemp(prefix="sendoff-histories-", dir=MEMORY if MEMORY.exists() else None)
    )
    server = Postgres(folder / "cluster", free_port(), folder / "postgres.log", TEST_OPTIONS)
    try:
        server.start()
        with owner_connection(server, "postgres") as connection:
            connection.execute("CREATE DATABASE template")
        with owner_connection(server, TEMPLATE) as connection:
            migrate(connection)
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def clone(port: int, name: str) -> None:
    """Create the database ``name``, equal to the migrated template."""
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
    with psycopg.connect(
        host=HOST, port=port, dbname="postgres", user=SUPERUSER, autocommit=True
    ) as connection:
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(TEMPLATE)))


@contextmanager
def connected_as_all(login: Login) -> Generator[Connections]:
    """Yield connections of the functions, the operator and the owner."""
    operator = replace(login, user="sendoff_operator")
    with ExitStack() as stack:
        service, people = (
            stack.enter_context(
                closing(Database(connector(lambda who=who: who, application_name=who.user)))
            )
            for who in (login, operator)
        )
        owner = stack.enter_context(
            psycopg.connect(
                host=login.host,
                port=login.port,
                dbname=login.name,
                user=SUPERUSER,
                autocommit=True,
            )
        )
        yield connections(service, people, owner)
