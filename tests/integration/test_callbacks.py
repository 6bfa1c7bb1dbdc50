"""A gateway's callback: who may send one, what is kept of it, and what it changes."""

import base64
import json
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

from functions.callbacks.receive import MAX_BODY_BYTES
from functions.core.errors import Fault
from functions.core.login import Login
from functions.core.signature import authenticate
from functions.core.strict_json import MAX_FAULTS
from functions.providers.http_report import MAX_REASON_CHARACTERS
from functions.store.connection import Database, connector
from functions.store.receipt import Recorded
from tests.conftest import free_port
from tests.fakes import FIRST_ORGANIZATION, moves_of, row_of
from tests.gateway import Asked, gateway
from tests.reports import (
    PREVIOUS_SECRET,
    add_known,
    receive,
    report,
    signed_event,
    told,
)
from tests.sending import recorded, records_of, sender
from tests.simulated import CALLBACK_SECRET
from tests.steps import begin_one, lease, now_of, opening_of
from tests.wire import Wire

ENDPOINT = "arn:aws:sns:eu-central-1:123456789012:endpoint/GCM/app/" + "a" * 36
NAMES = ["callbacks.delivered", "callbacks.bounced", "callbacks.complained", "callbacks.base64"]


def count(owner: psycopg.Connection, table: str = "receipts") -> int:
    statement = sql.SQL("SELECT count(*)::int FROM {}").format(sql.Identifier(table))
    (row,) = owner.execute(statement).fetchall()
    return row[0]


def bytes_of(event: dict[str, Any]) -> bytes:
    body: str = event["body"]
    return base64.b64decode(body) if event["isBase64Encoded"] else body.encode()


@pytest.mark.parametrize("name", NAMES)
def test_e7_recorded_events_are_signed_over_the_bytes_received(name: str) -> None:
    event = recorded(name)
    signed = authenticate(bytes_of(event), headers=event["headers"], secrets=[CALLBACK_SECRET])
    assert signed.timestamp == event["requestContext"]["timeEpoch"] // 1000


@pytest.mark.parametrize(
    ("name", "status", "complained", "facts"),
    [
        ("callbacks.delivered", "delivered", False, []),
        ("callbacks.bounced", "failed", False, ["hard_bounce"]),
        ("callbacks.complained", "delivered", True, ["complaint"]),
        ("callbacks.base64", "delivered", False, []),
    ],
)
def test_a_recorded_event_about_a_submitted_notification_ends_it(
    owner: psycopg.Connection,
    database: Database,
    name: str,
    status: str,
    complained: bool,
    facts: list[str],
) -> None:
    (id,) = add_known(owner)
    with gateway() as served, sender(database, served.provider()) as one:
        one.deliver(records_of(lease(database)))
    body = bytes_of(recorded(name)).replace(
        b"019b76da-a800-7000-8000-000000000001", str(id).encode()
    )
    answered = receive(database, signed_event(body, name=name))
    assert (answered.status, answered.body) == (202, {})
    assert answered.recorded == Recorded(stored=1, orphaned=0, applied=1, after_zero_submissions=0)
    row = row_of(owner, id)
    assert (row.status, row.complained) == (status, complained)
    found = owner.execute("SELECT reason, kind, organization_id, source FROM suppressions")
    assert found.fetchall() == [
        (fact, "suppress", FIRST_ORGANIZATION, "http:event") for fact in facts
    ]
    (raw,) = owner.execute("SELECT raw FROM receipts").fetchall()
    assert bytes(raw[0]) == body, "the bytes received are kept as they came"


def test_an_unsigned_event_is_refused(owner: psycopg.Connection, database: Database) -> None:
    answered = receive(database, recorded("callbacks.unsigned"))
    assert (answered.status, answered.body["code"]) == (401, "unauthenticated")
    assert count(owner) == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_event_itself_is_too_old_by_now(
    owner: psycopg.Connection, database: Database, name: str
) -> None:
    assert receive(database, recorded(name)).status == 401
    assert count(owner) == 0


