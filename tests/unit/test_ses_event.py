"""What SES reports, event by event: its tables, whom an event is about, and what is no event."""

import copy
import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.errors import Unreadable
from functions.core.evidence import Rank, Receipt, StoredReceipt
from functions.core.recipient import recipient_hash
from functions.core.suppression import SuppressionReason
from functions.providers.ses_event import DECLARATION, parse, read_again
from functions.providers.ses_meaning import BOUNCES, COMPLAINTS, COMPLAINTS_OF_LISTS, EVENTS
from tests.ses_events import (
    ATTEMPT_ID,
    BOUNCE,
    DELAY,
    DELIVERY,
    EVENTBRIDGE,
    HASH_KEY,
    NOTIFICATION_ID,
    REJECT,
    RENDERING_FAILURE,
    SAMPLES,
    SEND,
    SUBSCRIPTION,
    bounce,
    complaint,
    event_of,
)

ADDRESS = "gone@rcpt.example"


def receipt_of(event: dict[str, Any] | bytes) -> Receipt:
    (receipt,) = parse(event, hash_key=HASH_KEY)
    return receipt


def hashed(address: str) -> bytes:
    return recipient_hash(HASH_KEY, "email", address)


# The tables


@pytest.mark.parametrize(
    ("kind", "sub_type", "rank", "reason", "suppress", "source", "refused"),
    [
        ("Permanent", "General", 4, "hard_bounce", "hard_bounce", "ses:event", False),
        ("Permanent", "NoEmail", 4, "hard_bounce", "hard_bounce", "ses:event", False),
        ("Permanent", "Suppressed", 4, "suppressed", "hard_bounce", "ses:global_list", True),
        (
            *("Permanent", "OnAccountSuppressionList", 4, "suppressed"),
            *("hard_bounce", "ses:account_list", True),
        ),
        (
            *("Permanent", "OnTenantSuppressionList", 4, "suppressed"),
            *("hard_bounce", "ses:tenant_list", True),
        ),
        (
            *("Permanent", "UnsubscribedRecipient", 4, "suppressed"),
            *("recipient_choice", "ses:contact_list", True),
        ),
        (
            *("Permanent", "EmailValidationSuppressed", 4, "suppressed"),
            *("invalid", "ses:validation", True),
        ),
        ("Transient", "General", 2, "soft_bounce", None, None, False),
        ("Transient", "MailboxFull", 2, "soft_bounce", None, None, False),
        ("Transient", "CustomTimeoutExceeded", 2, "soft_bounce", None, None, False),
        ("Transient", "MessageTooLarge", 2, "content", None, None, False),
        ("Transient", "ContentRejected", 2, "content", None, None, False),
        ("Transient", "AttachmentRejected", 2, "content", None, None, False),
        ("Undetermined", "Undetermined", 2, "undetermined", None, None, False),
    ],
)
def test_each_bounce_means_what_the_table_says(
    kind: str,
    sub_type: str,
    rank: int,
    reason: str,
    suppress: str | None,
    source: str | None,
    refused: bool,
) -> None:
    receipt = receipt_of(bounce(kind, sub_type))
    assert (receipt.rank, receipt.reason, receipt.refused) == (rank, reason, refused)
    assert receipt.permanent == (rank == Rank.HARD_FAILURE)
    assert receipt.address_at_fault == (suppress is not None)
    fact = receipt.fact
    assert (fact and fact.reason, fact and fact.source) == (suppress, source)
    assert not receipt.unforeseen
    assert not receipt.complaint
    assert receipt.type == f"Bounce {kind}/{sub_type}"


def test_every_bounce_of_the_table_was_looked_at() -> None:
    assert len(BOUNCES) == 14
    assert len(COMPLAINTS) + len(COMPLAINTS_OF_LISTS) == 9
    assert len(EVENTS) == 8


