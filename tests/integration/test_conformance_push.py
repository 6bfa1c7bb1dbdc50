"""Every row of SNS's and FCM's error tables, and every way an answer can be lost, by the sender."""

import dataclasses
import json
from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Any

import psycopg
import pytest

from functions.core.outcome import OutcomeName, Scope
from functions.core.stream import SenderIdentity
from functions.providers import fcm, sns_push
from functions.providers.push import PushProvider
from functions.store.connection import Database
from tests.conformance import (
    CLOSE,
    EMPTY,
    HANG,
    HTML,
    RESET,
    Row,
    Subject,
    conform,
    cut,
    oversized,
    respond,
)
from tests.pushing import (
    APPLE_ENDPOINT,
    BY_FCM,
    BY_SNS,
    CREATED,
    ENDPOINT,
    PROJECT,
    TOKEN,
    Google,
    error,
    fcm_error,
    google,
    is_publish,
    message_in,
    provider_at,
    result,
    set_credentials,
)
from tests.wire import Received, Script, Wire

IDENTITY = Scope.SENDER_IDENTITY
PROVIDER = Scope.PROVIDER
DEVICE = Scope.DESTINATION


def expected(outcome: OutcomeName, *, scope: str | None = None) -> dict[str, Any]:
    """Return how far an outcome reaches, ``scope`` or as usual, and where it leaves the
    notification."""
    ends = {
        OutcomeName.ACCEPTED: "unconfirmed",
        OutcomeName.REJECTED: "dead",
        OutcomeName.REFUSED: "suppressed",
        OutcomeName.TRANSIENT: "pending",
        OutcomeName.THROTTLED: "pending",
        OutcomeName.BLOCKED: "pending",
        OutcomeName.UNKNOWN: "uncertain",
    }
    reaches = {
        OutcomeName.REFUSED: DEVICE,
        OutcomeName.THROTTLED: PROVIDER,
        OutcomeName.BLOCKED: PROVIDER,
    }
    return {"outcome": outcome, "status": ends[outcome], "scope": scope or reaches.get(outcome)}


def lost(name: str, play: Script, code: str, **more: Any) -> Row:
    """Return a row of an answer that nobody can use: the message may have been taken."""
    return Row(name=name, play=play, code=code, **expected(OutcomeName.UNKNOWN), **more)


COMMON = (
    lost("hangs", HANG, "timeout", lasts=True),
    lost("resets", RESET, "connection_lost"),
    lost("closes", CLOSE, "connection_lost"),
)

# SNS


def of_sns(
    code: str,
    http_status: int,
    outcome: OutcomeName,
    message: str = "",
    *,
    scope: str | None = None,
    **more: Any,
) -> Row:
    """Return the row of an error that SNS names, as the query protocol writes it."""
    return Row(
        name=f"{code} {message}".strip(),
        play=respond(http_status, error(code, message), Content_Type="text/xml"),
        code=code,
        http_status=http_status,
        **expected(outcome, scope=scope),
        **more,
    )


REJECTED, REFUSED, TRANSIENT = OutcomeName.REJECTED, OutcomeName.REFUSED, OutcomeName.TRANSIENT
THROTTLED, BLOCKED, UNKNOWN = OutcomeName.THROTTLED, OutcomeName.BLOCKED, OutcomeName.UNKNOWN

