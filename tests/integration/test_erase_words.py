"""Whatever anybody wrote an address into: before it is erased, while that goes on, and after."""

import time
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from functions.claim.gate import judge, open_to_all
from functions.core.outcome import Accepted, Outcome, Refused, Transient
from functions.ingest.deployment import Deployment
from functions.ingest.drain import drain
from functions.store.connection import Database
from functions.store.erase import continue_erasures
from infra.local.postgres import Postgres
from tests.api import HASH_KEY, LOCAL_ORIGIN, Api, Reply, email, start
from tests.erasing import ADA, delete, dump_of, erase, lines_naming, put
from tests.fakes import FIRST_ORGANIZATION, row_of
from tests.reports import told
from tests.steps import begin_one, begun, close_one, lease, now_of, opening_of


def having(address: str, channel: str = "email") -> dict[str, Any]:
    return {"contact_points": [{"channel": channel, "address": address, "verified": True}]}


OLD, NEW = having("old@example.com"), having("new@example.com")
NAMES = ("old@example.com", "new@example.com", "ada@example.com")


@pytest.fixture
def api(database: Database) -> Api:
    return start(database)


def naming(postgres: Postgres, name: str, *names: str) -> list[str]:
    return [line[:600] for line in lines_naming(dump_of(postgres, name), names or NAMES)]


def sweep(database: Database, owner: psycopg.Connection) -> None:
    """Go through what was erased once more, and forget that it was."""
    for seconds in (61, 130):
        later = now_of(owner, seconds=seconds)
        continue_erasures(database, ends_at=time.monotonic() + 60, now=later)
    assert owner.execute("SELECT count(*) FROM erasures").fetchone() == (0,)


def refer(api: Api, **more: Any) -> UUID:
    reply = api.post({"channel": "email", "recipient_id": "ada", "content": "Hi", **more})
    assert reply.status == 202, reply
    return UUID(reply.json["id"])


def attempt(database: Database, outcome: Outcome) -> None:
    """Decide the one that is due, and close its attempt."""
    ((row, _),) = judge(lease(database), database=database, retries=True, gates=open_to_all)
    opening = opening_of(row)
    assert begin_one(database, opening).send
    close_one(database, opening, outcome, again_seconds=0)


def note(owner: psycopg.Connection, **arguments: Any) -> None:
    owner.execute(
        "INSERT INTO operator_actions (actor, command, arguments, result)"
        " VALUES ('eve', 'dead requeue', %s, '{}')",
        [Jsonb(arguments)],
    )


def test_the_id_of_a_reported_event_names_nobody_and_is_known_all_the_same(
    api: Api, database: Database, owner: psycopg.Connection, postgres: Postgres, database_name: str
) -> None:
    id = UUID(api.post(email()).json["id"])
    close_one(database, begun(database), Accepted(reference="<ada@example.com/1>"))
    event: dict[str, Any] = {"idempotency_key": id, "recipient": "ada@example.com",
                             "event_id": "delivered:ada@example.com:1"}  # fmt: skip
    told(database, "delivered", **event)
    assert row_of(owner, id).evidence_key == "delivered:ada@example.com:1"
    assert erase(api).json == {"erased": 1}
    assert naming(postgres, database_name) == []
    assert told(database, "delivered", **event).stored == 0
    keys = "SELECT n.evidence_key = r.event_key FROM notifications n, receipts r"
    assert owner.execute(keys).fetchall() == [(True,)]
    complaint = told(database, "complained", message_id="<ada@example.com/1>",
                     recipient="ada@example.com")  # fmt: skip
    assert (complaint.stored, complaint.applied) == (1, 1)
    assert (row_of(owner, id).status, row_of(owner, id).complained) == ("delivered", True)
    assert naming(postgres, database_name) == []


def test_a_report_that_comes_late_brings_no_word_back(
    api: Api, database: Database, owner: psycopg.Connection, postgres: Postgres, database_name: str
) -> None:
    id = UUID(api.post(email()).json["id"])
    close_one(database, begun(database), Accepted(reference="m1"))
    assert erase(api).json == {"erased": 1}
    event: dict[str, Any] = {"idempotency_key": id, "recipient": "ada@example.com",
                             "event_id": "bounced:ada@example.com:1", "permanent": True,
                             "message_id": "to ada@example.com",
                             "reason": "no ada@example.com"}  # fmt: skip
    for stored in (1, 0):
        assert told(database, "bounced", **event).stored == stored
    assert (row_of(owner, id).status, row_of(owner, id).reason) == ("failed", "bounced")
    nobodys = {
        **event,
        "idempotency_key": None,
        "message_id": "of whom?",
        "event_id": "ada@example.com",
    }
    for stored in (1, 0):
        assert told(database, "bounced", **nobodys).stored == stored
    assert naming(postgres, database_name) == []


