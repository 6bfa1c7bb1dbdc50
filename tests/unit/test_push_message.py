"""What a push says on each platform, and how it is made to fit (FAULTS H3)."""

import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.errors import Unreadable
from functions.core.stream import SenderIdentity
from functions.providers.push_message import (
    DEFAULT_TTL_SECONDS,
    MARK,
    MAX_PAYLOAD_BYTES,
    MAX_TITLE_BYTES,
    MAX_TTL_SECONDS,
    BadSetting,
    PayloadTooLarge,
    PushMessage,
    apns_payload,
    compact,
    cut,
    fcm_message,
    fitted,
    message_of,
)
from tests.submissions import NOTIFICATION_ID, submission

KEY = str(NOTIFICATION_ID)
FORMS: list[Callable[[PushMessage], Any]] = [apns_payload, fcm_message]
forms = pytest.mark.parametrize("form", FORMS)


def message(content: Any = "Hello", **settings: Any) -> PushMessage:
    remaining = settings.pop("remaining_seconds", None)
    push = submission(channel="push", recipient="token-1", content=content)
    sender = SenderIdentity(settings=settings)
    return message_of(dataclasses.replace(push, sender=sender, remaining_seconds=remaining))


def body_of(payload: str) -> str:
    """Return the body that a platform payload shows."""
    value = json.loads(payload)
    shown = value["notification"] if "notification" in value else value["aps"]["alert"]
    return shown["body"]


def test_fcm_has_the_text_the_data_as_texts_and_a_time_to_live_everywhere() -> None:
    data = {"order": 7, "tags": ["a", "é"], "link": "app://orders/7", "gone": None}
    push = message({"title": "T", "body": "B", "data": data}, ttl_seconds=600)
    form = fcm_message(push)
    assert form["notification"] == {"title": "T", "body": "B"}
    assert form["data"] == {
        "order": "7",
        "tags": '["a","é"]',
        "link": "app://orders/7",
        "gone": "null",
    }
    assert form["android"]["ttl"] == "600s"
    assert form["webpush"]["headers"] == {"TTL": "600"}
    expiry = int(form["apns"]["headers"]["apns-expiration"])
    assert 0 <= expiry - push.expires_at_epoch <= 0
    assert abs(expiry - (time.time() + 600)) < 60


def test_a_duplicate_replaces_the_first_one_on_every_platform() -> None:
    form = fcm_message(message())
    assert form["android"]["collapse_key"] == KEY
    assert form["android"]["notification"]["tag"] == KEY
    assert form["webpush"]["notification"]["tag"] == KEY
    assert form["apns"]["headers"]["apns-collapse-id"] == KEY
    assert len(KEY) <= 64, "Apple's limit"


def test_a_stream_may_do_without_android_s_few_collapse_keys() -> None:
    form = fcm_message(message({"data": {"a": "b"}}, collapse=False))
    assert "collapse_key" not in form["android"]
    assert form["apns"]["headers"]["apns-collapse-id"] == KEY


def test_what_has_nothing_to_show_is_silent() -> None:
    form = fcm_message(message({"data": {"a": "b"}}))
    assert "notification" not in form
    assert "notification" not in form["android"]
    assert form["apns"]["headers"]["apns-priority"] == "5"
    assert form["apns"]["payload"] == {"aps": {"content-available": 1}}
    assert apns_payload(message({"data": {"a": {"b": 1}}})) == {
        "aps": {"content-available": 1},
        "a": {"b": 1},
    }


def test_apple_s_devices_get_the_data_beside_aps() -> None:
    assert apns_payload(message({"title": "T", "body": "B", "data": {"order": 7}})) == {
        "aps": {"alert": {"title": "T", "body": "B"}, "sound": "default"},
        "order": 7,
    }
    with pytest.raises(Unreadable):
        apns_payload(message({"body": "B", "data": {"aps": {"badge": 1}}}))


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, DEFAULT_TTL_SECONDS),
        ({"ttl_seconds": 60}, 60),
        ({"ttl_seconds": 10**9}, MAX_TTL_SECONDS),
        ({"remaining_seconds": 90.9}, 90),
        ({"remaining_seconds": 90.9, "ttl_seconds": 60}, 90),
        ({"remaining_seconds": 0.4}, 1),
        ({"remaining_seconds": -3.0}, 1),
        ({"remaining_seconds": 1e9}, MAX_TTL_SECONDS),
    ],
)
def test_the_time_to_live_is_what_is_left_or_what_the_stream_says(
    settings: dict[str, Any], seconds: int
) -> None:
    assert message(**settings).ttl_seconds == seconds


@pytest.mark.parametrize("seconds", ["60", 0, -1, 1.5, True, None])
def test_a_time_to_live_that_cannot_be_is_a_setting_s_fault(seconds: Any) -> None:
    with pytest.raises(BadSetting, match="ttl_seconds"):
        message(ttl_seconds=seconds)


def test_collapse_is_true_or_false() -> None:
    with pytest.raises(BadSetting, match="collapse"):
        message(collapse="no")


def test_the_content_of_another_channel_is_unreadable() -> None:
    with pytest.raises(Unreadable):
        message_of(submission(content="an email"))


