"""Lanes: what is closed by which breaker, who may find out, and how often."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from functions.claim.lane import PROBE_PAUSE_SECONDS, Lanes, limits_of
from functions.store.survey import Survey


@dataclass(frozen=True, kw_only=True)
class Open:
    provider: str
    scope: str = "provider"
    key: str = ""
    channel: str = "email"
    is_due: bool = False


def channel(name: str = "email", *, fallback: str | None = None) -> Survey:
    return Survey(
        channel=name,
        provider="ses",
        fallback_provider=fallback,
        page=100,
        max_in_flight=200,
        lease_seconds=60,
        retries=True,
        leased=0,
        transactional=["normal"],
        bulk=[],
        paced=[],
        generation=1,
    )


BOTH = {("email", "transactional"): 0, ("email", "bulk"): 0}


@pytest.mark.parametrize(
    ("breakers", "limits"),
    [
        ([], {}),
        ([Open(provider="ses")], BOTH),
        ([Open(provider="ses", is_due=True)], dict.fromkeys(BOTH, 1)),
        ([Open(provider="http")], {}),  # the channel's provider of some time ago
        ([Open(provider="ses", channel="sms")], {}),
        (
            [Open(provider="ses", scope="sender_identity", key="bulk")],
            {("email", "bulk"): 0},
        ),
        (
            [Open(provider="ses", scope="sender_identity", key="bulk", is_due=True)],
            {("email", "bulk"): 1},
        ),
        ([Open(provider="ses", scope="country", key="DE")], {}),
        (
            [
                Open(provider="ses", is_due=True),
                Open(provider="ses", scope="sender_identity", key="bulk"),
            ],
            {("email", "transactional"): 1, ("email", "bulk"): 0},
        ),
    ],
)
def test_a_breaker_closes_just_the_lanes_it_is_about(
    breakers: Sequence[Open], limits: dict[tuple[str, str], int]
) -> None:
    assert limits_of([channel(), channel("push")], breakers) == limits


@pytest.mark.parametrize(
    ("breakers", "limits"),
    [
        ([Open(provider="ses")], {}),
        ([Open(provider="http")], {}),
        ([Open(provider="ses", is_due=True)], {}),
        ([Open(provider="ses"), Open(provider="http")], BOTH),
        ([Open(provider="ses"), Open(provider="http", is_due=True)], dict.fromkeys(BOTH, 1)),
        (
            [
                Open(provider="ses"),
                Open(provider="http", scope="sender_identity", key="bulk"),
            ],
            {("email", "bulk"): 0},
        ),
    ],
)
def test_a_channel_with_two_providers_goes_on_while_one_of_them_works(
    breakers: Sequence[Open], limits: dict[tuple[str, str], int]
) -> None:
    assert limits_of([channel(fallback="http")], breakers) == limits


def test_one_row_at_a_time_finds_out() -> None:
    now = 50.0
    lanes = Lanes(breakers=lambda: [Open(provider="ses", is_due=True)], clock=lambda: now)
    assert lanes.limits([channel()]) == dict.fromkeys(BOTH, 1)
    now += PROBE_PAUSE_SECONDS / 2
    assert lanes.limits([channel()]) == BOTH
    now += PROBE_PAUSE_SECONDS / 2
    assert lanes.limits([channel()]) == dict.fromkeys(BOTH, 1)
