"""One connection per environment: lost, refused, read-only, slow; and what may have been done."""

import dataclasses
import os
import signal
from collections.abc import Callable, Generator

import psycopg
import pytest
from psycopg import errors, sql

from functions.core.errors import Unavailable
from functions.core.login import Login
from functions.core.outcome import Accepted
from functions.store.claim import NO_ORGANIZATION, lease_page
from functions.store.connection import Database, connector
from functions.store.lock import lock_notifications
from infra.local.postgres import Postgres
from tests.fakes import HeldDatabase, Killed, add_notifications, row_of
from tests.steps import (
    begin_one,
    begun,
    close_one,
    connected,
    lease,
    losing_its_first_commit,
    opening_of,
    set_for,
    waiting,
)

BACKEND = "SELECT pg_backend_pid()"
STALL_SECONDS = 1.5
"""Longer than a busy machine takes to connect and to ask; two of these tests wait for it."""
ADD_ONE = "INSERT INTO tally (number) VALUES (%s)"


def backend_of(database: Database) -> int:
    row = database.run(lambda connection: connection.execute(BACKEND).fetchone())
    assert row is not None
    return row[0]


def tally_of(owner: psycopg.Connection) -> list[int]:
    return [row[0] for row in owner.execute("SELECT number FROM tally ORDER BY number")]


@pytest.fixture
def tally(owner: psycopg.Connection) -> None:
    """A table that counts how often a piece of work was done."""
    owner.execute("CREATE TABLE tally (number integer)")
    owner.execute("GRANT SELECT, INSERT ON tally TO sendoff_service")


@pytest.fixture
def work_once(tally: None) -> Callable[[psycopg.Connection], None]:
    del tally
    return lambda connection: connection.execute(ADD_ONE, [1]) and None


def terminate(owner: psycopg.Connection, backend: int) -> None:
    """End the backend and wait for its end: it is no longer listed."""
    owner.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])


def test_a_connection_is_opened_at_first_use_and_kept(database: Database) -> None:
    assert backend_of(database) == backend_of(database)


@pytest.mark.parametrize("pipelined", [False, True])
def test_a_server_process_that_is_frozen_is_given_up(
    login: Login, work_once: Callable[[psycopg.Connection], None], pipelined: bool
) -> None:
    connect = connector(lambda: login, application_name="frozen")
    database = Database(connect, stall_seconds=STALL_SECONDS)
    frozen = backend_of(database)
    os.kill(frozen, signal.SIGSTOP)
    try:
        database.run(work_once, pipelined=pipelined)  # on another connection, after the cut
        assert backend_of(database) != frozen
    finally:
        os.kill(frozen, signal.SIGCONT)
        database.close()


def test_a_server_that_stays_frozen_is_unavailable(
    login: Login, work_once: Callable[[psycopg.Connection], None]
) -> None:
    backends: list[int] = []

    def connect() -> psycopg.Connection:
        connection = connector(lambda: login, application_name="frozen")()
        backends.append(connection.info.backend_pid)
        os.kill(backends[-1], signal.SIGSTOP)
        return connection

    try:
        with pytest.raises(Unavailable):
            Database(connect, stall_seconds=STALL_SECONDS).run(work_once)
        assert len(backends) == 2
    finally:
        for backend in backends:
            os.kill(backend, signal.SIGCONT)


@pytest.mark.parametrize("pipelined", [False, True])
def test_i3_a_connection_killed_between_two_calls_costs_nothing(
    owner: psycopg.Connection,
    database: Database,
    work_once: Callable[[psycopg.Connection], None],
    pipelined: bool,
) -> None:
    backend = backend_of(database)
    terminate(owner, backend)
    database.run(work_once, pipelined=pipelined)
    assert backend_of(database) != backend
    assert tally_of(owner) == [1]


def test_i3_a_connection_killed_within_the_work_repeats_it_once(
    owner: psycopg.Connection, database: Database, tally: None
) -> None:
    runs = 0

    def work(connection: psycopg.Connection) -> None:
        nonlocal runs
        runs += 1
        connection.execute(ADD_ONE, [runs])
        if runs == 1:
            terminate(owner, connection.info.backend_pid)
        connection.execute("SELECT 1")

    database.run(work)
    assert tally_of(owner) == [2]


def test_i3_a_connection_killed_each_time_is_unavailable_and_nothing_was_done(
    owner: psycopg.Connection, database: Database, tally: None
) -> None:
    def work(connection: psycopg.Connection) -> None:
        connection.execute(ADD_ONE, [1])
        terminate(owner, connection.info.backend_pid)
        connection.execute("SELECT 1")

    with pytest.raises(Unavailable) as lost:
        database.run(work)
    assert not lost.value.maybe_done  # COMMIT was never sent
    assert tally_of(owner) == []


