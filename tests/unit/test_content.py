"""Content is read the same at the door and by a sender; what is wrong is named."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.content import (
    MAX_DEPTH,
    MAX_TEXT_CHARACTERS,
    MAX_WEBHOOK_BYTES,
    Content,
    EmailContent,
    PushContent,
    SmsContent,
    UnreadableContent,
    WebhookContent,
    is_too_deep,
    pointer_token,
    read_content,
)
from functions.core.errors import Unreadable
from functions.core.states import Channel

READ: list[tuple[str, Any, Content]] = [
    ("email", "Hi", EmailContent(subject="", text="Hi", html=None)),
    (
        "email",
        {"subject": "S", "text": "T", "html": "H"},
        EmailContent(subject="S", text="T", html="H"),
    ),
    ("email", {"html": "H", "text": None}, EmailContent(subject="", text=None, html="H")),
    ("sms", "x" * 1600, SmsContent(text="x" * 1600)),
    ("push", "Hi", PushContent(title=None, body="Hi", data={})),
    ("push", {"data": {"a": [1]}}, PushContent(title=None, body=None, data={"a": [1]})),
    ("push", {"title": "T", "body": None}, PushContent(title="T", body=None, data={})),
    ("webhook", None, WebhookContent(data=None)),
    ("webhook", {"a": [1, None]}, WebhookContent(data={"a": [1, None]})),
    ("webhook", "é" * 131_071, WebhookContent(data="é" * 131_071)),
]


@pytest.mark.parametrize(("channel", "value", "expected"), READ)
def test_content_of_its_channels_shape_is_read(channel: str, value: Any, expected: Content) -> None:
    assert read_content(channel, value) == expected


UNREADABLE: list[tuple[str, Any, list[tuple[str, str]]]] = [
    ("email", None, [("", "wrong_type")]),
    ("email", "", [("", "required")]),
    ("email", {}, [("", "required")]),
    ("email", {"subject": "S", "text": "", "html": ""}, [("", "required")]),
    (
        "email",
        {"subject": 1, "text": [], "cc": "x", "a/b": 0},
        [
            ("/cc", "unknown_field"),
            ("/a~1b", "unknown_field"),
            ("/subject", "wrong_type"),
            ("/text", "wrong_type"),
        ],
    ),
    *(
        ("email", {"text": "T", "subject": f"a{mark}Bcc: b"}, [("/subject", "not_allowed")])
        for mark in ("\n", "\r", "\r\n", "\u2028", "\x0b")
    ),
    ("email", {"text": "T", "subject": "a\n"}, [("/subject", "not_allowed")]),
    ("sms", "", [("", "required")]),
    ("sms", 1, [("", "wrong_type")]),
    ("sms", "x" * 1601, [("", "too_long")]),
    ("push", 1, [("", "wrong_type")]),
    ("push", "", [("", "required")]),
    ("push", {"title": "", "data": {}}, [("", "required")]),
    ("push", {"body": 1, "data": "x"}, [("/body", "wrong_type"), ("/data", "wrong_type")]),
    ("webhook", "x" * 262_143, [("", "too_long")]),
    ("webhook", "é" * 131_072, [("", "too_long")]),
    ("fax", "Hi", [("", "not_allowed")]),
]


@pytest.mark.parametrize(("channel", "value", "expected"), UNREADABLE)
def test_content_of_another_shape_is_named_fault_by_fault(
    channel: str, value: Any, expected: list[tuple[str, str]]
) -> None:
    with pytest.raises(UnreadableContent) as caught:
        read_content(channel, value)
    assert [(fault.pointer, fault.code) for fault in caught.value.faults] == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.sampled_from(list(Channel)), JSON)
def test_any_json_is_read_or_unreadable(channel: Channel, value: Any) -> None:
    with contextlib.suppress(Unreadable):
        read_content(channel, value)


def test_depth_is_counted_in_containers() -> None:
    for innermost in ([], [1], {"a": 1}):
        value: Any = innermost
        for _ in range(MAX_DEPTH - 1):
            value = [value]
        assert not is_too_deep(value)
        assert is_too_deep([value])
    assert not is_too_deep("x")


def test_a_member_name_is_escaped_as_a_pointer_wants_it() -> None:
    assert pointer_token("a/b~c") == "a~1b~0c"


@pytest.mark.parametrize(
    ("channel", "value"),
    [
        ("email", "x" * (MAX_TEXT_CHARACTERS + 1)),
        ("email", {"text": "x" * MAX_TEXT_CHARACTERS, "html": "y"}),
        ("push", "x" * (MAX_TEXT_CHARACTERS + 1)),
        ("push", {"body": "x", "data": {"k": "x" * MAX_WEBHOOK_BYTES}}),
    ],
)
def test_what_an_answer_could_not_show_is_too_long(channel: str, value: Any) -> None:
    with pytest.raises(UnreadableContent) as caught:
        read_content(channel, value)
    assert [fault.code for fault in caught.value.faults] == ["too_long"]


def test_a_very_long_member_name_is_named_by_its_beginning() -> None:
    with pytest.raises(UnreadableContent) as caught:
        read_content("email", {"text": "x", "~" * 4_000_000: 1})
    (fault,) = caught.value.faults
    assert fault.code == "unknown_field"
    assert len(fault.pointer) < 300
