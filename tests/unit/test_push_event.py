"""What SNS tells of mobile push (PROVIDERS §2.4), and what each row of it proves."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from functions.core.errors import Unreadable
from functions.core.evidence import Rank, Receipt, StoredReceipt
from functions.core.recipient import recipient_hash
from functions.core.suppression import SuppressionReason
from functions.providers.push_declaration import DECLARATION
from functions.providers.push_event import (
    FAILURES,
    dead_token_of,
    parse,
    read_again,
)
from tests.pushing import APPLICATION, ENDPOINT

HASH_KEY = b"a key that is only good for tests"
AT = datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)


def event(event_type: str = "DeliveryFailure", **members: Any) -> dict[str, Any]:
    """Return an event of an application; members that are None are left out."""
    whole = {
        "EndpointArn": ENDPOINT,
        "EventType": event_type,
        "Resource": APPLICATION,
        "Service": "SNS",
        "Time": "2026-01-02T03:04:06.000Z",
        **members,
    }
    return {name: value for name, value in whole.items() if value is not None}


def failure(failure_type: str | None, **members: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "DeliveryAttempts": 1,
        "FailureMessage": "Platform token associated with the endpoint is not valid",
        "FailureType": failure_type,
        "MessageId": "push-m1",
        **members,
    }
    return event("DeliveryFailure", **whole)


def logged(status: str = "SUCCESS") -> dict[str, Any]:
    return {
        "notification": {"timestamp": "2026-01-02 03:04:06.000", "messageId": "push-m1"},
        "delivery": {
            "statusCode": 200,
            "token": "tok-1",
            "attempts": 1,
            "destination": ENDPOINT,
        },
        "status": status,
    }


def receipt_of(body: Any) -> Receipt:
    (receipt,) = parse(json.dumps(body).encode(), hash_key=HASH_KEY)
    return receipt


def test_push_knows_no_keys_and_promises_no_receipts() -> None:
    assert (DECLARATION.name, DECLARATION.keyed, DECLARATION.receipts) == ("push", False, False)


@pytest.mark.parametrize("failure_type", [*FAILURES])
def test_each_type_of_failure_fails_the_message_for_good(failure_type: str) -> None:
    receipt = receipt_of(failure(failure_type))
    assert (receipt.rank, receipt.permanent) == (Rank.HARD_FAILURE, True)
    assert (receipt.type, receipt.reason) == ("DeliveryFailure", failure_type)
    assert (receipt.reference, receipt.occurred_at) == ("push-m1", AT)
    assert not receipt.unforeseen
    assert receipt.address_at_fault == FAILURES[failure_type].dead


@pytest.mark.parametrize("failure_type", ["InvalidPlatformToken", "EndpointNotFound"])
def test_h3_a_dead_token_is_a_fact_with_its_provenance(failure_type: str) -> None:
    receipt = receipt_of(failure(failure_type))
    dead = dead_token_of(failure(failure_type))
    assert receipt.fact is not None
    assert dead is not None
    assert receipt.fact == dead.fact
    assert (dead.recipients, dead.occurred_at) == ((ENDPOINT,), AT)
    assert (dead.fact.reason, dead.fact.source) == (SuppressionReason.INVALID, "sns:event")
    assert dead.fact.evidence == {
        "event_type": "DeliveryFailure",
        "reason": failure_type,
        "message_id": "push-m1",
        "occurred_at": "2026-01-02T03:04:06.000Z",
    }


@pytest.mark.parametrize("failure_type", ["MadeUpYesterday", None])
def test_a_failure_of_another_type_is_counted_and_says_nothing_about_the_token(
    failure_type: str | None,
) -> None:
    receipt = receipt_of(failure(failure_type))
    assert (receipt.rank, receipt.permanent) == (Rank.SOFT_FAILURE, False)
    assert (receipt.unforeseen, receipt.address_at_fault, receipt.fact) == (True, False, None)
    assert dead_token_of(failure(failure_type)) is None


def test_an_event_about_our_message_is_not_judged_by_the_endpoint_that_it_names() -> None:
    assert receipt_of(failure("InvalidPlatformToken")).recipient_hash is None
    about_the_endpoint = receipt_of(failure("InvalidPlatformToken", MessageId=None))
    assert about_the_endpoint.recipient_hash == recipient_hash(HASH_KEY, "push", ENDPOINT)


@pytest.mark.parametrize(
    "members",
    [
        {"Enabled": "false"},
        {"Enabled": False},
        {"Attributes": {"Enabled": "false"}},
        {"NewAttributes": {"Enabled": "False"}, "OldAttributes": {"Enabled": "true"}},
    ],
)
def test_h3_an_endpoint_that_was_disabled_is_dead(members: dict[str, Any]) -> None:
    told = event("EndpointUpdated", **members)
    dead = dead_token_of(told)
    assert dead is not None
    assert (dead.recipients, dead.fact.evidence["reason"]) == ((ENDPOINT,), "disabled")
    receipt = receipt_of(told)
    assert (receipt.rank, receipt.address_at_fault) == (Rank.NONE, True)
    assert receipt.recipient_hash == recipient_hash(HASH_KEY, "push", ENDPOINT)


def test_the_token_is_dead_as_well_where_it_is_told() -> None:
    told = event("EndpointUpdated", Attributes={"Enabled": "false", "Token": "tok-1"})
    dead = dead_token_of(told)
    assert dead is not None
    assert dead.recipients == (ENDPOINT, "tok-1")


@pytest.mark.parametrize(
    ("event_type", "members", "unforeseen"),
    [
        ("EndpointCreated", {}, False),
        ("EndpointDeleted", {}, False),
        ("EndpointUpdated", {"Attributes": {"Enabled": "true", "Token": "tok-2"}}, False),
        ("EndpointUpdated", {}, False),
        ("EndpointPainted", {}, True),
    ],
)
def test_the_other_events_are_notes(
    event_type: str, members: dict[str, Any], unforeseen: bool
) -> None:
    told = event(event_type, **members)
    receipt = receipt_of(told)
    assert (receipt.rank, receipt.fact, receipt.address_at_fault) == (Rank.NONE, None, False)
    assert receipt.unforeseen == unforeseen
    assert dead_token_of(told) is None


@pytest.mark.parametrize(
    ("status", "rank", "unforeseen"),
    [
        ("SUCCESS", Rank.DELIVERED, False),
        ("FAILURE", Rank.NONE, False),
        ("PERHAPS", Rank.NONE, True),
    ],
)
def test_a_line_of_the_log_proves_what_its_status_says(
    status: str, rank: Rank, unforeseen: bool
) -> None:
    receipt = receipt_of(logged(status))
    assert (receipt.rank, receipt.unforeseen) == (rank, unforeseen)
    assert (receipt.reference, receipt.occurred_at) == ("push-m1", AT)
    assert dead_token_of(logged(status)) is None


def test_the_same_event_has_the_same_key_and_others_have_theirs() -> None:
    told = [
        failure("InvalidPlatformToken"),
        failure("InvalidPlatformToken", MessageId="push-m2"),
        event("EndpointUpdated", Enabled="false"),
        event("EndpointUpdated", Enabled="false", Time="2026-01-02T03:04:07.000Z"),
        event("EndpointUpdated", Enabled="false", EndpointArn=f"{ENDPOINT}0"),
        logged("SUCCESS"),
        logged("FAILURE"),
    ]
    keys = [receipt_of(one).event_key for one in told]
    assert len({*keys}) == len(told)
    assert keys == [receipt_of(one).event_key for one in told]


def test_a_mapping_is_read_like_its_bytes() -> None:
    (receipt,) = parse(failure("InvalidPlatformToken"), hash_key=HASH_KEY)
    assert json.loads(receipt.raw) == failure("InvalidPlatformToken")
    assert receipt.event_key == receipt_of(failure("InvalidPlatformToken")).event_key


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"not JSON",
        b"[]",
        b"null",
        b"{}",
        b'{"EventType": 7}',
        b'{"EventType": "DeliveryFailure", "MessageId": ["a"]}',
        b'{"EventType": "DeliveryFailure", "EndpointArn": "a\\u0000b"}',
        b'{"notification": {}, "status": "SUCCESS"}',
        b'{"notification": {"messageId": "m"}}',
        json.dumps({"EventType": "x" * 5000}).encode(),
        b"[" * 5000,
    ],
)
def test_what_is_no_event_is_unreadable_and_nothing_worse(body: bytes) -> None:
    with pytest.raises(Unreadable):
        parse(body, hash_key=HASH_KEY)


@pytest.mark.parametrize("odd", ["A\x00B", "\ud83d", {"\x00": "\udfff"}])
def test_what_cannot_be_stored_spoils_nothing_where_nobody_looks(odd: Any) -> None:
    body = json.dumps(failure("InvalidPlatformToken", FailureMessage=odd)).encode()
    receipt = receipt_of(json.loads(body))
    assert (receipt.rank, receipt.address_at_fault) == (Rank.HARD_FAILURE, True)
    assert receipt.raw == body


@pytest.mark.parametrize("time", [None, "", "yesterday", "9999-99-99T00:00:00Z"])
def test_a_time_that_is_none_is_left_out(time: str | None) -> None:
    assert receipt_of(failure("InvalidPlatformToken", Time=time)).occurred_at is None


def test_a_kept_event_is_read_again_by_the_rules_of_today() -> None:
    receipt = receipt_of(failure("InvalidPlatformToken"))
    stored = StoredReceipt(
        id=UUID(int=1),
        provider="push",
        event_key=receipt.event_key,
        raw=receipt.raw,
        received_at=AT,
        channel="push",
    )
    assert read_again(stored, hash_key=HASH_KEY) == receipt
    for raw, key in ((b"garbage", receipt.event_key), (receipt.raw, "another")):
        other = StoredReceipt(
            id=UUID(int=1),
            provider="push",
            event_key=key,
            raw=raw,
            received_at=AT,
            channel=None,
        )
        assert read_again(other, hash_key=HASH_KEY) is None
