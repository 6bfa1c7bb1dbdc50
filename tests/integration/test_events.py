"""Events from the queue: what is told counts, what cannot be read is noted, and nothing is lost."""

import copy
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count, permutations
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.callbacks.intake import Intake, Kept
from functions.callbacks.queue import records_in, take
from functions.core.errors import Unavailable
from functions.core.evidence import StoredReceipt
from functions.core.login import Login
from functions.core.recipient import recipient_hash
from functions.providers.event import read_again
from functions.store.connection import Connect, Database, connector
from functions.store.receipt import NOTHING, Recorded
from functions.store.shared_fact import EVERYBODY
from tests.conftest import free_port
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION, row_of
from tests.function_process import CALLBACK_ARN, HASH_ARN, callbacks_environment, function
from tests.reports import HASH_KEY, add_known
from tests.secrets_manager import secrets_manager
from tests.sending import recorded
from tests.sns import envelope, stamp
from tests.steps import begin_one, lease, opening_of

T = TypeVar("T")

NUMBER = "+15555550100"
_numbers = count(1)


def batch(*bodies: Any) -> list[dict[str, Any]]:
    """Return records as SQS delivers them, with these bodies (texts, or objects as JSON)."""
    first = recorded("callbacks.sqs_raw")["Records"][0]
    records: list[dict[str, Any]] = []
    for body in bodies:
        record = copy.deepcopy(first)
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        records.append(record | {"messageId": f"record-{next(_numbers)}", "body": text})
    return records


def taken(database: Database, records: Sequence[dict[str, Any]]) -> Kept:
    return take(records, intake=Intake(database=database, hash_key=lambda: HASH_KEY))


def ses(id: UUID, kind: str = "Delivery", **detail: Any) -> dict[str, Any]:
    """Return SES's event about ``id``: that it was delivered, or another with its detail."""
    (first, *_) = recorded("callbacks.sqs_raw")["Records"]
    event = json.loads(first["body"])
    event["mail"]["tags"] = {"notification_id": [str(id)], "attempt_id": [str(uuid4())]}
    event["mail"]["messageId"] = f"mail-{id}"
    if kind != "Delivery":
        del event["delivery"]
        event |= {"eventType": kind, **detail}
    return event


def refused(id: UUID, *, recipient: str = "ok@example.com") -> dict[str, Any]:
    bounce = {
        "bounceType": "Permanent",
        "bounceSubType": "OnAccountSuppressionList",
        "bouncedRecipients": [{"emailAddress": recipient, "status": "5.1.1"}],
        "timestamp": "2026-01-02T03:04:07.000Z",
        "feedbackId": f"f-{next(_numbers)}",
    }
    return ses(id, "Bounce", bounce=bounce)


def sms(id: UUID, kind: str = "TEXT_DELIVERED", **more: Any) -> dict[str, Any]:
    event = json.loads(recorded("callbacks.sqs_raw")["Records"][1]["body"])
    context = {"notification_id": str(id), "attempt_id": str(uuid4())}
    return {
        **event,
        "eventType": kind,
        "messageId": f"sms-{next(_numbers)}",
        "context": context,
        **more,
    }


def text_from(number: str, words: str, **more: Any) -> dict[str, Any]:
    return {
        "originationNumber": number,
        "destinationNumber": "+15555550001",
        "messageKeyword": "KEYWORD_1",
        "messageBody": words,
        "inboundMessageId": f"in-{next(_numbers)}",
        **more,
    }


def receipts(owner: psycopg.Connection) -> list[tuple[Any, ...]]:
    return owner.execute("SELECT provider, type, applied FROM receipts ORDER BY id").fetchall()


def test_a_recorded_batch_is_told_apart_from_a_request_and_read(
    owner: psycopg.Connection, database: Database
) -> None:
    for name in ("callbacks.sns_notification", "callbacks.delivered"):
        assert records_in(recorded(name)) is None
    event = recorded("callbacks.sqs_batch")
    records = records_in(event)
    assert records is not None
    kept = taken(database, event["Records"])
    assert (len(records), kept.again) == (4, [])
    assert kept.recorded == Recorded(
        stored=4, orphaned=4, applied=0, after_zero_submissions=0, choices=1
    )
    assert [row[:2] for row in receipts(owner)] == [
        ("sms", "inbound"),
        ("ses", "Bounce Permanent/OnAccountSuppressionList"),
        ("ses", "Delivery"),
        ("sms", "TEXT_DELIVERED"),
    ]


