"""The behaviour that an address asks for."""

import pytest

from infra.local.simulator_behaviour import behaviour_of


@pytest.mark.parametrize(
    ("recipient", "behaviour"),
    [
        ("ok@example.com", "ok"),
        ("bounce+0001@example.com", "bounce"),
        ("late.20+a+b@example.com", "late.20"),
        ("FLAKY.3+x@example.com", "flaky.3"),
        ("flaky@example.com", "flaky.1"),
        ("flaky.many@example.com", "ok"),
        ("throttle.2+1@example.com", "throttle.2"),
        ("jane.doe@example.com", "ok"),
        ("+bounce@example.com", "ok"),
        ("", "ok"),
    ],
)
def test_an_email_address_asks_with_its_local_part_up_to_the_plus(
    recipient: str, behaviour: str
) -> None:
    assert str(behaviour_of("email", recipient)) == behaviour


@pytest.mark.parametrize(
    ("digits", "behaviour"),
    [
        ("0000", "ok"),
        ("0999", "ok"),
        ("1000", "reject"),
        ("1999", "reject"),
        ("2042", "bounce"),
        ("3001", "silent"),
        ("4000", "flaky.0"),
        ("4003", "flaky.3"),
        ("4100", "ok"),
        ("5002", "throttle.2"),
        ("6000", "hang"),
        ("6001", "drop"),
        ("6002", "twice"),
        ("6003", "early"),
        ("6004", "ok"),
        ("6120", "late.20"),
        ("7000", "ok"),
    ],
)
def test_a_phone_number_asks_with_its_last_four_digits(digits: str, behaviour: str) -> None:
    assert str(behaviour_of("sms", f"+1555010{digits}")) == behaviour


@pytest.mark.parametrize("number", ["+15550201000", "+155501010001", "+4915550101000", "x"])
def test_a_phone_number_outside_the_table_is_ok(number: str) -> None:
    assert str(behaviour_of("sms", number)) == "ok"


@pytest.mark.parametrize(
    ("token", "behaviour"),
    [
        ("sim-ok", "ok"),
        ("sim-drop-0001", "drop"),
        ("sim-flaky.2-0001-more", "flaky.2"),
        ("sim-late.7", "late.7"),
        ("simdrop", "ok"),
        ("fcm-drop", "ok"),
    ],
)
def test_a_push_token_asks_after_sim(token: str, behaviour: str) -> None:
    assert str(behaviour_of("push", token)) == behaviour


@pytest.mark.parametrize(
    ("path", "behaviour"),
    [
        ("/hooks/reject", "reject"),
        ("/hooks/flaky.2/orders/1?a=b", "flaky.2"),
        ("/hooks/", "ok"),
        ("/", "ok"),
        ("/other/reject", "ok"),
    ],
)
def test_a_webhook_asks_with_its_first_segment_after_hooks(path: str, behaviour: str) -> None:
    assert str(behaviour_of("webhook", f"http://127.0.0.1:8081{path}")) == behaviour


def test_an_unknown_channel_is_ok() -> None:
    assert str(behaviour_of("pigeon", "reject@example.com")) == "ok"