def test_an_attempt_that_ends_after_it_leaves_a_code_and_digests(
    api: Api, database: Database, owner: psycopg.Connection, postgres: Postgres, database_name: str
) -> None:
    first, second, _ = (UUID(api.post(email()).json["id"]) for _ in range(3))
    openings = [opening_of(leased) for leased in lease(database)]
    for opening in openings:
        assert begin_one(database, opening).send
    early = told(database, "delivered", message_id="<ada@example.com-1>", recipient=None)
    assert (early.stored, early.orphaned) == (1, 1)
    assert erase(api).json == {"erased": 3}
    close_one(database, openings[2], Refused(code="no ada@example.com", detail="ada@example.com"))
    assert owner.execute("SELECT count(*) FROM suppressions").fetchone() == (1,)
    close_one(database, openings[0], Accepted(reference="<ada@example.com-1>"))
    failure = Transient(code="no ada@example.com", detail="ada@example.com")
    close_one(database, openings[1], failure, again_seconds=0)
    assert naming(postgres, database_name) == []
    assert row_of(owner, second).status == "pending"
    late = told(database, "delivered", message_id="<ada@example.com-1>",
                recipient="ada@example.com", event_id="e2")  # fmt: skip
    assert late.applied == 1
    assert row_of(owner, first).status == "delivered"
    assert naming(postgres, database_name) == []


def test_what_names_an_earlier_address_goes_with_the_recipient(
    api: Api, database: Database, owner: psycopg.Connection, postgres: Postgres, database_name: str
) -> None:
    owner.execute("INSERT INTO organizations (id, name) VALUES (%s, 'one')", [FIRST_ORGANIZATION])
    put(api, OLD)
    refer(api, reference="old@example.com/1", event_id="signup:old@example.com")
    attempt(database, Transient(code="503", detail="old@example.com is busy"))
    item = {
        "channel": "email",
        "recipient_id": "ada",
        "content": None,
        "metadata": {"to": NAMES[0]},
    }
    owner.execute("SELECT enqueue_notification(%s, %s)", [FIRST_ORGANIZATION, Jsonb(item)])
    deployment = Deployment(
        database=database, hash_key=lambda: HASH_KEY, local_webhook_origin=LOCAL_ORIGIN
    )
    assert drain(deployment).invalid == 1
    note(owner, note="old@example.com asked")
    fact = {"channel": "email", "recipient": "OLD@example.com", "reason": "operator",
            "evidence": {"of": "old@example.com"}}  # fmt: skip
    assert api.call("POST", "/v1/suppressions", body=fact).status == 201
    put(api, NEW)
    attempt(database, Accepted(reference="m2"))
    assert len(naming(postgres, database_name)) > 5
    assert delete(api).status == 204
    assert naming(postgres, database_name) == []


def test_an_address_goes_from_what_went_on_to_another_one(
    api: Api, database: Database, owner: psycopg.Connection, postgres: Postgres, database_name: str
) -> None:
    put(api, OLD)
    id = refer(api)
    attempt(database, Transient(code="503", detail="old@example.com is busy"))
    put(api, NEW)
    attempt(database, Accepted(reference="m2"))
    told(database, "bounced", idempotency_key=id, recipient="old@example.com",
         reason="old@example.com is no more")  # fmt: skip
    assert erase(api, "old@example.com").json == {"erased": 0}
    assert naming(postgres, database_name, "old@example.com") == []
    assert row_of(owner, id).erased_at is None
    attempts = owner.execute("SELECT code, detail FROM attempts").fetchall()
    assert attempts == [("503", None), (None, None)]
    assert row_of(owner, id).status == "submitted"
    put(api, OLD)  # who has it again, and then another one
    put(api, NEW)
    assert delete(api).status == 204
    assert naming(postgres, database_name) == []


def test_an_address_that_two_have_goes_from_what_was_sent_to_each(
    api: Api, postgres: Postgres, database_name: str, database: Database, owner: psycopg.Connection
) -> None:
    put(api, OLD)
    put(api, OLD, "bob")
    refer(api, reference="old@example.com")
    assert delete(api).status == 204
    assert len(naming(postgres, database_name)) == 2  # what bob has
    assert delete(api, "bob").status == 204
    assert naming(postgres, database_name) == []


