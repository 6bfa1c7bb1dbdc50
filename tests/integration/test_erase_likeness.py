"""What is only like an address is not erased with it: other people's, and other tenants'."""

import time
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from functions.core.outcome import Accepted
from functions.ingest.deployment import Deployment
from functions.ingest.drain import drain
from functions.store.connection import Database
from functions.store.erase import continue_erasures
from infra.local.postgres import Postgres
from tests.api import HASH_KEY, LOCAL_ORIGIN, Api, email, start
from tests.erasing import delete, dump_of, erase, lines_naming, put
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION, row_of
from tests.reports import told
from tests.steps import begun, close_one, now_of

JOHN = email("john@example.com")

NAMING: dict[str, tuple[str, ...]] = {
    "n@example.com": (
        "n@example.com",
        "Dear N@Example.com, you",
        "<n@example.com>",
        "<n@example.com-1>",
        "to n@example.com.",
        "n@example.com.2",
        "mailto:n@example.com.",
        "to=n@example.com",
        "'n@example.com'",
        '{"text": "Dear\\nn@example.com"}',
        '{"to": "\\u003cn@example.com\\u003e"}',
        "?to=%22n@example.com%22",
    ),
    "15550100001": (
        "+1 (555) 010-0001 rang",
        "tel:15550100001",
        "0015550100001",
        "x+15550100001",
        "1.555.010.0001",
        "+1\u00a0555\u2013010\u20130001",
    ),
    "05550100001": ("555-010-0001", "(0555) 010 0001", "1-555-010-0001"),
    "https://example.com/a?x=1": ("https://Example.com/a?x=1", "at https://example.com/a?x=1."),
    "sim-ok.1-adas-telephone": ("sim-ok.1-Adas-Telephone", '"sim-ok.1-adas-telephone"'),
}
LIKE: dict[str, tuple[str, ...]] = {
    "n@example.com": (
        "john@example.com",
        "o.n@example.com",
        "o+n@example.com",
        "o-n@example.com",
        "john%2Bn@example.com",
        "n@example.com.au",
        "n@example.community",
        "n@example.com-pany.de",
        "n@example.co",
    ),
    "15550100001": ("115550100001", "155501000012", "invoice-915550100001-9", "1, 5550100001"),
    "05550100001": ("+5550100001", "+44 5550100001", "+15550100001", "95550100001"),
    "https://example.com/a?x=1": (
        "https://example.com/a?x=12",
        "https://example.com/a?x=1&y=2",
        "https://example.com/a",
    ),
    "https://example.com": ("https://example.com/users/ada", "https://example.com.au"),
    "sim-ok.1-adas-telephone": ("sim-ok.1-adas-telephone-2", "asim-ok.1-adas-telephone"),
}


def test_an_address_is_recognised_where_it_ends_on_both_sides(owner: psycopg.Connection) -> None:
    def named(words: str, spelling: str) -> bool:
        row = owner.execute("SELECT is_named(%s, %s)", [words, [spelling]]).fetchone()
        return row == (True,)

    for spelling, texts in NAMING.items():
        assert [words for words in texts if not named(words, spelling)] == []
    for spelling, texts in LIKE.items():
        assert [words for words in texts if named(words, spelling)] == []


@pytest.fixture
def api(database: Database) -> Api:
    return start(database)


@pytest.mark.parametrize(
    ("key", "channel", "erased"),
    [
        ("welcome-john@example.com", "email", "n@example.com"),
        ("invoice-2026-16834002-9", "sms", "+683 4002"),
        ("for n@example.com", "email", "n@example.com"),
    ],
)
def test_no_idempotency_key_is_ever_free_again(
    api: Api, database: Database, owner: psycopg.Connection, key: str, channel: str, erased: str
) -> None:
    """Never two: also where the key names whoever was erased."""
    first = api.post(JOHN, key=key)
    close_one(database, begun(database), Accepted(reference="m1"))
    assert erase(api, erased, channel).json == {"erased": 0}
    again = api.post(JOHN, key=key)
    assert (again.status, again.headers["idempotent-replayed"]) == (202, "true")
    assert again.json["id"] == first.json["id"]
    assert api.post(email("eve@example.com"), key=key).code == "idempotency_key_reused"
    assert owner.execute("SELECT count(*) FROM notifications").fetchone() == (1,)


def test_a_key_of_before_keys_were_digests_goes_on_being_recognised(
    api: Api, owner: psycopg.Connection, postgres: Postgres, database_name: str
) -> None:
    first = api.post(email(), key="for ada@example.com")
    owner.execute("UPDATE idempotency_keys SET key = 'for ada@example.com'")
    assert api.post(email(), key="for ada@example.com").json == first.json
    assert erase(api).json == {"erased": 1}
    assert lines_naming(dump_of(postgres, database_name)) == []
    again = api.post(email(), key="for ada@example.com")
    assert (again.status, again.json["id"], again.json["recipient"]) == (
        202,
        first.json["id"],
        None,
    )


