"""The sweep: what it takes back, what it leaves alone, and what came in between."""

from datetime import timedelta

import psycopg
import pytest

from functions.core.evidence import Rank, Receipt
from functions.core.login import Login
from functions.core.outcome import Accepted, Transient, Unknown
from functions.providers.choice import DECLARATIONS
from functions.store.begin import Opening
from functions.store.cancel import cancel_notification
from functions.store.connection import Database
from functions.store.receipt import record
from functions.store.survey import promote
from functions.store.sweep import SWEPT_AT_ONCE, Swept, expire, sweep
from functions.sweeper.sweeper import run_sweep
from tests.fakes import (
    FIRST_ORGANIZATION,
    HeldDatabase,
    add_notifications,
    moves_of,
    row_of,
    stopped_clock,
)
from tests.steps import (
    as_owner,
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

NOTHING = Swept(released=0, in_doubt=0, dead=0, settled=0)


def sweep_at(
    owner: psycopg.Connection, database: Database, *, keyed: bool = True, **later: float
) -> Swept:
    """Sweep the email channel at a later time of the database's clock."""
    return sweep(
        database,
        channel=channel_of(database),
        declarations=DECLARATIONS if keyed else [],
        now=now_of(owner, **later),
    )


def receipt_of(opening: Opening, rank: Rank) -> Receipt:
    return Receipt(
        provider="http",
        event_key="event-1",
        type=rank.name.lower(),
        rank=rank,
        occurred_at=None,
        idempotency_key=str(opening.id),
        raw=b"{}",
    )


def test_a_fresh_running_lease_is_not_touched_and_one_past_its_time_is(
    owner: psycopg.Connection, database: Database
) -> None:
    lost, running = add_notifications(owner, 2)
    leases = {row.id: row for row in lease(database, lease_seconds=60)}
    begin_one(database, opening_of(leases[running]), remaining_seconds=600)
    before = row_of(owner, running)
    assert sweep_at(owner, database, seconds=59) == NOTHING
    swept = sweep_at(owner, database, seconds=61)
    assert swept == Swept(released=1, in_doubt=0, dead=0, settled=0)
    assert row_of(owner, lost).status == "pending"
    assert row_of(owner, running) == before


def test_a_lease_without_an_attempt_is_due_again_unspent_and_in_its_place(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    due = row_of(owner, id).available_at
    lease(database)
    assert sweep_at(owner, database, hours=1).released == 1
    row = row_of(owner, id)
    assert (row.status, row.ready, row.available_at) == ("pending", True, due)
    assert (row.attempts_spent, row.in_doubt, row.lease_until) == (0, 0, None)
    assert moves_of(owner, id) == [("sweeper", "leased", "pending", "lease_expired")]


def test_an_open_attempt_is_closed_as_unknown_and_asked_again_under_its_key(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    now = now_of(owner, hours=1)
    channel = channel_of(database)
    assert sweep(database, channel=channel, declarations=DECLARATIONS, now=now).in_doubt == 1
    row, attempt = row_of(owner, id), row_of(owner, opening.token, "attempts")
    assert (row.status, row.in_doubt, row.attempt_id) == ("pending", 1, None)
    assert not row.ready
    base = channel.backoff_base_seconds
    assert timedelta(seconds=base / 2) <= row.available_at - now <= timedelta(seconds=base)
    assert (attempt.outcome, attempt.code) == ("unknown", "lease_expired")
    assert attempt.finished_at == now


def test_without_keys_an_open_attempt_makes_the_row_uncertain(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    now = now_of(owner, hours=1)
    assert sweep(database, channel=channel_of(database), declarations=[], now=now).in_doubt == 1
    row = row_of(owner, id)
    assert (row.status, row.attempt_id, row.in_doubt) == ("uncertain", opening.token, 1)
    assert row.next_check_at == now + timedelta(seconds=900)
    assert sweep_at(owner, database, hours=2) == NOTHING


def test_a_budget_spent_in_doubt_is_held(owner: psycopg.Connection, database: Database) -> None:
    (id,) = add_notifications(owner, max_attempts=1)
    begun(database)
    assert sweep_at(owner, database, hours=1).dead == 1
    assert (row_of(owner, id).status, row_of(owner, id).reason) == ("dead", "outcome_unknown")


def test_lost_leases_alone_never_kill_a_row(owner: psycopg.Connection, database: Database) -> None:
    (id,) = add_notifications(owner, max_attempts=1)
    for hours in range(1, 20, 2):
        assert len(lease(database, now=now_of(owner, hours=hours))) == 1
        assert sweep_at(owner, database, hours=hours + 1).released == 1
    assert (row_of(owner, id).status, row_of(owner, id).lease_number) == ("pending", 10)


def test_a_retry_that_would_come_after_the_expiry_ends_unconfirmed(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner, expires_in_seconds=600)
    begun(database)
    assert sweep_at(owner, database, hours=1).in_doubt == 1
    row = row_of(owner, id)
    assert (row.status, row.reason) == ("unconfirmed", "expired")
    assert row.final_at is not None


def test_another_channels_leases_are_not_swept(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner, channel="sms")
    lease(database, channel="sms")
    assert sweep_at(owner, database, hours=1) == NOTHING


def test_an_attempt_that_evidence_overtook_is_closed_and_the_evidence_stands(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    record(
        database, [receipt_of(opening, Rank.DELIVERED)], provider="http", declarations=DECLARATIONS
    )
    due = row_of(owner, id).available_at
    assert sweep_at(owner, database, hours=1) == Swept(released=0, in_doubt=0, dead=0, settled=1)
    row = row_of(owner, id)
    assert (row.status, row.attempt_id, row.lease_until) == ("delivered", None, None)
    assert row.available_at == due
    assert row_of(owner, opening.token, "attempts").outcome == "unknown"


@pytest.mark.parametrize("keyed", [True, False])
def test_evidence_that_comes_between_the_sweeps_look_and_its_lock_stands(
    owner: psycopg.Connection, login: Login, database: Database, keyed: bool
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database, now=now_of(owner, hours=-1), lease_seconds=1)
    channel = channel_of(database)
    with (
        stopped_clock(owner, login.name),
        connected(login, "sweep", kind=Database) as (sweeping,),
        as_owner(login) as callbacks,
        waiting(
            owner,
            "sweep",
            lambda: sweep(sweeping, channel=channel, declarations=DECLARATIONS if keyed else []),
        ) as swept,
    ):
        record(
            callbacks,
            [receipt_of(opening, Rank.DELIVERED)],
            provider="http",
            declarations=DECLARATIONS,
        )
        owner.execute("SELECT pg_advisory_unlock(1)")
    assert swept.result() == Swept(released=0, in_doubt=0, dead=0, settled=1)
    assert row_of(owner, id).status == "delivered"


def test_a_close_that_comes_between_the_sweeps_look_and_its_lock_stands(
    owner: psycopg.Connection, login: Login, database: Database
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database, now=now_of(owner, hours=-1), lease_seconds=1)
    channel = channel_of(database)
    with (
        stopped_clock(owner, login.name),
        connected(login, "sweep", kind=Database) as (sweeping,),
        as_owner(login) as closing,
        waiting(owner, "sweep", lambda: sweep(sweeping, channel=channel, declarations=[])) as swept,
    ):
        close_one(closing, opening, Accepted(reference="m-1"))
        owner.execute("SELECT pg_advisory_unlock(1)")
    assert swept.result() == NOTHING
    assert row_of(owner, id).status == "submitted"


def test_a_sweep_passes_over_a_row_that_its_worker_is_closing(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    held, lost = add_notifications(owner, 2)
    leases = {row.id: row for row in lease(database)}
    opening = opening_of(leases[held])
    begin_one(database, opening)
    with connected(login, "close", kind=HeldDatabase) as (closing,):
        close_one(closing, opening, Accepted(reference="m-1"))
        assert sweep_at(owner, database, hours=1).released == 1
        closing.commit()
    assert (row_of(owner, held).status, row_of(owner, lost).status) == ("submitted", "pending")
    assert sweep_at(owner, database, hours=2) == NOTHING


def test_a_sweep_takes_a_bounded_number_oldest_first(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner, SWEPT_AT_ONCE + 10)
    now = now_of(owner)
    late = {row.id for row in lease(database, page=10, now=now)}
    lease(database, page=1_000, now=now - timedelta(minutes=5))
    assert sweep_at(owner, database, hours=1).total == SWEPT_AT_ONCE
    left = owner.execute("SELECT id FROM notifications WHERE status = 'leased'").fetchall()
    assert {row[0] for row in left} == late
    assert sweep_at(owner, database, hours=1).total == 10


def test_what_expired_while_it_waited_ends(owner: psycopg.Connection, database: Database) -> None:
    (ready,) = add_notifications(owner, expires_in_seconds=60)
    (waits,) = add_notifications(owner, expires_in_seconds=60, delay_seconds=30)
    (later,) = add_notifications(owner, expires_in_seconds=120)
    (never,) = add_notifications(owner)
    now = now_of(owner, seconds=61)
    assert expire(database, now=now) == 2
    for id in (ready, waits):
        row = row_of(owner, id)
        assert (row.status, row.reason, row.final_at) == ("expired", "expired", now)
        assert moves_of(owner, id) == [("sweeper", "pending", "expired", "expired")]
    assert {row_of(owner, id).status for id in (later, never)} == {"pending"}
    assert expire(database, now=now) == 0


def test_what_expired_in_doubt_ends_unconfirmed(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner, expires_in_seconds=600)
    close_one(database, begun(database), Unknown(), again_seconds=60)
    assert expire(database, now=now_of(owner, seconds=601)) == 1
    assert (row_of(owner, id).status, row_of(owner, id).reason) == ("unconfirmed", "expired")


def test_an_expiry_leaves_a_leased_row_to_its_sender_and_a_locked_one_to_its_holder(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    add_notifications(owner, expires_in_seconds=60)
    lease(database)
    (locked,) = add_notifications(owner, expires_in_seconds=60)
    with connected(login, "cancel", kind=HeldDatabase) as (cancelling,):
        cancel_notification(cancelling, organization_id=FIRST_ORGANIZATION, notification_id=locked)
        assert expire(database, now=now_of(owner, hours=1)) == 0


def test_a_run_sweeps_every_channel_to_the_end_and_reads_the_gauges(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner, SWEPT_AT_ONCE + 5)
    add_notifications(owner, 2, channel="sms")
    (expired,) = add_notifications(owner, channel="push", expires_in_seconds=1)
    long_ago = now_of(owner, hours=-1)
    lease(database, page=1_000, now=long_ago)
    lease(database, channel="sms", now=long_ago)
    owner.execute(
        "UPDATE notifications SET expires_at = clock_timestamp() WHERE id = %s", [expired]
    )
    report = run_sweep(database, declarations=DECLARATIONS)
    assert report.swept["email"]["LeaseReleased"] == SWEPT_AT_ONCE + 5
    assert report.swept["sms"]["LeaseReleased"] == 2
    assert report.expired == 1
    ready = {(gauge.channel, gauge.priority): gauge.ready for gauge in report.ready}
    assert ready["email", "normal"] == SWEPT_AT_ONCE + 5
    assert ready["sms", "normal"] == 2
    assert {gauge.leased for gauge in report.channels} == {0}


def test_a_row_taken_back_is_leased_under_the_next_number(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner)
    opening = begun(database)
    sweep_at(owner, database, hours=1)
    promote(database, now=now_of(owner, hours=2))
    (again,) = lease(database)
    assert again.lease_number == 2
    assert close_one(database, opening, Transient()) is None