def test_the_previous_secret_is_good_and_a_strangers_is_not(
    owner: psycopg.Connection, database: Database
) -> None:
    stranger = "whsec_c3RyYW5nZXItc2VjcmV0LW9mLXRoZS10ZXN0cw=="
    for secrets, status in (
        ([PREVIOUS_SECRET], 202),
        ([stranger, CALLBACK_SECRET], 202),
        ([stranger], 401),
    ):
        event = signed_event(report(idempotency_key="k"), secrets=secrets)
        assert receive(database, event).status == status
    assert count(owner) == 2


@pytest.mark.parametrize(("age", "status"), [(290, 202), (-290, 202), (310, 401), (-310, 401)])
def test_the_age_is_judged_by_the_databases_clock(
    database: Database, age: float, status: int
) -> None:
    event = signed_event(report(idempotency_key="k"), age_seconds=age)
    assert receive(database, event).status == status


def test_a_wrong_signature_is_refused(owner: psycopg.Connection, database: Database) -> None:
    (id,) = add_known(owner)
    for name, value in (
        ("webhook-signature", "v1,AAAA"),
        ("webhook-signature", ""),
        ("webhook-id", "another"),
        ("webhook-id", "\ud800"),
        ("webhook-signature", "\ud800"),
    ):
        event = signed_event(report(idempotency_key=id))
        event["headers"][name] = value
        answered = receive(database, event)
        assert (answered.status, answered.body["code"]) == (401, "unauthenticated")
        assert answered.headers["Content-Type"] == "application/problem+json"
    assert (count(owner), row_of(owner, id).status) == (0, "pending")


def test_a_timestamp_that_is_no_number_is_a_bad_request(
    owner: psycopg.Connection, database: Database
) -> None:
    for stamp in ("", "soon", "NaN", "\ud800", "-1", "1e9"):
        event = signed_event(report(idempotency_key="k"))
        event["headers"]["webhook-timestamp"] = stamp
        assert receive(database, event).status == 400, stamp
    assert count(owner) == 0


def test_one_changed_byte_of_the_body_is_refused(
    owner: psycopg.Connection, database: Database
) -> None:
    for name in ("callbacks.delivered", "callbacks.base64"):
        event = signed_event(report(idempotency_key="k"), name=name)
        event["body"] = event["body"][:-4] + ("AAA=" if event["isBase64Encoded"] else '""}}')
        assert receive(database, event).status == 401
    assert count(owner) == 0


@pytest.mark.parametrize("change", [str.upper, str.title])
def test_header_names_count_in_any_case(database: Database, change: Any) -> None:
    event = signed_event(report(idempotency_key="k"))
    event["headers"] = {change(name): value for name, value in event["headers"].items()}
    assert receive(database, event).status == 202


UNREADABLE: list[Any] = [
    "",
    "not json",
    "{",
    "null",
    "7",
    "[]",
    "{}",
    '{"data":null}',
    '{"data":[]}',
    '{"data":"x"}',
    '{"data":{}}',
    '{"data":{"status":"delivered"}}',
    '{"data":{"idempotency_key":"k"}}',
    '{"data":{"status":"","idempotency_key":"k"}}',
    '{"data":{"status":7,"idempotency_key":"k"}}',
    '{"data":{"status":"delivered","idempotency_key":7}}',
    '{"data":{"status":"delivered","idempotency_key":"k","permanent":"yes"}}',
    '{"data":{"status":"delivered","idempotency_key":"k","permanent":1}}',
    '{"data":{"status":"delivered","idempotency_key":"k","recipient":["a"]}}',
    '{"data":{"status":"delivered","idempotency_key":"k","event_id":{"a":1}}}',
    '{"data":{"status":"delivered","idempotency_key":"k","status":"bounced"}}',
    '{"data":{"status":"delivered","idempotency_key":"k","x":NaN}}',
    '{"data":{"status":"delivered","idempotency_key":"k","x":1e999}}',
    '{"data":{"status":"deliv\\u0000ered","idempotency_key":"k"}}',
    '{"data":{"status":"delivered","idempotency_key":"\\ud800"}}',
    '{"data":{"status":"delivered","idempotency_key":"k","\\u0000":1}}',
    '{"data":{"status":"delivered","idempotency_key":"k"},"more":"\\udfff"}',
    '{"timestamp":"2026-01-01T00:00:00","data":{"status":"delivered","idempotency_key":"k"}}',
    '{"timestamp":"soon","data":{"status":"delivered","idempotency_key":"k"}}',
    '{"timestamp":7,"data":{"status":"delivered","idempotency_key":"k"}}',
    '{"timestamp":"0001-01-01T00:00:00+14:00","data":{"status":"delivered","idempotency_key":"k"}}',
    '{"timestamp":"9999-12-31T23:59:59-14:00","data":{"status":"delivered","idempotency_key":"k"}}',
    '{"data":' * 20_000,
    b'{"data":{"status":"delivered","idempotency_key":"\xff"}}',
    "\ud800",
    json.dumps({"data": {"status": "delivered", "idempotency_key": "k" * 513}}),
    json.dumps({"data": {"status": "delivered", "idempotency_key": "k", "event_id": "e" * 513}}),
    json.dumps({"data": {"status": "s" * 513, "idempotency_key": "k"}}),
]


