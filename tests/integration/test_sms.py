"""SMS from the queue to its end: who opted out, what an event settles, what comes too late."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.states import Stream
from functions.providers.aws import AwsClient
from functions.providers.sms import SERVICE, SmsProvider
from functions.providers.sms_event import DECLARATION, parse
from functions.providers.transport import Transport
from functions.store.claim import NO_ORGANIZATION, lease_page
from functions.store.connection import Database
from functions.store.receipt import Recorded, record
from tests.fakes import (
    FIRST_ORGANIZATION,
    SECOND_ORGANIZATION,
    Row,
    add_suppression_fact,
    moves_of,
    row_of,
)
from tests.gateway import gateway
from tests.reports import HASH_KEY, add_known
from tests.sending import records_of, sender
from tests.steps import LEASE_SECONDS, lease
from tests.wire import Wire, peer

NUMBER = "+15550100123"


@dataclass(slots=True)
class Service:
    """The SMS service: it remembers what it accepted, and its list of opted-out numbers.

    ``loses_answers``: it accepts and hangs up.
    """

    opted_out: set[str] = field(default_factory=set[str])
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    loses_answers: bool = False
    url: str = ""

    def serve(self, wire: Wire) -> None:
        while True:
            request = json.loads(wire.read_request().body)
            self.requests.append(request)
            if request["DestinationPhoneNumber"] in self.opted_out:
                error = {
                    "__type": "ConflictException",
                    "Message": "Destination phone number is opted out",
                    "Reason": "DESTINATION_PHONE_NUMBER_OPTED_OUT",
                }
                wire.answer(400, json.dumps(error).encode())
            elif self.loses_answers:
                return
            else:
                answer = {"MessageId": f"sms-{len(self.requests)}"}
                wire.answer(200, json.dumps(answer).encode())


@contextmanager
def serving() -> Generator[Service]:
    service = Service()
    with peer(service.serve) as server:
        service.url = server.url
        yield service


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Generator[Service]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with serving() as service:
        yield service


def add_text(owner: psycopg.Connection, *, stream: str = "transactional", **more: Any) -> UUID:
    """Add a text message to NUMBER."""
    (id,) = add_known(owner, channel="sms", recipient=NUMBER, content="Your code is 1234.", **more)
    owner.execute(
        "UPDATE notifications SET stream = %s, country = 'US' WHERE id = %s", [stream, id]
    )
    return id


def deliver(database: Database, service: Service) -> None:
    """Send every text message that is due, of either stream."""
    client = AwsClient(SERVICE, transport=Transport(), endpoint_url=service.url)
    for stream in Stream:
        page = lease_page(
            database,
            channel="sms",
            stream=stream,
            priority="normal",
            page=100,
            after=NO_ORGANIZATION,
            lease_seconds=LEASE_SECONDS,
            leased_by="test",
        )
        with sender(database, SmsProvider(client=client), channel="sms") as one:
            report = one.deliver(records_of(page.leased))
        assert (report.failed, report.errors) == ([], [])


def told(database: Database, request: dict[str, Any], event_type: str, **more: Any) -> Recorded:
    """Report an event about the message that ``request`` asked for."""
    event = {
        "eventType": event_type,
        "eventTimestamp": 1_767_323_047_000,
        "isFinal": event_type not in ("TEXT_QUEUED", "TEXT_PENDING"),
        "destinationPhoneNumber": request["DestinationPhoneNumber"],
        "messageId": "sms-1",
        "context": request["Context"],
        **more,
    }
    receipts = parse(json.dumps(event).encode(), hash_key=HASH_KEY)
    return record(database, receipts, provider="sms", declarations=[DECLARATION])


def attempts_of(owner: psycopg.Connection, id: UUID) -> list[Row]:
    statement = "SELECT id FROM attempts WHERE notification_id = %s ORDER BY started_at"
    return [row_of(owner, row[0], "attempts") for row in owner.execute(statement, [id]).fetchall()]


def facts_of(owner: psycopg.Connection) -> list[tuple[UUID, str, str, str]]:
    statement = "SELECT organization_id, channel, reason, source FROM suppressions ORDER BY id"
    return owner.execute(statement).fetchall()


def email_goes_on(owner: psycopg.Connection, database: Database) -> None:
    """An e-mail of the same organization is sent as ever."""
    (id,) = add_known(owner)
    with gateway() as served, sender(database, served.provider()) as one:
        one.deliver(records_of(lease(database)))
        assert len(served.effects) == 1
    assert row_of(owner, id).status == "submitted"


def test_h2_who_opted_out_is_asked_once_and_never_again_by_any_sender_of_the_organization(
    owner: psycopg.Connection, database: Database, service: Service
) -> None:
    service.opted_out.add(NUMBER)
    first = add_text(owner)
    deliver(database, service)
    row, (attempt,) = row_of(owner, first), attempts_of(owner, first)
    assert (row.status, row.reason) == ("suppressed", "refused")
    assert (attempt.outcome, attempt.code) == ("refused", "DESTINATION_PHONE_NUMBER_OPTED_OUT")
    assert moves_of(owner, first)[-1] == ("sender", "leased", "suppressed", "refused")
    assert facts_of(owner) == [(row.organization_id, "sms", "recipient_choice", "sms:opt_out_list")]

    owner.execute("UPDATE streams SET sender_identity = '+15555550009' WHERE name = 'bulk'")
    others = [add_text(owner), add_text(owner, stream="bulk")]
    deliver(database, service)
    for id in others:
        assert (row_of(owner, id).status, row_of(owner, id).reason) == ("suppressed", "suppressed")
        assert attempts_of(owner, id) == []
    assert len(service.requests) == 1
    email_goes_on(owner, database)


def test_h2_another_organization_is_told_for_itself(
    owner: psycopg.Connection, database: Database, service: Service
) -> None:
    service.opted_out.add(NUMBER)
    for organization_id in (FIRST_ORGANIZATION, SECOND_ORGANIZATION):
        add_text(owner, organization_id=organization_id)
        deliver(database, service)
    assert len(service.requests) == 2
    assert len({organization for organization, *_ in facts_of(owner)}) == 2


def test_h2_the_code_in_a_callback_ends_and_suppresses_as_well(
    owner: psycopg.Connection, database: Database, service: Service
) -> None:
    first = add_text(owner)
    deliver(database, service)
    assert row_of(owner, first).status == "submitted"
    kept = told(
        database,
        service.requests[0],
        "TEXT_BLOCKED",
        messageStatusDescription="Phone number is opted out",
    )
    assert (kept.stored, kept.applied) == (1, 1)
    row = row_of(owner, first)
    assert row.status == "suppressed"
    assert facts_of(owner) == [(row.organization_id, "sms", "recipient_choice", "sms:event")]

    second = add_text(owner)
    deliver(database, service)
    assert row_of(owner, second).status == "suppressed"
    assert len(service.requests) == 1
    email_goes_on(owner, database)


def test_h2_who_is_taken_off_the_list_is_written_to_again(
    owner: psycopg.Connection, database: Database, service: Service
) -> None:
    service.opted_out.add(NUMBER)
    first = add_text(owner)
    deliver(database, service)
    service.opted_out.clear()
    add_suppression_fact(owner, kind="lift", channel="sms", recipient=NUMBER)
    owner.execute(
        "UPDATE suppressions SET recipient_hash = (SELECT recipient_hash FROM notifications"
        " WHERE id = %s) WHERE kind = 'lift'",
        [first],
    )
    second = add_text(owner)
    deliver(database, service)
    assert row_of(owner, second).status == "submitted"
    assert len(service.requests) == 2


@pytest.mark.parametrize(
    ("event_type", "status"),
    [
        ("TEXT_PENDING", "submitted"),
        ("TEXT_QUEUED", "submitted"),
        ("TEXT_SUCCESSFUL", "delivered"),
        ("TEXT_DELIVERED", "delivered"),
        ("TEXT_UNREACHABLE", "failed"),
        ("TEXT_SPAM", "failed"),
        ("TEXT_OF_NEXT_YEAR", "uncertain"),
    ],
)
def test_an_attempt_whose_answer_was_lost_is_found_by_its_context(
    event_type: str,
    status: str,
    owner: psycopg.Connection,
    database: Database,
    service: Service,
) -> None:
    service.loses_answers = True
    id = add_text(owner)
    deliver(database, service)
    assert row_of(owner, id).status == "uncertain"
    told(database, service.requests[0], event_type)
    assert row_of(owner, id).status == status
    assert len(service.requests) == 1


def test_e6_an_event_about_another_number_changes_nothing(
    owner: psycopg.Connection, database: Database, service: Service
) -> None:
    id = add_text(owner)
    deliver(database, service)
    for event_type in ("TEXT_DELIVERED", "TEXT_INVALID"):
        told(database, service.requests[0], event_type, destinationPhoneNumber="+15550100999")
    assert row_of(owner, id).status == "submitted"
    assert facts_of(owner) == []
    told(database, service.requests[0], "TEXT_INVALID", eventTimestamp=1_767_323_047_001)
    assert row_of(owner, id).status == "failed"
    assert [fact[2:] for fact in facts_of(owner)] == [("invalid", "sms:event")]


def test_what_has_no_five_seconds_left_expires_and_is_not_sent(
    owner: psycopg.Connection, database: Database, service: Service
) -> None:
    id = add_text(owner, expires_in_seconds=4.5)
    deliver(database, service)
    row = row_of(owner, id)
    assert (row.status, row.reason, row.attempts_spent) == ("expired", "expired", 0)
    assert service.requests == []


def test_a_message_lives_no_longer_than_its_notification(
    owner: psycopg.Connection, database: Database, service: Service
) -> None:
    add_text(owner, expires_in_seconds=3600)
    add_text(owner)
    deliver(database, service)
    first, second = sorted(request["TimeToLive"] for request in service.requests)
    assert 3000 < first < 3600
    assert second == 259_200