@pytest.mark.parametrize("enveloped", [True, False])
def test_an_event_counts_with_or_without_its_envelope(
    owner: psycopg.Connection, database: Database, enveloped: bool
) -> None:
    (mail,) = add_known(owner)
    (text,) = add_known(owner, channel="sms", recipient=NUMBER)
    events = [ses(mail), sms(text)]
    kept = taken(database, batch(*(envelope(one) if enveloped else one for one in events)))
    assert (kept.again, kept.recorded.applied) == ([], 2)
    assert (row_of(owner, mail).status, row_of(owner, text).status) == ("delivered", "delivered")


def test_what_the_providers_list_refused_is_suppressed_with_its_provenance(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_known(owner)
    taken(database, batch(envelope(refused(id))))
    row = row_of(owner, id)
    assert (row.status, row.reason is not None) == ("suppressed", True)
    (fact,) = owner.execute("SELECT kind, source FROM suppressions").fetchall()
    assert fact == ("suppress", "ses:account_list")


def test_e6_an_event_about_somebody_elses_copy_changes_nothing(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_known(owner)
    strangers = ses(id)
    strangers["delivery"]["recipients"] = ["archive@example.com"]
    taken(database, batch(strangers, refused(id, recipient="archive@example.com")))
    assert row_of(owner, id).status == "pending"
    assert owner.execute("SELECT count(*) FROM suppressions").fetchone() == (0,)
    upper = ses(id)
    upper["delivery"]["recipients"] = ["OK@EXAMPLE.COM"]
    upper["delivery"]["timestamp"] = "2026-01-02T03:05:00.000Z"
    taken(database, batch(upper))
    assert row_of(owner, id).status == "delivered"


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_events_of_one_message_give_one_end_in_every_order(
    owner: psycopg.Connection, database: Database, order: tuple[int, ...]
) -> None:
    (id,) = add_known(owner)
    told = [ses(id, "Send", send={}), ses(id), refused(id)]
    for place in order:
        taken(database, batch(envelope(told[place])))
    assert row_of(owner, id).status == "suppressed"


def test_the_same_record_twice_in_a_batch_and_again_later_counts_once(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_known(owner)
    event = refused(id)
    assert taken(database, batch(envelope(event), envelope(event), event)).recorded.stored == 1
    assert taken(database, batch(envelope(event))).recorded == NOTHING
    assert owner.execute("SELECT count(*) FROM suppressions").fetchone() == (1,)


# Bad input


def test_garbage_never_poisons_the_queue(owner: psycopg.Connection, database: Database) -> None:
    kept = taken(database, recorded("callbacks.sqs_garbage")["Records"])
    assert kept.again == []
    assert (kept.recorded.unreadable, kept.recorded.unforeseen) == (2, 2)
    assert sorted(row[1] for row in receipts(owner)) == [
        "Delivery",
        "Teleported",
        "unknown",
        "unreadable",
    ], "the two that are no JSON are the same bytes; the greeting of a topic is no event"


GARBAGE: list[Any] = [
    "",
    "[]",
    "null",
    "0",
    '"text"',
    "{",
    "\x00",
    "\ud800",
    "[" * 100_000,
    '{"a": 1, "a": 2}',
    {"mail": {}},
    {"mail": {"messageId": "m-1"}},
    {"eventType": "Delivery", "mail": {"messageId": 1}},
    {"eventType": "Delivery", "mail": {"messageId": "m"}, "delivery": []},
    {"eventType": "TEXT_DELIVERED", "messageId": None},
    {"eventType": "TEXT_TELEPORTED", "messageId": "m-2"},
    {"eventType": "\x00", "messageId": "\x00"},
    {"eventType": "a" * 10_000},
    {"originationNumber": 1, "inboundMessageId": 2},
    {"originationNumber": "", "inboundMessageId": "x"},
    {"originationNumber": "STOP", "inboundMessageId": "x\x00", "messageBody": "STOP"},
    {"EventType": "DeliveryFailure", "FailureType": "SolarFlare", "EndpointArn": "x"},
    {"EventType": 7},
    {"notification": {}, "delivery": {}},
    {"detail-type": "Sending Status Disabled", "detail": {}},
    {"Type": "SubscriptionConfirmation"},
    {"Type": "Notification", "Message": "{}", "MessageId": "m", "TopicArn": "t", "Timestamp": "x"},
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_of_every_kind_is_done_with_and_its_neighbours_count(
    owner: psycopg.Connection, database: Database, garbage: Any
) -> None:
    first, second = add_known(owner, 2)
    kept = taken(database, batch(ses(first), garbage, envelope(garbage), ses(second)))
    assert kept.again == []
    assert [row_of(owner, id).status for id in (first, second)] == ["delivered"] * 2
    assert owner.execute("SELECT count(*) FROM suppressions").fetchone() == (0,)


class Choking(Database):
    """A database that can never take a receipt whose bytes hold ``word``."""

    def __init__(self, connect: Connect, word: bytes) -> None:
        super().__init__(connect)
        self.word = word

    def run(self, work: Callable[[psycopg.Connection], T], *, pipelined: bool = False) -> T:
        def guarded(connection: psycopg.Connection) -> T:
            value = work(connection)
            found = connection.execute(
                "SELECT FROM receipts WHERE provider <> 'events' AND position(%s in raw) > 0",
                [self.word],
            )
            if found.fetchone() is not None:
                raise psycopg.DataError("it is about a row")
            return value

        return super().run(guarded, pipelined=pipelined)


def test_one_that_the_database_can_never_take_is_noted_and_its_neighbours_count(
    owner: psycopg.Connection, login: Login
) -> None:
    first, poison, second = add_known(owner, 3)
    bad = ses(poison)
    bad["mail"]["source"] = "the word"
    database = Choking(connector(lambda: login, application_name="test"), b"the word")
    try:
        kept = taken(database, batch(ses(first), bad, ses(second)))
    finally:
        database.close()
    assert (kept.again, kept.recorded.unreadable) == ([], 1)
    statuses = [row_of(owner, id).status for id in (first, poison, second)]
    assert statuses == ["delivered", "pending", "delivered"]
    assert ("events", "unreadable", False) in receipts(owner)


# Surroundings


def test_without_a_database_every_record_comes_again_and_counts_then(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    (id,) = add_known(owner)
    gone = Login(host=login.host, port=free_port(), name=login.name, user=login.user, tls=False)
    nowhere = Database(connector(lambda: gone, application_name="test"))
    records = batch(ses(id), "garbage", text_from(NUMBER, "STOP"))
    kept = taken(nowhere, records)
    assert sorted(kept.again) == sorted(record["messageId"] for record in records)
    assert kept.recorded == NOTHING
    assert taken(database, records).again == []
    assert row_of(owner, id).status == "delivered"


class Flickering(Database):
    """A database that is out for one piece of work, counted from 1."""

    def __init__(self, connect: Connect, *, out: int) -> None:
        super().__init__(connect)
        self.out = out

    def run(self, work: Callable[[psycopg.Connection], T], *, pipelined: bool = False) -> T:
        self.out -= 1
        if self.out == 0:
            raise Unavailable
        return super().run(work, pipelined=pipelined)


@pytest.mark.parametrize("out", [1, 2, 3])
def test_only_what_was_not_kept_comes_again(
    owner: psycopg.Connection, login: Login, out: int
) -> None:
    (mail,) = add_known(owner)
    (text,) = add_known(owner, channel="sms", recipient=NUMBER)
    records = batch(text_from(NUMBER, "STOP"), ses(mail), sms(text))
    database = Flickering(connector(lambda: login, application_name="test"), out=out)
    try:
        kept = taken(database, records)
        assert kept.again == [records[out - 1]["messageId"]]
        again = [one for one in records if one["messageId"] in kept.again]
        assert taken(database, again).recorded.stored == 1
    finally:
        database.close()
    assert (row_of(owner, mail).status, row_of(owner, text).status) == ("delivered", "delivered")


def test_the_function_answers_which_records_come_again_and_counts(
    owner: psycopg.Connection, login: Login, tmp_path: Path
) -> None:
    (id,) = add_known(owner)
    owner.execute(
        "UPDATE notifications SET recipient_hash = %s",
        [recipient_hash(b"key", "email", "ok@example.com")],
    )
    body = {"Records": batch(ses(id), envelope("garbage"), envelope({"eventType": "Invented"}))}
    secrets = {CALLBACK_ARN: {"current": "a2V5"}, HASH_ARN: {"current": "key"}}
    with (
        secrets_manager(secrets) as manager,
        function("callbacks", callbacks_environment(login, manager), tmp_path) as running,
    ):
        assert "cryptography" not in running.imported
        assert running.invoke(body) == {"batchItemFailures": []}
        assert row_of(owner, id).status == "delivered"
        counted = {name: number for name, number in running.metrics.items() if number}
        assert counted == {
            "ReceiptStored": 3,
            "ReceiptApplied": 1,
            "ReceiptOrphaned": 2,
            "EventUnreadable": 1,
            "EventUnforeseen": 1,
        }
        assert running.lines[-1]["message"] == "Took events"
        owner.execute("REVOKE ALL ON receipts FROM sendoff_service")
        with pytest.raises(Exception, match="invocation failed"):
            running.invoke(body)


# STOP and START


@pytest.fixture
def organizations(owner: psycopg.Connection) -> list[UUID]:
    owner.execute(
        "INSERT INTO organizations (id, name) VALUES (%s, 'one'), (%s, 'two')"
        " ON CONFLICT DO NOTHING",
        [FIRST_ORGANIZATION, SECOND_ORGANIZATION],
    )
    return [FIRST_ORGANIZATION, SECOND_ORGANIZATION]


def facts(owner: psycopg.Connection, organization: UUID) -> list[tuple[str, str, str]]:
    """Return kind, reason and source of what is known of the number, oldest first."""
    return owner.execute(
        "SELECT kind, reason, source FROM suppressions WHERE organization_id = %s"
        " AND channel = 'sms' AND recipient_hash = %s ORDER BY id",
        [organization, recipient_hash(HASH_KEY, "sms", NUMBER)],
    ).fetchall()


def add_fact(owner: psycopg.Connection, organization: UUID, reason: str, source: str) -> None:
    owner.execute(
        "INSERT INTO suppressions (organization_id, channel, recipient_hash, kind, reason, source,"
        " source_at) VALUES (%s, 'sms', %s, 'suppress', %s, %s, '2026-01-01Z')",
        [organization, recipient_hash(HASH_KEY, "sms", NUMBER), reason, source],
    )


STOPPED = ("suppress", "recipient_choice", "sms:inbound")
STARTED = ("lift", "recipient_choice", "sms:inbound")


@pytest.mark.parametrize("words", ["STOP", "stop", " Stop. ", "UNSUBSCRIBE", "Arrêt"])
def test_h2_a_stop_is_a_fact_for_every_organization_of_the_shared_number(
    owner: psycopg.Connection, database: Database, organizations: list[UUID], words: str
) -> None:
    kept = taken(database, batch(envelope(text_from(NUMBER, words))))
    assert (kept.recorded.choices, kept.recorded.stored) == (1, 1)
    for organization in organizations:
        assert facts(owner, organization) == [STOPPED]
    other = owner.execute("SELECT count(*) FROM suppressions WHERE channel <> 'sms'").fetchone()
    assert other == (0,)


def test_h2_only_the_organization_that_was_answered_is_told_the_number(
    owner: psycopg.Connection, database: Database, organizations: list[UUID]
) -> None:
    (id,) = add_known(owner, channel="sms", recipient=NUMBER, organization_id=SECOND_ORGANIZATION)
    owner.execute(
        "INSERT INTO attempts (notification_id, lease_number, id, provider, started_at, reference)"
        " VALUES (%s, 1, uuidv7(), 'sms', clock_timestamp(), 'sms-m1')",
        [id],
    )
    answer = text_from(NUMBER, "STOP", previousPublishedMessageId="sms-m1")
    taken(database, batch(answer))
    known = owner.execute("SELECT organization_id, recipient FROM suppressions").fetchall()
    assert dict(known) == {EVERYBODY: None, FIRST_ORGANIZATION: None, SECOND_ORGANIZATION: NUMBER}
    (note,) = owner.execute("SELECT notification_id, type, reason FROM receipts").fetchall()
    assert note == (id, "inbound", "STOP")


def test_h2_a_stop_that_is_repeated_adds_nothing(
    owner: psycopg.Connection, database: Database, organizations: list[UUID]
) -> None:
    stop = text_from(NUMBER, "STOP")
    for body in (stop, stop, text_from(NUMBER, "STOP"), text_from(NUMBER, "END")):
        taken(database, batch(envelope(body)))
    assert [facts(owner, one) for one in organizations] == [[STOPPED]] * 2


def test_h2_a_start_takes_the_stop_back_and_nothing_else(
    owner: psycopg.Connection, database: Database, organizations: list[UUID]
) -> None:
    first, second = organizations
    add_fact(owner, second, "operator", "api")
    taken(database, batch(text_from(NUMBER, "START")))
    assert (facts(owner, first), facts(owner, second)) == ([], [("suppress", "operator", "api")])
    taken(database, batch(text_from(NUMBER, "STOP")))
    taken(database, batch(text_from(NUMBER, "START")))
    assert facts(owner, first) == [STOPPED, STARTED]
    assert facts(owner, second)[-1] == ("suppress", "operator", "api"), "it holds again"
    taken(database, batch(text_from(NUMBER, "START")))
    assert len(facts(owner, first)) == 2


@pytest.mark.parametrize(
    ("reason", "source", "ends"),
    [
        ("recipient_choice", "sms:opt_out", STARTED),
        ("recipient_choice", "api", ("suppress", "recipient_choice", "api")),
        ("invalid", "sms:event", ("suppress", "invalid", "sms:event")),
    ],
)
def test_h2_a_start_takes_back_what_the_carrier_refused_for_and_no_choice_told_elsewhere(
    owner: psycopg.Connection,
    database: Database,
    organizations: list[UUID],
    reason: str,
    source: str,
    ends: tuple[str, str, str],
) -> None:
    add_fact(owner, organizations[0], reason, source)
    taken(database, batch(text_from(NUMBER, "START")))
    assert facts(owner, organizations[0])[-1] == ends


def published(words: str, age: timedelta) -> dict[str, str]:
    return envelope(text_from(NUMBER, words), Timestamp=stamp(age))


@pytest.mark.parametrize("order", list(permutations(range(2))))
def test_h2_what_was_chosen_last_holds_whichever_is_told_first(
    owner: psycopg.Connection,
    database: Database,
    organizations: list[UUID],
    order: tuple[int, ...],
) -> None:
    told = [published("START", timedelta(minutes=2)), published("STOP", timedelta(minutes=1))]
    for place in order:
        taken(database, batch(told[place]))
    assert facts(owner, organizations[0])[-1] == STOPPED


def test_h2_a_stop_that_comes_late_does_not_undo_a_later_start(
    owner: psycopg.Connection, database: Database, organizations: list[UUID]
) -> None:
    for words, minutes in (("STOP", 9), ("START", 1), ("STOP", 5)):
        taken(database, batch(published(words, timedelta(minutes=minutes))))
    assert facts(owner, organizations[0]) == [STOPPED, STARTED]


def test_a_message_that_is_no_choice_is_noted_without_its_words(
    owner: psycopg.Connection, database: Database, organizations: list[UUID]
) -> None:
    kept = taken(database, batch(text_from(NUMBER, "please stop calling my mother")))
    assert (kept.recorded.choices, facts(owner, organizations[0])) == (0, [])
    assert owner.execute("SELECT type, reason, raw FROM receipts").fetchall() == [
        ("inbound", None, b"")
    ]


def test_a_stop_from_a_short_code_is_nobodys(
    owner: psycopg.Connection, database: Database, organizations: list[UUID]
) -> None:
    kept = taken(database, batch(text_from("12345", "STOP")))
    assert (kept.again, kept.recorded.choices) == ([], 0)
    assert owner.execute("SELECT count(*) FROM suppressions").fetchone() == (0,)


def test_the_time_of_a_raw_message_is_when_it_was_put_on_the_queue(
    owner: psycopg.Connection, database: Database, organizations: list[UUID]
) -> None:
    taken(database, batch(text_from(NUMBER, "STOP")))
    (at,) = owner.execute("SELECT DISTINCT source_at FROM suppressions").fetchall()
    assert at[0] == datetime(2026, 1, 2, 3, 4, 8, tzinfo=UTC)


def test_h2_after_a_stop_no_text_opens_an_attempt_and_a_mail_does(
    owner: psycopg.Connection, database: Database, organizations: list[UUID]
) -> None:
    (text,) = add_known(owner, channel="sms", recipient=NUMBER)
    add_known(owner)
    taken(database, batch(envelope(text_from(NUMBER, "STOP"))))
    verdicts = {
        channel: begin_one(database, opening_of(lease(database, channel=channel)[0])).verdict
        for channel in ("sms", "email")
    }
    assert verdicts == {"sms": "suppressed", "email": "go"}
    assert row_of(owner, text).status == "suppressed"
    taken(database, batch(envelope(text_from(NUMBER, "START"))))
    add_known(owner, channel="sms", recipient=NUMBER)
    (again,) = lease(database, channel="sms")
    assert begin_one(database, opening_of(again)).verdict == "go"


def test_a_note_is_read_once_there_are_rules_for_it() -> None:
    def kept(body: str) -> StoredReceipt:
        return StoredReceipt(
            id=uuid4(),
            provider="events",
            event_key="k",
            raw=body.encode(),
            received_at=datetime(2026, 1, 2, tzinfo=UTC),
            channel=None,
        )

    for still in ("garbage", json.dumps({"eventType": "Invented"})):
        assert read_again(kept(still), hash_key=HASH_KEY) is None
    id = uuid4()
    for body in (json.dumps(ses(id)), json.dumps(envelope(ses(id)))):
        receipt = read_again(kept(body), hash_key=HASH_KEY)
        assert receipt is not None
        assert (receipt.provider, receipt.type) == ("ses", "Delivery")
