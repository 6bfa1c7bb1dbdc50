"""Reports read once more: which are read, what is kept of it, and who else is at work."""

import dataclasses
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from functions.core.evidence import Rank
from functions.core.login import Login
from functions.core.outcome import Accepted
from functions.store.connection import Database
from functions.store.receipt import match_orphans
from functions.store.replay import Replayed
from tests.fakes import HeldDatabase, add_notifications, moves_of, row_of
from tests.operating import (
    ALL,
    Waiting,
    action,
    actions_of,
    operating,
    operator_of,
    report,
    tell,
)
from tests.rereading import NOW_DELIVERED, Desk, note
from tests.steps import (
    begun,
    close_one,
    connected,
    losing_its_first_commit,
    now_of,
    waiting,
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


# What is read


def test_what_reads_as_before_changes_nothing(desk: Desk) -> None:
    (id,) = add_notifications(desk.owner)
    desk.tell(note(id), report(id, Rank.SOFT_FAILURE), report(id, Rank.HARD_FAILURE))
    before, moves = row_of(desk.owner, id), moves_of(desk.owner, id)
    asked = action("receipts.replay")
    assert desk.replay(asked=asked) == Replayed(read=3, changed=0, moved=0, last_id=None)
    assert (row_of(desk.owner, id), moves_of(desk.owner, id)) == (before, moves)
    result = {"read": 3, "changed": 0, "moved": 0, "last_id": None}
    assert actions_of(desk.owner) == [(asked.id, "receipts.replay", result)]


def test_a_report_is_read_from_what_was_received_and_by_whom_it_is_about(desk: Desk) -> None:
    (id,) = add_notifications(desk.owner, channel="sms")
    known = note(id, raw=b'{"odd":  1.0}\n', provider="gateway")
    orphan = note(uuid4(), raw=b"\xff\x00")
    desk.tell(known)
    desk.tell(orphan)
    desk.replay()
    first, second = desk.rules.read
    assert (first.raw, first.event_key, first.channel) == (known.raw, known.event_key, "sms")
    assert (second.raw, second.event_key, second.channel) == (b"\xff\x00", orphan.event_key, None)
    assert first.provider == second.provider == "http"  # the door by which they came
    assert first.received_at == row_of(desk.owner, first.id, "receipts").received_at


def test_what_cannot_be_read_stays_as_it_was(desk: Desk) -> None:
    (id,) = add_notifications(desk.owner)
    desk.tell(report(id, Rank.HARD_FAILURE, address_at_fault=True))
    desk.rules.unreadable.add("hard_failure")
    before, facts = row_of(desk.owner, id), desk.suppressions()
    assert desk.replay() == Replayed(read=1, changed=0, moved=0, last_id=None)
    assert (row_of(desk.owner, id), desk.suppressions()) == (before, facts)


def test_one_that_cannot_be_read_does_not_hold_back_the_others(desk: Desk) -> None:
    (one, other) = add_notifications(desk.owner, 2)
    desk.tell(report(one, Rank.SOFT_FAILURE), note(other))
    desk.rules.unreadable.add("soft_failure")
    desk.rules.changes = NOW_DELIVERED
    assert desk.replay() == Replayed(read=2, changed=1, moved=1, last_id=None)
    assert row_of(desk.owner, one).status == "failed"
    assert row_of(desk.owner, other).status == "delivered"


def test_pages_follow_each_other_and_each_report_is_read_once(desk: Desk) -> None:
    ids = add_notifications(desk.owner, 5)
    desk.tell(*(note(id) for id in ids))
    desk.rules.changes = NOW_DELIVERED
    pages: list[Replayed] = []
    while not pages or pages[-1].last_id:
        pages.append(desk.replay(after=pages[-1].last_id if pages else None, limit=2))
    assert [(page.read, page.changed, page.moved) for page in pages] == [(2, 2, 2)] * 2 + [
        (1, 1, 1)
    ]
    assert len({stored.id for stored in desk.rules.read}) == len(desk.rules.read) == 5
    assert {row_of(desk.owner, id).status for id in ids} == {"delivered"}


def test_only_what_came_since_a_time_is_read(desk: Desk) -> None:
    old, new = add_notifications(desk.owner, 2)
    desk.tell(note(old))
    since = now_of(desk.owner)
    desk.tell(note(new))
    desk.rules.changes = NOW_DELIVERED
    assert desk.replay(since=now_of(desk.owner, seconds=1)).read == 0
    assert desk.replay(since=since).read == 1
    statuses = [row_of(desk.owner, id).status for id in (old, new)]
    assert statuses == ["pending", "delivered"]
    assert desk.replay(since=now_of(desk.owner, days=-365 * 1000)).changed == 1


def test_only_what_is_about_one_notification_is_read(desk: Desk) -> None:
    mine, other = add_notifications(desk.owner, 2)
    desk.tell(note(mine), note(other), note(mine))
    desk.rules.changes = NOW_DELIVERED
    first = desk.replay(notification_id=mine, limit=1)
    assert (first.read, first.changed) == (1, 1)
    assert desk.replay(notification_id=mine, after=first.last_id, limit=2).read == 1
    assert desk.replay(notification_id=mine, since=now_of(desk.owner)).read == 0
    assert [row_of(desk.owner, id).status for id in (mine, other)] == ["delivered", "pending"]
    assert desk.replay(notification_id=uuid4()).read == 0


# Audit and races


def test_a_replay_and_its_audit_stand_or_fall_together(desk: Desk, login: Login) -> None:
    (id,) = add_notifications(desk.owner)
    desk.tell(note(id))
    desk.rules.changes = {"note": {"rank": Rank.HARD_FAILURE, "address_at_fault": True}}
    before = row_of(desk.owner, id)
    with connected(operator_of(login), "operator", kind=HeldDatabase) as (operator,):
        assert desk.replay(operator=operator).moved == 1
        operator.rollback()
        assert (row_of(desk.owner, id), actions_of(desk.owner)) == (before, [])
        assert (desk.suppressions(), moves_of(desk.owner, id)) == ([], [])
        assert desk.replay(operator=operator).moved == 1
        operator.commit()
    assert (len(desk.suppressions()), len(actions_of(desk.owner))) == (1, 1)


def test_a_page_whose_commit_was_not_answered_is_told_as_it_was(desk: Desk, login: Login) -> None:
    ids = add_notifications(desk.owner, 2)
    desk.tell(*(note(id) for id in ids))
    desk.rules.changes = {"note": {"rank": Rank.HARD_FAILURE, "address_at_fault": True}}
    with losing_its_first_commit(operator_of(login)) as operator:
        page = desk.replay(operator=operator, limit=1)
    (stored,) = desk.rules.read
    assert page == Replayed(read=1, changed=1, moved=1, last_id=stored.id)
    assert (len(desk.suppressions()), len(actions_of(desk.owner))) == (1, 1)


def test_a_report_that_waited_for_the_replay_is_weighed_after_it(desk: Desk, login: Login) -> None:
    (id,) = add_notifications(desk.owner)
    desk.tell(report(id, Rank.HARD_FAILURE))
    desk.rules.changes = {"hard_failure": {"rank": Rank.ACCEPTED}}
    with (
        connected(operator_of(login), "operator", kind=HeldDatabase) as (operator,),
        connected(login, "callbacks", kind=Database) as (callbacks,),
    ):
        assert desk.replay(operator=operator).moved == 1
        new = report(id, Rank.DELIVERED)
        with waiting(desk.owner, "callbacks", lambda: tell(callbacks, new)):
            operator.commit()
    row = row_of(desk.owner, id)
    assert (row.status, row.evidence_rank, row.evidence_key) == ("delivered", 3, new.event_key)


def test_a_replay_that_waited_for_a_report_weighs_it(desk: Desk, login: Login) -> None:
    (id,) = add_notifications(desk.owner)
    desk.tell(report(id, Rank.HARD_FAILURE))
    desk.rules.changes = {"hard_failure": {"rank": Rank.ACCEPTED}}
    new = report(id, Rank.DELIVERED)
    with connected(login, "callbacks", kind=HeldDatabase) as (callbacks,):
        tell(callbacks, new)
        with waiting(desk.owner, "operator", desk.replay):
            callbacks.commit()
    row = row_of(desk.owner, id)
    assert (row.status, row.evidence_rank, row.evidence_key) == ("delivered", 3, new.event_key)


def test_a_replay_waits_for_a_close_and_weighs_its_acceptance(desk: Desk, login: Login) -> None:
    (id,) = add_notifications(desk.owner)
    opening = begun(desk.database)
    desk.tell(report(id, Rank.SOFT_FAILURE))
    desk.rules.changes = {"soft_failure": {"rank": Rank.NONE}}
    with connected(login, "sender", kind=HeldDatabase) as (sender,):
        close_one(sender, opening, Accepted(reference="m-1"))
        with waiting(desk.owner, "operator", desk.replay):
            sender.commit()
    row = row_of(desk.owner, id)
    assert (row.status, row.evidence_rank, row.evidence_key) == ("submitted", 1, str(opening.token))


def test_a_report_that_is_matched_meanwhile_is_recomputed_under_its_rows_lock(
    desk: Desk, login: Login
) -> None:
    """The replay has read it as an orphan, and waits for the look that is just matching it."""
    (id,) = add_notifications(desk.owner)
    close_one(desk.database, begun(desk.database), Accepted(reference="m-1"))
    orphan = note(uuid4(), idempotency_key=None)
    desk.tell(orphan)
    desk.owner.execute("UPDATE receipts SET reference = 'm-1'")
    desk.rules.told[orphan.event_key] = dataclasses.replace(orphan, reference="m-1")
    desk.rules.changes = NOW_DELIVERED
    with connected(login, "reconcile", kind=HeldDatabase) as (reconcile,):
        assert match_orphans(reconcile, declarations=ALL).applied == 1
        with waiting(desk.owner, "operator", desk.replay) as replayed:
            reconcile.commit()
    assert replayed.result().moved == 1
    assert row_of(desk.owner, id).status == "delivered"


def test_two_replays_at_once_change_each_report_once(desk: Desk, login: Login) -> None:
    (id,) = add_notifications(desk.owner)
    desk.tell(note(id))
    desk.rules.changes = {"note": {"rank": Rank.HARD_FAILURE, "address_at_fault": True}}
    with connected(operator_of(login), "first", kind=HeldDatabase) as (first,):
        assert desk.replay(operator=first).changed == 1
        with waiting(desk.owner, "operator", desk.replay) as second:
            first.commit()
    assert second.result() == Replayed(read=1, changed=0, moved=0, last_id=None)
    assert (len(desk.suppressions()), len(moves_of(desk.owner, id))) == (1, 1)
