"""Every row of the table of SendTextMessage's errors, and every way its answer can be lost."""

import dataclasses
import json
from typing import Any

import psycopg
import pytest

from functions.core.outcome import OutcomeName, Scope
from functions.core.stream import SenderIdentity
from functions.providers.aws import AwsClient
from functions.providers.sms import SERVICE, SmsProvider
from functions.providers.sms_rules import OPT_OUT_LIST, RULES
from functions.providers.transport import Transport
from functions.store.connection import Database
from tests.conformance import (
    CLOSE,
    EMPTY,
    HANG,
    HTML,
    RESET,
    Row,
    Subject,
    aws_error,
    conform,
    cut,
    oversized,
    respond,
)
from tests.wire import Script

NUMBER = "+15550100123"


def provider_at(url: str) -> SmsProvider:
    return SmsProvider(client=AwsClient(SERVICE, transport=Transport(), endpoint_url=url))


SUBJECT = Subject(
    channel="sms",
    make=provider_at,
    recipient=lambda _: NUMBER,
    content="Your code is 123456.",
    sender=SenderIdentity(
        identity="pool-0123", configuration_set="notify-tx", settings={"max_price": "0.05"}
    ),
    country="US",
)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


REJECTED: dict[str, Any] = {"outcome": OutcomeName.REJECTED, "status": "dead"}
BLOCKED: dict[str, Any] = {
    "outcome": OutcomeName.BLOCKED, "status": "pending", "scope": Scope.PROVIDER,
}  # fmt: skip
THROTTLED: dict[str, Any] = BLOCKED | {"outcome": OutcomeName.THROTTLED}
UNKNOWN: dict[str, Any] = {"outcome": OutcomeName.UNKNOWN, "status": "uncertain"}
OF_COUNTRY: dict[str, Any] = BLOCKED | {"scope": Scope.COUNTRY}
OF_STREAM: dict[str, Any] = BLOCKED | {"scope": Scope.SENDER_IDENTITY}
QUOTA: dict[str, Any] = BLOCKED | {"wait_seconds": 600}
OF_NUMBER: dict[str, Any] = THROTTLED | {"scope": Scope.DESTINATION, "wait_seconds": 3600}
MARKED: dict[str, Any] = {"unforeseen": True}


def said(
    error: str, reason: str = "", *fields: str, http_status: int = 400, **expected: Any
) -> Row:
    """Return the row of an error; its reason is its code in the ledger, if it has one."""
    members: dict[str, Any] = {"Reason": reason} if reason else {}
    if fields:
        members["Fields"] = [{"Name": field, "Message": "It is wrong."} for field in fields]
    return Row(
        name=" ".join((error, reason, *fields)),
        play=aws_error(http_status, error, "No.", **members),
        code=reason or error,
        http_status=http_status,
        **expected,
    )


def each(error: str, *reasons: str, **expected: Any) -> list[Row]:
    return [said(error, reason, **expected) for reason in reasons]


CONFLICTS = (
    said(
        "ConflictException",
        "DESTINATION_PHONE_NUMBER_OPTED_OUT",
        outcome=OutcomeName.REFUSED,
        status="suppressed",
        scope=Scope.DESTINATION,
    ),
    *each(
        "ConflictException",
        "DESTINATION_COUNTRY_BLOCKED_BY_PROTECT_CONFIGURATION",
        "DESTINATION_PHONE_NUMBER_BLOCKED_BY_PROTECT_NUMBER_OVERRIDE",
        **REJECTED,
    ),
    *each("ConflictException", "DESTINATION_PHONE_NUMBER_NOT_VERIFIED", **BLOCKED),
    *each("ConflictException", "NO_ORIGINATION_IDENTITIES_FOUND", **OF_COUNTRY),
    *each(
        "ConflictException",
        "RESOURCE_NOT_ACTIVE",
        "MESSAGE_TYPE_MISMATCH",
        "NUMBER_CAPABILITIES_MISMATCH",
        "REGISTRATION_NOT_COMPLETE",
        "KEYWORD_MISMATCH",
        "PROTECT_CONFIGURATION_NOT_ASSOCIATED_WITH_CONFIGURATION_SET",
        **OF_STREAM,
    ),
    *each("ConflictException", "LAST_PHONE_NUMBER", "INVENTED", "", **REJECTED, unforeseen=True),
)

