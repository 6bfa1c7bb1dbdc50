"""What is uncertain: listed, and settled by what an operator found out, which is evidence."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import permutations
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.core.evidence import STATUS_OF_RANK, Rank
from functions.core.login import Login
from functions.core.outcome import Transient, Unknown
from functions.core.states import Finding, Status
from functions.store.action import Action, Fate
from functions.store.check import check
from functions.store.connection import Database
from functions.store.uncertain import list_uncertain, settle
from tests.fakes import (
    FIRST_ORGANIZATION,
    SECOND_ORGANIZATION,
    HeldDatabase,
    Row,
    add_notifications,
    moves_of,
    row_of,
)
from tests.operating import (
    ALL,
    LONG_AGO,
    SOMEDAY,
    Waiting,
    action,
    actions_of,
    arrange,
    attempts_of,
    cancel,
    discarded,
    operating,
    operator_of,
    report,
    requeued,
    tell,
    use,
)
from tests.steps import (
    begin_one,
    close_one,
    connected,
    lease,
    losing_its_first_commit,
    now_of,
    opening_of,
)


@pytest.fixture
def operator(login: Login) -> Iterator[Database]:
    with operating(login) as database:
        yield database


@pytest.fixture
def rows(owner: psycopg.Connection, database: Database) -> Waiting:
    return Waiting(owner=owner, database=database)


def settled(
    operator: Database, id: UUID, finding: Finding, asked: Action | None = None, **more: Any
) -> str:
    """Settle; return what came of it."""
    fate = settle(operator, id, finding=finding, action=asked or action("uncertain.settle"), **more)
    assert fate.id == id
    return fate.fate


# Listing


def test_what_is_uncertain_is_listed_with_what_it_waits_for(
    rows: Waiting, operator: Database
) -> None:
    use(rows.owner, "http_keyless")
    opening = rows.uncertain()
    rows.owner.execute("UPDATE channels SET unknown_policy = 'retry' WHERE name = 'email'")
    (uncertain,) = list_uncertain(operator)
    row, attempt = row_of(rows.owner, opening.id), row_of(rows.owner, opening.token, "attempts")
    assert (uncertain.id, uncertain.organization_id) == (opening.id, FIRST_ORGANIZATION)
    assert (uncertain.channel, uncertain.provider) == ("email", "http_keyless")
    assert (uncertain.attempt_id, uncertain.in_doubt) == (opening.token, 1)
    assert (uncertain.since, uncertain.policy) == (attempt.finished_at, "retry")
    assert uncertain.decide_at == row.decide_at == row.updated_at + timedelta(seconds=900)


def test_what_is_uncertain_is_narrowed_and_paged(
    owner: psycopg.Connection, operator: Database
) -> None:
    made: dict[tuple[UUID, str], list[UUID]] = {}
    for organization in (FIRST_ORGANIZATION, SECOND_ORGANIZATION):
        for channel in ("sms", "email", "webhook", "push"):
            made[organization, channel] = [
                arrange(owner, id, status="uncertain", in_doubt=1)
                for id in add_notifications(owner, 2, organization_id=organization, channel=channel)
            ]
    everything = sorted(id for ids in made.values() for id in ids)
    assert [one.id for one in list_uncertain(operator)] == everything
    for (organization, channel), ids in made.items():
        page = list_uncertain(operator, organization_id=organization, channel=channel)
        assert [one.id for one in page] == ids
        page = list_uncertain(operator, organization_id=organization, channel=channel, after=ids[0])
        assert [one.id for one in page] == ids[1:]
    found: list[UUID] = []
    while page := list_uncertain(operator, after=found[-1] if found else None, limit=3):
        found += [one.id for one in page]
    assert found == everything


def test_only_what_is_uncertain_is_listed(rows: Waiting, operator: Database) -> None:
    rows.doubtful()
    rows.rejected()
    add_notifications(rows.owner)
    assert list_uncertain(operator) == []


# Settled by each finding

SOURCES = ["uncertain", "undecided", "doubtful", "crashed"]
"""Uncertain; held by policy; held with its budget spent; held as a crash loop, all in doubt."""


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("finding", "status", "rank"),
    [(Finding.ACCEPTED, "submitted", 1), (Finding.DELIVERED, "delivered", 3)],
)
def test_what_was_found_accepted_is_evidence_like_a_report(
    rows: Waiting, operator: Database, source: str, finding: Finding, status: str, rank: int
) -> None:
    opening = getattr(rows, source)()
    before = row_of(rows.owner, opening.id)
    now = now_of(rows.owner, hours=2)
    asked = action("uncertain.settle", id=str(opening.id), note="they confirmed it by telephone")
    assert settled(operator, opening.id, finding, asked, now=now) == "settled"
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.reason, row.in_doubt) == (status, None, 0)
    assert (row.attempt_id, row.decide_at, row.lease_until) == (None, None, None)
    assert (row.evidence_rank, row.evidence_at) == (rank, now)
    assert row.evidence_key == str(asked.id)
    assert (row.final_at is None) is (status == "submitted")
    if status == "submitted":
        assert row.next_check_at == now + timedelta(seconds=30)
    assert row_of(rows.owner, opening.token, "attempts").outcome == "accepted"
    (logged,) = transitions_by(rows.owner, asked.id)
    receipt_id = logged[4]
    assert logged[:4] == ("operator", before.status, status, f"settled_{finding}")
    receipt = row_of(rows.owner, receipt_id, "receipts")
    assert (receipt.provider, receipt.type, receipt.applied) == ("operator", finding, True)
    assert (receipt.notification_id, receipt.attempt_id) == (opening.id, opening.token)
    assert b"by telephone" in receipt.raw
    assert lease(rows.database, now=now) == []


BY_ACTION = """
    SELECT actor, from_status, to_status, reason, receipt_id
      FROM transitions
     WHERE operator_action_id = %s
