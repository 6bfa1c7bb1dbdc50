"""What the guard in front of SMS decides: countries, shifts of the mix, paces, and money."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.abuse import (
    Account,
    Because,
    Kind,
    Message,
    OnHold,
    Rules,
    cost_of,
    hour_of,
    next_day,
    prefix_of,
    segments_of,
)
from functions.core.pace import FARTHEST, Bucket
from functions.core.policy import Allow, Defer, Suppress
from functions.core.usual import HOURS, Slice, surge_of

NOON = datetime(2030, 5, 15, 12, tzinfo=UTC)
HOUR = hour_of(NOON)
LONG_AGO = NOON - timedelta(days=30)
PRICES = {"FR": Decimal("0.05"), "TD": Decimal("0.25")}
MIX = {"FR": 600.0, "DE": 300.0, "BE": 80.0, "CH": 20.0}


def usually(a_day: float, *, today: int = 0, **more: Any) -> Slice:
    """Return a slice that usually has so many messages a day, and so many today."""
    hours = (0,) * (HOURS - 1) + (today,)
    return Slice(hour=HOUR, hours=hours, usual=a_day, total=round(a_day * 30) + today, **more)


def account(
    mix: Mapping[str, float] = MIX, *, today: float = 0.0, now: datetime = NOON, **more: Any
) -> Account:
    """Return the account of an organization with this usual mix; ``today``: that part of a day."""
    countries = {key: usually(a_day, today=round(a_day * today)) for key, a_day in mix.items()}
    members: dict[str, Any] = {
        "rules": Rules(),
        "now": now,
        "first_at": LONG_AGO,
        "countries": countries,
    }
    return Account(**members | more)


def message(country: str = "FR", number: int = 0, **more: Any) -> Message:
    """Return a message to the ``number``-th number; each is of another prefix."""
    members: dict[str, Any] = {
        "country": country,
        "prefix": f"{country}{number}",
        "recipient_hash": f"{country}{number}".encode(),
        "segments": 1,
    }
    return Message(**members | more)


def rulings(one: Account, messages: Iterable[Message]) -> list[str]:
    return [type(one.rule(message)).__name__ for message in messages]


def let_out(one: Account, messages: Iterable[Message]) -> int:
    return rulings(one, messages).count("Allow")


# what it reads of a message


def test_a_prefix_is_the_country_code_and_what_follows_seven_digits_together() -> None:
    assert prefix_of("+12125550123") == "+1212555"
    assert prefix_of("+9607712345") == "+9607712"
    assert (prefix_of("+2901234"), prefix_of(None)) == ("+2901234", "")


def test_what_cannot_be_read_costs_as_much_as_the_longest() -> None:
    assert [segments_of(content) for content in ("Hi", "a" * 161, {"text": "Hi"})] == [1, 2, 10]


def test_a_country_without_a_price_costs_the_highest() -> None:
    assert cost_of(message("FR", segments=3), PRICES) == Decimal("0.15")
    assert cost_of(message("MV", segments=2), PRICES) == Decimal("0.50")
    assert cost_of(message(""), PRICES) == Decimal("0.25")
    assert cost_of(message("FR"), {}) is None


def test_the_next_day_begins_at_midnight_utc() -> None:
    late = datetime(2030, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert next_day(late) == datetime(2031, 1, 1, tzinfo=UTC)
    elsewhere = late.astimezone(timezone(timedelta(hours=5)))
    assert next_day(elsewhere) == datetime(2031, 1, 1, tzinfo=UTC)


# countries


def test_without_a_list_every_country_is_allowed_and_so_is_none() -> None:
    assert rulings(account({}), [message("FR"), message("")]) == ["Allow", "Allow"]


def test_with_a_list_every_other_country_is_denied_and_so_is_none() -> None:
    one = account(rules=Rules(countries=frozenset({"FR", "DE"})))
    assert isinstance(one.rule(message("DE")), Allow)
    denied = Suppress(reason=Because.COUNTRY_NOT_ALLOWED)
    assert [one.rule(message("BE")), one.rule(message(""))] == [denied, denied]


def test_a_list_of_none_allows_nothing() -> None:
    assert rulings(account(rules=Rules(countries=frozenset())), [message()]) == ["Suppress"]


# shifts


def test_a_burst_to_a_new_country_is_held_after_twenty_messages() -> None:
    one = account(today=1.0)
    assert let_out(one, (message("MV", number) for number in range(500))) == 20
    assert one.holds == {(Kind.COUNTRY, "MV")}
    (shift,) = one.shifts
    assert (shift.place, shift.today, shift.usual) == ((Kind.COUNTRY, "MV"), 21, 0.0)


def test_a_burst_over_many_countries_gets_no_more() -> None:
    one = account(today=1.0)
    countries = [f"{a}{b}" for a in "XYZ" for b in "ABCDEFGH"]
    burst = [message(countries[number % 24], number) for number in range(1000)]
    assert let_out(one, burst) == 20
    assert len(one.holds) == 24


def test_a_burst_that_everybody_else_sends_through_holds_nobody_else() -> None:
    one = account(today=1.0)
    rulings(one, (message("MV", number) for number in range(100)))
    assert let_out(one, [message(country, 900) for country in MIX]) == len(MIX)


def test_a_burst_to_one_prefix_of_a_usual_country_is_held() -> None:
    one = account(today=1.0)
    burst = [message("FR", number, prefix="+3389900") for number in range(300)]
    assert let_out(one, burst) == 20
    assert one.holds == {(Kind.PREFIX, "+3389900")}
    assert isinstance(one.rule(message("FR", 900)), Allow)


def test_a_burst_does_not_become_usual_by_being_asked_for() -> None:
    one = account(today=1.0)
    rulings(one, (message("MV", number) for number in range(500)))
    assert one.countries["MV"].today == 20


def test_a_flash_sale_in_the_usual_mix_is_not_held_whatever_stands_first() -> None:
    one = account(today=0.3, least_surge=10.0)  # as a look at what waits tells
    sale = [
        message(country, number)
        for country in sorted(MIX, key=lambda key: MIX[key])
        for number in range(round(10 * MIX[country]))
    ]
    assert rulings(one, sale).count("Allow") == len(sale)


def test_a_flash_sale_in_no_order_needs_no_look() -> None:
    one = account(today=1.0)
    sale = [
        message(country, number)
        for number in range(200)
        for country, a_day in MIX.items()
        for number in range(number * 1000, number * 1000 + round(a_day / 20))
    ]
    assert len(sale) == 10 * sum(MIX.values())
    for page in range(0, len(sale), 100):  # the surge is told anew for each page
        assert let_out(one, sale[page : page + 100]) == 100
        one = account(countries=one.countries, prefixes=one.prefixes)


def test_what_makes_up_a_third_of_all_is_never_held_as_a_whole() -> None:
    one = account({"FR": 400.0, "DE": 600.0}, today=1.0)
    assert let_out(one, (message("FR", number) for number in range(5000))) == 5000


def test_an_organization_of_one_country_and_one_prefix_sends_as_much_as_it_likes() -> None:
    home = {"+4479111": usually(50.0, today=50)}
    one = account({"GB": 50.0}, today=1.0, prefixes=home, least_surge=10.0)
    sale = [message("GB", number, prefix="+4479111") for number in range(500)]
    assert let_out(one, sale) == 500


def test_a_small_country_may_triple_and_a_rare_one_may_have_a_few() -> None:
    one = account(MIX | {"PT": 10.0, "LU": 0.2}, today=1.0)
    assert let_out(one, (message("PT", number) for number in range(25))) == 25
    assert let_out(one, (message("LU", number) for number in range(5))) == 5
    assert one.shifts == []


def test_a_new_country_that_grows_slowly_is_never_held() -> None:
    countries = {key: usually(a_day, today=round(a_day)) for key, a_day in MIX.items()}
    for day in range(24):
        now = NOON + timedelta(days=day)
        countries = {key: one.at(hour_of(now)) for key, one in countries.items()}
        one = Account(rules=Rules(), now=now, first_at=LONG_AGO, countries=countries)
        usual = [
            message(key, number) for key, a_day in MIX.items() for number in range(round(a_day))
        ]
        new = [message("BR", number) for number in range(round(1.25**day))]
        assert let_out(one, usual + new) == len(usual) + len(new), day
        countries = one.countries


def test_a_country_that_begins_with_a_hundred_a_day_is_held() -> None:
    one = account(today=1.0)
    assert let_out(one, (message("BR", number) for number in range(100))) < 100


def test_before_there_is_a_usual_mix_nothing_is_held() -> None:
    burst = [message("MV", number) for number in range(150)]
    assert let_out(account({}, first_at=None), burst) == 150
    assert let_out(account(today=1.0, first_at=NOON - timedelta(days=2)), burst) == 150
    assert let_out(account({"FR": 3.0}), burst) == 150


def test_what_a_person_released_is_trusted_with_all_its_prefixes() -> None:
    one = account(today=1.0)
    one.countries["MV"] = usually(0.0, today=20, trusted_until=NOON + timedelta(days=1))
    burst = [message("MV", number, prefix="+960771") for number in range(500)]
    assert let_out(one, burst) == 500
    trusted = {"+33899": usually(0.0, trusted_until=NOON + timedelta(days=1))}
    one = account(today=1.0, prefixes=trusted)
    assert let_out(one, (message("FR", n, prefix="+33899") for n in range(500))) == 500


def test_trust_ends() -> None:
    one = account(today=1.0)
    one.countries["MV"] = usually(0.0, today=20, trusted_until=NOON)
    assert isinstance(one.rule(message("MV")), OnHold)


def test_what_is_on_hold_stays_there_even_if_it_was_let_out_before() -> None:
    one = account(holds={(Kind.COUNTRY, "FR")})
    assert one.rule(message("FR", is_reserved=True)) == OnHold(place=(Kind.COUNTRY, "FR"))


def test_no_limit_on_what_is_unusual_holds_nothing() -> None:
    one = account(today=1.0, rules=Rules(unusual_per_day=0, prefix_per_hour=0))
    assert let_out(one, (message("MV", number) for number in range(500))) == 500


# what is usual


def test_what_leaves_the_last_day_becomes_part_of_what_is_usual() -> None:
    one = Slice(hour=HOUR)
    for hour in range(24 * 60):
        one = one.at(HOUR + hour)
        one = one.with_one_more().with_one_more()
    assert one.today == 48
    assert one.usual == pytest.approx(48, rel=0.01)
    assert one.at(HOUR + 24 * 60 + 24 * 30).usual == pytest.approx(48 * (6 / 7) ** 29, rel=0.05)


def test_a_clock_that_steps_back_changes_nothing() -> None:
    one = usually(10, today=3)
    assert one.at(HOUR - 5) is one


def test_the_surge_is_what_half_of_the_usual_traffic_grew_by() -> None:
    small = {"BE": usually(80, today=8000), "CH": usually(20, today=2000)}
    large = {"FR": usually(600, today=600), "DE": usually(300, today=300)}
    assert surge_of(large | small) == 1.0
    assert surge_of({"FR": usually(600, today=6000), "DE": usually(300, today=3300)}) == 10.0
    assert surge_of({}, {"MV": 1000}) == 1.0
    assert surge_of({"FR": usually(600)}, {"FR": 1800, "MV": 50000}) == 3.0


# paces


def test_one_number_gets_its_burst_and_then_one_each_place() -> None:
    one = account({}, first_at=None, rules=Rules(number_per_hour=4))
    ruled = [one.rule(message()) for _ in range(7)]
    assert [type(ruling).__name__ for ruling in ruled[:4]] == ["Allow"] * 4
    places = [ruling.until for ruling in ruled[4:] if isinstance(ruling, Defer)]
    assert places == [NOON + timedelta(minutes=15 * number) for number in (1, 2, 3)]
    assert {ruling.reason for ruling in ruled[4:] if isinstance(ruling, Defer)} == {
        Because.NUMBER_VELOCITY
    }
    assert isinstance(one.rule(message(number=1)), Allow)


def test_one_prefix_gets_its_burst_and_more_where_that_is_usual() -> None:
    texts = [message("FR", number, prefix="+3361234") for number in range(900)]
    rules = Rules(prefix_per_hour=50, unusual_per_day=0)
    one = account(today=1.0, rules=rules)
    assert let_out(one, texts) == 50
    assert one.was_paced
    one = account(today=1.0, rules=rules, prefixes={"+3361234": usually(100.0)})
    assert let_out(one, texts) == 305
    assert let_out(account(rules=Rules(prefix_per_hour=0, unusual_per_day=0)), texts) == 900


def test_what_is_put_off_is_not_counted() -> None:
    one = account({}, first_at=None, rules=Rules(number_per_hour=1), prices=PRICES)
    rulings(one, [message(), message(), message()])
    assert (one.countries["FR"].today, one.spent) == (1, Decimal("0.05"))


@given(
    per_hour=st.integers(1, 50),
    gaps=st.lists(st.integers(0, 3600), max_size=200),
    patient=st.booleans(),
)
def test_in_any_time_no_more_pass_than_a_burst_and_the_pace(
    per_hour: int, gaps: list[int], patient: bool
) -> None:
    bucket, now, passed = Bucket(), NOON, list[datetime]()
    for gap in gaps:
        now += timedelta(seconds=gap)
        until = bucket.wait(per_hour=per_hour, now=now)
        if until is not None:
            assert now < until <= now + FARTHEST
            bucket = bucket.reserved(until)
            if not patient:
                continue
            now = until
            if bucket.wait(per_hour=per_hour, now=now) is not None:
                continue
        bucket = bucket.taken(per_hour=per_hour, now=now)
        passed.append(now)
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            hours = (passed[last] - passed[first]) / timedelta(hours=1)
            assert last - first + 1 <= per_hour * (1 + hours) + 1e-6


# money


def test_the_days_money_is_spent_and_not_a_cent_more() -> None:
    rules = Rules(daily_budget=Decimal("0.20"))
    one = account({}, first_at=None, rules=rules, prices=PRICES, spent=Decimal("0.06"))
    ruled = [one.rule(message(number=number, segments=2 - number % 2)) for number in range(4)]
    tomorrow = Defer(until=next_day(NOON), reason=Because.BUDGET_SPENT)
    assert ruled == [Allow(), tomorrow, tomorrow, tomorrow]
    assert one.spent == Decimal("0.16")


def test_what_is_too_dear_lets_the_cheaper_pass() -> None:
    rules = Rules(daily_budget=Decimal("0.10"))
    one = account({}, first_at=None, rules=rules, prices=PRICES)
    assert rulings(one, [message("TD"), message("FR"), message("FR", 1), message("FR", 2)]) == [
        "Defer", "Allow", "Allow", "Defer",
    ]  # fmt: skip


def test_under_a_budget_what_has_no_price_is_not_let_out() -> None:
    one = account({}, first_at=None, rules=Rules(daily_budget=Decimal(100)))
    assert one.rule(message()) == Defer(until=next_day(NOON), reason=Because.PRICE_UNKNOWN)


def test_without_a_budget_what_is_spent_is_counted_all_the_same() -> None:
    one = account({}, first_at=None, prices=PRICES)
    assert let_out(one, [message(segments=2), message("MV")]) == 2
    assert one.spent == Decimal("0.35")


def test_what_was_let_out_before_is_neither_counted_nor_paid_for_again() -> None:
    rules = Rules(daily_budget=Decimal(0), number_per_hour=1)
    one = account({}, rules=rules, prices=PRICES)
    assert let_out(one, [message(is_reserved=True)] * 3) == 3
    assert (one.spent, one.countries, one.numbers) == (Decimal(0), {}, {})