SHAPES = ("FIELD_VALIDATION_FAILED", "INVALID_PARAMETER")
VALIDATIONS = (
    *(
        said("ValidationException", reason, field, **expected)
        for reason in SHAPES
        for field, expected in (
            ("DestinationPhoneNumber", REJECTED),
            ("MessageBody", REJECTED),
            ("Context", REJECTED),
            ("OriginationIdentity", OF_STREAM),
            ("ConfigurationSetName", OF_STREAM),
            ("MaxPrice", OF_STREAM),
            ("ProtectConfigurationId", OF_STREAM),
            ("Keyword", OF_STREAM),
            ("DestinationCountryParameters", OF_STREAM),
        )
    ),
    *each(
        "ValidationException",
        *SHAPES,
        "INVALID_REQUEST",
        "MISSING_PARAMETER",
        "MAXIMUM_SIZE_EXCEEDED",
        "PARAMETERS_CANNOT_BE_USED_TOGETHER",
        "UNSPECIFIED_PARAMETER_NOT_SUPPORTED",
        "CANNOT_PARSE",
        "OTHER",
        **REJECTED,
    ),
    *each("ValidationException", "INVALID_ARN", "RESOURCE_NOT_ACCESSIBLE", **OF_STREAM),
    *each(
        "ValidationException",
        "COUNTRY_NOT_ENABLED",
        "DESTINATION_COUNTRY_BLOCKED",
        "INVALID_IDENTITY_FOR_DESTINATION_COUNTRY",
        "INTERNATIONAL_SENDING_NOT_SUPPORTED",
        "SENDER_ID_NOT_REGISTERED",
        "SENDER_ID_NOT_SUPPORTED",
        "SENDER_ID_REQUIRES_REGISTRATION",
        "PRICE_OVER_THRESHOLD",
        "CHANNEL_NOT_ENABLED",
        **OF_COUNTRY,
    ),
    *each("ValidationException", "INVENTED", "", **REJECTED, unforeseen=True),
)

ACCOUNT = (
    *each(
        "AccessDeniedException",
        "INSUFFICIENT_ACCOUNT_REPUTATION",
        "ACCOUNT_DISABLED",
        "",
        "INVENTED",
        **BLOCKED,
    ),
    *each(
        "ServiceQuotaExceededException",
        "MONTHLY_SPEND_LIMIT_REACHED_FOR_TEXT",
        "MONTHLY_SPEND_LIMIT_REACHED_FOR_MEDIA",
        "MONTHLY_SPEND_LIMIT_REACHED_FOR_VOICE",
        "MONTHLY_SPEND_LIMIT_REACHED_FOR_NOTIFY",
        "MONTHLY_SPEND_LIMIT_REACHED_FOR_RCS",
        "DAILY_NOTIFY_TIER_MESSAGE_LIMIT",
        **QUOTA,
    ),
    *each("ServiceQuotaExceededException", "INVENTED", "", **BLOCKED, unforeseen=True),
    said(
        "ServiceQuotaExceededException",
        "DAILY_DESTINATION_CALL_LIMIT",
        **OF_NUMBER,
    ),
    said("ThrottlingException", **THROTTLED),
    said("ThrottlingException", http_status=429, **THROTTLED),
    said("ResourceNotFoundException", **OF_STREAM),
    *(
        said(error, http_status=status, **UNKNOWN)
        for error, status in (
            ("InternalServerException", 500),
            ("InternalFailure", 500),
            ("ServiceUnavailable", 503),
        )
    ),
)

INVENTED = tuple(
    said("MoonPhaseException", http_status=status, **expected, unforeseen=True)
    for status, expected in ((400, REJECTED), (429, THROTTLED), (500, UNKNOWN))
)

PROXIES = tuple(
    Row(
        name=f"a proxy's {status}",
        play=respond(status, b"<html>No</html>", Content_Type="text/html"),
        code=str(status),
        http_status=status,
        **expected,
    )
    for status, expected in (
        (413, {**REJECTED, **MARKED}),
        (429, {**THROTTLED, **MARKED}),
        *((status, UNKNOWN) for status in (500, 502, 503, 504)),
    )
)


