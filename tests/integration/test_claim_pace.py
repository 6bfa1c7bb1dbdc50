"""What the token bucket grants: never more than rate · t + burst, whoever asks and however."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import psycopg
import pytest

from functions.core.login import Login
from functions.store.bucket import give_back, reserve
from functions.store.connection import Database
from tests.fakes import HeldDatabase
from tests.steps import connected, now_of


def set_bucket(
    owner: psycopg.Connection,
    *,
    rate: float = 100,
    burst: float = 100,
    tokens: float = 100,
    max_in_flight: int = 100_000,
) -> datetime:
    """Set the bucket of email, full as of now; return that moment."""
    now = now_of(owner)
    owner.execute(
        "UPDATE channels SET rate = %s, burst = %s, tokens = %s, max_in_flight = %s, "
        "refilled_at = %s WHERE name = 'email'",
        [rate, burst, tokens, max_in_flight, now],
    )
    return now


def take(
    database: Database, wanted: int = 1_000, *, now: datetime, seconds: float = 0, leased: int = 0
) -> int:
    return reserve(
        database,
        channel="email",
        wanted=wanted,
        leased=leased,
        now=now + timedelta(seconds=seconds),
    )


def test_a_full_bucket_grants_its_burst_and_then_its_rate(
    owner: psycopg.Connection, database: Database
) -> None:
    now = set_bucket(owner, rate=20, burst=100)
    assert [take(database, now=now, seconds=t) for t in (0, 0, 1, 1.5, 3)] == [100, 0, 20, 10, 30]


def test_a_bucket_never_holds_more_than_its_burst(
    owner: psycopg.Connection, database: Database
) -> None:
    now = set_bucket(owner, rate=20, burst=50, tokens=0)
    assert take(database, now=now, seconds=3_600) == 50


def test_fractions_of_a_token_are_saved_up(owner: psycopg.Connection, database: Database) -> None:
    now = set_bucket(owner, rate=0.4, burst=10, tokens=0)
    granted = [take(database, now=now, seconds=t) for t in range(11)]
    assert sum(granted) == 4
    assert max(granted) == 1


def test_no_more_is_granted_than_wanted(owner: psycopg.Connection, database: Database) -> None:
    now = set_bucket(owner)
    assert [take(database, 30, now=now) for _ in range(4)] == [30, 30, 30, 10]


@pytest.mark.parametrize(("leased", "granted"), [(0, 50), (45, 5), (50, 0), (60, 0)])
def test_what_is_in_flight_counts_against_the_cap(
    owner: psycopg.Connection, database: Database, leased: int, granted: int
) -> None:
    now = set_bucket(owner, max_in_flight=50)
    assert take(database, now=now, leased=leased) == granted


def test_a_clock_stepped_back_takes_nothing_and_gives_nothing(
    owner: psycopg.Connection, database: Database
) -> None:
    now = set_bucket(owner, rate=10, tokens=50)
    assert take(database, 20, now=now, seconds=-3_600) == 20
    assert take(database, now=now, seconds=-1_800) == 30
    assert take(database, now=now, seconds=1) == 10  # one second after the refill, not an hour


def test_a_paused_channel_grants_nothing(owner: psycopg.Connection, database: Database) -> None:
    now = set_bucket(owner)
    owner.execute("UPDATE channels SET paused_at = now() WHERE name = 'email'")
    assert take(database, now=now) == 0


def test_a_bucket_that_another_claimer_is_paying_from_is_not_waited_for(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    now = set_bucket(owner)
    with connected(login, "first", kind=HeldDatabase) as (first,):
        assert take(first, 10, now=now) == 10
        assert take(database, 10, now=now) == 0
        first.commit()
    assert take(database, now=now) == 90


def test_what_was_not_needed_comes_back_up_to_the_burst(
    owner: psycopg.Connection, database: Database
) -> None:
    now = set_bucket(owner, burst=100)
    assert take(database, 100, now=now) == 100
    give_back(database, channel="email", unused=40)
    assert take(database, now=now) == 40
    give_back(database, channel="email", unused=1_000)
    assert take(database, now=now) == 100


def test_four_claimers_at_one_bucket_get_what_one_would_also_with_the_clock_stepped_back(
    owner: psycopg.Connection, login: Login
) -> None:
    now = set_bucket(owner, rate=100, burst=1_000, tokens=100)
    steps = (0, 0.5, -3_600, 1, 1.7, 0.2, -5, 2.5, 2, 3)

    def claim(database: Database) -> int:
        return sum(take(database, 7, now=now, seconds=t) for t in steps * 4)

    with (
        connected(login, "1", "2", "3", "4", kind=Database) as databases,
        ThreadPoolExecutor(4) as threads,
    ):
        granted = sum(threads.map(claim, databases))
        left = take(databases[0], now=now, seconds=3)
    assert 100 + 3 * 100 - 1 <= granted + left <= 100 + 3 * 100
