"""Close when something else came first: the sweep, another lease, a receipt, a hold.

An attempt's lease is named by its number: 1 is the stale worker's, 2 the one that follows it.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg
import pytest

from functions.core.evidence import Rank, Receipt
from functions.core.login import Login
from functions.core.outcome import Accepted, Outcome, Refused, Rejected, Transient, Unknown
from functions.core.states import MAX_STARTS
from functions.providers.choice import DECLARATIONS
from functions.store.begin import Opening
from functions.store.check import check
from functions.store.connection import Database
from functions.store.delivery import record_starts
from functions.store.receipt import record
from functions.store.survey import promote
from functions.store.sweep import sweep
from tests.fakes import HeldDatabase, Row, add_notifications, moves_of, row_of
from tests.steps import (
    begin_one,
    begun,
    channel_of,
    close_one,
    connected,
    lease,
    now_of,
    opening_of,
    waiting,
)


@dataclass(slots=True)
class Scene:
    """The only notification, whose first attempt was left open and whose lease ran out."""

    owner: psycopg.Connection
    database: Database
    stale: Opening
    later: datetime

    @property
    def row(self) -> Row:
        return row_of(self.owner, self.stale.id)

    @property
    def attempt(self) -> Row:
        return row_of(self.owner, self.stale.token, "attempts")

    def sweep(self, *, keyed: bool = True) -> None:
        swept = sweep(
            self.database,
            channel=channel_of(self.database),
            declarations=DECLARATIONS if keyed else (),
            now=self.later,
        )
        assert swept.in_doubt == 1

    def lease_again(self) -> Opening:
        """Return what opens an attempt under the second lease."""
        self.later_by(hours=1)
        promote(self.database, now=self.later)
        (leased,) = lease(self.database, now=self.later)
        assert leased.lease_number == 2
        return opening_of(leased)

    def later_by(self, **duration: float) -> None:
        self.later += timedelta(**duration)

    def close(self, opening: Opening, outcome: Outcome, *, keyed: bool = True) -> str | None:
        return close_one(self.database, opening, outcome, keyed=keyed, now=self.later)


@pytest.fixture
def scene(owner: psycopg.Connection, database: Database) -> Scene:
    add_notifications(owner)
    now = now_of(owner)
    stale = begun(database, now=now)
    return Scene(owner, database, stale, now + timedelta(hours=1))


def test_a_close_after_the_lease_ran_out_counts_when_no_sweep_came_first(scene: Scene) -> None:
    assert scene.close(scene.stale, Transient()) == "pending"
    assert (scene.row.status, scene.row.in_doubt) == ("pending", 0)


def test_a_close_after_the_sweep_resolves_the_doubt_and_is_fenced(scene: Scene) -> None:
    scene.sweep()
    assert (scene.row.status, scene.row.in_doubt) == ("pending", 1)
    assert (scene.attempt.outcome, scene.attempt.code) == ("unknown", "lease_expired")
    due = scene.row.available_at
    assert scene.close(scene.stale, Transient(code="503")) is None
    assert (scene.row.status, scene.row.in_doubt) == ("pending", 0)
    assert scene.row.available_at == due
    assert (scene.attempt.outcome, scene.attempt.code) == ("transient", "503")


def test_acceptance_after_the_sweep_is_proof(scene: Scene) -> None:
    scene.sweep()
    assert scene.close(scene.stale, Accepted(reference="m-1")) == "submitted"
    assert (scene.row.evidence_rank, scene.row.in_doubt) == (1, 0)
    assert (scene.attempt.outcome, scene.attempt.reference, scene.attempt.code) == (
        "accepted",
        "m-1",
        None,
    )


def test_a_late_transient_after_a_new_lease_is_fenced_and_the_ledger_keeps_it(
    scene: Scene,
) -> None:
    scene.sweep()
    current = scene.lease_again()
    begin_one(scene.database, current, now=scene.later)
    before = scene.row
    assert scene.close(scene.stale, Transient(code="503")) is None
    after = scene.row
    assert (after.status, after.attempt_id, after.lease_until) == (
        "leased",
        current.token,
        before.lease_until,
    )
    assert (after.in_doubt, after.attempts_spent) == (0, 2)
    assert scene.attempt.outcome == "transient"
    assert scene.close(current, Transient()) == "pending"


@pytest.mark.parametrize("outcome", [Rejected(), Refused()], ids=["rejected", "refused"])
def test_a_late_refusal_after_a_new_lease_ends_nothing(scene: Scene, outcome: Outcome) -> None:
    scene.sweep()
    scene.lease_again()
    assert scene.close(scene.stale, outcome) is None
    assert scene.row.status == "leased"


def test_late_acceptance_stops_a_lease_not_yet_begun(scene: Scene) -> None:
    scene.sweep()
    current = scene.lease_again()
    assert scene.close(scene.stale, Accepted(reference="m-1")) == "submitted"
    assert (scene.row.status, scene.row.lease_until) == ("submitted", None)
    answer = begin_one(scene.database, current, now=scene.later)
    assert (answer.verdict, answer.send) == ("stale", False)


@pytest.mark.parametrize(
    "outcome",
    [Rejected(), Transient(), Refused(), Unknown()],
    ids=lambda outcome: outcome.name,
)
@pytest.mark.parametrize("keyed", [True, False])
def test_late_acceptance_outlives_whatever_a_begun_lease_comes_to(
    scene: Scene, outcome: Outcome, keyed: bool
) -> None:
    scene.sweep()
    current = scene.lease_again()
    begin_one(scene.database, current, now=scene.later)
    assert scene.close(scene.stale, Accepted(reference="m-1"), keyed=keyed) == "submitted"
    assert scene.row.attempt_id == current.token  # its own close, or the sweep, settles it
    assert scene.close(current, outcome, keyed=keyed) == "submitted"
    row = scene.row
    assert (row.status, row.attempt_id, row.lease_until) == ("submitted", None, None)
    assert row.in_doubt == (1 if outcome.name == "unknown" else 0)


def test_of_two_acceptances_the_earlier_is_kept(scene: Scene) -> None:
    scene.sweep()
    current = scene.lease_again()
    begin_one(scene.database, current, now=scene.later)
    scene.later_by(seconds=5)
    assert scene.close(current, Accepted(reference="m-2")) == "submitted"
    # Its attempt was closed by the sweep, an hour before: that is when it finished.
    assert scene.close(scene.stale, Accepted(reference="m-1")) == "submitted"
    assert scene.row.evidence_key == str(scene.stale.token)


def test_a_late_close_while_reconcile_moves_on_is_fenced(scene: Scene) -> None:
    scene.owner.execute("UPDATE channels SET unknown_policy = 'retry'")
    scene.sweep(keyed=False)
    assert scene.row.status == "uncertain"
    scene.later_by(hours=1)
    assert check(scene.database, declarations=DECLARATIONS, now=scene.later).retried == 1
    assert scene.close(scene.stale, Rejected(), keyed=False) is None
    assert (scene.row.status, scene.row.in_doubt) == ("pending", 0)


def test_a_close_that_waits_for_reconcile_finds_what_it_decided(scene: Scene, login: Login) -> None:
    scene.owner.execute("UPDATE channels SET unknown_policy = 'retry'")
    scene.sweep(keyed=False)
    scene.later_by(hours=1)
    with (
        connected(login, "check", kind=HeldDatabase) as (checking,),
        connected(login, "close", kind=Database) as (closing,),
    ):
        channel_of(closing)
        assert check(checking, declarations=DECLARATIONS, now=scene.later).retried == 1
        with waiting(
            scene.owner, "close", lambda: close_one(closing, scene.stale, Transient(), keyed=False)
        ) as answer:
            checking.commit()
        assert answer.result() is None
    assert (scene.row.status, scene.row.in_doubt) == ("pending", 0)


def test_a_check_passes_over_a_row_that_is_being_closed(scene: Scene, login: Login) -> None:
    scene.sweep(keyed=False)
    scene.later_by(hours=1)
    with connected(login, "close", kind=HeldDatabase) as (closing,):
        close_one(closing, scene.stale, Accepted(reference="m-1"), keyed=False)
        assert check(scene.database, declarations=DECLARATIONS, now=scene.later).looked_at == 0
        closing.commit()
    assert scene.row.status == "submitted"


def receipt_of(scene: Scene, rank: Rank) -> Receipt:
    return Receipt(
        provider="http",
        event_key=f"event-{rank}",
        type=rank.name.lower(),
        rank=rank,
        occurred_at=scene.later,
        idempotency_key=str(scene.stale.id),
        raw=b"{}",
    )


@pytest.mark.parametrize(
    ("rank", "status"),
    [
        (Rank.ACCEPTED, "submitted"),
        (Rank.SOFT_FAILURE, "failed"),
        (Rank.DELIVERED, "delivered"),
        (Rank.HARD_FAILURE, "failed"),
    ],
)
@pytest.mark.parametrize(
    "outcome",
    [Accepted(reference="m-1"), Rejected(), Transient(), Unknown()],
    ids=lambda outcome: outcome.name,
)
def test_what_a_receipt_proved_before_the_close_stands(
    scene: Scene, rank: Rank, status: str, outcome: Outcome
) -> None:
    record(
        scene.database,
        [receipt_of(scene, rank)],
        provider="http",
        declarations=DECLARATIONS,
        now=scene.later,
    )
    assert scene.close(scene.stale, outcome) == status
    row = scene.row
    assert (row.status, row.attempt_id, row.lease_until) == (status, None, None)
    assert row.evidence_rank == rank
    assert scene.attempt.outcome == outcome.name


@pytest.mark.parametrize("ended", ["cancelled", "suppressed"])
@pytest.mark.parametrize("outcome", [Accepted(reference="m-1"), Transient(), Rejected(code="400")])
def test_a_row_that_we_ended_is_never_brought_back_by_a_close(
    owner: psycopg.Connection, database: Database, ended: str, outcome: Outcome
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    owner.execute(
        "UPDATE notifications SET status = %s, final_at = now(), lease_until = NULL WHERE id = %s",
        [ended, id],
    )
    close_one(database, opening, outcome, again_seconds=1)
    assert row_of(owner, id).status == ended


def test_a_crash_loop_is_held_after_five_starts_that_never_finished(scene: Scene) -> None:
    results = [record_starts(scene.database, [scene.stale.id]) for _ in range(MAX_STARTS)]
    assert results == [set()] * (MAX_STARTS - 1) + [{scene.stale.id}]
    assert (scene.row.status, scene.row.reason) == ("dead", "crash_loop")
    assert moves_of(scene.owner, scene.stale.id) == [("sender", "leased", "dead", "crash_loop")]
    assert not record_starts(scene.database, [scene.stale.id])


def test_a_start_is_counted_under_any_lease_and_while_pending_but_not_once_it_moved_on(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    record_starts(database, [id])
    opening = begun(database)
    record_starts(database, [id])
    assert row_of(owner, id).starts == 2
    close_one(database, opening, Accepted(reference="m-1"))
    record_starts(database, [id])
    assert row_of(owner, id).starts == 0


def test_the_attempt_of_a_crash_loop_is_closed_by_the_sweep_and_the_hold_stands(
    scene: Scene,
) -> None:
    for _ in range(MAX_STARTS):
        record_starts(scene.database, [scene.stale.id])
    swept = sweep(
        scene.database,
        channel=channel_of(scene.database),
        declarations=DECLARATIONS,
        now=scene.later,
    )
    assert swept.settled == 1
    row = scene.row
    assert (row.status, row.reason, row.in_doubt) == ("dead", "crash_loop", 1)
    assert (row.attempt_id, row.lease_until) == (None, None)
    assert scene.attempt.outcome == "unknown"


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize(
    "outcome", [Transient(), Unknown(), Rejected()], ids=lambda outcome: outcome.name
)
def test_a_held_row_is_not_sent_again_because_a_slow_worker_came_back(
    scene: Scene, outcome: Outcome, keyed: bool
) -> None:
    for _ in range(MAX_STARTS):
        record_starts(scene.database, [scene.stale.id])
    assert scene.close(scene.stale, outcome, keyed=keyed) == "dead"
    row = scene.row
    assert (row.status, row.reason, row.attempt_id) == ("dead", "crash_loop", None)
    assert row.lease_until is None


def test_acceptance_moves_a_held_row_even_a_discarded_one(scene: Scene) -> None:
    for _ in range(MAX_STARTS):
        record_starts(scene.database, [scene.stale.id])
    scene.owner.execute("UPDATE notifications SET discarded_at = now(), final_at = now()")
    assert scene.close(scene.stale, Accepted(reference="m-1")) == "submitted"
    assert (scene.row.discarded_at, scene.row.final_at) == (None, None)