def lost(name: str, play: Script, code: str, **more: Any) -> Row:
    return Row(name=name, play=play, code=code, **UNKNOWN, **more)


MESSAGE_ID = {"MessageId": "sms-m1"}
ACCEPTED = Row(
    name="accepted",
    play=respond(200, MESSAGE_ID),
    outcome=OutcomeName.ACCEPTED,
    code=None,
    http_status=200,
    status="submitted",
)
OPTED_OUT = CONFLICTS[0]

ANSWERS = (
    ACCEPTED,
    lost("a hang", HANG, "timeout", lasts=True),
    lost("a reset", RESET, "connection_lost"),
    lost("a hang-up", CLOSE, "connection_lost"),
    lost("a 2xx cut short", cut(json.dumps(MESSAGE_ID).encode()), "unreadable_answer"),
    lost("an oversized 2xx", oversized(MESSAGE_ID), "unreadable_answer"),
    lost("an empty 2xx", EMPTY, "unreadable_answer", http_status=200),
    lost("a 2xx in HTML", HTML, "unreadable_answer", http_status=200),
    lost("a 2xx of another shape", respond(200, b"[1]"), "unreadable_answer"),
    lost("a 2xx without an id", respond(200, {"Id": "x"}), "unreadable_answer", http_status=200),
    *(
        lost(
            f"a 2xx with {id!r:.20} for an id",
            respond(200, {"MessageId": id}),
            "unreadable_answer",
            http_status=200,
        )
        for id in ("", 7, None, ["sms-m1"], "a\x00b", "x" * 257)
    ),
)

ROWS = (*ANSWERS, *CONFLICTS, *VALIDATIONS, *ACCOUNT, *INVENTED, *PROXIES)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_answer_comes_to_what_the_table_says(
    row: Row, owner: psycopg.Connection, database: Database
) -> None:
    conform(row, SUBJECT, owner=owner, database=database)


def test_every_rule_of_the_table_is_played() -> None:
    played = {row.name for row in ROWS}
    named = {
        " ".join((rule.code, rule.reason, *([rule.field] if rule.field else []))) for rule in RULES
    }
    assert named <= played


def test_the_request_and_the_ledger_name_the_attempt(
    owner: psycopg.Connection, database: Database
) -> None:
    played = conform(ACCEPTED, SUBJECT, owner=owner, database=database)
    (request,) = played.requests
    sent = json.loads(request.body)
    assert (sent["DestinationPhoneNumber"], sent["MessageType"]) == (NUMBER, "TRANSACTIONAL")
    assert (sent["OriginationIdentity"], sent["MaxPrice"]) == ("pool-0123", "0.05")
    assert sent["Context"] == {
        "attempt_id": str(played.attempt.id),
        "notification_id": str(played.notification.id),
        "organization_id": str(played.notification.organization_id),
    }
    assert (played.attempt.provider, played.attempt.reference) == ("sms", "sms-m1")


def test_an_opt_out_is_stored_with_its_provenance(
    owner: psycopg.Connection, database: Database
) -> None:
    played = conform(OPTED_OUT, SUBJECT, owner=owner, database=database)
    ((reason, source, evidence),) = played.facts
    assert (reason, source) == ("recipient_choice", OPT_OUT_LIST)
    assert evidence == {
        "notification_id": str(played.notification.id),
        "attempt_id": str(played.attempt.id),
        "code": "DESTINATION_PHONE_NUMBER_OPTED_OUT",
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"sender": SenderIdentity(settings={"max_price": "much"})},
            {**OF_STREAM, "code": "not_configured"},
        ),
        ({"content": "\N{SNOWMAN}" * 671}, {**REJECTED, "code": "too_many_segments"}),
    ],
    ids=["a setting that cannot be", "too many parts"],
)
def test_what_cannot_be_sent_is_told_without_a_request(
    changes: dict[str, Any],
    expected: dict[str, Any],
    owner: psycopg.Connection,
    database: Database,
) -> None:
    row = Row(name="unsent", play=ACCEPTED.play, requests=0, **expected)
    conform(row, dataclasses.replace(SUBJECT, **changes), owner=owner, database=database)
