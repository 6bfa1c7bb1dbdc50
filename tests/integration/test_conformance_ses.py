"""Every row of SES's error table, and every way its answer can be lost, through the sender."""

import dataclasses
import json
from typing import Any

import psycopg
import pytest

from functions.core.outcome import OutcomeName, Scope
from functions.core.stream import SenderIdentity
from functions.providers.aws import AwsClient
from functions.providers.ses import RULES, SesProvider
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

SENDER = SenderIdentity(
    identity="no-reply@notify.example",
    configuration_set="notify-transactional",
    settings={"from_name": "Acme"},
)


def provider_at(url: str) -> SesProvider:
    return SesProvider(client=AwsClient("sesv2", transport=Transport(), endpoint_url=url))


SUBJECT = Subject(
    channel="email",
    make=provider_at,
    recipient=lambda _: "ok@example.com",
    content={"subject": "Your receipt", "text": "Thank you.", "html": "<p>Thank you.</p>"},
    sender=SENDER,
)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


def said(code: str, message: str, http_status: int, **expected: Any) -> Row:
    """Return the row of an error that SES names."""
    return Row(
        name=f"{code} {message}".strip(),
        play=aws_error(http_status, code, message),
        code=code,
        http_status=http_status,
        **expected,
    )


def rejected(code: str, message: str = "", *, http_status: int = 400) -> Row:
    return said(code, message, http_status, outcome=OutcomeName.REJECTED, status="dead")


def blocked(
    code: str, message: str = "", *, http_status: int = 400, scope: str = "provider", wait: int = 0
) -> Row:
    return said(
        code,
        message,
        http_status,
        outcome=OutcomeName.BLOCKED,
        scope=scope,
        status="pending",
        wait_seconds=wait,
    )


def throttled(code: str, message: str = "", *, http_status: int = 400) -> Row:
    return said(
        code,
        message,
        http_status,
        outcome=OutcomeName.THROTTLED,
        scope=Scope.PROVIDER,
        status="pending",
    )


def maybe_sent(code: str, http_status: int) -> Row:
    return said(
        code, "", http_status, outcome=OutcomeName.UNKNOWN, status="uncertain", wait_seconds=5
    )


IDENTITY = Scope.SENDER_IDENTITY
NOT_VERIFIED = "Email address is not verified. The following identities failed the check: a@b.c"
QUOTA = "Daily message quota exceeded."

TABLE = (
    rejected("BadRequestException", "Bad request"),
    rejected("MessageRejected", "Message length is more than allowed"),
    rejected("MessageRejected", "Illegal address"),
    blocked("MessageRejected", NOT_VERIFIED, scope=IDENTITY),
    blocked("MessageRejected", NOT_VERIFIED.upper(), scope=IDENTITY),
    blocked("MailFromDomainNotVerifiedException", scope=IDENTITY),
    blocked("SendingPausedException", "Sending is paused", scope=IDENTITY),
    blocked("NotFoundException", "No such configuration set", http_status=404, scope=IDENTITY),
    blocked("AccountSuspendedException", "Suspended"),
    blocked("LimitExceededException", QUOTA, wait=600),
    blocked("LimitExceededException", QUOTA.lower(), wait=600),
    blocked("TooManyRequestsException", QUOTA, http_status=429, wait=600),
    blocked("Throttling", QUOTA, wait=600),
    blocked("ThrottlingException", QUOTA, wait=600),
    throttled("LimitExceededException", "Too many of them"),
    throttled("TooManyRequestsException", "Maximum sending rate exceeded.", http_status=429),
    throttled("Throttling", "Maximum sending rate exceeded."),
    throttled("ThrottlingException", "Rate exceeded"),
    throttled("RequestThrottled"),
    blocked("AccessDeniedException", "is not authorized to perform", http_status=403),
    blocked("UnrecognizedClientException", http_status=403),
    blocked("InvalidClientTokenId", http_status=403),
    blocked("ExpiredToken", http_status=403),
    blocked("ExpiredTokenException", http_status=403),
    blocked("SignatureDoesNotMatch", http_status=403),
    blocked("IncompleteSignature"),
    blocked("OptInRequired", http_status=403),
    maybe_sent("InternalServiceErrorException", 500),
    maybe_sent("InternalFailure", 500),
    maybe_sent("ConcurrentModificationException", 500),
    maybe_sent("ServiceUnavailable", 503),
    maybe_sent("ServiceUnavailableException", 503),
)

REJECTED: dict[str, Any] = {"outcome": OutcomeName.REJECTED, "status": "dead"}
THROTTLED: dict[str, Any] = {
    "outcome": OutcomeName.THROTTLED,
    "status": "pending",
    "scope": Scope.PROVIDER,
}
BLOCKED: dict[str, Any] = {
    "outcome": OutcomeName.BLOCKED,
    "status": "pending",
    "scope": Scope.PROVIDER,
}
UNKNOWN: dict[str, Any] = {"outcome": OutcomeName.UNKNOWN, "status": "uncertain"}

