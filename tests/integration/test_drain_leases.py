"""Who has a request in hand, for how long, and what becomes of one that stops whoever takes it."""

import re
from typing import Any

import psycopg
import pytest

from functions.core.errors import Unavailable
from functions.core.login import Login
from functions.ingest.drain import drain
from functions.store.connection import Database
from functions.store.drain import (
    MAX_STARTS,
    MOST_ORGANIZATIONS,
    TAKE,
    TAKE_AGAIN,
    TAKEN_SECONDS,
    Waiting,
    give_back,
    hold,
    take,
    take_again,
)
from functions.store.request import HAS_WAITING, OLDEST_WAITING
from infra.config import FUNCTIONS
from tests.api import email
from tests.doors import (
    add_organizations,
    deployment_of,
    enqueue,
    ids_of,
    lapse,
    pointers,
    requests_of,
    values,
)
from tests.fakes import SECOND_ORGANIZATION, Killed, moves_of, row_of
from tests.steps import connected, now_of


@pytest.fixture(autouse=True)
def organizations(owner: psycopg.Connection) -> None:
    add_organizations(owner)


def drained(database: Database, **more: Any) -> tuple[int, int, int]:
    came = drain(deployment_of(database), **more)
    return came.stored, came.repeated, came.invalid


def hands_of(owner: psycopg.Connection) -> list[tuple[int, bool]]:
    """Return (starts, whether somebody has it in hand) of each request."""
    return owner.execute("SELECT starts, taken_until > now() FROM requests ORDER BY id").fetchall()


def test_what_is_taken_is_nobody_elses_until_its_time_is_over(
    owner: psycopg.Connection, login: Login, database: Database
) -> None:
    ids = [enqueue(owner, email()) for _ in range(2)]
    with connected(login, "slow", kind=Database) as (slow,):
        first = slow.run(take)
        assert [one.id for one in first] == ids
        assert drained(database) == (0, 0, 0)
        later = now_of(owner, seconds=TAKEN_SECONDS + 1)
        again = database.run(lambda connection: take_again(connection, now=later))
        assert [(one.id, one.starts) for one in again] == [(ids[0], 2)], "alone, for a suspicion"
        assert slow.run(lambda connection: hold(connection, first)) == {ids[1]}
        assert slow.run(lambda connection: hold(connection, again)) == {ids[0]}


def test_it_is_taken_for_longer_than_ingest_lives() -> None:
    assert FUNCTIONS["ingest"].timeout_seconds < TAKEN_SECONDS


def test_whoever_comes_too_late_settles_nothing(
    owner: psycopg.Connection, login: Login, database: Database
) -> None:
    id = enqueue(owner, email())

    class Late(Database):
        """Judges so long that its time is over, and another has been quicker, when it settles."""

        pieces = 0

        def run(self, work: Any, *, pipelined: bool = False) -> Any:
            Late.pieces += 1
            if Late.pieces == 2:
                lapse(owner)
                assert drained(database) == (1, 0, 0)
            return super().run(work, pipelined=pipelined)

    with connected(login, "late", kind=Late) as (late,):
        assert drained(late) == (0, 0, 0)
    assert (ids_of(owner), requests_of(owner)) == ([id], [])


def test_what_is_left_when_the_time_is_over_is_given_back_at_once(
    owner: psycopg.Connection, database: Database
) -> None:
    plain = [enqueue(owner, email()), enqueue(owner, email(), SECOND_ORGANIZATION)]
    enqueue(owner, {"template": {"name": "none"}})
    assert drained(database, seconds=0) == (2, 0, 0)
    assert ids_of(owner) == plain
    assert hands_of(owner) == [(0, None)]
    assert drained(database, seconds=0) == (0, 0, 1)


def test_what_is_given_back_late_is_not_taken_from_whoever_has_it_now(
    owner: psycopg.Connection, database: Database
) -> None:
    enqueue(owner, email())
    first = database.run(take)
    for _ in range(2):  # the second one as if the answer to the first had been lost
        database.run(lambda connection: give_back(connection, first))
    assert hands_of(owner) == [(0, None)]
    database.run(take)
    database.run(lambda connection: give_back(connection, first))
    assert hands_of(owner) == [(1, True)]


class Breaking(Database):
    """Cannot settle: the database is there, and what is to be written is locked."""

    def run(self, work: Any, *, pipelined: bool = False) -> Any:
        if work.__qualname__.startswith("_settled"):
            raise Unavailable
        return super().run(work, pipelined=pipelined)


def test_a_failure_of_ours_is_no_suspicion(owner: psycopg.Connection, login: Login) -> None:
    id = enqueue(owner, email())
    with connected(login, "breaking", kind=Breaking) as (breaking,):
        for _ in range(MAX_STARTS + 1):
            with pytest.raises(Unavailable):
                drain(deployment_of(breaking))
            assert hands_of(owner) == [(0, None)]
    with connected(login, "sound", kind=Database) as (sound,):
        assert drained(sound) == (1, 0, 0)
    assert ids_of(owner) == [id]


class Killing(psycopg.Cursor[Any]):
    """A cursor of a process that a deadly item stops."""

    def execute(self, query: Any, params: Any = None, **more: Any) -> "Killing":
        if "deadly" in str(params):
            self.connection.close()
            raise Killed
        super().execute(query, params, **more)
        return self


