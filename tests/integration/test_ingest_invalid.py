"""Invalid requests by SQL are found by what they asked for, which their rows cannot hold."""

from typing import Any
from uuid import UUID

import psycopg
import pytest
from pydantic import TypeAdapter

from functions.cli.explain_decision import particulars_of_decision
from functions.core.explanation import explain
from functions.ingest import answers
from functions.store.connection import Database
from functions.store.dossier import read_dossier
from functions.store.invalid import FIND_INVALID, MOST
from tests.api import Api, email, start
from tests.doors import doors_of, enqueue
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION
from tests.referring import ADA, add_organizations, erase, publish, put, receipt, refer

PAYMENT = receipt(event_id="payment-7")


@pytest.fixture
def api(database: Database, owner: psycopg.Connection) -> Api:
    add_organizations(owner)
    api = start(database)
    put(api)
    return api


def asked(owner: psycopg.Connection, database: Database, *items: Any) -> list[str]:
    ids = [str(enqueue(owner, item)) for item in items]
    doors_of(database).drain()
    return ids


def listed(api: Api, query: str) -> list[str]:
    reply = api.get("/v1/notifications", query)
    TypeAdapter(answers.NotificationPage).validate_json(reply.text)
    return [one["id"] for one in reply.json["data"]]


def test_an_invalid_request_is_found_by_its_event_and_its_recipient(
    api: Api, owner: psycopg.Connection, database: Database
) -> None:
    other = email(event_id="payment-8", recipient="no address")
    valid = refer(event_id="payment-9")
    bad, literal, good = asked(owner, database, PAYMENT, other, valid)
    assert listed(api, "event_id=payment-7") == [bad]
    assert listed(api, "event_id=payment-8") == [literal]
    assert listed(api, f"recipient_id={ADA}") == [good, bad]
    assert listed(api, f"recipient_id={ADA}&event_id=payment-7") == [bad]
    assert listed(api, f"recipient_id={ADA}&event_id=payment-8") == []
    assert listed(api, f"recipient_id={ADA}&status=pending") == [good]
    assert listed(api, "event_id=payment-7&status=dead&channel=email") == [bad]
    assert listed(api, "event_id=payment-7&channel=sms") == []
    assert listed(api, f"recipient_id={ADA}&limit=1") == [good]
    shown = api.get(f"/v1/notifications/{bad}").json
    TypeAdapter(answers.Notification).validate_python(shown, strict=False)
    (of_list,) = api.get("/v1/notifications", "event_id=payment-7").json["data"]
    for found in (shown, of_list):
        assert (found["event_id"], found["recipient_id"]) == ("payment-7", ADA)
        assert (found["status"], found["reason"]) == ("dead", "invalid")
    stranger = api.having(organization_id=SECOND_ORGANIZATION)
    assert listed(stranger, "event_id=payment-7") == listed(stranger, f"recipient_id={ADA}") == []


def test_the_corrected_request_takes_the_event_and_both_are_found(
    api: Api, owner: psycopg.Connection, database: Database
) -> None:
    (bad,) = asked(owner, database, PAYMENT)
    publish(api)
    (good,) = asked(owner, database, PAYMENT)
    assert api.get(f"/v1/notifications/{good}").json["status"] == "pending"
    assert listed(api, "event_id=payment-7") == [good, bad]
    (duplicate,) = api.post_batch(PAYMENT).json["notifications"]
    assert (duplicate["id"], duplicate["duplicate"]) == (good, True)


def test_what_is_no_event_and_no_recipient_is_not_shown_as_one(
    api: Api, owner: psycopg.Connection, database: Database
) -> None:
    odd: list[Any] = [
        {"event_id": 7, "recipient_id": ["x"]},
        {"event_id": "x" * 129, "recipient_id": "user 1"},
        {"event_id": "", "recipient_id": None, "template": {"name": 7}},
        {"event_id": {"a": 1}, "template": "x"},
        [],
        '"payment-7"',
    ]
    for id in asked(owner, database, *odd):
        shown = api.get(f"/v1/notifications/{id}").json
        assert (shown["reason"], shown["event_id"], shown["recipient_id"]) == (
            "invalid", None, None,
        )  # fmt: skip
    assert listed(api, "event_id=7") == []


def test_an_explanation_shows_what_an_invalid_request_asked_for(
    api: Api, owner: psycopg.Connection, database: Database
) -> None:
    (bad,) = asked(owner, database, PAYMENT)
    dossier = read_dossier(database, notification_id=UUID(bad))
    assert dossier is not None
    told = explain(dossier, now=dossier.now)
    assert told["notification"]["event_id"] == "payment-7"
    assert told["notification"]["recipient_id"] == ADA
    assert told["notification"]["template"] == {"name": "receipt", "version": None}
    assert particulars_of_decision(told) == [
        ("Event", "payment-7"),
        ("Template", "receipt"),
        ("Recipient", ADA),
    ]


def test_what_an_erasure_forgot_is_not_found_any_more(
    api: Api, owner: psycopg.Connection, database: Database
) -> None:
    item = PAYMENT | {"metadata": {"to": "ada@example.com"}}
    (bad,) = asked(owner, database, item)
    erase(api)
    shown = api.get(f"/v1/notifications/{bad}").json
    assert (shown["event_id"], shown["recipient_id"]) == (None, None)
    assert listed(api, "event_id=payment-7") == listed(api, f"recipient_id={ADA}") == []


def test_invalid_requests_are_looked_through_by_their_index(
    api: Api, owner: psycopg.Connection, database: Database
) -> None:
    asked(owner, database, *[PAYMENT] * 3)
    parameters = {
        "organization_id": FIRST_ORGANIZATION,
        "event_id": "payment-7",
        "recipient_id": None,
        "most": MOST,
    }
    explained = owner.execute("EXPLAIN " + FIND_INVALID, parameters, prepare=False).fetchall()
    assert "requests_invalid" in str(explained)
