"""SNS over HTTP: true messages of our topics count, forged and foreign ones change nothing."""

import base64
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.callbacks.receive import MAX_BODY_BYTES, Receiver
from functions.core.login import Login
from functions.store.connection import Database, connector
from functions.store.receipt import Recorded
from tests.conftest import free_port
from tests.fakes import row_of
from tests.function_process import CALLBACK_ARN, HASH_ARN, callbacks_environment, function
from tests.reports import HASH_KEY, add_known
from tests.secrets_manager import secrets_manager
from tests.sending import recorded
from tests.sns import (
    CERTIFICATE_URL,
    HOST,
    TOPIC,
    FakeSns,
    confirmation,
    envelope,
    fake_sns,
    http_event,
    key,
    sign,
    stamp,
)

PATH = CERTIFICATE_URL.removeprefix(f"https://{HOST}")


@pytest.fixture
def sns() -> Iterator[FakeSns]:
    with fake_sns() as fake:
        yield fake


def deliver(
    database: Database, sns: FakeSns, event: dict[str, Any], *topics: str
) -> tuple[int, str | None, Recorded | None]:
    """Hand an HTTP event to the callbacks' use case; return status, problem code, what was kept."""
    receiver = Receiver(
        database=database,
        secrets=lambda: (),
        hash_key=lambda: HASH_KEY,
        sns=sns.door(database, *topics),
    )
    answer, kept = receiver.receive(event)
    return answer["statusCode"], json.loads(answer["body"] or "{}").get("code"), kept


def delivery_about(id: UUID, recipient: str = "ok@example.com") -> dict[str, Any]:
    """Return SES's event that ``id`` was delivered."""
    event = json.loads(json.loads(recorded("callbacks.sns_notification")["body"])["Message"])
    event["mail"]["tags"]["notification_id"] = [str(id)]
    event["delivery"]["recipients"] = [recipient]
    return event


def receipts(owner: psycopg.Connection) -> list[tuple[Any, ...]]:
    return owner.execute("SELECT provider, type, applied FROM receipts ORDER BY id").fetchall()


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("subject", [None, "Amazon SES Email Event Notification", "Grüße 😀"])
def test_e4_a_true_message_of_our_topic_counts(
    owner: psycopg.Connection, database: Database, sns: FakeSns, version: str, subject: str | None
) -> None:
    (id,) = add_known(owner)
    made = envelope(delivery_about(id), SignatureVersion=version, Subject=subject)
    status, _, kept = deliver(database, sns, http_event(sign(made)))
    assert (status, kept) == (
        202,
        Recorded(stored=1, orphaned=0, applied=1, after_zero_submissions=0),
    )
    assert row_of(owner, id).status == "delivered"
    (raw,) = owner.execute("SELECT raw FROM receipts").fetchall()
    assert bytes(raw[0]) == made["Message"].encode(), "the event's own bytes are kept"


def test_e7_a_body_that_arrives_as_base64_is_the_same_message(
    owner: psycopg.Connection, database: Database, sns: FakeSns
) -> None:
    (id,) = add_known(owner)
    body = json.dumps(sign(envelope(delivery_about(id))), ensure_ascii=False).encode()
    assert deliver(database, sns, http_event(body))[0] == 202
    assert row_of(owner, id).status == "delivered"


def test_a_repeated_message_counts_once_by_whichever_door_it_comes(
    owner: psycopg.Connection, database: Database, sns: FakeSns
) -> None:
    (id,) = add_known(owner)
    event = delivery_about(id)
    assert deliver(database, sns, http_event(sign(envelope(event))))[0] == 202
    status, _, kept = deliver(database, sns, http_event(sign(envelope(event))))
    assert (status, kept) == (
        202,
        Recorded(stored=0, orphaned=0, applied=0, after_zero_submissions=0),
    )


