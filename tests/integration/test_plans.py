"""The plans of the statements on the hot path: they use their indexes, whatever else is stored.

The statements run as the product runs them; PostgreSQL's auto_explain tells what it did. The
planner's moods are tried: a plan kept since the tables were small, as in a new deployment; plans
for the values at hand; one generic plan for all values; no statistics at all, as after a restore.
"""

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from typing import Any, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

from functions.core.evidence import Rank, Receipt, StoredReceipt
from functions.core.outcome import Accepted
from functions.core.policy import Suppress
from functions.core.states import Finding
from functions.providers.choice import DECLARATIONS
from functions.store.begin import Opening
from functions.store.channel import ChannelRow, read_channels
from functions.store.check import CHECKED_AT_ONCE, check
from functions.store.claim import (
    NO_ORGANIZATION,
    Leased,
    lease_page,
    record_verdicts,
    release,
)
from functions.store.close import Closing, close
from functions.store.connection import Database
from functions.store.delivery import finish_starts, hold_unreadable, load, record_starts
from functions.store.held import discard, requeue
from functions.store.held_list import list_held
from functions.store.replay import replay
from functions.store.restore import mark_gap
from functions.store.survey import (
    FIRST_PLACE,
    PROMOTED_AT_ONCE,
    WALKED_AT_ONCE,
    promote,
    promote_first,
    survey,
)
from functions.store.sweep import SWEPT_AT_ONCE, expire, sweep
from functions.store.uncertain import list_uncertain, settle
from infra.local.postgres import HOST, Postgres
from tests.conftest import owner_connection
from tests.fakes import FIRST_ORGANIZATION, HeldDatabase
from tests.operating import action
from tests.steps import begin_all, declaration_of, lease_turn, now_of

NAME = "plans"
SERVICE, OPERATOR = "sendoff_service", "sendoff_operator"
MOODS = ("kept since small", "values", "generic", "no statistics")
SET_OF = 10
"""What a sender gets from its queue."""

LARGE = ("notifications", "attempts", "suppressions", "receipts")

# Of the role that the functions connect as, so that its own settings hold too.
SETTINGS: dict[LiteralString, str] = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_format": "json",
    "auto_explain.log_level": "notice",
}

