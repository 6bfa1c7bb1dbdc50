"""Reading back: batches, lists with filters and cursors, one notification with its story."""

import json
import string
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID

import psycopg
import pytest
from pydantic import TypeAdapter

from functions.ingest import answers
from functions.store.connection import Database
from functions.store.notification_list import LIST_NOTIFICATIONS
from tests.api import Api, email, recorded, start
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION, add_notifications

LETTERS = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
"""Of base64, in the order of their values."""


@pytest.fixture
def api(database: Database) -> Api:
    return start(database)


def ids_of(listed: Any) -> list[str]:
    return [item["id"] for item in listed["data"]]


def send(api: Api, number: int, **members: Any) -> list[str]:
    """Send ``number`` notifications; return their ids, newest first."""
    items = [email(f"user-{n}@example.com", **members) for n in range(number)]
    accepted = api.post_batch(*items).json
    return [item["id"] for item in reversed(accepted["notifications"])]


def test_pages_follow_each_other_newest_first_without_gap_or_repetition(api: Api) -> None:
    ids = send(api, 7)
    seen: list[str] = []
    query: str | None = "limit=3"
    pages = 0
    while query is not None:
        listed = api.get("/v1/notifications", query).json
        seen += ids_of(listed)
        pages += 1
        query = listed["next_cursor"] and f"limit=3&cursor={listed['next_cursor']}"
    assert (seen, pages) == (ids, 3)


def test_a_page_that_is_exactly_full_is_the_last(api: Api) -> None:
    send(api, 3)
    assert api.get("/v1/notifications", "limit=3").json["next_cursor"] is None


def test_an_empty_list_is_a_list(api: Api) -> None:
    assert api.get("/v1/notifications").json == {"data": [], "next_cursor": None}


def test_a_list_has_fifty_by_default(api: Api) -> None:
    send(api, 60)
    assert len(api.get("/v1/notifications").json["data"]) == 50


def test_what_arrives_between_two_pages_does_not_move_the_second(api: Api) -> None:
    ids = send(api, 4)
    first = api.get("/v1/notifications", "limit=2").json
    send(api, 3)
    second = api.get("/v1/notifications", f"limit=2&cursor={first['next_cursor']}").json
    assert ids_of(first) + ids_of(second) == ids


def test_each_filter_narrows_the_list(api: Api, owner: psycopg.Connection) -> None:
    first = api.post_batch(email(event_id="e, 1", reference="r 1"), email("b@example.com")).json
    sms = {"channel": "sms", "recipient": "+12025550143", "content": "Hi"}
    second = api.post_batch(sms, email("c@example.com")).json
    a, b = (item["id"] for item in first["notifications"])
    c, d = (item["id"] for item in second["notifications"])
    owner.execute(
        "UPDATE notifications SET status = 'leased', lease_until = now() WHERE id = %s", (b,)
    )
    owner.execute(
        "UPDATE notifications SET status = 'dead', reason = 'rejected' WHERE id = %s", (d,)
    )

    def found(query: str) -> list[str]:
        reply = api.get("/v1/notifications", query)
        assert reply.status == 200, reply
        return ids_of(reply.json)

    assert found("status=pending") == [c, a]
    assert found("status=leased&status=dead") == [d, b]
    assert found("channel=sms") == [c]
    assert found("channel=sms&channel=email&status=pending") == [c, a]
    assert found(f"batch_id={first['batch_id']}") == [b, a]
    assert found(f"batch_id={second['batch_id']}&channel=email") == [d]
    assert found(f"batch_id={UUID(int=1)}") == []
    assert found("event_id=e%2C%201") == [a]
    assert found("event_id=e") == []
    assert found("reference=r+1") == [a]
    assert found("recipient_id=nobody") == []


def test_a_batch_lists_what_it_repeats(api: Api) -> None:
    first = api.post_batch(email(event_id="e")).json["notifications"][0]["id"]
    batch = api.post_batch(email(event_id="e"), email("b@example.com")).json
    listed = api.get("/v1/notifications", f"batch_id={batch['batch_id']}").json
    assert ids_of(listed) == [batch["notifications"][1]["id"], first]


