"""A set of queue records is delivered: what is sent, what is held, what is left, what is told."""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from functions.core.errors import Unreadable
from functions.core.outcome import Accepted, Outcome
from functions.providers.choice import DECLARATIONS
from functions.providers.provider import Declaration, PreparedCall, Submission
from functions.providers.transport import Transport
from functions.providers.webhook import WebhookProvider
from functions.sender.record import read_records
from functions.store.cancel import cancel_notification
from functions.store.connection import Database
from functions.store.survey import promote
from functions.store.sweep import sweep
from tests.fakes import (
    FIRST_ORGANIZATION,
    add_notifications,
    add_suppression_fact,
    moves_of,
    row_of,
)
from tests.gateway import Asked, gateway, giving
from tests.sending import body_of, queue_event, recorded, records_of, sender
from tests.steps import channel_of, lease, now_of
from tests.webhooks import secrets_for
from tests.wire import Wire, answering, hanging_up, peer


@dataclass(slots=True)
class FakeProvider:
    """Accepts everything; ``prepare`` and ``submit`` fail for the recipients named."""

    unpreparable: set[str] = field(default_factory=set[str])
    broken: set[str] = field(default_factory=set[str])
    sent: list[str] = field(default_factory=list[str])
    declaration: Declaration = field(
        default_factory=lambda: Declaration(name="http", keyed=True, receipts=True)
    )

    def prepare(self, submission: Submission) -> PreparedCall:
        if submission.recipient in self.unpreparable:
            raise ZeroDivisionError
        return PreparedCall(method="POST", url=submission.recipient, headers={}, body=b"")

    def submit(self, call: PreparedCall, *, deadline: float) -> Outcome:
        del deadline
        if call.url in self.broken:
            raise ZeroDivisionError
        self.sent.append(call.url)
        return Accepted(reference=call.url)


class PreparingProvider(FakeProvider):
    """Makes a webhook's real request of everything, and accepts it."""

    def prepare(self, submission: Submission) -> PreparedCall:
        return WebhookProvider(transport=Transport(), secrets=secrets_for).prepare(submission)