def test_digits_that_are_a_part_of_an_id_are_no_trace(
    api: Api, database: Database, owner: psycopg.Connection
) -> None:
    """What is found to be erased is found once: the search ends."""
    put(api, having("+6834002", "sms"))
    item = {"channel": "sms", "recipient_id": "ada", "content": "Hi"}
    assert api.post(item).status == 202
    ((row, _),) = judge(
        lease(database, channel="sms"), database=database, retries=True, gates=open_to_all
    )
    opening = opening_of(row)
    assert begin_one(database, opening).send
    reference = "00000000-0000-4000-8000-000006834002"
    close_one(database, opening, Accepted(reference=reference))
    owner.execute("UPDATE attempts SET code = '683', detail = '4002'")
    put(api, having("+15550100001", "sms"))
    owner.execute(
        "UPDATE notifications SET contact_hash = (SELECT address_hash FROM contact_points)"
    )
    assert erase(api, "+6834002", "sms").json == {"erased": 0}
    assert owner.execute("SELECT reference FROM attempts").fetchall() == [(reference,)]


NOTED = (
    "+1 (555) 010-0001 rang", "555-010-0001", "+1-555-010-0001", "tel:15550100001", "x+15550100001",
    "https://hooks.example.net/users/ada?x=1", "sim-ok.1-Adas-Telephone-0123456789",
    "ada%40example.com", "mailto:ada@example.com.", "Dear\nada@example.com",
)  # fmt: skip


def test_operators_note_addresses_in_many_ways(
    api: Api, owner: psycopg.Connection, postgres: Postgres, database_name: str
) -> None:
    put(api)
    for text in NOTED:
        note(owner, note=text)
    assert delete(api).status == 204
    names = (
        "adas-telephone",
        "hooks.example.net/users",
        "010-0001",
        "5550100001",
        "ada@",
        "ada%40",
    )
    assert naming(postgres, database_name, *names) == []
    notes = owner.execute(
        "SELECT arguments ->> 'note' FROM operator_actions ORDER BY id"
    ).fetchall()
    assert notes[0] == ("erased rang",)


def test_the_origin_of_a_webhook_goes_with_it(
    api: Api, owner: psycopg.Connection, postgres: Postgres, database_name: str
) -> None:
    url = "https://ada-lovelace.example.net"
    item = {"channel": "webhook", "recipient": url, "content": {"at": url}, "reference": url}
    assert api.post(item).status == 202
    note(owner, note=f"{url} is down")
    assert erase(api, url, "webhook").json == {"erased": 1}
    assert naming(postgres, database_name, "ada-lovelace") == []


@pytest.mark.parametrize(
    ("channel", "address", "recipient_id"),
    [
        ("sms", "+15550100001", "15550100001"),
        ("push", "sim-ok.1-Adas-Telephone", "sim-ok.1-Adas-Telephone"),
    ],
)
def test_a_recipient_who_is_called_like_an_address_is_erased_with_it(
    api: Api,
    database: Database,
    owner: psycopg.Connection,
    postgres: Postgres,
    database_name: str,
    channel: str,
    address: str,
    recipient_id: str,
) -> None:
    put(api, having(address, channel), recipient_id=recipient_id)
    put(api, having(address, channel), recipient_id="bob")
    item = {"channel": channel, "recipient_id": recipient_id, "content": "Hi"}
    id = UUID(api.post(item).json["id"])
    assert erase(api, address, channel).json == {"erased": 1}
    assert (row_of(owner, id).status, row_of(owner, id).recipient_id) == ("suppressed", "erased")
    assert api.get(f"/v1/recipients/{recipient_id}").code == "not_found"
    assert api.get("/v1/recipients/bob").json["contact_points"] == []
    sweep(database, owner)
    assert naming(postgres, database_name, recipient_id.lower()) == []


def repeated(api: Api, item: dict[str, Any], key: str) -> Reply:
    reply = api.post(item, key=key)
    assert reply.status == 202, reply
    return reply


@pytest.mark.parametrize("event_id", ["paid:7:ada@example.com", "paid-7"])
def test_an_event_that_comes_again_after_it_is_not_sent_again(
    api: Api,
    database: Database,
    owner: psycopg.Connection,
    postgres: Postgres,
    database_name: str,
    event_id: str,
) -> None:
    item = email(event_id=event_id)
    first = repeated(api, item, "k1").json["id"]
    close_one(database, begun(database), Accepted(reference="m1"))
    assert erase(api).json == {"erased": 1}
    assert repeated(api, item, "k2").json["id"] == first
    batch = api.post_batch({**item, "content": "other words"}, email("b@example.com"), key="b")
    assert [one["duplicate"] for one in batch.json["notifications"]] == [True, False]
    assert batch.json["notifications"][0]["id"] == first
    assert naming(postgres, database_name) == []
    other = email("eve@example.com", event_id=event_id)
    assert repeated(api, other, "k3").json["id"] != first
    put(api, ADA)
    by_reference = {"channel": "email", "recipient_id": "ada", "content": "1", "event_id": event_id}
    second = repeated(api, by_reference, "k4").json["id"]
    assert delete(api).status == 204
    put(api, NEW)
    assert repeated(api, by_reference, "k5").json["id"] == second