def forgeries(id: UUID) -> dict[str, dict[str, str]]:
    """Return what a forger may send about ``id``, every one signed by somebody."""
    event, foreign = delivery_about(id), TOPIC.replace("123456789012", "999999999999")
    s3 = "https://s3.amazonaws.com/bucket/SimpleNotificationService-0a.pem"
    lookalike = f"https://{HOST}.example.com{PATH}"
    return {
        "own key": sign(envelope(event), key(2)),
        "own certificate in a bucket": sign(envelope(event, SigningCertURL=s3), key(2)),
        "certificate without TLS": sign(
            envelope(event, SigningCertURL=f"http://{HOST}{PATH}"), key(2)
        ),
        "certificate of a look-alike": sign(envelope(event, SigningCertURL=lookalike), key(2)),
        "another topic": sign(envelope(event, TopicArn=foreign)),
        "another topic's subscription": sign(confirmation(TopicArn=foreign)),
        "subscription to localhost": sign(confirmation(SubscribeURL="http://127.0.0.1:8080/")),
        "changed message": {**sign(envelope("hello")), "Message": json.dumps(event)},
        "old message": sign(envelope(event, Timestamp=stamp(timedelta(minutes=61)))),
        "message of tomorrow": sign(envelope(event, Timestamp=stamp(timedelta(days=-1)))),
        "no signature": envelope(event),
        "version of nobody": {**sign(envelope(event)), "SignatureVersion": "3"},
    }


def test_e4_a_forged_or_foreign_message_changes_nothing_and_has_nothing_fetched_elsewhere(
    owner: psycopg.Connection, database: Database, sns: FakeSns
) -> None:
    (id,) = add_known(owner)
    before = row_of(owner, id)
    for case, made in forgeries(id).items():
        status, code, kept = deliver(database, sns, http_event(made))
        assert (status, code, kept) == (401, "unauthenticated", None), case
        assert set(sns.asked) <= {CERTIFICATE_URL}, case
    assert (row_of(owner, id), receipts(owner)) == (before, [])
    assert owner.execute("SELECT count(*) FROM suppressions").fetchone() == (0,)


@pytest.mark.parametrize(
    "case",
    [
        "own certificate in a bucket",
        "certificate without TLS",
        "certificate of a look-alike",
        "another topic",
        "another topic's subscription",
        "subscription to localhost",
        "no signature",
        "version of nobody",
    ],
)
def test_e4_what_names_another_place_or_topic_is_refused_without_a_single_connection(
    owner: psycopg.Connection, database: Database, sns: FakeSns, case: str
) -> None:
    (id,) = add_known(owner)
    assert deliver(database, sns, http_event(forgeries(id)[case]))[0] == 401
    assert sns.server is not None
    assert (sns.asked, sns.server.connections) == ([], 0)


def test_e4_a_subscription_to_our_topic_is_confirmed_and_a_forged_one_is_not(
    owner: psycopg.Connection, database: Database, sns: FakeSns
) -> None:
    made = sign(confirmation())
    assert deliver(database, sns, http_event(made))[0] == 202
    assert sns.asked == [CERTIFICATE_URL, made["SubscribeURL"]]
    assert receipts(owner) == []
    sns.asked.clear()
    assert deliver(database, sns, http_event(sign(confirmation(), key(2))))[0] == 401
    assert sns.asked == [CERTIFICATE_URL]


def test_a_subscription_that_cannot_be_confirmed_now_is_announced_again(
    database: Database, sns: FakeSns
) -> None:
    sns.statuses["/"] = 500
    assert deliver(database, sns, http_event(sign(confirmation())))[:2] == (503, "unavailable")


def test_the_end_of_a_subscription_is_kept_as_a_note(
    owner: psycopg.Connection, database: Database, sns: FakeSns
) -> None:
    made = sign(confirmation("UnsubscribeConfirmation"))
    assert deliver(database, sns, http_event(made))[0] == 202
    assert receipts(owner) == [("events", "UnsubscribeConfirmation", False)]
    assert sns.asked == [CERTIFICATE_URL], "and it is not subscribed to again"


