"""What an event tells everybody: what somebody chose last, and that a device is gone."""

import copy
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count, permutations
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.callbacks.intake import Intake, Kept
from functions.callbacks.queue import take
from functions.core.recipient import recipient_hash
from functions.store.connection import Database
from functions.store.organization import create_organization
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION, row_of
from tests.pushing import APPLICATION, ENDPOINT, TOKEN
from tests.reports import HASH_KEY, add_known
from tests.sending import recorded
from tests.sns import envelope, stamp

ORGANIZATIONS = (FIRST_ORGANIZATION, SECOND_ORGANIZATION)
_numbers = count(1)


@pytest.fixture(autouse=True)
def organizations(owner: psycopg.Connection) -> None:
    owner.execute(
        "INSERT INTO organizations (id, name) VALUES (%s, 'one'), (%s, 'two')"
        " ON CONFLICT DO NOTHING",
        ORGANIZATIONS,
    )


def taken(database: Database, *told: Any) -> Kept:
    """Take a batch of these events, each in its envelope."""
    first = recorded("callbacks.sqs_raw")["Records"][0]
    records = [
        copy.deepcopy(first) | {"messageId": f"record-{number}", "body": json.dumps(one)}
        for number, one in enumerate(told)
    ]
    kept = take(records, intake=Intake(database=database, hash_key=lambda: HASH_KEY))
    assert kept.again == []
    return kept


def text(number: str, words: str, *, minute: int) -> dict[str, str]:
    """Return a message from ``number``, sent at this minute of the last hour."""
    message = {
        "originationNumber": number,
        "destinationNumber": "+15555550001",
        "messageKeyword": "KEYWORD_1",
        "messageBody": words,
        "inboundMessageId": f"in-{next(_numbers)}",
    }
    return envelope(message, Timestamp=stamp(timedelta(minutes=60 - minute)))


def facts(
    owner: psycopg.Connection, organization: UUID, channel: str, recipient: str
) -> list[tuple[str, str, str]]:
    """Return kind, reason and source of what is known of an address, oldest first."""
    return owner.execute(
        "SELECT kind, reason, source FROM suppressions WHERE organization_id = %s"
        " AND channel = %s AND recipient_hash = %s ORDER BY id",
        [organization, channel, recipient_hash(HASH_KEY, channel, recipient)],
    ).fetchall()


def is_suppressed(
    owner: psycopg.Connection, organization: UUID, channel: str, recipient: str
) -> bool:
    found = facts(owner, organization, channel, recipient)
    return bool(found) and found[-1][0] == "suppress"


CHOICES: Sequence[tuple[str, ...]] = (
    ("START", "STOP"),
    ("STOP", "START"),
    ("STOP", "START", "STOP"),
    ("START", "STOP", "START"),
    ("STOP", "STOP", "START"),
    ("STOP", "START", "START"),
    ("START", "STOP", "STOP"),
    ("STOP", "STOP", "START", "STOP"),
)


@pytest.mark.parametrize("chosen", CHOICES)
def test_h2_what_was_chosen_last_holds_in_whatever_order_it_is_told(
    owner: psycopg.Connection, database: Database, chosen: tuple[str, ...]
) -> None:
    for place, order in enumerate(permutations(range(len(chosen)))):
        number = f"+1555555{place:04}"
        for at in order:
            taken(database, text(number, chosen[at], minute=at))
        for organization in ORGANIZATIONS:
            suppressed = is_suppressed(owner, organization, "sms", number)
            assert suppressed == (chosen[-1] == "STOP"), order


def test_h2_a_start_that_is_told_first_leaves_what_an_operator_said(
    owner: psycopg.Connection, database: Database
) -> None:
    number = "+15555550100"
    operators = ("suppress", "operator", "api")
    owner.execute(
        "INSERT INTO suppressions (organization_id, channel, recipient_hash, kind, reason, source,"
        " source_at) VALUES (%s, 'sms', %s, 'suppress', 'operator', 'api', '2026-01-01Z')",
        [FIRST_ORGANIZATION, recipient_hash(HASH_KEY, "sms", number)],
    )
    taken(database, text(number, "START", minute=2))
    taken(database, text(number, "STOP", minute=1))
    assert facts(owner, FIRST_ORGANIZATION, "sms", number) == [operators]
    assert facts(owner, SECOND_ORGANIZATION, "sms", number) == []


def test_h2_a_repeated_choice_is_stated_to_each_organization_once(
    owner: psycopg.Connection, database: Database
) -> None:
    number = "+15555550100"
    for minute, words in enumerate(("STOP", "STOP", "END", "START", "START")):
        taken(database, text(number, words, minute=minute))
    for organization in ORGANIZATIONS:
        kinds = [kind for kind, *_ in facts(owner, organization, "sms", number)]
        assert kinds == ["suppress", "lift"]


def test_h2_an_organization_that_is_created_later_has_none_of_it_before_its_own_first_refusal(
    owner: psycopg.Connection, database: Database
) -> None:
    number = "+15555550100"
    taken(database, text(number, "STOP", minute=1))
    later = create_organization(Database(lambda: owner), name="later")
    assert facts(owner, later.id, "sms", number) == []
    taken(database, text(number, "STOP", minute=2))
    assert is_suppressed(owner, later.id, "sms", number), "what is told then it has as well"


