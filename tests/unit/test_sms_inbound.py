"""What comes in by SMS: a STOP that is one, and everything that is none."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.errors import Unreadable
from functions.core.suppression import Fact, SuppressionReason
from functions.providers.sms_event import (
    OPT_IN_KEYWORDS,
    OPT_OUT_KEYWORDS,
    Inbound,
    opts_in,
    opts_out,
    parse,
    parse_inbound,
)

NUMBER, OURS = "+15550100123", "+15555550001"


def inbound(body: Any = "STOP", **changes: Any) -> Inbound | None:
    members = {
        "originationNumber": NUMBER,
        "destinationNumber": OURS,
        "messageKeyword": "KEYWORD_1",
        "messageBody": body,
        "inboundMessageId": "in-1",
        "previousPublishedMessageId": "sms-m1",
    }
    members |= changes
    return parse_inbound({name: value for name, value in members.items() if value is not None})


def test_what_comes_in_tells_who_says_stop_to_which_number_of_ours() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    raw = (
        b'{"originationNumber":"+15550100123","destinationNumber":"+15555550001",'
        b'"messageKeyword":"KEYWORD_1","messageBody":"STOP","inboundMessageId":"in-1",'
        b'"previousPublishedMessageId":"sms-m1"}'
    )
    message = parse_inbound(raw, at=at)
    assert message is not None
    assert message == Inbound(
        number=NUMBER,
        to=OURS,
        keyword="STOP",
        registered="KEYWORD_1",
        at=at,
        message_id="in-1",
        answers="sms-m1",
    )
    assert message.fact == Fact(
        reason=SuppressionReason.RECIPIENT_CHOICE,
        source="sms:inbound",
        evidence={
            "keyword": "STOP",
            "inbound_message_id": "in-1",
            "origination_number": OURS,
        },
    )
    assert NUMBER not in str(message.fact.evidence)


WRITTEN = [
    "{}", " {}\r\n", "{}.", "{}!", '"{}"', "\u201c{}\u201d", "\u200b{}\ufeff",
]  # fmt: skip


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("keyword", sorted(OPT_OUT_KEYWORDS))
def test_a_keyword_alone_opts_out_in_any_case(keyword: str, written: str) -> None:
    for spelled in (keyword, keyword.lower(), keyword.capitalize()):
        message = inbound(written.format(spelled))
        assert message is not None
        assert (opts_out(message), opts_in(message)) == (True, False)


@pytest.mark.parametrize("keyword", sorted(OPT_IN_KEYWORDS))
def test_a_keyword_alone_opts_in_again(keyword: str) -> None:
    for spelled in (keyword, f" {keyword.lower()} ", keyword.capitalize() + "."):
        message = inbound(spelled)
        assert message is not None
        assert (opts_out(message), opts_in(message)) == (False, True)


def test_the_service_s_own_keywords_are_all_there() -> None:
    assert set(OPT_OUT_KEYWORDS) >= {
        "ARRET", "CANCEL", "END", "OPT-OUT", "OPTOUT", "QUIT", "REMOVE", "STOP", "TD",
        "UNSUBSCRIBE",
    }  # fmt: skip
    assert not OPT_OUT_KEYWORDS & OPT_IN_KEYWORDS
    accented = inbound("Arrêt")
    assert accented is not None
    assert opts_out(accented)


@pytest.mark.parametrize(
    "text",
    [
        "Please don't stop!", "STOP IT", "nonstop", "STOPP", "bus stop", "The end", "END of story",
        "START NOW", "restart", "YES", "", "  ", ".", "s t o p", None, 7, ["STOP"], "STOP" * 50,
    ],
)  # fmt: skip
def test_any_other_message_is_no_keyword(text: Any) -> None:
    message = inbound(text)
    assert message is not None
    assert (opts_out(message), opts_in(message)) == (False, False)


def test_what_the_service_takes_for_a_stop_is_one_for_us() -> None:
    message = inbound("Stop it now", messageKeyword="STOP")
    assert message is not None
    assert opts_out(message)
    assert message.fact.evidence["keyword"] == "STOP IT NOW"
    message = inbound("I would like you to start again, please", messageKeyword="START")
    assert message is not None
    assert not opts_in(message)


def test_the_text_of_a_longer_message_is_not_kept() -> None:
    text = "My card number is 4111 1111 1111 1111, please help me"
    message = inbound(text)
    assert message is not None
    assert "4111" not in str(message)
    assert message.keyword == ""


@pytest.mark.parametrize("body", ["STOP\x00", "\ud83dSTOP", " stop\x00.\x00"])
def test_what_cannot_be_stored_keeps_no_keyword_from_being_one(body: str) -> None:
    message = inbound(body, carrier="\x00")
    assert message is not None
    assert opts_out(message)
    assert message.keyword == "STOP"


@pytest.mark.parametrize(
    "changes", [{"originationNumber": None}, {"inboundMessageId": None}, {"originationNumber": ""}]
)
def test_what_is_no_message_is_none(changes: dict[str, Any]) -> None:
    assert inbound(**changes) is None
    assert parse_inbound({"eventType": "TEXT_DELIVERED", "messageId": "sms-m1"}) is None


@pytest.mark.parametrize("body", [b"STOP", b"[]", b"\xff", b'{"originationNumber":7}'])
def test_what_cannot_be_read_is_unreadable(body: bytes) -> None:
    with pytest.raises(Unreadable):
        parse_inbound(body)


def test_an_event_is_no_message_and_a_message_is_no_event() -> None:
    with pytest.raises(Unreadable):
        parse({"originationNumber": NUMBER, "inboundMessageId": "in-1"}, hash_key=b"key")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)


@given(json_values, json_values)
def test_whatever_comes_in_is_read_or_unreadable(body: Any, keyword: Any) -> None:
    try:
        message = inbound(body, messageKeyword=keyword)
    except Unreadable:
        return
    assert message is not None
    assert len(message.keyword) <= 30