"""


def transitions_by(owner: psycopg.Connection, action_id: UUID) -> list[tuple[Any, ...]]:
    return owner.execute(BY_ACTION, [action_id]).fetchall()


@pytest.mark.parametrize("source", ["uncertain", "undecided"])
def test_what_was_found_not_accepted_is_due_again(
    rows: Waiting, operator: Database, source: str
) -> None:
    opening = getattr(rows, source)()
    before = row_of(rows.owner, opening.id)
    ((_, _, _, code),) = attempts_of(rows.owner, opening.id)
    now, asked = now_of(rows.owner, seconds=5), action("uncertain.settle")
    assert settled(operator, opening.id, Finding.NOT_ACCEPTED, asked, now=now) == "settled"
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.reason, row.ready, row.available_at) == ("pending", None, True, now)
    assert (row.in_doubt, row.attempt_id, row.decide_at) == (0, None, None)
    assert (row.attempts_spent, row.key_epoch) == (before.attempts_spent, 0)
    what_it_came_to = (1, "http_keyless", "transient", code)
    assert attempts_of(rows.owner, opening.id) == [what_it_came_to]
    attempt = row_of(rows.owner, opening.token, "attempts")
    assert attempt.settled == "settled_not_accepted", "beside what the call came to, not over it"
    assert transitions_by(rows.owner, asked.id) == [
        ("operator", before.status, "pending", "settled_not_accepted", None)
    ]
    assert [leased.id for leased in lease(rows.database, now=now)] == [opening.id]


def test_what_was_found_not_accepted_can_be_withdrawn_again(
    rows: Waiting, operator: Database
) -> None:
    opening = rows.uncertain()
    assert settled(operator, opening.id, Finding.NOT_ACCEPTED) == "settled"
    cancel(rows.database, opening.id)
    assert row_of(rows.owner, opening.id).status == "cancelled"


@pytest.mark.parametrize("source", ["uncertain", "undecided"])
def test_what_was_found_not_accepted_and_has_expired_ends_so(
    rows: Waiting, operator: Database, source: str
) -> None:
    opening = getattr(rows, source)(expires_in_seconds=7_200)
    end = row_of(rows.owner, opening.id).expires_at
    assert settled(operator, opening.id, Finding.NOT_ACCEPTED, now=end) == "settled"
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.reason, row.final_at, row.in_doubt) == ("expired", "expired", end, 0)


def test_a_spent_budget_stays_spent_when_nothing_was_accepted(
    rows: Waiting, operator: Database
) -> None:
    opening = rows.doubtful()
    assert settled(operator, opening.id, Finding.NOT_ACCEPTED) == "settled"
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.reason, row.in_doubt) == ("dead", "budget_spent", 0)
    assert lease(rows.database) == []
    assert requeued(operator, opening.id) == ["requeued"]  # nothing is in doubt: no consent


@pytest.mark.parametrize("reason", ["crash_loop", "rejected", "waited_too_long", "unreadable"])
def test_what_is_held_for_another_reason_stays_held_for_it(
    rows: Waiting, operator: Database, reason: str
) -> None:
    """A poison row, or one that was refused for good, is not let go by news of another attempt."""
    opening = rows.crashed()
    arrange(rows.owner, opening.id, reason=reason)
    assert settled(operator, opening.id, Finding.NOT_ACCEPTED) == "settled"
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.reason, row.in_doubt) == ("dead", reason, 0)
    assert row_of(rows.owner, opening.token, "attempts").outcome == "transient"
    assert lease(rows.database) == []
    assert requeued(operator, opening.id) == ["requeued"]
    assert row_of(rows.owner, opening.id).key_epoch == (1 if reason == "rejected" else 0)


def test_what_nobody_can_find_out_is_held(rows: Waiting, operator: Database) -> None:
    opening, asked = rows.uncertain(), action("uncertain.settle")
    assert settled(operator, opening.id, Finding.HOLD, asked) == "settled"
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.reason, row.in_doubt) == ("dead", "outcome_unknown", 1)
    assert (row.attempt_id, row.decide_at) == (None, None)
    assert row_of(rows.owner, opening.token, "attempts").outcome == "unknown"
    assert transitions_by(rows.owner, asked.id) == [
        ("operator", "uncertain", "dead", "settled_hold", None)
    ]
    assert requeued(operator, opening.id) == ["needs_consent"]


@pytest.mark.parametrize("source", ["undecided", "doubtful", "crashed"])
def test_what_is_held_already_is_not_held_again(
    rows: Waiting, operator: Database, source: str
) -> None:
    opening = getattr(rows, source)()
    before, moves = row_of(rows.owner, opening.id), moves_of(rows.owner, opening.id)
    assert settled(operator, opening.id, Finding.HOLD) == "dead"
    assert (row_of(rows.owner, opening.id), moves_of(rows.owner, opening.id)) == (before, moves)


def test_every_attempt_in_doubt_is_settled_by_not_accepted_and_the_last_by_accepted(
    rows: Waiting, operator: Database
) -> None:
    for finding, outcomes, doubt in (
        (Finding.NOT_ACCEPTED, ["transient", "transient"], 0),
        (Finding.ACCEPTED, ["unknown", "accepted"], 1),
    ):
        opening = twice_in_doubt(rows)
        assert settled(operator, opening, finding) == "settled"
        assert row_of(rows.owner, opening).in_doubt == doubt
        assert [outcome for _, _, outcome, _ in attempts_of(rows.owner, opening)] == outcomes
        arrange(rows.owner, opening, status="cancelled", final_at=LONG_AGO, reason=None)


def twice_in_doubt(rows: Waiting) -> UUID:
    """Uncertain for the second time, after the channel's policy tried it again."""
    rows.owner.execute("UPDATE channels SET unknown_policy = 'retry', grace_seconds = 0")
    opening = rows.uncertain()
    check(rows.database, declarations=ALL)
    (leased,) = lease(rows.database)
    again = opening_of(leased)
    begin_one(rows.database, again, provider="http_keyless")
    assert close_one(rows.database, again, Unknown(), keyed=False) == "uncertain"
    assert row_of(rows.owner, opening.id).in_doubt == 2
    return opening.id


