"""Cancelling: 200 only when nothing was and nothing will be sent; 409 otherwise; again 200."""

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import psycopg
import pytest
from pydantic import TypeAdapter

from functions.core.errors import TooLate
from functions.core.login import Login
from functions.ingest import answers
from functions.store.cancel import cancel_batch, cancel_notification
from functions.store.connection import Database, connector
from tests.api import Api, Reply, email, recorded, start
from tests.fakes import FIRST_ORGANIZATION


@pytest.fixture
def api(database: Database) -> Api:
    return start(database)


def cancel(api: Api, id: str) -> Reply:
    return api.call("POST", f"/v1/notifications/{id}/cancel")


def put(owner: psycopg.Connection, id: str, state: str) -> None:
    owner.execute(f"UPDATE notifications SET {state} WHERE id = %s", (id,))  # pyright: ignore[reportArgumentType]


LEASED = "status = 'leased', lease_number = 1, lease_until = now() + interval '1 hour'"


@pytest.mark.parametrize("state", ["status = 'pending'", LEASED, "ready = false"])
def test_what_was_not_handed_over_is_cancelled(
    api: Api, owner: psycopg.Connection, state: str
) -> None:
    id = api.post(email()).json["id"]
    put(owner, id, state)
    reply = cancel(api, id)
    assert reply.status == 200
    TypeAdapter(answers.Notification).validate_json(reply.text)
    found = reply.json
    assert found["status"] == "cancelled"
    assert found["final_at"]
    assert found["next"] is None
    last = found["timeline"][-1]
    assert (last["actor"], last["to"]) == ("client", "cancelled")
    assert last["from"] == ("leased" if "leased" in state else "pending")
    assert last["sentence"] == "It was cancelled before anything was sent."
    assert found == api.get(f"/v1/notifications/{id}").json


def test_cancelling_again_gives_the_same_and_writes_nothing(
    api: Api, owner: psycopg.Connection
) -> None:
    id = api.post(email()).json["id"]
    first, again = cancel(api, id), cancel(api, id)
    assert (again.status, again.text) == (200, first.text)
    assert owner.execute("SELECT count(*) FROM transitions").fetchone() == (1,)


LATE = {
    "leased": f"{LEASED}, attempt_id = uuidv7()",
    "pending": "in_doubt = 1",
    "uncertain": "status = 'uncertain', in_doubt = 1",
    "submitted": "status = 'submitted'",
    "delivered": "status = 'delivered', final_at = now()",
    "failed": "status = 'failed', final_at = now()",
    "unconfirmed": "status = 'unconfirmed', final_at = now()",
    "suppressed": "status = 'suppressed', final_at = now()",
    "expired": "status = 'expired', final_at = now()",
    "dead": "status = 'dead', reason = 'rejected'",
}

SENT = "The notification may already have been sent; it cannot be cancelled."
ENDED = "The notification has ended already; it cannot be cancelled."
WORDS = {
    "suppressed": ENDED,
    "expired": ENDED,
    "dead": "The notification was set aside for an operator; it cannot be cancelled.",
}


@pytest.mark.parametrize(("status", "state"), LATE.items())
def test_what_may_have_been_sent_or_has_ended_is_too_late(
    api: Api, owner: psycopg.Connection, status: str, state: str
) -> None:
    id = api.post(email()).json["id"]
    put(owner, id, state)
    before = api.get(f"/v1/notifications/{id}").text
    reply = cancel(api, id)
    assert (reply.status, reply.code) == (409, "too_late")
    assert reply.json["notification_status"] == status
    assert reply.json["detail"] == f"{WORDS.get(status, SENT)} Its status is {status}."
    assert api.get(f"/v1/notifications/{id}").text == before


def test_an_attempt_that_opens_while_cancel_waits_wins(
    api: Api, login: Login, owner: psycopg.Connection
) -> None:
    """Cancel waits for the row and then decides on what it has become: never from a snapshot."""
    id = UUID(api.post(email()).json["id"])
    put(owner, str(id), LEASED)
    waiting = Database(connector(lambda: login, application_name="waiting"))

    def late_cancel() -> None:
        with pytest.raises(TooLate):
            cancel_notification(waiting, organization_id=FIRST_ORGANIZATION, notification_id=id)

    with ThreadPoolExecutor(1) as pool:
        with owner.transaction():
            put(owner, str(id), "attempt_id = uuidv7()")
            attempt = pool.submit(late_cancel)
            wait_until_somebody_waits(owner)
        attempt.result()
    waiting.close()
    assert api.get(f"/v1/notifications/{id}").json["status"] == "leased"


def wait_until_somebody_waits(owner: psycopg.Connection) -> None:
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    while owner.execute(query).fetchone() == (0,):
        pass