def test_a_request_that_stops_whoever_takes_it_harms_no_neighbour_and_comes_to_an_end(
    owner: psycopg.Connection, login: Login
) -> None:
    before, deadly, after = (enqueue(owner, email(content=text)) for text in ("a", "deadly", "b"))
    elsewhere = enqueue(owner, email(), SECOND_ORGANIZATION)

    def connect() -> psycopg.Connection:
        return psycopg.connect(
            host=login.host, port=login.port, dbname=login.name, user=login.user,
            autocommit=True, cursor_factory=Killing,
        )  # fmt: skip

    def run() -> tuple[int, int, int]:
        mortal = Database(connect)
        try:
            return drained(mortal)
        finally:
            mortal.close()
            lapse(owner)

    with pytest.raises(Killed):
        run()
    assert ids_of(owner) == [], "they were to be settled together"
    late = enqueue(owner, email())
    for starts in range(2, MAX_STARTS + 1):
        with pytest.raises(Killed):
            run()
        assert max(hands_of(owner))[0] == starts
        assert late in ids_of(owner), "what came later is taken in before the suspects"
    assert run()[2] == 1
    assert run() == (0, 0, 0), "it is over"
    statuses = [row_of(owner, id).status for id in (before, deadly, after, elsewhere, late)]
    assert statuses == ["pending", "dead", "pending", "pending", "pending"]
    assert moves_of(owner, deadly) == [("accept", "pending", "dead", "invalid")]
    ((id, is_waiting, _, faults),) = requests_of(owner)
    assert (id, is_waiting, pointers(faults)) == (deadly, False, [("", "internal_error")])
    assert f"{MAX_STARTS} times" in faults[0]["detail"]


def test_one_that_cannot_even_be_told_invalid_is_in_nobodys_way(
    owner: psycopg.Connection, database: Database
) -> None:
    owner.execute("ALTER TABLE notifications ADD CHECK (status <> 'dead')")
    enqueue(owner, {})
    for _ in range(3):
        with pytest.raises(psycopg.IntegrityError):
            drained(database)
        id = enqueue(owner, email())
        lapse(owner)
        with pytest.raises(psycopg.IntegrityError):
            drained(database)
        assert id in ids_of(owner)
        lapse(owner)


def test_the_organizations_whose_oldest_waits_longest_have_the_first_turn(
    owner: psycopg.Connection, database: Database
) -> None:
    owner.execute(
        "INSERT INTO organizations (id, name) SELECT uuidv7(), n::text FROM generate_series(1, 6) n"
    )
    organizations = values(owner, "SELECT id FROM organizations ORDER BY id DESC")
    ids = [enqueue(owner, email(), one) for one in organizations for _ in range(2)]
    page = database.run(lambda connection: take(connection, most=3))
    assert sorted(one.id for one in page) == ids[0:6:2]


def test_a_request_is_told_apart_by_whether_it_has_a_template(
    owner: psycopg.Connection, database: Database
) -> None:
    for item in ('{"template": null}', '{"Template": {}}', '["template"]', '"template"', "null"):
        enqueue(owner, item)
    page: list[Waiting] = database.run(take)
    assert [one.by_template for one in page] == [True, False, False, False, False]


FILL = """
    INSERT INTO requests (id, organization_id, item, bytes, drained_at, faults, starts, taken_until)
    SELECT uuidv7(), o.id, '{}', 2, CASE WHEN k.kind = 'kept' THEN now() END,
           CASE WHEN k.kind = 'kept' THEN '[]'::jsonb END, k.starts, now() + k.taken
      FROM organizations o
     CROSS JOIN (VALUES ('kept', 4000, 0, NULL::interval), ('free', 4000, 0, NULL),
                        ('in hand', 500, 1, '1 minute'), ('left', 500, 1, '-1 minute'))
           AS k (kind, number, starts, taken)
     CROSS JOIN LATERAL generate_series(1, k.number)
"""


@pytest.mark.parametrize(
    ("statement", "indexes", "most"),
    [
        (TAKE, {"requests_waiting", "requests_pkey"}, 200),
        (TAKE_AGAIN, {"requests_taken", "requests_pkey"}, 1),
        (HAS_WAITING, {"requests_waiting"}, 1),
        (OLDEST_WAITING, {"requests_waiting", "requests_taken"}, 2000),
    ],
    ids=["take", "take again", "has waiting", "oldest waiting"],
)
def test_each_is_found_by_the_index_of_what_waits_or_is_in_hand(
    owner: psycopg.Connection, database: Database, statement: str, indexes: set[str], most: int
) -> None:
    """However much waits, is in hand, or is kept that repeated or was invalid."""
    owner.execute(FILL)
    owner.execute("ANALYZE requests")
    parameters = {
        "most": 200, "bytes": 4_000_000, "most_organizations": MOST_ORGANIZATIONS,
        "taken_seconds": TAKEN_SECONDS, "now": None,
    }  # fmt: skip

    def plan(connection: psycopg.Connection) -> str:
        text = b"EXPLAIN (ANALYZE, COSTS OFF) " + statement.encode()
        return "\n".join(row[0] for row in connection.execute(text, parameters))

    told = database.run(plan)
    run = [line for line in told.splitlines() if "never executed" not in line]
    used = set(re.findall(r"(?:using|Index Scan on) (requests_\w+)", "\n".join(run)))
    assert used == indexes, told
    assert "Seq Scan on requests" not in told
    read = [float(rows) for rows in re.findall(r"on requests.*rows=([0-9.]+) loops", told)]
    assert read
    assert max(read) <= most, told