@pytest.mark.parametrize(
    ("kind", "sub_type"),
    [
        ("Permanent", "MoonPhase"),
        ("Lunar", "General"),
        ("", ""),
        ("Transient", ""),
        ("x" * 9999,) * 2,
    ],
)
def test_a_bounce_that_no_table_names_is_undetermined_suppresses_nothing_and_is_marked(
    kind: str, sub_type: str
) -> None:
    receipt = receipt_of(bounce(kind, sub_type))
    assert (receipt.rank, receipt.reason) == (Rank.SOFT_FAILURE, "undetermined")
    assert (receipt.unforeseen, receipt.permanent) == (True, False)
    assert (receipt.fact, receipt.address_at_fault) == (None, False)


def test_a_hard_bounce_suppresses_with_all_that_was_told_but_the_address() -> None:
    receipt = receipt_of(
        bounce(
            "Permanent",
            "NoEmail",
            status="5.1.1",
            diagnosticCode="smtp; 550 5.1.1 <gone@rcpt.example>: user unknown",
        )
    )
    assert receipt.fact is not None
    assert receipt.fact.evidence == {
        "feedbackId": "0100-f1",
        "messageId": "0100-m1",
        "subType": "NoEmail",
        "status": "5.1.1",
        "diagnosticCode": "smtp; 550 5.1.1 <<address>>: user unknown",
        "timestamp": "2026-01-02T03:04:07.000Z",
    }


@pytest.mark.parametrize("said", [None, "", "abuse", "fraud", "virus", "other"])
def test_a_complaint_proves_delivery_and_suppresses(said: str | None) -> None:
    receipt = receipt_of(complaint(said))
    assert (receipt.rank, receipt.complaint) == (Rank.DELIVERED, True)
    assert not receipt.permanent
    assert receipt.fact is not None
    assert (receipt.fact.reason, receipt.fact.source) == ("complaint", "ses:event")
    assert receipt.fact.evidence["feedbackId"] == "0100-f2"
    assert receipt.fact.evidence["arrivalDate"] == "2026-01-02T23:59:00.000Z"
    assert receipt.fact.evidence["userAgent"] == "Example FBL 1"
    assert receipt.fact.evidence.get("complaintFeedbackType") == (said or None)
    assert not receipt.unforeseen


@pytest.mark.parametrize("said", ["not-spam", "auth-failure"])
def test_who_says_that_it_is_no_spam_is_not_suppressed(said: str) -> None:
    receipt = receipt_of(complaint(said))
    assert (receipt.rank, receipt.complaint, receipt.fact) == (Rank.NONE, False, None)
    assert not receipt.unforeseen


def test_an_unknown_type_of_complaint_is_one_and_is_marked() -> None:
    receipt = receipt_of(complaint("moon-phase"))
    assert (receipt.complaint, receipt.unforeseen) == (True, True)


@pytest.mark.parametrize(
    ("sub_type", "source"),
    [
        ("OnAccountSuppressionList", "ses:account_list"),
        ("OnTenantSuppressionList", "ses:tenant_list"),
    ],
)
def test_a_complaint_because_of_a_list_was_never_sent(sub_type: str, source: str) -> None:
    receipt = receipt_of(complaint(None, complaintSubType=sub_type))
    assert (receipt.rank, receipt.refused) == (Rank.HARD_FAILURE, True)
    assert not receipt.complaint
    assert receipt.fact is not None
    assert (receipt.fact.reason, receipt.fact.source) == (SuppressionReason.COMPLAINT, source)


def test_an_unknown_subtype_of_complaint_is_undetermined_and_is_marked() -> None:
    receipt = receipt_of(complaint("abuse", complaintSubType="MoonPhase"))
    assert (receipt.rank, receipt.complaint, receipt.fact) == (Rank.SOFT_FAILURE, False, None)
    assert receipt.unforeseen


