"""Requests made by SQL become notifications: exactly once, or dead with every reason told."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from functions.claim.claim import Claimer
from functions.core.errors import Misconfigured, Unavailable
from functions.core.login import Login
from functions.ingest.deployment import Deployment
from functions.ingest.drain import drain
from functions.providers.choice import DECLARATIONS
from functions.store.connection import Database
from functions.store.drain import take
from functions.store.request import faults_of, forget_invalid_items, forget_repeats, repeats_of
from functions.sweeper.sweeper import run_sweep
from tests.api import email, start
from tests.doors import (
    RECEIPT,
    add_organizations,
    deployment_of,
    doors_of,
    enqueue,
    ids_of,
    lapse,
    pointers,
    requests_of,
    values,
)
from tests.fakes import (
    FIRST_ORGANIZATION,
    SECOND_ORGANIZATION,
    FakeSqs,
    HeldDatabase,
    Killed,
    moves_of,
    queues_of,
    row_of,
)
from tests.steps import connected, losing_its_first_commit, now_of


@pytest.fixture(autouse=True)
def organizations(owner: psycopg.Connection) -> None:
    add_organizations(owner)


def drained(database: Database, **more: Any) -> tuple[int, int, int]:
    """Drain; return how many were stored, repeated others, and were invalid."""
    came = drain(deployment_of(database), **more)
    assert came.mistakes == []
    return came.stored, came.repeated, came.invalid


def test_a_request_becomes_the_notification_that_the_api_would_have_made(
    owner: psycopg.Connection, database: Database
) -> None:
    item = RECEIPT | {
        "priority": "high",
        "metadata": {"cart": "7"},
        "expires_at": "2099-01-01T00:00:00Z",
    }
    id = enqueue(owner, item)
    assert drained(database) == (1, 0, 0)
    posted = start(database).post(item | {"event_id": "another"}).json["id"]
    by_sql, by_http = row_of(owner, id).columns, row_of(owner, posted).columns
    own = {"id", "event_id", "created_at", "updated_at", "available_at", "eligible_at"}
    assert {name: by_sql[name] for name in by_sql.keys() - own} == {
        name: by_http[name] for name in by_http.keys() - own
    }
    assert requests_of(owner) == []
    assert start(database).get(f"/v1/notifications/{id}").json["status"] == "pending"


def test_the_claim_sends_what_was_drained_once(
    owner: psycopg.Connection, database: Database
) -> None:
    id = enqueue(owner, RECEIPT)
    sqs = FakeSqs()
    claimer = Claimer(database=database, queues=queues_of(sqs), leased_by="test")
    assert claimer.round().claimed.get("email", 0) == 0, "a request is no notification yet"
    drained(database)
    claimer.round()
    claimer.round()
    assert sqs.ids() == [id]


def test_an_event_known_by_any_door_is_repeated_and_its_id_leads_to_the_first(
    owner: psycopg.Connection, database: Database
) -> None:
    first = enqueue(owner, RECEIPT)
    again = enqueue(owner, RECEIPT)
    theirs = enqueue(owner, RECEIPT, SECOND_ORGANIZATION)
    assert drained(database) == (2, 1, 0)
    later = enqueue(owner, RECEIPT)
    assert drained(database) == (0, 1, 0)
    assert ids_of(owner) == [first, theirs]
    assert [request[:3] for request in requests_of(owner)] == [
        (again, False, first),
        (later, False, first),
    ]
    assert database.run(lambda connection: repeats_of(connection, again)) == first
    assert database.run(lambda connection: repeats_of(connection, first)) is None
    assert values(owner, "SELECT count(*) FROM requests WHERE item IS NOT NULL") == [0]


def test_an_event_with_other_content_is_dead_with_the_reason(
    owner: psycopg.Connection, database: Database
) -> None:
    enqueue(owner, RECEIPT)
    id = enqueue(owner, RECEIPT | {"content": "Something else"})
    assert drained(database) == (1, 0, 1)
    assert row_of(owner, id).reason == "invalid"
    ((_, _, _, faults),) = requests_of(owner)
    assert pointers(faults) == [("/event_id", "event_id_conflict")]


DEEP = "[" * 2000 + "]" * 2000
GARBAGE: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "null": ("null", [("", "wrong_type")]),
    "a number": ("3", [("", "wrong_type")]),
    "a text": ('"x"', [("", "wrong_type")]),
    "a list": ("[1, 2]", [("", "wrong_type")]),
    "nothing": (
        "{}",
        [("/channel", "required"), ("/recipient", "required"), ("/content", "required")],
    ),
    "an unknown member": (json.dumps(email(colour="red")), [("/colour", "unknown_field")]),
    "no address": (json.dumps(email("nobody")), [("/recipient", "invalid_email")]),
    "deep nesting": (DEEP, [("", "malformed_json")]),
    "deep content": (f'{{"channel": "email", "content": {DEEP}}}', [("", "malformed_json")]),
    "a number of more digits than can be read": (
        '{"channel": "webhook", "content": 1e5000}',
        [("", "malformed_json")],
    ),
    "an unknown template": (
        json.dumps(
            {
                "channel": "email",
                "recipient": "ada@example.com",
                "template": {"name": "receipt", "data": {}},
            }
        ),
        [("/template/name", "unknown_template")],
    ),
    "an unknown recipient": (
        json.dumps({"channel": "email", "recipient_id": "u-1", "content": "Hi"}),
        [("/recipient_id", "unknown_recipient")],
    ),
    "a megabyte": (json.dumps(email(content="x" * 1_000_000)), [("/content", "too_long")]),
}


def test_garbage_of_every_kind_ends_dead_and_tells_each_fault(
    owner: psycopg.Connection, database: Database
) -> None:
    good = [enqueue(owner, email(event_id=f"before {what}")) for what in GARBAGE]
    bad = {what: enqueue(owner, text) for what, (text, _) in GARBAGE.items()}
    last = enqueue(owner, email())
    assert drained(database) == (len(good) + 1, 0, len(bad))
    api = start(database)
    for what, id in bad.items():
        row = row_of(owner, id)
        assert (row.status, row.reason, row.ready) == ("dead", "invalid", False), what
        assert moves_of(owner, id) == [("accept", "pending", "dead", "invalid")]
        faults = database.run(lambda connection, id=id: faults_of(connection, id))
        told = {(fault.pointer, fault.code) for fault in faults}
        assert set(GARBAGE[what][1]) <= told, (what, told)
        answer = api.get(f"/v1/notifications/{id}").json
        assert (answer["status"], answer["held"], answer["recipient"]) == ("dead", True, None)
    assert row_of(owner, last).status == "pending"


def test_numbers_that_json_has_and_no_double_are_kept_as_they_came(
    owner: psycopg.Connection, database: Database
) -> None:
    content = '{"large": 100000000000000000000000, "small": 1e-400, "wide": 1e300}'
    item = f'{{"channel": "webhook", "recipient": "https://example.com/h", "content": {content}}}'
    id = enqueue(owner, item)
    assert drained(database) == (1, 0, 0)
    assert row_of(owner, id).content["large"] == 10**23


@pytest.mark.parametrize(
    ("item", "channel", "priority", "category", "reference"),
    [
        ({"channel": "sms"}, "sms", "normal", "transactional", None),
        ({"channels": ["fax", 3, "push", "sms"]}, "push", "normal", "transactional", None),
        ({"channels": 7, "channel": ["sms"]}, "email", "normal", "transactional", None),
        (
            {"priority": "high", "category": "offers", "reference": "order-7"},
            "email",
            "high",
            "offers",
            "order-7",
        ),
        (
            {"priority": "urgent", "category": "No Such\n", "reference": "r" * 129},
            "email",
            "normal",
            "transactional",
            None,
        ),
    ],
)
def test_an_invalid_request_shows_what_can_be_made_out_of_it(
    owner: psycopg.Connection,
    database: Database,
    item: Any,
    channel: str,
    priority: str,
    category: str,
    reference: str | None,
) -> None:
    id = enqueue(owner, item | {"event_id": "e-1"})
    drained(database)
    row = row_of(owner, id)
    assert (row.channel, row.priority, row.category) == (channel, priority, category)
    assert (row.reference, row.recipient, row.recipient_hash) == (reference, None, bytes(32))
    assert row.event_id is None, "the corrected request may name the event"
    assert row.stream == ("transactional" if category == "transactional" else "bulk")
    assert values(owner, "SELECT item FROM requests") == [item | {"event_id": "e-1"}]


def test_poison_ends_dead_alone_and_its_neighbours_go_on(
    owner: psycopg.Connection, database: Database
) -> None:
    """Whatever may be wrong with one row, here a rule of the table that admission does not know."""
    owner.execute("ALTER TABLE notifications ADD CHECK (content::text NOT LIKE '%poison%')")
    before, bad, after = (enqueue(owner, email(content=text)) for text in ("a", "poison", "b"))
    doors = doors_of(database)
    assert doors.drain() == {"drained": True, "stored": 2, "repeated": 0, "invalid": 1}
    assert [row_of(owner, id).status for id in (before, bad, after)] == [
        "pending", "dead", "pending",
    ]  # fmt: skip
    ((id, _, _, faults),) = requests_of(owner)
    assert (id, pointers(faults)) == (bad, [("", "internal_error")])
    assert [line.get("error") for line in doors.lines] == ["CheckViolation", None]
    assert "poison" not in doors.log.getvalue()
    assert doors.metrics == [{"RequestStored": 2, "RequestInvalid": 1}]


def test_what_ended_for_a_mistake_of_ours_can_be_asked_for_again(
    owner: psycopg.Connection, database: Database
) -> None:
    owner.execute(
        "ALTER TABLE notifications ADD CONSTRAINT bug CHECK (content::text NOT LIKE '%x%')"
    )
    enqueue(owner, email(content="x", event_id="e-1"))
    drain(deployment_of(database))
    owner.execute("ALTER TABLE notifications DROP CONSTRAINT bug")
    again = """
        SELECT enqueue_notification(organization_id, item)
          FROM requests
         WHERE faults @> '[{"code": "internal_error"}]'
    """
    (id,) = values(owner, again)
    assert drained(database) == (1, 0, 0)
    assert row_of(owner, id).event_id == "e-1"


def test_without_the_secret_nothing_is_judged_and_nobody_is_to_blame(
    owner: psycopg.Connection, database: Database
) -> None:
    enqueue(owner, RECEIPT)

    def refuse() -> bytes:
        raise Misconfigured("There is no secret.")

    deployment = Deployment(database=database, hash_key=refuse, local_webhook_origin="")
    with pytest.raises(Misconfigured):
        drain(deployment)
    assert [request[1] for request in requests_of(owner)] == [True]
    assert drained(database) == (1, 0, 0)


def test_an_outage_leaves_everything_as_it_was(
    owner: psycopg.Connection, login: Login, database: Database
) -> None:
    enqueue(owner, RECEIPT)

    def refuse() -> psycopg.Connection:
        raise psycopg.OperationalError("connection refused")

    with pytest.raises(Unavailable):
        drain(deployment_of(Database(refuse)))
    doors = doors_of(Database(refuse))
    assert doors.drain() == {"drained": False}, "a drain is wished for again: no dead letter of it"
    assert doors.lines[-1]["error"] == "Unavailable"
    assert [request[1] for request in requests_of(owner)] == [True]


def test_a_commit_whose_answer_is_lost_takes_nothing_in_twice(
    owner: psycopg.Connection, login: Login
) -> None:
    ids = [enqueue(owner, email()) for _ in range(3)]
    with losing_its_first_commit(login) as database:
        drain(deployment_of(database))
    assert (ids_of(owner), requests_of(owner)) == (ids, [])


class Mortal(psycopg.Cursor[Any]):
    """A cursor of a process that dies before its next statement, once ``left`` have been run."""

    left = 0

    def execute(self, *arguments: Any, **more: Any) -> "Mortal":
        if Mortal.left == 0:
            self.connection.close()
            raise Killed
        Mortal.left -= 1
        super().execute(*arguments, **more)
        return self


def test_a_crash_before_any_statement_loses_nothing_and_makes_nothing_twice(
    owner: psycopg.Connection, login: Login, database: Database
) -> None:
    def connect() -> psycopg.Connection:
        return psycopg.connect(
            host=login.host, port=login.port, dbname=login.name, user=login.user,
            autocommit=True, cursor_factory=Mortal,
        )  # fmt: skip

    deaths, died = 0, True
    while died:
        item = RECEIPT | {"event_id": f"after {deaths}"}
        ids = [enqueue(owner, one) for one in (item, item, {})]
        Mortal.left = deaths
        mortal = Database(connect)
        try:
            drain(deployment_of(mortal), seconds=0)
        except Killed:
            deaths += 1
        else:
            mortal.close()
            died = False
        lapse(owner)
        waiting = values(owner, "SELECT id FROM requests WHERE drained_at IS NULL ORDER BY id")
        assert waiting in ([], ids), "all of them or none: they are of one transaction"
        assert (set(waiting) & set(ids_of(owner))) == set()
        drained(database)
        statuses = "SELECT status FROM notifications WHERE id = ANY(%s) ORDER BY id"
        assert values(owner, statuses, ids) == ["pending", "dead"]
        kept = "SELECT repeats FROM requests WHERE id = ANY(%s) ORDER BY id"
        assert values(owner, kept, ids) == [ids[0], None]
    assert deaths >= 8, "take, hold, look for the erased, insert, for the known, forget, keep both"
    assert values(owner, "SELECT count(*) FROM requests WHERE drained_at IS NULL") == [0]


def test_two_drains_share_what_waits_and_one_that_dies_leaves_its_share(
    owner: psycopg.Connection, login: Login
) -> None:
    first, second = enqueue(owner, email("a@example.com")), enqueue(owner, email("b@example.com"))
    with connected(login, "held", kind=HeldDatabase) as (held,):
        assert drained(held, most=1, seconds=0) == (1, 0, 0)
        with connected(login, "other", kind=Database) as (other,):
            assert drained(other) == (1, 0, 0), "the other one is held, and is not waited for"
            assert ids_of(owner) == [second]
            held.rollback()
            assert drained(other) == (1, 0, 0)
    assert ids_of(owner) == [first, second]


def test_drains_side_by_side_take_each_in_once(owner: psycopg.Connection, login: Login) -> None:
    statement = """
        SELECT enqueue_notification(o.id, jsonb_build_object(
                   'channel', 'email', 'recipient', 'ada@example.com', 'content', 'Hi',
                   'event_id', mod(n, 100)::text))
          FROM organizations o, generate_series(1, 300) n
    """
    owner.execute(statement)

    def run(database: Database) -> tuple[int, int, int]:
        return drained(database, most=20, seconds=60)

    names = ("one", "two", "three")
    with connected(login, *names, kind=Database) as databases, ThreadPoolExecutor(3) as threads:
        came = list(threads.map(run, databases))
        came.append(run(databases[0]))
    assert [sum(counts) for counts in zip(*came, strict=True)] == [200, 400, 0]
    firsts = "SELECT count(DISTINCT (organization_id, event_id)) FROM notifications"
    assert (len(ids_of(owner)), values(owner, firsts)) == (200, [200])


def test_one_who_asks_for_much_leaves_the_others_their_share(
    owner: psycopg.Connection, database: Database
) -> None:
    for _ in range(30):
        enqueue(owner, email())
    quiet = enqueue(owner, email(), SECOND_ORGANIZATION)
    assert drained(database, most=10, seconds=0)[0] <= 10
    assert quiet in ids_of(owner)
    left = 31 - len(ids_of(owner))
    assert drained(database, most=10) == (left, 0, 0)


def test_a_page_holds_no_more_bytes_than_the_largest_body(
    owner: psycopg.Connection, login: Login
) -> None:
    ids = [enqueue(owner, email(content="x" * 1000, event_id=str(n))) for n in range(5)]
    sizes = values(owner, "SELECT bytes FROM requests ORDER BY id")

    def taken(most_bytes: int) -> list[Any]:
        with connected(login, "undone", kind=HeldDatabase) as (held,):
            page = held.run(
                lambda connection: [one.id for one in take(connection, most_bytes=most_bytes)]
            )
            held.rollback()  # before the next look: a session that is closed ends later
            return page

    assert taken(sum(sizes)) == ids
    assert taken(sum(sizes[:3])) == ids[:3]
    assert taken(1) == ids[:1], "one alone is read in any case"
    other = enqueue(owner, email(), SECOND_ORGANIZATION)
    assert taken(sum(sizes[:3])) == [*ids[:2], other], "nobody's bytes are in another's way"


def test_a_request_is_older_than_its_commit_and_still_found(
    owner: psycopg.Connection, login: Login, database: Database
) -> None:
    with psycopg.connect(
        host=login.host, port=login.port, dbname=login.name, user="postgres"
    ) as slow:
        early = enqueue(slow, email())
        late = enqueue(owner, email())
        assert drained(database) == (1, 0, 0)
        slow.commit()
    assert early < late
    assert drained(database) == (1, 0, 0)
    assert ids_of(owner) == [early, late]


def test_what_repeated_is_forgotten_after_a_week_and_what_was_invalid_is_not(
    owner: psycopg.Connection, database: Database
) -> None:
    for item in (RECEIPT, RECEIPT, {}):
        enqueue(owner, item)
    drained(database)
    assert forget_repeats(database, now=now_of(owner, days=6)) == 0
    assert forget_repeats(database, now=now_of(owner, days=8)) == 1
    assert [request[2] for request in requests_of(owner)] == [None]


def test_the_items_of_invalid_requests_that_name_an_address_are_forgotten_by_organization(
    owner: psycopg.Connection, database: Database
) -> None:
    mine, theirs = (
        enqueue(owner, email("Secret@example"), one)
        for one in (FIRST_ORGANIZATION, SECOND_ORGANIZATION)
    )
    another = enqueue(owner, email("public@example"))
    waiting = enqueue(owner, email())
    owner.execute("UPDATE requests SET drained_at = now(), faults = '[]' WHERE id <> %s", [waiting])

    def forget(connection: psycopg.Connection) -> int:
        return forget_invalid_items(
            connection, organization_id=FIRST_ORGANIZATION, spellings=["secret@example"]
        )

    assert [database.run(forget), database.run(forget)] == [1, 0]
    kept = values(owner, "SELECT id FROM requests WHERE item IS NOT NULL ORDER BY id")
    assert kept == [theirs, another, waiting]
    assert mine not in kept


def test_nobody_reads_the_requests_of_another_organization(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = [enqueue(owner, item) for item in (RECEIPT, RECEIPT, {})]
    drained(database)
    stranger = start(database).having(organization_id=SECOND_ORGANIZATION)
    assert [stranger.get(f"/v1/notifications/{id}").status for id in ids] == [404] * 3
    assert stranger.get("/v1/notifications").json["data"] == []


def test_the_sweep_forgets_and_tells_how_long_the_oldest_has_been_waiting(
    owner: psycopg.Connection, database: Database
) -> None:
    assert run_sweep(database, declarations=DECLARATIONS).oldest_request_seconds is None
    enqueue(owner, RECEIPT)
    enqueue(owner, RECEIPT)
    drained(database)
    owner.execute("UPDATE requests SET drained_at = drained_at - interval '8 days'")
    enqueue(owner, RECEIPT)
    report = run_sweep(database, declarations=DECLARATIONS)
    assert report.forgotten == 1
    assert report.oldest_request_seconds is not None
    assert [request[1] for request in requests_of(owner)] == [True]