# 100,000 rows each of terminal, scheduled and due; a few thousand each in flight, held, checked.
FILL = """
    SET session_replication_role = replica; -- the foreign keys of data made up here hold anyway

    INSERT INTO notifications (id, organization_id, channel, recipient, recipient_hash, content,
                               priority, category, metadata, max_attempts, created_at, ready,
                               available_at, eligible_at, updated_at, expires_at,
                               status, final_at, lease_number, lease_until, attempt_id,
                               provider, in_doubt, submitted_at, next_check_at, reason)
    SELECT uuidv7(), o.id, 'email', 'a@example.com', sha256(i::text::bytea), '"Your receipt"',
           'normal', 'transactional', '{}', 5, clock_timestamp(),
           k.kind <> 'scheduled', t.at + k.due, t.at + k.due, t.at, t.at + k.expires,
           k.status, t.at, 1, t.at + k.lease, CASE WHEN k.kind = 'in flight' THEN uuidv7() END,
           'http', (k.status = 'uncertain')::int, t.at - interval '1 hour', t.at + k.look,
           'rejected'
      FROM (VALUES
           ('terminal', 100000, 'delivered', '-1 day', NULL, NULL, NULL),
           ('scheduled', 99000, 'pending', '1 day', NULL, NULL, NULL),
           ('scheduled', 1000, 'pending', '-1 second', NULL, NULL, NULL),
           ('due', 100000, 'pending', '-1 hour', NULL, NULL, NULL),
           ('expiring', 3000, 'pending', '-1 hour', '1 day', NULL, NULL),
           ('expiring', 600, 'pending', '-1 hour', '-1 second', NULL, NULL),
           ('in flight', 3000, 'leased', '-1 hour', NULL, '1 hour', NULL),
           ('in flight', 600, 'leased', '-1 hour', NULL, '-1 second', NULL),
           ('checked', 3000, 'submitted', '-1 hour', NULL, NULL, '1 day'),
           ('checked', 300, 'submitted', '-1 hour', NULL, NULL, '-1 second'),
           ('checked', 300, 'uncertain', '-1 hour', NULL, NULL, '-1 second'),
           ('held', 3000, 'dead', '-1 hour', NULL, NULL, NULL)
           ) AS v (kind, number, status, due, expires, lease, look)
     CROSS JOIN LATERAL (
           SELECT v.kind, v.status, v.due::interval, v.expires::interval, v.lease::interval,
                  v.look::interval) k
     CROSS JOIN LATERAL generate_series(1, ceil(v.number * %(part)s)::int) AS i
     CROSS JOIN LATERAL (
           SELECT overlay(%(first)s::text PLACING lpad(to_hex(i %% 200), 4, '0') FROM 33)::uuid
                  AS id) o
     CROSS JOIN (SELECT clock_timestamp() AS at) t;

    INSERT INTO attempts (notification_id, lease_number, id, provider, started_at, finished_at,
                          outcome, reference)
    SELECT id, 1, coalesce(attempt_id, uuidv7()), 'http', updated_at,
           CASE WHEN attempt_id IS NULL THEN updated_at END,
           CASE WHEN attempt_id IS NULL THEN 'accepted' END,
           CASE WHEN attempt_id IS NULL THEN id::text END
      FROM notifications
     WHERE status IN ('delivered', 'leased')
    ON CONFLICT DO NOTHING;

    INSERT INTO suppressions (organization_id, channel, recipient_hash, kind, reason, source,
                              source_at)
    SELECT %(first)s, 'email', sha256(('x' || i)::bytea), 'suppress', 'operator', 'test',
           clock_timestamp()
      FROM generate_series(1, ceil(20000 * %(part)s)::int) AS i;

    INSERT INTO receipts (id, provider, event_key, organization_id, notification_id, type,
                          evidence_rank, occurred_at, received_at, applied, raw)
    SELECT uuidv7(-age), 'http', n.id::text, n.organization_id, n.id, 'opened', 0,
           clock_timestamp() - age, clock_timestamp() - age, true, '{}'
      FROM (SELECT id, organization_id, row_number() OVER () * interval '1 second' AS age
              FROM notifications
             WHERE status = 'delivered') n
    ON CONFLICT DO NOTHING;

    SET session_replication_role = origin;
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """A database with much in it: its owner, and connections that knew it when it was small."""

    owner: psycopg.Connection
    early: "Explained"
    operating_early: "Explained"


@pytest.fixture(scope="module")
def stage(postgres: Postgres) -> Iterator[Stage]:
    name = sql.Identifier(NAME)
    with owner_connection(postgres, "postgres") as server:
        server.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template").format(name))
        early = explained_database(postgres, generic=True)
        operating_early = explained_database(postgres, generic=True, role=OPERATOR)
        with owner_connection(postgres, NAME) as owner, psycopg.ClientCursor(owner) as cursor:
            for table in LARGE:
                alter = sql.SQL("ALTER TABLE {} SET (autovacuum_enabled = false)")
                owner.execute(alter.format(sql.Identifier(table)))
            for role, (setting, value) in product((SERVICE, OPERATOR), SETTINGS.items()):
                tell = sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}")
                who = sql.Identifier(role)
                owner.execute(tell.format(who, name, sql.SQL(setting), sql.Literal(value)))
            cursor.execute(FILL, {"first": str(FIRST_ORGANIZATION), "part": 0.0005})
            run_each_statement(early.database)
            run_each_operators_statement(operating_early.database)
            for told in (early, operating_early):
                told.undo()
            cursor.execute(FILL, {"first": str(FIRST_ORGANIZATION), "part": 1})
            yield Stage(owner, early, operating_early)
        for told in (early, operating_early):
            told.database.close()
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def run_each_statement(database: Database) -> None:
    """Run the statements for nobody, so that their plans are made and kept."""
    nobody = Opening(id=uuid4(), lease_number=1, token=uuid4())
    stranger = Leased(
        id=nobody.id,
        organization_id=FIRST_ORGANIZATION,
        lease_number=1,
        channel="email",
        stream="transactional",
        priority="normal",
        category="transactional",
        country=None,
        origin=None,
        address_hash=b"",
        attempts_spent=0,
        in_doubt=0,
        now=datetime.now(UTC),
    )
    channel = read_channels(database)["email"]
    survey(database, run="claim")
    promote(database)
    promote_first(database, after=FIRST_PLACE)
    lease_turn(database)
    record_verdicts(database, [(stranger, Suppress(reason="opted_out"))])
    release(database, [(nobody.id, 1)])
    load(database, [nobody.id])
    begin_all(
        database,
        [nobody],
        remaining_seconds=30,
    )
    close(database, [closing_of(nobody)], channel=channel, declaration=declaration_of("http"))
    hold_unreadable(database, [(nobody.id, 1)])
    record_starts(database, [nobody.id])
    sweep(database, channel=channel, declarations=DECLARATIONS)
    expire(database)
    check(database, declarations=DECLARATIONS)


def run_each_operators_statement(database: Database) -> None:
    """Run an operator's statements that write, for nobody: their plans are kept as well."""
    requeue_all(database, [uuid4()])
    discard(database, [uuid4()], action=action())
    settle(database, uuid4(), finding=Finding.HOLD, action=action())
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    mark_gap(database, since=long_ago, declarations=DECLARATIONS, action=action())
    replay(database, reparse=understood, limit=1, action=action())


