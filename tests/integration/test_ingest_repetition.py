"""What was accepted once is a repetition for ever, whatever became of what it refers to."""

import contextlib
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from functions.core.login import Login
from functions.store.connection import Database
from functions.store.known import FIND_KNOWN
from tests.api import Api, email, start
from tests.doors import doors_of, enqueue, payment_settled, pointers, requests_of, values
from tests.fakes import FIRST_ORGANIZATION
from tests.referring import (
    DATA,
    add_organizations,
    archive,
    counting,
    dry_run,
    erase,
    publish,
    put,
    receipt,
    refer,
)
from tests.words import document

PAYMENT = receipt(event_id="payment-7")
NEEDS_MORE = document(
    email={"en": {"subject": "Receipt", "text": "{{ name }} {{ total }} {{ tax }}"}},
    sms={"en": {"text": "{{ tax }}"}},
)
SEVERAL: dict[str, Any] = {"channel": None, "channels": ["email", "sms"]}


@pytest.fixture
def known(database: Database, owner: psycopg.Connection) -> Api:
    """The API with Ada and the receipt."""
    add_organizations(owner)
    api = start(database)
    put(api)
    assert publish(api) == 1
    return api


def _needs_more(api: Api) -> None:
    assert publish(api, NEEDS_MORE) == 2


def _archive_and_erase(api: Api) -> None:
    archive(api)
    erase(api)


CHANGES: dict[str, Callable[[Api], None]] = {
    "archived": archive,
    "erased": erase,
    "a newer version needs more": _needs_more,
    "archived and erased": _archive_and_erase,
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_known_event_is_a_duplicate_at_every_door_whatever_became_of_its_references(
    known: Api, database: Database, owner: psycopg.Connection, what: str
) -> None:
    several = receipt(event_id="payment-8", **SEVERAL)
    first = known.post(PAYMENT).json["id"]
    parent = known.post(several).json["id"]
    before = values(owner, "SELECT id FROM notifications ORDER BY id")
    CHANGES[what](known)
    batch = known.post_batch(email(), PAYMENT, several, PAYMENT)
    assert batch.status == 202, batch
    new, *known_ones = batch.json["notifications"]
    assert [(one["id"], one["duplicate"]) for one in known_ones] == [
        (first, True),
        (parent, True),
        (first, True),
    ]
    single = known.post(PAYMENT)
    assert (single.status, single.json["id"]) == (202, first)
    enqueued = enqueue(owner, PAYMENT)
    doors = doors_of(database)
    assert doors.drain() == {"drained": True, "stored": 0, "repeated": 1, "invalid": 0}
    assert [str(repeats) for id, _, repeats, _ in requests_of(owner) if id == enqueued] == [first]
    detail = {"organization_id": str(FIRST_ORGANIZATION)}
    doors.invoke(payment_settled(PAYMENT, several, id="again", **detail))
    assert dry_run(known, PAYMENT, several).status == 200
    after = values(owner, "SELECT id FROM notifications ORDER BY id")
    assert [str(id) for id in after if id not in before] == [new["id"]]


OTHERS: list[dict[str, Any]] = [
    receipt(DATA | {"total": "13.00"}, event_id="payment-7"),
    receipt(event_id="payment-7", version=1),
    receipt(event_id="payment-7", version=99),
    refer(event_id="payment-7", content=None, template={"name": "no", "data": DATA}),
]


def test_a_known_event_with_other_words_is_a_conflict_even_where_they_cannot_be_sent(
    known: Api, database: Database, owner: psycopg.Connection
) -> None:
    assert known.post(PAYMENT).status == 202
    archive(known)
    for item in OTHERS:
        batch, single = known.post_batch(email(), item), known.post(item)
        assert (batch.status, batch.code) == (422, "event_id_conflict")
        assert batch.faults == [("/notifications/1/event_id", "event_id_conflict")]
        assert single.faults == [("/event_id", "event_id_conflict")]
    enqueue(owner, OTHERS[0])
    assert doors_of(database).drain()["invalid"] == 1
    ((_, _, _, faults),) = requests_of(owner)
    assert pointers(faults) == [("/event_id", "event_id_conflict")]
    mixed = known.post_batch(OTHERS[0], receipt(event_id="new"), PAYMENT)
    assert mixed.code == "validation_failed"
    assert mixed.faults == [
        ("/notifications/0/event_id", "event_id_conflict"),
        ("/notifications/1/template/name", "unknown_template"),
    ]
    assert values(owner, "SELECT count(*) FROM notifications WHERE status = 'pending'") == [1]


def test_a_key_is_kept_for_a_repetition_as_for_anything_else(known: Api) -> None:
    first = known.post(PAYMENT).json["id"]
    archive(known)
    accepted = known.post(PAYMENT, key="k")
    again = known.post(PAYMENT, key="k")
    assert accepted.json["id"] == first
    assert (again.text, again.headers["idempotent-replayed"]) == (accepted.text, "true")
    assert known.post(receipt(event_id="payment-9"), key="k").code == "idempotency_key_reused"


def test_an_event_is_another_one_where_a_number_is_written_in_another_way(known: Api) -> None:
    """As for an idempotency key, and as in the words."""

    def hook(number: float, event_id: str = "e") -> dict[str, Any]:
        content = {"n": number}
        recipient = "https://hooks.example.com/a"
        return email(recipient, channel="webhook", content=content, event_id=event_id)

    def total(number: float) -> dict[str, Any]:
        return receipt(DATA | {"total": number}, event_id="t")

    for one, other in ((hook(1), hook(1.0)), (total(1), total(1.0))):
        assert known.post(one).json["id"] == known.post(one).json["id"]
        assert known.post(other).code == "event_id_conflict"
    reordered = email(content={"text": "a", "subject": "b"}, event_id="e")
    assert known.post(reordered).status == 202
    body = email(content={"subject": "b", "text": "a"}, event_id="e")
    assert known.post_batch(body).json["notifications"][0]["duplicate"] is True


def test_events_are_looked_up_at_once_and_only_where_something_would_be_refused(
    known: Api, login: Login, owner: psycopg.Connection
) -> None:
    items = [receipt(event_id=f"e-{n}") for n in range(1000)]
    statements: list[str] = []
    with contextlib.closing(Database(counting(login, statements))) as database:
        counted = start(database)
        assert counted.post_batch(*items).status == 202
        assert FIND_KNOWN not in statements
        archive(known)
        again = counted.post_batch(*items).json["notifications"]
    assert all(one["duplicate"] for one in again)
    assert statements.count(FIND_KNOWN) == 2  # once more for those that no row was made of
    assert values(owner, "SELECT count(*) FROM notifications") == [1000]