@pytest.mark.parametrize(
    ("event", "rank", "reason"),
    [
        (SEND, Rank.ACCEPTED, None),
        (DELIVERY, Rank.DELIVERED, None),
        (DELAY, Rank.ACCEPTED, None),
        (REJECT, Rank.HARD_FAILURE, "rejected"),
        (RENDERING_FAILURE, Rank.HARD_FAILURE, "template"),
        (SUBSCRIPTION, Rank.NONE, None),
        (event_of("Open", open={"timestamp": "2026-01-02T04:00:00.000Z"}), Rank.NONE, None),
        (event_of("Click", click={"link": "https://example.com"}), Rank.NONE, None),
    ],
)
def test_each_other_event_means_what_the_table_says(
    event: dict[str, Any], rank: Rank, reason: str | None
) -> None:
    receipt = receipt_of(event)
    assert (receipt.rank, receipt.reason) == (rank, reason)
    assert receipt.permanent == (rank == Rank.HARD_FAILURE)
    assert (receipt.fact, receipt.address_at_fault, receipt.unforeseen) == (None, False, False)


def test_an_unknown_event_is_a_note_and_is_marked() -> None:
    receipt = receipt_of(event_of("Moon Phase", moon={"phase": "waning"}))
    assert (receipt.type, receipt.rank, receipt.unforeseen) == ("Moon Phase", Rank.NONE, True)


def test_an_unknown_delay_is_a_delay_and_is_marked() -> None:
    delay = {**DELAY, "deliveryDelay": {**DELAY["deliveryDelay"], "delayType": "MoonPhase"}}
    receipt = receipt_of(delay)
    assert (receipt.rank, receipt.unforeseen) == (Rank.ACCEPTED, True)


# FAULTS F5


@pytest.mark.parametrize("status", ["5.3.0", "5.7.1", "5.1.1"])
def test_f5_a_general_bounce_with_a_permanent_reply_is_hard_and_suppresses_nothing(
    status: str,
) -> None:
    receipt = receipt_of(
        bounce("Transient", "General", status=status, diagnosticCode="smtp; 550 denied")
    )
    assert (receipt.rank, receipt.permanent) == (Rank.HARD_FAILURE, True)
    assert (receipt.reason, receipt.fact) == ("denied_by_receiver", None)


@pytest.mark.parametrize(
    ("sub_type", "status"),
    [("General", "4.4.7"), ("General", ""), ("MailboxFull", "5.2.2"), ("MessageTooLarge", "5.3.4")],
)
def test_f5_any_other_transient_bounce_stays_soft(sub_type: str, status: str) -> None:
    receipt = receipt_of(bounce("Transient", sub_type, status=status))
    assert (receipt.rank, receipt.permanent, receipt.fact) == (Rank.SOFT_FAILURE, False, None)


# Whom it is about (FAULTS E6), and which attempt


@pytest.mark.parametrize(("sample", "address"), SAMPLES)
def test_each_sample_names_its_recipient_and_its_message(
    sample: dict[str, Any], address: str
) -> None:
    receipt = receipt_of(sample)
    assert receipt.provider == DECLARATION.name == "ses"
    assert receipt.reference == sample["mail"]["messageId"]
    assert receipt.recipient_hash == hashed(address)
    assert receipt.occurred_at is not None
    assert receipt.attempt_id is None  # the samples' tags are none of ours
    assert not receipt.unforeseen
    assert json.loads(receipt.raw) == sample


def test_the_tags_name_the_attempt_and_a_key_of_ours() -> None:
    receipt = receipt_of(event_of("Send", send={}))
    assert receipt.attempt_id == ATTEMPT_ID
    assert receipt.idempotency_key == f"{NOTIFICATION_ID}.{ATTEMPT_ID}"


@pytest.mark.parametrize(
    "tags",
    [None, {}, {"attempt_id": []}, {"attempt_id": [7]}, {"attempt_id": "x"}, [], "attempt_id"],
)
def test_strange_tags_name_nothing(tags: Any) -> None:
    event = event_of("Send", send={})
    event["mail"]["tags"] = tags
    receipt = receipt_of(event)
    assert (receipt.attempt_id, receipt.idempotency_key) == (None, None)
    assert receipt.reference == "0100-m1"