def closing_of(opening: Opening) -> Closing:
    return Closing(
        id=opening.id,
        lease_number=opening.lease_number,
        token=opening.token,
        outcome=Accepted(reference="m-1"),
        again_seconds=None,
    )


FORGET_COLUMNS = """
    SELECT pg_clear_attribute_stats('public', c.relname, a.attname, false)
      FROM pg_class c
      JOIN pg_attribute a ON a.attrelid = c.oid
     WHERE c.relname = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""
FORGET_TABLES = "SELECT pg_clear_relation_stats('public', name) FROM unnest(%s::text[]) AS name"


@pytest.fixture(scope="module", params=MOODS)
def mood(request: pytest.FixtureRequest, stage: Stage) -> str:
    """Put the planner in a mood; return it."""
    if request.param == "no statistics":
        stage.owner.execute(FORGET_COLUMNS, [list(LARGE)])
        stage.owner.execute(FORGET_TABLES, [list(LARGE)])
    elif request.param != "kept since small":
        stage.owner.execute("VACUUM ANALYZE")
    return request.param


@dataclass(frozen=True, slots=True)
class Scan:
    """How one node of a plan read a table."""

    table: str
    index: str | None
    condition: str
    rows: int
    """Rows that were looked at, over all loops, returned or not; a bitmap's count at its index."""


@dataclass(slots=True)
class Explained:
    """A database whose statements tell their plans; every work is undone by the test's end."""

    database: HeldDatabase
    notices: list[str] = field(default_factory=list[str])

    def undo(self) -> None:
        """Roll back, past psycopg: it would forget what it has prepared."""
        self.database.run(lambda connection: connection.pgconn.exec_(b"ROLLBACK"))

    def scans(self) -> list[Scan]:
        """Return how the large tables were read since the last time."""
        # A plan is told when its statement ends, which a SELECT does when the next one comes.
        self.database.run(lambda connection: connection.execute("SELECT 1"))
        plans = [notice.split("plan:\n", 1)[1] for notice in self.notices if "plan:\n" in notice]
        self.notices.clear()
        return [scan for plan in plans for scan in _scans(json.loads(plan)["Plan"])]


def _scans(node: dict[str, Any]) -> Generator[Scan]:
    table = node.get("Relation Name")
    is_bitmap = node["Node Type"] == "Bitmap Index Scan"
    if is_bitmap or (table in LARGE and "Scan" in node["Node Type"]):
        seen = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        yield Scan(
            table=table or "",
            index=node.get("Index Name") or ("" if "Bitmap" in node["Node Type"] else None),
            condition=node.get("Index Cond", ""),
            rows=0
            if node["Node Type"] == "Bitmap Heap Scan"
            else round(seen * node["Actual Loops"]),
        )
    for child in node.get("Plans", []):
        yield from _scans(child)


@pytest.fixture
def explained(postgres: Postgres, stage: Stage, mood: str) -> Iterator[Explained]:
    yield from _explained(postgres, stage.early, mood, role=SERVICE)


@pytest.fixture
def operated(postgres: Postgres, stage: Stage, mood: str) -> Iterator[Explained]:
    """The same, as an operator's commands use it."""
    yield from _explained(postgres, stage.operating_early, mood, role=OPERATOR)