WAIT_AT_COMMIT = """
    CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock(1);
        RETURN NULL;
    END
    $$;
    CREATE CONSTRAINT TRIGGER tally_waits AFTER INSERT ON tally
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_at_commit()
"""


@pytest.mark.parametrize("pipelined", [False, True])
def test_i3_a_connection_killed_during_commit_repeats_the_work_once(
    owner: psycopg.Connection,
    login: Login,
    work_once: Callable[[psycopg.Connection], None],
    pipelined: bool,
) -> None:
    owner.execute(WAIT_AT_COMMIT)
    owner.execute("SELECT pg_advisory_lock(1)")
    with (
        connected(login, "work", kind=Database) as (database,),
        waiting(owner, "work", lambda: database.run(work_once, pipelined=pipelined)) as done,
    ):
        terminate(owner, backend_named(owner, "work"))
        owner.execute("SELECT pg_advisory_unlock(1)")
        done.result()
    assert tally_of(owner) == [1]


def test_i3_a_connection_killed_during_both_commits_may_have_done_it(
    owner: psycopg.Connection, login: Login, work_once: Callable[[psycopg.Connection], None]
) -> None:
    owner.execute(WAIT_AT_COMMIT)
    owner.execute("SELECT pg_advisory_lock(1)")
    with (
        connected(login, "work", kind=Database) as (database,),
        waiting(owner, "work", lambda: database.run(work_once)) as done,
    ):
        first = backend_named(owner, "work")
        terminate(owner, first)
        while (second := backend_named(owner, "work")) in (first, 0):
            pass
        terminate(owner, second)
        owner.execute("SELECT pg_advisory_unlock(1)")
        with pytest.raises(Unavailable) as lost:
            done.result()
    assert lost.value.maybe_done


def backend_named(owner: psycopg.Connection, name: str) -> int:
    """Return the backend of the connection called ``name`` that waits for a lock; 0 if none."""
    statement = (
        "SELECT pid FROM pg_stat_activity WHERE application_name = %s "
        "AND datname = current_database() AND wait_event_type = 'Lock'"
    )
    row = owner.execute(statement, [name]).fetchone()
    return row[0] if row else 0


def test_i3_a_commit_whose_answer_was_lost_is_not_done_twice(
    owner: psycopg.Connection, login: Login
) -> None:
    """The work that this is promised for knows itself again: accept, begin, close, receipts."""
    (id,) = add_notifications(owner)
    with connected(login, "plain", kind=Database) as (database,):
        opening = begun(database)
    with losing_its_first_commit(login) as lossy:
        assert close_one(lossy, opening, Accepted(reference="m-1")) == "submitted"
    assert row_of(owner, id).attempts_spent == 1
    assert owner.execute("SELECT count(*) FROM transitions").fetchone() == (1,)


def test_i3_a_connection_that_became_read_only_is_discarded(
    owner: psycopg.Connection,
    database: Database,
    work_once: Callable[[psycopg.Connection], None],
) -> None:
    backend = backend_of(database)
    set_for(database, "default_transaction_read_only", "on")  # as after a failover, mid-life
    database.run(work_once)
    assert backend_of(database) != backend
    assert tally_of(owner) == [1]


def test_i3_a_server_that_is_read_only_is_unavailable_until_it_is_not(
    owner: psycopg.Connection,
    database: Database,
    login: Login,
    work_once: Callable[[psycopg.Connection], None],
) -> None:
    alter = sql.SQL("ALTER ROLE sendoff_service IN DATABASE {} {} default_transaction_read_only{}")
    name = sql.Identifier(login.name)
    owner.execute(alter.format(name, sql.SQL("SET"), sql.SQL(" = on")))
    with pytest.raises(Unavailable) as refused:
        database.run(work_once)
    assert not refused.value.maybe_done
    owner.execute(alter.format(name, sql.SQL("RESET"), sql.SQL("")))
    database.run(work_once)
    assert tally_of(owner) == [1]


@pytest.mark.parametrize("pipelined", [False, True])
def test_a_lock_not_granted_in_time_is_unavailable_and_the_connection_lives(
    owner: psycopg.Connection, database: Database, login: Login, pipelined: bool
) -> None:
    ids = add_notifications(owner)
    backend = backend_of(database)
    set_for(database, "lock_timeout", "30ms")

    def lock(connection: psycopg.Connection) -> None:
        lock_notifications(connection, ids)

    with connected(login, "holder", kind=HeldDatabase) as (holding,):
        lease(holding)
        with pytest.raises(Unavailable) as busy:
            database.run(lock, pipelined=pipelined)
        holding.rollback()
    assert not busy.value.maybe_done
    database.run(lock, pipelined=pipelined)
    assert backend_of(database) == backend


