"""Begin against whoever else wants the row: what is decided is decided behind the row's lock."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from functions.core.errors import TooLate, Unavailable
from functions.core.login import Login
from functions.core.outcome import Transient
from functions.store.begin import Opening
from functions.store.cancel import cancel_notification
from functions.store.connection import Database
from functions.store.lock import lock_notifications
from functions.store.sweep import sweep
from tests.fakes import (
    FIRST_ORGANIZATION,
    HeldDatabase,
    add_notifications,
    add_suppression_fact,
    row_of,
)
from tests.steps import (
    begin_all,
    begin_one,
    begun,
    channel_of,
    close_one,
    connected,
    lease,
    losing_its_first_commit,
    now_of,
    opening_of,
    set_for,
    waiting,
)


@pytest.fixture
def opening(owner: psycopg.Connection, database: Database) -> Opening:
    """What opens an attempt under the fresh lease of the only notification."""
    add_notifications(owner)
    (leased,) = lease(database)
    return opening_of(leased)


def cancel(database: Database, opening: Opening) -> None:
    cancel_notification(database, organization_id=FIRST_ORGANIZATION, notification_id=opening.id)


def test_a_begin_that_waits_for_a_cancel_sends_nothing(
    owner: psycopg.Connection, login: Login, opening: Opening
) -> None:
    with (
        connected(login, "begin", kind=Database) as (beginning,),
        connected(login, "cancel", kind=HeldDatabase) as (cancelling,),
    ):
        cancel(cancelling, opening)
        with waiting(owner, "begin", lambda: begin_one(beginning, opening)) as answer:
            cancelling.commit()
        assert (answer.result().verdict, answer.result().send) == ("stale", False)
    assert row_of(owner, opening.id).status == "cancelled"


def test_a_begin_that_waited_for_a_cancel_undone_sends(
    owner: psycopg.Connection, login: Login, opening: Opening
) -> None:
    with (
        connected(login, "begin", kind=Database) as (beginning,),
        connected(login, "cancel", kind=HeldDatabase) as (cancelling,),
    ):
        cancel(cancelling, opening)
        with waiting(owner, "begin", lambda: begin_one(beginning, opening)) as answer:
            cancelling.rollback()
        assert answer.result().send


def test_a_cancel_that_waits_for_a_begin_is_too_late(
    owner: psycopg.Connection, login: Login, opening: Opening
) -> None:
    with (
        connected(login, "begin", kind=HeldDatabase) as (beginning,),
        connected(login, "cancel", kind=Database) as (cancelling,),
    ):
        assert begin_one(beginning, opening).send
        with waiting(owner, "cancel", lambda: cancel(cancelling, opening)) as answer:
            beginning.commit()
        with pytest.raises(TooLate):
            answer.result()
    assert row_of(owner, opening.id).status == "leased"


def test_a_suppression_committed_while_begin_waits_for_the_lock_counts(
    owner: psycopg.Connection, login: Login, opening: Opening
) -> None:
    with (
        connected(login, "begin", kind=Database) as (beginning,),
        connected(login, "holder", kind=HeldDatabase) as (holding,),
    ):
        holding.run(lambda connection: lock_notifications(connection, [opening.id]))
        with waiting(owner, "begin", lambda: begin_one(beginning, opening)) as answer:
            add_suppression_fact(owner)
            holding.rollback()
        assert (answer.result().verdict, answer.result().send) == ("suppressed", False)


def test_a_pause_committed_while_begin_waits_for_the_lock_counts(
    owner: psycopg.Connection, login: Login, opening: Opening
) -> None:
    with (
        connected(login, "begin", kind=Database) as (beginning,),
        connected(login, "holder", kind=HeldDatabase) as (holding,),
    ):
        holding.run(lambda connection: lock_notifications(connection, [opening.id]))
        with waiting(owner, "begin", lambda: begin_one(beginning, opening)) as answer:
            owner.execute("UPDATE channels SET paused_at = now()")
            holding.rollback()
        assert answer.result().verdict == "paused"


def test_two_parallel_deliveries_of_one_message_send_once(
    owner: psycopg.Connection, login: Login, opening: Opening
) -> None:
    other = Opening(id=opening.id, lease_number=opening.lease_number, token=opening.id)
    with (
        connected(login, "first", kind=HeldDatabase) as (first,),
        connected(login, "second", kind=Database) as (second,),
    ):
        assert begin_one(first, opening).send
        with waiting(owner, "second", lambda: begin_one(second, other)) as answer:
            first.commit()
        assert (answer.result().verdict, answer.result().send) == ("stale", False)
    assert owner.execute("SELECT id FROM attempts").fetchall() == [(opening.token,)]


def test_two_sets_of_the_same_rows_in_opposite_order_send_each_once(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    add_notifications(owner, 50)
    leases = lease(database)

    def begin_in(order: int, database: Database) -> list[UUID]:
        openings = [opening_of(row) for row in leases[::order]]
        answers = begin_all(
            database,
            openings,
            remaining_seconds=30,
        )
        return [id for id, answer in answers.items() if answer.send]

    with (
        connected(login, "first", "second", kind=Database) as databases,
        ThreadPoolExecutor(2) as threads,
    ):
        first, second = threads.map(begin_in, (1, -1), databases)
    assert sorted(first + second) == sorted(row.id for row in leases)


def test_a_set_writer_locks_in_id_order_whatever_order_it_was_given(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    ids = add_notifications(owner, 3)
    openings = {row.id: opening_of(row) for row in lease(database)}
    with (
        connected(login, "last", kind=HeldDatabase) as (last,),
        connected(login, "set", kind=Database) as (set_writer,),
        connected(login, "probe", kind=HeldDatabase) as (probe,),
    ):
        last.run(lambda connection: lock_notifications(connection, [ids[1]]))
        reversed_openings = [openings[id] for id in reversed(ids)]
        with waiting(
            owner,
            "set",
            lambda: begin_all(
                set_writer,
                reversed_openings,
                remaining_seconds=30,
            ),
        ):
            free = "SELECT id FROM notifications ORDER BY id FOR UPDATE SKIP LOCKED"
            unlocked = probe.run(lambda connection: connection.execute(free).fetchall())
            probe.rollback()
            last.rollback()
    assert unlocked == [(ids[2],)]  # it holds the first, waits for the second, has not the third


def test_a_begin_that_waits_for_the_sweep_is_stale(
    owner: psycopg.Connection, login: Login, database: Database
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    channel, late = channel_of(database), now_of(owner, hours=1)
    with (
        connected(login, "sweep", kind=HeldDatabase) as (sweeping,),
        connected(login, "begin", kind=Database) as (beginning,),
    ):
        assert sweep(sweeping, channel=channel, declarations=[], now=late).released == 1
        with waiting(owner, "begin", lambda: begin_one(beginning, opening_of(leased))) as answer:
            sweeping.commit()
        assert (answer.result().verdict, answer.result().send) == ("stale", False)
    assert row_of(owner, id).status == "pending"


def test_a_begin_repeated_after_a_lost_commit_sends_once(
    owner: psycopg.Connection, login: Login, opening: Opening
) -> None:
    with losing_its_first_commit(login) as lossy:
        answer = begin_one(lossy, opening)
    assert (answer.verdict, answer.send, answer.attempts_spent) == ("mine", True, 1)
    assert row_of(owner, opening.id).attempts_spent == 1
    assert owner.execute("SELECT id FROM attempts").fetchall() == [(opening.token,)]


def test_a_close_repeated_after_a_lost_commit_changes_nothing_more(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    with losing_its_first_commit(login) as lossy:
        status = close_one(lossy, opening, Transient(code="503"), now=now_of(owner))
    assert status == "pending"
    row = row_of(owner, id)
    assert (row.attempts_spent, row.in_doubt) == (1, 0)
    assert owner.execute("SELECT count(*) FROM transitions").fetchone() == (1,)


def test_a_begin_never_waits_beyond_the_lock_timeout(
    owner: psycopg.Connection, database: Database, login: Login, opening: Opening
) -> None:
    set_for(database, "lock_timeout", "50ms")
    with connected(login, "holder", kind=HeldDatabase) as (holding,):
        holding.run(lambda connection: lock_notifications(connection, [opening.id]))
        with pytest.raises(Unavailable) as refused:
            begin_one(database, opening)
        assert not refused.value.maybe_done
        holding.rollback()
    assert begin_one(database, opening).send
    assert row_of(owner, opening.id).lease_until > now_of(owner) + timedelta(seconds=20)