# Fates

COLUMNS: dict[str, dict[str, Any]] = {
    "pending": {"status": "pending", "in_doubt": 1},
    "leased": {"status": "leased", "lease_until": SOMEDAY, "in_doubt": 1},
    "submitted": {
        "status": "submitted",
        "in_doubt": 1,
        "evidence_rank": 1,
        "evidence_at": LONG_AGO,
        "evidence_key": "k",
    },
    **{
        status: {"status": status, "final_at": LONG_AGO, "in_doubt": 1}
        for status in ("delivered", "failed", "unconfirmed", "suppressed", "cancelled", "expired")
    },
    "dead": {"status": "dead", "reason": "rejected"},
    "discarded": {
        "status": "dead",
        "reason": "outcome_unknown",
        "in_doubt": 1,
        "discarded_at": LONG_AGO,
        "final_at": LONG_AGO,
    },
    "attempt_open": {
        "status": "dead",
        "reason": "crash_loop",
        "in_doubt": 1,
        "attempt_id": uuid4(),
    },
}


@pytest.mark.parametrize("finding", list(Finding))
@pytest.mark.parametrize("fate", COLUMNS)
def test_what_is_not_in_doubt_is_left_alone_and_its_fate_is_told(
    owner: psycopg.Connection, operator: Database, fate: str, finding: Finding
) -> None:
    (id,) = add_notifications(owner)
    arrange(owner, id, **COLUMNS[fate])
    before = row_of(owner, id)
    assert settled(operator, id, finding) == fate
    assert (row_of(owner, id), moves_of(owner, id)) == (before, [])
    assert owner.execute("SELECT count(*) FROM receipts").fetchone() == (0,)
    assert [result for _, _, result in actions_of(owner)] == [{"fate": fate}]


