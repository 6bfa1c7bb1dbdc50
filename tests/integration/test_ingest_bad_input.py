"""Nothing a client sends is stored by halves or answered with an error of ours."""

import base64
import json
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functions.store.connection import Database
from tests.api import Api, email, start

ITEM = "/notifications/0"


@pytest.fixture
def api(database: Database) -> Api:
    return start(database)


def assert_nothing_is_stored(owner: psycopg.Connection) -> None:
    counts = owner.execute(
        "SELECT (SELECT count(*) FROM notifications), (SELECT count(*) FROM batches), "
        "(SELECT count(*) FROM idempotency_keys), (SELECT count(*) FROM suppressions)"
    ).fetchone()
    assert counts == (0, 0, 0, 0)


MALFORMED = {
    "empty": "",
    "not JSON": "{",
    "a trailing comma": '{"notifications": [],}',
    "NaN": '{"notifications": [NaN]}',
    "Infinity": '{"notifications": [-Infinity]}',
    "a raw control character": '{"notifications": ["\x07"]}',
    "a byte order mark": "\ufeff{}",
    "a repeated name": '{"notifications": [], "notifications": [1]}',
    "a repeated name deep inside": '{"notifications": [{"content": {"a": 1, "\\u0061": 2}}]}',
    "deep nesting": '{"notifications": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "deep objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "an endless integer": '{"notifications": [' + "9" * 5000 + "]}",
    "half of a surrogate pair in the event": '{"notifications": ["\ud800"]}',
}


def test_malformed_json_is_refused(
    api: Api, owner: psycopg.Connection, subtests: pytest.Subtests
) -> None:
    for name, text in MALFORMED.items():
        for path in ("/v1/notifications", "/v1/notifications/batches"):
            with subtests.test(name, path=path):
                reply = api.call("POST", path, text=text)
                assert (reply.status, reply.code) == (400, "malformed_json")
    assert_nothing_is_stored(owner)


def test_what_is_not_utf_8_is_refused(api: Api, owner: psycopg.Connection) -> None:
    for body in (b'{"a": "\xff"}', b"\xc3\x28", '{"a": 1}'.encode("utf-16"), b'"\xed\xa0\x80"'):
        event = api.event("POST", "/v1/notifications", text=base64.b64encode(body).decode())
        reply = api.send(event | {"isBase64Encoded": True})
        assert (reply.status, reply.code) == (400, "malformed_json")
    assert_nothing_is_stored(owner)


def test_a_body_that_is_not_base64_as_it_says_is_refused(api: Api) -> None:
    event = api.event("POST", "/v1/notifications", text="%%%")
    reply = api.send(event | {"isBase64Encoded": True})
    assert (reply.status, reply.code) == (400, "malformed_json")


def in_items(*items: str) -> str:
    return '{"notifications": [' + ", ".join(items) + "]}"


GOOD = json.dumps(email())
UNSTORABLE = {
    "/notifications/1/content": GOOD.replace("Your order", "A\\u0000B"),
    "/notifications/1/content ": GOOD.replace("Your order", "\\ud83d"),
    "/notifications/1/recipient": GOOD.replace("ada@", "a\\u0000da@"),
    "/notifications/1/metadata/na\ufffdme": GOOD[:-1] + ', "metadata": {"na\\u0000me": "x"}}',
    "/notifications/1/metadata/a~1b": GOOD[:-1] + ', "metadata": {"a/b": "\\udfff"}}',
    "/notifications/1/event_id": GOOD[:-1] + ', "event_id": "\\u0000"}',
    "/notifications/1/\ufffd": GOOD[:-1] + ', "\\ud800": 1}',
    "/notifications/1/content/lines/0": (
        '{"channel": "webhook", "recipient": "https://example.com/", "content": {"lines": [1e999]}}'
    ),
}


def test_a1_what_cannot_be_stored_is_named_by_pointer(
    api: Api, owner: psycopg.Connection, subtests: pytest.Subtests
) -> None:
    for pointer, item in UNSTORABLE.items():
        for attempt in (1, 2):
            with subtests.test(pointer, attempt=attempt):
                text = in_items(GOOD, item, GOOD)
                reply = api.call("POST", "/v1/notifications/batches", text=text)
                assert (reply.status, reply.code) == (422, "validation_failed")
                assert reply.faults == [(pointer.strip(), "not_encodable")]
    assert_nothing_is_stored(owner)


def test_an_escaped_pair_and_an_escaped_backslash_are_stored(api: Api) -> None:
    item = GOOD.replace("Your order", "\\ud83d\\ude00 \\\\u0000 \\\\ud800")
    reply = api.call("POST", "/v1/notifications", text=item)
    assert reply.status == 202
    assert reply.json["content"] == "😀 \\u0000 \\ud800"


def test_every_fault_is_listed_up_to_a_hundred(api: Api, owner: psycopg.Connection) -> None:
    reply = api.post_batch(*[{"channel": "fax", "recipient": 1, "x": 1}] * 60)
    assert reply.code == "validation_failed"
    assert len(reply.faults) == 100
    assert set(reply.faults[:4]) == {
        (f"{ITEM}/channel", "not_allowed"),
        (f"{ITEM}/recipient", "wrong_type"),
        (f"{ITEM}/x", "unknown_field"),
        (f"{ITEM}/content", "required"),
    }
    assert_nothing_is_stored(owner)


def test_one_bad_item_refuses_the_whole_batch(api: Api, owner: psycopg.Connection) -> None:
    good = [email(f"user-{number}@example.com") for number in range(50)]
    reply = api.post_batch(*good, email("nobody"), *good)
    assert reply.faults == [("/notifications/50/recipient", "invalid_email")]
    assert_nothing_is_stored(owner)


CROWDED = {
    "/channels": '{"channels": [' + ",".join(["1"] * 1_000_000) + "]}",
    "/metadata": '{"metadata": {' + ",".join(f'"{n}": 1' for n in range(300_000)) + "}}",
    "": "{" + ",".join(f'"{n}": 1' for n in range(300_000)) + "}",
}


@pytest.mark.parametrize(("pointer", "item"), CROWDED.items(), ids=["channels", "metadata", "item"])
def test_a_crowd_of_members_is_one_fault_and_not_a_million(
    api: Api, pointer: str, item: str
) -> None:
    """A fault for each would take gigabytes, and the function with it."""
    reply = api.call("POST", "/v1/notifications/batches", text=in_items(item, GOOD))
    assert (reply.status, reply.code) == (422, "validation_failed")
    assert (ITEM + pointer, "too_many") in reply.faults
    assert len(reply.faults) < 5
    assert (pointer, "too_many") in api.call("POST", "/v1/notifications", text=item).faults
    assert api.call("POST", "/v1/suppressions", text=item).status == 422


SMS = {"channel": "sms", "recipient": "+12025550143", "content": "Hi"}
PUSH = {"channel": "push", "recipient": "sim-ok", "content": "Hi"}
WEBHOOK = {"channel": "webhook", "recipient": "https://example.com/", "content": 1}

# Members laid over a good item, and what is wrong then.
ITEM_FAULTS: list[tuple[dict[str, Any], str, str]] = [
    (email(channel=None), "/channel", "required"),
    (email(channel=5), "/channel", "wrong_type"),
    (email(channel="fax"), "/channel", "not_allowed"),
    (email(recipient=None), "/recipient", "required"),
    (email(recipient=["a@example.com"]), "/recipient", "wrong_type"),
    (email(""), "/recipient", "invalid_email"),
    (email("us\u200ber@example.com"), "/recipient", "invalid_email"),
    (email("dån@example.com"), "/recipient", "invalid_email"),
    (SMS | {"recipient": "2025550143"}, "/recipient", "invalid_phone"),
    (SMS | {"recipient": "+1 800 FLOWERS"}, "/recipient", "invalid_phone"),
    (PUSH | {"recipient": "a b"}, "/recipient", "invalid_token"),
    (PUSH | {"recipient": "arn:aws:sns:x"}, "/recipient", "invalid_token"),
    (WEBHOOK | {"recipient": "http://example.com/"}, "/recipient", "invalid_url"),
    (WEBHOOK | {"recipient": "http://127.0.0.1:8081@evil.example/"}, "/recipient", "invalid_url"),
    (email(content=None), "/content", "required"),
    (email(content=""), "/content", "required"),
    (email(content=5), "/content", "wrong_type"),
    (email(content={"subject": "x"}), "/content", "required"),
    (email(content={"text": 5}), "/content/text", "wrong_type"),
    (email(content={"text": "x", "bcc": "y"}), "/content/bcc", "unknown_field"),
    (email(content={"text": "x", "subject": "a\r\nBcc: b"}), "/content/subject", "not_allowed"),
    (SMS | {"content": "x" * 1601}, "/content", "too_long"),
    (SMS | {"content": {"text": "x"}}, "/content", "wrong_type"),
    (PUSH | {"content": {"data": []}}, "/content/data", "wrong_type"),
    (PUSH | {"content": {}}, "/content", "required"),
    (WEBHOOK | {"content": "x" * 262_143}, "/content", "too_long"),
    (email(priority="urgent"), "/priority", "not_allowed"),
    (email(priority=1), "/priority", "wrong_type"),
    (email(category="Marketing!"), "/category", "not_allowed"),
    (email(category="x" * 65), "/category", "not_allowed"),
    (email(event_id=""), "/event_id", "required"),
    (email(event_id="x" * 129), "/event_id", "too_long"),
    (email(event_id=7), "/event_id", "wrong_type"),
    (email(reference="x" * 129), "/reference", "too_long"),
    (email(send_at="2030-01-01T00:00:00"), "/send_at", "invalid_time"),
    (email(send_at="tomorrow"), "/send_at", "invalid_time"),
    (email(send_at="2030-02-30T00:00:00Z"), "/send_at", "invalid_time"),
    (email(send_at="0001-01-01T00:00:00+23:00"), "/send_at", "invalid_time"),
    (email(send_at="9999-12-31T23:59:59-01:00"), "/send_at", "invalid_time"),
    (email(send_at=1700000000), "/send_at", "wrong_type"),
    (email(expires_at="2030-01-01"), "/expires_at", "invalid_time"),
    (
        email(send_at="2030-01-01T01:00:00+01:00", expires_at="2030-01-01T00:00:00Z"),
        "/expires_at",
        "invalid_time",
    ),
    (email(metadata=[]), "/metadata", "wrong_type"),
    (email(metadata={"a": 1}), "/metadata/a", "wrong_type"),
    (email(metadata={"a": "x" * 257}), "/metadata/a", "too_long"),
    (email(metadata={"x" * 65: ""}), "/metadata/" + "x" * 65, "too_long"),
    (email(metadata={"": ""}), "/metadata/", "required"),
    (email(metadata={str(n): "" for n in range(17)}), "/metadata", "too_many"),
    (email(nonsense=1), "/nonsense", "unknown_field"),
    (email(**{"a/b~c": 1}), "/a~1b~0c", "unknown_field"),
    (email(recipient_id="user 1"), "/recipient_id", "not_allowed"),
    (email(template={"name": "x", "data": {}}), "/template", "not_allowed"),
    (email(channels=["email", "sms"]), "/channels", "not_allowed"),
]


def test_a_fault_of_an_item_is_named(
    api: Api, owner: psycopg.Connection, subtests: pytest.Subtests
) -> None:
    for item, pointer, fault in ITEM_FAULTS:
        with subtests.test(pointer=pointer[:40], fault=fault):
            reply = api.post_batch(item)
            assert (reply.status, reply.code) == (422, "validation_failed")
            assert (ITEM + pointer, fault) in reply.faults
            single = api.post(item)
            assert (single.status, single.code) == (422, "validation_failed")
            assert (pointer, fault) in single.faults
    assert_nothing_is_stored(owner)


@pytest.mark.parametrize("depth", [101, 400])
def test_content_that_is_nested_too_deeply_is_named(api: Api, depth: int) -> None:
    deep = json.loads("[" * depth + "]" * depth)
    assert api.post(WEBHOOK | {"content": deep}).faults == [("/content", "not_encodable")]
    pushed = api.post(PUSH | {"content": {"body": "x", "data": {"x": deep}}})
    assert pushed.faults == [("/content/data", "not_encodable")]


def test_content_at_its_limits_is_stored(api: Api) -> None:
    deep = json.loads("[" * 100 + "]" * 100)
    assert api.post(WEBHOOK | {"content": deep}).status == 202
    assert api.post(WEBHOOK | {"content": "x" * 262_142}).status == 202
    assert api.post(SMS | {"content": "é" * 1600}).status == 202
    assert api.post(WEBHOOK | {"content": [1e308, -1e-308, 10**4000, 0.1]}).status == 202


def test_an_item_that_is_no_object_is_named(api: Api) -> None:
    things: list[Any] = [None, 5, "x", [], [[]], True]
    for item in things:
        reply = api.post_batch(email(), item)
        assert reply.faults == [("/notifications/1", "wrong_type")]
        reply = api.call("POST", "/v1/notifications", text=json.dumps(item))
        assert reply.faults == [("", "wrong_type")]


NO_BATCH: list[tuple[Any, str, str]] = [
    ([], "", "wrong_type"),
    ("x", "", "wrong_type"),
    ({}, "/notifications", "required"),
    ({"notifications": None}, "/notifications", "required"),
    ({"notifications": {}}, "/notifications", "wrong_type"),
    ({"notifications": [email()], "more": 1}, "/more", "unknown_field"),
]


def test_a_body_that_is_no_batch_is_named(api: Api) -> None:
    for body, pointer, fault in NO_BATCH:
        reply = api.call("POST", "/v1/notifications/batches", body=body)
        assert (reply.status, reply.code) == (422, "validation_failed")
        assert reply.faults == [(pointer, fault)]


OTHER_MEDIA: list[dict[str, str | None]] = [
    {"content-type": None},
    {"content-type": "text/plain"},
    {"content-type": "application/x-www-form-urlencoded"},
    {"content-type": "application/json; charset=latin-1"},
    {"content-encoding": "gzip"},
]


def test_other_media_types_are_refused(api: Api) -> None:
    for headers in OTHER_MEDIA:
        reply = api.call("POST", "/v1/notifications", body=email(), headers=headers)
        assert (reply.status, reply.code) == (415, "unsupported_media_type")


def test_json_in_utf_8_is_read(api: Api) -> None:
    for value in (
        "application/json",
        "Application/JSON; Charset=UTF-8",
        'application/json;charset="utf-8"',
    ):
        headers: dict[str, str | None] = {"Content-Type": value, "content-type": None}
        assert api.call("POST", "/v1/notifications", body=email(), headers=headers).status == 202


def test_a_body_over_4_mb_is_refused_whatever_is_in_it(api: Api) -> None:
    limit = 4 * 1024 * 1024
    text = json.dumps({"notifications": [email()]})
    padded = text + " " * (limit - len(text))
    path = "/v1/notifications/batches"
    assert api.call("POST", path, text=padded).status == 202
    for body in (padded + " ", "x" * (limit + 1), "é" * (limit // 2 + 1)):
        reply = api.call("POST", path, text=body)
        assert (reply.status, reply.code) == (413, "too_large")
    encoded = base64.b64encode(padded.encode()).decode()
    event = api.event("POST", path, text=encoded) | {"isBase64Encoded": True}
    assert api.send(event).status == 202


def test_a_query_is_refused_where_there_is_none(api: Api) -> None:
    for path in ("/v1/notifications", "/v1/notifications/batches", "/v1/suppressions"):
        reply = api.call("POST", path, body=email(), query="dry=1")
        assert (reply.status, reply.code) == (400, "unknown_parameter")
    assert api.get("/v1/health", "x").code == "unknown_parameter"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=8,
)
NAMES = [
    "channel",
    "recipient",
    "content",
    "priority",
    "category",
    "event_id",
    "reference",
    "send_at",
    "expires_at",
    "metadata",
    "recipient_id",
    "template",
    "channels",
    "fallback_after",
    "other",
]
REFERRING: dict[str, Any] = {
    "channels": ["email", "sms"],
    "recipient_id": "user-1",
    "template": {"name": "welcome", "data": {}},
}


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    base=st.sampled_from([email(), SMS, PUSH, WEBHOOK, REFERRING]),
    name=st.sampled_from(NAMES),
    value=JSON_VALUES,
)
def test_no_json_is_answered_with_an_error_of_ours(
    api: Api, base: dict[str, Any], name: str, value: Any
) -> None:
    item = base | {name: value}
    body = {"notifications": [item]}
    dry = api.call("POST", "/v1/batches/dry-run", body=body)
    for reply in (api.post(item), api.post_batch(item), dry):
        assert reply.status in (200, 202, 400, 422), reply
        if reply.status > 202:
            assert reply.code in ("validation_failed", "malformed_json")
