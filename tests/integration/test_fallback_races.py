"""Chains against whoever else moves them, and against what dies on the way."""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Self

import psycopg
import pytest

from functions.claim.claim import CHAINS, Claimer
from functions.claim.loop import run_loop
from functions.core.evidence import Rank
from functions.core.login import Login
from functions.core.metric import ServiceMetric
from functions.core.outcome import Rejected
from functions.providers.choice import DECLARATIONS
from functions.store.chain import advance
from functions.store.connection import Database
from functions.store.receipt import record
from tests.chains import Story, story
from tests.fakes import FakeSqs, HeldDatabase, Killed, add_notifications, queues_of
from tests.operating import cancel, report
from tests.steps import connected, losing_its_first_commit

STATEMENTS = 7
"""Of a page with something to tell, to withdraw or to start: find, lock, read twice, write."""


@contextmanager
def stepping(login: Login, before: Callable[[], None]) -> Generator[Database]:
    """Yield a database that calls ``before`` before each statement."""

    class Stepping(psycopg.Cursor[Any]):
        def execute(self, *arguments: Any, **more: Any) -> Self:
            before()
            return super().execute(*arguments, **more)

    def connect() -> psycopg.Connection:
        return psycopg.connect(
            host=login.host, port=login.port, dbname=login.name, user=login.user, autocommit=True,
            cursor_factory=Stepping,
        )  # fmt: skip

    database = Database(connect)
    try:
        yield database
    finally:
        database.close()


def ended(owner: psycopg.Connection, database: Database) -> Story:
    """The only candidate came to nothing."""
    chain = story(owner, database)
    assert chain.closed(Rejected(code="400", http_status=400)) == "dead"
    return chain


def overdue(owner: psycopg.Connection, database: Database) -> Story:
    """The only candidate was accepted, and its time is over."""
    chain = story(owner, database)
    chain.accepted()
    owner.execute("UPDATE notifications SET next_step_at = now() - interval '1 s' WHERE "
                  "channels IS NOT NULL")  # fmt: skip
    owner.execute("UPDATE notifications SET eligible_at = eligible_at - interval '1 day' "
                  "WHERE parent_id IS NOT NULL")  # fmt: skip
    return chain


def delivered_twice(owner: psycopg.Connection, database: Database) -> Story:
    """Two candidates were delivered, and a third waits."""
    chain = ended(owner, database)
    chain.go_on()
    chain.suppressed()
    chain.go_on()
    owner.execute(
        "UPDATE notifications SET status = 'delivered', reason = NULL, final_at = now() "
        "WHERE parent_id = %s AND candidate < 2",
        [chain.id],
    )
    return chain


RESULTS = {
    ended: ("pending", ["dead", "pending"], 0),
    overdue: ("pending", ["submitted", "pending"], 0),
    delivered_twice: ("delivered", ["delivered", "delivered", "cancelled"], 1),
}
SCENES = pytest.mark.parametrize("scene", RESULTS, ids=lambda scene: scene.__name__)


def result_of(chain: Story) -> tuple[str, list[str], int]:
    """Return where all are; each step is told of once."""
    parent, children = chain.parent, chain.children
    reasons = Counter(reason for *_, reason in chain.moves)
    assert reasons["fallback_started"] + reasons["fallback_after"] == len(children) - 1
    assert reasons["fallback_double"] == parent.fallback_doubles
    assert [row.candidate for row in children] == list(range(len(children)))
    place: int = parent.candidate
    assert children[place].status == parent.status
    return parent.status, [row.status for row in children], parent.fallback_doubles


@SCENES
@pytest.mark.parametrize("number", range(1, STATEMENTS + 1))
def test_a_crash_before_any_statement_leaves_nothing_half_done(
    owner: psycopg.Connection, database: Database, login: Login, scene: Any, number: int
) -> None:
    chain = scene(owner, database)
    before = [chain.parent, *chain.children]
    calls = 0

    def die() -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            raise Killed

    died = False
    with stepping(login, die) as dying:
        try:
            advance(dying)
        except Killed:
            died = True
    assert died == (number <= calls)
    if died:
        assert [chain.parent, *chain.children] == before
    chain.go_on()
    assert result_of(chain) == RESULTS[scene]
    assert (chain.go_on().told, chain.go_on().started) == (0, 0)


@SCENES
def test_a_commit_whose_answer_is_lost_is_not_repeated(
    owner: psycopg.Connection, database: Database, login: Login, scene: Any
) -> None:
    chain = scene(owner, database)
    with losing_its_first_commit(login) as losing:
        assert advance(losing).told == 0
    assert result_of(chain) == RESULTS[scene]


