"""Addresses are normalised at the door or refused there; nothing fails for its form later."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.recipient import (
    InvalidRecipient,
    comparison_form,
    normalise,
    recipient_hash,
)
from functions.core.states import Channel

ORIGIN = "http://127.0.0.1:8081"

GOOD = [
    ("email", "Ada.Lovelace+x@EXAMPLE.com", "Ada.Lovelace+x@example.com"),
    ("email", "user@bücher.example", "user@xn--bcher-kva.example"),
    ("email", "user@xn--bcher-kva.example", "user@xn--bcher-kva.example"),
    ("email", "o'brien_{x}~!#$%&*+/=?^`|@example.co.uk", "o'brien_{x}~!#$%&*+/=?^`|@example.co.uk"),
    ("sms", "+15550100000", "+15550100000"),
    ("sms", "+1 (202) 555-0143", "+12025550143"),
    ("sms", "+44 (0) 20 7123 4567", "+442071234567"),
    ("sms", "+49.30.123456", "+4930123456"),
    ("push", "sim-flaky.2-x", "sim-flaky.2-x"),
    ("push", "c" * 163 + ":APA91b_-", "c" * 163 + ":APA91b_-"),
    (
        "push",
        "arn:aws:sns:eu-west-1:111122223333:endpoint/GCM/app/0000-1111",
        "arn:aws:sns:eu-west-1:111122223333:endpoint/GCM/app/0000-1111",
    ),
    ("webhook", "https://Example.COM", "https://example.com/"),
    ("webhook", "HTTPS://example.com:443/A?b=%2F&c", "https://example.com/A?b=%2F&c"),
    ("webhook", "https://example.com:8443?x", "https://example.com:8443/?x"),
    ("webhook", "https://bücher.example/x", "https://xn--bcher-kva.example/x"),
    ("webhook", "https://[2001:DB8::1]:8443/x", "https://[2001:db8::1]:8443/x"),
    ("webhook", f"{ORIGIN}/hooks/ok.1/x?y", f"{ORIGIN}/hooks/ok.1/x?y"),
]


@pytest.mark.parametrize(("channel", "given", "expected"), GOOD)
def test_a_good_address_is_normalised_once_and_for_all(
    channel: str, given: str, expected: str
) -> None:
    assert normalise(channel, given, local_webhook_origin=ORIGIN) == expected
    assert normalise(channel, expected, local_webhook_origin=ORIGIN) == expected


INVISIBLE = [
    "us\u200ber@example.com",
    "user@example.com\u200b",
    "user@exam\u200bple.com",
    "\ufeffuser@example.com",
    "j.doe\u00a0@example.com",
    "user@example.com\u00a0",
    "us\u00ader@example.com",
    "user\u202e@example.com",
]


@pytest.mark.parametrize("address", INVISIBLE)
def test_a4_an_invisible_character_never_passes(address: str) -> None:
    try:
        normalised = normalise("email", address)
    except InvalidRecipient:
        return
    assert normalised == "user@example.com"


@pytest.mark.parametrize("address", ["dån@example.com", "用户@example.com", "dån@bücher.example"])
def test_a4_a_local_part_beyond_ascii_is_refused_and_never_punycoded(address: str) -> None:
    with pytest.raises(InvalidRecipient):
        normalise("email", address)


BAD = [
    *(
        ("email", address)
        for address in (
            *("", "@", "ada", "ada@", "@example.com", "ada@localhost", "ada@example", "a@b@c.com"),
            *(" ada@example.com", "ada@example.com ", "ada@example.com\n", "ada@example.com\r\n"),
            *("a..b@example.com", ".a@example.com", "a.@example.com", '"a b"@example.com'),
            *("Ada <ada@example.com>", "ada@[127.0.0.1]", "ada@exam_ple.com", "ada@-x.com"),
            *("ada@example.com.", "ada@xn--a.com", "a" * 65 + "@example.com", "ada@example.test"),
            *("ada,ben@example.com", "a@" + "x." * 130 + "com", "mailto:ada@example.com"),
        )
    ),
    *(
        ("sms", number)
        for number in (
            *("", "+", "2025550143", "0044 20 7123 4567", "tel:+12025550143", "+1 800 FLOWERS"),
            *("+12025550143 ext 5", "+12025550143;ext=5", "+12025550143\n", "+999123", "+1", "+12"),
            *("+1" + "0" * 40, "+٤٤2071234567", "＋12025550143", "++12025550143", "+1202555014312"),
        )
    ),
    *(
        ("push", token)
        for token in ("", "a b", "a\n", "é", "x" * 4097, "arn:aws:sns:x", "arn:aws:s3:::bucket/x")
    ),
    *(
        ("webhook", url)
        for url in (
            *("", "example.com", "https://", "https:///x", "//example.com/", "ftp://example.com/"),
            *("http://example.com/", "https://user:pass@example.com/", "https://user@example.com/"),
            *("https://example.com/#x", "https://example.com/#", "https://exa mple.com/"),
            *("https://example.com/a b", "https://example.com/\t", "https://exa\tmple.com/"),
            *("https://example.com/é", "https://example.com\\@evil.example/", "https://[::1"),
            *("https://example.com:0/", "https://example.com:99999/", "https://a..b/"),
            *(
                "https://-x.com/",
                "https://_x.com/",
                "https://exam℀ple.com/",
                "https://[fe80::1%1]/",
            ),
            *("https://example.com/" + "x" * 2048, "javascript:alert(1)", "https:example.com/"),
            *(f"{ORIGIN}@evil.example/", f"{ORIGIN}2/", "http://127.0.0.1:8082/", f"{ORIGIN}\\x"),
            *("http://127.0.0.1/", "http://localhost:8081/", f"http://x:y@{ORIGIN[7:]}/"),
        )
    ),
]
CODES = {
    "email": "invalid_email",
    "sms": "invalid_phone",
    "push": "invalid_token",
    "webhook": "invalid_url",
}


@pytest.mark.parametrize(("channel", "address"), BAD)
def test_a_bad_address_is_refused_by_its_channels_code(channel: str, address: str) -> None:
    with pytest.raises(InvalidRecipient) as caught:
        normalise(channel, address, local_webhook_origin=ORIGIN)
    assert caught.value.item_code == CODES[channel]
    assert len(address) < 4 or address not in caught.value.detail


def test_the_local_origin_is_exempt_only_where_it_is_configured() -> None:
    with pytest.raises(InvalidRecipient):
        normalise("webhook", f"{ORIGIN}/hooks/ok")


@given(st.sampled_from(list(Channel)), st.text())
def test_any_text_is_normalised_or_refused(channel: Channel, text: str) -> None:
    try:
        normalised = normalise(channel, text, local_webhook_origin=ORIGIN)
    except InvalidRecipient:
        return
    assert normalised.isascii()
    assert normalised.isprintable()
    assert " " not in normalised
    assert normalise(channel, normalised, local_webhook_origin=ORIGIN) == normalised


def test_the_hash_is_keyed_and_of_the_comparison_form() -> None:
    key = b"k" * 32
    expected = hmac.new(key, b"email:ada@example.com", hashlib.sha256).digest()
    assert recipient_hash(key, "email", "Ada@example.com") == expected
    assert recipient_hash(key, "email", "ada@example.com") == expected
    assert recipient_hash(b"other", "email", "ada@example.com") != expected
    assert recipient_hash(key, "push", "ada@example.com") != expected


def test_only_email_is_compared_without_case() -> None:
    assert comparison_form("email", "Ada@example.com") == "ada@example.com"
    assert comparison_form("push", "AbC") == "AbC"
    assert comparison_form("webhook", "https://example.com/A") == "https://example.com/A"