def test_every_status_but_uncertain_was_tried() -> None:
    assert {one["status"] for one in COLUMNS.values()} == set(Status) - {Status.UNCERTAIN}


@pytest.mark.parametrize("finding", list(Finding))
def test_nothing_is_settled_for_an_id_that_nothing_has(
    owner: psycopg.Connection, operator: Database, finding: Finding
) -> None:
    assert settled(operator, uuid4(), finding) == "not_found"
    assert [result for _, _, result in actions_of(owner)] == [{"fate": "not_found"}]


def test_a_neighbour_is_untouched(rows: Waiting, operator: Database) -> None:
    one = rows.uncertain()
    other = rows.uncertain(organization_id=SECOND_ORGANIZATION)
    before = row_of(rows.owner, other.id)
    assert settled(operator, one.id, Finding.NOT_ACCEPTED) == "settled"
    assert row_of(rows.owner, other.id) == before
    assert row_of(rows.owner, other.token, "attempts").outcome == "unknown"


# In whatever order

RANKS = [Rank.NONE, Rank.ACCEPTED, Rank.SOFT_FAILURE, Rank.DELIVERED, Rank.HARD_FAILURE]
REASONED = (Rank.SOFT_FAILURE, Rank.HARD_FAILURE)


def end_of(row: Row) -> tuple[Any, ...]:
    return (row.status, row.reason, row.evidence_rank, row.evidence_at, row.in_doubt, row.final_at)


@pytest.mark.parametrize("finding", [Finding.ACCEPTED, Finding.DELIVERED])
def test_what_was_found_out_and_reports_in_every_order_give_one_end(
    owner: psycopg.Connection, operator: Database, database: Database, finding: Finding
) -> None:
    """The finding comes first: after a report that proves something there is no doubt to settle.
    The reports happened before what was found out, or after it."""
    now = now_of(owner)
    ends: dict[tuple[frozenset[Rank], int], tuple[Any, ...]] = {}
    for minutes in (-1, 1):
        for size in range(4):
            for order in permutations(RANKS, size):
                (id,) = add_notifications(owner)
                arrange(owner, id, status="uncertain", in_doubt=1, attempt_id=uuid4())
                assert settled(operator, id, finding, now=now) == "settled"
                for rank in order:
                    at = now + timedelta(minutes=minutes)
                    tell(database, report(id, rank, occurred_at=at), now=now)
                row = row_of(owner, id)
                key = (frozenset(order), minutes)
                assert ends.setdefault(key, end_of(row)) == end_of(row), order
                own = Rank.ACCEPTED if finding is Finding.ACCEPTED else Rank.DELIVERED
                best = max([*order, own])
                assert (row.status, row.evidence_rank) == (STATUS_OF_RANK[best], best)
                assert row.reason == (best.name.lower() if best in REASONED else None)
                earlier = best in order and (best != own or minutes < 0)
                assert row.evidence_at == (now + timedelta(minutes=minutes) if earlier else now)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("rank", RANKS[1:])
