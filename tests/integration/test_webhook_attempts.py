"""A webhook over several attempts: one id and one body, a signature of each attempt's own."""

from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from standardwebhooks.webhooks import Webhook

from functions.core.login import Login
from functions.store.connection import Database
from tests.fakes import add_notifications, row_of
from tests.operating import operating, requeued
from tests.sending import records_of, sender
from tests.steps import lease, now_of
from tests.webhooks import provider_at, secrets_for
from tests.wire import Script, Wire, hanging_up, peer, resetting

BE_DUE = "UPDATE notifications SET available_at = %s, eligible_at = %s, ready = true WHERE id = %s"


def in_turn(*scripts: Script) -> Script:
    """Return a script that plays the next one for each connection, and the last one from then."""
    played: list[Script] = []

    def script(wire: Wire) -> None:
        current = scripts[min(len(played), len(scripts) - 1)]
        played.append(current)
        current(wire)

    return script


def closing(status: int) -> Script:
    """Answer one request, and close: every attempt has a connection of its own."""

    def script(wire: Wire) -> None:
        wire.read_request()
        wire.answer(status, b"", {"Connection": "close"})

    return script


def attempt(owner: psycopg.Connection, database: Database, id: UUID, url: str) -> None:
    """Make the notification due, and one attempt of it."""
    due = now_of(owner) - timedelta(seconds=1)
    owner.execute(BE_DUE, [due, due, id])
    with sender(database, provider_at(url), channel="webhook") as one:
        report = one.deliver(records_of(lease(database, channel="webhook")))
    assert report.errors == []


@pytest.mark.parametrize(
    "first",
    [hanging_up, resetting, closing(503), closing(409), closing(408), closing(429)],
    ids=["closed", "reset", "503", "409", "408", "429"],
)
def test_every_attempt_has_the_same_id_and_body_and_is_signed_anew(
    owner: psycopg.Connection, database: Database, first: Script
) -> None:
    with peer(in_turn(first, closing(204))) as server:
        (id,) = add_notifications(
            owner, channel="webhook", recipient=f"{server.url}/hook", content={"a": "é"}
        )
        attempt(owner, database, id, server.url)
        assert row_of(owner, id).status == "pending"
        attempt(owner, database, id, server.url)
        one, other = server.requests
    assert row_of(owner, id).status == "delivered"
    assert one.headers["webhook-id"] == other.headers["webhook-id"] == str(id)
    assert one.body == other.body
    (secret,) = secrets_for(row_of(owner, id).organization_id)
    for request in (one, other):
        Webhook(secret).verify(request.body, request.headers)


def test_what_is_requeued_after_a_refusal_is_new_to_the_receiver(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    with peer(in_turn(closing(400), closing(204))) as server, operating(login) as operator:
        (id,) = add_notifications(
            owner, channel="webhook", recipient=f"{server.url}/hook", content={"a": 1}
        )
        attempt(owner, database, id, server.url)
        assert row_of(owner, id).status == "dead"
        assert requeued(operator, id) == ["requeued"]
        attempt(owner, database, id, server.url)
        assert [request.headers["webhook-id"] for request in server.requests] == [
            str(id),
            f"{id}_1",
        ]
    assert row_of(owner, id).status == "delivered"
