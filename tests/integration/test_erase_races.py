"""Erasure beside everything else: begins, reports, documents, chains, crashes, a lack of time."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

import psycopg
import pytest

from functions.core.errors import Unavailable
from functions.core.login import Login
from functions.core.outcome import Accepted, Transient
from functions.core.recipient import recipient_hash, reference_hash
from functions.store.chain import advance
from functions.store.connection import Connect, Database, connector
from functions.store.erase import AT_ONCE, FIND, continue_erasures, erase_address, erase_recipient
from functions.store.erase_notifications import FIND_TRACES
from infra.local.postgres import Postgres
from tests.api import HASH_KEY, Api, email, start
from tests.erasing import ADA, delete, dump_of, erase, lines_naming, put
from tests.fakes import FIRST_ORGANIZATION, HeldDatabase, Killed, moves_of, row_of
from tests.reports import add_known, told
from tests.steps import begin_one, begun, close_one, connected, lease, now_of, opening_of, waiting

T = TypeVar("T")

ADDRESS_HASH = recipient_hash(HASH_KEY, "email", "ada@example.com")
CHAIN = {"channels": ["email", "sms"], "recipient_id": "ada", "content": "For you"}


@pytest.fixture
def api(database: Database) -> Api:
    return start(database)


def accepted(api: Api, **members: Any) -> UUID:
    reply = api.post({**email(), **members})
    assert reply.status == 202, reply
    return UUID(reply.json["id"])


def chained(api: Api, owner: psycopg.Connection) -> tuple[UUID, UUID]:
    """Accept a chain for ada; return the parent, and its first child as if it were decided."""
    put(api)
    reply = api.post(CHAIN)
    assert reply.status == 202, reply
    parent = UUID(reply.json["id"])
    statement = """
        UPDATE notifications
           SET contact_hash = %s, recipient_version = (SELECT version FROM recipients),
               decision = '{"transactional": true}'
         WHERE parent_id = %s
        RETURNING id
    """
    ((child,),) = owner.execute(statement, [ADDRESS_HASH, parent]).fetchall()
    return parent, child


def test_an_attempt_that_opens_first_is_closed_by_its_sender(
    api: Api, database: Database, login: Login, owner: psycopg.Connection
) -> None:
    """G3: what is in flight loses its words and goes on."""
    id = accepted(api)
    (leased,) = lease(database)
    opening = opening_of(leased)
    with connected(login, "begins", kind=HeldDatabase) as (begins,):
        assert begin_one(begins, opening).send
        with waiting(owner, "test", lambda: erase(api)) as erased:
            begins.commit()
    assert erased.result().json == {"erased": 1}
    row = row_of(owner, id)
    assert (row.status, row.recipient, row.content) == ("leased", None, None)
    failure = Transient(code="503", detail="ada@example.com")
    assert close_one(database, opening, failure, again_seconds=0) == "pending"
    assert owner.execute("SELECT code, detail FROM attempts").fetchone() == ("503", None)
    (again,) = lease(database)
    answer = begin_one(database, opening_of(again))
    assert (answer.verdict, answer.send) == ("erased", False)
    assert (row_of(owner, id).status, row_of(owner, id).reason) == ("suppressed", "erased")


def test_a_begin_that_waits_for_the_erasure_opens_nothing(
    api: Api, database: Database, login: Login, owner: psycopg.Connection
) -> None:
    id = accepted(api)
    (leased,) = lease(database)
    opening = opening_of(leased)
    with connected(login, "erases", kind=HeldDatabase) as (erases,):
        assert erase(start(erases)).json == {"erased": 1}
        with waiting(owner, "test", lambda: begin_one(database, opening)) as begins:
            erases.commit()
    assert not begins.result().send
    assert moves_of(owner, id) == [("client", "leased", "suppressed", "erased")]
    assert owner.execute("SELECT count(*) FROM attempts").fetchone() == (0,)


def test_a_report_beside_the_erasure_leaves_no_address_in_either_order(
    database: Database,
    login: Login,
    owner: psycopg.Connection,
    postgres: Postgres,
    database_name: str,
) -> None:
    reason = "ada@example.com is unknown"
    for first in ("report", "erasure"):
        (id,) = add_known(owner, recipient="ada@example.com")
        close_one(database, begun(database), Accepted(reference=f"message-{first}"))

        def report(database: Database, id: UUID = id) -> Any:
            return told(database, "bounced", idempotency_key=id, recipient="ada@example.com",
                        permanent=True, reason=reason)  # fmt: skip

        with connected(login, "held", kind=HeldDatabase) as (held,):
            if first == "report":
                report(held)
                with waiting(owner, "test", lambda: erase(start(database))) as other:
                    held.commit()
            else:
                erase(start(held))
                with waiting(owner, "test", lambda report=report: report(database)) as other:
                    held.commit()
        other.result()
        assert row_of(owner, id).status == "failed"
        assert lines_naming(dump_of(postgres, database_name)) == []
        assert owner.execute("SELECT DISTINCT recipient FROM suppressions").fetchall() == [(None,)]
        owner.execute("DELETE FROM suppressions")


def test_a_document_that_is_being_written_loses_the_address_as_well(
    api: Api, login: Login, owner: psycopg.Connection
) -> None:
    put(api)
    with connected(login, "writes", kind=HeldDatabase) as (writes,):
        put(start(writes), {**ADA, "locale": "en"})
        with waiting(owner, "test", lambda: erase(api)) as erased:
            writes.commit()
    assert erased.result().status == 200
    after = api.get("/v1/recipients/ada").json
    assert after["locale"] == "en"
    assert [point["channel"] for point in after["contact_points"]] == ["sms", "push", "webhook"]


def test_an_erasure_waits_for_what_is_being_accepted_by_reference(
    api: Api, login: Login, owner: psycopg.Connection
) -> None:
    put(api)
    with connected(login, "accepts", kind=HeldDatabase) as (accepts,):
        last = accepted(start(accepts), recipient=None, recipient_id="ada")
        with waiting(owner, "test", lambda: delete(api)) as erased:
            accepts.commit()
    assert erased.result().status == 204
    assert (row_of(owner, last).status, row_of(owner, last).content) == ("suppressed", None)


def test_what_was_being_accepted_for_an_address_is_erased_a_minute_later(
    api: Api, database: Database, login: Login, owner: psycopg.Connection
) -> None:
    with connected(login, "accepts", kind=HeldDatabase) as (accepts,):
        before = accepted(start(accepts))
        assert erase(api).json == {"erased": 0}
        accepts.commit()
    assert row_of(owner, before).status == "pending"
    put(api)
    after = accepted(api)
    ends_at = time.monotonic() + 60
    assert continue_erasures(database, ends_at=ends_at) == 0
    later = now_of(owner, seconds=61)
    assert continue_erasures(database, ends_at=ends_at, now=later) == 1
    assert (row_of(owner, before).status, row_of(owner, before).content) == ("suppressed", None)
    assert (row_of(owner, after).status, row_of(owner, after).content) == ("pending", "Your order")
    assert len(api.get("/v1/recipients/ada").json["contact_points"]) == 4
    assert owner.execute("SELECT count(*) FROM erasures").fetchone() == (0,)


class Dies(Database):
    """A database whose process ends before, or after, its n-th piece of work."""

    def __init__(self, connect: Connect, *, at: int, done: bool) -> None:
        super().__init__(connect)
        self._left = at
        self._done = done

    def run(self, work: Callable[[psycopg.Connection], T], *, pipelined: bool = False) -> T:
        self._left -= 1
        if self._left == 0:
            if self._done:
                super().run(work, pipelined=pipelined)
            raise Killed
        return super().run(work, pipelined=pipelined)


@contextmanager
def dying(login: Login, *, at: int, done: bool) -> Generator[Database]:
    database = Dies(connector(lambda: login, application_name="dies"), at=at, done=done)
    try:
        yield database
    finally:
        database.close()


def erase_ada(database: Database, *, ends_at: float | None = None) -> int:
    return erase_recipient(
        database,
        organization_id=FIRST_ORGANIZATION,
        recipient_id="ada",
        reference_hash=reference_hash(HASH_KEY, "ada"),
        ends_at=time.monotonic() + 60 if ends_at is None else ends_at,
    )


def test_wherever_it_dies_a_repetition_or_the_sweep_erases_the_rest(
    api: Api,
    database: Database,
    login: Login,
    owner: psycopg.Connection,
    postgres: Postgres,
    database_name: str,
) -> None:
    deaths = 0
    for at in range(1, 10):
        put(api)
        ids = [accepted(api), accepted(api, recipient=None, recipient_id="ada")]
        try:
            with dying(login, at=at, done=at % 2 == 0) as dies:
                erase_ada(dies)
        except Killed:
            deaths += 1
            if at % 3 == 0:
                later = now_of(owner, seconds=61)
                continue_erasures(database, ends_at=time.monotonic() + 60, now=later)
            else:
                assert delete(api).status in (204, 404)
        assert [row_of(owner, id).status for id in ids] == ["suppressed", "suppressed"]
        assert lines_naming(dump_of(postgres, database_name)) == []
    assert deaths >= 5


def test_what_does_not_fit_into_the_time_is_gone_on_with(
    api: Api, database: Database, owner: psycopg.Connection
) -> None:
    put(api)
    add_known(owner, AT_ONCE + 50, recipient="ada@example.com")
    with pytest.raises(Unavailable):
        erase_ada(database, ends_at=0)
    assert api.get("/v1/recipients/ada").code == "not_found"
    assert erase_ada(database) == AT_ONCE + 50
    add_known(owner, AT_ONCE + 50, recipient="ada@example.com")
    statuses = "SELECT status, count(*), count(erased_at) FROM notifications GROUP BY status"
    assert erase(api).json == {"erased": AT_ONCE + 50}
    both = 2 * (AT_ONCE + 50)
    assert owner.execute(statuses).fetchall() == [("suppressed", both, both)]


def test_a_lack_of_time_is_told_as_unavailable_and_an_address_goes_on_too(
    api: Api, database: Database, owner: psycopg.Connection
) -> None:
    add_known(owner, 3, recipient="ada@example.com")
    arguments: dict[str, Any] = {
        "organization_id": FIRST_ORGANIZATION,
        "channel": "email",
        "address": "ada@example.com",
        "address_hash": ADDRESS_HASH,
    }
    with pytest.raises(Unavailable) as refused:
        erase_address(database, **arguments, ends_at=0)
    assert refused.value.code == "unavailable"  # 503 with Retry-After
    assert erase(api).json == {"erased": 3}


def test_a_chain_is_erased_whole_and_goes_no_further(
    api: Api, database: Database, owner: psycopg.Connection
) -> None:
    for by_address in (True, False):
        parent, child = chained(api, owner)
        if by_address:
            assert erase(api).json == {"erased": 2}
        else:
            assert delete(api).status == 204
        for id in (parent, child):
            row = row_of(owner, id)
            assert (row.status, row.reason, row.content) == ("suppressed", "erased", None)
            assert moves_of(owner, id)[-1] == ("client", "pending", "suppressed", "erased")
        assert advance(database, now=now_of(owner, days=30)).started == 0
        children = "SELECT count(*) FROM notifications WHERE parent_id = %s"
        assert owner.execute(children, [parent]).fetchone() == (1,)
        assert row_of(owner, parent).status == "suppressed"


def test_a_candidate_under_way_decides_what_its_erased_parent_shows(
    api: Api, database: Database, owner: psycopg.Connection
) -> None:
    for outcome, ends in ((Accepted(reference="m"), "delivered"), (None, "suppressed")):
        parent, child = chained(api, owner)
        opening = begun(database)
        assert opening.id == child
        assert delete(api).status == 204
        row = row_of(owner, parent)
        assert (row.status, row.content, row.recipient) == ("pending", None, None)
        if outcome is not None:
            close_one(database, opening, outcome)
            told(database, "delivered", idempotency_key=child, recipient="ada@example.com")
        else:
            close_one(database, opening, Transient(code="503"), again_seconds=0)
            (again,) = lease(database)
            assert begin_one(database, opening_of(again)).verdict == "erased"
        assert advance(database, now=now_of(owner, days=30)).started == 0
        assert row_of(owner, parent).status == ends
        assert row_of(owner, parent).next_step_at is None


def test_what_went_to_an_address_is_found_by_its_index(
    database: Database, owner: psycopg.Connection
) -> None:
    owner.execute("INSERT INTO organizations (id, name) VALUES (%s, 'one')", [FIRST_ORGANIZATION])
    add_known(owner, 2000)
    parameters: dict[str, Any] = {
        "organization_id": FIRST_ORGANIZATION,
        "recipient_id": None,
        "hashes": [ADDRESS_HASH],
        "addresses": [ADDRESS_HASH],
        "started_at": now_of(owner),
        "limit": 10,
    }
    parameters |= {"channel": "email", "spellings": ["ada@example.com"]}
    by_both = "coalesce(contact_hash, recipient_hash) ="
    for statement in (FIND, FIND_TRACES):
        explain = f"EXPLAIN {statement}".encode()
        plan = database.run(lambda c, explain=explain: c.execute(explain, parameters).fetchall())
        text = "\n".join(line for (line,) in plan)
        assert "notifications_by_address" in text, text
        assert by_both in text.lower(), text