def test_what_cannot_be_read_is_a_bad_request_and_changes_nothing(
    owner: psycopg.Connection, database: Database
) -> None:
    for body in UNREADABLE:
        name = "callbacks.base64" if isinstance(body, bytes) else "callbacks.delivered"
        answered = receive(database, signed_event(body, name=name))
        assert (answered.status, answered.body["code"]) == (400, "malformed_json"), body[:100]
    assert count(owner) == 0


def test_every_fault_of_a_report_is_named(database: Database) -> None:
    body = {
        "timestamp": 7,
        "data": {"status": 7, "idempotency_key": 7, "permanent": 7, "recipient": 7},
    }
    answered = receive(database, signed_event(body))
    faults = [Fault(**fault) for fault in answered.body["errors"]]
    assert {fault.pointer for fault in faults} == {
        "/data/status",
        "/data/idempotency_key",
        "/data",
        "/data/permanent",
        "/data/recipient",
        "/timestamp",
    }
    assert len(faults) <= MAX_FAULTS


def test_a_body_that_is_not_the_base64_it_claims_to_be_is_a_bad_request(database: Database) -> None:
    event = signed_event(report(idempotency_key="k"), name="callbacks.base64")
    event["body"] = "not base64!"
    assert receive(database, event).status == 400
    event.pop("body")
    assert receive(database, event).status == 401


def test_a_body_of_more_than_256_kilobytes_is_too_large(
    owner: psycopg.Connection, database: Database
) -> None:
    body = json.dumps(report(idempotency_key="k"))
    whole = body + " " * (MAX_BODY_BYTES - len(body))
    for name in ("callbacks.delivered", "callbacks.base64"):
        assert receive(database, signed_event(whole, name=name)).status == 202
        answered = receive(database, signed_event(whole + " ", name=name))
        assert (answered.status, answered.body["code"]) == (413, "too_large")
    assert count(owner) == 1


def test_a_database_that_is_out_is_a_503_to_be_tried_again(login: Login) -> None:
    elsewhere = Login(host=login.host, port=free_port(), name="x", user="x", tls=False)
    database = Database(connector(lambda: elsewhere, application_name="test"))
    answered = receive(database, signed_event(report(idempotency_key="k")))
    assert (answered.status, answered.body["code"]) == (503, "unavailable")
    assert int(answered.headers["Retry-After"]) > 0


def test_a_forgery_costs_no_look_at_the_database(login: Login) -> None:
    elsewhere = Login(host=login.host, port=free_port(), name="x", user="x", tls=False)
    database = Database(connector(lambda: elsewhere, application_name="test"))
    event = signed_event(report(idempotency_key="k"), secrets=["whsec_AAAA"])
    assert receive(database, event).status == 401


def test_another_provider_is_not_found(database: Database) -> None:
    for parameters in ({"provider": "sns"}, {"provider": "HTTP"}, {}, None):
        event = signed_event(report(idempotency_key="k"))
        event["pathParameters"] = parameters
        assert receive(database, event).status == 404


