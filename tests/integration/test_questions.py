"""A reconciliation asks in turns, by a clock and a sleep that are given to it from outside."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.declaration import Declaration
from functions.core.errors import Unavailable
from functions.core.evidence import Rank, Receipt
from functions.core.login import Login
from functions.providers.choice import DECLARATIONS
from functions.providers.http_report import looked_up
from functions.providers.provider import NeverAccepted
from functions.reconcile.reconcile import (
    ASK_SECONDS,
    CONCURRENT_QUESTIONS,
    KEEP_SECONDS,
    KEPT_TOGETHER,
    Answer,
    Reconciler,
    Report,
)
from functions.store.check import LATE_SECONDS, Inquiry
from functions.store.connection import Database, connector
from tests.fakes import Killed, add_notifications, row_of
from tests.sending import Interrupted

RATE = 10.0
TURN = 1 / RATE
SECONDS = 50.0
LAST_START = SECONDS - ASK_SECONDS - KEEP_SECONDS
NO_ANSWER: Answer = None

MATCH, LOOK, FIRST_SET, SECOND_SET = 1, 2, 3, 4
"""A run's pieces of work with the database."""


class Inline(ThreadPoolExecutor):
    """Does at once what it is given: what it does not survive, nobody here does."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@dataclass(slots=True)
class Clock:
    """Goes only when somebody sleeps; ``stalls`` are by how much a sleep, by number, is longer."""

    now: float = 1000.0
    slept: int = 0
    stalls: dict[int, float] = field(default_factory=dict[int, float])

    def sleep(self, seconds: float) -> None:
        self.slept += 1
        self.now += seconds + self.stalls.get(self.slept, 0.0)


@dataclass(slots=True)
class Asking:
    """Answers as a test says, and remembers when it was asked about what."""

    clock: Clock
    answer: Callable[[Inquiry], Answer] = lambda inquiry: NO_ANSWER
    at: list[tuple[float, Inquiry]] = field(default_factory=list[tuple[float, Inquiry]])

    def __call__(self, inquiry: Inquiry) -> Answer:
        self.at.append((self.clock.now, inquiry))
        return self.answer(inquiry)

    def moments(self, provider: str = "http") -> list[float]:
        return [at for at, inquiry in self.at if inquiry.provider == provider]

    @property
    def ids(self) -> list[UUID]:
        return [inquiry.id for _, inquiry in self.at]


def add_due(owner: psycopg.Connection, number: int, *, channel: str = "email") -> list[UUID]:
    """Add submitted rows that are to be looked at now."""
    owner.execute("UPDATE channels SET poll_rate = %s", [RATE])
    ids = add_notifications(owner, number, channel=channel)
    owner.execute(
        "UPDATE notifications SET status = 'submitted', provider = %s, evidence_rank = 1,"
        " evidence_at = created_at, evidence_key = 'k', submitted_at = created_at,"
        " next_check_at = created_at WHERE id = ANY(%s)",
        ["http" if channel == "email" else "x", ids],
    )
    return ids


def run(
    database: Database,
    asking: Asking,
    *,
    declarations: Sequence[Declaration] = DECLARATIONS,
    threads: ThreadPoolExecutor | None = None,
) -> Report:
    with ExitStack() as stack:
        return Reconciler(
            database=database,
            declarations=declarations,
            ask=asking,
            threads=threads or stack.enter_context(Inline(1)),
            ends_at=asking.clock.now + SECONDS,
            clock=lambda: asking.clock.now,
            sleep=asking.clock.sleep,
        ).run()


def delivered(inquiry: Inquiry) -> Answer:
    answer = looked_up(
        b'{"message_id":"m-1","status":"delivered"}', idempotency_key=inquiry.idempotency_key
    )
    assert isinstance(answer, Receipt)
    assert answer.rank == Rank.DELIVERED
    return answer


def busiest_second(moments: Sequence[float]) -> int:
    return max(sum(start <= moment < start + 1 - 1e-6 for moment in moments) for start in moments)


def test_each_is_asked_in_its_turn_and_none_sooner(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = add_due(owner, 30)
    asking = Asking(Clock())
    start = asking.clock.now
    report = run(database, asking)
    assert (report.asked, report.missed) == (30, 0)
    assert asking.moments() == pytest.approx([start + place * TURN for place in range(30)])
    assert sorted(asking.ids) == sorted(ids)


def test_each_provider_is_asked_at_a_pace_of_its_own(
    owner: psycopg.Connection, database: Database
) -> None:
    add_due(owner, 15)
    owner.execute("UPDATE channels SET provider = 'x' WHERE name = 'sms'")
    add_due(owner, 15, channel="sms")
    asking = Asking(Clock())
    start = asking.clock.now
    looking = [
        Declaration(name=name, keyed=True, receipts=True, looks_up=True) for name in ("http", "x")
    ]
    assert run(database, asking, declarations=looking).asked == 30
    for provider in ("http", "x"):
        expected = [start + place * TURN for place in range(15)]
        assert asking.moments(provider) == pytest.approx(expected)


def test_what_is_a_little_late_keeps_its_distance_to_the_one_before(
    owner: psycopg.Connection, database: Database
) -> None:
    add_due(owner, 30)
    asking = Asking(Clock(stalls={5: 0.75}))
    report = run(database, asking)
    assert (report.asked, report.missed) == (30, 0)
    gaps = [later - earlier for earlier, later in pairwise(asking.moments())]
    assert min(gaps) == pytest.approx(TURN)
    assert max(gaps) == pytest.approx(TURN + 0.75)


def test_what_is_too_late_is_not_made_up_for(owner: psycopg.Connection, database: Database) -> None:
    """A function that stood still goes on at its pace: a burst would be too much for the gateway,
    and whoever runs beside it has the next turns."""
    ids = add_due(owner, 100)
    asking = Asking(Clock(stalls={5: 4.0}))
    start = asking.clock.now
    report = run(database, asking)
    assert report.asked + report.missed == 100
    assert report.missed == pytest.approx((4.0 - LATE_SECONDS) / TURN, abs=2)
    assert busiest_second(asking.moments()) <= RATE
    assert max(asking.moments()) < start + 100 * TURN + LATE_SECONDS
    (unasked, *_) = set(ids) - set(asking.ids)
    row = row_of(owner, unasked)
    assert (row.status, row.polls, row.checks) == ("submitted", 0, 1)
    assert row.next_check_at > row.updated_at, "it is looked at again in its time"


def test_nobody_is_asked_when_there_is_no_time_for_an_answer(
    owner: psycopg.Connection, database: Database
) -> None:
    add_due(owner, 100)
    asking = Asking(Clock(stalls={3: LAST_START}))
    start = asking.clock.now
    report = run(database, asking)
    assert (report.asked, report.missed) == (3, 97)
    assert max(asking.moments()) <= start + LAST_START


def test_a_crowd_fills_the_time_there_is_and_no_more(
    owner: psycopg.Connection, database: Database
) -> None:
    add_due(owner, 600)
    asking = Asking(Clock())
    start = asking.clock.now
    report = run(database, asking)
    assert (report.checked, report.missed) == (600, 0)
    assert report.asked == pytest.approx(LAST_START * RATE, abs=1)
    assert max(asking.moments()) <= start + LAST_START
    polls = owner.execute("SELECT sum(polls)::int FROM notifications").fetchone()
    assert polls == (report.asked,)


def test_while_a_provider_hangs_no_more_than_ten_questions_wait_for_it(
    owner: psycopg.Connection, database: Database
) -> None:
    add_due(owner, 60)
    over = threading.Event()

    def hang(inquiry: Inquiry) -> Answer:
        assert over.wait(60)
        return None

    @dataclass(slots=True)
    class Patient(Clock):
        def sleep(self, seconds: float) -> None:
            Clock.sleep(self, seconds)
            if self.slept == 59:
                over.set()

    asking = Asking(Patient(), answer=hang)
    with ThreadPoolExecutor(CONCURRENT_QUESTIONS) as threads:
        report = run(database, asking, threads=threads)
    assert report.asked in (CONCURRENT_QUESTIONS, CONCURRENT_QUESTIONS + 1)
    assert report.asked + report.missed == 60
    assert report.answered == 0


def test_a_run_that_is_cut_keeps_what_it_was_told_and_the_rest_is_asked_again(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = add_due(owner, 50)

    def die_late(inquiry: Inquiry) -> Answer:
        if len(asking.at) == 45:
            raise Killed
        return delivered(inquiry)

    asking = Asking(Clock(), answer=die_late)
    with pytest.raises(Killed):
        run(database, asking)
    kept = {id for id in ids if row_of(owner, id).status == "delivered"}
    assert len(kept) == 2 * KEPT_TOGETHER
    owner.execute("UPDATE notifications SET next_check_at = clock_timestamp()")
    again = Asking(Clock(), answer=delivered)
    assert run(database, again).answered == 10
    assert set(again.ids) == set(ids) - kept
    assert {row_of(owner, id).status for id in ids} == {"delivered"}


def test_a_database_that_goes_away_meanwhile_costs_one_set_of_answers(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    ids = add_due(owner, 50)
    broken = Interrupted(
        connector(lambda: login, application_name="reconcile"), out=range(SECOND_SET, 100)
    )
    asking = Asking(Clock(), answer=delivered)
    with pytest.raises(Unavailable):
        run(broken, asking)
    broken.close()
    kept = {id for id in ids if row_of(owner, id).status == "delivered"}
    assert len(kept) == KEPT_TOGETHER
    owner.execute("UPDATE notifications SET next_check_at = clock_timestamp()")
    assert run(database, Asking(Clock(), answer=delivered)).answered == 50 - KEPT_TOGETHER
    assert {row_of(owner, id).status for id in ids} == {"delivered"}


def test_all_kinds_of_answers_in_one_run_are_each_kept(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = add_due(owner, 30)
    places = {id: place for place, id in enumerate(ids)}

    def answer(inquiry: Inquiry) -> Answer:
        return (delivered(inquiry), NeverAccepted(), None)[places[inquiry.id] % 3]

    asking = Asking(Clock(), answer=answer)
    report = run(database, asking)
    assert (report.asked, report.answered, report.never_accepted) == (30, 10, 0)
    statuses = [row_of(owner, id).status for id in ids]
    assert statuses == ["delivered", "submitted", "submitted"] * 10