def _explained(
    postgres: Postgres, early: Explained, mood: str, *, role: LiteralString
) -> Generator[Explained]:
    told = (
        early
        if mood == "kept since small"
        else explained_database(postgres, generic=mood == "generic", role=role)
    )
    yield told
    told.undo()
    if told is not early:
        told.database.close()


def explained_database(
    postgres: Postgres, *, generic: bool, role: LiteralString = SERVICE
) -> Explained:
    """Return a connection that tells its plans; ``generic``: one for all values, made at once."""

    def connect() -> psycopg.Connection:
        connection = psycopg.connect(
            host=HOST, port=postgres.port, dbname=NAME, user=role, autocommit=True
        )
        if generic:
            connection.prepare_threshold = 0
            connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.add_notice_handler(lambda note: told.notices.append(note.message_primary or ""))
        return connection

    told = Explained(HeldDatabase(connect))
    return told


@contextmanager
def reading(
    explained: Explained, *indexes: str, at_most: int, among: tuple[str, ...] = ()
) -> Generator[None]:
    """Assert that the block reads the large tables through exactly these indexes, few rows.

    ``among``: further indexes that the planner may choose as well.
    """
    explained.scans()
    yield
    scans = explained.scans()
    assert scans, "no plan was told"
    whole = [scan for scan in scans if scan.index is None]
    assert whole == [], "a table was read from end to end"
    used = {scan.index for scan in scans} - {""}
    assert set(indexes) <= used <= {*indexes, *among}
    assert sum(scan.rows for scan in scans) <= at_most, scans


def ids_in(owner: psycopg.Connection, kind: str, count: int) -> list[Any]:
    """Return (id, attempt id) of some rows, spread over the table."""
    conditions = {
        "due": "status = 'pending' AND ready AND expires_at IS NULL",
        "in flight": "status = 'leased' AND lease_until > clock_timestamp()",
        "terminal": "status = 'delivered'",
        "held": "status = 'dead'",
        "uncertain": "status = 'uncertain'",
    }
    statement = (
        f"SELECT id, attempt_id FROM notifications WHERE {conditions[kind]} "
        "ORDER BY recipient_hash LIMIT %s"
    )
    return owner.execute(statement.encode(), [count]).fetchall()


def channel_in(database: Database) -> ChannelRow:
    return read_channels(database)["email"]


def leases_in(owner: psycopg.Connection, count: int, now: datetime) -> list[Leased]:
    """Return rows in flight as the claim knows them."""
    return [
        Leased(
            id=id,
            organization_id=FIRST_ORGANIZATION,
            lease_number=1,
            channel="email",
            stream="transactional",
            priority="normal",
            category="transactional",
            country=None,
            origin=None,
            address_hash=b"",
            attempts_spent=0,
            in_doubt=0,
            now=now,
        )
        for id, _ in ids_in(owner, "in flight", count)
    ]


def test_a_page_is_leased_by_the_ready_index(explained: Explained) -> None:
    with reading(explained, "notifications_ready_by_stream", "notifications_pkey", at_most=1_200):
        page = lease_turn(explained.database, page=100)
    assert len(page.leased) == 100


def test_an_idle_page_reads_nothing(explained: Explained) -> None:
    with reading(explained, "notifications_ready_by_stream", "notifications_pkey", at_most=0):
        assert lease_turn(explained.database, priority="low").leased == []


def test_a_survey_descends_and_counts_only_leases(explained: Explained) -> None:
    with reading(
        explained,
        "notifications_ready_by_stream",
        "notifications_leased",
        at_most=4_000,  # what is in flight, and one row per stream and priority with something
    ):
        survey(explained.database, run="claim")


def test_due_rows_are_promoted_by_the_waiting_index_and_no_other_is_read(
    explained: Explained,
) -> None:
    with reading(
        explained,
        "notifications_waiting",
        "notifications_pkey",
        at_most=3 * PROMOTED_AT_ONCE,  # found, then updated: of 100,000 that wait
    ):
        assert promote(explained.database) == PROMOTED_AT_ONCE


def test_what_waits_is_walked_over_by_the_waiting_index_from_a_place_on(
    explained: Explained,
) -> None:
    with reading(
        explained,
        "notifications_waiting",
        "notifications_pkey",
        at_most=4 * WALKED_AT_ONCE,  # walked, and what is promoted of it locked and updated
    ):
        walk = promote_first(explained.database, after=FIRST_PLACE)
    assert (walk.promoted, walk.is_over) == (walk.walked, True)
    assert walk.walked in (1_000, 1_001)  # and perhaps the one from when the tables were small
    with reading(explained, "notifications_waiting", at_most=1, among=("notifications_pkey",)):
        assert promote_first(explained.database, after=walk.place).walked == 0


