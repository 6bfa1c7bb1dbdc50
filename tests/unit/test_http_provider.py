"""The ``http`` provider: what goes to the gateway, and what each of its answers means."""

import base64
import json
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from standardwebhooks.webhooks import Webhook

from functions.core.evidence import Rank
from functions.core.login import GatewayCredentials
from functions.core.outcome import (
    Accepted,
    Blocked,
    Outcome,
    OutcomeName,
    Rejected,
    Scope,
    Throttled,
    Transient,
    Unknown,
)
from functions.core.signature import verify
from functions.providers.http import (
    DECLARATION,
    MAX_REFERENCE_CHARACTERS,
    HttpProvider,
)
from functions.providers.transport import MAX_RESPONSE_BYTES, Transport
from tests.conftest import free_port
from tests.submissions import ATTEMPT_ID, NOTIFICATION_ID, submission, submit
from tests.wire import HOST, Received, Script, answering, hanging_up, peer, resetting, silent

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
PREVIOUS = "whsec_" + base64.b64encode(bytes(range(1, 33))).decode()


def provider(url: str, *, token: str = "", secrets: tuple[str, ...] = (SECRET,)) -> HttpProvider:
    credentials = GatewayCredentials(secrets=secrets, token=token)
    return HttpProvider(url=url, credentials=credentials, transport=Transport())


def outcome_of(script: Script, *, seconds: Sequence[float] = (5.0,)) -> Outcome:
    """Return what a gateway with ``script`` makes of a submission: one request, whatever comes."""
    for patience in seconds:
        with peer(script) as server:
            outcome = submit(provider(f"{server.url}/gateway"), submission(), seconds=patience)
            if len(server.requests) == 1:
                return outcome
            assert server.requests == []
    raise AssertionError("the request never arrived in time")


def received(**arguments: Any) -> Received:
    """Return the request that a gateway gets for a submission."""
    token = arguments.pop("token", "")
    secrets = arguments.pop("secrets", (SECRET,))
    with peer(answering(body=b'{"message_id":"m-1"}')) as server:
        submit(provider(server.url, token=token, secrets=secrets), submission(**arguments))
        (request,) = server.requests
    return request


def test_the_gateway_honours_keys_and_gives_receipts() -> None:
    assert (DECLARATION.name, DECLARATION.keyed, DECLARATION.receipts) == ("http", True, True)


def test_the_body_has_the_five_members_of_the_contract() -> None:
    request = received()
    assert request.method == "POST"
    assert request.headers["content-type"] == "application/json"
    assert json.loads(request.body) == {
        "recipient": "ok@example.com",
        "channel": "email",
        "content": {"subject": "", "text": "Thank you for your order."},
        "notification_id": str(NOTIFICATION_ID),
        "attempt_id": str(ATTEMPT_ID),
    }


@pytest.mark.parametrize(
    ("channel", "recipient", "content", "sent"),
    [
        ("email", "a@example.com", {"subject": "S", "html": "<p>é</p>"}, None),
        ("sms", "+15550100000", "Code 1234", "Code 1234"),
        ("push", "token-1", "Hello", {"title": "", "body": "Hello", "data": {}}),
        ("push", "token-1", {"title": "T", "data": {"a": 1}}, {"title": "T", "body": "",
                                                               "data": {"a": 1}}),
        ("webhook", "https://a.example/", {"b": 1.0, "a": ["é", None]}, None),
    ],
)  # fmt: skip
def test_content_has_one_shape_per_channel(
    channel: str, recipient: str, content: Any, sent: Any
) -> None:
    request = received(channel=channel, recipient=recipient, content=content)
    body = json.loads(request.body)
    assert (body["channel"], body["recipient"]) == (channel, recipient)
    assert body["content"] == (content if sent is None else sent)


def test_the_key_is_the_notifications_own_and_stands_in_quotes() -> None:
    assert received().headers["idempotency-key"] == f'"{NOTIFICATION_ID}"'
    requeued = received(idempotency_key=f"{NOTIFICATION_ID}.2")
    assert requeued.headers["idempotency-key"] == f'"{NOTIFICATION_ID}.2"'


def test_every_attempt_carries_the_same_key() -> None:
    first, second = received(attempt_id=uuid4()), received(attempt_id=uuid4())
    for name in ("idempotency-key", "webhook-id"):
        assert first.headers[name] == second.headers[name]
    assert json.loads(first.body)["attempt_id"] != json.loads(second.body)["attempt_id"]
    assert UUID(json.loads(first.body)["notification_id"]) == NOTIFICATION_ID


def test_the_signature_is_right_for_others_and_for_us_over_the_bytes_sent() -> None:
    """FAULTS E7, outgoing: odd text, a float and raw UTF-8 are signed as they are sent."""
    request = received(
        channel="webhook", recipient="https://a.example/", content={"b": 1.0, "a": "é"}
    )
    assert "é".encode() in request.body
    Webhook(SECRET).verify(request.body, request.headers)
    webhook_id = verify(request.body, headers=request.headers, secrets=[SECRET], now=time.time())
    assert webhook_id == str(NOTIFICATION_ID)


def test_during_a_rotation_a_gateway_may_know_either_secret() -> None:
    request = received(secrets=(SECRET, PREVIOUS))
    for secret in (SECRET, PREVIOUS):
        Webhook(secret).verify(request.body, request.headers)
        verify(request.body, headers=request.headers, secrets=[secret], now=time.time())


def test_a_bearer_token_is_sent_only_when_there_is_one() -> None:
    assert received(token="t-1").headers["authorization"] == "Bearer t-1"
    assert "authorization" not in received().headers


def test_secrets_do_not_show_in_a_representation() -> None:
    shown = repr(provider("https://gateway.example/", token="TOKEN-1"))
    assert SECRET not in shown
    assert "TOKEN-1" not in shown


