"""What the SMS service tells of a message: each type of event, and whom it names."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.errors import Unreadable
from functions.core.evidence import Rank, Receipt, StoredReceipt, named_by
from functions.core.recipient import recipient_hash
from functions.core.suppression import Fact, SuppressionReason
from functions.providers.sms import SERVICE
from functions.providers.sms_event import MEANINGS, parse, read_again
from tests.submissions import ATTEMPT_ID, NOTIFICATION_ID, ORGANIZATION_ID

KEY = b"a key that is only good for tests"
NUMBER, OURS = "+15550100123", "+15555550001"
ACCEPTED, SOFT = Rank.ACCEPTED, Rank.SOFT_FAILURE
DELIVERED, HARD = Rank.DELIVERED, Rank.HARD_FAILURE


def event(event_type: str = "TEXT_DELIVERED", **changes: Any) -> dict[str, Any]:
    """Return an event as it is published; members of ``changes`` that are None are left out."""
    members: dict[str, Any] = {
        "eventType": event_type,
        "eventVersion": "1.0",
        "eventTimestamp": 1_767_323_047_123,
        "isFinal": True,
        "originationPhoneNumber": OURS,
        "destinationPhoneNumber": NUMBER,
        "isoCountryCode": "US",
        "messageId": "sms-m1",
        "messageRequestTimestamp": 1_767_323_045_000,
        "messageEncoding": "GSM",
        "messageType": "TRANSACTIONAL",
        "messageStatus": event_type.removeprefix("TEXT_"),
        "messageStatusDescription": "Message has been accepted by phone",
        "context": {
            "attempt_id": str(ATTEMPT_ID),
            "notification_id": str(NOTIFICATION_ID),
            "organization_id": str(ORGANIZATION_ID),
        },
        "totalMessageParts": 1,
        "totalMessagePrice": 0.00645,
        "totalCarrierFee": 0.003,
    }
    members |= changes
    return {name: value for name, value in members.items() if value is not None}


def parsed(what: Any) -> Receipt:
    (receipt,) = parse(what, hash_key=KEY)
    return receipt


def test_an_event_names_the_attempt_the_message_and_the_number() -> None:
    raw = json.dumps(event()).encode()
    receipt = parsed(raw)
    assert receipt == Receipt(
        provider="sms",
        event_key="sms-m1:TEXT_DELIVERED:1767323047123",
        type="TEXT_DELIVERED",
        rank=Rank.DELIVERED,
        occurred_at=datetime(2026, 1, 2, 3, 4, 7, 123000, tzinfo=UTC),
        idempotency_key=f"{NOTIFICATION_ID}.{ATTEMPT_ID}",
        attempt_id=ATTEMPT_ID,
        reference="sms-m1",
        recipient_hash=recipient_hash(KEY, "sms", NUMBER),
        raw=raw,
    )
    assert named_by(receipt.idempotency_key) == (NOTIFICATION_ID, ATTEMPT_ID)


# PROVIDERS §2.3, row by row: what a final one proves.
FINAL = [
    ("TEXT_QUEUED", ACCEPTED, None),
    ("TEXT_PENDING", ACCEPTED, None),
    ("TEXT_SENT", Rank.NONE, None),
    ("TEXT_SUCCESSFUL", DELIVERED, None),
    ("TEXT_DELIVERED", DELIVERED, None),
    ("TEXT_INVALID", HARD, "invalid_number"),
    ("TEXT_INVALID_MESSAGE", HARD, "invalid_message"),
    ("TEXT_UNREACHABLE", SOFT, "unreachable"),
    ("TEXT_CARRIER_UNREACHABLE", SOFT, "carrier_unreachable"),
    ("TEXT_BLOCKED", HARD, "blocked"),
    ("TEXT_CARRIER_BLOCKED", HARD, "carrier_blocked"),
    ("TEXT_SPAM", HARD, "spam"),
    ("TEXT_TTL_EXPIRED", SOFT, "lifetime_over"),
    ("TEXT_PROTECT_BLOCKED", HARD, "protect_configuration"),
    ("TEXT_UNKNOWN", SOFT, "unknown"),
]


@pytest.mark.parametrize(("event_type", "rank", "reason"), FINAL)
def test_a_final_event_proves_what_its_type_says(
    event_type: str, rank: Rank, reason: str | None
) -> None:
    receipt = parsed(event(event_type))
    assert (receipt.rank, receipt.reason, receipt.unforeseen) == (rank, reason, False)
    assert receipt.permanent == (rank == HARD)
    assert not receipt.complaint
    assert not receipt.refused


@pytest.mark.parametrize(("event_type", "rank", "reason"), FINAL)
def test_one_that_is_not_final_proves_no_more_than_acceptance(
    event_type: str, rank: Rank, reason: str | None
) -> None:
    receipt = parsed(event(event_type, isFinal=False))
    assert receipt.rank == min(rank, ACCEPTED)
    assert (receipt.permanent, receipt.address_at_fault, receipt.fact) == (False, False, None)


@pytest.mark.parametrize("said", [None, "true", 1])
def test_a_type_that_does_not_say_is_final_but_for_the_carrier_s_acceptance(said: Any) -> None:
    assert parsed(event("TEXT_SUCCESSFUL", isFinal=said)).rank == ACCEPTED
    assert parsed(event("TEXT_DELIVERED", isFinal=said)).rank == DELIVERED
    assert parsed(event("TEXT_INVALID", isFinal=said)).rank == HARD


def test_every_type_of_a_text_that_the_service_has_is_in_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    session: Any = boto3.session.Session()
    known: list[str] = session.client(SERVICE).meta.service_model.shape_for("EventType").enum
    assert {name for name in known if name.startswith("TEXT_")} - {"TEXT_ALL"} == set(MEANINGS)
    assert {event_type for event_type, _, _ in FINAL} == set(MEANINGS)


@pytest.mark.parametrize(
    "event_type", ["TEXT_OF_NEXT_YEAR", "MEDIA_DELIVERED", "VOICE_FAILED", "text_delivered"]
)
def test_an_invented_type_is_a_note_and_marked(event_type: str) -> None:
    receipt = parsed(event(event_type, messageStatusDescription="Phone number is opted out"))
    assert (receipt.rank, receipt.unforeseen) == (Rank.NONE, True)
    assert (receipt.type, receipt.fact, receipt.refused) == (event_type, None, False)


def test_an_invalid_number_is_suppressed_with_its_provenance() -> None:
    receipt = parsed(event("TEXT_INVALID"))
    assert receipt.address_at_fault
    assert receipt.fact == Fact(
        reason=SuppressionReason.INVALID,
        source="sms:event",
        evidence={
            "event_type": "TEXT_INVALID",
            "message_id": "sms-m1",
            "occurred_at": "1767323047123",
        },
    )


@pytest.mark.parametrize(
    "event_type",
    [name for name, rank, _ in FINAL if rank in (SOFT, HARD) and name != "TEXT_INVALID"],
)
def test_no_other_failure_suppresses_anybody(event_type: str) -> None:
    receipt = parsed(event(event_type, messageStatusDescription="Phone has blocked SMS"))
    assert (receipt.fact, receipt.address_at_fault, receipt.refused) == (None, False, False)


@pytest.mark.parametrize("event_type", ["TEXT_BLOCKED", "TEXT_CARRIER_BLOCKED", "TEXT_UNREACHABLE"])
@pytest.mark.parametrize(
    "said",
    [
        {"messageStatusDescription": "Phone number is opted out"},
        {"messageStatusDescription": "PHONE NUMBER IS OPTED OUT."},
        {"messageStatus": "OPTED_OUT"},
        {"messageStatus": "DESTINATION_PHONE_NUMBER_OPTED_OUT"},
    ],
)
def test_h2_the_opted_out_code_in_an_event_is_the_provider_s_own_refusal(
    event_type: str, said: dict[str, str]
) -> None:
    receipt = parsed(event(event_type, **said))
    assert (receipt.rank, receipt.refused, receipt.permanent) == (HARD, True, True)
    assert (receipt.reason, receipt.address_at_fault) == ("opted_out", True)
    assert receipt.fact is not None
    assert (receipt.fact.reason, receipt.fact.source) == (
        SuppressionReason.RECIPIENT_CHOICE,
        "sms:event",
    )


def test_what_was_delivered_was_not_refused_whatever_its_description_says() -> None:
    receipt = parsed(event("TEXT_DELIVERED", messageStatusDescription="not opted out"))
    assert (receipt.rank, receipt.fact) == (DELIVERED, None)


@pytest.mark.parametrize("number", [NUMBER, "+44 7911 123456", "+447911123456"])
def test_the_number_is_hashed_as_the_door_would(number: str) -> None:
    expected = recipient_hash(KEY, "sms", number.replace(" ", ""))
    assert parsed(event(destinationPhoneNumber=number)).recipient_hash == expected


def test_an_event_that_names_nobody_names_nobody_and_nonsense_is_nobody_of_ours() -> None:
    assert parsed(event(destinationPhoneNumber=None)).recipient_hash is None
    assert parsed(event(destinationPhoneNumber="")).recipient_hash is None
    somebody = parsed(event(destinationPhoneNumber="VAJZNBLLDX")).recipient_hash
    assert somebody is not None
    assert somebody != recipient_hash(KEY, "sms", "VAJZNBLLDX")


@pytest.mark.parametrize(
    ("context", "key", "attempt_id"),
    [
        (None, None, None),
        ({}, None, None),
        ("attempt", None, None),
        ({"attempt_id": "att_11", "tenant_id": "t1"}, None, None),
        ({"attempt_id": str(ATTEMPT_ID)}, None, ATTEMPT_ID),
        ({"notification_id": str(NOTIFICATION_ID)}, str(NOTIFICATION_ID), None),
        ({"notification_id": 7, "attempt_id": [str(ATTEMPT_ID)]}, None, None),
    ],
)
def test_a_context_that_is_not_ours_leaves_the_message_s_id(
    context: Any, key: str | None, attempt_id: Any
) -> None:
    receipt = parsed(event(context=context))
    assert (receipt.idempotency_key, receipt.attempt_id) == (key, attempt_id)
    assert receipt.reference == "sms-m1"


def test_an_event_of_event_bridge_is_read_as_well() -> None:
    detail = event("TEXT_SUCCESSFUL", destinationPhoneNumber=None)
    bridged: dict[str, Any] = {
        "version": "0",
        "id": "15226fe5-c283-a862-e5e5-0a29ad450fd9",
        "detail-type": "Text Message Delivery Status Updated",
        "source": "aws.sms-voice",
        "account": "111122223333",
        "time": "2026-01-02T03:04:07Z",
        "region": "eu-west-1",
        "resources": [],
        "detail": detail,
    }
    raw = json.dumps(bridged).encode()
    receipt = parsed(raw)
    assert (receipt.type, receipt.rank, receipt.raw) == ("TEXT_SUCCESSFUL", DELIVERED, raw)
    assert receipt.event_key == parsed(detail).event_key


@pytest.mark.parametrize("time", [None, "soon", 1e300, 10**30, -(10**30), True, [], 1.5])
def test_a_time_that_is_none_does_not_spoil_the_evidence(time: Any) -> None:
    receipt = parsed(event(eventTimestamp=time))
    assert (receipt.rank, receipt.occurred_at) == (DELIVERED, None)
    assert len(receipt.event_key) < 600


def test_events_that_differ_in_message_type_or_time_are_several() -> None:
    keys = [
        parsed(one).event_key
        for one in (
            event(),
            event(messageId="sms-m2"),
            event("TEXT_SUCCESSFUL"),
            event(eventTimestamp=1_767_323_047_124),
        )
    ]
    assert len(set(keys)) == 4
    assert parsed(event(isFinal=False)).event_key == keys[0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"STOP",
        b"[]",
        b"null",
        b'"TEXT_DELIVERED"',
        b"{}",
        b'{"eventType":"TEXT_DELIVERED"}',
        b'{"messageId":"sms-m1"}',
        b'{"eventType":7,"messageId":"sms-m1"}',
        b'{"eventType":"TEXT_DELIVERED","messageId":{"a":1}}',
        b'{"eventType":"TEXT_DELIVERED","eventType":"TEXT_INVALID","messageId":"sms-m1"}',
        b'{"eventType":"TEXT_DELIVERED","messageId":"sms\\u0000m1"}',
        b'{"eventType":"TEXT_DELIVERED","messageId":"\\ud83d"}',
        b'{"eventType":"TEXT_DELIVERED","messageId":"' + b"x" * 513 + b'"}',
        b'{"eventType":"TEXT_DELIVERED","messageId":"m","destinationPhoneNumber":7}',
        b'{"eventType":"TEXT_DELIVERED","messageId":"m","totalMessagePrice":NaN}',
        b"\xff\xfe",
        b"[" * 1000,
    ],
)
def test_garbage_is_unreadable_and_nothing_worse(body: bytes) -> None:
    with pytest.raises(Unreadable):
        parse(body, hash_key=KEY)


@pytest.mark.parametrize("odd", ["A\x00B", "\ud83d", {"\x00": "\udfff"}, float("1e308") * 10])
def test_what_cannot_be_stored_spoils_nothing_where_nobody_looks(odd: Any) -> None:
    told = {
        "carrierName": odd,
        "messageStatusDescription": odd,
        "eventTimestamp": 1_767_323_047_123,
    }
    body = json.dumps(event("TEXT_INVALID", **told)).replace("Infinity", "1e999").encode()
    receipt = parsed(body)
    assert (receipt.rank, receipt.permanent) == (Rank.HARD_FAILURE, True)
    assert (receipt.address_at_fault, receipt.raw) == (True, body)


def test_what_cannot_be_stored_is_in_nothing_that_is_taken_out() -> None:
    told = event("TEXT_INVALID", eventTimestamp="now\x00\ud83d")
    receipt = parsed(json.dumps(told).encode())
    assert receipt.fact is not None
    taken = json.dumps([receipt.event_key, receipt.fact.evidence])
    assert "\\u0000" not in taken
    assert "\\ud83d" not in taken


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*event(), "detail", "detail-type"]), json_values))
def test_whatever_the_members_are_an_event_is_read_or_unreadable(changes: dict[str, Any]) -> None:
    try:
        (receipt,) = parse({**event(), **changes}, hash_key=KEY)
    except Unreadable:
        return
    again = parse(receipt.raw, hash_key=KEY)
    assert again == [receipt]


def stored(raw: bytes, event_key: str) -> StoredReceipt:
    return StoredReceipt(
        id=uuid4(),
        provider="sms",
        event_key=event_key,
        raw=raw,
        received_at=datetime(2026, 1, 2, tzinfo=UTC),
        channel="sms",
    )


def test_a_kept_event_is_read_again_from_its_bytes() -> None:
    receipt = parsed(event("TEXT_INVALID"))
    assert read_again(stored(receipt.raw, receipt.event_key), hash_key=KEY) == receipt
    assert read_again(stored(receipt.raw, "another"), hash_key=KEY) is None
    assert read_again(stored(b"{", receipt.event_key), hash_key=KEY) is None
