"""Standard Webhooks signatures: known vectors, rotation, age, and headers of every kind."""

import base64
import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from functions.core.errors import RequestRefused
from functions.core.signature import (
    ID,
    MAX_ID_CHARACTERS,
    SIGNATURE,
    TIMESTAMP,
    TOLERANCE_SECONDS,
    BadSignature,
    BadTimestamp,
    authenticate,
    key_of,
    sign,
    verify,
)

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER = "whsec_" + base64.b64encode(bytes(range(1, 33))).decode()
NOW = 1767225600
BODY = '{"b":1.0,  "a":"é"}'.encode()

VECTORS = [
    (
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    ),
    (
        "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        "msg_test0001",
        1767225600,
        b'{"type":"notification.test","timestamp":"2026-01-01T00:00:00Z","data":{"id":"n_1"}}',
        "v1,xSPZSXs08n5olV7lfPLdXlvkIRRS7yHE2OHg+A7qfhs=",
    ),
]


def signed(
    body: bytes = BODY, *, at: int = NOW, secrets: tuple[str, ...] = (SECRET,)
) -> dict[str, str]:
    return sign(body, message_id="msg_1", timestamp=at, secrets=secrets)


@pytest.mark.parametrize(("secret", "message_id", "timestamp", "body", "signature"), VECTORS)
def test_the_known_vectors(
    secret: str, message_id: str, timestamp: int, body: bytes, signature: str
) -> None:
    headers = sign(body, message_id=message_id, timestamp=timestamp, secrets=[secret])
    assert headers == {ID: message_id, TIMESTAMP: str(timestamp), SIGNATURE: signature}
    assert verify(body, headers=headers, secrets=[secret], now=timestamp) == message_id


def test_the_public_library_and_ours_agree_both_ways() -> None:
    now = int(time.time())
    Webhook(SECRET).verify(BODY, signed(at=now))
    theirs = Webhook(SECRET).sign("msg_1", datetime.fromtimestamp(now, UTC), BODY.decode())
    headers = {ID: "msg_1", TIMESTAMP: str(now), SIGNATURE: theirs}
    assert verify(BODY, headers=headers, secrets=[SECRET], now=now) == "msg_1"


@given(st.integers(0, len(BODY) - 1), st.integers(1, 255))
def test_e7_one_changed_byte_fails(place: int, change: int) -> None:
    body = bytearray(BODY)
    body[place] ^= change
    with pytest.raises(BadSignature):
        verify(bytes(body), headers=signed(), secrets=[SECRET], now=NOW)


@pytest.mark.parametrize(
    "body", [BODY + b"\n", BODY.replace(b"  ", b" "), json.dumps(json.loads(BODY)).encode(), b""]
)
def test_e7_the_bytes_are_what_counts_not_the_json(body: bytes) -> None:
    with pytest.raises(BadSignature):
        verify(body, headers=signed(), secrets=[SECRET], now=NOW)
    assert verify(body, headers=signed(body), secrets=[SECRET], now=NOW) == "msg_1"


def test_id_and_timestamp_are_signed_too() -> None:
    for changed in ({ID: "msg_2"}, {TIMESTAMP: str(NOW + 1)}):
        with pytest.raises(BadSignature):
            verify(BODY, headers=signed() | changed, secrets=[SECRET], now=NOW)


def test_one_right_signature_among_several_is_enough() -> None:
    right = signed()[SIGNATURE]
    for presented in (
        f"v1,AAAA {right}",
        f"v1a,AAAA v2,zz {right} v1,AAAA",
        f"{right} garbage",
        f"  {right}  ",
        f"\ud800 {right}",
    ):
        headers = signed() | {SIGNATURE: presented}
        assert verify(BODY, headers=headers, secrets=[SECRET], now=NOW) == "msg_1"


def test_the_previous_secret_is_accepted_and_a_third_is_not() -> None:
    headers = signed(secrets=(OTHER,))
    assert verify(BODY, headers=headers, secrets=[SECRET, OTHER], now=NOW)
    with pytest.raises(BadSignature):
        verify(BODY, headers=headers, secrets=[SECRET], now=NOW)
    both = signed(secrets=(SECRET, OTHER))
    for secret in (SECRET, OTHER):
        assert verify(BODY, headers=both, secrets=[secret], now=NOW)


