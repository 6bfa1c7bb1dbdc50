"""Shares of a budget: whole, exact, never negative, 10 : 5 : 1 over time, and nobody starves."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.share import EVENLY, WEIGHTS, Shares

PRIORITIES = list(WEIGHTS)

ready_sets = st.sets(st.sampled_from(PRIORITIES), min_size=1).map(
    lambda names: [name for name in PRIORITIES if name in names]
)


@given(st.lists(st.tuples(st.integers(1, 1_000), ready_sets), min_size=1, max_size=50))
def test_shares_sum_to_the_budget_and_are_never_negative(
    rounds: list[tuple[int, list[str]]],
) -> None:
    account = Shares()
    for budget, ready in rounds:
        shares = account.split(budget, ready)
        assert set(shares) == set(ready)
        assert sum(shares.values()) == budget
        assert min(shares.values()) >= 0


@given(st.lists(st.integers(1, 100), min_size=1, max_size=60))
def test_over_any_run_of_rounds_each_is_within_two_of_its_due(budgets: list[int]) -> None:
    account, given_so_far = Shares(), Counter[str]()
    for budget in budgets:
        given_so_far.update(account.split(budget, PRIORITIES))
        for name, weight in WEIGHTS.items():
            due = given_so_far.total() * weight / sum(WEIGHTS.values())
            assert abs(given_so_far[name] - due) < 2


@pytest.mark.parametrize("budget", [1, 3, 10, 16, 100])
def test_sixteen_rounds_give_ten_five_and_one(budget: int) -> None:
    account, total = Shares(), Counter[str]()
    for _ in range(16):
        total.update(account.split(budget, PRIORITIES))
    assert total == {"high": 10 * budget, "normal": 5 * budget, "low": budget}


@given(st.integers(1, 15))
def test_low_priority_waits_sixteen_rounds_at_most(budget: int) -> None:
    account = Shares()
    waited = 0
    for _ in range(64):
        waited = 0 if account.split(budget, PRIORITIES)["low"] else waited + 1
        assert waited <= 16


@pytest.mark.parametrize("name", PRIORITIES)
def test_one_alone_gets_all(name: str) -> None:
    assert Shares().split(7, [name]) == {name: 7}


def test_what_was_owed_is_not_hoarded_while_nothing_is_ready() -> None:
    """A priority that comes back is not paid for the time in which it wanted nothing."""
    account = Shares()
    for _ in range(1_000):
        account.split(1, ["low"])
    shares = account.split(160, PRIORITIES)
    assert shares == {"high": 100, "normal": 50, "low": 10}


def test_nothing_ready_gets_nothing() -> None:
    assert Shares().split(10, []) == {}


@given(st.lists(st.integers(0, 100), min_size=1, max_size=60))
def test_two_streams_are_never_more_than_one_apart(budgets: list[int]) -> None:
    account, given_so_far = Shares(EVENLY), Counter[str]()
    for budget in budgets:
        given_so_far.update(account.split(budget, list(EVENLY)))
        assert abs(given_so_far["transactional"] - given_so_far["bulk"]) <= 1


def test_a_stream_alone_gets_all_and_is_owed_nothing_for_it() -> None:
    account = Shares(EVENLY)
    assert account.split(9, ["bulk"]) == {"bulk": 9}
    assert account.split(10, list(EVENLY)) == {"transactional": 5, "bulk": 5}
