"""No history and no number, however extreme, takes what the guard computes out of the bounds that
are stored."""

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.core.abuse import MOST_SPENT, Account, Kind, Message, Rules, hour_of
from functions.core.pace import FARTHEST, Bucket
from functions.core.usual import HOURS, MOST_COUNTED, MOST_SURGE, Slice, surge_of

NOON = datetime(2030, 5, 15, 12, tzinfo=UTC)
LONG_AGO = NOON - timedelta(days=300)
KEYS = ("FR", "DE", "")

# As migrations/0015_create_sms_guards.sql has them.
LAST_HOUR, LARGEST_USUAL, LARGEST_SURGE = 100_000_000, 1e12, 1e12
LARGEST_COUNT, LARGEST_TOTAL, LARGEST_MONEY = 2**31 - 1, 2**63 - 1, Decimal("99999999.999999")

USUAL = st.floats(0, LARGEST_USUAL) | st.sampled_from([0.0, 5e-324, 1e-300, 1e-20, LARGEST_USUAL])
COUNT = st.integers(0, 50) | st.integers(0, LARGEST_COUNT) | st.just(LARGEST_COUNT)
NEAR = st.integers(0, 7200).map(lambda seconds: NOON + timedelta(seconds=seconds))
SLICES = st.builds(
    Slice,
    hour=st.integers(hour_of(NOON) - 30, hour_of(NOON) + 2) | st.integers(0, hour_of(NOON)),
    hours=st.lists(COUNT, min_size=HOURS, max_size=HOURS).map(tuple),
    usual=USUAL,
    total=st.integers(0, LARGEST_TOTAL // 2),
    bucket=st.builds(Bucket, full_at=st.none() | NEAR, place_at=st.none() | NEAR),
)
RULES = st.builds(
    Rules,
    daily_budget=st.none() | st.decimals(0, 10_000_000, places=6),
    number_per_hour=st.integers(0, 1_000_000),
    prefix_per_hour=st.integers(0, 1_000_000),
    unusual_per_day=st.integers(0, 1_000_000) | st.just(20),
    growth=st.floats(1, 1000),
)
MESSAGES = st.lists(
    st.builds(
        Message,
        country=st.sampled_from(KEYS),
        prefix=st.sampled_from(KEYS),
        recipient_hash=st.sampled_from([b"1", b"2"]),
        segments=st.integers(1, 10),
    ),
    max_size=8,
)


def as_of_noon(slices: dict[str, Slice]) -> dict[str, Slice]:
    return {key: one.at(hour_of(NOON)) for key, one in slices.items()}


def is_storable(one: Slice) -> bool:
    far = [moment for moment in (one.bucket.full_at, one.bucket.place_at) if moment is not None]
    return (
        0 <= one.hour <= LAST_HOUR
        and len(one.hours) == HOURS
        and all(0 <= count <= LARGEST_COUNT for count in one.hours)
        and 0 <= one.usual <= LARGEST_USUAL
        and 0 <= one.total <= LARGEST_TOTAL
        and all(moment <= NOON + 3 * FARTHEST for moment in far)
    )


@settings(deadline=None)
@given(
    rules=RULES,
    countries=st.dictionaries(st.sampled_from(KEYS), SLICES),
    prefixes=st.dictionaries(st.sampled_from(KEYS), SLICES),
    least_surge=st.floats(1, LARGEST_SURGE),
    spent=st.decimals(0, LARGEST_MONEY, places=6),
    price=st.decimals(0, 1000, places=6),
    messages=MESSAGES,
)
def test_whatever_is_stored_what_comes_of_it_can_be_stored(
    rules: Rules,
    countries: dict[str, Slice],
    prefixes: dict[str, Slice],
    least_surge: float,
    spent: Decimal,
    price: Decimal,
    messages: list[Message],
) -> None:
    account = Account(
        rules=rules,
        now=NOON,
        prices={"FR": price},
        spent=spent,
        first_at=LONG_AGO,
        least_surge=least_surge,
        countries=as_of_noon(countries),
        prefixes=as_of_noon(prefixes),
    )
    for message in messages:
        account.rule(message)
    assert all(map(is_storable, (*account.countries.values(), *account.prefixes.values())))
    assert spent <= account.spent <= LARGEST_MONEY
    for shift in account.shifts:
        assert 0 <= shift.today <= LARGEST_COUNT
        assert 0 <= shift.usual <= LARGEST_USUAL
    for bucket in account.numbers.values():
        assert max(bucket.full_at or NOON, bucket.place_at or NOON) <= NOON + 3 * FARTHEST


@given(
    countries=st.dictionaries(st.sampled_from(KEYS), SLICES),
    waiting=st.dictionaries(st.sampled_from(KEYS), st.integers(0, 200_000)),
)
def test_a_surge_is_a_factor_that_can_be_stored(
    countries: dict[str, Slice], waiting: dict[str, int]
) -> None:
    surge = surge_of(as_of_noon(countries), waiting)
    assert math.isfinite(surge)
    assert 1 <= surge <= MOST_SURGE <= LARGEST_SURGE


def test_the_largest_numbers_are_those_of_the_schema() -> None:
    assert (MOST_COUNTED, MOST_SPENT) == (LARGEST_COUNT, LARGEST_MONEY)


def test_a_count_that_is_as_large_as_can_be_stays_there() -> None:
    full = Slice(hour=hour_of(NOON), hours=(LARGEST_COUNT,) * HOURS).with_one_more()
    assert (full.hours[-1], full.today) == (LARGEST_COUNT, LARGEST_COUNT)
    assert is_storable(full.at(hour_of(NOON) + HOURS))


@pytest.mark.parametrize("days", [60, 200, 330, 3650, 20_000])
def test_what_has_decayed_away_allows_nothing_new(days: int) -> None:
    busy = Slice(hour=hour_of(NOON) - days * HOURS, usual=100.0, total=1000)
    account = Account(
        rules=Rules(),
        now=NOON,
        first_at=NOON - timedelta(days=days + 30),
        countries=as_of_noon({"FR": busy, "TD": Slice(hour=hour_of(NOON))}),
    )
    for number in range(100):
        for country, prefix in (("FR", "+336555"), ("TD", f"+235{number}")):
            account.rule(
                Message(country=country, prefix=prefix, recipient_hash=b"%d" % number, segments=1)
            )
    assert (Kind.COUNTRY, "TD") in account.holds
    assert account.holds & {(Kind.COUNTRY, "FR"), (Kind.PREFIX, "+336555")}
    assert account.prefixes["+336555"].today <= 20
    assert account.countries["TD"].today <= 20