def test_a_2xx_with_an_id_is_accepted() -> None:
    for status in (200, 201, 202):
        assert outcome_of(answering(status, b'{"message_id":"m-1"}')) == Accepted(
            reference="m-1", final=False, http_status=status
        )


def test_a_2xx_that_says_delivered_is_proof_of_delivery() -> None:
    outcome = outcome_of(answering(body=b'{"message_id":"m-1","status":"delivered"}'))
    assert outcome == Accepted(reference="m-1", final=True, http_status=200)
    assert outcome.rank == Rank.DELIVERED


@pytest.mark.parametrize("status", ["accepted", "queued", None, 7, {"a": 1}])
def test_any_other_status_in_a_2xx_is_acceptance(status: Any) -> None:
    body = json.dumps({"message_id": "m-1", "status": status}).encode()
    assert outcome_of(answering(body=body)) == Accepted(reference="m-1", http_status=200)


TOO_LONG = json.dumps({"message_id": "m" * (MAX_REFERENCE_CHARACTERS + 1)}).encode()
OVERSIZED = json.dumps({"message_id": "m-1", "more": "a" * MAX_RESPONSE_BYTES}).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"OK",
        b"<html></html>",
        b"{",
        b'{"message_id":"m-1"',
        b"[]",
        b'["message_id"]',
        b'"message_id"',
        b"null",
        b"7",
        b"{}",
        b'{"id":"m-1"}',
        b'{"message_id":""}',
        b'{"message_id":null}',
        b'{"message_id":7}',
        b'{"message_id":["m-1"]}',
        b'{"message_id":"m\\u0000"}',
        b'{"message_id":"m\\ud800"}',
        b'{"message_id":"m\\n1"}',
        b"\xff\xfe\x00",
        b"[" * 30_000,
        b"9" * 5000,
        TOO_LONG,
        OVERSIZED,
    ],
)
def test_a_2xx_without_a_usable_id_is_unknown(body: bytes) -> None:
    """FAULTS D3: it was taken, so nothing less than unknown is true."""
    outcome = outcome_of(answering(body=body))
    assert isinstance(outcome, Unknown)
    assert (outcome.code, outcome.http_status) == ("unreadable_answer", 200)


def test_a_2xx_that_is_cut_is_unknown_although_its_json_seems_whole() -> None:
    def cut(wire: Any) -> None:
        wire.read_request()
        wire.send(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"message_id":"m-1"}')

    assert isinstance(outcome_of(cut), Unknown)


ROWS: list[tuple[int, type[Outcome]]] = [
    *((status, Rejected) for status in (300, 301, 302, 303, 304, 307, 308)),
    *((status, Rejected) for status in (400, 402, 404, 405, 406, 410, 411, 412, 413, 414, 415)),
    *((status, Rejected) for status in (418, 422, 451, 499)),
    *((status, Blocked) for status in (401, 403, 407)),
    *((status, Transient) for status in (408, 409, 425)),
    (429, Throttled),
    *((status, Unknown) for status in (500, 501, 502, 503, 504, 520, 599)),
]


@pytest.mark.parametrize(("status", "kind"), ROWS)
def test_every_status_has_its_class(status: int, kind: type[Outcome]) -> None:
    outcome = outcome_of(answering(status, b'{"message_id":"m-1"}', {"Location": "/elsewhere"}))
    assert type(outcome) is kind
    assert (outcome.code, outcome.http_status) == (str(status), status)
    assert outcome.rank == Rank.NONE
    assert outcome.spends is (kind not in (Blocked, Throttled))


@pytest.mark.parametrize("status", [408, 429, 401, 503])
def test_retry_after_is_kept_where_there_is_a_next_time(status: int) -> None:
    outcome = outcome_of(answering(status, headers={"Retry-After": "7"}))
    assert outcome.retry_after_seconds == 7
    assert outcome_of(answering(status)).retry_after_seconds is None


def test_what_slows_or_blocks_is_the_whole_gateway() -> None:
    for status in (429, 401):
        outcome = outcome_of(answering(status))
        assert isinstance(outcome, Throttled | Blocked)
        assert outcome.scope == Scope.PROVIDER


@pytest.mark.parametrize(
    ("script", "code"),
    [(silent, "timeout"), (hanging_up, "connection_lost"), (resetting, "connection_lost")],
)
def test_a_lost_answer_is_unknown(script: Script, code: str) -> None:
    """FAULTS D3: a read timeout or a reset after the request was written is not "not sent"."""
    outcome = outcome_of(script, seconds=(0.4, 2.0, 10.0))
    assert isinstance(outcome, Unknown)
    assert (outcome.code, outcome.name) == (code, OutcomeName.UNKNOWN)


def test_a_refused_connection_is_transient_and_spends() -> None:
    outcome = submit(provider(f"http://{HOST}:{free_port()}/"), submission())
    assert isinstance(outcome, Transient)
    assert (outcome.code, outcome.spends) == ("connection_refused", True)


def test_no_time_left_gives_the_attempt_back() -> None:
    with peer(answering()) as server:
        outcome = submit(provider(server.url), submission(), seconds=0)
        assert isinstance(outcome, Transient)
        assert (outcome.code, outcome.spends) == ("deadline", False)
        assert server.connections == 0


@pytest.mark.parametrize("url", ["", "gateway.example", "/gateway", "ftp://gateway.example/"])
def test_a_channel_without_a_gateway_waits_unspent(url: str) -> None:
    outcome = submit(provider(url), submission())
    assert isinstance(outcome, Blocked)
    assert (outcome.code, outcome.spends, outcome.http_status) == ("not_configured", False, None)
