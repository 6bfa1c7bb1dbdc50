"""Reports read once more: what they prove by the rules of today decides, and nothing else."""

import dataclasses
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.core.evidence import Rank
from functions.core.login import Login
from functions.core.outcome import Accepted, Transient
from functions.core.states import Finding
from functions.store.check import check
from functions.store.connection import Database
from functions.store.replay import Replayed
from functions.store.uncertain import settle
from tests.fakes import Row, add_notifications, moves_of, row_of
from tests.operating import (
    ALL,
    LONG_AGO,
    SOMEDAY,
    Waiting,
    action,
    arrange,
    operating,
    report,
    tell,
)
from tests.rereading import NOW_DELIVERED, Desk, note
from tests.steps import (
    begun,
    close_one,
    lease,
    now_of,
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


# A rank goes up

FINAL = {"final_at": LONG_AGO}
BEFORE: dict[str, dict[str, Any]] = {
    "pending": {"status": "pending"},
    "in doubt": {"status": "pending", "in_doubt": 1},
    "leased": {"status": "leased", "lease_until": SOMEDAY},
    "uncertain": {
        "status": "uncertain",
        "in_doubt": 1,
        "attempt_id": uuid4(),
        "decide_at": LONG_AGO,
        "next_check_at": LONG_AGO,
    },
    "submitted": {"status": "submitted", "evidence_rank": 1},
    "unconfirmed": {
        "status": "unconfirmed",
        "reason": "no_receipt_by_cutoff",
        "evidence_rank": 1,
        **FINAL,
    },
    "stopped": {"status": "unconfirmed", "reason": "suppressed", "in_doubt": 1, **FINAL},
    "failed": {"status": "failed", "evidence_rank": 2, **FINAL},
    "expired": {"status": "expired", "reason": "expired", **FINAL},
    "dead": {"status": "dead", "reason": "outcome_unknown", "in_doubt": 1},
    "discarded": {"status": "dead", "reason": "rejected", "discarded_at": LONG_AGO, **FINAL},
}


STATUSES = {
    Rank.ACCEPTED: "submitted",
    Rank.SOFT_FAILURE: "failed",
    Rank.DELIVERED: "delivered",
    Rank.HARD_FAILURE: "failed",
}
# What the cutoff ended stays so when it turns out to have been accepted a little earlier.
RISES = [
    (before, rank)
    for before in BEFORE
    for rank in STATUSES
    if (before, rank) != ("unconfirmed", Rank.ACCEPTED)
]


@pytest.mark.parametrize(("before", "rank"), RISES)
def test_what_proves_more_now_moves_its_row_as_if_it_had_come_in(
    desk: Desk, before: str, rank: Rank
) -> None:
    """Beside it stands a row in the same place to which the report comes as it is read today."""
    replayed, told = add_notifications(desk.owner, 2)
    status, tomorrow = STATUSES[rank], now_of(desk.owner, days=1)
    for id in (replayed, told):
        if proven := BEFORE[before].get("evidence_rank"):
            desk.tell(report(id, Rank(proven), occurred_at=tomorrow))
        arrange(desk.owner, id, **BEFORE[before])
    at = now_of(desk.owner)
    read_first, now = note(replayed, occurred_at=at), {"rank": rank, "reason": "because"}
    desk.tell(read_first)
    unmoved = row_of(desk.owner, replayed)
    assert unmoved.status == BEFORE[before]["status"]
    desk.rules.changes = {"note": now}
    asked = action("receipts.replay")
    answer = desk.replay(asked=asked)
    assert (answer.changed, answer.moved) == (1, int(stronger(rank, unmoved)))
    tell(desk.database, dataclasses.replace(note(told, occurred_at=at), **now))
    row, other = row_of(desk.owner, replayed), row_of(desk.owner, told)
    same = row.columns.keys() - OWN
    assert {name: row.columns[name] for name in same} == {
        name: other.columns[name] for name in same
    }
    assert lease(desk.database) == []
    if not stronger(rank, unmoved):
        assert row == unmoved
        return
    assert (row.status, row.evidence_rank, row.evidence_at) == (status, rank, at)
    assert row.evidence_key == read_first.event_key
    assert (row.final_at is None) is (status == "submitted")
    if row.status != unmoved.status:
        ((receipt_id,),) = desk.owner.execute(
            "SELECT id FROM receipts WHERE event_key = %s", [read_first.event_key]
        ).fetchall()
        assert moved_by(desk.owner, asked.id) == [
            ("operator", unmoved.status, status, "replayed", receipt_id)
        ]


OWN = {
    *("id", "evidence_key", "created_at", "updated_at", "available_at", "eligible_at"),
    *("next_check_at", "final_at", "submitted_at"),
}
"""Columns that two rows never have in common, and times of their own."""


def stronger(rank: Rank, row: Row) -> bool:
    """Whether evidence of ``rank``, older than what the row has, is stronger."""
    return rank >= row.evidence_rank


MOVED_BY = """
    SELECT actor, from_status, to_status, reason, receipt_id
      FROM transitions
     WHERE operator_action_id = %s
"""


def moved_by(owner: psycopg.Connection, action_id: UUID) -> list[tuple[Any, ...]]:
    return owner.execute(MOVED_BY, [action_id]).fetchall()


@pytest.mark.parametrize("status", ["cancelled", "suppressed"])
def test_what_we_ended_keeps_its_status_and_the_evidence_is_kept(desk: Desk, status: str) -> None:
    (id,) = add_notifications(desk.owner)
    arrange(desk.owner, id, status=status, **FINAL)
    desk.tell(note(id))
    desk.rules.changes = NOW_DELIVERED
    assert desk.replay().moved == 1
    row = row_of(desk.owner, id)
    assert (row.status, row.evidence_rank, moves_of(desk.owner, id)) == (status, 3, [])
    assert row.final_at is not None


def test_an_open_attempt_is_left_to_its_own_close(desk: Desk) -> None:
    (id,) = add_notifications(desk.owner)
    opening = begun(desk.database)
    desk.tell(note(id))
    desk.rules.changes = NOW_DELIVERED
    desk.replay()
    row = row_of(desk.owner, id)
    assert (row.status, row.attempt_id) == ("delivered", opening.token)
    assert row.lease_until is not None
    close_one(desk.database, opening, Transient())
    row = row_of(desk.owner, id)
    assert (row.status, row.attempt_id, row.lease_until) == ("delivered", None, None)


def test_what_is_submitted_now_is_looked_at(desk: Desk) -> None:
    (id,) = add_notifications(desk.owner)
    desk.tell(note(id))
    desk.rules.changes = {"note": {"rank": Rank.ACCEPTED}}
    now = now_of(desk.owner)
    desk.replay(now=now)
    row = row_of(desk.owner, id)
    assert row.status == "submitted"
    assert row.next_check_at == now + timedelta(seconds=30)
    assert row.submitted_at is not None


@pytest.mark.parametrize("concluded", [None, Finding.NOT_ACCEPTED])
def test_what_proves_now_that_an_attempt_was_accepted_settles_it(
    desk: Desk, rows: Waiting, concluded: Finding | None
) -> None:
    """As when it comes in: the doubt goes, and the ledger says accepted."""
    opening = rows.uncertain()
    desk.tell(note(opening.id, idempotency_key=f"{opening.id}.{opening.token}", reference="m-9"))
    if concluded:
        settle(desk.operator, opening.id, finding=concluded, action=action())
    desk.rules.changes = NOW_DELIVERED
    assert desk.replay().moved == 1
    row = row_of(desk.owner, opening.id)
    assert (row.status, row.in_doubt, row.attempt_id) == ("delivered", 0, None)
    attempt = row_of(desk.owner, opening.token, "attempts")
    assert (attempt.outcome, attempt.reference) == ("accepted", "m-9")


def test_what_proves_now_more_of_what_is_proven_settles_its_attempt_too(
    desk: Desk, rows: Waiting
) -> None:
    opening = rows.uncertain()
    desk.tell(report(opening.id, Rank.DELIVERED, occurred_at=now_of(desk.owner, minutes=-1)))
    assert row_of(desk.owner, opening.id).in_doubt == 1  # it named no attempt
    desk.tell(note(opening.id, idempotency_key=f"{opening.id}.{opening.token}"))
    desk.rules.changes = NOW_DELIVERED
    before = row_of(desk.owner, opening.id)
    desk.replay()
    row = row_of(desk.owner, opening.id)
    assert (row.in_doubt, row.evidence_key) == (0, before.evidence_key)
    assert row_of(desk.owner, opening.token, "attempts").outcome == "accepted"


# A rank goes down


def test_what_proves_less_now_leaves_the_next_strongest(desk: Desk) -> None:
    (id,) = add_notifications(desk.owner)
    close_one(desk.database, begun(desk.database), Accepted(reference="m-1"))
    desk.tell(report(id, Rank.SOFT_FAILURE, reason="full"), report(id, Rank.HARD_FAILURE))
    assert row_of(desk.owner, id).evidence_rank == 4
    desk.rules.changes = {"hard_failure": {"rank": Rank.NONE}}
    assert desk.replay() == Replayed(read=2, changed=1, moved=1, last_id=None)
    row = row_of(desk.owner, id)
    assert (row.status, row.reason, row.evidence_rank) == ("failed", "full", 2)
    desk.rules.changes["soft_failure"] = {"rank": Rank.NONE}
    assert desk.replay().moved == 1
    row = row_of(desk.owner, id)
    assert (row.status, row.reason, row.evidence_rank) == ("submitted", None, 1)
    attempt = desk.owner.execute("SELECT id::text, finished_at FROM attempts").fetchone()
    assert (row.evidence_key, row.evidence_at) == attempt
    assert (row.final_at, row.discarded_at) == (None, None)
    assert moves_of(desk.owner, id)[-1] == ("operator", "failed", "submitted", "replayed")


def test_an_acceptance_that_is_a_delivery_is_found_again(desk: Desk) -> None:
    (id,) = add_notifications(desk.owner)
    accepted = Accepted(reference=None, final=True)
    close_one(desk.database, begun(desk.database), accepted)
    desk.tell(report(id, Rank.HARD_FAILURE))
    assert row_of(desk.owner, id).status == "failed"
    desk.rules.changes = {"hard_failure": {"rank": Rank.NONE}}
    desk.replay()
    row = row_of(desk.owner, id)
    assert (row.status, row.evidence_rank) == ("delivered", 3)


@pytest.mark.parametrize("rank", [Rank.ACCEPTED, Rank.SOFT_FAILURE, Rank.DELIVERED])
def test_where_nothing_is_left_it_is_unconfirmed_and_not_sent(desk: Desk, rank: Rank) -> None:
    """It may have been accepted all the same: nobody knows what the report was about."""
    (id,) = add_notifications(desk.owner)
    desk.tell(report(id, rank))
    desk.rules.changes = {rank.name.lower(): {"rank": Rank.NONE}}
    now = now_of(desk.owner)
    assert desk.replay(now=now).moved == 1
    row = row_of(desk.owner, id)
    assert (row.status, row.reason, row.final_at) == ("unconfirmed", "outcome_unknown", now)
    assert (row.evidence_rank, row.evidence_at, row.evidence_key) == (0, None, None)
    assert lease(desk.database) == []
    check(desk.database, declarations=ALL, now=now_of(desk.owner, days=30))
    assert row_of(desk.owner, id).status == "unconfirmed"
    desk.tell(report(id, Rank.DELIVERED))
    row = row_of(desk.owner, id)
    assert (row.status, row.reason) == ("delivered", None)


def test_a_late_cutoff_counts_from_the_submission_not_from_the_replay(desk: Desk) -> None:
    (id,) = add_notifications(desk.owner)
    old = now_of(desk.owner, days=-4)
    close_one(desk.database, begun(desk.database), Accepted(reference="m-1"))
    arrange(desk.owner, id, submitted_at=old)
    desk.tell(report(id, Rank.DELIVERED))
    desk.rules.changes = {"delivered": {"rank": Rank.NONE}}
    desk.replay()
    row = row_of(desk.owner, id)
    assert (row.status, row.submitted_at) == ("submitted", old)
    assert check(desk.database, declarations=ALL, now=row.next_check_at).unconfirmed == 1


@pytest.mark.parametrize("status", ["unconfirmed", "delivered", "failed", "submitted", "cancelled"])
def test_what_reads_differently_and_proves_the_same_moves_nothing(desk: Desk, status: str) -> None:
    (id,) = add_notifications(desk.owner)
    desk.tell(note(id))
    final = {} if status == "submitted" else FINAL
    arrange(desk.owner, id, status=status, reason="kept", **final)
    before = row_of(desk.owner, id)
    desk.rules.changes = {"note": {"type": "opened", "reason": "by a person"}}
    assert desk.replay() == Replayed(read=1, changed=1, moved=0, last_id=None)
    assert (row_of(desk.owner, id), moves_of(desk.owner, id)) == (before, [])


def test_a_reason_that_reads_differently_is_the_rows_reason(desk: Desk) -> None:
    (id,) = add_notifications(desk.owner)
    desk.tell(report(id, Rank.HARD_FAILURE, reason="550"))
    desk.rules.changes = {"hard_failure": {"reason": "no such user"}}
    assert desk.replay().moved == 1
    row = row_of(desk.owner, id)
    assert (row.status, row.reason) == ("failed", "no such user")
    assert len(moves_of(desk.owner, id)) == 1
