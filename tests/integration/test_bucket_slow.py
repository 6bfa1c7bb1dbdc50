"""A provider that asks to slow down: the rate halves, the bucket is empty, and all comes back."""

import math
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial

import psycopg
import pytest

from functions.core.login import Login
from functions.store.bucket import LEAST_FACTOR, RECOVERY_SECONDS, reserve, slow
from functions.store.connection import Database
from tests.steps import connected, now_of

RATE = 64.0


def set_bucket(
    owner: psycopg.Connection, *, rate: float = RATE, burst: float = 100_000, tokens: float = 500
) -> datetime:
    """Set the bucket of every channel, as of now; return that moment."""
    now = now_of(owner)
    owner.execute(
        "UPDATE channels SET rate = %s, burst = %s, tokens = %s, max_in_flight = 1000000, "
        "refilled_at = %s",
        [rate, burst, tokens, now],
    )
    return now


def take(database: Database, now: datetime, seconds: float = 0, *, channel: str = "email") -> int:
    at = now + timedelta(seconds=seconds)
    return reserve(database, channel=channel, wanted=1_000_000, leased=0, now=at)


def slowed(database: Database, now: datetime, seconds: float = 0) -> bool:
    return slow(database, channel="email", now=now + timedelta(seconds=seconds))


def factor_of(owner: psycopg.Connection) -> float:
    row = owner.execute("SELECT slow_factor FROM channels WHERE name = 'email'").fetchone()
    assert row is not None
    return row[0]


def grows(factor: float, seconds: float) -> float:
    """Return how many seconds of the full rate a slowed bucket gets in ``seconds``."""
    until_full = RECOVERY_SECONDS * math.log2(1 / factor)
    growing = min(seconds, until_full)
    part = factor * RECOVERY_SECONDS / math.log(2) * (2 ** (growing / RECOVERY_SECONDS) - 1)
    return part + max(0.0, seconds - until_full)


def test_d5_the_rate_halves_and_the_bucket_is_empty(
    owner: psycopg.Connection, database: Database
) -> None:
    now = set_bucket(owner)
    assert slowed(database, now)
    assert (factor_of(owner), take(database, now)) == (0.5, 0)
    granted = take(database, now, 1)
    assert RATE / 2 <= granted <= RATE / 2 * 1.03


def test_it_halves_once_a_second_at_most(owner: psycopg.Connection, database: Database) -> None:
    now = set_bucket(owner)
    assert [slowed(database, now, t) for t in (0, 0.3, 0.9)] == [True, False, False]
    assert factor_of(owner) == 0.5
    assert slowed(database, now, 1)
    assert factor_of(owner) == pytest.approx(0.25, rel=0.05)


def test_many_senders_that_hear_it_at_once_halve_it_once(
    owner: psycopg.Connection, login: Login
) -> None:
    set_bucket(owner)
    with (
        connected(login, "1", "2", "3", "4", kind=Database) as databases,
        ThreadPoolExecutor(4) as threads,
    ):
        done = list(threads.map(partial(slow, channel="email"), databases))
    assert done.count(True) == 1
    assert factor_of(owner) == 0.5


def test_no_provider_slows_it_below_a_sixty_fourth(
    owner: psycopg.Connection, database: Database
) -> None:
    now = set_bucket(owner)
    for second in range(60):
        assert slowed(database, now, second)
    assert factor_of(owner) == LEAST_FACTOR
    assert take(database, now, 60) in (1, 2)


def test_what_is_left_of_the_rate_doubles_again_and_again_up_to_the_whole(
    owner: psycopg.Connection, database: Database
) -> None:
    now = set_bucket(owner)
    for second in range(10):
        slowed(database, now, second - 9)
    assert factor_of(owner) == LEAST_FACTOR
    seconds = range(1, 301)
    granted = {second: take(database, now, second) for second in seconds}
    for doublings in range(6):
        second = int(RECOVERY_SECONDS) * doublings + 1
        part = RATE * LEAST_FACTOR * 2**doublings
        assert abs(granted[second] - part) <= 1 + part * 0.05
    assert all(granted[second] == RATE for second in range(182, 301))
    assert all(count <= RATE for count in granted.values())
    assert sum(granted.values()) == pytest.approx(RATE * grows(LEAST_FACTOR, 300), abs=1)


@pytest.mark.parametrize("step", [0.5, 7.0, 31.0, 400.0])
def test_it_does_not_matter_how_often_a_slowed_bucket_is_asked(
    owner: psycopg.Connection, database: Database, step: float
) -> None:
    now = set_bucket(owner)
    for second in range(3):
        slowed(database, now, second - 2)
    factor = factor_of(owner)
    steps = int(400 / step)
    granted = sum(take(database, now, step * number) for number in range(1, steps + 1))
    assert granted == pytest.approx(RATE * grows(factor, step * steps), abs=2)


def test_it_is_slowed_from_where_it_had_recovered_to(
    owner: psycopg.Connection, database: Database
) -> None:
    now = set_bucket(owner)
    slowed(database, now)
    slowed(database, now, 1_000)
    assert factor_of(owner) == 0.5


def test_a_clock_stepped_back_never_gives_more_and_can_be_slowed_again(
    owner: psycopg.Connection, database: Database
) -> None:
    now = set_bucket(owner)
    assert slowed(database, now)
    assert take(database, now, -3_600) == 0
    assert slowed(database, now, -3_600)
    assert take(database, now, -3_599) == 0
    assert take(database, now, 1) <= RATE


def test_other_channels_keep_their_pace(owner: psycopg.Connection, database: Database) -> None:
    now = set_bucket(owner, tokens=0)
    slowed(database, now)
    assert take(database, now, 10, channel="sms") == 10 * RATE
    assert take(database, now, 10) < 10 * RATE


def test_a_paused_channel_is_slowed_as_well(owner: psycopg.Connection, database: Database) -> None:
    now = set_bucket(owner)
    owner.execute("UPDATE channels SET paused_at = now()")
    assert slowed(database, now)
