"""What answers say beyond their own notification, and what they do not say."""

from uuid import uuid4

import psycopg
import pytest

from functions.core.breaker import LEAST_FAILURES, Answering, Word, word_about_endpoint
from functions.core.outcome import (
    Accepted,
    Blocked,
    Outcome,
    Refused,
    Rejected,
    Scope,
    Throttled,
    Transient,
    Unknown,
)
from functions.sender.learning import Tally, learn
from functions.store.breaker import open_breakers
from functions.store.connection import Database
from functions.store.endpoint import list_endpoints
from tests.fakes import FIRST_ORGANIZATION


def answering(
    outcome: Outcome, *, origin: str | None = None, is_first: bool = True, provider: str = "http"
) -> Answering:
    return Answering(
        id=uuid4(),
        organization_id=FIRST_ORGANIZATION,
        provider=provider,
        stream="transactional",
        country=None,
        origin=origin,
        is_first=is_first,
        outcome=outcome,
    )


def hear(database: Database, *answers: Answering, tally: Tally | None = None) -> None:
    learn(
        database,
        answers,
        channel="email",
        tally=tally or Tally(),
        probing=False,
        troubled=False,
    )


def factor_of(owner: psycopg.Connection) -> float:
    row = owner.execute("SELECT slow_factor FROM channels WHERE name = 'email'").fetchone()
    assert row is not None
    return row[0]


def test_first_attempts_that_fail_say_that_the_provider_does(database: Database) -> None:
    hear(database, *(answering(Unknown()) for _ in range(LEAST_FAILURES)))
    assert [one.scope for one in open_breakers(database)] == ["provider"]


def test_retries_say_nothing_of_the_provider(database: Database) -> None:
    hear(database, *(answering(Unknown(), is_first=False) for _ in range(2 * LEAST_FAILURES)))
    assert open_breakers(database) == []


def test_one_hanging_receiver_says_nothing_of_all_webhooks(database: Database) -> None:
    hook = "https://hooks.example"
    hear(database, *(answering(Unknown(), origin=hook) for _ in range(2 * LEAST_FAILURES)))
    assert open_breakers(database) == []
    (endpoint,) = list_endpoints(database)
    assert endpoint.failures == 2 * LEAST_FAILURES


def test_what_worked_before_counts_against_what_fails(database: Database) -> None:
    tally = Tally()
    for _ in range(2 * LEAST_FAILURES):
        hear(database, answering(Accepted(reference="m")), tally=tally)
    hear(database, *(answering(Unknown()) for _ in range(LEAST_FAILURES)), tally=tally)
    assert open_breakers(database) == []


def test_what_worked_with_another_provider_does_not(database: Database) -> None:
    tally = Tally()
    for _ in range(2 * LEAST_FAILURES):
        hear(database, answering(Accepted(reference="m"), provider="http_keyless"), tally=tally)
    hear(database, *(answering(Unknown()) for _ in range(LEAST_FAILURES)), tally=tally)
    assert [one.provider for one in open_breakers(database)] == ["http"]


@pytest.mark.parametrize(
    ("outcome", "slower"),
    [
        (Throttled(), True),
        (Throttled(scope=Scope.DESTINATION), False),
        (Throttled(scope=Scope.SENDER_IDENTITY), False),
        (Blocked(), False),
        (Transient(), False),
    ],
)
def test_only_a_provider_that_throttles_slows_its_channel(
    owner: psycopg.Connection, database: Database, outcome: Outcome, slower: bool
) -> None:
    hear(database, answering(outcome))
    assert (factor_of(owner) < 1) == slower


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (Accepted(reference=None, final=True), Word.WORKS),
        (Throttled(scope=Scope.ENDPOINT), Word.NOTHING),
        (Rejected(code="422", http_status=422), Word.NOTHING),
        (Rejected(code="forbidden_address"), Word.NOTHING),
        (Rejected(code="404", http_status=404), Word.FAILS),
        (Refused(code="410", suppress=Scope.ENDPOINT), Word.FAILS),
        (Transient(begun=False), Word.NOTHING),
        (Transient(), Word.FAILS),
        (Unknown(), Word.FAILS),
    ],
)
def test_what_an_answer_says_of_its_endpoint(outcome: Outcome, word: Word) -> None:
    assert word_about_endpoint(outcome) is word