def test_e6_bounces_are_about_the_bounced_and_deliveries_about_the_delivered() -> None:
    archived = bounce("Permanent", "NoEmail", address="archive@example.com")
    assert receipt_of(archived).recipient_hash == hashed("archive@example.com")
    delivered = {**DELIVERY, "delivery": {**DELIVERY["delivery"], "recipients": ["bcc@b.example"]}}
    assert receipt_of(delivered).recipient_hash == hashed("bcc@b.example")


@pytest.mark.parametrize("listed", [[], None, "gone@rcpt.example", [{}], [None], [{"status": "5"}]])
def test_e6_an_event_that_names_nobody_proves_nothing(listed: Any) -> None:
    event = bounce("Permanent", "NoEmail")
    event["bounce"]["bouncedRecipients"] = listed
    receipt = receipt_of(event)
    assert (receipt.rank, receipt.recipient_hash, receipt.fact) == (Rank.NONE, None, None)
    assert (receipt.permanent, receipt.address_at_fault) == (False, False)
    assert receipt.event_key == "0100-f1"


@pytest.mark.parametrize(
    "address",
    ["GONE@RCPT.EXAMPLE", "Gone@rcpt.example", "Gone Away <gone@rcpt.example>", f"<{ADDRESS}>"],
)
def test_e6_an_address_counts_in_whatever_spelling(address: str) -> None:
    assert receipt_of(bounce("Permanent", "NoEmail", address=address)).recipient_hash == hashed(
        ADDRESS
    )


def test_e6_an_event_about_several_is_a_receipt_for_each() -> None:
    event = bounce("Permanent", "General")
    event["bounce"]["bouncedRecipients"] += [{"emailAddress": "archive@example.com"}] * 2
    receipts = parse(event, hash_key=HASH_KEY)
    assert {receipt.recipient_hash for receipt in receipts} == {
        hashed(ADDRESS),
        hashed("archive@example.com"),
    }
    assert len({receipt.event_key for receipt in receipts}) == len(receipts) == 2
    assert all("@" not in receipt.event_key for receipt in receipts)


# Its key and its time


def test_feedback_is_known_by_its_id_however_it_is_told() -> None:
    as_notification = bounce("Permanent", "NoEmail")
    as_notification["notificationType"] = as_notification.pop("eventType")
    told, told_again = receipt_of(BOUNCE), receipt_of(as_notification)
    assert told.event_key == told_again.event_key == "0100-f1"
    assert told.rank == told_again.rank


def test_another_event_is_known_by_message_type_time_and_recipient() -> None:
    keys = {receipt_of(sample).event_key for sample, _ in SAMPLES}
    assert len(keys) == len(SAMPLES)
    other = {**DELIVERY, "delivery": {**DELIVERY["delivery"], "recipients": ["b@rcpt.example"]}}
    assert receipt_of(other).event_key != receipt_of(DELIVERY).event_key
    assert receipt_of(DELIVERY).event_key.startswith("0100-m3:Delivery:2026-01-02T03:04:06.500Z:")


def test_an_event_occurred_when_its_object_says_or_else_its_mail() -> None:
    assert receipt_of(BOUNCE).occurred_at == datetime(2026, 1, 2, 3, 4, 7, tzinfo=UTC)
    assert receipt_of(SEND).occurred_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("timestamp", [None, 7, "", "yesterday", "2026-01-02T03:04:05", []])
def test_a_time_that_cannot_be_read_is_none(timestamp: Any) -> None:
    event = event_of("Send", send={})
    event["mail"]["timestamp"] = timestamp
    assert receipt_of(event).occurred_at is None


def test_an_event_of_eventbridge_is_the_event_in_it() -> None:
    receipt = receipt_of(EVENTBRIDGE)
    assert (receipt.event_key, receipt.rank) == ("0100-f1", Rank.HARD_FAILURE)
    assert json.loads(receipt.raw) == EVENTBRIDGE


