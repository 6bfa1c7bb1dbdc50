"""Erasure: whoever is erased is named nowhere any more, and all that counts stays."""

from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from psycopg.types.json import Jsonb
from pydantic import TypeAdapter

from functions.core.outcome import Accepted, Unknown
from functions.core.recipient import recipient_hash
from functions.ingest import answers
from functions.ingest.deployment import Deployment
from functions.ingest.drain import drain
from functions.store.connection import Database
from infra.local.postgres import Postgres
from tests.api import HASH_KEY, LOCAL_ORIGIN, Api, email, start
from tests.erasing import ADA, delete, dump_of, erase, lines_naming, put
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION, moves_of, row_of
from tests.reports import told
from tests.steps import begin_one, close_one, lease, opening_of

ADDRESSES = {
    "email": "ada@example.com",
    "sms": "+15550100001",
    "push": "sim-ok.1-Adas-Telephone-0123456789",
    "webhook": "https://hooks.example.net/users/ada?x=1",
}


@pytest.fixture
def api(database: Database) -> Api:
    return start(database)


def shown(api: Api, id: Any) -> dict[str, Any]:
    reply = api.get(f"/v1/notifications/{id}")
    assert reply.status == 200, reply
    TypeAdapter(answers.Notification).validate_json(reply.text)
    return reply.json


def by_reference(owner: psycopg.Connection, api: Api, channel: str = "email", **more: Any) -> UUID:
    """Accept something for ada by reference, and choose her address as the claim does."""
    item = {"channel": channel, "recipient_id": "ada", "content": "For you", **more}
    if channel == "webhook":
        item["content"] = {"for": "you"}
    reply = api.post(item)
    assert reply.status == 202, reply
    id = UUID(reply.json["id"])
    hashed = recipient_hash(HASH_KEY, channel, ADDRESSES[channel])
    owner.execute("UPDATE notifications SET contact_hash = %s WHERE id = %s", [hashed, id])
    return id


def sent(database: Database, outcome: Any, *, channel: str = "email") -> None:
    """Lease whatever is due on the channel and close an attempt of each with ``outcome``."""
    for leased in lease(database, channel=channel):
        opening = opening_of(leased)
        assert begin_one(database, opening).send
        close_one(database, opening, outcome)


SAYS_SO = (
    "INSERT INTO receipts (provider, event_key, type, evidence_rank, occurred_at, received_at, raw,"
    " recipient_hash, reason) VALUES"
    " ('ses', 'for ada@example.com', 'Bounce', 4, now(), now(), 'To: Ada@Example.com', %(hash)s,"
    "  '550 <ada@example.com> is unknown'),"
    " ('event', 'x', 'unreadable', 0, now(), now(), 'who is ADA@example.com?\\377', NULL, NULL)",
    "UPDATE attempts SET detail = 'no mailbox ada@example.com', code = '550 ada@example.com'",
    "UPDATE transitions SET reason = '550 <ada@example.com>' WHERE to_status = 'submitted'",
    "UPDATE notifications SET reason = '550 <ada@example.com>' WHERE status = 'failed'",
    "INSERT INTO operator_actions (actor, command, arguments, result) VALUES"
    " ('eve', 'dead requeue', '{\"note\": \"Ada@example.com and +15550100001 asked\"}', '{}')",
    "UPDATE suppressions SET evidence = '{\"mail\": \"From: Ada@Example.com\"}', source = 'crm'",
)
"""Whoever else may have written an address down."""


def enqueue_something_invalid(database: Database, owner: psycopg.Connection) -> None:
    item = {**email("Ada@example.com"), "content": None, "reference": "for Ada@example.com"}
    owner.execute("INSERT INTO organizations (id, name) VALUES (%s, 'one')", [FIRST_ORGANIZATION])
    enqueue = "SELECT enqueue_notification(%s, %s)"
    owner.execute(enqueue, [FIRST_ORGANIZATION, Jsonb(item)])
    deployment = Deployment(
        database=database, hash_key=lambda: HASH_KEY, local_webhook_origin=LOCAL_ORIGIN
    )
    assert drain(deployment).invalid == 1


