"""Events of the domain and schedules: one batch each, however often; what fails is told."""

import json
from typing import Any

import psycopg
import pytest

from functions.claim.claim import Claimer
from functions.core.login import Login
from functions.ingest.event import EVENTS, NOT_REPLACED, SCHEDULES
from functions.runtime.observability import InvocationFailed
from functions.store.connection import Database
from tests.api import email, recorded, start
from tests.doors import (
    RECEIPT,
    Context,
    Doors,
    add_organizations,
    doors_of,
    enqueue,
    ids_of,
    payment_settled,
    requests_of,
    values,
)
from tests.fakes import SECOND_ORGANIZATION, FakeSqs, queues_of, row_of


@pytest.fixture
def doors(owner: psycopg.Connection, database: Database) -> Doors:
    add_organizations(owner)
    return doors_of(database)


def refused(doors: Doors, event: Any) -> list[tuple[str, str]]:
    """Invoke with what must be refused; return each fault that the log tells."""
    with pytest.raises(InvocationFailed):
        doors.invoke(event)
    line = doors.lines[-1]
    assert (line["level"], line["message"]) == ("ERROR", "An event was refused.")
    return [(fault["pointer"], fault["code"]) for fault in line["faults"]]


def test_a_settled_payment_becomes_its_receipt(owner: psycopg.Connection, doors: Doors) -> None:
    told = doors.invoke(recorded("ingest.payment_settled"))
    (id,) = ids_of(owner)
    row = row_of(owner, id)
    assert (row.recipient, row.event_id, row.content) == (
        RECEIPT["recipient"],
        RECEIPT["event_id"],
        RECEIPT["content"],
    )
    assert told == {
        "batch_id": str(row.batch_id), "total_count": 1, "duplicates": 0, "replayed": False,
    }  # fmt: skip
    (line,) = doors.lines
    assert line["batch_id"] == str(row.batch_id)
    assert "ada@" not in doors.log.getvalue()


def test_an_event_that_comes_again_is_answered_as_the_first_time(
    owner: psycopg.Connection, doors: Doors
) -> None:
    event = payment_settled(email(), email("bob@example.com"))
    first = doors.invoke(event)
    assert first["replayed"] is False
    for _ in range(2):
        assert doors.invoke(event) == first | {"replayed": True}
    again = event | {"time": "2026-01-02T03:09:00Z", "detail": event["detail"] | {"attempt": 2}}
    assert doors.invoke(again)["replayed"] is True, "what else the event says does not matter"
    assert len(ids_of(owner)) == 2
    assert values(owner, "SELECT route FROM idempotency_keys") == [EVENTS]


def test_an_event_id_with_other_notifications_is_refused(
    owner: psycopg.Connection, doors: Doors
) -> None:
    doors.invoke(payment_settled(email()))
    assert refused(doors, payment_settled(email(), email())) == [("", "idempotency_key_reused")]
    assert len(ids_of(owner)) == 1


def test_one_payment_by_every_door_and_three_times_is_one_receipt(
    owner: psycopg.Connection, database: Database, doors: Doors
) -> None:
    with owner.transaction(force_rollback=True):
        enqueue(owner, RECEIPT)  # the payment that was not settled after all
    by_sql = enqueue(owner, RECEIPT)
    doors.invoke(payment_settled())
    doors.drain()
    doors.invoke(payment_settled())
    doors.invoke(payment_settled(id="7f1b9f4e-0000-4000-8000-000000000001"))
    enqueue(owner, RECEIPT)
    doors.drain()
    assert start(database).post(RECEIPT).status == 202
    (id,) = ids_of(owner)
    assert {repeats for _, _, repeats, _ in requests_of(owner)} == {id}
    assert by_sql in [request for request, *_ in requests_of(owner)]
    sqs = FakeSqs()
    claimer = Claimer(database=database, queues=queues_of(sqs), leased_by="test")
    for _ in range(3):
        claimer.round()
    assert sqs.ids() == [id]


def test_a_schedule_sends_its_batch_once_each_execution(
    owner: psycopg.Connection, doors: Doors
) -> None:
    event = recorded("ingest.scheduled_batch")
    first = doors.invoke(event)
    assert doors.invoke(event) == first | {"replayed": True}
    assert len(ids_of(owner)) == 2
    assert doors.invoke(event | {"execution_id": "another"})["replayed"] is False
    assert len(ids_of(owner)) == 4
    assert set(values(owner, "SELECT route FROM idempotency_keys")) == {SCHEDULES}
    assert values(owner, "SELECT DISTINCT stream FROM notifications") == ["bulk"]