def test_a_statement_that_takes_too_long_is_unavailable(database: Database) -> None:
    set_for(database, "statement_timeout", "30ms")
    with pytest.raises(Unavailable) as busy:
        database.run(lambda connection: connection.execute("SELECT pg_sleep(10)"))
    assert not busy.value.maybe_done


def test_a_deadlock_is_tried_again(owner: psycopg.Connection, database: Database) -> None:
    runs = 0

    def work(connection: psycopg.Connection) -> int:
        nonlocal runs
        runs += 1
        if runs == 1:
            connection.execute("DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$")
        return runs

    assert database.run(work) == 2


def test_a_fault_of_ours_is_raised_as_it_is_and_undoes_the_work(
    owner: psycopg.Connection, database: Database, tally: None
) -> None:
    def work(connection: psycopg.Connection) -> None:
        connection.execute(ADD_ONE, [1])
        connection.execute("SELECT no_such_column")

    backend = backend_of(database)
    with pytest.raises(errors.UndefinedColumn):
        database.run(work)
    assert backend_of(database) == backend
    assert tally_of(owner) == []


@pytest.mark.parametrize("pipelined", [False, True])
def test_whatever_interrupts_the_work_the_next_finds_a_clean_connection(
    owner: psycopg.Connection, database: Database, tally: None, pipelined: bool
) -> None:
    def work(connection: psycopg.Connection) -> None:
        connection.execute(ADD_ONE, [1])
        raise Killed

    with pytest.raises(Killed):
        database.run(work, pipelined=pipelined)
    assert tally_of(owner) == []
    assert backend_of(database)


def test_the_message_of_an_unavailable_database_quotes_no_row(
    owner: psycopg.Connection, database: Database
) -> None:
    set_for(database, "statement_timeout", "30ms")
    with pytest.raises(Unavailable) as busy:
        database.run(lambda connection: connection.execute("SELECT pg_sleep(10), 'SENTINEL-8F3A'"))
    assert "SENTINEL" not in str(busy.value)


def test_a_log_in_is_asked_for_anew_at_each_connect(
    owner: psycopg.Connection, login: Login
) -> None:
    tokens: list[str] = []

    def log_in() -> Login:
        tokens.append(f"token-{len(tokens)}")
        return dataclasses.replace(login, password=tokens[-1])

    database = Database(connector(log_in, application_name="asked"))
    backend_of(database)
    backend_of(database)
    assert tokens == ["token-0"]
    database.close()
    backend = backend_of(database)
    terminate(owner, backend)
    backend_of(database)
    database.close()
    assert tokens == ["token-0", "token-1", "token-2"]


def test_a_password_shows_nowhere(login: Login) -> None:
    assert "hunter2" not in repr(dataclasses.replace(login, password="hunter2"))


@pytest.fixture
def refusing(postgres: Postgres) -> Generator[Database]:
    """A database on a port where nobody listens."""
    del postgres
    login = Login(host="127.0.0.1", port=1, name="none", user="nobody", tls=False)
    database = Database(connector(lambda: login, application_name="refused"))
    yield database
    database.close()


def test_a_server_that_cannot_be_reached_is_unavailable(refusing: Database) -> None:
    with pytest.raises(Unavailable) as refused:
        backend_of(refusing)
    assert not refused.value.maybe_done


def test_no_setting_is_made_at_connect_the_role_has_them(
    owner: psycopg.Connection, database: Database
) -> None:
    """A SET would pin a proxied connection."""
    names = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"]
    settings = database.run(
        lambda connection: connection.execute(
            "SELECT setting, source FROM pg_settings WHERE name = ANY(%s)", [names]
        ).fetchall()
    )
    assert {source for _, source in settings} == {"user"}
    assert all(int(value) > 0 for value, _ in settings)


def test_i3_the_same_statement_may_be_run_any_number_of_times(
    owner: psycopg.Connection, database: Database
) -> None:
    """Beyond psycopg's threshold for preparing it, and beyond PostgreSQL's for a generic plan."""
    add_notifications(owner, 30)
    for page in range(30):
        (leased,) = lease_page(
            database,
            channel="email",
            priority="normal",
            page=1,
            after=NO_ORGANIZATION,
            lease_seconds=60,
            leased_by=f"run-{page}",
        ).leased
        assert begin_one(database, opening_of(leased)).send