# What stands between us and SES answers in HTML: its status is all there is to go by.
BY_STATUS: tuple[tuple[int, dict[str, Any]], ...] = (
    *((status, BLOCKED) for status in (401, 403, 407)),
    (413, REJECTED),
    (418, REJECTED | {"unforeseen": True}),
    (429, THROTTLED | {"unforeseen": True}),
    *((status, UNKNOWN | {"wait_seconds": 5}) for status in (500, 502, 503, 504)),
)
PROXIES = tuple(
    Row(
        name=f"a proxy's {status}",
        play=respond(status, b"<html>No</html>", Content_Type="text/html"),
        code=str(status),
        http_status=status,
        **expected,
    )
    for status, expected in BY_STATUS
)

INVENTED = tuple(
    Row(
        name=f"an invented code with {status}",
        play=aws_error(status, "MoonPhaseException", "It is waning."),
        code="MoonPhaseException",
        http_status=status,
        unforeseen=True,
        **expected,
    )
    for status, expected in (
        (400, REJECTED),
        (429, THROTTLED),
        (500, UNKNOWN),
        (599, UNKNOWN),
    )
)


def lost(name: str, play: Script, code: str, **more: Any) -> Row:
    return Row(name=name, play=play, code=code, **UNKNOWN, **more)


MESSAGE_ID = {"MessageId": "0100-m1"}
ACCEPTED = Row(
    name="accepted",
    play=respond(200, MESSAGE_ID),
    outcome=OutcomeName.ACCEPTED,
    code=None,
    http_status=200,
    status="submitted",
)

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
        lost(f"a 2xx with {id!r:.20} for an id", respond(200, {"MessageId": id}),
             "unreadable_answer", http_status=200)
        for id in ("", 7, None, ["0100-m1"], "a\x00b", "x" * 257)
    ),
)  # fmt: skip

ROWS = (*ANSWERS, *TABLE, *PROXIES, *INVENTED)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_answer_comes_to_what_the_table_says(
    row: Row, owner: psycopg.Connection, database: Database
) -> None:
    conform(row, SUBJECT, owner=owner, database=database)


def test_every_rule_of_the_table_is_played() -> None:
    assert {rule.code for rule in RULES} <= {row.code for row in ROWS}


@pytest.mark.parametrize(
    "sender",
    [
        SenderIdentity(),
        SenderIdentity(configuration_set="notify-bulk"),
        SenderIdentity(identity="Acme <no-reply@notify.example>"),
        SenderIdentity(identity="a@notify.example, b@notify.example"),
        SenderIdentity(identity="no-reply@b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example"),
        dataclasses.replace(SENDER, settings={"from_name": "Acme\r\nBcc: b@example.com"}),
        dataclasses.replace(SENDER, settings={"from_name": ["Acme"]}),
        dataclasses.replace(SENDER, settings={"reply_to": "Acme <help@notify.example>"}),
        dataclasses.replace(SENDER, settings={"reply_to": ["help@notify.example", None]}),
    ],
    ids=lambda sender: f"{sender.identity} {dict(sender.settings)}",
)
def test_a_stream_that_tells_nobody_who_sends_waits_and_nothing_is_called(
    sender: SenderIdentity, owner: psycopg.Connection, database: Database
) -> None:
    row = Row(
        name="not configured",
        play=ACCEPTED.play,
        outcome=OutcomeName.BLOCKED,
        code="not_configured",
        scope=Scope.SENDER_IDENTITY,
        status="pending",
        requests=0,
    )
    conform(row, dataclasses.replace(SUBJECT, sender=sender), owner=owner, database=database)


def test_what_goes_over_the_wire_names_its_attempt_and_its_stream(
    owner: psycopg.Connection, database: Database
) -> None:
    played = conform(ACCEPTED, SUBJECT, owner=owner, database=database)
    (request,) = played.requests
    assert (request.method, request.target) == ("POST", "/v2/email/outbound-emails")
    sent = json.loads(request.body)
    assert sent["FromEmailAddress"] == "Acme <no-reply@notify.example>"
    assert sent["ConfigurationSetName"] == "notify-transactional"
    assert sent["Destination"] == {"ToAddresses": ["ok@example.com"]}
    assert {tag["Name"]: tag["Value"] for tag in sent["EmailTags"]} == {
        "attempt_id": str(played.attempt.id),
        "notification_id": str(played.notification.id),
        "organization_id": str(played.notification.organization_id),
    }
    assert (played.attempt.provider, played.attempt.reference) == ("ses", "0100-m1")