# What is none


def test_the_greeting_of_a_topic_is_no_event_and_nothing_wrong() -> None:
    validated = b"Successfully validated SNS topic for Amazon SES event publishing."
    assert parse(validated, hash_key=HASH_KEY) == []
    connected = {"notificationType": "AmazonSnsSubscriptionSucceeded", "message": "You have."}
    assert parse(connected, hash_key=HASH_KEY) == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        b"\xff",
        b"[]",
        b"null",
        b"7",
        b"{}",
        b'{"eventType":"Send"}',
        b'{"eventType":"Send","mail":{}}',
        b'{"eventType":"Send","mail":[]}',
        b'{"eventType":7,"mail":{"messageId":"m"}}',
        b'{"mail":{"messageId":"m"}}',
        b'{"eventType":"Send","eventType":"Bounce","mail":{"messageId":"m"}}',
        b"[" * 100_000,
        {"eventType": "Send", "mail": {"messageId": "m"}, "x": object()},
    ],
)
def test_what_is_no_event_is_unreadable(body: Any) -> None:
    with pytest.raises(Unreadable):
        parse(body, hash_key=HASH_KEY)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)


TEXTS = st.text(max_size=20)
JSON = st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, nested, max_leaves=8)
OUTER = ("mail", "bounce", "complaint", "delivery", "deliveryDelay", "eventType")
INNER = (
    *("messageId", "tags", "timestamp", "destination", "feedbackId"),
    *("recipients", "bouncedRecipients", "bounceType", "delayType"),
)


@given(
    sample=st.sampled_from([sample for sample, _ in SAMPLES]),
    outer=st.sampled_from(OUTER),
    inner=st.sampled_from(INNER) | TEXTS,
    value=JSON,
)
def test_whatever_a_member_holds_it_is_read_or_unreadable(
    sample: dict[str, Any], outer: str, inner: str, value: Any
) -> None:
    event: dict[str, Any] = copy.deepcopy(sample)
    if isinstance(event.get(outer), dict):
        event[outer][inner] = value
    else:
        event[outer] = value
    try:
        receipts = parse(event, hash_key=HASH_KEY)
    except Unreadable:
        return
    for receipt in receipts:
        said = (receipt.event_key, receipt.type, receipt.reason, receipt.reference, receipt.fact)
        text = json.dumps(said, default=str, ensure_ascii=False)
        assert "\\u0000" not in text
        assert text.encode()  # no half of a surrogate pair


def test_what_cannot_be_stored_is_left_out_and_the_bounce_still_counts() -> None:
    event = bounce("Permanent", "NoEmail", diagnosticCode="smtp; 550 \x00\ud800 unknown")
    receipt = receipt_of(event)
    assert receipt.fact is not None
    assert receipt.fact.evidence["diagnosticCode"] == "smtp; 550 \ufffd\ufffd unknown"


# Read again


def test_a_kept_event_reads_as_it_did() -> None:
    event = bounce("Permanent", "General")
    event["bounce"]["bouncedRecipients"] += [{"emailAddress": "archive@example.com"}]
    for receipt in (*parse(event, hash_key=HASH_KEY), receipt_of(DELIVERY)):
        stored = StoredReceipt(
            id=uuid4(),
            provider="ses",
            event_key=receipt.event_key,
            raw=receipt.raw,
            received_at=datetime.now(UTC),
            channel="email",
        )
        assert read_again(stored, hash_key=HASH_KEY) == receipt


@pytest.mark.parametrize("raw", [b"", b"hello", json.dumps(SEND).encode()])
def test_what_cannot_be_read_again_stays_as_it_is(raw: bytes) -> None:
    stored = StoredReceipt(
        id=UUID(int=0),
        provider="ses",
        event_key="another",
        raw=raw,
        received_at=datetime.now(UTC),
        channel=None,
    )
    assert read_again(stored, hash_key=HASH_KEY) is None