def test_an_sms_event_with_something_odd_where_nobody_looks_ends_its_message(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_known(owner, channel="sms", recipient="+15555550100")
    event = {
        "eventType": "TEXT_INVALID",
        "eventTimestamp": 1_767_323_047_000,
        "isFinal": True,
        "destinationPhoneNumber": "+15555550100",
        "messageId": "sms-m1",
        "carrierName": "A\x00B",
        "messageStatusDescription": "\ud83d",
        "context": {"notification_id": str(id)},
    }
    assert taken(database, envelope(json.dumps(event))).recorded.unreadable == 0
    assert row_of(owner, id).status == "failed"


def push_event(kind: str = "EndpointUpdated", **members: Any) -> dict[str, str]:
    event = {
        "EventType": kind,
        "EndpointArn": ENDPOINT,
        "Resource": APPLICATION,
        "Service": "SNS",
        "Time": "2026-01-02T03:04:06.000Z",
        **members,
    }
    return envelope({name: value for name, value in event.items() if value is not None})


DEAD = ("suppress", "invalid", "sns:event")
DISABLED = {"Attributes": {"Enabled": "false", "Token": TOKEN}}
UNKNOWN_MESSAGE = {"FailureType": "InvalidPlatformToken", "MessageId": "nobody-s"}


@pytest.mark.parametrize(
    ("event", "known_by"),
    [
        (("EndpointUpdated", {"Enabled": "false"}), [ENDPOINT]),
        (("EndpointUpdated", DISABLED), [ENDPOINT, TOKEN]),
        (("DeliveryFailure", UNKNOWN_MESSAGE), [ENDPOINT]),
        (("DeliveryFailure", UNKNOWN_MESSAGE | {"MessageId": None}), [ENDPOINT]),
    ],
)
def test_h3_a_device_that_is_gone_is_a_fact_though_no_message_of_ours_is_named(
    owner: psycopg.Connection,
    database: Database,
    event: tuple[str, dict[str, Any]],
    known_by: list[str],
) -> None:
    kind, members = event
    kept = taken(database, push_event(kind, **members), push_event(kind, **members))
    assert (kept.recorded.stored, kept.recorded.choices) == (1, 0)
    taken(database, push_event(kind, **members | {"Time": "2026-01-02T03:05:00.000Z"}))
    for organization in ORGANIZATIONS:
        for name in (ENDPOINT, TOKEN):
            expected = [DEAD] if name in known_by else []
            assert facts(owner, organization, "push", name) == expected, "once, however often told"
    known = owner.execute("SELECT source_at, recipient, evidence FROM suppressions").fetchall()
    assert {row[:2] for row in known} == {(datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC), None)}
    assert all(row[2]["event_type"] == kind and row[2]["receipt_id"] for row in known)


def test_h3_the_failure_of_our_own_message_is_told_to_its_organization_alone(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_known(owner, channel="push", recipient=ENDPOINT)
    owner.execute(
        "INSERT INTO attempts (notification_id, lease_number, id, provider, started_at, reference)"
        " VALUES (%s, 1, uuidv7(), 'push', clock_timestamp(), 'push-m1')",
        [id],
    )
    members = UNKNOWN_MESSAGE | {"MessageId": "push-m1"}
    taken(database, push_event("DeliveryFailure", **members))
    mine = row_of(owner, id).organization_id
    assert facts(owner, mine, "push", ENDPOINT) == [DEAD]
    others = [one for one in ORGANIZATIONS if one != mine]
    assert [facts(owner, one, "push", ENDPOINT) for one in others] == [[]] * len(others)


def test_h3_a_device_that_was_lifted_since_stays_so_when_the_event_comes_late(
    owner: psycopg.Connection, database: Database
) -> None:
    owner.execute(
        "INSERT INTO suppressions (organization_id, channel, recipient_hash, kind, reason, source,"
        " source_at) VALUES (%s, 'push', %s, 'lift', 'operator', 'api', '2026-01-02 04:00Z')",
        [FIRST_ORGANIZATION, recipient_hash(HASH_KEY, "push", ENDPOINT)],
    )
    taken(database, push_event(Enabled="false"))
    assert not is_suppressed(owner, FIRST_ORGANIZATION, "push", ENDPOINT)
    assert is_suppressed(owner, SECOND_ORGANIZATION, "push", ENDPOINT)
    taken(database, push_event(Enabled="false", Time="2026-01-02T05:00:00.000Z"))
    assert is_suppressed(owner, FIRST_ORGANIZATION, "push", ENDPOINT)


@pytest.mark.parametrize(
    "event",
    [
        ("EndpointUpdated", {"Enabled": "true", "Attributes": {"Token": TOKEN}}),
        ("EndpointDeleted", {}),
        ("DeliveryFailure", UNKNOWN_MESSAGE | {"FailureType": "InvalidNotification"}),
        ("EndpointUpdated", {"Enabled": "false", "EndpointArn": "x y"}),
    ],
)
def test_any_other_event_of_an_endpoint_suppresses_nothing(
    owner: psycopg.Connection, database: Database, event: tuple[str, dict[str, Any]]
) -> None:
    kind, members = event
    taken(database, push_event(kind, **members))
    assert owner.execute("SELECT count(*) FROM suppressions").fetchone() == (0,)