def fill(api: Api, database: Database, owner: psycopg.Connection) -> dict[str, UUID]:
    """Put ada's addresses wherever they may stand."""
    ids: dict[str, UUID] = {}
    put(api)
    enqueue_something_invalid(database, owner)
    token, url = ADDRESSES["push"], ADDRESSES["webhook"]
    literal = {
        "sent": email("ADA@example.com", metadata={"to": "ada@example.com"}),
        "pending": email(
            "ada@EXAMPLE.com",
            reference="ada@example.com/7",
            event_id="a-Ada@Example.com",
            send_at="2099-01-01T00:00:00Z",
        ),
        "texted": {
            "channel": "sms",
            "recipient": "+1 (555) 010-0001",
            "content": "Dear +15550100001",
            "reference": "+1 555-010-0001",
        },
        "pushed": {"channel": "push", "recipient": token, "content": "x", "event_id": token},
        "hooked": {"channel": "webhook", "recipient": url, "content": {"to": url}},
    }
    for name, item in literal.items():
        reply = api.post(item, key=f"{name} ada@example.com" if name == "sent" else name)
        assert reply.status == 202, reply
        ids[name] = UUID(reply.json["id"])
    sent(database, Accepted(reference="message-of-ada"))
    assert api.call(
        "POST",
        "/v1/suppressions",
        body={"channel": "email", "recipient": "ada@example.com", "reason": "operator",
              "category": "news", "evidence": {"of": "ada@example.com"}},
    ).status == 201  # fmt: skip
    ids["referred"] = by_reference(owner, api, metadata={"call": "+15550100001"})
    ids["undecided"] = UUID(
        api.post({"channel": "sms", "recipient_id": "ada", "content": "Hello"}).json["id"]
    )
    told(database, "complained", idempotency_key=ids["sent"], recipient="Ada@example.com",
         reason="ada@example.com says this is spam")  # fmt: skip
    told(database, "bounced", message_id="of nobody", recipient="ada@example.com", permanent=True)
    hashed = recipient_hash(HASH_KEY, "email", "ada@example.com")
    for statement in SAYS_SO:
        parameters = {"hash": hashed} if "%(hash)s" in statement else None
        owner.execute(statement.encode(), parameters)
    api.call("POST", "/v1/suppressions/lift",
             body={"channel": "email", "recipient": "ada@example.com",
                   "reason": "ada@example.com asked for it"})  # fmt: skip
    return ids


def test_nothing_in_the_whole_database_names_an_erased_recipient(
    api: Api, database: Database, owner: psycopg.Connection, postgres: Postgres, database_name: str
) -> None:
    ids = fill(api, database, owner)
    counts = "SELECT channel, count(*) FROM notifications GROUP BY channel ORDER BY channel"
    before = owner.execute(counts).fetchall()
    assert len(lines_naming(dump_of(postgres, database_name))) > 20
    assert delete(api).status == 204
    assert lines_naming(dump_of(postgres, database_name)) == []
    assert owner.execute(counts).fetchall() == before
    assert delete(api).code == "not_found"
    assert api.get("/v1/recipients/ada").code == "not_found"
    for name in ("pending", "texted", "pushed", "hooked", "referred", "undecided"):
        row = row_of(owner, ids[name])
        assert (row.status, row.reason, row.final_at is not None) == ("suppressed", "erased", True)
        assert moves_of(owner, ids[name])[-1] == ("client", "pending", "suppressed", "erased")
    assert row_of(owner, ids["sent"]).status == "delivered"
    for id in ids.values():
        detail = shown(api, id)
        assert (detail["recipient"], detail["content"], detail["metadata"]) == (None, None, {})
    assert shown(api, ids["referred"])["recipient_id"] == "ada"
    assert lease(database, channel="sms") == lease(database) == []


