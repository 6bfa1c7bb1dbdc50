"""A receipt against whoever else wants the row: a cancel, a begin, a sweep, an expiry."""

import psycopg
import pytest

from functions.core.errors import TooLate
from functions.core.evidence import Rank, Receipt
from functions.core.login import Login
from functions.core.outcome import Accepted
from functions.providers.choice import DECLARATIONS
from functions.store.begin import Opening
from functions.store.cancel import cancel_notification
from functions.store.connection import Database
from functions.store.receipt import Recorded, record
from functions.store.sweep import expire, sweep
from tests.fakes import FIRST_ORGANIZATION, HeldDatabase, add_notifications, moves_of, row_of
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


@pytest.fixture
def opening(owner: psycopg.Connection, database: Database) -> Opening:
    """What opens an attempt under the fresh lease of the only notification."""
    add_notifications(owner)
    (leased,) = lease(database)
    return opening_of(leased)


def tell(database: Database, opening: Opening) -> Recorded:
    """Report that it was delivered, of the attempt that there may be."""
    receipt = Receipt(
        provider="http",
        event_key="event-1",
        type="delivered",
        rank=Rank.DELIVERED,
        occurred_at=None,
        idempotency_key=f"{opening.id}.{opening.token}",
        raw=b"{}",
    )
    return record(database, [receipt], provider="http", declarations=DECLARATIONS)


def cancel(database: Database, opening: Opening) -> None:
    cancel_notification(database, organization_id=FIRST_ORGANIZATION, notification_id=opening.id)


def test_a_receipt_that_waits_for_a_cancel_is_counted_and_moves_nothing(
    owner: psycopg.Connection, login: Login, opening: Opening
) -> None:
    with (
        connected(login, "cancel", kind=HeldDatabase) as (cancelling,),
        connected(login, "receipt", kind=Database) as (telling,),
    ):
        cancel(cancelling, opening)
        with waiting(owner, "receipt", lambda: tell(telling, opening)) as answer:
            cancelling.commit()
        assert answer.result().after_zero_submissions == 1
    row = row_of(owner, opening.id)
    assert (row.status, row.evidence_rank) == ("cancelled", Rank.DELIVERED)
    assert [move[2] for move in moves_of(owner, opening.id)] == ["cancelled"]


def test_a_cancel_that_waits_for_a_receipt_is_too_late(
    owner: psycopg.Connection, login: Login, opening: Opening
) -> None:
    with (
        connected(login, "receipt", kind=HeldDatabase) as (telling,),
        connected(login, "cancel", kind=Database) as (cancelling,),
    ):
        tell(telling, opening)
        with waiting(owner, "cancel", lambda: cancel(cancelling, opening)) as answer:
            telling.commit()
        with pytest.raises(TooLate):
            answer.result()
    assert row_of(owner, opening.id).status == "delivered"


def test_a_begin_that_waits_for_a_receipt_sends_nothing(
    owner: psycopg.Connection, login: Login, opening: Opening
) -> None:
    with (
        connected(login, "receipt", kind=HeldDatabase) as (telling,),
        connected(login, "begin", kind=Database) as (beginning,),
    ):
        tell(telling, opening)
        with waiting(owner, "begin", lambda: begin_one(beginning, opening)) as answer:
            telling.commit()
        assert (answer.result().verdict, answer.result().send) == ("stale", False)
    row = row_of(owner, opening.id)
    assert (row.status, row.lease_until, row.attempt_id) == ("delivered", None, None)


def test_a_receipt_that_waits_for_a_begin_leaves_the_attempt_to_its_close(
    owner: psycopg.Connection, database: Database, login: Login, opening: Opening
) -> None:
    with (
        connected(login, "begin", kind=HeldDatabase) as (beginning,),
        connected(login, "receipt", kind=Database) as (telling,),
    ):
        assert begin_one(beginning, opening).send
        with waiting(owner, "receipt", lambda: tell(telling, opening)) as answer:
            beginning.commit()
        assert answer.result().applied == 1
    row = row_of(owner, opening.id)
    assert (row.status, row.attempt_id) == ("delivered", opening.token)
    assert row.lease_until is not None
    assert close_one(database, opening, Accepted(reference="m-1")) == "delivered"
    row = row_of(owner, opening.id)
    assert (row.status, row.attempt_id, row.lease_until) == ("delivered", None, None)


def test_a_receipt_that_waits_for_a_sweep_counts_and_settles_the_attempt(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    add_notifications(owner)
    opening = begun(database, provider="http_keyless")
    channel, late = channel_of(database), now_of(owner, hours=1)
    with (
        connected(login, "sweep", kind=HeldDatabase) as (sweeping,),
        connected(login, "receipt", kind=Database) as (telling,),
    ):
        swept = sweep(sweeping, channel=channel, declarations=DECLARATIONS, now=late)
        assert swept.in_doubt == 1
        with waiting(owner, "receipt", lambda: tell(telling, opening)) as answer:
            sweeping.commit()
        assert answer.result().applied == 1
    row = row_of(owner, opening.id)
    assert (row.status, row.in_doubt, row.attempt_id) == ("delivered", 0, None)
    assert row_of(owner, opening.token, "attempts").outcome == "accepted"


def test_a_sweep_passes_over_a_row_that_a_receipt_is_moving(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    add_notifications(owner)
    opening = begun(database)
    channel, late = channel_of(database), now_of(owner, hours=1)
    with connected(login, "receipt", kind=HeldDatabase) as (telling,):
        tell(telling, opening)
        assert sweep(database, channel=channel, declarations=DECLARATIONS, now=late).total == 0
        telling.commit()
    assert sweep(database, channel=channel, declarations=DECLARATIONS, now=late).settled == 1
    row = row_of(owner, opening.id)
    assert (row.status, row.attempt_id, row.lease_until) == ("delivered", None, None)


def test_an_expiry_passes_over_a_row_that_a_receipt_is_moving(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    (id,) = add_notifications(owner, expires_in_seconds=60)
    nobody = Opening(id=id, lease_number=1, token=id)
    with connected(login, "receipt", kind=HeldDatabase) as (telling,):
        tell(telling, nobody)
        assert expire(database, now=now_of(owner, hours=1)) == 0
        telling.commit()
    assert expire(database, now=now_of(owner, hours=1)) == 0
    assert row_of(owner, id).status == "delivered"


def test_a_claim_passes_over_a_row_that_a_receipt_is_moving(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    (id,) = add_notifications(owner)
    nobody = Opening(id=id, lease_number=1, token=id)
    with connected(login, "receipt", kind=HeldDatabase) as (telling,):
        tell(telling, nobody)
        assert lease(database) == []
        telling.commit()
    assert lease(database) == []
    assert row_of(owner, id).status == "delivered"
