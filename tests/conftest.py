"""One PostgreSQL cluster per test process; each test clones a migrated template database.

Tests run in three processes: many of them wait. Those that share something dear (a local stack, a
synthesis) run in one of them, and the stack's begin first: they are the longest way to the end.
"""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from xdist.scheduler import LoadScopeScheduling

from functions.core.login import Login
from functions.migrate.migrate import migrate
from functions.store.connection import Database, connector
from infra.local.postgres import HOST, SUPERUSER, Postgres

_numbers = count(1)

# The processes that tests start, a few hundred, need not compile everything anew each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

TESTS = Path(__file__).parent
TOGETHER = frozenset({"journey", "infra"})
"""Folders whose tests share what a fixture of the session makes: a stack, a synthesis."""
SHARING = frozenset({"integration/test_plans.py", "integration/test_migrations.py"})
"""Files whose tests share what a fixture of the module makes: much in a database."""
LONGEST = ("journey", "infra", "proof", "")


class Scheduling(LoadScopeScheduling):
    """Gives each test to whoever is free, but those of such a folder or file to one process."""

    def _split_scope(self, nodeid: str) -> str:  # what xdist has subclasses override
        path = nodeid.removeprefix("tests/").partition("::")[0]
        folder = path.partition("/")[0]
        if folder in TOGETHER:
            return folder
        return path if path in SHARING else nodeid


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest: what is left to the end should be over soon."""
    items.sort(key=lambda item: LONGEST.index(_folder_of(item)))


def _folder_of(item: pytest.Item) -> str:
    folder = item.path.relative_to(TESTS).parts[0]
    return folder if folder in LONGEST else ""


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    config.option.loadscopereorder = False  # by size, the journey would not come first
    return Scheduling(config, log)


# Durability off: these servers are thrown away. What is tested is locking and visibility.
TEST_OPTIONS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=60")


MEMORY, ENOUGH_BYTES = Path("/dev/shm"), 2 * 1024**3


def _memory() -> Path | None:
    """Return a folder in memory where there is enough of it: a clone takes 15 ms instead of 150."""
    try:
        if shutil.disk_usage(MEMORY).free < ENOUGH_BYTES:
            return None
        return Path(tempfile.mkdtemp(prefix="sendoff-postgres-", dir=MEMORY))
    except OSError:
        return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A running server with a migrated database named ``template``."""
    folder = _memory() or tmp_path_factory.mktemp("postgres")
    server = Postgres(folder / "cluster", free_port(), folder / "postgres.log", TEST_OPTIONS)
    server.start()
    try:
        with owner_connection(server, "postgres") as connection:
            connection.execute("CREATE DATABASE template")
        with owner_connection(server, "template") as connection:
            migrate(connection)
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def owner_connection(server: Postgres, name: str) -> psycopg.Connection:
    return psycopg.connect(
        host=HOST, port=server.port, dbname=name, user=SUPERUSER, autocommit=True
    )


@pytest.fixture(scope="session")
def maker(postgres: Postgres) -> Iterator[psycopg.Connection]:
    """The connection that makes each test's database, and drops it."""
    with owner_connection(postgres, "postgres") as connection:
        yield connection


@pytest.fixture
def database_name(maker: psycopg.Connection) -> Iterator[str]:
    """The name of a fresh database, equal to the template."""
    name = f"test_{next(_numbers)}"
    maker.execute(
        sql.SQL("CREATE DATABASE {} TEMPLATE template STRATEGY FILE_COPY").format(
            sql.Identifier(name)
        )
    )
    yield name
    maker.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def login(postgres: Postgres, database_name: str) -> Login:
    """How the functions' role logs in to the fresh database."""
    return Login(
        host=HOST, port=postgres.port, name=database_name, user="sendoff_service", tls=False
    )


@pytest.fixture
def database(login: Login) -> Iterator[Database]:
    """The fresh database as a function sees it: by the service role, one connection."""
    database = Database(connector(lambda: login, application_name="test"))
    yield database
    database.close()


@pytest.fixture
def owner(postgres: Postgres, database_name: str) -> Iterator[psycopg.Connection]:
    """The fresh database as its owner, to arrange and to look."""
    with owner_connection(postgres, database_name) as connection:
        yield connection