def test_after_a_report_there_is_nothing_left_to_settle(
    rows: Waiting, operator: Database, source: str, rank: Rank
) -> None:
    opening = getattr(rows, source)()
    tell(rows.database, report(opening.id, rank, attempt_id=opening.token))
    before = row_of(rows.owner, opening.id)
    assert (before.status, before.in_doubt) == (STATUS_OF_RANK[rank], 0)
    for finding in Finding:
        assert settled(operator, opening.id, finding) == STATUS_OF_RANK[rank]
    assert row_of(rows.owner, opening.id) == before


def test_a_note_settles_nothing_and_hinders_nothing(rows: Waiting, operator: Database) -> None:
    opening = rows.uncertain()
    tell(rows.database, report(opening.id, Rank.NONE, attempt_id=opening.token))
    assert row_of(rows.owner, opening.id).status == "uncertain"
    assert settled(operator, opening.id, Finding.DELIVERED) == "settled"
    assert row_of(rows.owner, opening.id).status == "delivered"


@pytest.mark.parametrize("rank", RANKS[1:])
def test_a_report_about_the_attempt_beats_an_operator_who_found_that_nothing_was_accepted(
    rows: Waiting, operator: Database, rank: Rank
) -> None:
    """The ledger says accepted then, whatever somebody had concluded."""
    opening = rows.uncertain()
    assert settled(operator, opening.id, Finding.NOT_ACCEPTED) == "settled"
    tell(rows.database, report(opening.id, rank, attempt_id=opening.token))
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.in_doubt) == (STATUS_OF_RANK[rank], 0)
    assert row_of(rows.owner, opening.token, "attempts").outcome == "accepted"
    assert lease(rows.database) == []


# Audit


@pytest.mark.parametrize("finding", list(Finding))
def test_a_finding_and_its_audit_stand_or_fall_together(
    rows: Waiting, login: Login, finding: Finding
) -> None:
    opening, asked = rows.uncertain(), action("uncertain.settle", finding=finding)
    before = row_of(rows.owner, opening.id)
    with connected(operator_of(login), "operator", kind=HeldDatabase) as (operator,):
        assert settled(operator, opening.id, finding, asked) == "settled"
        operator.rollback()
        assert (row_of(rows.owner, opening.id), actions_of(rows.owner)) == (before, [])
        assert rows.owner.execute("SELECT count(*) FROM receipts").fetchone() == (0,)
        assert row_of(rows.owner, opening.token, "attempts").outcome == "unknown"
        assert settled(operator, opening.id, finding, asked) == "settled"
        operator.commit()
    assert row_of(rows.owner, opening.id) != before
    assert actions_of(rows.owner) == [(asked.id, "uncertain.settle", {"fate": "settled"})]


@pytest.mark.parametrize("finding", list(Finding))
def test_a_finding_whose_commit_was_not_answered_settles_once_and_says_so(
    rows: Waiting, login: Login, finding: Finding
) -> None:
    opening, asked = rows.uncertain(), action("uncertain.settle")
    with losing_its_first_commit(operator_of(login)) as operator:
        answer = settle(operator, opening.id, finding=finding, action=asked)
    assert answer == Fate(id=opening.id, fate="settled")
    assert len(transitions_by(rows.owner, asked.id)) == 1
    assert len(actions_of(rows.owner)) == 1
    told = rows.owner.execute("SELECT count(*) FROM receipts").fetchone()
    assert told == (int(finding in (Finding.ACCEPTED, Finding.DELIVERED)),)


def test_a_finding_about_what_was_discarded_changes_nothing(
    rows: Waiting, operator: Database
) -> None:
    opening = rows.undecided()
    assert discarded(operator, opening.id) == ["discarded"]
    before = row_of(rows.owner, opening.id)
    assert settled(operator, opening.id, Finding.ACCEPTED) == "discarded"
    assert row_of(rows.owner, opening.id) == before


def test_the_next_attempt_after_not_accepted_has_what_is_left_of_the_budget(
    rows: Waiting, operator: Database
) -> None:
    opening = rows.uncertain(max_attempts=2)
    assert settled(operator, opening.id, Finding.NOT_ACCEPTED) == "settled"
    (leased,) = lease(rows.database)
    again = opening_of(leased)
    assert begin_one(rows.database, again, provider="http_keyless").attempts_spent == 2
    assert close_one(rows.database, again, Transient(), keyed=False) == "dead"
    assert row_of(rows.owner, opening.id).reason == "budget_spent"