def test_an_idle_page_of_the_other_stream_reads_nothing(explained: Explained) -> None:
    with reading(explained, "notifications_ready_by_stream", "notifications_pkey", at_most=0):
        page = lease_page(
            explained.database,
            channel="email",
            stream="bulk",
            priority="normal",
            page=100,
            after=NO_ORGANIZATION,
            lease_seconds=60,
            leased_by="test",
        )
    assert page.leased == []


def test_the_time_bounds_the_scan_of_what_waits(explained: Explained) -> None:
    """A bare volatile clock in the condition would be a filter, and each round read every row."""
    promote(explained.database)
    scans = [scan for scan in explained.scans() if scan.index == "notifications_waiting"]
    assert scans
    assert all("available_at" in scan.condition for scan in scans)


@pytest.mark.parametrize("mood", ["values", "generic"], indirect=True)
def test_lost_leases_are_found_by_the_leased_index(explained: Explained) -> None:
    channel = channel_in(explained.database)
    with reading(
        explained,
        "notifications_leased",
        "notifications_pkey",
        "attempts_one_per_lease",
        at_most=5 * SWEPT_AT_ONCE,
        among=("receipts_by_notification",),
    ):
        swept = sweep(explained.database, channel=channel, declarations=DECLARATIONS)
    assert swept.in_doubt == SWEPT_AT_ONCE


def test_an_idle_sweep_reads_next_to_nothing(explained: Explained) -> None:
    channel = read_channels(explained.database)["sms"]
    with reading(explained, "notifications_leased", at_most=0):
        assert sweep(explained.database, channel=channel, declarations=[]).total == 0


def test_what_expired_is_found_by_its_index(explained: Explained) -> None:
    with reading(
        explained, "notifications_to_expire", "notifications_pkey", at_most=3 * SWEPT_AT_ONCE
    ):
        assert expire(explained.database) == SWEPT_AT_ONCE


def test_what_is_to_be_checked_is_found_by_its_index(explained: Explained) -> None:
    with reading(
        explained,
        "notifications_to_check",
        "notifications_pkey",
        at_most=6 * CHECKED_AT_ONCE,
    ):
        assert check(explained.database, declarations=DECLARATIONS).looked_at == CHECKED_AT_ONCE


def test_a_set_is_begun_through_primary_keys(stage: Stage, explained: Explained) -> None:
    ids = [id for id, _ in ids_in(stage.owner, "due", SET_OF)]
    lease_all = (
        "UPDATE notifications SET status = 'leased', "
        "lease_until = clock_timestamp() + interval '1 hour' WHERE id = ANY(%s)"
    )
    explained.database.run(lambda connection: connection.execute(lease_all, [ids]))
    openings = [Opening(id=id, lease_number=2, token=uuid4()) for id in ids]
    raise_lease = "UPDATE notifications SET lease_number = 2 WHERE id = ANY(%s)"
    explained.database.run(lambda connection: connection.execute(raise_lease, [ids]))
    with reading(
        explained,
        "notifications_pkey",
        "suppressions_by_recipient",
        at_most=6 * SET_OF,
        among=("attempts_one_per_lease",),
    ):
        begun = begin_all(
            explained.database,
            openings,
            remaining_seconds=30,
        )
    assert all(answer.send for answer in begun.values())


def test_a_set_is_closed_through_primary_keys(stage: Stage, explained: Explained) -> None:
    closings = [
        closing_of(Opening(id=id, lease_number=1, token=attempt_id))
        for id, attempt_id in ids_in(stage.owner, "in flight", SET_OF)
    ]
    channel = channel_in(explained.database)
    with reading(
        explained, "notifications_pkey", "attempts_one_per_lease",
        at_most=8 * SET_OF, among=("receipts_by_notification",),
    ):  # fmt: skip
        closed = close(
            explained.database, closings, channel=channel, declaration=declaration_of("http")
        )
    assert {answer.status for answer in closed.values()} == {"submitted"}


