"""Reports read once more: whom they are about, whose address it is, and what operators said."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from functions.core.evidence import Rank
from functions.core.login import Login
from functions.core.outcome import Accepted
from functions.core.states import Finding
from functions.store.connection import Database
from functions.store.receipt import match_orphans
from functions.store.replay import Replayed
from functions.store.uncertain import settle
from tests.fakes import add_notifications, row_of
from tests.operating import (
    ALL,
    Waiting,
    action,
    operating,
    report,
)
from tests.rereading import OURS, THEIRS, Desk, note
from tests.steps import (
    begun,
    close_one,
)


@pytest.fixture
def operator(login: Login) -> Iterator[Database]:
    with operating(login) as database:
        yield database


@pytest.fixture
def desk(owner: psycopg.Connection, database: Database, operator: Database) -> Desk:
    return Desk(owner=owner, database=database, operator=operator)


@pytest.fixture
def rows(owner: psycopg.Connection, database: Database) -> Waiting:
    return Waiting(owner=owner, database=database)


# Whom it is about


def test_what_names_a_notification_now_is_matched_and_applied(desk: Desk) -> None:
    (id,) = add_notifications(desk.owner)
    orphan = note(uuid4(), idempotency_key=None, address_at_fault=True, complaint=True)
    desk.tell(orphan)
    assert desk.suppressions() == []
    desk.rules.changes = {"note": {"idempotency_key": str(id), "rank": Rank.DELIVERED}}
    assert desk.replay() == Replayed(read=1, changed=1, moved=1, last_id=None)
    row = row_of(desk.owner, id)
    assert (row.status, row.complained) == ("delivered", True)
    (stored,) = desk.rules.read
    receipt = row_of(desk.owner, stored.id, "receipts")
    assert (receipt.notification_id, receipt.organization_id) == (id, row.organization_id)
    assert (receipt.applied, receipt.attempt_id) == (True, None)
    assert desk.suppressions() == [("complaint", "http:event")]
    assert match_orphans(desk.database, declarations=ALL).stored == 0
    assert desk.replay().changed == 0
    assert len(desk.suppressions()) == 1


@pytest.mark.parametrize("by", ["key", "attempt"])
def test_what_names_an_attempt_now_settles_it(desk: Desk, rows: Waiting, by: str) -> None:
    opening = rows.uncertain()
    desk.tell(note(uuid4(), idempotency_key=None))
    named = (
        {"idempotency_key": f"{opening.id}.{opening.token}"}
        if by == "key"
        else {"idempotency_key": str(opening.id), "attempt_id": opening.token}
    )
    desk.rules.changes = {"note": {"rank": Rank.ACCEPTED, **named}}
    desk.replay()
    row = row_of(desk.owner, opening.id)
    assert (row.status, row.in_doubt) == ("submitted", 0)
    (stored,) = desk.rules.read
    assert row_of(desk.owner, stored.id, "receipts").attempt_id == opening.token


def test_what_names_nothing_known_now_stays_an_orphan(desk: Desk) -> None:
    desk.tell(note(uuid4(), idempotency_key=None))
    desk.rules.changes = {"note": {"idempotency_key": str(uuid4()), "rank": Rank.DELIVERED}}
    assert desk.replay() == Replayed(read=1, changed=1, moved=0, last_id=None)
    (stored,) = desk.rules.read
    assert row_of(desk.owner, stored.id, "receipts").notification_id is None


def test_a_reference_that_is_understood_now_is_matched_by_the_next_look(desk: Desk) -> None:
    (id,) = add_notifications(desk.owner)
    close_one(desk.database, begun(desk.database), Accepted(reference="m-1"))
    desk.tell(note(uuid4(), idempotency_key=None))
    desk.rules.changes = {"note": {"reference": "m-1", "rank": Rank.DELIVERED}}
    assert desk.replay().moved == 0
    assert match_orphans(desk.database, declarations=ALL).applied == 1
    assert row_of(desk.owner, id).status == "delivered"


def test_what_names_another_notification_now_is_evidence_there_and_no_longer_here(
    desk: Desk,
) -> None:
    """Matched by its reference at first; our key, which comes first, was not understood."""
    here, there = add_notifications(desk.owner, 2)
    wrong = report(here, Rank.HARD_FAILURE)
    desk.tell(wrong)
    desk.rules.changes = {"hard_failure": {"idempotency_key": str(there)}}
    assert desk.replay() == Replayed(read=1, changed=1, moved=2, last_id=None)
    assert row_of(desk.owner, here).status == "unconfirmed"
    assert row_of(desk.owner, there).status == "failed"
    assert desk.replay().changed == 0


def test_what_names_another_recipient_now_is_a_note(desk: Desk) -> None:
    (id,) = add_notifications(desk.owner)
    close_one(desk.database, begun(desk.database), Accepted(reference="m-1"))
    desk.tell(report(id, Rank.DELIVERED, complaint=True))
    assert row_of(desk.owner, id).complained
    desk.rules.changes = {"delivered": {"recipient_hash": THEIRS}}
    assert desk.replay().moved == 1
    row = row_of(desk.owner, id)
    assert (row.status, row.evidence_rank, row.complained) == ("submitted", 1, False)
    (stored,) = desk.rules.read
    assert not row_of(desk.owner, stored.id, "receipts").applied


def test_what_names_our_recipient_now_counts(desk: Desk) -> None:
    (id,) = add_notifications(desk.owner)
    desk.tell(report(id, Rank.HARD_FAILURE, recipient_hash=THEIRS, address_at_fault=True))
    assert (row_of(desk.owner, id).status, desk.suppressions()) == ("pending", [])
    desk.rules.changes = {"hard_failure": {"recipient_hash": OURS}}
    assert desk.replay().moved == 1
    assert row_of(desk.owner, id).status == "failed"
    assert desk.suppressions() == [("hard_bounce", "http:event")]
    (stored,) = desk.rules.read
    assert row_of(desk.owner, stored.id, "receipts").applied


# The address


def test_an_address_that_is_at_fault_now_is_suppressed_once(desk: Desk) -> None:
    (id,) = add_notifications(desk.owner)
    hard = report(id, Rank.HARD_FAILURE, recipient_hash=OURS)
    desk.tell(hard, note(id))
    assert desk.suppressions() == []
    desk.rules.changes = {"hard_failure": {"address_at_fault": True, "permanent": True}}
    before = row_of(desk.owner, id)
    assert desk.replay() == Replayed(read=2, changed=1, moved=0, last_id=None)
    assert row_of(desk.owner, id) == before
    assert desk.suppressions() == [("hard_bounce", "http:event")]
    fact = desk.owner.execute(
        "SELECT organization_id, channel, recipient_hash, kind, evidence ->> 'notification_id', "
        "evidence ->> 'receipt_id', source_at FROM suppressions"
    ).fetchone()
    stored = desk.rules.read[0]
    assert fact == (
        before.organization_id,
        "email",
        OURS,
        "suppress",
        str(id),
        str(stored.id),
        row_of(desk.owner, stored.id, "receipts").occurred_at,
    )
    assert desk.replay().changed == 0
    desk.rules.changes["note"] = {"type": "opened"}
    assert desk.replay().changed == 1
    assert len(desk.suppressions()) == 1


def test_an_address_that_was_at_fault_already_is_not_suppressed_again(desk: Desk) -> None:
    (id,) = add_notifications(desk.owner)
    desk.tell(report(id, Rank.HARD_FAILURE, address_at_fault=True))
    desk.rules.changes = {"hard_failure": {"reason": "no such user"}}
    assert desk.replay().changed == 1
    assert desk.suppressions() == [("hard_bounce", "http:event")]


def test_somebody_elses_address_is_not_suppressed(desk: Desk) -> None:
    (id,) = add_notifications(desk.owner)
    desk.tell(report(id, Rank.NONE, type="note", recipient_hash=THEIRS))
    desk.rules.changes = {"note": {"address_at_fault": True, "rank": Rank.HARD_FAILURE}}
    assert desk.replay() == Replayed(read=1, changed=1, moved=0, last_id=None)
    assert (row_of(desk.owner, id).status, desk.suppressions()) == ("pending", [])


# What operators found out


@pytest.mark.parametrize("finding", [Finding.ACCEPTED, Finding.DELIVERED])
def test_what_an_operator_found_out_is_left_alone_and_stays_evidence(
    desk: Desk, rows: Waiting, finding: Finding
) -> None:
    opening = rows.uncertain()
    settle(desk.operator, opening.id, finding=finding, action=action())
    settled = row_of(desk.owner, opening.id)
    assert desk.replay() == Replayed(read=1, changed=0, moved=0, last_id=None)
    assert row_of(desk.owner, opening.id) == settled
    desk.tell(report(opening.id, Rank.HARD_FAILURE))
    desk.rules.changes = {"hard_failure": {"rank": Rank.NONE}}
    assert desk.replay().moved == 1
    row = row_of(desk.owner, opening.id)
    assert (row.status, row.evidence_rank) == (settled.status, settled.evidence_rank)
    assert (row.evidence_key, row.evidence_at) == (settled.evidence_key, settled.evidence_at)
