"""A requeue when something else happens: another operator, evidence, a late close, a cancel."""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from functions.core.errors import TooLate
from functions.core.login import Login
from functions.core.outcome import Accepted, Outcome, Rejected, Transient
from functions.store.connection import Database
from tests.fakes import (
    HeldDatabase,
    add_notifications,
    moves_of,
    row_of,
)
from tests.gateway import gateway
from tests.operating import (
    Waiting,
    attempts_of,
    cancel,
    discarded,
    operating,
    operator_of,
    report,
    requeued,
    tell,
)
from tests.sending import records_of, sender
from tests.steps import (
    begin_one,
    close_one,
    connected,
    lease,
    opening_of,
    waiting,
)


@pytest.fixture
def operator(login: Login) -> Iterator[Database]:
    with operating(login) as database:
        yield database


@pytest.fixture
def rows(owner: psycopg.Connection, database: Database) -> Waiting:
    return Waiting(owner=owner, database=database)


# Races


@pytest.fixture
def two(login: Login) -> Iterator[tuple[HeldDatabase, Database]]:
    """Two operators: the first keeps its transaction open, the second is called ``second``."""
    with (
        connected(operator_of(login), "first", kind=HeldDatabase) as (first,),
        operating(login, "second") as second,
    ):
        yield first, second


def test_of_two_operators_at_once_one_requeues_and_the_other_is_told(
    rows: Waiting, two: tuple[HeldDatabase, Database]
) -> None:
    first, second = two
    opening = rows.rejected()
    assert requeued(first, opening.id) == ["requeued"]
    with waiting(rows.owner, "second", lambda: requeued(second, opening.id)) as other:
        first.commit()
    assert other.result() == ["already_scheduled"]
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.key_epoch) == ("pending", 1)
    assert moves_of(rows.owner, opening.id).count(("operator", "dead", "pending", "requeued")) == 1


def test_requeue_and_discard_at_once_end_as_the_first_says(
    rows: Waiting, two: tuple[HeldDatabase, Database]
) -> None:
    first, second = two
    one, other = rows.rejected(), rows.rejected()
    assert requeued(first, one.id) == ["requeued"]
    assert discarded(first, other.id) == ["discarded"]
    with waiting(rows.owner, "second", lambda: discarded(second, one.id)) as fate:
        first.commit()
    assert fate.result() == ["pending"]
    assert requeued(second, other.id) == ["discarded"]
    assert row_of(rows.owner, one.id).status == "pending"


def test_two_operators_with_the_same_rows_in_opposite_order_do_not_deadlock(
    rows: Waiting, two: tuple[HeldDatabase, Database]
) -> None:
    first, second = two
    ids = [rows.rejected().id for _ in range(3)]
    assert requeued(first, *reversed(ids)) == ["requeued"] * 3
    with waiting(rows.owner, "second", lambda: requeued(second, *ids)) as other:
        first.commit()
    assert other.result() == ["already_scheduled"] * 3


Late = Callable[[Database], object]


@pytest.fixture
def held(login: Login) -> Iterator[HeldDatabase]:
    """A function's connection whose transaction stays open until the test ends it."""
    with connected(login, "function", kind=HeldDatabase) as (database,):
        yield database


def test_evidence_that_came_first_stops_the_requeue(
    rows: Waiting, held: HeldDatabase, operator: Database
) -> None:
    opening = rows.crashed()
    tell(held, report(opening.id))
    with waiting(rows.owner, "operator", lambda: requeued(operator, opening.id)) as fate:
        held.commit()
    assert fate.result() == ["delivered"]
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.lease_until) == ("delivered", None)
    assert lease(rows.database) == []


def test_evidence_that_waited_for_the_requeue_stops_the_sending(
    rows: Waiting, login: Login, two: tuple[HeldDatabase, Database]
) -> None:
    first, _ = two
    opening = rows.crashed()
    assert requeued(first, opening.id) == ["requeued"]
    with (
        connected(login, "callbacks", kind=Database) as (callbacks,),
        waiting(rows.owner, "callbacks", lambda: tell(callbacks, report(opening.id))),
    ):
        first.commit()
    assert row_of(rows.owner, opening.id).status == "delivered"
    assert lease(rows.database) == []


