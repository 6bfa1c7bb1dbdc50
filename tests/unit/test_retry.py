"""Backoff: it doubles to its cap, keeps half of the wait, and a Retry-After never shortens it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.retry import MAX_RETRY_AFTER_SECONDS, Backoff, Curve, clamp_retry_after

DEFAULT = Backoff(base_seconds=60, cap_seconds=1_800)


def backoff_of(base: float, factor: float, curve: Curve) -> Backoff:
    return Backoff(base_seconds=base, cap_seconds=base * factor, curve=curve)


backoffs = st.builds(
    backoff_of, st.floats(0.001, 3_600), st.floats(1, 1_000), st.sampled_from(Curve)
)


def test_the_ceiling_doubles_up_to_the_cap() -> None:
    ceilings = [DEFAULT.ceiling_seconds(k) for k in range(1, 9)]
    assert ceilings == [60, 120, 240, 480, 960, 1_800, 1_800, 1_800]


def test_by_the_linear_curve_the_ceiling_grows_by_its_base_up_to_the_cap() -> None:
    linear = Backoff(base_seconds=60, cap_seconds=250, curve="linear")
    assert [linear.ceiling_seconds(k) for k in range(7)] == [60, 60, 120, 180, 240, 250, 250]


@given(backoffs, st.integers(1, 10_000))
def test_the_ceiling_never_falls(backoff: Backoff, spent: int) -> None:
    assert backoff.ceiling_seconds(spent) <= backoff.ceiling_seconds(spent + 1)


def test_no_attempt_counts_as_the_first() -> None:
    assert DEFAULT.ceiling_seconds(0) == DEFAULT.ceiling_seconds(1)


@given(backoffs, st.integers(0, 10_000))
def test_the_ceiling_never_leaves_the_range_of_the_curve(backoff: Backoff, spent: int) -> None:
    ceiling = backoff.ceiling_seconds(spent)
    assert backoff.base_seconds <= ceiling <= backoff.cap_seconds


@given(backoffs, st.integers(0, 100), st.floats(0, 1, exclude_max=True))
def test_the_delay_lies_between_half_the_ceiling_and_all_of_it(
    backoff: Backoff, spent: int, draw: float
) -> None:
    ceiling = backoff.ceiling_seconds(spent)
    assert ceiling / 2 <= backoff.delay_seconds(spent, uniform=draw) <= ceiling


def test_without_a_draw_the_delays_are_spread() -> None:
    delays = {DEFAULT.delay_seconds(3) for _ in range(50)}
    assert len(delays) > 40
    assert all(120 <= delay <= 240 for delay in delays)


@given(st.integers(1, 20), st.floats(0, 1e9))
def test_a_retry_after_only_ever_makes_it_later(spent: int, seconds: float) -> None:
    without = DEFAULT.delay_seconds(spent, uniform=0.5)
    delay = DEFAULT.delay_seconds(spent, retry_after_seconds=seconds, uniform=0.5)
    assert delay == max(without, min(seconds, MAX_RETRY_AFTER_SECONDS))


@pytest.mark.parametrize(
    ("named", "used"),
    [(None, 0), (0, 0), (-5, 0), (90, 90), (3_600, 3_600), (86_400, 3_600), (math.inf, 3_600)],
)
def test_a_retry_after_is_clamped_to_an_hour(named: float | None, used: float) -> None:
    assert clamp_retry_after(named) == used