@pytest.mark.parametrize("step", ["verdicts", "release", "unreadable", "load"])
def test_a_set_is_found_by_its_ids(stage: Stage, explained: Explained, step: str) -> None:
    leases = leases_in(stage.owner, SET_OF, now_of(stage.owner))
    numbers = [(row.id, row.lease_number) for row in leases]
    database = explained.database
    steps: dict[str, Callable[[], object]] = {
        "verdicts": lambda: record_verdicts(
            database, [(row, Suppress(reason="opted_out")) for row in leases]
        ),
        "release": lambda: release(database, numbers),
        "unreadable": lambda: hold_unreadable(database, numbers),
        "load": lambda: load(database, [id for id, _ in numbers]),
    }
    with reading(explained, "notifications_pkey", at_most=4 * SET_OF):
        steps[step]()


def test_a_start_is_recorded_through_the_primary_key(stage: Stage, explained: Explained) -> None:
    ((id, _),) = ids_in(stage.owner, "in flight", 1)
    with reading(explained, "notifications_pkey", at_most=4):  # locked, then updated
        record_starts(explained.database, [id])


def test_ends_of_starts_are_found_by_their_ids(stage: Stage, explained: Explained) -> None:
    ids = [id for id, _ in ids_in(stage.owner, "in flight", SET_OF)]
    record_starts(explained.database, ids)
    with reading(explained, "notifications_pkey", at_most=4 * SET_OF):
        finish_starts(explained.database, ids)


# What operators do. Lists, and what walks over pages, are planned for the values at hand.

LISTED = ("notifications_pkey", "attempts_one_per_lease", "transitions_pkey")

# An empty set of ids is nowhere: any index does.
RECEIPTS = (
    "receipts_pkey",
    "receipts_by_notification",
    "receipts_orphaned",
    "attempts_one_per_lease",
    "transitions_pkey",
)

AT_HAND = pytest.mark.parametrize("mood", ["values", "no statistics"], indirect=True)


def requeue_all(database: Database, ids: list[UUID]) -> list[str]:
    fates = requeue(database, ids, may_send_twice=True, declarations=DECLARATIONS, action=action())
    return [one.fate for one in fates]


def understood(stored: StoredReceipt) -> Receipt:
    """Read a report anew: it tells of a delivery."""
    return Receipt(
        provider=stored.provider,
        event_key=stored.event_key,
        type="delivered",
        rank=Rank.DELIVERED,
        occurred_at=None,
        idempotency_key=stored.event_key,
    )


@AT_HAND
@pytest.mark.parametrize("filters", [{}, {"channel": "email"}, {"reason": "rejected"}])
def test_what_is_held_is_listed_by_its_index(operated: Explained, filters: dict[str, Any]) -> None:
    with reading(
        operated,
        "notifications_held",
        at_most=3_000 + 3 * 100,
        among=LISTED,
    ):
        assert len(list_held(operated.database, **filters)) == 100


@AT_HAND
def test_an_organizations_held_rows_are_a_part_of_the_index(operated: Explained) -> None:
    with reading(
        operated,
        "notifications_held",
        at_most=5 * 15,
        among=LISTED,
    ):
        held = list_held(operated.database, channel="email", organization_id=FIRST_ORGANIZATION)
    assert len(held) == 16


@AT_HAND
def test_held_rows_are_found_by_their_ids(stage: Stage, operated: Explained) -> None:
    ids = [id for id, _ in ids_in(stage.owner, "held", SET_OF)]
    with reading(
        operated,
        at_most=5 * SET_OF,
        among=("notifications_held", *LISTED),
    ):
        assert len(list_held(operated.database, ids=ids)) == SET_OF


@AT_HAND
def test_what_is_uncertain_is_listed_by_its_index(operated: Explained) -> None:
    with reading(
        operated,
        "notifications_uncertain",
        at_most=300 + 3 * 100,
        among=LISTED,
    ):
        assert len(list_uncertain(operated.database)) == 100


def test_what_is_held_is_requeued_through_primary_keys(stage: Stage, operated: Explained) -> None:
    ids = [id for id, _ in ids_in(stage.owner, "held", SET_OF)]
    among = ("notifications_held", "attempts_one_per_lease", "notifications_candidates")
    with reading(operated, "notifications_pkey", at_most=8 * SET_OF, among=among):
        assert requeue_all(operated.database, ids) == ["requeued"] * SET_OF