def test_an_execution_whose_scheduler_replaces_no_keywords_is_told_by_its_invocation(
    owner: psycopg.Connection, doors: Doors
) -> None:
    """Else every execution had one id, and only the first would send."""
    event = recorded("ingest.scheduled_batch") | {"execution_id": NOT_REPLACED}
    one, other = Context(aws_request_id="one"), Context(aws_request_id="other")
    assert [doors.invoke(event, context)["replayed"] for context in (one, one, other)] == [
        False, True, False,
    ]  # fmt: skip
    assert len(ids_of(owner)) == 4


def test_a_keyword_that_is_misspelt_is_refused(doors: Doors) -> None:
    event = recorded("ingest.scheduled_batch") | {"execution_id": "<aws.scheduler.execution_id>"}
    assert refused(doors, event) == [("/execution_id", "not_allowed")]


UNKNOWN = "01900000-0000-7000-8000-00000000dead"
NOT_A_SCHEDULE = [("/execution_id", "required"), ("/organization_id", "required")]
REFUSED: dict[str, tuple[Any, list[tuple[str, str]]]] = {
    "no detail": ({"detail-type": "PaymentSettled", "id": "i"}, [("/detail", "wrong_type")]),
    "no organization": (
        payment_settled(organization_id=None),
        [("/detail/organization_id", "required")],
    ),
    "no organization's form": (
        payment_settled(organization_id="billing"),
        [("/detail/organization_id", "wrong_type")],
    ),
    "an organization of nobody": (
        payment_settled(organization_id=UNKNOWN),
        [("/detail/organization_id", "not_allowed")],
    ),
    "no notifications": (
        payment_settled(notifications=None),
        [("/detail/notifications", "required")],
    ),
    "notifications of another type": (
        payment_settled(notifications={"0": email()}),
        [("/detail/notifications", "wrong_type")],
    ),
    "one bad item among good ones": (
        payment_settled(email(), email("nobody"), email(colour="red")),
        [
            ("/detail/notifications/1/recipient", "invalid_email"),
            ("/detail/notifications/2/*", "unknown_field"),
        ],
    ),
    "a member named like an address": (
        payment_settled(email(metadata={"a" * 65: "x"}) | {"eve@example.com": 1}),
        [
            ("/detail/notifications/0/metadata/*", "too_long"),
            ("/detail/notifications/0/*", "unknown_field"),
        ],
    ),
    "text that cannot be kept": (
        payment_settled(email(content="a\0b")),
        [("/detail/notifications/0/content", "not_encodable")],
    ),
    "a number beyond all": (
        payment_settled(email(content=float("inf"))),
        [("/detail/notifications/0/content", "not_encodable")],
    ),
    "no id": (payment_settled() | {"id": None}, [("/id", "required")]),
    "an id that is no key": (payment_settled() | {"id": "a b"}, [("/id", "not_allowed")]),
    "an empty event": (
        {},
        [("/execution_id", "required"), ("/organization_id", "required")],
    ),
    "another event": (
        recorded("claim.scheduled"),
        [("/detail/organization_id", "required")],
    ),
    "a schedule with another member": (
        recorded("ingest.scheduled_batch") | {"batch": 1},
        [("/*", "unknown_field")],
    ),
    "a number that is none": (
        payment_settled(
            {
                "channel": "webhook",
                "recipient": "https://a.example/x",
                "content": {"x": [1, float("nan")]},
            }
        ),
        [("/detail/notifications/0/content/*/1", "not_encodable")],
    ),
    "a number below all": (
        recorded("ingest.scheduled_batch")
        | {"notifications": [email(metadata={"a": float("-inf")})]},
        [("/notifications/0/metadata/*", "not_encodable")],
    ),
    "an event that wishes for a drain, too": (
        payment_settled() | {"drain": True},
        [("/drain", "unknown_field")],
    ),
    "an event that is a request, too": (
        payment_settled() | recorded("ingest.batch"),
        [("/requestContext", "unknown_field")],
    ),
    "a schedule that wishes for a drain, too": (
        recorded("ingest.scheduled_batch") | {"drain": True},
        [("/drain", "unknown_field")],
    ),
    "a schedule that is a request, too": (
        recorded("ingest.scheduled_batch") | {"requestContext": {"http": {}}},
        [("/requestContext", "unknown_field")],
    ),
    **{
        f"{what} for a drain": (
            {"drain": json.loads(what)},
            [("/drain", "unknown_field"), *NOT_A_SCHEDULE],
        )
        for what in ("false", "null", "1", '"true"', "{}")
    },
    "a drain and more": (
        {"drain": True, "requestContext": {}},
        [("/drain", "unknown_field"), ("/requestContext", "unknown_field"), *NOT_A_SCHEDULE],
    ),
    **{
        f"{event!r} for an event": (event, [("", "wrong_type")])
        for event in (
            None,
            True,
            7,
            0.5,
            "",
            "drain",
            "requestContext",
            [],
            ["drain"],
            ["requestContext"],
            [{"drain": True}],
            [payment_settled()],
        )
    },
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_taken_in_fails_and_is_told_without_a_value(
    owner: psycopg.Connection, doors: Doors, what: str
) -> None:
    event, faults = REFUSED[what]
    assert sorted(refused(doors, event)) == sorted(faults)
    assert ids_of(owner) == []
    said = doors.log.getvalue()
    assert [word for word in ("example.com", "receipt", "aaaa") if word in said] == []


def test_nesting_without_end_is_refused(doors: Doors) -> None:
    deep: Any = []
    for _ in range(2000):
        deep = [deep]
    event = payment_settled(email(content=deep))
    assert refused(doors, event) == [("/detail/notifications", "not_allowed")]


def test_a_conflicting_event_id_of_an_item_is_told_where_it_stands(
    owner: psycopg.Connection, doors: Doors
) -> None:
    doors.invoke(payment_settled())
    event = payment_settled(email(), RECEIPT | {"content": "Other words"}, id="another")
    assert refused(doors, event) == [("/detail/notifications/1/event_id", "event_id_conflict")]
    assert len(ids_of(owner)) == 1, "all of it or nothing"


def test_the_same_event_of_two_organizations_is_two(
    owner: psycopg.Connection, doors: Doors
) -> None:
    doors.invoke(payment_settled())
    doors.invoke(payment_settled(organization_id=str(SECOND_ORGANIZATION)))
    organizations = "SELECT count(DISTINCT organization_id) FROM notifications"
    assert values(owner, organizations) == [2]


def test_an_outage_fails_the_event_so_that_it_comes_again(
    owner: psycopg.Connection, login: Login, database: Database
) -> None:
    add_organizations(owner)

    def refuse() -> psycopg.Connection:
        raise psycopg.OperationalError("connection refused")

    doors = doors_of(Database(refuse))
    with pytest.raises(InvocationFailed):
        doors.invoke(payment_settled())
    assert doors.lines[-1]["error"] == "Unavailable"
    assert doors_of(database).invoke(payment_settled())["replayed"] is False


@pytest.mark.parametrize(
    "change",
    [
        {"version": "1.0"},
        {"version": None},
        {"routeKey": None},
        {"requestContext": None},
        {"requestContext": {}},
        {"requestContext": {"http": None}},
        {"requestContext": ["http"]},
        {"notifications": [RECEIPT]},
        {"organization_id": str(SECOND_ORGANIZATION)},
        {"execution_id": "e"},
        {"detail": {}, "detail-type": "PaymentSettled"},
        {"drain": True},
    ],
    ids=str,
)
def test_what_only_looks_like_a_request_is_served_for_nobody(
    owner: psycopg.Connection, doors: Doors, change: dict[str, Any]
) -> None:
    """An event may say who the caller is as it likes: the authorizer has not seen it."""
    refused(doors, recorded("ingest.batch") | change)
    assert ids_of(owner) == []


def test_only_the_exact_wish_drains(owner: psycopg.Connection, doors: Doors) -> None:
    enqueue(owner, RECEIPT)
    for event in ({"drain": 1}, {"drain": True, "more": 1}, ["drain"], "drain"):
        with pytest.raises(InvocationFailed):
            doors.invoke(event)
    assert [request[1] for request in requests_of(owner)] == [True]
    assert doors.invoke({"drain": True})["stored"] == 1


def test_the_api_is_behind_the_same_handler(doors: Doors) -> None:
    answer = doors.invoke(recorded("ingest.health"))
    assert (answer["statusCode"], json.loads(answer["body"])["status"]) == (200, "ok")