@forms
@pytest.mark.parametrize(("character", "number"), [("é", 3000), ("😀", 1500), ('"', 4000)])
def test_h3_a_text_that_is_too_long_is_cut_between_two_characters_and_marked(
    form: Callable[[PushMessage], Any], character: str, number: int
) -> None:
    payload = fitted(message(character * number), form)
    size = len(payload.encode())
    assert MAX_PAYLOAD_BYTES - len(compact(character).encode()) < size <= MAX_PAYLOAD_BYTES
    body = body_of(payload)
    assert body.endswith(MARK)
    assert set(body.removesuffix(MARK)) == {character}


@forms
def test_h3_the_last_text_that_fits_is_sent_whole(form: Callable[[PushMessage], Any]) -> None:
    room = MAX_PAYLOAD_BYTES - len(compact(form(message("x"))).encode()) + 1
    whole = fitted(message("é" * (room // 2) + "x" * (room % 2)), form)
    assert len(whole.encode()) == MAX_PAYLOAD_BYTES
    assert MARK not in whole
    assert MARK in fitted(message("é" * (room // 2) + "x" * (room % 2 + 1)), form)


@forms
def test_h3_data_is_counted_and_never_cut(form: Callable[[PushMessage], Any]) -> None:
    data = {"a": "é" * 1000}
    payload = fitted(message({"body": "B" * 3000, "data": data}), form)
    assert len(payload.encode()) <= MAX_PAYLOAD_BYTES
    assert "é" * 1000 in payload
    assert body_of(payload).endswith(f"B{MARK}")


@forms
@pytest.mark.parametrize("text", [{}, {"body": "B"}, {"title": "T"}, {"title": "T", "body": "B"}])
def test_h3_data_that_is_too_large_by_itself_is_refused(
    form: Callable[[PushMessage], Any], text: dict[str, str]
) -> None:
    with pytest.raises(PayloadTooLarge):
        fitted(message({**text, "data": {"a": "x" * MAX_PAYLOAD_BYTES}}), form)


@forms
def test_h3_a_title_keeps_its_beginning_and_the_body_the_rest(
    form: Callable[[PushMessage], Any],
) -> None:
    value = json.loads(fitted(message({"title": "t" * 5000, "body": "b" * 5000}), form))
    shown = value["notification"] if "notification" in value else value["aps"]["alert"]
    assert shown["title"] == "t" * (MAX_TITLE_BYTES - len(MARK.encode())) + MARK
    assert len(shown["body"]) > 2500
    assert shown["body"].endswith(MARK)


@forms
def test_a_short_body_leaves_its_room_to_the_title(form: Callable[[PushMessage], Any]) -> None:
    value = json.loads(fitted(message({"title": "t" * 5000, "body": "short"}), form))
    shown = value["notification"] if "notification" in value else value["aps"]["alert"]
    assert shown["body"] == "short"
    assert len(shown["title"]) > 2500


def test_a_title_alone_has_all_the_room() -> None:
    payload = fitted(message({"title": "t" * 5000}), apns_payload)
    assert MAX_PAYLOAD_BYTES - 3 <= len(payload.encode()) <= MAX_PAYLOAD_BYTES


@pytest.mark.parametrize(
    ("text", "room", "left"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "ab…"),
        ("ab cdef", 6, "ab…"),  # no blank before the mark
        ("aéé", 4, "a…"),
        ("ae\u0301bcd", 6, "a…"),  # e with an accent of its own: 3 bytes
        ("a👍🏽bbbb", 10, "a…"),  # a thumb and its skin tone: 8 bytes
        ("a👩‍💻bbbb", 14, "a…"),  # a woman, a joiner and a computer: 11 bytes
        ("🇩🇪🇫🇷🇮🇹", 19, "🇩🇪🇫🇷…"),
        ("🇩🇪🇫🇷🇮🇹", 16, "🇩🇪…"),
        ("\n\n\n\n\n", 9, "…"),  # two bytes each in JSON
        ("abcdef", 3, "…"),
    ],
)
def test_h3_what_people_take_for_one_character_is_not_cut_in_two(
    text: str, room: int, left: str
) -> None:
    assert cut(text, room) == left


def test_a_character_that_never_ends_is_cut_all_the_same() -> None:
    endless = "a" + "\u0301" * 3000
    assert len(cut(endless, 2001).encode()) > 1900


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 60))
def test_h3_whatever_is_cut_has_room_and_is_how_the_text_begins(text: str, room: int) -> None:
    try:
        left = cut(text, room)
    except PayloadTooLarge:
        assert room < len(MARK.encode())
        return
    assert len(compact(left).encode()) - 2 <= room
    assert left == text or text.startswith(left.removesuffix(MARK))


words = st.text(st.sampled_from('aé😀"\\\n\u0301\u200d🇩🇪'), max_size=20).map(
    lambda word: word * 200
)


@given(words, words, st.dictionaries(st.text("ab", min_size=1), st.text("xé", max_size=900)))
def test_h3_every_message_fits_or_is_refused(title: str, body: str, data: dict[str, str]) -> None:
    if not (title or body or data):
        return
    for form in FORMS:
        push = message({"title": title, "body": body, "data": data})
        try:
            payload = fitted(push, form)
        except PayloadTooLarge:
            bare = dataclasses.replace(push, title=title and "", body=body and "")
            assert len(compact(form(bare)).encode()) + 6 > MAX_PAYLOAD_BYTES
        else:
            assert len(payload.encode()) <= MAX_PAYLOAD_BYTES
            json.loads(payload)