@SCENES
@pytest.mark.parametrize("number", range(1, STATEMENTS + 1))
def test_two_loops_at_once_take_each_step_once(
    owner: psycopg.Connection, database: Database, login: Login, scene: Any, number: int
) -> None:
    """Whatever the one has done between two statements of the other."""
    chain = scene(owner, database)
    calls = 0

    def let_the_other_go_first() -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            chain.go_on()

    with stepping(login, let_the_other_go_first) as slower:
        advance(slower)
    assert result_of(chain) == RESULTS[scene]
    assert chain.go_on().told == 0


@SCENES
def test_a_chain_that_another_holds_is_passed_over_and_not_waited_for(
    owner: psycopg.Connection, database: Database, login: Login, scene: Any
) -> None:
    chain = scene(owner, database)
    with connected(login, "first", kind=HeldDatabase) as (first,):
        advance(first)
        done = chain.go_on()
        assert (done.started, done.told, done.is_full) == (0, 0, False)
        first.commit()
    assert result_of(chain) == RESULTS[scene]


def test_a_child_that_somebody_holds_keeps_its_chain_back_until_it_is_let_go(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    """The evidence that comes in decides: what is known is not that the time is over."""
    chain = overdue(owner, database)
    chain.go_on(now=chain.later(days=-2))  # its parent knows that it was accepted
    with connected(login, "callbacks", kind=HeldDatabase) as (callbacks,):
        record(
            callbacks,
            [report(chain.newest.id, Rank.DELIVERED)],
            provider="http",
            declarations=DECLARATIONS,
        )
        assert chain.go_on().started == 0
        callbacks.commit()
    assert chain.go_on().started == 0
    assert chain.standing == ("delivered", [("push", "delivered")])


def test_a_page_is_bounded_and_a_full_one_is_followed_at_once(
    owner: psycopg.Connection, database: Database
) -> None:
    chains = [story(owner, database, ["push", "sms"]) for _ in range(5)]
    owner.execute(
        "UPDATE notifications SET status = 'suppressed', final_at = now() WHERE candidate = 0 "
        "AND parent_id IS NOT NULL"
    )
    pages = [advance(database, limit=2) for _ in range(4)]
    assert [(page.started, page.is_full) for page in pages] == [
        (2, True), (2, True), (1, False), (0, False)
    ]  # fmt: skip
    assert {chain.standing[0] for chain in chains} == {"pending"}


def test_children_whose_parent_is_gone_are_told_of_once(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = ended(owner, database)
    owner.execute("DELETE FROM notifications WHERE id = %s", [chain.id])
    assert [chain.go_on().told for _ in range(2)] == [1, 0]


def claimer_of(database: Database, **more: Any) -> Claimer:
    return Claimer(database=database, queues=queues_of(FakeSqs()), leased_by="run-1", **more)


def test_a_round_of_the_claim_lets_chains_go_on(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = ended(owner, database)
    done = claimer_of(database).round()
    assert (done.advanced.started, done.was_idle) == (1, False)
    assert len(chain.children) == 2
    owner.execute("UPDATE channels SET paused_at = now()")
    assert claimer_of(database).round().was_idle


def test_a_run_reports_what_chains_did(owner: psycopg.Connection, database: Database) -> None:
    delivered_twice(owner, database)
    started = story(owner, database)
    owner.execute("UPDATE channels SET paused_at = now()")
    owner.execute(
        "UPDATE notifications SET status = 'suppressed', final_at = now() WHERE id = %s",
        [started.newest.id],
    )
    told: list[dict[ServiceMetric, int]] = []
    summary = run_loop(
        claimer_of(database),
        seconds=0.5,
        idle_seconds=0.1,
        report=lambda claimed: None,
        report_fallback=lambda counts: told.append(dict(+counts)),
    )
    assert told[0] == {ServiceMetric.FALLBACK_STARTED: 1, ServiceMetric.FALLBACK_DOUBLE: 1}
    assert not any(told[1:])
    assert (summary.fallbacks, summary.fallback_doubles) == (1, 1)


def test_chains_that_cannot_go_on_do_not_stop_the_claim(
    owner: psycopg.Connection, database: Database
) -> None:
    ended(owner, database)
    owner.execute("ALTER TABLE notifications ADD CHECK (candidate <> 1)")
    told: list[tuple[str, str]] = []

    def trouble(what: str, error: Exception) -> None:
        told.append((what, type(error).__name__))

    claimer = claimer_of(database, trouble=trouble)
    add_notifications(owner, 3)
    rounds = [claimer.round() for _ in range(2)]
    assert [done.advanced.started for done in rounds] == [0, 0]
    assert rounds[0].claimed["email"] == 3
    assert told == [(CHAINS, "CheckViolation")]


def test_an_acceptance_that_is_heard_of_after_a_cancel_moves_nothing(
    owner: psycopg.Connection, database: Database
) -> None:
    """A client withdrew the parent: no report makes anything else of it."""
    chain = ended(owner, database)
    cancel(database, chain.id)
    chain.told(0)
    chain.go_on()
    assert chain.standing == ("cancelled", [("push", "delivered")])