def test_an_event_that_nobody_reads_is_a_note_and_not_sent_again(
    owner: psycopg.Connection, database: Database, sns: FakeSns
) -> None:
    for message in ("not json", "", {"hello": "world"}):
        assert deliver(database, sns, http_event(sign(envelope(message))))[0] == 202
    kinds = ["unreadable", "unreadable", "unknown"]
    assert receipts(owner) == [("events", kind, False) for kind in kinds]


@pytest.mark.parametrize("body", ["", "not json", "[]", "{}", json.dumps({"Type": "Notification"})])
def test_what_is_no_envelope_is_a_bad_request(
    owner: psycopg.Connection, database: Database, sns: FakeSns, body: str
) -> None:
    assert deliver(database, sns, http_event(body))[:2] == (400, "malformed_json")
    broken = http_event(body) | {"body": "not base64!", "isBase64Encoded": True}
    assert deliver(database, sns, broken)[:2] == (400, "malformed_json")
    assert (sns.asked, receipts(owner)) == ([], [])


def test_a_message_that_is_too_long_is_refused(database: Database, sns: FakeSns) -> None:
    whole = json.dumps(sign(envelope("a" * MAX_BODY_BYTES)))
    assert deliver(database, sns, http_event(whole))[:2] == (413, "too_large")
    assert sns.asked == []


def test_a_provider_without_callbacks_and_a_door_that_is_not_there_are_not_found(
    database: Database, sns: FakeSns
) -> None:
    event = http_event(sign(envelope("hello")))
    event["pathParameters"]["provider"] = "ses"
    assert deliver(database, sns, event)[:2] == (404, "not_found")
    closed = Receiver(database=database, secrets=lambda: (), hash_key=lambda: HASH_KEY)
    answer, _ = closed.receive(http_event(sign(envelope("hello"))))
    assert answer["statusCode"] == 404


def test_sns_tries_again_while_the_certificate_or_the_database_cannot_be_had(
    owner: psycopg.Connection, database: Database, login: Login, sns: FakeSns
) -> None:
    (id,) = add_known(owner)
    made = sign(envelope(delivery_about(id)))
    sns.statuses[PATH] = 503
    assert deliver(database, sns, http_event(made))[:2] == (503, "unavailable")
    sns.statuses.clear()
    gone = Login(host=login.host, port=free_port(), name=login.name, user=login.user, tls=False)
    nowhere = Database(connector(lambda: gone, application_name="test"))
    assert deliver(nowhere, sns, http_event(made))[:2] == (503, "unavailable")
    assert receipts(owner) == []
    assert deliver(database, sns, http_event(made))[0] == 202
    assert row_of(owner, id).status == "delivered"


@pytest.mark.parametrize("name", ["callbacks.sns_notification", "callbacks.sns_subscription"])
def test_a_recorded_message_is_refused_for_its_signature(
    database: Database, sns: FakeSns, name: str
) -> None:
    assert deliver(database, sns, recorded(name))[:2] == (401, "unauthenticated")
    assert set(sns.asked) <= {CERTIFICATE_URL}


def test_e4_the_function_itself_refuses_what_is_foreign_and_fetches_nothing_for_it(
    owner: psycopg.Connection, login: Login, tmp_path: Any
) -> None:
    """In a process of its own, whose network leads nowhere: a look would end as 503."""
    del owner
    secret = base64.b64encode(b"callback-secret-of-the-tests").decode()
    with secrets_manager(
        {CALLBACK_ARN: {"current": secret}, HASH_ARN: {"current": "k"}}
    ) as manager:
        environment = callbacks_environment(login, manager)
        for topics in ("", f"{TOPIC}-2, {TOPIC}-3"):
            given = environment | {"EVENT_TOPIC_ARNS": topics}
            with function("callbacks", given, tmp_path) as running:
                assert "cryptography" not in running.imported
                answer = running.invoke(http_event(sign(envelope("hello"))))
                assert answer["statusCode"] == 401
                assert running.metrics == {"CallbackRefused": 1}
