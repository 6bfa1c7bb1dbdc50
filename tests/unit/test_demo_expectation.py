"""How each recipient has to end."""

import pytest

from functions.cli.demo_expectation import MAX_ATTEMPTS, Expectation, expected_end
from functions.core.states import Status
from infra.local.simulator_behaviour import Kind

DELIVERED = Expectation(Status.DELIVERED, 1)
HELD = Expectation(Status.DEAD, 0)
UNCONFIRMED = Expectation(Status.UNCONFIRMED, 1)
BOUNCED = Expectation(Status.FAILED, 1, is_suppressed=True)

GATEWAY = {
    "ok": DELIVERED,
    "twice": DELIVERED,
    "early": DELIVERED,
    "late.20": DELIVERED,
    "silent": UNCONFIRMED,
    "bounce": BOUNCED,
    "reject": HELD,
    "flaky.1": DELIVERED,
    "flaky.4": DELIVERED,
    "flaky.5": HELD,
    "flaky.9": HELD,
    "throttle.3": DELIVERED,
    "hang": DELIVERED,
    "drop": DELIVERED,
    "somebody": DELIVERED,
}


def test_every_behaviour_has_an_expectation_here() -> None:
    assert {name.partition(".")[0] for name in GATEWAY} == {*Kind, "somebody"}


@pytest.mark.parametrize(("behaviour", "expected"), GATEWAY.items())
def test_email_and_push_end_by_their_behaviour(behaviour: str, expected: Expectation) -> None:
    assert expected_end("email", f"{behaviour}+0001@example.com") == expected
    assert expected_end("push", f"sim-{behaviour}-0001") == expected


@pytest.mark.parametrize(
    ("digits", "expected"),
    [
        ("0001", DELIVERED),
        ("1001", HELD),
        ("2001", BOUNCED),
        ("3001", UNCONFIRMED),
        ("4004", DELIVERED),
        ("4005", HELD),
        ("5003", DELIVERED),
        ("6000", DELIVERED),
        ("6001", DELIVERED),
        ("6002", DELIVERED),
        ("6003", DELIVERED),
        ("6120", DELIVERED),
    ],
)
def test_sms_ends_by_its_number(digits: str, expected: Expectation) -> None:
    assert expected_end("sms", f"+1555010{digits}") == expected


@pytest.mark.parametrize("behaviour", GATEWAY)
def test_a_webhook_is_delivered_once_accepted(behaviour: str) -> None:
    refused = behaviour in {"reject", "flaky.5", "flaky.9"}
    url = f"http://127.0.0.1:8081/hooks/{behaviour}/0001"
    assert expected_end("webhook", url) == (HELD if refused else DELIVERED)


def test_flaky_is_delivered_if_an_attempt_is_left() -> None:
    for budget in range(1, MAX_ATTEMPTS + 1):
        for times in range(MAX_ATTEMPTS + 2):
            end = expected_end("email", f"flaky.{times}@example.com", max_attempts=budget)
            assert end == (DELIVERED if times < budget else HELD)
