"""The loop of the claim: how it ends, what it waits for, and when it says that it lives."""

from collections import Counter
from dataclasses import dataclass, field

import psycopg

from functions.claim.claim import Claimer
from functions.claim.loop import OUTAGE_PAUSE_SECONDS, REPORT_SECONDS, Summary, run_loop
from functions.core.login import Login
from functions.store.connection import Database, connector
from functions.store.survey import start_run
from tests.fakes import FakeSqs, add_notifications, queues_of


@dataclass(slots=True)
class Timepiece:
    """A clock that only moves by being slept on, and an event at a moment of it."""

    seconds: float = 0.0
    sleeps: list[float] = field(default_factory=list[float])

    def clock(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.seconds += seconds


@dataclass(slots=True)
class Run:
    """A run of the loop with a fake clock and queue."""

    database: Database
    timepiece: Timepiece = field(default_factory=Timepiece)
    sqs: FakeSqs = field(default_factory=FakeSqs)
    reports: list[Counter[str]] = field(default_factory=list[Counter[str]])

    def go(self, *, seconds: float = 10, idle_seconds: float = 0.5) -> Summary:
        claimer = Claimer(database=self.database, queues=queues_of(self.sqs), leased_by="run")
        return run_loop(
            claimer,
            seconds=seconds,
            idle_seconds=idle_seconds,
            report=self.reports.append,
            clock=self.timepiece.clock,
            sleep=self.timepiece.sleep,
        )


def test_a_run_ends_when_its_time_is_up(database: Database) -> None:
    run = Run(database)
    summary = run.go(seconds=10, idle_seconds=0.5)
    assert (summary.ended, summary.rounds) == ("time", 20)
    assert set(run.timepiece.sleeps) == {0.5}


def test_a_busy_loop_does_not_sleep_between_rounds(
    owner: psycopg.Connection, database: Database
) -> None:
    owner.execute("UPDATE channels SET rate = 1e6, burst = 1e6, tokens = 1e6, max_in_flight = 1e6")
    add_notifications(owner, 250)
    run = Run(database)
    assert run.go(seconds=1, idle_seconds=1).claimed == {"email": 250}
    assert run.timepiece.sleeps == [1]


def test_an_older_loop_ends_when_a_newer_one_has_started(
    owner: psycopg.Connection, database: Database
) -> None:
    owner.execute("UPDATE channels SET paused_at = now()")  # seen even when nothing is to be done
    run = Run(database)
    rounds = 0

    class Overtaken(Timepiece):
        def sleep(self, seconds: float) -> None:
            nonlocal rounds
            rounds += 1
            if rounds == 3:
                start_run(database, name="claim")
            super().sleep(seconds)

    run.timepiece = Overtaken()
    summary = run.go(seconds=100)
    assert (summary.ended, summary.rounds) == ("newer_run", 4)


def test_a_newer_loop_does_not_end_for_an_older_one(database: Database) -> None:
    for _ in range(3):
        start_run(database, name="claim")
    assert Run(database).go(seconds=1).ended == "time"


def test_an_outage_within_the_loop_is_waited_for(owner: psycopg.Connection, login: Login) -> None:
    add_notifications(owner, 5)
    connect = connector(lambda: login, application_name="claim")
    tries = 0

    def connect_after_an_outage() -> psycopg.Connection:
        nonlocal tries
        tries += 1
        if tries <= 6:  # twice a piece of work, three rounds
            raise psycopg.OperationalError("connection refused")
        return connect()

    database = Database(connect_after_an_outage)
    run = Run(database)
    summary = run.go(seconds=10)
    database.close()
    assert (summary.outages, summary.claimed) == (3, {"email": 5})
    assert run.timepiece.sleeps[:3] == [OUTAGE_PAUSE_SECONDS] * 3


def test_a_connection_killed_within_the_loop_costs_nothing(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner, 5)

    class Killing(Timepiece):
        def sleep(self, seconds: float) -> None:
            owner.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = 'test'"
            )
            super().sleep(seconds)

    run = Run(database, timepiece=Killing())
    summary = run.go(seconds=2, idle_seconds=1)
    assert (summary.outages, summary.rounds, summary.claimed) == (0, 3, {"email": 5})


def test_a_loop_says_that_it_lives_at_once_and_then_inside_every_minute(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner, 3)
    run = Run(database)
    run.go(seconds=2 * REPORT_SECONDS + 1, idle_seconds=1)
    assert run.reports == [Counter(email=3), Counter(), Counter()]


def test_what_was_claimed_since_the_last_word_is_told_at_the_end(
    owner: psycopg.Connection, database: Database
) -> None:
    run = Run(database)

    class Arriving(Timepiece):
        def sleep(self, seconds: float) -> None:
            add_notifications(owner)
            super().sleep(seconds)

    run.timepiece = Arriving()
    run.go(seconds=3, idle_seconds=1)
    assert run.reports == [Counter(), Counter(email=2)]


def test_a_loop_without_a_database_does_not_say_that_it_lives(login: Login) -> None:
    def refuse() -> psycopg.Connection:
        raise psycopg.OperationalError("connection refused")

    run = Run(Database(refuse))
    summary = run.go(seconds=70)
    assert (summary.rounds, summary.outages) == (0, 70)
    assert run.reports == []
