"""What is accepted is stored as asked, once, in order; each recorded event is served."""

import base64
import json
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from functions.core.recipient import recipient_hash
from functions.store.connection import Database
from tests.api import HASH_KEY, LOCAL_ORIGIN, Api, email, recorded, start
from tests.fakes import FIRST_ORGANIZATION


@pytest.fixture
def api(database: Database) -> Api:
    return start(database)


def rows(owner: psycopg.Connection) -> list[dict[str, Any]]:
    with owner.cursor(row_factory=dict_row) as cursor:
        return cursor.execute("SELECT * FROM notifications ORDER BY id").fetchall()


def counts(owner: psycopg.Connection) -> tuple[int, int, int]:
    """How many notifications, batches and idempotency keys there are."""
    (found,) = owner.execute(
        "SELECT (SELECT count(*) FROM notifications), (SELECT count(*) FROM batches), "
        "(SELECT count(*) FROM idempotency_keys)"
    ).fetchall()
    return found


def everything() -> list[dict[str, Any]]:
    """One item per channel, with every optional member."""
    return [
        {
            "channel": channel,
            "recipient": recipient,
            "content": content,
            "priority": "high",
            "category": "receipts",
            "event_id": f"event-{channel}",
            "reference": "order-7",
            "send_at": "2020-01-01T01:00:00+01:00",
            "expires_at": "9999-12-31T23:59:59Z",
            "metadata": {"shop": "nørth"},
        }
        for channel, recipient, content in (
            ("email", "Ada@Example.com", {"subject": "Hi", "text": "t", "html": "<p>t</p>"}),
            ("sms", "+1 (202) 555-0143", "Your code is 123"),
            ("push", "sim-ok", {"title": "Hi", "body": "There", "data": {"n": 1}}),
            ("webhook", f"{LOCAL_ORIGIN}/hooks/ok", {"order": 12345678901234567890123, "x": None}),
        )
    ]


def test_a_batch_is_stored_as_asked_for(api: Api, owner: psycopg.Connection) -> None:
    reply = api.post_batch(*everything())
    assert reply.status == 202
    assert "idempotent-replayed" not in reply.headers
    answer = reply.json
    assert answer["status"] == "accepted"
    assert answer["total_count"] == 4
    assert [item["index"] for item in answer["notifications"]] == [0, 1, 2, 3]
    assert not any(item["duplicate"] for item in answer["notifications"])
    stored = rows(owner)
    assert [str(row["id"]) for row in stored] == [item["id"] for item in answer["notifications"]]
    for row, item in zip(stored, everything(), strict=True):
        assert row["organization_id"] == FIRST_ORGANIZATION
        assert str(row["batch_id"]) == answer["batch_id"]
        assert row["content"] == item["content"]
        assert row["priority"] == "high"
        assert row["category"] == "receipts"
        assert row["event_id"] == item["event_id"]
        assert row["reference"] == "order-7"
        assert row["metadata"] == {"shop": "nørth"}
        assert row["send_at"].isoformat() == "2020-01-01T00:00:00+00:00"
        assert row["max_attempts"] == 5
        assert row["status"] == "pending"
        assert row["ready"]
        assert row["available_at"] == row["eligible_at"] >= row["created_at"]
    assert [row["recipient"] for row in stored] == [
        "Ada@example.com",
        "+12025550143",
        "sim-ok",
        f"{LOCAL_ORIGIN}/hooks/ok",
    ]
    assert stored[0]["recipient_hash"] == recipient_hash(HASH_KEY, "email", "ada@example.com")


def test_what_is_to_be_sent_later_is_not_ready(api: Api, owner: psycopg.Connection) -> None:
    api.post_batch(email(send_at="2999-01-01T00:00:00Z"), email(send_at="1999-01-01T00:00:00Z"))
    later, past = rows(owner)
    assert not later["ready"]
    assert later["available_at"] == later["eligible_at"] == later["send_at"]
    assert past["ready"]
    assert past["available_at"] > past["send_at"]


def test_max_attempts_is_the_channels_at_the_time(api: Api, owner: psycopg.Connection) -> None:
    owner.execute("UPDATE channels SET max_attempts = 9 WHERE name = 'email'")
    api.post_batch(email())
    owner.execute("UPDATE channels SET max_attempts = 2 WHERE name = 'email'")
    assert [row["max_attempts"] for row in rows(owner)] == [9]


def test_created_at_is_the_time_of_the_id(api: Api, owner: psycopg.Connection) -> None:
    api.post_batch(email(), email("ben@example.com"))
    query = "SELECT bool_and(created_at = uuid_extract_timestamp(id)) FROM notifications"
    assert owner.execute(query).fetchone() == (True,)


def test_a5_a_thousand_items_with_every_member_are_stored_once(
    api: Api, owner: psycopg.Connection
) -> None:
    items = [
        {
            **everything()[index % 4],
            "event_id": f"event-{index}",
            "metadata": {f"name-{n}": "v" * 20 for n in range(16)},
        }
        for index in range(1000)
    ]
    reply = api.post_batch(*items)
    assert reply.status == 202
    assert reply.json["total_count"] == 1000
    stored = rows(owner)
    assert [row["event_id"] for row in stored] == [item["event_id"] for item in items]
    assert [row["batch_index"] for row in stored] == list(range(1000))