def test_what_is_told_late_still_matches_and_names_nobody(
    api: Api, database: Database, owner: psycopg.Connection, postgres: Postgres, database_name: str
) -> None:
    put(api)
    first = UUID(api.post(email("ada@example.com")).json["id"])
    late = by_reference(owner, api)
    owner.execute(
        "UPDATE notifications SET recipient_version = (SELECT version FROM recipients), "
        "decision = '{\"transactional\": true}'"
    )
    sent(database, Accepted(reference="message"))
    assert row_of(owner, late).status == "submitted"
    assert delete(api).status == 204
    reason = "<ada@example.com> is unknown"
    by_key = told(database, "bounced", idempotency_key=late, recipient="Ada@example.com",
                  permanent=True, reason=reason)  # fmt: skip
    assert (by_key.stored, by_key.applied) == (1, 1)
    row = row_of(owner, late)
    assert (row.status, row.reason) == ("failed", "bounced")
    by_reference_ = told(database, "complained", message_id="message", recipient="ada@example.com",
                         reason=reason)  # fmt: skip
    assert by_reference_.applied == 1
    nobodys = told(database, "bounced", message_id="unheard of", recipient="ada@example.com",
                   permanent=True, reason=reason)  # fmt: skip
    assert (nobodys.stored, nobodys.orphaned) == (1, 1)
    assert lines_naming(dump_of(postgres, database_name)) == []
    assert (row_of(owner, first).status, row_of(owner, first).complained) == ("delivered", True)
    facts = owner.execute("SELECT recipient, recipient_hash, kind FROM suppressions").fetchall()
    hashed = recipient_hash(HASH_KEY, "email", "ada@example.com")
    assert facts == [(None, hashed, "suppress")] * 2
    again = UUID(api.post(email("ada@example.com")).json["id"])
    (leased,) = lease(database)
    assert (leased.id, begin_one(database, opening_of(leased)).verdict) == (again, "suppressed")


def test_a_literal_address_is_erased_whoever_has_it(
    api: Api, database: Database, owner: psycopg.Connection, postgres: Postgres, database_name: str
) -> None:
    ids = fill(api, database, owner)
    version = api.get("/v1/recipients/ada").json["version"]
    reply = erase(api, "ADA@Example.com")
    assert (reply.status, reply.json) == (200, {"erased": 3})
    assert erase(api).json == {"erased": 0}
    named = ("ada@example.com", "ada%40example.com")
    assert lines_naming(dump_of(postgres, database_name), named) == []
    after = api.get("/v1/recipients/ada").json
    assert [point["channel"] for point in after["contact_points"]] == ["sms", "push", "webhook"]
    assert after["version"] > version
    erased = {
        name: row_of(owner, id).erased_at is not None for name, id in ids.items()
    }  # by what they went to
    assert [name for name in erased if erased[name]] == ["sent", "pending", "referred"]
    assert row_of(owner, ids["texted"]).recipient == "+15550100001"
    for channel, address in ADDRESSES.items():
        assert erase(api, address, channel).status == 200
    assert row_of(owner, ids["undecided"]).erased_at is None
    assert lines_naming(dump_of(postgres, database_name)) == []


def test_a_repeated_request_is_answered_without_what_was_erased(
    api: Api, owner: psycopg.Connection
) -> None:
    first = api.post(email(), key="k")
    batch = api.post_batch(email(), key="b")
    assert erase(api).json == {"erased": 2}
    again = api.post(email(), key="k")
    assert (again.status, again.headers["idempotent-replayed"]) == (202, "true")
    assert again.json["id"] == first.json["id"]
    assert again.json["recipient"] is None
    assert api.post_batch(email(), key="b").json == batch.json
    counts = api.get(f"/v1/batches/{batch.json['batch_id']}").json
    assert (counts["status"], counts["counts"]) == ("completed", {"suppressed": 1})
    assert owner.execute("SELECT count(*) FROM notifications").fetchone() == (2,)


