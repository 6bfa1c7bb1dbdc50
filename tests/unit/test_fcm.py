"""FCM HTTP v1: what goes over the wire, the access token's life, and what each error means."""

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from functions.core.errors import Misconfigured, Unavailable
from functions.core.outcome import (
    Accepted,
    Blocked,
    Outcome,
    Refused,
    Rejected,
    Scope,
    Throttled,
    Transient,
    Unknown,
)
from functions.core.stream import SenderIdentity
from functions.providers.fcm import RULES, declined
from functions.providers.provider import Submission
from functions.providers.push import PushProvider
from functions.providers.transport import Response
from tests.pushing import (
    BY_FCM,
    PROJECT,
    TOKEN,
    Fcm,
    Google,
    Reply,
    fcm_error,
    google,
    message_in,
    provider_at,
    replying,
    resetting,
)
from tests.submissions import submission, submit
from tests.wire import answering, peer, silent

REFUSED_TOKEN = fcm_error(401, status_name="UNAUTHENTICATED", message="Expected OAuth 2 access")


@pytest.fixture
def tokens() -> Generator[Google]:
    with google() as served:
        yield served


def push(
    content: Any = "Hello", *, sender: SenderIdentity = BY_FCM, token: str = TOKEN
) -> Submission:
    what = submission(channel="push", recipient=token, content=content)
    return dataclasses.replace(what, sender=sender)


def outcome_of(reply: Reply, tokens: Google) -> Outcome:
    """Return what FCM's ``reply`` means: one request, whatever comes."""
    fcm = Fcm(replies={TOKEN: reply})
    with peer(fcm.serve) as server:
        outcome = submit(provider_at(server.url, account=tokens.account), push())
        assert len(fcm.asked) == 1
    return outcome


def test_a_message_goes_to_its_project_under_an_access_token(tokens: Google) -> None:
    fcm = Fcm()
    with peer(fcm.serve) as server:
        outcome = submit(
            provider_at(server.url, account=tokens.account), push({"title": "T", "body": "é"})
        )
    (asked,) = fcm.asked
    assert (asked.method, asked.target) == ("POST", f"/v1/projects/{PROJECT}/messages:send")
    assert asked.headers["authorization"] == "Bearer access-1"
    assert asked.headers["content-type"] == "application/json"
    message = message_in(asked)
    assert message["token"] == TOKEN
    assert message["notification"] == {"title": "T", "body": "é"}
    assert "é".encode() in asked.body
    assert outcome == Accepted(
        reference=f"projects/{PROJECT}/messages/0:1", final=False, http_status=200
    )


def test_a_project_is_no_way_to_another_path(tokens: Google) -> None:
    fcm = Fcm()
    sender = SenderIdentity(settings={"project_id": "../x?y#z"})
    with peer(fcm.serve) as server:
        submit(provider_at(server.url, account=tokens.account), push(sender=sender))
    assert fcm.asked[0].target == "/v1/projects/..%2Fx%3Fy%23z/messages:send"


def test_one_access_token_serves_until_shortly_before_its_end(tokens: Google) -> None:
    fcm = Fcm()
    with peer(fcm.serve) as server:
        provider = provider_at(server.url, account=tokens.account)
        for _ in range(3):
            submit(provider, push())
        assert tokens.asked == 1
        tokens.expires_in = 60  # less than google-auth wants to be left
        provider = provider_at(server.url, account=tokens.account)
        for _ in range(2):
            submit(provider, push())
    assert tokens.asked == 3


def test_the_token_is_got_before_the_call_and_never_within_it(tokens: Google) -> None:
    fcm = Fcm()
    with peer(fcm.serve) as server:
        provider = provider_at(server.url, account=tokens.account)
        call = provider.prepare(push())
        assert (tokens.asked, fcm.asked) == (1, [])
        tokens.reply = replying(500, b"")
        assert isinstance(provider.submit(call, deadline=_soon()), Accepted)
    assert tokens.asked == 1


def test_access_tokens_and_keys_show_in_no_representation(tokens: Google) -> None:
    provider = provider_at("http://127.0.0.1:1", account=tokens.account)
    shown = repr(provider.prepare(push()))
    assert "access-1" not in shown
    assert "PRIVATE KEY" not in shown


def test_a_refused_token_is_replaced_once_then_the_account_is_to_blame(tokens: Google) -> None:
    with peer(answering(401, json.dumps(REFUSED_TOKEN).encode())) as server:
        provider = provider_at(server.url, account=tokens.account)
        first = submit(provider, push())
        assert isinstance(first, Transient)
        assert (first.code, first.http_status) == ("UNAUTHENTICATED", 401)
        for _ in range(2):
            again = submit(provider, push())
            assert isinstance(again, Blocked)
            assert again.scope == Scope.SENDER_IDENTITY
    assert tokens.asked == 3, "each look is with a token of its own"