def test_dates_bound_created_at_to_the_millisecond(api: Api) -> None:
    ids = send(api, 3)
    created = [api.get(f"/v1/notifications/{id}").json["created_at"] for id in ids]

    def found(**bounds: str) -> list[str]:
        query = "&".join(f"{name}={quote(value)}" for name, value in bounds.items())
        return ids_of(api.get("/v1/notifications", query).json)

    for moment in created:
        later = [id for id, at in zip(ids, created, strict=True) if at >= moment]
        earlier = [id for id, at in zip(ids, created, strict=True) if at < moment]
        assert found(start_date=moment) == later
        assert found(end_date=moment) == earlier
        assert found(start_date=moment, end_date=moment) == []
        just_after = moment.replace("000Z", "001Z")
        assert found(end_date=just_after) == [
            id for id, at in zip(ids, created, strict=True) if at <= moment
        ]
    today = datetime.now(UTC)
    assert found(start_date=(today - timedelta(days=1)).date().isoformat()) == ids
    assert found(end_date=(today - timedelta(days=1)).date().isoformat()) == []
    assert found(start_date="9999-12-31T23:59:59Z") == []
    assert found(start_date="0001-01-01T00:00:00Z") == ids
    # An offset whose plus sign was not escaped arrives as a space.
    assert (
        len(ids_of(api.get("/v1/notifications", "start_date=2020-01-01T00:00:00+02:00").json)) == 3
    )


BAD_QUERIES = {
    "limit=0": "invalid_parameter",
    "limit=-1": "invalid_parameter",
    "limit=101": "invalid_parameter",
    "limit=1e9": "invalid_parameter",
    "limit=1000000000": "invalid_parameter",
    "limit=": "invalid_parameter",
    "limit=%D9%A3": "invalid_parameter",
    "limit=1&limit=2": "invalid_parameter",
    "status=sent": "invalid_parameter",
    "status=pending,dead": "invalid_parameter",
    "channel=": "invalid_parameter",
    "batch_id=7": "invalid_parameter",
    "event_id=": "invalid_parameter",
    "event_id=a%00b": "invalid_parameter",
    "event_id=" + "x" * 129: "invalid_parameter",
    "reference=a&reference=b": "invalid_parameter",
    "reference=%ff": "invalid_parameter",
    "start_date=yesterday": "invalid_parameter",
    "start_date=2026-01-01T00:00:00": "invalid_parameter",
    "end_date=2026-13-01": "invalid_parameter",
    "&".join(f"status=pending&x{n}=1" for n in range(200)): "invalid_parameter",
    "page=2": "use_cursor",
    "limit=10&page=1": "use_cursor",
    "offset=2": "unknown_parameter",
    "Status=pending": "unknown_parameter",
    "limit[]=3": "unknown_parameter",
}


def test_a_query_that_cannot_be_meant_is_refused(api: Api, subtests: pytest.Subtests) -> None:
    for query, code in BAD_QUERIES.items():
        with subtests.test(query[:40]):
            reply = api.get("/v1/notifications", query)
            assert (reply.status, reply.code) == (400, code)


def test_a3_a_cursor_that_is_not_ours_is_refused(api: Api, subtests: pytest.Subtests) -> None:
    send(api, 5)
    good = api.get("/v1/notifications", "limit=2").json["next_cursor"]
    other = api.having(organization_id=SECOND_ORGANIZATION)
    send(other, 5)
    foreign = other.get("/v1/notifications", "limit=2").json["next_cursor"]
    flipped = ("A" if good[3] != "A" else "B").join((good[:3], good[4:]))
    tampered = [
        "",
        "0",
        "-1",
        good + "!",
        good + "=",
        good + "A",
        good[:-1],
        good[:-1] + LETTERS[LETTERS.index(good[-1]) + 1],  # the same bytes, spelt otherwise
        good[:-1] + chr(ord(good[-1]) ^ 1),
        flipped,
        good.swapcase(),
        foreign,
        quote('{"id":"x"}'),
        "eyJpZCI6IngifQ",
        "eyJvIjotMX0",
        "WyJUZXN0Il0",
        "%00",
        "%C3%A9",
        "A" * 43,
        "A" * 5000,
        str(UUID(int=1)),
    ]
    for cursor in tampered:
        with subtests.test(cursor[:50]):
            reply = api.get("/v1/notifications", f"limit=2&cursor={cursor}")
            assert reply.status == 400
            assert reply.code in ("invalid_cursor", "invalid_parameter")
    for query in ("channel=email", "status=pending", "start_date=2020-01-01"):
        reply = api.get("/v1/notifications", f"{query}&cursor={good}")
        assert (reply.status, reply.code) == (400, "invalid_cursor")
    assert api.get("/v1/suppressions", f"cursor={good}").code == "invalid_cursor"
    # The size of the page is no filter, and the order of filters is none either.
    assert api.get("/v1/notifications", f"limit=1&cursor={good}").status == 200
    narrowed = api.get("/v1/notifications", "status=pending&status=dead&limit=2").json
    again = f"status=dead&status=pending&cursor={narrowed['next_cursor']}"
    assert api.get("/v1/notifications", again).status == 200