def test_what_may_have_been_sent_is_not_said_to_be_suppressed(
    api: Api, database: Database, owner: psycopg.Connection
) -> None:
    """Pending and in doubt: unconfirmed. What is uncertain or held: as evidence or people say."""
    doubtful, uncertain, dead = (UUID(api.post(email()).json["id"]) for _ in range(3))
    sent(database, Unknown(code="timeout", detail="of ada@example.com"))
    for id in (doubtful, uncertain, dead):
        assert row_of(owner, id).in_doubt == 1
    owner.execute(
        "UPDATE notifications SET status = 'uncertain', attempt_id = uuidv7() WHERE id = %s",
        [uncertain],
    )
    owner.execute(
        "UPDATE notifications SET status = 'dead', reason = 'outcome_unknown', in_doubt = 1,"
        " final_at = NULL WHERE id = %s",
        [dead],
    )
    assert erase(api).json == {"erased": 3}
    states = [(row_of(owner, id).status, row_of(owner, id).reason) for id in (doubtful, dead)]
    assert states == [("unconfirmed", "erased"), ("dead", "outcome_unknown")]
    assert moves_of(owner, doubtful)[-1] == ("client", "pending", "unconfirmed", "erased")
    row = row_of(owner, uncertain)
    assert (row.status, row.recipient, row.content) == ("uncertain", None, None)
    details = owner.execute("SELECT DISTINCT code, detail FROM attempts").fetchall()
    assert details == [("timeout", None)]


def test_what_was_accepted_for_somebody_made_again_is_theirs(
    api: Api, owner: psycopg.Connection
) -> None:
    put(api)
    before = UUID(api.post({"channel": "email", "recipient_id": "ada", "content": "1"}).json["id"])
    delete(api)
    put(api)
    after = UUID(api.post({"channel": "email", "recipient_id": "ada", "content": "2"}).json["id"])
    assert erase(api, "other@example.com").json == {"erased": 0}
    assert (row_of(owner, before).status, row_of(owner, after).status) == ("suppressed", "pending")


def test_an_address_that_another_recipient_has_stays_theirs(
    api: Api, owner: psycopg.Connection
) -> None:
    put(api)
    put(api, {"contact_points": ADA["contact_points"][:1]}, "bob")
    put(api, {"contact_points": [{"channel": "email", "address": "bob@example.com"}]}, "bob")
    put(api, {"contact_points": ADA["contact_points"][:1]}, "eve")
    literal = UUID(api.post(email()).json["id"])
    texted = UUID(
        api.post({"channel": "sms", "recipient": "+15550100001", "content": "Hi"}).json["id"]
    )
    own = by_reference(owner, api)
    hers = UUID(api.post({"channel": "email", "recipient_id": "eve", "content": "1"}).json["id"])
    hashed = recipient_hash(HASH_KEY, "email", "ada@example.com")
    owner.execute("UPDATE notifications SET contact_hash = %s WHERE id = %s", [hashed, hers])
    assert delete(api).status == 204
    assert [row_of(owner, id).status for id in (literal, texted, own, hers)] == [
        "pending",
        "suppressed",
        "suppressed",
        "pending",
    ]
    assert len(api.get("/v1/recipients/eve").json["contact_points"]) == 1
    assert delete(api, "bob").status == 204  # who had it once
    assert row_of(owner, literal).status == "pending"
    assert delete(api, "eve").status == 204
    assert [row_of(owner, id).status for id in (literal, hers)] == ["suppressed", "suppressed"]


