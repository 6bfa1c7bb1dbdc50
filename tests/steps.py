"""The steps of a notification as tests take them: connect, wait for a lock, lease, begin, close."""

import dataclasses
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID, uuid4

import psycopg

from functions.core.declaration import Declaration
from functions.core.login import Login
from functions.core.outcome import Outcome
from functions.providers.choice import DECLARATIONS
from functions.store.begin import Begun, Opening, begin
from functions.store.channel import ChannelRow, read_channels
from functions.store.claim import NO_ORGANIZATION, Leased, Page, lease_page
from functions.store.close import Closing, close
from functions.store.connection import Database, connector
from functions.store.delivery import load
from infra.local.postgres import SUPERUSER

T = TypeVar("T")
D = TypeVar("D", bound=Database)

LEASE_SECONDS = 60.0
REMAINING_SECONDS = 30.0
"""Of the invocation that begins an attempt, with its margin."""


@contextmanager
def connected(login: Login, *names: str, kind: type[D]) -> Generator[list[D]]:
    """Yield a database per name, each with a connection of its own that is seen by that name."""

    def connect_as(name: str) -> D:
        return kind(connector(lambda: login, application_name=name))

    databases = [connect_as(name) for name in names]
    try:
        yield databases
    finally:
        for database in databases:
            database.close()


@contextmanager
def as_owner(login: Login) -> Generator[Database]:
    """Yield the same database, used by its owner."""
    owner = dataclasses.replace(login, user=SUPERUSER)
    with connected(owner, "owner", kind=Database) as (database,):
        set_for(database, "lock_timeout", "5s")
        yield database


class LosesCommit(psycopg.Connection):
    """A connection whose COMMIT arrives, and whose answer does not."""

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Generator[psycopg.Transaction]:
        with super().transaction(savepoint_name, force_rollback) as transaction:
            yield transaction
        self.close()
        raise psycopg.OperationalError("the connection was lost")


@contextmanager
def losing_its_first_commit(login: Login) -> Generator[Database]:
    """Yield a database whose first connection loses the answer to its first COMMIT."""
    kinds: list[type[psycopg.Connection]] = [LosesCommit]

    def connect() -> psycopg.Connection:
        return (kinds.pop() if kinds else psycopg.Connection).connect(
            host=login.host, port=login.port, dbname=login.name, user=login.user, autocommit=True
        )

    database = Database(connect)
    try:
        yield database
    finally:
        database.close()


WAITS = """
    SELECT pid
      FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = %s AND wait_event_type = 'Lock'
"""


@contextmanager
def waiting(owner: psycopg.Connection, name: str, work: Callable[[], T]) -> Generator[Future[T]]:
    """Run ``work`` in a thread; yield once the connection called ``name`` waits for a lock."""
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(work)
        while owner.execute(WAITS, [name]).fetchone() is None:
            assert not future.done(), f"{name} did not wait: {future.exception() or 'it ended'}"
        yield future


def set_for(database: Database, setting: str, value: str) -> None:
    """Set a setting of the session that ``database`` has."""
    statement = "SELECT set_config(%s, %s, false)"
    database.run(lambda connection: connection.execute(statement, [setting, value]))


def now_of(owner: psycopg.Connection, **later: float) -> datetime:
    """Return the database's clock, moved by a timedelta: tests move time by parameter only."""
    row = owner.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment + timedelta(**later)


def lease_turn(
    database: Database,
    *,
    channel: str = "email",
    priority: str = "normal",
    page: int = 100,
    after: UUID = NO_ORGANIZATION,
    lease_seconds: float = LEASE_SECONDS,
    now: datetime | None = None,
) -> Page:
    """Lease one page, with what it tells about the next."""
    return lease_page(
        database,
        channel=channel,
        priority=priority,
        page=page,
        after=after,
        lease_seconds=lease_seconds,
        leased_by="test",
        now=now,
    )


def lease(
    database: Database,
    *,
    channel: str = "email",
    priority: str = "normal",
    page: int = 100,
    lease_seconds: float = LEASE_SECONDS,
    now: datetime | None = None,
) -> list[Leased]:
    """Lease one page from the first organization on."""
    return lease_turn(
        database,
        channel=channel,
        priority=priority,
        page=page,
        lease_seconds=lease_seconds,
        now=now,
    ).leased


def opening_of(leased: Leased) -> Opening:
    """Return what opens an attempt under the lease, with a token of its own."""
    return Opening(id=leased.id, lease_number=leased.lease_number, token=uuid4())


def declaration_of(name: str) -> Declaration:
    """Return what the provider ``name`` promises; one that there is not promises nothing."""
    known = {declaration.name: declaration for declaration in DECLARATIONS}
    return known.get(name) or Declaration(name=name, keyed=False, receipts=True)


def begin_all(
    database: Database,
    openings: Sequence[Opening],
    *,
    provider: str = "http",
    remaining_seconds: float = REMAINING_SECONDS,
    now: datetime | None = None,
) -> dict[UUID, Begun]:
    """Open an attempt each, to be made with ``provider``."""
    return begin(
        database,
        openings,
        declaration=declaration_of(provider),
        declarations=DECLARATIONS,
        remaining_seconds=remaining_seconds,
        now=now,
    )


def begin_one(
    database: Database,
    opening: Opening,
    *,
    provider: str = "http",
    remaining_seconds: float = REMAINING_SECONDS,
    now: datetime | None = None,
) -> Begun:
    """Open one attempt."""
    answers = begin_all(
        database, [opening], provider=provider, remaining_seconds=remaining_seconds, now=now
    )
    return answers[opening.id]


def begun(
    database: Database,
    *,
    now: datetime | None = None,
    lease_seconds: float = LEASE_SECONDS,
    provider: str = "http",
) -> Opening:
    """Lease the only notification there is and open an attempt; return what opened it."""
    (leased,) = lease(database, now=now, lease_seconds=lease_seconds)
    opening = opening_of(leased)
    answer = begin_one(database, opening, now=now, provider=provider)
    assert (answer.verdict, answer.send) == ("go", True)
    return opening


def close_one(
    database: Database,
    opening: Opening,
    outcome: Outcome,
    *,
    keyed: bool = True,
    again_seconds: float | None = 60.0,
    now: datetime | None = None,
) -> str | None:
    """Close one attempt; return where its notification is, None when the write was fenced."""
    closing = Closing(
        id=opening.id,
        lease_number=opening.lease_number,
        token=opening.token,
        outcome=outcome,
        again_seconds=again_seconds,
    )
    channel = channel_of(database)
    declaration = declaration_of("http" if keyed else "http_keyless")
    answers = close(database, [closing], channel=channel, declaration=declaration, now=now)
    return answers[opening.id].status


def channel_of(database: Database, name: str = "email") -> ChannelRow:
    return read_channels(database)[name]


def token_of(database: Database, id: UUID) -> UUID:
    """Return the token a sender would be given for its attempt."""
    return load(database, [id])[id].token