def test_a3_an_id_that_is_none_is_not_found(api: Api, subtests: pytest.Subtests) -> None:
    for text in ("abc", "0", str(UUID(int=1)), "x" * 300, "a b", "%00", "{1}", "é", "..", "-1"):
        for path in (
            f"/v1/notifications/{text}",
            f"/v1/batches/{text}",
            f"/v1/notifications/{text}/cancel",
            f"/v1/batches/{text}/cancel",
        ):
            with subtests.test(path[:60]):
                reply = api.call("POST" if path.endswith("cancel") else "GET", path)
                assert (reply.status, reply.code) == (404, "not_found")


def test_an_id_is_read_in_either_case(api: Api) -> None:
    (id,) = send(api, 1)
    assert api.get(f"/v1/notifications/{id.upper()}").json["id"] == id


def test_a_batch_counts_by_status_and_channel(api: Api, owner: psycopg.Connection) -> None:
    sms = {"channel": "sms", "recipient": "+12025550143", "content": "Hi"}
    items = [email("a@example.com"), email("b@example.com"), sms]
    accepted = api.post_batch(*items).json
    path = f"/v1/batches/{accepted['batch_id']}"
    assert api.get(path).json == {
        "batch_id": accepted["batch_id"],
        "status": "accepted",
        "total_count": 3,
        "counts": {"pending": 3},
        "counts_by_channel": {"email": {"pending": 2}, "sms": {"pending": 1}},
        "accepted_at": accepted["accepted_at"],
        "completed_at": None,
    }
    a, b, c = (item["id"] for item in accepted["notifications"])
    owner.execute(
        "UPDATE notifications SET lease_number = 1, status = 'delivered', "
        "final_at = '2030-01-01T00:00:00Z' WHERE id = %s",
        (a,),
    )
    assert api.get(path).json["status"] == "processing"
    owner.execute(
        "UPDATE notifications SET status = 'dead', reason = 'rejected', "
        "updated_at = '2031-01-01T00:00:00Z' WHERE id = %s",
        (b,),
    )
    assert api.call("POST", f"/v1/notifications/{c}/cancel").status == 200
    done = api.get(path).json
    assert done["status"] == "completed"
    assert done["counts"] == {"delivered": 1, "dead": 1, "cancelled": 1}
    assert done["counts_by_channel"] == {
        "email": {"dead": 1, "delivered": 1},
        "sms": {"cancelled": 1},
    }
    assert done["completed_at"] == "2031-01-01T00:00:00Z"
    TypeAdapter(answers.Batch).validate_json(json.dumps(done))