@pytest.mark.parametrize(("number", "fault"), [(0, "required"), (1001, "too_many")])
def test_a5_no_item_and_too_many_are_refused(
    api: Api, owner: psycopg.Connection, number: int, fault: str
) -> None:
    reply = api.post_batch(*[email()] * number)
    assert (reply.status, reply.code) == (422, "validation_failed")
    assert reply.faults == [("/notifications", fault)]
    assert counts(owner) == (0, 0, 0)


def test_a6_a_repeated_event_within_a_batch_is_one_notification(
    api: Api, owner: psycopg.Connection
) -> None:
    others = [email(f"user-{n}@example.com", event_id=f"e-{n}") for n in range(20)]
    reply = api.post_batch(
        email("A@Example.com", event_id="e"), *others, email("a@example.com", event_id="e")
    )
    assert reply.status == 202
    items = reply.json["notifications"]
    assert items[-1]["id"] == items[0]["id"]
    assert [item["duplicate"] for item in items] == [False] * 21 + [True]
    assert reply.json["total_count"] == 22
    assert counts(owner)[0] == 21
    batch = api.get(f"/v1/batches/{reply.json['batch_id']}").json
    assert batch["counts"] == {"pending": 22}


def test_a6_the_same_event_with_other_content_stores_nothing(
    api: Api, owner: psycopg.Connection
) -> None:
    reply = api.post_batch(
        email(event_id="e"),
        email("ben@example.com", event_id="e"),
        email(event_id="e", content="Something else"),
    )
    assert (reply.status, reply.code) == (422, "event_id_conflict")
    assert reply.faults == [("/notifications/2/event_id", "event_id_conflict")]
    assert counts(owner) == (0, 0, 0)


def test_a6_an_event_known_from_an_earlier_request_gives_the_first_id(
    api: Api, owner: psycopg.Connection
) -> None:
    content = {"subject": "Hi", "text": "There"}
    first = api.post_batch(email(event_id="e", content=content)).json["notifications"][0]
    reordered = {"text": "There", "subject": "Hi"}
    again = api.post_batch(email("ben@example.com"), email(event_id="e", content=reordered))
    assert again.json["notifications"][1] == {"index": 1, "id": first["id"], "duplicate": True}
    single = api.post(email(event_id="e", content=content))
    assert (single.status, single.json["id"]) == (202, first["id"])
    conflict = api.post(email(event_id="e", content="Something else"))
    assert (conflict.status, conflict.code) == (422, "event_id_conflict")
    assert conflict.faults == [("/event_id", "event_id_conflict")]
    assert counts(owner)[0] == 2


def test_the_same_event_on_another_channel_is_another_notification(api: Api) -> None:
    reply = api.post_batch(
        email(event_id="e"),
        {"channel": "sms", "recipient": "+12025550143", "content": "Hi", "event_id": "e"},
        email("ben@example.com", event_id="e"),
    )
    assert not any(item["duplicate"] for item in reply.json["notifications"])


def test_a_single_notification_is_answered_as_it_is_read(api: Api) -> None:
    reply = api.post(email(reference="order-7"))
    assert reply.status == 202
    assert reply.json == api.get(f"/v1/notifications/{reply.json['id']}").json
    assert reply.json["batch_id"] is None
    assert reply.json["status"] == "pending"
    assert reply.json["next"]["action"] == "send"
    assert reply.json["timeline"][0]["sentence"]


@pytest.mark.parametrize("content", [None, False, 0, "", [], {"deep": [[1.5]]}])
def test_the_content_of_a_webhook_is_any_json(api: Api, content: Any) -> None:
    item = {"channel": "webhook", "recipient": "https://example.com/", "content": content}
    reply = api.post({**item, "event_id": "e"})
    assert reply.status == 202
    assert reply.json["content"] == content
    assert api.post({**item, "event_id": "e"}).json["id"] == reply.json["id"]


def test_null_counts_as_absent(api: Api) -> None:
    names = ("priority", "category", "event_id", "reference", "send_at", "expires_at", "metadata")
    names += ("recipient_id", "template", "channels")
    reply = api.post(email(**dict.fromkeys(names)))
    assert reply.status == 202
    assert reply.json["priority"] == "normal"
    assert reply.json["category"] == "transactional"
    assert reply.json["metadata"] == {}


def test_the_recorded_post_is_served(api: Api) -> None:
    reply = api.send(recorded("ingest.post"))
    assert reply.status == 202
    assert reply.json["recipient"] == "ada@example.com"
    assert reply.json["event_id"] == "order-1001-shipped"


def test_the_recorded_base64_post_below_the_prefix_is_served(api: Api) -> None:
    event = recorded("ingest.base64")
    assert json.loads(base64.b64decode(event["body"]))["content"] == "Grüße"
    reply = api.send(event)
    assert reply.status == 202
    assert reply.json["content"] == "Grüße"


@pytest.fixture
def thousand() -> dict[str, Any]:
    event = recorded("ingest.batch")
    context = {"organization_id": str(FIRST_ORGANIZATION), "scopes": "send", "key_id": "k"}
    event["requestContext"]["authorizer"] = {"lambda": context}
    return event


def test_the_recorded_batch_of_a_thousand_is_served(api: Api, thousand: dict[str, Any]) -> None:
    reply = api.send(thousand)
    assert reply.status == 202, reply.text[:2000]
    assert reply.json["total_count"] == len(json.loads(thousand["body"])["notifications"])
