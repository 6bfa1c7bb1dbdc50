"""The watch over waiting requests: one probe a round, a ring as long as something waits."""

from dataclasses import dataclass, field

import psycopg
import pytest

from functions.claim.claim import Claimer
from functions.claim.loop import Summary, run_loop
from functions.claim.watch import RING_SECONDS, RequestWatch
from functions.core.login import Login
from functions.ingest.drain import drain
from functions.store.connection import Database
from functions.store.drain import TAKEN_SECONDS, take
from functions.store.request import has_waiting
from tests.api import email
from tests.doors import add_organizations, deployment_of, enqueue, lapse
from tests.fakes import FakeSqs, add_notifications, queues_of
from tests.steps import now_of


@dataclass(slots=True)
class Round:
    """The clock of a run, and what rang at which moment of it."""

    database: Database
    seconds: float = 0.0
    rings: list[float] = field(default_factory=list[float])
    troubles: list[Exception] = field(default_factory=list[Exception])
    failing: Exception | None = None
    raising: Exception | None = None
    sqs: FakeSqs = field(default_factory=FakeSqs)

    def clock(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds = round(self.seconds + seconds, 3)

    def ring(self) -> Exception | None:
        self.rings.append(self.seconds)
        if self.raising is not None:
            raise self.raising
        return self.failing

    def watch(self) -> RequestWatch:
        return RequestWatch(
            database=self.database, ring=self.ring, trouble=self.troubles.append, clock=self.clock
        )

    def run(self, *, seconds: float = 2) -> Summary:
        claimer = Claimer(database=self.database, queues=queues_of(self.sqs), leased_by="run")
        return run_loop(
            claimer,
            seconds=seconds,
            idle_seconds=0.2,
            report=lambda _: None,
            watch=self.watch().look,
            clock=self.clock,
            sleep=self.sleep,
        )


@pytest.fixture(autouse=True)
def organizations(owner: psycopg.Connection) -> None:
    add_organizations(owner)


def test_nothing_waits_and_nobody_rings(database: Database) -> None:
    run = Round(database)
    assert run.run().rounds == 10
    assert run.rings == []


def test_it_rings_at_once_and_again_as_long_as_something_waits(
    owner: psycopg.Connection, database: Database
) -> None:
    enqueue(owner, email())
    run = Round(database)
    run.run()
    assert run.rings == [0.0, 0.6, 1.2, 1.8]
    pauses = [later - earlier for earlier, later in zip(run.rings, run.rings[1:], strict=False)]
    assert min(pauses) >= RING_SECONDS


def test_what_is_drained_meanwhile_is_sent_in_the_next_round(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    id = enqueue(owner, email())

    @dataclass(slots=True)
    class Draining(Round):
        def ring(self) -> Exception | None:
            drain(deployment_of(database))
            return Round.ring(self)

    run = Draining(database)
    assert run.run().claimed == {"email": 1}
    assert (run.rings, run.sqs.ids()) == ([0.0], [id])


@pytest.mark.parametrize("how", ["failing", "raising"])
def test_a_bell_that_nobody_hears_stops_no_claim_and_is_told_once(
    owner: psycopg.Connection, database: Database, how: str
) -> None:
    enqueue(owner, email())
    add_notifications(owner, 3)
    run = Round(database)
    setattr(run, how, ConnectionError("refused"))
    assert run.run().claimed == {"email": 3}
    assert len(run.rings) == 4
    assert [type(trouble) for trouble in run.troubles] == [ConnectionError]


def test_a_table_that_cannot_be_read_stops_no_claim(
    owner: psycopg.Connection, database: Database
) -> None:
    owner.execute("REVOKE ALL ON requests FROM sendoff_service")
    add_notifications(owner, 3)
    run = Round(database)
    assert run.run().claimed == {"email": 3}
    assert [type(trouble).__name__ for trouble in run.troubles] == ["InsufficientPrivilege"]


def test_an_outage_is_waited_for_as_ever(database: Database) -> None:
    def refuse() -> psycopg.Connection:
        raise psycopg.OperationalError("connection refused")

    run = Round(Database(refuse))
    assert run.run(seconds=3).outages == 3
    assert run.troubles == []


def test_what_somebody_has_in_hand_is_nothing_to_ring_for(
    owner: psycopg.Connection, database: Database
) -> None:
    enqueue(owner, email())
    database.run(take)
    run = Round(database)
    run.run()
    assert run.rings == []
    assert has_waiting(database) is False
    assert has_waiting(database, now=now_of(owner, seconds=TAKEN_SECONDS + 1)) is True
    lapse(owner)
    run.run()
    assert run.rings, "whoever had it is gone"
