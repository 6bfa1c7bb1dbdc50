"""The queue's message: ids only, read strictly, within what SQS takes."""

import json
import re
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.errors import Unreadable
from functions.core.message import MAX_LEASE_NUMBER, LeaseMessage
from functions.core.states import Channel

WRONG: list[dict[str, Any]] = [
    {"v": 2},
    {"v": "1"},
    {"v": None},
    {"id": "x"},
    {"id": 7},
    {"id": None},
    {"id": ["x"]},
    {"lease": 0},
    {"lease": -1},
    {"lease": 1.5},
    {"lease": "3"},
    {"lease": True},
    {"lease": MAX_LEASE_NUMBER + 1},
    {"lease": 10**30},
    {"channel": "fax"},
    {"channel": None},
    {"channel": {}},
]
ID = "01900000-0000-7000-8000-0000000000aa"
GOOD = {"v": 1, "id": ID, "lease": 3, "channel": "sms"}
messages = st.builds(
    LeaseMessage,
    id=st.uuids(),
    lease_number=st.integers(1, MAX_LEASE_NUMBER),
    channel=st.sampled_from(Channel),
)

BYTES_PER_ENTRY = 25 * 1024
"""A tenth of the smallest batch limit a queue may have (256 KiB)."""

ALLOWED_BY_SQS = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")


@given(messages)
def test_a_message_says_the_same_after_its_ride(message: LeaseMessage) -> None:
    assert LeaseMessage.loads(message.dumps()) == message


@given(messages)
def test_d1_ten_messages_are_far_below_the_limit_and_hold_no_forbidden_character(
    message: LeaseMessage,
) -> None:
    body = message.dumps()
    assert len(body.encode()) < BYTES_PER_ENTRY
    assert ALLOWED_BY_SQS.fullmatch(body)
    assert body.isascii()


def test_a_message_carries_ids_only() -> None:
    message = LeaseMessage(id=UUID(ID), lease_number=3, channel=Channel.SMS)
    assert json.loads(message.dumps()) == GOOD


@pytest.mark.parametrize(
    "body",
    [
        "",
        "not json",
        "{",
        "null",
        "7",
        "[]",
        '"a"',
        "NaN",
        "[" * 5000,
        "\ud800",
        *(json.dumps({name: GOOD[name] for name in GOOD if name != gone}) for gone in GOOD),
        *(json.dumps(GOOD | wrong) for wrong in WRONG),
    ],
)
def test_anything_else_is_unreadable(body: str) -> None:
    with pytest.raises(Unreadable):
        LeaseMessage.loads(body)


@pytest.mark.parametrize("body", [None, 7, b"\xff", ["a"]])
def test_a_body_that_is_no_text_is_unreadable(body: Any) -> None:
    with pytest.raises(Unreadable):
        LeaseMessage.loads(body)


@given(st.text(max_size=80) | st.recursive(st.none() | st.integers(), st.lists).map(json.dumps))
def test_no_text_raises_anything_but_unreadable(body: str) -> None:
    with pytest.raises(Unreadable):
        LeaseMessage.loads(body)
