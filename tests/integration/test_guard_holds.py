"""Holds: what waits under one, how it expires, and how a person lets it go or ends it."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.core.abuse import TRUST
from functions.core.login import Login
from functions.store.action import Action
from functions.store.cancel import cancel_notification
from functions.store.connection import Database
from functions.store.guard import guard
from functions.store.hold import ListedHold, Released, list_holds, release_hold
from functions.store.survey import promote
from functions.store.sweep import expire
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION, HeldDatabase, moves_of, row_of
from tests.guarding import (
    add_texts,
    all_are_sent,
    connected,
    leased_texts,
    losing_its_first_commit,
    names_of,
    ruled,
    some_texts,
    usual_weeks,
)

NOON = datetime(2030, 5, 15, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
PUMPED = 30
LET_OUT = 20


def action(command: str = "hold.release") -> Action:
    return Action(id=uuid4(), actor="ada@laptop", command=command, arguments={})


@pytest.fixture
def hold(database: Database, owner: psycopg.Connection) -> ListedHold:
    """A burst to the Maldives, of which ten messages are on hold."""
    usual_weeks(database, owner, until=NOON)
    add_texts(owner, some_texts(PUMPED, at=NOON, country="MV", stem="+960771"))
    assert names_of(ruled(database, now=NOON)).count("allow") == LET_OUT
    all_are_sent(owner, now=NOON)
    (hold,) = list_holds(database)
    return hold


def held_by(owner: psycopg.Connection, hold: ListedHold) -> list[UUID]:
    statement = "SELECT id FROM notifications WHERE hold_id = %s ORDER BY id"
    return [row[0] for row in owner.execute(statement, [hold.id])]


def release(
    login: Login, hold: ListedHold, *, discard: bool = False, now: datetime = LATER
) -> Released:
    with connected(login, user="sendoff_operator") as operator:
        return release_hold(operator, hold.id, discard=discard, action=action(), now=now)


def next_of_it(owner: psycopg.Connection, *, at: datetime, count: int = 1) -> list[UUID]:
    texts = some_texts(count, at=at, country="MV", stem="+960771", first=PUMPED + 5000)
    return add_texts(owner, texts)


def test_a_hold_tells_what_it_is_about_and_how_much_waits(hold: ListedHold) -> None:
    assert (hold.organization_id, hold.country, hold.prefix) == (FIRST_ORGANIZATION, "MV", None)
    assert (hold.reason, hold.today, hold.usual) == ("mix_shifted", LET_OUT + 1, 0.0)
    assert (hold.waiting, hold.opened_at, hold.released_at) == (PUMPED - LET_OUT, NOON, None)


def test_what_is_on_hold_is_pending_and_nothing_takes_it_up(
    database: Database, owner: psycopg.Connection, hold: ListedHold
) -> None:
    id, *_ = held_by(owner, hold)
    row = row_of(owner, id)
    assert (row.status, row.ready, row.reason, row.verdict) == (
        "pending", False, "mix_shifted", "hold",
    )  # fmt: skip
    assert (row.lease_until, row.attempts_spent) == (None, 0)
    assert moves_of(owner, id) == [("policy", "leased", "pending", "mix_shifted")]
    assert promote(database, now=NOON + timedelta(days=3650)) == 0
    assert ruled(database, now=NOON + timedelta(days=3650)) == []


def test_what_follows_is_held_as_well_and_everybody_else_goes_on(
    database: Database, owner: psycopg.Connection, hold: ListedHold
) -> None:
    next_of_it(owner, at=LATER, count=3)
    assert names_of(ruled(database, now=LATER)) == ["hold"] * 3
    others = [
        *some_texts(2, at=LATER, first=90_000),
        *some_texts(2, at=LATER, country="MV", organization_id=SECOND_ORGANIZATION),
    ]
    add_texts(owner, others)
    assert names_of(ruled(database, now=LATER)) == ["allow"] * 4
    assert list_holds(database)[0].waiting == hold.waiting + 3


def test_what_is_on_hold_expires_in_its_time_and_can_be_cancelled(
    database: Database, owner: psycopg.Connection, hold: ListedHold
) -> None:
    first, second, *_ = held_by(owner, hold)
    owner.execute("UPDATE notifications SET expires_at = %s WHERE id = %s", [LATER, first])
    assert expire(database, now=LATER) == 1
    assert row_of(owner, first).status == "expired"
    cancel_notification(database, organization_id=FIRST_ORGANIZATION, notification_id=second)
    assert row_of(owner, second).status == "cancelled"
    assert list_holds(database)[0].waiting == hold.waiting - 2


def test_a_released_hold_lets_its_messages_go_and_is_trusted(
    database: Database, owner: psycopg.Connection, login: Login, hold: ListedHold
) -> None:
    ids = held_by(owner, hold)
    assert release(login, hold) == Released(fate="released", let_go=len(ids))
    assert list_holds(database) == []
    row = row_of(owner, ids[0])
    assert (row.status, row.ready, row.hold_id, row.reason) == ("pending", True, None, None)
    assert (row.available_at, row.eligible_at) == (LATER, LATER)
    assert moves_of(owner, ids[0])[-1] == ("operator", "pending", "pending", "hold_released")
    next_of_it(owner, at=LATER, count=60)
    assert set(names_of(ruled(database, now=LATER))) == {"allow"}
    all_are_sent(owner, now=LATER)
    after = LATER + TRUST
    next_of_it(owner, at=after, count=60)
    assert "hold" in names_of(ruled(database, now=after))


def test_a_discarded_hold_ends_its_messages_and_what_goes_on_is_held_again(
    database: Database, owner: psycopg.Connection, login: Login, hold: ListedHold
) -> None:
    doubtful, *others = held_by(owner, hold)
    owner.execute("UPDATE notifications SET in_doubt = 1 WHERE id = %s", [doubtful])
    done = release(login, hold, discard=True)
    assert done == Released(fate="released", discarded=True, let_go=len(others) + 1)
    row = row_of(owner, others[0])
    assert (row.status, row.reason, row.final_at) == ("suppressed", "hold_discarded", LATER)
    assert moves_of(owner, others[0])[-1] == (
        "operator", "pending", "suppressed", "hold_discarded",
    )  # fmt: skip
    assert row_of(owner, doubtful).status == "unconfirmed"
    next_of_it(owner, at=LATER)
    assert names_of(ruled(database, now=LATER)) == ["hold"]
    (again,) = list_holds(database)
    assert again.id != hold.id


def test_a_hold_is_released_once_and_the_same_command_goes_on_with_the_rest(
    database: Database, owner: psycopg.Connection, login: Login, hold: ListedHold
) -> None:
    ids = held_by(owner, hold)
    owner.execute("UPDATE holds SET released_at = %s, discarded = true", [NOON])  # and cut off then
    (unfinished,) = list_holds(database)
    assert (unfinished.released_at, unfinished.waiting) == (NOON, len(ids))
    assert release(login, hold) == Released(fate="released", discarded=True, let_go=len(ids))
    assert row_of(owner, ids[0]).status == "suppressed"
    assert release(login, hold) == Released(fate="already_released", discarded=True)
    assert list_holds(database) == []


def test_a_release_whose_commit_was_lost_tells_what_it_did(
    owner: psycopg.Connection, login: Login, hold: ListedHold
) -> None:
    operator = dataclasses.replace(login, user="sendoff_operator")
    with losing_its_first_commit(operator) as losing:
        done = release_hold(losing, hold.id, discard=False, action=action(), now=LATER)
    assert done == Released(fate="released", let_go=hold.waiting)
    kept = owner.execute("SELECT command, actor, result FROM operator_actions").fetchall()
    result = {"fate": "released", "discarded": False, "let_go": hold.waiting, "more": False}
    assert kept == [("hold.release", "ada@laptop", result)]


def test_a_hold_that_there_is_not_is_told(login: Login) -> None:
    with connected(login, user="sendoff_operator") as operator:
        done = release_hold(operator, uuid4(), discard=False, action=action())
    assert done == Released(fate="not_found")


def test_a_release_waits_for_the_guard_and_misses_nothing_that_it_is_holding(
    owner: psycopg.Connection, login: Login, hold: ListedHold, database: Database
) -> None:
    (late,) = next_of_it(owner, at=LATER)
    rows = leased_texts(database, now=LATER)
    with connected(login, kind=HeldDatabase) as held, ThreadPoolExecutor(1) as thread:
        assert [verdict.name for verdict in guard(held, rows, now=LATER)] == ["hold"]
        releasing = thread.submit(release, login, hold)
        waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = %s"
        while owner.execute(waits, [login.name]).fetchone() is None:
            assert not releasing.done()
        held.commit()
        assert releasing.result().let_go == hold.waiting + 1
    row = row_of(owner, late)
    assert (row.hold_id, row.ready) == (None, True)


def test_holds_are_listed_by_tenant_and_page_by_page(
    database: Database, owner: psycopg.Connection, hold: ListedHold
) -> None:
    later = some_texts(2, at=LATER, country="TD", stem="+235663")
    add_texts(owner, later)
    ruled(database, now=LATER)
    first, second = list_holds(database)
    assert (first.id, second.country) == (hold.id, "TD")
    assert list_holds(database, after=first.id) == [second]
    assert list_holds(database, limit=1) == [first]
    assert list_holds(database, organization_id=SECOND_ORGANIZATION) == []