SNS_ROWS = (
    Row(
        name="accepted",
        play=respond(200, result("Publish", MessageId="push-m1")),
        code=None,
        http_status=200,
        **expected(OutcomeName.ACCEPTED),
    ),
    of_sns("EndpointDisabled", 400, REFUSED, "Endpoint is disabled"),
    of_sns("NotFound", 404, REFUSED, "Endpoint does not exist"),
    of_sns("NotFound", 404, BLOCKED, "PlatformApplication does not exist", scope=IDENTITY),
    of_sns("NotFound", 404, BLOCKED, "No such platform application", scope=IDENTITY),
    of_sns("PlatformApplicationDisabled", 400, BLOCKED, scope=IDENTITY),
    of_sns("InvalidParameter", 400, REJECTED, "Invalid parameter: TargetArn"),
    of_sns("InvalidParameterValue", 400, REJECTED),
    of_sns("ParameterValueInvalid", 400, REJECTED),
    of_sns("ValidationError", 400, REJECTED),
    of_sns("ValidationException", 400, REJECTED),
    of_sns("AuthorizationError", 403, BLOCKED),
    of_sns("InvalidSecurity", 403, BLOCKED),
    of_sns("KMSAccessDenied", 400, BLOCKED),
    of_sns("KMSDisabled", 400, BLOCKED),
    of_sns("KMSInvalidState", 400, BLOCKED),
    of_sns("KMSNotFound", 400, BLOCKED),
    of_sns("KMSOptInRequired", 403, BLOCKED),
    of_sns("Throttled", 429, THROTTLED),
    of_sns("Throttling", 400, THROTTLED, "Rate exceeded"),
    of_sns("KMSThrottling", 400, THROTTLED),
    of_sns("InternalError", 500, UNKNOWN),
    of_sns("InternalFailure", 500, UNKNOWN),
    of_sns("ServiceUnavailable", 503, UNKNOWN),
    # Common to all services.
    of_sns("AccessDenied", 403, BLOCKED),
    of_sns("ExpiredToken", 403, BLOCKED),
    of_sns("InvalidClientTokenId", 403, BLOCKED),
    of_sns("SignatureDoesNotMatch", 403, BLOCKED),
    # In no table.
    of_sns("MadeUpYesterday", 400, REJECTED, unforeseen=True),
    of_sns("MadeUpYesterday", 500, UNKNOWN, unforeseen=True),
    Row(
        name="a proxy's 503",
        play=respond(503, b"<html>", Content_Type="text/html"),
        code="503",
        http_status=503,
        **expected(UNKNOWN),
    ),
    *COMMON,
    lost(
        "200 without an id", respond(200, result("Publish")), "unreadable_answer", http_status=200
    ),
    lost("200 and nothing", EMPTY, "unreadable_answer"),
    lost("200 in HTML", HTML, "unreadable_answer"),
    lost("200 cut", cut(result("Publish", MessageId="push-m1")), "unreadable_answer"),
    lost("200 without end", oversized({"MessageId": "push-m1"}), "unreadable_answer"),
)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    set_credentials(monkeypatch)


def by_sns(recipient: str, sender: SenderIdentity = BY_SNS) -> Subject:
    return Subject(
        channel="push",
        make=provider_at,
        recipient=lambda _: recipient,
        content={"title": "Your order", "body": "It is on its way.", "data": {"order": 7}},
        sender=sender,
        counts=is_publish,
    )


@pytest.mark.parametrize("row", SNS_ROWS, ids=lambda row: row.name)
def test_each_answer_of_sns_comes_to_what_its_table_says(
    row: Row, owner: psycopg.Connection, database: Database
) -> None:
    played = conform(row, by_sns(ENDPOINT), owner=owner, database=database)
    if row.outcome == REFUSED:
        assert played.facts == [("invalid", "sns:publish", played.facts[0][2])]


def test_an_accepted_push_ends_unconfirmed_for_want_of_receipts(
    owner: psycopg.Connection, database: Database
) -> None:
    played = conform(SNS_ROWS[0], by_sns(APPLE_ENDPOINT), owner=owner, database=database)
    assert played.notification.reason == "provider_gives_no_receipts"
    assert played.attempt.reference == "push-m1"


def after_creating(script: Script) -> Script:
    """Return an SNS that makes an endpoint, and plays ``script`` to what is published."""

    def play(wire: Wire) -> None:
        wire.read_request()
        CREATED(wire)
        script(wire)

    return play


NOT_FOUND = of_sns("NotFound", 404, TRANSIENT, "Endpoint does not exist")
TOKEN_ROWS = (
    *(row for row in SNS_ROWS if row.name in ("accepted", "hangs", "resets", "200 and nothing")),
    *(row for row in SNS_ROWS if row.code in ("EndpointDisabled", "PlatformApplicationDisabled")),
    dataclasses.replace(NOT_FOUND, name="gone since it was made"),
)


