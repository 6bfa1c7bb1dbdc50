"""Outcomes: what each proves, and which of them spend the budget."""

from typing import get_args

import pytest

from functions.core.evidence import Rank
from functions.core.outcome import (
    Accepted,
    Blocked,
    Outcome,
    OutcomeName,
    Refused,
    Rejected,
    Scope,
    Throttled,
    Transient,
    Unknown,
)

ONE_OF_EACH: list[Outcome] = [
    Accepted(reference="m-1"),
    Rejected(),
    Refused(),
    Transient(),
    Throttled(),
    Blocked(),
    Unknown(),
]


def test_every_name_belongs_to_one_kind() -> None:
    assert {type(outcome) for outcome in ONE_OF_EACH} == set(get_args(Outcome))
    assert [outcome.name for outcome in ONE_OF_EACH] == list(OutcomeName)


def test_only_acceptance_is_evidence() -> None:
    assert [outcome.rank for outcome in ONE_OF_EACH] == [Rank.ACCEPTED] + [Rank.NONE] * 6
    assert Accepted(reference=None, final=True).rank == Rank.DELIVERED


def test_every_outcome_but_throttled_and_blocked_spends() -> None:
    assert {outcome.name for outcome in ONE_OF_EACH if not outcome.spends} == {
        OutcomeName.THROTTLED,
        OutcomeName.BLOCKED,
    }


def test_an_attempt_that_was_never_begun_is_given_back() -> None:
    assert not Transient(begun=False).spends


def test_a_refusal_reaches_the_destination_and_a_slowdown_the_provider() -> None:
    assert Refused().suppress == Scope.DESTINATION
    assert Throttled().scope == Blocked().scope == Scope.PROVIDER


def test_outcomes_are_values() -> None:
    assert Rejected(code="400") == Rejected(code="400")
    with pytest.raises(AttributeError):
        Rejected().code = "400"  # pyright: ignore[reportAttributeAccessIssue]