# Lease 1 is lost; the attempt of lease 2 is throttled; that of lease 3 is accepted and delivered.
STORY = (
    """
    INSERT INTO attempts (notification_id, lease_number, id, provider, started_at, finished_at,
                          outcome, reference, http_status, code, detail, retry_after_seconds)
    VALUES (%(id)s, 2, %(first)s, 'http', '2030-01-01T00:02:00Z', '2030-01-01T00:02:01Z',
            'throttled', NULL, 429, 'slow', 'down', 7),
           (%(id)s, 3, %(second)s, 'http', '2030-01-01T00:03:00Z', '2030-01-01T00:03:01Z',
            'accepted', 'm-1', 202, NULL, NULL, NULL)
    """,
    """
    INSERT INTO receipts (id, provider, event_key, organization_id, notification_id, attempt_id,
                          type, evidence_rank, reference, occurred_at, received_at, applied, raw)
    SELECT %(receipt)s, 'http', 'k', organization_id, id, %(second)s, 'delivered', 3, 'm-1',
           '2030-01-01T00:04:00Z', '2030-01-01T00:04:01Z', true, ''
      FROM notifications WHERE id = %(id)s
    """,
    """
    INSERT INTO transitions (notification_id, organization_id, at, actor, from_status, to_status,
                             reason, lease_number, attempt_id, receipt_id)
    SELECT id, organization_id, step.*
      FROM notifications, (VALUES
           ('2030-01-01T00:01:00Z'::timestamptz, 'sweeper', 'leased', 'pending', 'lease_expired',
            1, NULL::uuid, NULL::uuid),
           ('2030-01-01T00:02:01Z', 'sender', 'leased', 'pending', 'throttled',
            2, %(first)s, NULL),
           ('2030-01-01T00:03:01Z', 'sender', 'leased', 'submitted', 'accepted',
            3, %(second)s, NULL),
           ('2030-01-01T00:04:01Z', 'provider', 'submitted', 'delivered', NULL,
            NULL, NULL, %(receipt)s)) step
     WHERE id = %(id)s
    """,
    """
    UPDATE notifications
       SET status = 'delivered', lease_number = 3, attempts_spent = 1,
           final_at = '2030-01-01T00:04:01Z'
     WHERE id = %(id)s
    """,
)


def arrange_a_story(owner: psycopg.Connection, id: str) -> None:
    parameters = {"id": id, "first": UUID(int=11), "second": UUID(int=12), "receipt": UUID(int=13)}
    for statement in STORY:
        owner.execute(statement, parameters)


def test_a_notification_tells_its_whole_story(api: Api, owner: psycopg.Connection) -> None:
    id = api.post(email()).json["id"]
    arrange_a_story(owner, id)
    reply = api.get(f"/v1/notifications/{id}")
    found = reply.json
    TypeAdapter(answers.Notification).validate_json(reply.text)
    assert found["status"] == "delivered"
    assert found["final_at"] == "2030-01-01T00:04:01Z"
    assert found["next"] is None
    assert [(one["number"], one["lease_number"], one["outcome"]) for one in found["attempts"]] == [
        (1, 2, "throttled"),
        (2, 3, "accepted"),
    ]
    assert found["attempts"][0]["retry_after_seconds"] == 7
    assert found["attempts"][1]["reference"] == "m-1"
    assert [receipt["type"] for receipt in found["receipts"]] == ["delivered"]
    assert found["receipts"][0]["applied"]
    steps = [(one["actor"], one["from"], one["to"], one["reason"]) for one in found["timeline"]]
    assert steps == [
        ("client", None, "pending", None),
        ("claim", "pending", "leased", None),
        ("sweeper", "leased", "pending", "lease_expired"),
        ("claim", "pending", "leased", None),
        ("sender", "leased", "pending", "throttled"),
        ("claim", "pending", "leased", None),
        ("sender", "leased", "submitted", "accepted"),
        ("provider", "submitted", "delivered", None),
    ]
    times = [one["at"] for one in found["timeline"][1:]]
    assert times == sorted(times)
    assert all(one["sentence"].endswith(".") for one in found["timeline"])


def test_a_list_omits_what_only_one_notification_shows(api: Api) -> None:
    id = api.post(email()).json["id"]
    listed = api.get("/v1/notifications")
    TypeAdapter(answers.NotificationPage).validate_json(listed.text)
    (summary,) = listed.json["data"]
    detail = api.get(f"/v1/notifications/{id}").json
    extra = {"content", "template", "children", "attempts", "receipts", "timeline"}
    assert detail.keys() - summary.keys() == extra
    assert {name: detail[name] for name in summary} == summary


NEXT: dict[str, dict[str, Any] | None] = {
    "status = 'pending', available_at = '2030-01-01T00:00:00Z'": {
        "action": "send",
        "at": "2030-01-01T00:00:00Z",
    },
    "available_at = '2030-01-02T00:00:00Z', expires_at = '2030-01-01T00:00:00Z'": {
        "action": "expire",
        "at": "2030-01-01T00:00:00Z",
    },
    "status = 'leased', lease_number = 1, lease_until = '2030-01-01T00:00:00Z'": {
        "action": "recover",
        "at": "2030-01-01T00:00:00Z",
    },
    "status = 'submitted', next_check_at = '2030-01-01T00:00:00Z'": {
        "action": "check",
        "at": "2030-01-01T00:00:00Z",
    },
    "status = 'uncertain', in_doubt = 1, next_check_at = '2030-01-01T00:00:00Z'": {
        "action": "check",
        "at": "2030-01-01T00:00:00Z",
    },
    "status = 'dead', reason = 'rejected'": {"action": "decide", "at": None},
    "status = 'dead', reason = 'rejected', discarded_at = now()": None,
    "status = 'failed', final_at = now()": None,
    "status = 'unconfirmed', final_at = now()": None,
}


