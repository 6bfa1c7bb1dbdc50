"""FAULTS H3: one dead device ends nothing for the others, and is not asked again."""

import dataclasses
from collections.abc import Generator
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.outcome import Outcome
from functions.core.stream import SenderIdentity
from functions.providers.provider import Submission
from functions.providers.push import PushProvider
from functions.providers.push_declaration import DECLARATION
from functions.store.connection import Database
from functions.store.survey import promote
from tests.fakes import add_notifications, row_of
from tests.pushing import (
    BY_FCM,
    BY_SNS,
    ENDPOINT,
    Fcm,
    Google,
    Sns,
    error,
    fcm_error,
    google,
    message_in,
    provider_at,
    replying,
    set_credentials,
)
from tests.sending import records_of, sender
from tests.steps import lease, now_of
from tests.wire import peer

UNREGISTERED = fcm_error(404, status_name="NOT_FOUND", code="UNREGISTERED")
BUSY = fcm_error(503, status_name="UNAVAILABLE", code="UNAVAILABLE")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Identified:
    """The provider, for a stream that sends as ``identity``."""

    provider: PushProvider
    identity: SenderIdentity
    declaration: Any = DECLARATION

    def prepare(self, submission: Submission) -> Any:
        return self.provider.prepare(dataclasses.replace(submission, sender=self.identity))

    def submit(self, call: Any, *, deadline: float) -> Outcome:
        return self.provider.submit(call, deadline=deadline)


@pytest.fixture
def tokens() -> Generator[Google]:
    with google() as served:
        yield served


def add(owner: psycopg.Connection, recipient: str, content: Any = "Hello") -> UUID:
    (id,) = add_notifications(owner, channel="push", recipient=recipient, content=content)
    return id


def deliver(database: Database, provider: Identified, *, now: datetime | None = None) -> None:
    promote(database, now=now)
    with sender(database, provider, channel="push") as one:
        report = one.deliver(records_of(lease(database, channel="push", now=now)))
    assert (report.failed, report.errors) == ([], [])


def facts(owner: psycopg.Connection) -> list[Any]:
    return owner.execute("SELECT recipient, reason, source FROM suppressions").fetchall()


def test_h3_a_dead_token_a_good_one_and_a_busy_service_each_end_by_themselves(
    owner: psycopg.Connection, database: Database, tokens: Google
) -> None:
    dead, good, busy = (add(owner, token) for token in ("dead", "good", "busy"))
    fcm = Fcm(replies={"dead": replying(404, UNREGISTERED), "busy": replying(503, BUSY)})
    with peer(fcm.serve) as server:
        provider = Identified(
            provider=provider_at(server.url, account=tokens.account), identity=BY_FCM
        )
        deliver(database, provider)
        assert [row_of(owner, id).status for id in (dead, good, busy)] == [
            "suppressed",
            "unconfirmed",
            "pending",
        ]
        assert facts(owner) == [("dead", "invalid", "fcm:unregistered")]
        fcm.replies.pop("busy")
        again = add(owner, "dead")
        deliver(database, provider, now=now_of(owner, hours=1))
    assert row_of(owner, busy).status == "unconfirmed"
    assert row_of(owner, again).status == "suppressed"
    assert [fcm.times(token) for token in ("dead", "good", "busy")] == [1, 1, 2]


def test_h3_a_message_that_is_wrong_is_held_and_deletes_no_token(
    owner: psycopg.Connection, database: Database, tokens: Google
) -> None:
    wrong = fcm_error(400, status_name="INVALID_ARGUMENT")
    fcm = Fcm(replies={"token-1": replying(400, wrong)})
    id = add(owner, "token-1")
    with peer(fcm.serve) as server:
        provider = Identified(
            provider=provider_at(server.url, account=tokens.account), identity=BY_FCM
        )
        deliver(database, provider)
        fcm.replies.clear()
        other = add(owner, "token-1")
        deliver(database, provider)
    assert (row_of(owner, id).status, row_of(owner, id).reason) == ("dead", "rejected")
    assert row_of(owner, other).status == "unconfirmed"
    assert (facts(owner), fcm.times("token-1")) == ([], 2)


def test_h3_text_that_is_too_long_arrives_cut_and_data_that_is_too_large_is_held(
    owner: psycopg.Connection, database: Database, tokens: Google
) -> None:
    texts = ("é" * 3000, "😀" * 1500)
    ids = [add(owner, f"token-{number}", text) for number, text in enumerate(texts)]
    large = add(owner, "large", {"body": "B", "data": {"a": "x" * 5000}})
    fcm = Fcm()
    with peer(fcm.serve) as server:
        provider = Identified(
            provider=provider_at(server.url, account=tokens.account), identity=BY_FCM
        )
        deliver(database, provider)
    assert [row_of(owner, id).status for id in ids] == ["unconfirmed", "unconfirmed"]
    held = row_of(owner, large)
    assert (held.status, held.reason) == ("dead", "rejected")
    assert all(len(asked.body) <= 4096 for asked in fcm.asked)
    bodies = [message_in(asked)["notification"]["body"] for asked in fcm.asked]
    assert {frozenset(body) for body in bodies} == {frozenset("é…"), frozenset("😀…")}


def test_h3_a_disabled_endpoint_is_not_published_to_again(
    owner: psycopg.Connection, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_credentials(monkeypatch)
    sns = Sns(replies={"Publish": replying(400, error("EndpointDisabled", "Endpoint is disabled"))})
    first = add(owner, ENDPOINT)
    with peer(sns.serve) as server:
        provider = Identified(provider=provider_at(server.url), identity=BY_SNS)
        deliver(database, provider)
        second = add(owner, ENDPOINT)
        deliver(database, provider)
    assert [row_of(owner, id).status for id in (first, second)] == ["suppressed", "suppressed"]
    assert sns.actions == ["Publish"]
    assert facts(owner) == [(ENDPOINT, "invalid", "sns:publish")]