def test_what_others_wrote_of_somebody_of_a_longer_name_stays(
    api: Api, database: Database, owner: psycopg.Connection
) -> None:
    """By an address, and by a recipient who has it."""
    owner.execute("INSERT INTO organizations (id, name) VALUES (%s, 'one')", [FIRST_ORGANIZATION])
    item = {**JOHN, "content": None, "reference": "john@example.com"}
    owner.execute("SELECT enqueue_notification(%s, %s)", [FIRST_ORGANIZATION, Jsonb(item)])
    deployment = Deployment(
        database=database, hash_key=lambda: HASH_KEY, local_webhook_origin=LOCAL_ORIGIN
    )
    assert drain(deployment).invalid == 1
    note = {"note": "john@example.com, on 1155-5010-0001"}
    owner.execute(
        "INSERT INTO operator_actions (actor, command, arguments, result)"
        " VALUES ('eve', 'hold', %s, '{}')",
        [Jsonb(note)],
    )
    put(api, {"contact_points": [{"channel": "email", "address": "n@example.com"}]})
    johns = UUID(api.post({**JOHN, "reference": "john@example.com"}).json["id"])
    assert delete(api).status == 204
    assert erase(api, "n@example.com").status == 200
    assert erase(api, "+15550100001", "sms").status == 200
    assert owner.execute("SELECT item FROM requests").fetchone() == (item,)
    references = "SELECT DISTINCT reference FROM notifications"
    assert owner.execute(references).fetchall() == [("john@example.com",)]
    assert row_of(owner, johns).status == "pending"
    assert owner.execute("SELECT arguments FROM operator_actions").fetchone() == (note,)


ORPHAN = "SELECT reference, event_key, raw <> '' FROM receipts"


def test_reports_about_nothing_known_keep_what_they_are_matched_by(
    api: Api, database: Database, owner: psycopg.Connection, postgres: Postgres, database_name: str
) -> None:
    """An early report may be about what another tenant is just sending."""
    told(database, "delivered", message_id="msg:john@example.com-1", recipient=None, event_id="e1")
    other = api.having(organization_id=str(SECOND_ORGANIZATION))
    before = owner.execute(ORPHAN).fetchall()
    assert erase(other, "n@example.com").status == 200
    assert owner.execute(ORPHAN).fetchall() == before
    told(database, "bounced", message_id="msg-15550100001", recipient="john@example.com",
         event_id="e2 of john@example.com")  # fmt: skip
    assert erase(other, "john@example.com").status == 200
    kept = owner.execute(ORPHAN + " ORDER BY id").fetchall()
    assert [(row[0][:7], row[2]) for row in kept] == [("sha256:", False), ("msg-155", False)]
    assert lines_naming(dump_of(postgres, database_name), ["john@example.com"]) == []
    again = told(database, "bounced", message_id="msg-15550100001", recipient="john@example.com",
                 event_id="e2 of john@example.com")  # fmt: skip
    assert again.stored == 0


THEIRS: tuple[dict[str, Any], ...] = (
    {"organization": "two", "note": "ada@example.com"},
    {"organization_id": str(SECOND_ORGANIZATION), "note": "ada@example.com"},
)
NOTES: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"note": "ada@example.com asked"}, {"note": "erased asked"}),
    ({"organization": "one", "note": "ada@example.com"}, {"organization": "one", "note": "erased"}),
    (
        {"organization_id": str(FIRST_ORGANIZATION), "note": "ada%40example.com"},
        {"organization_id": str(FIRST_ORGANIZATION), "note": "erased"},
    ),
    (THEIRS[0], THEIRS[0]),
    (THEIRS[1], THEIRS[1]),
)


def test_a_note_on_what_was_done_for_another_organization_stays(
    api: Api, owner: psycopg.Connection
) -> None:
    owner.execute(
        "INSERT INTO organizations (id, name) VALUES (%s, 'one'), (%s, 'two')",
        [FIRST_ORGANIZATION, SECOND_ORGANIZATION],
    )
    for note, _ in NOTES:
        owner.execute(
            "INSERT INTO operator_actions (actor, command, arguments, result)"
            " VALUES ('eve', 'x', %s, '{}')",
            [Jsonb(note)],
        )
    assert erase(api).status == 200
    notes = owner.execute("SELECT arguments FROM operator_actions ORDER BY id").fetchall()
    assert notes == [(after,) for _, after in NOTES]


def test_whatever_an_operator_noted_stays_json(api: Api, owner: psycopg.Connection) -> None:
    owner.execute(
        "INSERT INTO operator_actions (actor, command, arguments, result)"
        " VALUES ('eve', 'x', '{\"number\": 15550100001, \"of\": \"+1 555 010-0001\"}',"
        " '[\"15550100001\"]')"
    )
    assert erase(api, "+15550100001", "sms").status == 200
    (row,) = owner.execute("SELECT arguments, result FROM operator_actions").fetchall()
    assert row == ({"number": 0, "of": "0"}, ["erased"])


def test_going_through_it_once_more_takes_nobody_elses_words(
    api: Api, database: Database, owner: psycopg.Connection
) -> None:
    assert erase(api, "n@example.com").status == 200
    johns = UUID(api.post({**JOHN, "reference": "john@example.com"}).json["id"])
    later = now_of(owner, seconds=61)
    assert continue_erasures(database, ends_at=time.monotonic() + 60, now=later) == 1
    assert row_of(owner, johns).reference == "john@example.com"