def test_a_repeated_event_is_kept_once_by_its_event_id(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_known(owner)
    body = report("bounced", idempotency_key=id, permanent=True)
    first, second = (receive(database, signed_event(body)) for _ in range(2))
    assert (first.status, second.status) == (202, 202)
    assert first.recorded == Recorded(stored=1, orphaned=0, applied=1, after_zero_submissions=0)
    assert second.recorded == Recorded(stored=0, orphaned=0, applied=0, after_zero_submissions=0)
    assert [count(owner, table) for table in ("receipts", "suppressions", "transitions")] == [1] * 3


def test_without_an_event_id_the_webhook_id_tells_a_repetition(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_known(owner)
    for status, webhook_id in (("accepted", "a"), ("delivered", "a"), ("delivered", "b")):
        body = report(status, idempotency_key=id, event_id=None)
        assert receive(database, signed_event(body, webhook_id=webhook_id)).status == 202
    assert count(owner) == 2
    assert row_of(owner, id).status == "delivered"


def test_e1_a_callback_inside_the_call_is_applied_at_once(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    (id,) = add_known(owner)
    callbacks = Database(connector(lambda: login, application_name="callbacks"))

    def report_first(wire: Wire, asked: Asked) -> None:
        assert told(callbacks, message_id="m-1", idempotency_key=asked.key).applied == 1
        wire.answer(200, b'{"message_id":"m-1"}')

    with gateway() as served:
        served.behaviour["ok@example.com"] = report_first
        with sender(database, served.provider()) as one:
            report_of = one.deliver(records_of(lease(database)))
    callbacks.close()
    assert report_of.errors == []
    row = row_of(owner, id)
    assert (row.status, row.attempt_id, row.lease_until) == ("delivered", None, None)
    assert [move[:3] for move in moves_of(owner, id)] == [("provider", "leased", "delivered")]
    (attempt,) = owner.execute("SELECT outcome, reference FROM attempts").fetchall()
    assert attempt == ("accepted", "m-1")


def test_e1_an_id_that_never_existed_is_kept_quietly(
    owner: psycopg.Connection, database: Database
) -> None:
    for data in (
        {"message_id": "m-none"},
        {"idempotency_key": str(uuid4())},
        {"idempotency_key": "k"},
    ):
        assert told(database, **data) == Recorded(
            stored=1, orphaned=1, applied=0, after_zero_submissions=0
        )
    assert count(owner) == 3


def test_a_key_of_a_requeue_names_the_same_notification(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_known(owner)
    assert told(database, idempotency_key=f"{id}.2").applied == 1
    assert row_of(owner, id).status == "delivered"


OURS = [
    ("email", "ok@example.com", "ok@EXAMPLE.COM"),
    ("email", "ok@example.com", "OK@example.com"),
    ("email", "ok@xn--bcher-kva.example.com", "ok@Bücher.example.com"),
    ("email", "it's+me/a=b@example.com", "it's+me/a=b@example.com"),
    ("sms", "+15550100000", "+1 (555) 010-0000"),
    ("push", "sim-ok-1", "sim-ok-1"),
    ("push", "cX:APA91b" + "x" * 1500, "cX:APA91b" + "x" * 1500),
    ("push", ENDPOINT, ENDPOINT),
    # A token may look like an address of another channel: the notification's own decides.
    ("push", "silent@push.example.com", "silent@push.example.com"),
    ("push", "+15550100077", "+15550100077"),
    ("push", "https://token.example.com/x", "https://token.example.com/x"),
    ("webhook", "https://hooks.example/a@b?c=d", "https://HOOKS.example:443/a@b?c=d"),
    ("webhook", "http://127.0.0.1:8081/hooks/ok", "http://127.0.0.1:8081/hooks/ok"),
]


def test_e6_our_recipient_is_known_in_whatever_way_it_is_written(
    owner: psycopg.Connection, database: Database
) -> None:
    for channel, ours, named in OURS:
        (id,) = add_known(owner, channel=channel, recipient=ours)
        assert told(database, idempotency_key=id, recipient=named).applied == 1, named
        assert row_of(owner, id).status == "delivered"


def test_e6_a_report_about_somebody_elses_copy_is_a_note(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_known(owner)
    for named in (
        "archive@example.com",
        "ok@example.org",
        "+15550100000",
        "token-1",
        "https://ok.example/",
        "not an address",
        "ok@example.com, other@example.com",
        "\u200bok@example.com",
        "é",
    ):
        for status in ("delivered", "bounced", "complained"):
            kept = told(database, status, idempotency_key=id, recipient=named, permanent=True)
            assert (kept.stored, kept.orphaned, kept.applied) == (1, 0, 0), named
    row = row_of(owner, id)
    assert (row.status, row.evidence_rank, row.complained) == ("pending", 0, False)
    assert count(owner, "suppressions") == 0


@pytest.mark.parametrize("named", [None, ""])
def test_a_report_that_names_nobody_is_about_ours(
    owner: psycopg.Connection, database: Database, named: str | None
) -> None:
    (id,) = add_known(owner)
    assert told(database, idempotency_key=id, recipient=named).applied == 1
    assert row_of(owner, id).status == "delivered"


def test_a_permanent_bounce_suppresses_the_address_for_the_next_one(
    owner: psycopg.Connection, database: Database
) -> None:
    first, second = add_known(owner, 2)
    leases = {leased.id: leased for leased in lease(database)}
    told(database, "bounced", idempotency_key=first, permanent=True, reason="5.1.1")
    assert (row_of(owner, first).status, row_of(owner, first).reason) == ("failed", "5.1.1")
    assert begin_one(database, opening_of(leases[second])).verdict == "suppressed"


@pytest.mark.parametrize(
    ("status", "permanent"), [("bounced", False), ("failed", True), ("failed", False)]
)
def test_f5_what_is_not_the_addresss_fault_suppresses_nobody(
    owner: psycopg.Connection, database: Database, status: str, permanent: bool
) -> None:
    (id,) = add_known(owner)
    told(database, status, idempotency_key=id, permanent=permanent)
    assert row_of(owner, id).status == "failed"
    assert count(owner, "suppressions") == 0


def test_a_complaint_is_a_flag_a_suppression_and_proof_of_delivery(
    owner: psycopg.Connection, database: Database
) -> None:
    first, second = add_known(owner, 2)
    leases = {leased.id: leased for leased in lease(database)}
    told(database, "complained", idempotency_key=first)
    row = row_of(owner, first)
    assert (row.status, row.complained) == ("delivered", True)
    assert begin_one(database, opening_of(leases[second])).verdict == "suppressed"


def test_an_unknown_status_is_kept_and_changes_nothing(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_known(owner)
    before = row_of(owner, id).columns
    for status in ("opened", "queued", "DELIVERED", "👍"):
        assert told(database, status, idempotency_key=id, permanent=True).stored == 1
    assert row_of(owner, id).columns == before
    kept = owner.execute("SELECT type, evidence_rank, notification_id FROM receipts ORDER BY id")
    assert kept.fetchall() == [
        (status, 0, id) for status in ("opened", "queued", "DELIVERED", "👍")
    ]


def test_a_long_reason_is_cut_rather_than_refused(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_known(owner)
    told(database, "bounced", idempotency_key=id, permanent=True, reason="é" * 5000)
    assert row_of(owner, id).reason == "é" * MAX_REASON_CHARACTERS


def test_a_report_from_the_future_starts_no_cutoff_in_the_future(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_known(owner)
    body = report("accepted", idempotency_key=id) | {"timestamp": "9999-01-01T00:00:00Z"}
    assert receive(database, signed_event(body)).status == 202
    row = row_of(owner, id)
    assert row.status == "submitted"
    assert row.submitted_at == row.updated_at < now_of(owner)


def test_a_report_without_a_time_happened_when_it_came(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_known(owner)
    body = report(idempotency_key=id)
    del body["timestamp"]
    assert receive(database, signed_event(body)).status == 202
    (receipt,) = owner.execute("SELECT occurred_at = received_at FROM receipts").fetchall()
    assert receipt == (True,)
    assert row_of(owner, id).status == "delivered"


def test_a_report_about_another_tenants_key_suppresses_for_that_tenant_alone(
    owner: psycopg.Connection, database: Database
) -> None:
    other = UUID("01900000-0000-7000-8000-000000000002")
    (id,) = add_known(owner, organization_id=other)
    told(database, "bounced", idempotency_key=id, permanent=True)
    found = owner.execute("SELECT organization_id FROM suppressions").fetchall()
    assert found == [(other,)]