@pytest.mark.parametrize("row", TOKEN_ROWS, ids=lambda row: row.name)
def test_a_token_is_published_to_once_whatever_it_took_to_make_its_endpoint(
    row: Row, owner: psycopg.Connection, database: Database
) -> None:
    row = dataclasses.replace(row, play=after_creating(row.play))
    conform(row, by_sns(TOKEN), owner=owner, database=database)


@pytest.mark.parametrize(
    "row",
    [
        of_sns("PlatformApplicationDisabled", 400, BLOCKED, scope=IDENTITY, requests=0),
        of_sns("NotFound", 404, BLOCKED, scope=IDENTITY, requests=0),
        of_sns("InvalidParameter", 400, REFUSED, "Invalid parameter: Token Reason: x", requests=0),
        of_sns("InternalError", 500, TRANSIENT, requests=0),
        of_sns("Throttled", 429, THROTTLED, requests=0),
        of_sns("MadeUpYesterday", 500, TRANSIENT, requests=0, unforeseen=True),
    ],
    ids=lambda row: row.name,
)
def test_where_no_endpoint_can_be_made_nothing_is_published(
    row: Row, owner: psycopg.Connection, database: Database
) -> None:
    conform(row, by_sns(TOKEN), owner=owner, database=database)


@pytest.mark.parametrize(
    ("sender", "scope"),
    [(SenderIdentity(), "destination"), (SenderIdentity(identity="none"), IDENTITY)],
)
def test_a_token_with_no_way_to_go_waits_without_a_request(
    sender: SenderIdentity, scope: str, owner: psycopg.Connection, database: Database
) -> None:
    row = Row(
        name="not configured",
        play=EMPTY,
        code="not_configured",
        requests=0,
        **expected(BLOCKED, scope=scope),
    )
    conform(row, by_sns(TOKEN, sender), owner=owner, database=database)


# FCM


def of_fcm(
    http_status: int,
    outcome: OutcomeName,
    *,
    code: str | None = None,
    status_name: str = "",
    message: str = "",
    fields: tuple[str, ...] = (),
    headers: Mapping[str, str] = MappingProxyType({}),
    scope: str | None = None,
    **more: Any,
) -> Row:
    """Return the row of an error; ``code`` is FcmError's, None where it is not there."""
    body = fcm_error(
        http_status, status_name=status_name, code=code, message=message, fields=fields
    )
    return Row(
        name=" ".join((str(http_status), status_name, code or "without", *fields, message)).strip(),
        play=respond(http_status, body, **headers),
        code=code or status_name or str(http_status),
        http_status=http_status,
        **expected(outcome, scope=scope),
        **more,
    )


INVALID: dict[str, Any] = {"status_name": "INVALID_ARGUMENT"}
EXHAUSTED: dict[str, Any] = {"status_name": "RESOURCE_EXHAUSTED"}
NAME = {"name": f"projects/{PROJECT}/messages/0:1"}
NOT_A_TOKEN = "The registration token is not a valid FCM registration token"

