"""A reconciliation as a whole: early receipts first, then cutoffs, then what is uncertain."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import psycopg

from functions.core.evidence import Rank, Receipt
from functions.core.outcome import Accepted, Unknown
from functions.providers.choice import DECLARATIONS
from functions.reconcile.reconcile import Reconciler, Report
from functions.store.check import CHECKED_AT_ONCE
from functions.store.close import Closing, close
from functions.store.connection import Database
from functions.store.receipt import MATCHED_AT_ONCE, record
from tests.fakes import add_notifications, moves_of, row_of
from tests.steps import begin_one, begun, channel_of, close_one, declaration_of, lease, opening_of


def run_reconcile(database: Database) -> Report:
    """Reconcile without time to ask anybody anything."""
    with ThreadPoolExecutor(1) as threads:
        return Reconciler(
            database=database,
            declarations=DECLARATIONS,
            ask=lambda inquiry: None,
            threads=threads,
            ends_at=time.monotonic(),
        ).run()


def age(owner: psycopg.Connection, seconds: float) -> None:
    """Let everything that was submitted or asked have been so ``seconds`` earlier."""
    owner.execute(
        "UPDATE notifications SET submitted_at = submitted_at - %(past)s,"
        " next_check_at = next_check_at - %(past)s, decide_at = decide_at - %(past)s",
        {"past": timedelta(seconds=seconds)},
    )


def report(reference: str, rank: Rank) -> Receipt:
    return Receipt(
        provider="http",
        event_key=f"{rank.name}:{reference}",
        type=rank.name.lower(),
        rank=rank,
        occurred_at=None,
        reference=reference,
        raw=b"{}",
    )


def test_nothing_to_do_is_nothing_done(database: Database) -> None:
    report = run_reconcile(database)
    assert (report.rematched, report.checked, report.unconfirmed) == (0, 0, 0)


def test_a_submitted_row_ends_at_its_cutoff_and_late_evidence_still_moves_it(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    close_one(database, begun(database), Accepted(reference="m-1"))
    assert run_reconcile(database).checked == 0
    cutoff = channel_of(database).cutoff_seconds
    age(owner, cutoff / 2)
    done = run_reconcile(database)
    assert (done.checked, done.unconfirmed) == (1, 0)
    row = row_of(owner, id)
    assert row.status == "submitted"
    assert row.next_check_at <= row.submitted_at + timedelta(seconds=cutoff)
    age(owner, cutoff)
    done = run_reconcile(database)
    assert (done.checked, done.unconfirmed) == (1, 1)
    row = row_of(owner, id)
    assert (row.status, row.reason) == ("unconfirmed", "no_receipt_by_cutoff")
    assert row.final_at is not None
    record(database, [report("m-1", Rank.DELIVERED)], provider="http", declarations=DECLARATIONS)
    assert row_of(owner, id).status == "delivered"
    assert [move[1:3] for move in moves_of(owner, id)] == [
        ("leased", "submitted"),
        ("submitted", "unconfirmed"),
        ("unconfirmed", "delivered"),
    ]


def test_what_an_early_receipt_proves_counts_before_the_cutoff_does(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    record(database, [report("m-1", Rank.DELIVERED)], provider="http", declarations=DECLARATIONS)
    close_one(database, opening, Accepted(reference="m-1"))
    age(owner, channel_of(database).cutoff_seconds + 1)
    done = run_reconcile(database)
    assert (done.rematched, done.unconfirmed) == (1, 0)
    assert row_of(owner, id).status == "delivered"


def test_looks_come_at_doubling_distances(owner: psycopg.Connection, database: Database) -> None:
    (id,) = add_notifications(owner)
    close_one(database, begun(database), Accepted(reference="m-1"))
    distances: list[float] = []
    for _ in range(5):
        owner.execute("UPDATE notifications SET next_check_at = clock_timestamp()")
        assert run_reconcile(database).checked == 1
        row = row_of(owner, id)
        distances.append((row.next_check_at - row.updated_at).total_seconds())
    for place, distance in enumerate(distances):
        whole = 30 * 2 ** (place + 1)
        assert 0.8 * whole <= distance <= 1.2 * whole, distances


def test_an_uncertain_row_is_held_or_tried_again_as_its_channel_declares(
    owner: psycopg.Connection, database: Database
) -> None:
    for policy, status in (("hold", "dead"), ("retry", "pending")):
        owner.execute("UPDATE channels SET unknown_policy = %s, grace_seconds = 900", [policy])
        (id,) = add_notifications(owner)
        opening = begun(database, provider="http_keyless")
        assert close_one(database, opening, Unknown(), keyed=False) == "uncertain"
        assert run_reconcile(database).checked == 0, "within its grace it is left alone"
        age(owner, 901)
        done = run_reconcile(database)
        assert (done.checked, done.held, done.retried) == (1, status == "dead", status != "dead")
        row = row_of(owner, id)
        assert (row.status, row.attempt_id, row.in_doubt) == (status, None, 1)
        owner.execute("UPDATE notifications SET ready = false WHERE id = %s", [id])


def test_a_run_goes_on_to_the_end_in_bounded_statements(
    owner: psycopg.Connection, database: Database
) -> None:
    size = max(CHECKED_AT_ONCE, MATCHED_AT_ONCE) + 10
    ids = add_notifications(owner, size)
    references = _submit(database, ids)
    late = add_notifications(owner, size)
    _submit(database, late)
    age(owner, channel_of(database).cutoff_seconds + 1)
    owner.execute(
        "INSERT INTO receipts (provider, event_key, type, evidence_rank, reference, occurred_at,"
        " received_at, raw) SELECT 'http', r, 'delivered', 3, r, clock_timestamp(),"
        " clock_timestamp(), '' FROM unnest(%s::text[]) r",
        [references],
    )
    done = run_reconcile(database)
    assert (done.rematched, done.unconfirmed) == (size, size)
    assert {row_of(owner, id).status for id in (ids[0], ids[-1])} == {"delivered"}


def _submit(database: Database, ids: list[UUID]) -> list[str]:
    """Have all of ``ids`` accepted; return their references."""
    openings = [opening_of(leased) for leased in lease(database, page=len(ids))]
    assert len(openings) == len(ids)
    assert all(begin_one(database, opening).send for opening in openings)
    closings = [
        Closing(
            id=opening.id,
            lease_number=opening.lease_number,
            token=opening.token,
            outcome=Accepted(reference=str(opening.id)),
            again_seconds=None,
        )
        for opening in openings
    ]
    close(database, closings, channel=channel_of(database), declaration=declaration_of("http"))
    return [str(id) for id in ids]
