"""The ``webhook`` provider: https only but for one origin, stable bytes, its own class table."""

import json
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from functions.core.errors import Misconfigured, SendoffError, Unavailable
from functions.core.evidence import Rank
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
from functions.core.signature import SIGNATURE
from functions.core.suppression import SuppressionReason
from functions.providers.transport import Transport
from functions.providers.webhook import DECLARATION, WebhookProvider
from tests.submissions import NOTIFICATION_ID, submission, submit
from tests.webhooks import hook, provider_at, secrets_for
from tests.wire import Received, Script, answering, peer, resetting, silent

ORIGIN = "http://127.0.0.1:8081"


def outcome_of(script: Script, *, seconds: Sequence[float] = (5.0,)) -> Outcome:
    for patience in seconds:
        with peer(script) as server:
            provider = provider_at(server.url)
            outcome = submit(provider, hook(f"{server.url}/hooks/ok"), seconds=patience)
            if len(server.requests) == 1:
                return outcome
            assert server.requests == []
    raise AssertionError("the request never arrived in time")


def received(**changes: Any) -> Received:
    with peer(answering(204, b"")) as server:
        provider = provider_at(server.url)
        submit(provider, hook(f"{server.url}/hooks/ok?a=b%20c", **changes))
        (request,) = server.requests
    return request


def test_it_honours_keys_and_acceptance_is_delivery() -> None:
    assert (DECLARATION.name, DECLARATION.keyed, DECLARATION.receipts) == ("webhook", True, False)
    for status in (200, 201, 202, 204):
        outcome = outcome_of(answering(status, b"" if status == 204 else b"whatever"))
        assert outcome == Accepted(reference=None, final=True, http_status=status)
        assert outcome.rank == Rank.DELIVERED


def test_the_request_is_an_event_of_type_notification() -> None:
    request = received()
    assert (request.method, request.target) == ("POST", "/hooks/ok?a=b%20c")
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-id"] == str(NOTIFICATION_ID)
    assert abs(int(request.headers["webhook-timestamp"]) - time.time()) < 60
    assert json.loads(request.body) == {
        "type": "notification",
        "timestamp": "2026-01-02T03:04:05+00:00",
        "data": {"order": 7, "é": 1.0},
    }


def test_key_and_body_are_the_same_in_every_attempt() -> None:
    first, second = received(attempt_id=uuid4()), received(attempt_id=uuid4())
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


ROWS: list[tuple[int, type[Outcome]]] = [
    *((status, Rejected) for status in (300, 301, 302, 303, 304, 307, 308)),
    *((status, Rejected) for status in (400, 401, 403, 404, 405, 407, 413, 415, 418, 422, 451)),
    *((status, Transient) for status in (408, 409, 425, 500, 501, 502, 503, 504, 599)),
    (410, Refused),
    (429, Throttled),
]


@pytest.mark.parametrize(("status", "kind"), ROWS)
def test_every_status_has_its_class(status: int, kind: type[Outcome]) -> None:
    with peer(answering()) as elsewhere:
        outcome = outcome_of(answering(status, headers={"Location": elsewhere.url}))
        assert elsewhere.connections == 0
    assert type(outcome) is kind
    assert (outcome.code, outcome.http_status) == (str(status), status)
    assert not outcome.unforeseen


@pytest.mark.parametrize("status", [600, 799, 999])
def test_a_status_that_is_none_is_tried_again_and_counted(status: int) -> None:
    outcome = outcome_of(answering(status))
    assert outcome == Transient(code=str(status), http_status=status, unforeseen=True)


def test_an_endpoint_that_is_gone_asks_never_to_be_called_again() -> None:
    assert outcome_of(answering(410)) == Refused(
        code="410",
        http_status=410,
        suppress=Scope.ENDPOINT,
        reason=SuppressionReason.INVALID,
        source="webhook:410",
    )


def test_a_throttled_endpoint_slows_itself_only() -> None:
    outcome = outcome_of(answering(429, headers={"Retry-After": "9"}))
    assert isinstance(outcome, Throttled)
    assert (outcome.scope, outcome.retry_after_seconds) == (Scope.ENDPOINT, 9)