FCM_ROWS = (
    Row(
        name="accepted",
        play=respond(200, NAME),
        code=None,
        http_status=200,
        **expected(OutcomeName.ACCEPTED),
    ),
    of_fcm(404, REFUSED, status_name="NOT_FOUND", code="UNREGISTERED"),
    of_fcm(404, REFUSED, status_name="NOT_FOUND", message="NotRegistered"),
    of_fcm(400, REFUSED, code="INVALID_ARGUMENT", fields=("message.token",), **INVALID),
    of_fcm(400, REFUSED, fields=("message.token",), **INVALID),
    of_fcm(400, REFUSED, code="INVALID_ARGUMENT", message=NOT_A_TOKEN, **INVALID),
    of_fcm(400, REJECTED, **INVALID),
    of_fcm(400, REJECTED, fields=("message.data[0].value",), **INVALID),
    of_fcm(400, REJECTED, code="INVALID_ARGUMENT", fields=("message",), **INVALID),
    of_fcm(403, REJECTED, status_name="PERMISSION_DENIED", code="SENDER_ID_MISMATCH"),
    of_fcm(
        429,
        THROTTLED,
        code="QUOTA_EXCEEDED",
        headers={"Retry_After": "77"},
        wait_seconds=77,
        **EXHAUSTED,
    ),
    of_fcm(
        429,
        THROTTLED,
        code="QUOTA_EXCEEDED",
        message="Device message rate exceeded",
        scope=DEVICE,
        **EXHAUSTED,
    ),
    of_fcm(429, THROTTLED, **EXHAUSTED),
    of_fcm(
        503,
        TRANSIENT,
        status_name="UNAVAILABLE",
        code="UNAVAILABLE",
        headers={"Retry_After": "66"},
        wait_seconds=66,
    ),
    of_fcm(503, TRANSIENT, status_name="UNAVAILABLE"),
    of_fcm(500, UNKNOWN, status_name="INTERNAL", code="INTERNAL"),
    of_fcm(500, UNKNOWN, status_name="INTERNAL"),
    of_fcm(500, TRANSIENT, code="UNSPECIFIED_ERROR"),
    of_fcm(
        401, BLOCKED, status_name="UNAUTHENTICATED", code="THIRD_PARTY_AUTH_ERROR", scope=IDENTITY
    ),
    of_fcm(401, BLOCKED, status_name="UNAUTHENTICATED", code="APNS_AUTH_ERROR", scope=IDENTITY),
    of_fcm(403, BLOCKED, status_name="PERMISSION_DENIED", scope=IDENTITY),
    of_fcm(401, TRANSIENT, status_name="UNAUTHENTICATED"),
    # In no table, or without a body that could be read.
    of_fcm(400, REJECTED, code="MADE_UP_YESTERDAY", unforeseen=True),
    of_fcm(500, UNKNOWN, code="MADE_UP_YESTERDAY", unforeseen=True),
    of_fcm(404, REJECTED, status_name="NOT_FOUND", unforeseen=True),
    *(
        Row(
            name=f"{status} in HTML",
            play=respond(status, b"<!DOCTYPE html>", Content_Type="text/html"),
            code=str(status),
            http_status=status,
            unforeseen=unforeseen,
            **expected(outcome, scope=IDENTITY if outcome == BLOCKED else None),
        )
        for status, outcome, unforeseen in (
            (302, REJECTED, True),
            (401, TRANSIENT, False),
            (403, BLOCKED, False),
            (404, REJECTED, True),
            (408, TRANSIENT, False),
            (429, THROTTLED, True),
            (500, UNKNOWN, False),
            (502, TRANSIENT, False),
            (503, TRANSIENT, False),
            (504, UNKNOWN, False),
        )
    ),
    *COMMON,
    lost("200 without a name", respond(200, {}), "unreadable_answer", http_status=200),
    lost("200 and nothing", EMPTY, "unreadable_answer", http_status=200),
    lost("200 in HTML", HTML, "unreadable_answer", http_status=200),
    lost("200 cut", cut(json.dumps(NAME).encode()), "unreadable_answer", http_status=200),
    lost("200 without end", oversized(NAME), "unreadable_answer", http_status=200),
    lost("404 cut", cut(b"{", 404), "unreadable_answer", http_status=404),
)


def is_to_fcm(received: Received) -> bool:
    return received.target.endswith("/messages:send")


@pytest.fixture(scope="module")
def tokens() -> Generator[Google]:
    with google() as served:
        yield served


@pytest.mark.parametrize("row", FCM_ROWS, ids=lambda row: row.name)
def test_each_answer_of_fcm_comes_to_what_its_table_says(
    row: Row, tokens: Google, owner: psycopg.Connection, database: Database
) -> None:
    def make(url: str) -> PushProvider:
        return provider_at(url, account=tokens.account)

    subject = dataclasses.replace(by_sns(TOKEN, BY_FCM), make=make, counts=is_to_fcm)
    played = conform(row, subject, owner=owner, database=database)
    message = message_in(played.requests[0])
    assert message["android"]["collapse_key"] == str(played.notification.id)
    if row.outcome == REFUSED:
        ((reason, source, _),) = played.facts
        assert (reason, source.partition(":")[0]) == ("invalid", "fcm")


def test_every_rule_of_both_tables_is_played() -> None:
    for rules, rows in ((sns_push.RULES, SNS_ROWS), (fcm.RULES, FCM_ROWS)):
        assert {rule.code for rule in rules} <= {row.code for row in rows}