def test_without_any_secret_nothing_is_right() -> None:
    with pytest.raises(BadSignature):
        verify(BODY, headers=signed(), secrets=[], now=NOW)


def test_five_minutes_either_way_by_the_given_clock() -> None:
    for now in (NOW - TOLERANCE_SECONDS, NOW, NOW + TOLERANCE_SECONDS):
        assert verify(BODY, headers=signed(), secrets=[SECRET], now=now)
    for now in (NOW - TOLERANCE_SECONDS - 0.001, NOW + TOLERANCE_SECONDS + 0.001, float("nan")):
        with pytest.raises(BadSignature):
            verify(BODY, headers=signed(), secrets=[SECRET], now=now)


def test_a_forger_is_found_out_without_a_clock() -> None:
    with pytest.raises(BadSignature):
        authenticate(BODY, headers=signed(secrets=(OTHER,)), secrets=[SECRET])
    assert authenticate(BODY, headers=signed(), secrets=[SECRET]).timestamp == NOW


@pytest.mark.parametrize(
    "stamp",
    ["", " ", "NaN", "nan", "inf", "-1", "+1", "1.5", "1e9", "0x1", "soon", "١٧٦٧", "1" * 13,
     "1" * 5000, "\ud800", "1767225600,1767225600", "2026-01-01T00:00:00Z"],
)  # fmt: skip
def test_a_timestamp_that_is_no_number_is_said_to_be_bad(stamp: str) -> None:
    with pytest.raises(BadTimestamp):
        verify(BODY, headers=signed() | {TIMESTAMP: stamp}, secrets=[SECRET], now=NOW)


@pytest.mark.parametrize("name", [ID, TIMESTAMP, SIGNATURE])
def test_a_missing_header_is_a_bad_signature(name: str) -> None:
    headers = {key: value for key, value in signed().items() if key != name}
    with pytest.raises(BadSignature):
        verify(BODY, headers=headers, secrets=[SECRET], now=NOW)


@pytest.mark.parametrize("name", [ID, SIGNATURE])
def test_an_empty_header_is_a_bad_signature(name: str) -> None:
    with pytest.raises(BadSignature):
        verify(BODY, headers=signed() | {name: ""}, secrets=[SECRET], now=NOW)


def test_e7_header_names_count_in_any_case() -> None:
    for change in (str.upper, str.title, str.swapcase):
        headers = {change(name): value for name, value in signed().items()}
        assert verify(BODY, headers=headers, secrets=[SECRET], now=NOW) == "msg_1"


@pytest.mark.parametrize("message_id", ["m\ud800", "m\x00", "m\n", "m" * (MAX_ID_CHARACTERS + 1)])
def test_an_id_that_cannot_be_kept_is_a_bad_signature(message_id: str) -> None:
    headers = signed() | {ID: message_id}
    with pytest.raises(BadSignature):
        verify(BODY, headers=headers, secrets=[SECRET], now=NOW)


def test_an_id_beyond_ascii_is_signed_as_utf_8() -> None:
    headers = sign(BODY, message_id="msg_é", timestamp=NOW, secrets=[SECRET])
    assert verify(BODY, headers=headers, secrets=[SECRET], now=NOW) == "msg_é"


anything = st.text(st.characters(), max_size=40)  # lone surrogates too


@given(st.dictionaries(st.sampled_from([ID, TIMESTAMP, SIGNATURE, "x"]), anything))
def test_no_header_whatever_raises_anything_but_a_refusal(headers: dict[str, str]) -> None:
    with pytest.raises(RequestRefused):
        verify(BODY, headers=headers, secrets=[SECRET], now=NOW)


def test_a_secret_is_base64_with_or_without_prefix_and_padding() -> None:
    key = bytes(range(32))
    text = base64.b64encode(key).decode()
    for secret in (text, f"whsec_{text}", text.rstrip("="), f"whsec_{text.rstrip('=')}"):
        assert key_of(secret) == key
    for secret in ("whsec_not base64!", "whsec_é", "whsec_A"):
        with pytest.raises(ValueError, match="base64"):
            key_of(secret)