def test_ten_records_are_ten_requests_and_all_are_acknowledged(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = add_notifications(owner, 10)
    with gateway() as served:
        with sender(database, served.provider()) as one:
            report = one.deliver(records_of(lease(database)))
        assert sorted(asked.key for asked in served.asked) == sorted(str(id) for id in ids)
    assert report.failed == []
    assert report.errors == []
    assert report.counts["AttemptAccepted"] == 10
    assert report.counts["StaleDelivery"] == report.counts["FencedClose"] == 0
    for id in ids:
        row = row_of(owner, id)
        assert (row.status, row.evidence_rank) == ("submitted", 1)
        assert (row.attempt_id, row.lease_until) == (None, None)


def test_the_ledger_has_each_attempt_with_the_providers_reference(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    with gateway() as served, sender(database, served.provider()) as one:
        one.deliver(records_of(lease(database)))
        (asked,) = served.asked
    attempt = row_of(owner, asked.body["attempt_id"], "attempts")
    assert (attempt.notification_id, attempt.outcome) == (id, "accepted")
    assert (attempt.reference, attempt.http_status) == ("m-1", 200)
    assert moves_of(owner, id) == [("sender", "leased", "submitted", "accepted")]


@pytest.mark.parametrize(
    ("status", "metric", "ends", "spent"),
    [
        (400, "AttemptRejected", "dead", 1),
        (503, "AttemptUnknown", "pending", 1),
        (409, "AttemptTransient", "pending", 1),
        (429, "AttemptThrottled", "pending", 0),
        (401, "AttemptBlocked", "pending", 0),
    ],
)
def test_each_answer_has_its_metric_and_its_end(
    owner: psycopg.Connection,
    database: Database,
    status: int,
    metric: str,
    ends: str,
    spent: int,
) -> None:
    (id,) = add_notifications(owner)
    with gateway() as served:
        served.behaviour["ok@example.com"] = giving(status)
        with sender(database, served.provider()) as one:
            report = one.deliver(records_of(lease(database)))
        assert len(served.asked) == 1
    assert report.failed == []
    assert report.counts[metric] == 1
    row = row_of(owner, id)
    assert (row.status, row.attempts_spent, row.attempt_id) == (ends, spent, None)


@pytest.mark.parametrize("after", ["9999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "-5", "soon"])
def test_no_retry_after_keeps_a_set_from_closing(
    owner: psycopg.Connection, database: Database, after: str
) -> None:
    add_notifications(owner, 3)
    (odd,) = add_notifications(owner, recipient="odd@example.com")
    with gateway() as served:
        served.behaviour["odd@example.com"] = giving(429, Retry_After=after)
        with sender(database, served.provider()) as one:
            report = one.deliver(records_of(lease(database)))
    assert report.errors == []
    assert (report.counts["AttemptAccepted"], report.counts["AttemptThrottled"]) == (3, 1)
    row = row_of(owner, odd)
    assert (row.status, row.ready) == ("pending", False)
    assert row.available_at <= now_of(owner, hours=1, seconds=1)


@pytest.mark.parametrize("message_id", ["m\\ud800", "m\\u0000", "m\\n"])
def test_no_id_of_a_provider_keeps_a_set_from_closing(
    owner: psycopg.Connection, database: Database, message_id: str
) -> None:
    ids = add_notifications(owner, 3)
    body = f'{{"message_id":"{message_id}"}}'.encode()
    with peer(answering(body=body)) as server, gateway() as served:
        served.server = server
        with sender(database, served.provider()) as one:
            report = one.deliver(records_of(lease(database)))
    assert report.errors == []
    assert report.counts["AttemptUnknown"] == 3
    assert {row_of(owner, id).status for id in ids} == {"pending"}


def test_d3_an_unknown_outcome_is_tried_again_under_the_same_key(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)

    def accept_and_reset_once(wire: Wire, asked: Asked) -> None:
        served.accept(asked.key)
        served.behaviour.clear()
        wire.reset()

    with gateway(status="delivered") as served:
        served.behaviour["ok@example.com"] = accept_and_reset_once
        with sender(database, served.provider()) as one:
            first = one.deliver(records_of(lease(database)))
            assert first.counts["AttemptUnknown"] == 1
            assert (row_of(owner, id).status, row_of(owner, id).in_doubt) == ("pending", 1)
            later = now_of(owner, hours=1)
            promote(database, now=later)
            second = one.deliver(records_of(lease(database)))
        assert second.counts["AttemptAccepted"] == 1
        assert [asked.key for asked in served.asked] == [str(id), str(id)]
        assert served.effects == {str(id): "m-1"}
    assert row_of(owner, id).status == "delivered"


def test_d2_a_message_that_cannot_be_read_fails_alone(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner, 2)
    first, last = lease(database)
    event = queue_event(body_of(first), "not json", body_of(last))
    with gateway() as served:
        with sender(database, served.provider()) as one:
            report = one.deliver(read_records(event))
        assert len(served.asked) == 2
    assert report.failed == [event["Records"][1]["messageId"]]
    assert (report.counts["UnreadableMessage"], report.counts["AttemptAccepted"]) == (1, 2)


def test_a_message_of_another_channel_fails_alone(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner, channel="sms", recipient="+15550100000")
    (leased,) = lease(database, channel="sms")
    with gateway() as served:
        with sender(database, served.provider(), channel="email") as one:
            records = records_of([leased])
            assert one.deliver(records).failed == [records[0].message_id]
        assert served.asked == []
    assert row_of(owner, id).attempt_id is None


OTHER_EVENTS: list[dict[str, Any]] = [
    {},
    {"version": "0", "detail-type": "Scheduled Event", "detail": {}},
    {"Records": [{"EventSource": "aws:sns", "Sns": {"MessageId": "m", "Message": "{}"}}]},
    {"Records": [{"messageId": "m", "body": "{}", "attributes": {}}]},
]


@pytest.mark.parametrize("event", OTHER_EVENTS)
def test_d2_an_event_of_another_kind_is_an_error_and_no_success(event: dict[str, Any]) -> None:
    with pytest.raises((Unreadable, KeyError)):
        read_records(event)


@pytest.mark.parametrize("name", ["sender.batch", "sender.unreadable", "sender.redelivered"])
def test_recorded_events_are_read(name: str) -> None:
    records = read_records(recorded(name))
    assert len(records) == 3
    assert [record.received for record in records] == (
        [2, 1, 4] if name == "sender.redelivered" else [1, 1, 1]
    )


def test_recorded_events_name_nobody_we_know_and_are_acknowledged_without_work(
    database: Database,
) -> None:
    with gateway() as served:
        with sender(database, served.provider()) as one:
            failed = [
                len(one.deliver(read_records(recorded(name))).failed)
                for name in ("sender.batch", "sender.unreadable", "sender.redelivered")
            ]
        assert failed == [0, 1, 0]
        assert served.asked == []


def test_unreadable_content_is_held_and_fifty_good_rows_go(
    owner: psycopg.Connection, database: Database
) -> None:
    (bad,) = add_notifications(owner, content={"unknown": "SENTINEL"})
    (erased,) = add_notifications(owner)
    owner.execute("UPDATE notifications SET recipient = NULL WHERE id = %s", [erased])
    good = add_notifications(owner, 50)
    leased = lease(database)
    assert leased[0].id == bad
    with gateway() as served:
        with sender(database, served.provider()) as one:
            reports = [
                one.deliver(records_of(leased[start : start + 10]))
                for start in range(0, len(leased), 10)
            ]
        assert len(served.asked) == 50
    assert [report.failed for report in reports] == [[]] * 6
    assert sum(report.counts["UnreadableContent"] for report in reports) == 2
    for id in (bad, erased):
        row = row_of(owner, id)
        assert (row.status, row.reason, row.attempts_spent) == ("dead", "unreadable", 0)
        assert moves_of(owner, id) == [("sender", "leased", "dead", "unreadable")]
    assert {row_of(owner, id).status for id in good} == {"submitted"}


@pytest.mark.parametrize(
    "content", ['{"a":' * 2000 + "1" + "}" * 2000, "1e5000", "1" + "0" * 400 + ".5"]
)
def test_content_that_no_reader_of_ours_reads_harms_its_own_row_alone(
    owner: psycopg.Connection, database: Database, content: str
) -> None:
    hook = "https://hooks.example.com/x"
    (bad,) = add_notifications(owner, channel="webhook", recipient=hook)
    owner.execute("UPDATE notifications SET content = %s::jsonb WHERE id = %s", [content, bad])
    good = add_notifications(owner, 9, channel="webhook", recipient=hook)
    with sender(database, PreparingProvider(), channel="webhook") as one:
        report = one.deliver(records_of(lease(database, channel="webhook")))
    assert report.failed == []
    ended = "SELECT status, reason FROM notifications WHERE id = %s"
    assert owner.execute(ended, [bad]).fetchone() == ("dead", "unreadable")
    assert {row_of(owner, id).attempts_spent for id in good} == {1}


def test_a_message_on_the_queue_of_another_channel_is_stale(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner, channel="sms", recipient="+15550100000")
    (leased,) = lease(database, channel="sms")
    forged = dataclasses.replace(leased, channel="email")
    provider = FakeProvider()
    with sender(database, provider, channel="email") as one:
        report = one.deliver(records_of([forged]))
    assert (report.failed, report.counts["StaleDelivery"], provider.sent) == ([], 1, [])
    assert (row_of(owner, id).status, row_of(owner, id).attempts_spent) == ("leased", 0)


def test_a_provider_that_raises_harms_only_the_row_it_raises_for(
    owner: psycopg.Connection, database: Database
) -> None:
    (unpreparable,) = add_notifications(owner, recipient="unpreparable@example.com")
    (broken,) = add_notifications(owner, recipient="broken@example.com")
    good = add_notifications(owner, 8)
    provider = FakeProvider(
        unpreparable={"unpreparable@example.com"}, broken={"broken@example.com"}
    )
    with sender(database, provider) as one:
        report = one.deliver(records_of(lease(database)))
    assert report.failed == []
    assert len(provider.sent) == 8
    assert (report.counts["AttemptAccepted"], report.counts["AttemptUnknown"]) == (8, 1)
    assert row_of(owner, unpreparable).reason == "unreadable"
    assert (row_of(owner, broken).status, row_of(owner, broken).in_doubt) == ("pending", 1)
    assert {row_of(owner, id).status for id in good} == {"submitted"}
    (detail,) = owner.execute("SELECT detail FROM attempts WHERE outcome = 'unknown'").fetchall()
    assert detail == ("ZeroDivisionError",)


def test_a_webhook_that_answers_is_delivered(owner: psycopg.Connection, database: Database) -> None:
    with peer(answering(204, b"")) as server:
        (id,) = add_notifications(
            owner, channel="webhook", recipient=f"{server.url}/hook", content={"a": 1}
        )
        provider = WebhookProvider(
            transport=Transport(), secrets=secrets_for, local_origin=server.url
        )
        with sender(database, provider, channel="webhook") as one:
            report = one.deliver(records_of(lease(database, channel="webhook")))
        (request,) = server.requests
    assert report.counts["AttemptAccepted"] == 1
    assert request.headers["webhook-id"] == str(id)
    assert json.loads(request.body)["data"] == {"a": 1}
    assert row_of(owner, id).status == "delivered"


def test_what_ended_on_its_way_is_acknowledged_without_work(
    owner: psycopg.Connection, database: Database
) -> None:
    (expired,) = add_notifications(owner, expires_in_seconds=60)
    (suppressed,) = add_notifications(owner, recipient="stop@example.com")
    (cancelled,) = add_notifications(owner)
    (swept,) = add_notifications(owner)
    leased = lease(database)
    owner.execute(
        "UPDATE notifications SET expires_at = clock_timestamp() WHERE id = %s", [expired]
    )
    add_suppression_fact(owner, recipient="stop@example.com")
    cancel_notification(database, organization_id=FIRST_ORGANIZATION, notification_id=cancelled)
    owner.execute("UPDATE notifications SET lease_until = clock_timestamp() WHERE id = %s", [swept])
    sweep(database, channel=channel_of(database), declarations=DECLARATIONS)
    with gateway() as served:
        with sender(database, served.provider()) as one:
            report = one.deliver(records_of(leased))
        assert served.asked == []
    assert (report.failed, report.errors) == ([], [])
    assert report.counts["StaleDelivery"] == 2
    for id, status in (
        (expired, "expired"),
        (suppressed, "suppressed"),
        (cancelled, "cancelled"),
        (swept, "pending"),
    ):
        assert row_of(owner, id).status == status
    assert owner.execute("SELECT count(*) FROM attempts").fetchone() == (0,)


def test_a_channel_paused_after_the_claim_sends_nothing_more(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    leased = lease(database)
    owner.execute("UPDATE channels SET paused_at = clock_timestamp() WHERE name = 'email'")
    with gateway() as served:
        with sender(database, served.provider()) as one:
            assert one.deliver(records_of(leased)).failed == []
        assert served.asked == []
    row = row_of(owner, id)
    assert (row.status, row.attempts_spent) == ("pending", 0)


def test_records_for_which_no_time_is_left_come_again(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    with gateway() as served:
        with sender(database, served.provider(), seconds=0.5) as one:
            records = records_of(lease(database))
            report = one.deliver(records)
        assert served.asked == []
    assert report.failed == [records[0].message_id]
    assert row_of(owner, id).attempt_id is None


def test_a_connection_lost_while_the_provider_is_called_costs_nothing(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = add_notifications(owner, 3)

    def cut_and_accept(wire: Wire, asked: Asked) -> None:
        owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND usename = 'sendoff_service'"
        )
        wire.answer(200, f'{{"message_id":"{served.accept(asked.key)}"}}'.encode())

    with gateway() as served:
        served.behaviour["ok@example.com"] = cut_and_accept
        with sender(database, served.provider()) as one:
            report = one.deliver(records_of(lease(database)))
    assert (report.failed, report.errors) == ([], [])
    assert {row_of(owner, id).status for id in ids} == {"submitted"}


def test_a_server_that_closes_without_an_answer_leaves_the_row_in_doubt(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    with peer(hanging_up) as server, gateway() as served:
        served.server = server
        with sender(database, served.provider()) as one:
            one.deliver(records_of(lease(database)))
        assert len(server.requests) == 1
    row = row_of(owner, id)
    assert (row.status, row.in_doubt, row.attempts_spent, row.ready) == ("pending", 1, 1, False)