LATE: list[tuple[Outcome, str, str, int, str]] = [
    # a late close, the fate of a requeue after it, the status and doubt in the end, the ledger
    (Accepted(reference="m-1"), "submitted", "submitted", 0, "accepted"),
    (Transient(code="409"), "requeued", "pending", 0, "transient"),
    (Rejected(code="400"), "requeued", "pending", 0, "rejected"),
]


@pytest.mark.parametrize(("outcome", "fate", "status", "doubt", "ledger"), LATE)
def test_a_late_close_before_the_requeue(
    rows: Waiting,
    held: HeldDatabase,
    operator: Database,
    outcome: Outcome,
    fate: str,
    status: str,
    doubt: int,
    ledger: str,
) -> None:
    opening = rows.crashed()
    close_one(held, opening, outcome)
    with waiting(rows.owner, "operator", lambda: requeued(operator, opening.id)) as told:
        held.commit()
    assert told.result() == [fate]
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.in_doubt) == (status, doubt)
    assert row_of(rows.owner, opening.token, "attempts").outcome == ledger


@pytest.mark.parametrize(("outcome", "fate", "status", "doubt", "ledger"), LATE)
def test_a_late_close_that_waited_for_the_requeue(
    rows: Waiting,
    login: Login,
    two: tuple[HeldDatabase, Database],
    outcome: Outcome,
    fate: str,
    status: str,
    doubt: int,
    ledger: str,
) -> None:
    """Proof of acceptance counts whoever brings it; anything else moves nothing that is due."""
    del fate
    first, _ = two
    opening = rows.crashed()
    assert requeued(first, opening.id) == ["requeued"]
    with (
        connected(login, "sender", kind=Database) as (late,),
        waiting(rows.owner, "sender", lambda: close_one(late, opening, outcome)) as closed,
    ):
        first.commit()
    assert closed.result() == (status if ledger == "accepted" else None)
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.in_doubt) == (status, doubt)
    assert row_of(rows.owner, opening.token, "attempts").outcome == ledger


def test_a_late_acceptance_stops_the_attempt_that_a_requeue_allowed(
    rows: Waiting, operator: Database
) -> None:
    """Begun meanwhile, and rejected: the row is submitted, and stays so."""
    opening = rows.crashed()
    assert requeued(operator, opening.id) == ["requeued"]
    again = opening_of(lease(rows.database)[0])
    begin_one(rows.database, again)
    assert close_one(rows.database, opening, Accepted(reference="m-1")) == "submitted"
    close_one(rows.database, again, Rejected(code="400"))
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.in_doubt, row.attempt_id) == ("submitted", 0, None)
    assert [outcome for _, _, outcome, _ in attempts_of(rows.owner, opening.id)] == [
        "accepted",
        "rejected",
    ]


def test_a_cancel_beside_a_requeue_comes_before_it_or_after_it(
    rows: Waiting, login: Login, two: tuple[HeldDatabase, Database]
) -> None:
    """Before it the row is held, which no client withdraws; after it nobody may accept it."""
    first, second = two
    opening = rows.rejected()
    with pytest.raises(TooLate):
        cancel(rows.database, opening.id)
    assert requeued(first, opening.id) == ["requeued"]
    with (
        connected(login, "client", kind=Database) as (client,),
        waiting(rows.owner, "client", lambda: cancel(client, opening.id)),
    ):
        first.commit()
    assert row_of(rows.owner, opening.id).status == "cancelled"
    assert requeued(second, opening.id) == ["cancelled"]
    assert lease(rows.database) == []


def test_a_requeue_does_not_wake_the_message_of_the_former_lease(
    rows: Waiting, operator: Database
) -> None:
    """The dead letter of a lease that ended, redriven by hand: stale, nothing is sent."""
    add_notifications(rows.owner, max_attempts=1)
    (leased,) = lease(rows.database)
    opening = opening_of(leased)
    begin_one(rows.database, opening)
    close_one(rows.database, opening, Transient())
    assert requeued(operator, opening.id) == ["requeued"]
    with gateway() as served, sender(rows.database, served.provider()) as one:
        report = one.deliver(records_of([leased]))
        assert served.asked == []
    assert report.counts["StaleDelivery"] == 1
    assert row_of(rows.owner, opening.id).status == "pending"