def test_a_token_that_passed_may_be_refused_once_more(tokens: Google) -> None:
    fcm = Fcm(replies={"refused": replying(401, REFUSED_TOKEN)})
    with peer(fcm.serve) as server:
        provider = provider_at(server.url, account=tokens.account)
        assert isinstance(submit(provider, push(token="refused")), Transient)
        assert isinstance(submit(provider, push()), Accepted)
        assert isinstance(submit(provider, push(token="refused")), Transient)
        assert isinstance(submit(provider, push(token="refused")), Blocked)


def test_a_set_that_is_refused_under_one_token_is_refused_once(tokens: Google) -> None:
    with peer(answering(401, json.dumps(REFUSED_TOKEN).encode())) as server:
        provider = provider_at(server.url, account=tokens.account)
        calls = [provider.prepare(push()) for _ in range(5)]
        with ThreadPoolExecutor(5) as threads:
            ended = [threads.submit(provider.submit, call, deadline=_soon()) for call in calls]
            outcomes = [one.result() for one in ended]
    assert {type(outcome) for outcome in outcomes} == {Transient}
    assert tokens.asked == 1


def test_a_permission_that_is_missing_is_no_fault_of_the_token(tokens: Google) -> None:
    denied = fcm_error(403, status_name="PERMISSION_DENIED", message="Permission denied")
    outcome = outcome_of(replying(403, denied), tokens)
    assert isinstance(outcome, Blocked)
    assert (outcome.code, outcome.scope) == ("PERMISSION_DENIED", Scope.SENDER_IDENTITY)


@pytest.mark.parametrize(
    ("reply", "code", "detail"),
    [
        (replying(400, {"error": "invalid_grant", "error_description": "x@y.z"}),
         "access_token_refused", "invalid_grant"),
        (replying(401, b"<html>"), "access_token_refused", "RefreshError"),
        (replying(200, {"no": "token"}), "access_token_refused", "RefreshError"),
        (replying(200, b"<html>"), "no_access_token", "TypeError"),
        (replying(500, b""), "no_access_token", "TransportError"),
        (replying(503, b""), "no_access_token", "TransportError"),
        (replying(429, b""), "no_access_token", "TransportError"),
        (resetting, "no_access_token", "TransportError"),
    ],
)  # fmt: skip
def test_without_an_access_token_nothing_is_sent_and_nobody_waits_twice(
    reply: Reply, code: str, detail: str, tokens: Google
) -> None:
    tokens.reply = reply
    fcm = Fcm()
    with peer(fcm.serve) as server:
        provider = provider_at(server.url, account=tokens.account)
        outcomes = [submit(provider, push()) for _ in range(3)]
    assert {*outcomes} == {Blocked(code=code, detail=detail, scope=Scope.SENDER_IDENTITY)}
    assert (tokens.asked, fcm.asked) == (1, [])


def raising(error: Exception) -> Callable[[], Mapping[str, Any]]:
    def account() -> Mapping[str, Any]:
        raise error

    return account


@pytest.mark.parametrize(
    ("account", "code"),
    [
        (dict, "not_configured"),
        (lambda: {"client_email": "a", "token_uri": "b", "private_key": "c"}, "not_configured"),
        (raising(Misconfigured("no secret")), "not_configured"),
        (raising(Unavailable()), "no_access_token"),
    ],
)
def test_without_a_service_account_it_waits(
    account: Callable[[], Mapping[str, Any]], code: str
) -> None:
    provider = provider_at("http://127.0.0.1:1", account=account)
    outcome = submit(provider, push())
    assert isinstance(outcome, Blocked)
    assert (outcome.code, outcome.scope) == (code, Scope.SENDER_IDENTITY)


def _json(body: dict[str, Any], status: int) -> Response:
    return Response(status=status, headers={}, body=json.dumps(body).encode(), complete=True)


INVALID = {"status_name": "INVALID_ARGUMENT"}