def test_what_is_held_is_discarded_through_primary_keys(stage: Stage, operated: Explained) -> None:
    ids = [id for id, _ in ids_in(stage.owner, "held", SET_OF)]
    among = ("notifications_held", "notifications_candidates")
    with reading(operated, "notifications_pkey", at_most=4 * SET_OF, among=among):
        fates = discard(operated.database, ids, action=action())
    assert {one.fate for one in fates} == {"discarded"}


@pytest.mark.parametrize("finding", list(Finding))
def test_one_row_is_settled_through_primary_keys(
    stage: Stage, operated: Explained, finding: Finding
) -> None:
    ((id, _),) = ids_in(stage.owner, "uncertain", 1)
    with reading(
        operated,
        "notifications_pkey",
        at_most=20,
        among=(
            "attempts_one_per_lease",
            "attempts_by_reference",
            "receipts_pkey",
            "receipts_event_is_unique",
            "transitions_pkey",  # of a suppressed row: by whom it was
            "notifications_uncertain",
            "notifications_erased",
        ),
    ):
        fate = settle(operated.database, id, finding=finding, action=action()).fate
    assert fate == "settled"


@AT_HAND
def test_a_page_of_a_gap_walks_over_a_bounded_part_of_the_table(
    stage: Stage, operated: Explained
) -> None:
    """The first rows there are have long been delivered: they are not walked over for ever."""
    since, limit = now_of(stage.owner), 20
    early = "SELECT id FROM notifications WHERE status = 'delivered' ORDER BY id OFFSET 200 LIMIT 1"
    ((after,),) = stage.owner.execute(early).fetchall()
    with reading(
        operated, "notifications_pkey", at_most=2 * 100 * limit, among=("transitions_pkey",)
    ):
        marked = mark_gap(
            operated.database,
            since=since,
            declarations=DECLARATIONS,
            after=after,
            limit=limit,
            action=action(),
        )
    assert (marked.marked, marked.last_id is None) == (0, False)


@AT_HAND
def test_what_was_due_in_a_gap_is_marked_through_primary_keys(
    stage: Stage, operated: Explained
) -> None:
    since, limit = now_of(stage.owner), 100
    due = "SELECT id FROM notifications WHERE status = 'pending' AND ready ORDER BY id"
    ((after,),) = stage.owner.execute(f"{due} OFFSET 1000 LIMIT 1".encode()).fetchall()
    with reading(
        operated,
        "notifications_pkey",
        at_most=2 * 100 * limit + 14 * limit,
        among=("attempts_one_per_lease", "transitions_pkey"),
    ):
        marked = mark_gap(
            operated.database,
            since=since,
            declarations=DECLARATIONS,
            after=after,
            limit=limit,
            action=action(),
        )
    assert marked.marked == limit


@AT_HAND
@pytest.mark.parametrize("bound", ["since", "after", "notification_id"])
def test_a_replay_reads_its_page_and_what_that_is_about(
    stage: Stage, operated: Explained, bound: str
) -> None:
    middle = (
        "SELECT id, notification_id, received_at FROM receipts ORDER BY id OFFSET 90000 LIMIT 1"
    )
    ((id, about, received_at),) = stage.owner.execute(middle).fetchall()
    bounds: dict[str, Any] = {"since": received_at, "after": id, "notification_id": about}
    with reading(
        operated,
        "notifications_pkey",
        at_most=60 + 30 * SET_OF,  # a minute before `since`, and the page
        among=RECEIPTS,
    ):
        replayed = replay(
            operated.database,
            reparse=understood,
            limit=SET_OF,
            action=action(),
            **{bound: bounds[bound]},
        )
    read = 1 if bound == "notification_id" else SET_OF
    assert (replayed.read, replayed.changed, replayed.moved) == (read, read, read)


def test_evidence_is_recomputed_through_primary_keys(stage: Stage, operated: Explained) -> None:
    """By the plans that are kept, too: all but the page itself is prepared."""
    page = "SELECT notification_id FROM receipts ORDER BY id OFFSET 50000 LIMIT 1"
    ((about,),) = stage.owner.execute(page).fetchall()
    with reading(
        operated,
        "notifications_pkey",
        at_most=40,
        among=RECEIPTS,
    ):
        replayed = replay(
            operated.database, reparse=understood, notification_id=about, action=action()
        )
    assert (replayed.read, replayed.changed) == (1, 1)
