"""What goes wrong with one organization's SMS stops nobody else's, and lets nothing out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from functions.claim.claim import Claimer
from functions.claim.gate import open_to_all
from functions.claim.guarded import and_guarded
from functions.core.errors import Unavailable
from functions.core.login import Login
from functions.store.connection import Database
from functions.store.survey import promote
from tests.fakes import (
    FIRST_ORGANIZATION,
    SECOND_ORGANIZATION,
    FakeSqs,
    moves_of,
    queues_of,
    row_of,
)
from tests.guarding import (
    add_texts,
    all_are_sent,
    connected,
    leased_texts,
    names_of,
    ruled,
    some_texts,
)
from tests.steps import now_of

T = TypeVar("T")

POISON = sql.SQL(
    "ALTER TABLE sms_slices ADD CONSTRAINT {} CHECK (organization_id <> {}::uuid) NOT VALID"
)


@dataclass(slots=True, kw_only=True)
class Deployed:
    """The claimer with the guard, the queue it fills, and the trouble it tells."""

    database: Database
    sqs: FakeSqs = field(default_factory=FakeSqs)
    troubles: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def claimer(self) -> Claimer:
        return Claimer(
            database=self.database,
            queues=queues_of(self.sqs),
            leased_by="run-1",
            gates=and_guarded(self.database, open_to_all, trouble=self.trouble),
            trouble=self.trouble,
        )

    def trouble(self, channel: str, error: Exception) -> None:
        self.troubles.append((channel, type(error).__name__))


@pytest.fixture
def deployed(database: Database, owner: psycopg.Connection) -> Deployed:
    owner.execute("UPDATE channels SET tokens = 100, rate = 100, burst = 100 WHERE name = 'sms'")
    return Deployed(database=database)


def poison(owner: psycopg.Connection, *organizations: UUID) -> None:
    """Let nothing that is counted for these organizations be storable."""
    for number, id in enumerate(organizations):
        name = sql.Identifier(f"poison_{number}")
        owner.execute(POISON.format(name, sql.Literal(str(id))))


def both(owner: psycopg.Connection, *, count: int = 3) -> tuple[list[UUID], list[UUID]]:
    """Add SMS of two organizations; return the ids of each."""
    now = now_of(owner)
    return (
        add_texts(owner, some_texts(count, at=now)),
        add_texts(owner, some_texts(count, at=now, organization_id=SECOND_ORGANIZATION)),
    )


def test_what_the_guard_cannot_do_for_one_organization_stops_no_other(
    owner: psycopg.Connection, deployed: Deployed
) -> None:
    poison(owner, FIRST_ORGANIZATION)
    bad, good = both(owner)
    claimer = deployed.claimer()
    done = claimer.round()
    assert (done.claimed["sms"], done.put_off["sms"]) == (3, 3)
    assert sorted(deployed.sqs.ids("sms")) == sorted(good)
    assert deployed.troubles == [("sms", "CheckViolation")]
    for id in bad:
        row = row_of(owner, id)
        assert (row.status, row.ready, row.reason) == ("pending", False, "sms_guard_failed")
        assert row.eligible_at < row.available_at
        assert moves_of(owner, id) == [("claim", "leased", "pending", "sms_guard_failed")]
    reserved = owner.execute("SELECT notification_id FROM sms_reservations").fetchall()
    assert sorted(id for (id,) in reserved) == sorted(good)


def test_what_failed_does_not_go_round_and_is_asked_again_in_a_minute(
    owner: psycopg.Connection, database: Database, deployed: Deployed
) -> None:
    poison(owner, FIRST_ORGANIZATION)
    bad, _ = both(owner)
    claimer = deployed.claimer()
    claimer.round()
    assert claimer.round().was_idle
    due = row_of(owner, bad[0]).available_at
    assert timedelta(seconds=30) < due - now_of(owner) <= timedelta(minutes=1)
    owner.execute("ALTER TABLE sms_slices DROP CONSTRAINT poison_0")
    promote(database, now=due)
    assert claimer.round().claimed["sms"] == 3
    assert len(deployed.sqs.ids("sms")) == 6


def test_their_tokens_come_back_and_trouble_is_told_once_a_run(
    owner: psycopg.Connection, deployed: Deployed
) -> None:
    owner.execute("UPDATE channels SET rate = 0.001 WHERE name = 'sms'")
    poison(owner, FIRST_ORGANIZATION, SECOND_ORGANIZATION)
    claimer = deployed.claimer()
    for _ in range(2):
        both(owner)
        assert claimer.round().put_off["sms"] == 6
    ((tokens,),) = owner.execute("SELECT tokens FROM channels WHERE name = 'sms'").fetchall()
    assert tokens == pytest.approx(100, abs=0.1)
    assert deployed.troubles == [("sms", "CheckViolation")]
    assert deployed.sqs.ids("sms") == []


@pytest.mark.parametrize("others", [0, 1])
def test_a_database_that_is_away_is_nobodys_fault_and_defers_nothing(
    others: int, owner: psycopg.Connection, database: Database, deployed: Deployed
) -> None:
    now = now_of(owner)
    ids = add_texts(owner, some_texts(3, at=now))
    add_texts(owner, some_texts(others, at=now, organization_id=SECOND_ORGANIZATION))
    owner.execute("INSERT INTO sms_guards (organization_id) VALUES (%s)", [FIRST_ORGANIZATION])
    claimer = deployed.claimer()
    with owner.transaction():
        owner.execute("SELECT FROM sms_guards FOR UPDATE")
        database.run(lambda connection: connection.execute("SET lock_timeout = '50ms'"))
        with pytest.raises(Unavailable):
            claimer.round()
    assert {row_of(owner, id).status for id in ids} == {"pending"}
    assert {row_of(owner, id).reason for id in ids} == {None}
    assert deployed.troubles == []


class CountingDatabase(Database):
    """A database that counts its transactions."""

    runs = 0

    def run(self, work: Callable[[psycopg.Connection], T], *, pipelined: bool = False) -> T:
        self.runs += 1
        return super().run(work, pipelined=pipelined)


def test_the_organizations_of_a_page_are_asked_about_together(
    owner: psycopg.Connection, login: Login
) -> None:
    both(owner)
    with connected(login, kind=CountingDatabase) as counting:
        leased = leased_texts(counting, now=now_of(owner))
        gates = and_guarded(counting, open_to_all, trouble=Deployed(database=counting).trouble)
        before = counting.runs
        assert set(names_of(gates(leased))) == {"allow"}
        assert counting.runs == before + 1


def dormant(owner: psycopg.Connection, database: Database, *, days: int) -> None:
    """Let the first organization have had a usual mix until so many days ago."""
    now = now_of(owner)
    for day in range(3):
        at = now - timedelta(days=days + 3 - day)
        add_texts(owner, some_texts(60, at=at, stem=f"+33{60000 + day}"))
        assert set(names_of(ruled(database, now=at))) == {"allow"}
        all_are_sent(owner, now=at)


@pytest.mark.parametrize("days", [60, 200, 330, 4000])
def test_an_organization_that_slept_is_held_and_stops_no_other(
    days: int, owner: psycopg.Connection, database: Database, deployed: Deployed
) -> None:
    dormant(owner, database, days=days)
    now = now_of(owner)
    mine = add_texts(owner, some_texts(21, at=now, stem="+336555"))
    theirs = add_texts(
        owner, some_texts(3, at=now, stem="+336777", organization_id=SECOND_ORGANIZATION)
    )
    deployed.claimer().round()
    assert deployed.troubles == []
    assert set(theirs) <= set(deployed.sqs.ids("sms"))
    assert [row_of(owner, id).reason for id in mine].count("mix_shifted") == 1
    ((surge,),) = owner.execute(
        "SELECT surge FROM sms_guards WHERE organization_id = %s", [FIRST_ORGANIZATION]
    ).fetchall()
    assert 1 <= surge <= 1e6