def test_a_batch_cancel_counts_what_it_did(api: Api, owner: psycopg.Connection) -> None:
    old = api.post(email("old@example.com", event_id="e")).json["id"]
    items = [email(f"user-{n}@example.com") for n in range(5)]
    items += [email("old@example.com", event_id="e")] * 2
    batch = api.post_batch(*items).json
    ids = [item["id"] for item in batch["notifications"]]
    put(owner, ids[0], "status = 'submitted'")
    put(owner, ids[1], f"{LEASED}, attempt_id = uuidv7()")
    put(owner, ids[2], LEASED)
    assert cancel(api, ids[3]).status == 200
    path = f"/v1/batches/{batch['batch_id']}/cancel"
    reply = api.call("POST", path)
    assert reply.status == 200
    assert reply.json == {"cancelled": 3, "too_late": 2, "already_cancelled": 1}
    TypeAdapter(answers.BatchCancelled).validate_json(reply.text)
    again = api.call("POST", path, body={})
    assert again.json == {"cancelled": 0, "too_late": 2, "already_cancelled": 4}
    assert api.get(f"/v1/notifications/{old}").json["status"] == "cancelled"
    steps = owner.execute(
        "SELECT from_status, to_status, actor, count(*) FROM transitions "
        "GROUP BY from_status, to_status, actor ORDER BY from_status"
    ).fetchall()
    assert steps == [
        ("leased", "cancelled", "client", 1),
        ("pending", "cancelled", "client", 3),
    ]


@pytest.mark.parametrize(
    "state",
    [
        "in_doubt = 1",
        "status = 'submitted', evidence_rank = 1, evidence_at = now(), evidence_key = 'k'",
        f"{LEASED}, attempt_id = uuidv7()",
    ],
)
def test_a_batch_cancel_leaves_what_may_have_been_accepted(
    api: Api, owner: psycopg.Connection, state: str
) -> None:
    batch = api.post_batch(email("a@example.com"), email("b@example.com")).json
    kept, gone = (item["id"] for item in batch["notifications"])
    put(owner, kept, state)
    reply = api.call("POST", f"/v1/batches/{batch['batch_id']}/cancel")
    assert reply.json == {"cancelled": 1, "too_late": 1, "already_cancelled": 0}
    assert api.get(f"/v1/notifications/{kept}").json["status"] != "cancelled"
    assert api.get(f"/v1/notifications/{gone}").json["status"] == "cancelled"


def test_two_batch_cancels_in_opposite_order_do_not_deadlock(
    api: Api, login: Login, owner: psycopg.Connection
) -> None:
    people = [email(f"user-{n}@example.com", event_id=f"e-{n}") for n in range(200)]
    one = UUID(api.post_batch(*people).json["batch_id"])
    two = UUID(api.post_batch(*reversed(people)).json["batch_id"])
    together = threading.Barrier(2)

    def send(batch_id: UUID) -> int:
        database = Database(connector(lambda: login, application_name="cancel"))
        try:
            database.run(lambda connection: connection.execute("SELECT 1"))
            together.wait()
            done = cancel_batch(database, organization_id=FIRST_ORGANIZATION, batch_id=batch_id)
            assert done.too_late == 0
            assert done.cancelled + done.already_cancelled == 200
            return done.cancelled
        finally:
            database.close()

    with ThreadPoolExecutor(2) as pool:
        cancelled = [future.result() for future in [pool.submit(send, id) for id in (one, two)]]
    assert sorted(cancelled) == [0, 200]
    assert owner.execute(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone() == (0,)


def test_a_cancel_takes_no_fields(api: Api) -> None:
    accepted = api.post_batch(email()).json
    for path in (
        f"/v1/notifications/{accepted['notifications'][0]['id']}/cancel",
        f"/v1/batches/{accepted['batch_id']}/cancel",
    ):
        reply = api.call("POST", path, body={"why": "a reason"})
        assert reply.faults == [("/why", "unknown_field")]
        assert api.call("POST", path, body=[]).faults == [("", "wrong_type")]
        assert api.call("POST", path, text="{").code == "malformed_json"
        assert api.call("POST", path, query="force=1").code == "unknown_parameter"
    assert api.get(f"/v1/batches/{accepted['batch_id']}").json["counts"] == {"pending": 1}


def test_the_recorded_cancel_is_served(api: Api, owner: psycopg.Connection) -> None:
    event = recorded("ingest.cancel")
    absent = api.send(event)
    assert (absent.status, absent.code) == (404, "not_found")
    id = api.post(email()).json["id"]
    event["rawPath"] = f"/v1/notifications/{id}/cancel"
    event["requestContext"]["http"]["path"] = event["rawPath"]
    assert api.send(event).json["status"] == "cancelled"
