"""Breakers: blocked is not failed, one at a time finds out, and what works closes them."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from functions.core.breaker import (
    FAILURE_CODE,
    LEAST_FAILURES,
    MAX_PROBE_SECONDS,
    PROBE_SECONDS,
    WINDOW_SECONDS,
    Answering,
)
from functions.core.login import Login
from functions.core.outcome import (
    Accepted,
    Blocked,
    Outcome,
    Rejected,
    Scope,
    Throttled,
    Transient,
    Unknown,
)
from functions.providers.choice import DECLARATIONS
from functions.store.begin import Begun, begin
from functions.store.breaker import OpenBreaker, close_unused, open_breakers, record_answers
from functions.store.connection import Database
from functions.store.delivery import load
from functions.store.survey import promote
from tests.fakes import FIRST_ORGANIZATION, add_notifications, row_of
from tests.steps import connected, declaration_of, lease, now_of, opening_of

SECONDS = 30.0


def answering(
    outcome: Outcome,
    *,
    id: UUID,
    stream: str = "transactional",
    country: str | None = None,
    is_first: bool = True,
) -> Answering:
    return Answering(
        id=id,
        organization_id=FIRST_ORGANIZATION,
        provider="http",
        stream=stream,
        country=country,
        origin=None,
        is_first=is_first,
        outcome=outcome,
    )


def say(
    database: Database,
    *answers: Answering,
    now: datetime | None = None,
    calls: int = 0,
    failures: int = 0,
) -> None:
    record_answers(database, answers, channel="email", calls=calls, failures=failures, now=now)


def the_open_one(database: Database, *, now: datetime | None = None) -> OpenBreaker:
    (breaker,) = open_breakers(database, now=now)
    return breaker


def try_all(
    database: Database, *, now: datetime | None = None, probe: bool = True
) -> dict[UUID, Begun]:
    """Lease what there is and open what may be opened."""
    promote(database, now=now)
    return begin(
        database,
        [opening_of(leased) for leased in lease(database, now=now)],
        declaration=declaration_of("http"),
        declarations=DECLARATIONS,
        remaining_seconds=SECONDS,
        probe=probe,
        now=now,
    )


def sent(answers: dict[UUID, Begun]) -> list[UUID]:
    return [id for id, answer in answers.items() if answer.send]


@pytest.mark.parametrize(
    ("scope", "key"),
    [
        (Scope.PROVIDER, "http"),
        (Scope.SENDER_IDENTITY, "transactional"),
        (Scope.COUNTRY, "FR"),
    ],
)
def test_an_answer_opens_the_breaker_of_its_scope_and_no_other(
    owner: psycopg.Connection, database: Database, scope: Scope, key: str
) -> None:
    (id,) = add_notifications(owner)
    say(database, answering(Blocked(code="paused", scope=scope), id=id, country="FR"))
    breaker = the_open_one(database)
    assert (breaker.scope, breaker.key, breaker.code, breaker.trips) == (scope, key, "paused", 1)
    assert breaker.probe_at == breaker.opened_at + timedelta(seconds=PROBE_SECONDS)
    assert not breaker.is_due


@pytest.mark.parametrize("scope", [Scope.DESTINATION, Scope.ENDPOINT])
def test_what_is_about_one_receiver_opens_no_breaker(
    owner: psycopg.Connection, database: Database, scope: Scope
) -> None:
    (id,) = add_notifications(owner)
    say(database, answering(Blocked(scope=scope), id=id))
    assert open_breakers(database) == []


def test_a_country_that_is_not_known_opens_no_breaker(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    say(database, answering(Blocked(scope=Scope.COUNTRY), id=id, country=None))
    assert open_breakers(database) == []


def test_behind_an_open_breaker_nothing_is_sent_and_no_attempt_is_spent(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = add_notifications(owner, 3)
    say(database, answering(Blocked(code="401"), id=ids[0]))
    answers = try_all(database)
    assert {answer.verdict for answer in answers.values()} == {"blocked"}
    for id in ids:
        row = row_of(owner, id)
        assert (row.status, row.attempts_spent, row.reason) == ("pending", 0, None)
        assert (row.ready, row.available_at) == (False, the_open_one(database).probe_at)
    assert owner.execute("SELECT count(*) FROM attempts").fetchone() == (0,)


@pytest.mark.parametrize(
    ("scope", "stream", "country"),
    [(Scope.SENDER_IDENTITY, "bulk", None), (Scope.COUNTRY, "transactional", "FR")],
)
def test_other_identities_and_countries_go_on(
    owner: psycopg.Connection, database: Database, scope: Scope, stream: str, country: str | None
) -> None:
    closed, open_ = add_notifications(owner, 2)
    leased = lease(database)
    owner.execute(
        "UPDATE notifications SET stream = %s, country = %s WHERE id = %s",
        [stream, country, closed],
    )
    say(database, answering(Blocked(scope=scope), id=closed, stream=stream, country=country))
    answers = begin(
        database,
        [opening_of(one) for one in leased],
        declaration=declaration_of("http"),
        declarations=DECLARATIONS,
        remaining_seconds=SECONDS,
    )
    assert sent(answers) == [open_]


def test_when_it_is_time_the_oldest_of_them_finds_out_and_nobody_else(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = add_notifications(owner, 5)
    start = now_of(owner)
    say(database, answering(Blocked(), id=ids[0]), now=start)
    due = start + timedelta(seconds=PROBE_SECONDS)
    assert the_open_one(database, now=due).is_due
    assert all(row.may_probe for row in load(database, ids, now=due).values())
    assert sent(try_all(database, now=due)) == [ids[0]]
    later = the_open_one(database, now=due)
    assert (later.is_due, later.probe_at) == (False, due + timedelta(seconds=SECONDS))
    assert not any(row.may_probe for row in load(database, ids, now=due).values())
    assert sent(try_all(database, now=due)) == []


def test_what_gets_through_closes_it(owner: psycopg.Connection, database: Database) -> None:
    ids = add_notifications(owner, 2)
    start = now_of(owner)
    say(database, answering(Blocked(), id=ids[0]), now=start)
    due = start + timedelta(seconds=PROBE_SECONDS)
    (probe,) = sent(try_all(database, now=due))
    say(database, answering(Accepted(reference="m-1"), id=probe), now=due)
    assert open_breakers(database) == []
    again = due + timedelta(seconds=PROBE_SECONDS)
    assert sent(try_all(database, now=again)) == [ids[1]]


@pytest.mark.parametrize("outcome", [Accepted(reference="m-1"), Rejected()])
def test_only_the_one_that_was_to_find_out_closes_it(
    owner: psycopg.Connection, database: Database, outcome: Outcome
) -> None:
    """A call that was under way when it opened says what was before."""
    blocked, under_way = add_notifications(owner, 2)
    say(database, answering(Blocked(), id=blocked))
    say(database, answering(outcome, id=under_way))
    assert the_open_one(database).trips == 1


@pytest.mark.parametrize(
    ("outcome", "trips", "seconds"),
    [(Unknown(), 2, 20), (Transient(), 2, 20), (Throttled(), 1, SECONDS), (Rejected(), 1, SECONDS)],
    ids=["unknown", "transient", "throttled", "refused by ourselves"],
)
def test_what_did_not_get_through_leaves_it_to_the_next_probe(
    owner: psycopg.Connection, database: Database, outcome: Outcome, trips: int, seconds: float
) -> None:
    ids = add_notifications(owner, 2)
    start = now_of(owner)
    say(database, answering(Blocked(), id=ids[0]), now=start)
    due = start + timedelta(seconds=PROBE_SECONDS)
    (probe,) = sent(try_all(database, now=due))
    say(database, answering(outcome, id=probe), now=due)
    breaker = the_open_one(database)
    assert (breaker.trips, breaker.probe_at) == (trips, due + timedelta(seconds=seconds))


def test_what_another_provider_took_says_nothing_of_this_one(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    start = now_of(owner)
    say(database, answering(Blocked(), id=id), now=start)
    assert sent(try_all(database, now=start + timedelta(seconds=PROBE_SECONDS))) == [id]
    taken = dataclasses.replace(
        answering(Accepted(reference="m-1"), id=id), provider="http_keyless"
    )
    say(database, taken)
    assert the_open_one(database).provider == "http"


def test_one_that_nobody_will_find_out_about_is_closed(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    start = now_of(owner)
    say(database, answering(Blocked(), id=id), now=start)
    say(database, answering(Blocked(scope=Scope.COUNTRY), id=id, country="FR"), now=start)
    assert close_unused(database, now=start + timedelta(seconds=PROBE_SECONDS + 60)) == 0
    assert close_unused(database, now=start + timedelta(seconds=PROBE_SECONDS + 3600)) == 2
    say(database, answering(Blocked(), id=id), now=start)
    owner.execute("UPDATE channels SET provider = 'http_keyless' WHERE name = 'email'")
    assert close_unused(database, now=start) == 1
    assert open_breakers(database) == []


def test_two_that_trip_the_same_breakers_in_other_orders_do_not_stop_each_other(
    owner: psycopg.Connection, login: Login
) -> None:
    (id,) = add_notifications(owner)
    country = answering(Blocked(scope=Scope.COUNTRY), id=id, country="FR")
    failing_one = answering(Unknown(), id=id)

    def trip(number: int) -> None:
        with connected(login, f"one-{number}", kind=Database) as (one,):
            for _ in range(20):
                if number % 2:
                    say(one, country, answering(Blocked(), id=id))
                else:
                    say(one, country, failing_one, calls=1, failures=1)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(trip, range(4)))
    assert {one.scope for one in open_breakers_of(login)} == {"provider", "country"}


def open_breakers_of(login: Login) -> list[OpenBreaker]:
    with connected(login, "looking", kind=Database) as (one,):
        return open_breakers(one)


def test_probes_in_vain_come_further_and_further_apart(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    at = now_of(owner)
    say(database, answering(Blocked(), id=id), now=at)
    waits: list[float] = []
    for _ in range(9):
        at = the_open_one(database).probe_at
        assert sent(try_all(database, now=at)) == [id]
        say(database, answering(Blocked(code="403"), id=id), now=at)
        owner.execute(
            "UPDATE notifications SET status = 'pending', attempt_id = NULL, lease_until = NULL"
        )
        waits.append((the_open_one(database).probe_at - at).total_seconds())
    assert waits[:5] == [20, 40, 80, 160, 320]
    assert waits[5:] == [MAX_PROBE_SECONDS] * 4
    assert the_open_one(database).code == "403"


def test_a_wait_that_was_asked_for_is_kept(owner: psycopg.Connection, database: Database) -> None:
    (id,) = add_notifications(owner)
    start = now_of(owner)
    say(database, answering(Blocked(retry_after_seconds=600), id=id), now=start)
    assert the_open_one(database).probe_at == start + timedelta(seconds=600)


def test_answers_of_calls_under_way_do_not_move_the_probe(
    owner: psycopg.Connection, database: Database
) -> None:
    first, second = add_notifications(owner, 2)
    start = now_of(owner)
    say(database, answering(Blocked(), id=first), now=start)
    say(database, answering(Blocked(), id=second), now=start + timedelta(seconds=5))
    breaker = the_open_one(database)
    assert (breaker.trips, breaker.probe_at) == (1, start + timedelta(seconds=PROBE_SECONDS))


def failing(database: Database, id: UUID, *, calls: int, failures: int, now: datetime) -> None:
    say(database, answering(Unknown(), id=id), calls=calls, failures=failures, now=now)


def test_a_share_of_failures_within_a_window_opens_it(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    now = now_of(owner)
    failing(database, id, calls=LEAST_FAILURES, failures=LEAST_FAILURES - 1, now=now)
    assert open_breakers(database) == []
    failing(database, id, calls=1, failures=1, now=now)
    breaker = the_open_one(database)
    assert (breaker.scope, breaker.key, breaker.code) == ("provider", "http", FAILURE_CODE)


def test_failures_among_many_that_work_do_not(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    now = now_of(owner)
    failing(database, id, calls=1000, failures=400, now=now)
    assert open_breakers(database) == []


def test_a_window_that_is_over_counts_no_more(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    now = now_of(owner)
    failing(database, id, calls=19, failures=19, now=now)
    failing(database, id, calls=19, failures=19, now=now + timedelta(seconds=WINDOW_SECONDS))
    assert open_breakers(database) == []


def test_a_breaker_that_was_opened_by_failures_closes_and_counts_anew(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    now = now_of(owner)
    failing(database, id, calls=20, failures=20, now=now)
    due = the_open_one(database).probe_at
    assert sent(try_all(database, now=due)) == [id]
    say(database, answering(Accepted(reference="m"), id=id), now=due)
    failing(database, id, calls=1, failures=1, now=due)
    assert open_breakers(database) == []