@pytest.mark.parametrize(
    ("status", "body", "kind", "source"),
    [
        (404, fcm_error(404, status_name="NOT_FOUND", code="UNREGISTERED"), Refused,
         "fcm:unregistered"),
        (404, fcm_error(404, status_name="NOT_FOUND", code="unregistered"), Refused,
         "fcm:unregistered"),
        (404, fcm_error(404, status_name="NOT_FOUND", message="NotRegistered"), Refused,
         "fcm:unregistered"),
        (404, fcm_error(404, status_name="NOT_FOUND"), Rejected, None),
        (400, fcm_error(400, code="INVALID_ARGUMENT", fields=["message.token"], **INVALID),
         Refused, "fcm:invalid_token"),
        (400, fcm_error(400, fields=["message.token"], **INVALID), Refused, "fcm:invalid_token"),
        (400, fcm_error(400, code="INVALID_ARGUMENT", **INVALID), Refused, "fcm:invalid_token"),
        (400, fcm_error(400, **INVALID), Rejected, None),
        (400, fcm_error(400, fields=["message.data[0].value"], **INVALID), Rejected, None),
        (400, fcm_error(400, code="INVALID_ARGUMENT", fields=["message"], **INVALID), Rejected,
         None),
        (403, fcm_error(403, status_name="PERMISSION_DENIED", code="SENDER_ID_MISMATCH"), Rejected,
         None),
    ],
)  # fmt: skip
def test_h3_only_what_is_said_of_the_token_kills_it(
    status: int, body: dict[str, Any], kind: type[Outcome], source: str | None, tokens: Google
) -> None:
    outcome = outcome_of(replying(status, body), tokens)
    assert isinstance(outcome, kind)
    assert getattr(outcome, "source", None) == source


def test_the_other_spelling_of_an_error_code_is_read_too() -> None:
    detail = {"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError"}
    body = {"error": {"status": "NOT_FOUND", "details": [{**detail, "error_code": "UNREGISTERED"}]}}
    assert declined(_json(body, 404)).code == "UNREGISTERED"


def test_what_is_wrong_with_a_request_is_named_in_the_ledger(tokens: Google) -> None:
    body = fcm_error(400, fields=["message.data[0].value"], **INVALID)
    outcome = outcome_of(replying(400, body), tokens)
    assert outcome.detail == "message.data[0].value"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'{"error": []}',
        b'{"error": {"status": 7, "details": {}}}',
        b'{"error": {"details": [7, {"@type": 8}], "message": ["x"]}}',
        b'{"error": {"status": "A\\u0000B"}}',
        b'{"error": {"status": "\\ud800"}}',
        b"[" * 60_000,
        b"\xff\xfe",
    ],
)
def test_an_error_of_any_shape_has_its_http_status_for_a_code(body: bytes) -> None:
    answer = Response(status=418, headers={}, body=body, complete=True)
    assert declined(answer).code == "418"


def test_an_invented_code_is_marked_and_taken_conservatively(tokens: Google) -> None:
    known = {rule.code for rule in RULES}
    for status, kind in ((418, Rejected), (555, Unknown)):
        body = fcm_error(status, status_name="ABORTED", code="MADE_UP_YESTERDAY")
        outcome = outcome_of(replying(status, body), tokens)
        assert isinstance(outcome, kind)
        assert (outcome.code, outcome.unforeseen) == ("MADE_UP_YESTERDAY", True)
        assert outcome.code not in known


def test_a_device_that_gets_too_much_slows_nobody_else(tokens: Google) -> None:
    exhausted = {"status_name": "RESOURCE_EXHAUSTED", "code": "QUOTA_EXCEEDED"}
    of_device = fcm_error(429, message="Device message rate exceeded", **exhausted)
    of_project = fcm_error(429, message="Quota exceeded", **exhausted)
    for body, scope in ((of_device, Scope.DESTINATION), (of_project, Scope.PROVIDER)):
        outcome = outcome_of(replying(429, body, Retry_After="120"), tokens)
        assert isinstance(outcome, Throttled)
        assert (outcome.scope, outcome.retry_after_seconds) == (scope, 120)


def test_a_hanging_token_service_ends_at_its_own_deadline(tokens: Google) -> None:
    released = threading.Event()

    def reply(wire: Any) -> None:
        wire.wait_until_gone()
        released.set()

    tokens.reply = reply
    outcome = submit(provider_at("http://127.0.0.1:1", account=tokens.account), push())
    assert isinstance(outcome, Blocked)
    assert outcome.code == "no_access_token"
    assert released.wait(10)


def test_a_call_that_breaks_in_our_own_hands_is_unknown(tokens: Google) -> None:
    with peer(silent) as server:
        provider: PushProvider = provider_at(server.url, account=tokens.account)
        broken: Any = object()
        outcome = provider.submit(broken, deadline=_soon())
    assert outcome == Unknown(code="internal_error", detail="AttributeError")


def _soon() -> float:
    return time.monotonic() + 5