@pytest.mark.parametrize("script", [silent, resetting])
def test_a_lost_answer_is_unknown(script: Script) -> None:
    assert isinstance(outcome_of(script, seconds=(0.4, 2.0, 10.0)), Unknown)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8082/hooks/ok",
        "http://127.0.0.1/hooks/ok",
        "http://127.0.0.1:80810/hooks/ok",
        "http://user@127.0.0.1:8081/hooks/ok",
        "http://user:pass@127.0.0.1:8081/hooks/ok",
        "http://127.0.0.1:8081@evil.example/hooks/ok",
        "http://127.0.0.1:8081.evil.example/hooks/ok",
        "http://a.127.0.0.1:8081/hooks/ok",
        "http://127.0.0.1:8081\\@evil.example/",
        "http://localhost:8081/hooks/ok",
        "http://127.1:8081/hooks/ok",
        "http://[::ffff:127.0.0.1]:8081/hooks/ok",
        "http://0x7f000001:8081/hooks/ok",
        "http:///hooks/ok",
        "http://",
        "//127.0.0.1:8081/hooks/ok",
        "127.0.0.1:8081/hooks/ok",
        "ftp://127.0.0.1:8081/hooks/ok",
        "file:///etc/passwd",
        " http://127.0.0.1:8081/hooks/ok",
        "http://127.0.0.1:8081/a\r\nX: y",
        "https://user:pass@a.example/",
        "https://a.example:0/",
        "https:///a",
        "",
    ],
)
def test_only_https_and_the_exact_local_origin_may_be_called(url: str) -> None:
    provider = provider_at(ORIGIN)
    with pytest.raises(SendoffError):
        provider.prepare(hook(url))


def test_the_exact_origin_and_any_https_url_may_be_called() -> None:
    provider = provider_at(ORIGIN)
    for url in (
        f"{ORIGIN}/hooks/ok",
        f"{ORIGIN}/",
        "https://a.example/b?c=d",
        "https://a.example:8443/",
    ):
        assert provider.prepare(hook(url)).url == url


def test_the_origin_is_compared_letter_for_letter() -> None:
    provider = provider_at("http://sim.example:8081")
    assert provider.prepare(hook("http://sim.example:8081/a"))
    for url in ("http://SIM.example:8081/a", "http://b.sim.example:8081/a"):
        with pytest.raises(SendoffError):
            provider.prepare(hook(url))


def test_without_a_local_origin_nothing_plain_may_be_called() -> None:
    provider = provider_at()
    for url in (f"{ORIGIN}/hooks/ok", "http://a.example/", "http://"):
        with pytest.raises(SendoffError):
            provider.prepare(hook(url))


def test_content_of_another_channel_is_refused() -> None:
    provider = provider_at()
    with pytest.raises(SendoffError):
        provider.prepare(submission(channel="sms", recipient="+15550100000", content="a"))


@pytest.mark.parametrize("error", [Misconfigured("no secret"), None])
def test_nothing_goes_out_unsigned_and_the_notification_waits(error: SendoffError | None) -> None:
    def secrets(organization_id: UUID) -> Sequence[str]:
        del organization_id
        if error is not None:
            raise error
        return ()

    with peer(answering()) as server:
        provider = WebhookProvider(transport=Transport(), secrets=secrets, local_origin=server.url)
        outcome = submit(provider, hook(f"{server.url}/hooks/ok"))
        assert server.connections == 0
    assert isinstance(outcome, Blocked)
    assert (outcome.code, outcome.scope, outcome.spends) == (
        "no_signing_secret",
        Scope.PROVIDER,
        False,
    )


def test_the_secrets_asked_for_are_the_organizations_own() -> None:
    asked: list[UUID] = []

    def secrets(organization_id: UUID) -> Sequence[str]:
        asked.append(organization_id)
        return secrets_for(organization_id)

    what = hook("https://a.example/")
    provider = WebhookProvider(transport=Transport(), secrets=secrets)
    assert provider.prepare(what).headers[SIGNATURE]
    assert asked == [what.organization_id]


def test_while_its_secret_cannot_be_read_nothing_is_prepared() -> None:
    """It is nothing about the notification, and nothing about its provider: it comes again."""

    def secrets(organization_id: UUID) -> Sequence[str]:
        raise Unavailable

    provider = WebhookProvider(transport=Transport(), secrets=secrets)
    with pytest.raises(Unavailable):
        provider.prepare(hook("https://hook.example/x"))