def test_next_says_what_happens_by_itself(
    api: Api, owner: psycopg.Connection, subtests: pytest.Subtests
) -> None:
    for state, expected in NEXT.items():
        with subtests.test(state):
            id = api.post(email()).json["id"]
            owner.execute(f"UPDATE notifications SET {state} WHERE id = %s", (id,))  # pyright: ignore[reportArgumentType]
            found = api.get(f"/v1/notifications/{id}").json
            assert found["next"] == expected
            assert found["held"] == (expected == {"action": "decide", "at": None})


def test_a_requeued_notification_shows_the_key_it_is_sent_under(
    api: Api, owner: psycopg.Connection
) -> None:
    id = api.post(email()).json["id"]
    assert api.get(f"/v1/notifications/{id}").json["idempotency_key"] == id
    owner.execute("UPDATE notifications SET key_epoch = 2 WHERE id = %s", (id,))
    assert api.get(f"/v1/notifications/{id}").json["idempotency_key"] == f"{id}.2"


def test_the_recorded_list_is_served(api: Api) -> None:
    ids = send(api, 3)
    reply = api.send(recorded("ingest.list"))
    assert reply.status == 200
    assert ids_of(reply.json) == ids[:2]


def test_a_list_reads_no_row_of_another_organization(api: Api, owner: psycopg.Connection) -> None:
    """A quiet organization's page costs the same behind anybody's flood."""
    send(api, 60)
    add_notifications(owner, 3000, organization_id=SECOND_ORGANIZATION)
    owner.execute("ANALYZE notifications")
    absent = dict.fromkeys(
        [
            "status",
            "channel",
            "batch_id",
            "event_id",
            "recipient_id",
            "invalid",
            "reference",
            "first_id",
            "end_id",
            "after",
        ]
    )
    parameters = {**absent, "organization_id": FIRST_ORGANIZATION, "limit": 5}
    explain = "EXPLAIN (ANALYZE, COSTS OFF) " + LIST_NOTIFICATIONS
    plan = str(owner.execute(explain, parameters, prepare=False).fetchall())
    assert "Backward using notifications_by_organization" in plan
    assert "Rows Removed by Filter" not in plan


def test_two_organizations_never_see_each_other(api: Api) -> None:
    mine = api.post_batch(email(event_id="e", reference="r")).json
    other = api.having(organization_id=SECOND_ORGANIZATION)
    theirs = other.post_batch(email(event_id="e", reference="r", content="Else")).json
    (my_id,), (their_id,) = (
        [item["id"] for item in batch["notifications"]] for batch in (mine, theirs)
    )
    for query in (
        "",
        "event_id=e",
        "reference=r",
        f"batch_id={mine['batch_id']}",
        "status=pending",
    ):
        assert my_id not in ids_of(other.get("/v1/notifications", query).json)
    assert ids_of(other.get("/v1/notifications", "event_id=e").json) == [their_id]
    for path in (f"/v1/notifications/{my_id}", f"/v1/batches/{mine['batch_id']}"):
        assert other.get(path).code == "not_found"
        assert other.call("POST", f"{path}/cancel").code == "not_found"
        absent = f"{path.rpartition('/')[0]}/{UUID(int=5)}"
        assert other.get(path).text == other.get(absent).text
    assert api.get(f"/v1/notifications/{my_id}").json["status"] == "pending"


def test_a_batch_whose_notifications_are_gone_can_still_be_read(
    api: Api, owner: psycopg.Connection
) -> None:
    batch = api.post_batch(email()).json
    owner.execute("DELETE FROM notifications")
    found = api.get(f"/v1/batches/{batch['batch_id']}")
    assert found.status == 200
    assert (found.json["status"], found.json["counts"]) == ("completed", {})