def test_another_tenant_and_the_other_channel_are_untouched(
    api: Api, owner: psycopg.Connection
) -> None:
    other = api.having(organization_id=SECOND_ORGANIZATION)
    owner.execute(
        "INSERT INTO organizations (id, name) VALUES (%s, 'one'), (%s, 'two')",
        [api.organization_id, other.organization_id],
    )
    put(other)
    theirs = UUID(other.post(email(), key="ada@example.com").json["id"])
    fact = {"channel": "email", "recipient": "ada@example.com", "reason": "operator"}
    other.call("POST", "/v1/suppressions", body=fact)
    token = {"channel": "push", "recipient": "ada@example.com", "content": "Hi"}
    pushed = UUID(api.post(token).json["id"])
    kept = "SELECT count(*) FROM idempotency_keys WHERE response IS NOT NULL"
    before = owner.execute(kept).fetchone()
    assert erase(api).json == {"erased": 0}
    assert delete(api).code == "not_found"
    assert (row_of(owner, theirs).recipient, row_of(owner, theirs).status) == (
        "ada@example.com",
        "pending",
    )
    assert row_of(owner, pushed).status == "pending"
    assert len(other.get("/v1/recipients/ada").json["contact_points"]) == 4
    assert other.get("/v1/suppressions").json["data"][0]["recipient"] == "ada@example.com"
    assert owner.execute(kept).fetchone() == before


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ({}, [("/channel", "required"), ("/recipient", "required")]),
        ({"channel": "fax", "recipient": "1"}, [("/channel", "not_allowed")]),
        ({"channel": "email", "recipient": None}, [("/recipient", "wrong_type")]),
        ({"channel": "email", "recipient": "ada"}, [("/recipient", "invalid_email")]),
        ({"channel": "sms", "recipient": "0664 1"}, [("/recipient", "invalid_phone")]),
        (
            {"channel": "sms", "recipient": "+15550100001", "recipient_id": "ada"},
            [("/recipient_id", "unknown_field")],
        ),
        ([], [("", "wrong_type")]),
    ],
)
def test_what_is_no_address_is_not_erased(
    api: Api, body: Any, faults: list[tuple[str, str]]
) -> None:
    reply = api.call("POST", "/v1/erase", body=body)
    assert (reply.status, reply.faults) == (422, faults)


def test_a_short_token_erases_nobody_elses_words(api: Api, owner: psycopg.Connection) -> None:
    """A device token may be one letter, which stands in every text there is."""
    owner.execute(
        "INSERT INTO operator_actions (actor, command, arguments, result)"
        " VALUES ('eve', 'hold', '{\"note\": \"a\"}', '{}')"
    )
    told_note = "INSERT INTO receipts (provider, event_key, type, evidence_rank, occurred_at,"
    owner.execute(
        (told_note + " received_at, raw) VALUES ('event', 'a', 'a', 0, now(), now(), 'a')").encode()
    )
    item = {"channel": "push", "recipient": "a", "content": "Hi", "reference": "a7"}
    pushed = UUID(api.post(item, key="a").json["id"])
    other = api.post(email("b@example.com", reference="a8"), key="another").json["id"]
    assert erase(api, "a", "push").json == {"erased": 1}
    assert row_of(owner, pushed).reference == "a7"
    assert shown(api, other)["reference"] == "a8"
    assert owner.execute("SELECT arguments FROM operator_actions").fetchone() == ({"note": "a"},)
    assert owner.execute("SELECT raw FROM receipts").fetchone() == (b"a",)
    assert owner.execute("SELECT count(*) FROM idempotency_keys").fetchone() == (2,)


ERASERS = (
    "SELECT erase_notifications(ARRAY(SELECT id FROM notifications), '{}', now())",
    "SELECT erase_late_receipts(ARRAY(SELECT id FROM receipts))",
    "SELECT erase_traces(ARRAY(SELECT id FROM notifications), '{}', '{}')",
    "SELECT erase_facts(%s, '{}', '{}')",
    "SELECT erase_orphans('{}', '{}')",
    "SELECT erase_notes(%s, 'ada@example.com')",
)


def test_only_the_functions_may_erase_and_nothing_but_that(
    api: Api, database: Database, owner: psycopg.Connection
) -> None:
    id = UUID(api.post(email()).json["id"])
    told(database, "accepted", idempotency_key=id, recipient="ada@example.com")
    owner.execute("GRANT SELECT ON notifications, receipts TO sendoff_producer")
    for statement in ERASERS:
        parameters = [FIRST_ORGANIZATION] if "%s" in statement else None
        owner.execute("SET ROLE sendoff_producer")
        with pytest.raises(InsufficientPrivilege):
            owner.execute(statement.encode(), parameters)
        owner.execute("RESET ROLE")
    database.run(lambda connection: connection.execute(ERASERS[1]))
    assert owner.execute("SELECT raw <> '' FROM receipts").fetchone() == (True,)
    for beyond in ("UPDATE notifications SET recipient = NULL",
                   "SELECT strip_receipts(ARRAY(SELECT id FROM receipts), '{}')"):  # fmt: skip
        with pytest.raises(InsufficientPrivilege):
            database.run(lambda c, beyond=beyond: c.execute(beyond.encode()))
