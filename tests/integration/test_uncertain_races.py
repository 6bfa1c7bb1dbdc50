"""An operator's finding when something else happens: a late close, a look, a report, a sweep."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.evidence import Rank
from functions.core.login import Login
from functions.core.outcome import Accepted, Outcome, Rejected, Transient, Unknown
from functions.core.states import Finding
from functions.store.check import Checked, check, record_never_accepted
from functions.store.connection import Database
from functions.store.uncertain import settle
from tests.fakes import HeldDatabase, moves_of, row_of
from tests.operating import (
    ALL,
    Waiting,
    action,
    attempts_of,
    operating,
    operator_of,
    report,
    tell,
)
from tests.steps import begin_one, close_one, connected, lease, now_of, opening_of, waiting


@pytest.fixture
def rows(owner: psycopg.Connection, database: Database) -> Waiting:
    return Waiting(owner=owner, database=database)


@pytest.fixture
def operator(login: Login) -> Iterator[Database]:
    with operating(login) as database:
        yield database


@pytest.fixture
def first(login: Login) -> Iterator[HeldDatabase]:
    """An operator whose transaction stays open until the test ends it."""
    with connected(operator_of(login), "first", kind=HeldDatabase) as (database,):
        yield database


@pytest.fixture
def function(login: Login) -> Iterator[Database]:
    with connected(login, "function", kind=Database) as (database,):
        yield database


@pytest.fixture
def held(login: Login) -> Iterator[HeldDatabase]:
    """A function whose transaction stays open until the test ends it."""
    with connected(login, "held", kind=HeldDatabase) as (database,):
        yield database


def settled(operator: Database, id: UUID, finding: Finding) -> str:
    return settle(operator, id, finding=finding, action=action("uncertain.settle")).fate


ACCEPTANCE = Accepted(reference="m-1")
LATE: list[tuple[Outcome, str]] = [
    (ACCEPTANCE, "accepted"),
    (Transient(code="409"), "transient"),
    (Rejected(code="400"), "rejected"),
    (Unknown(code="timeout"), "unknown"),
]

# What a finding leaves of a row, and of the doubt.
FOUND = {
    Finding.ACCEPTED: ("submitted", 0),
    Finding.DELIVERED: ("delivered", 0),
    Finding.NOT_ACCEPTED: ("pending", 0),
    Finding.HOLD: ("dead", 1),
}
SOURCES = ["uncertain", "undecided"]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("finding", list(Finding))
@pytest.mark.parametrize(("outcome", "ledger"), LATE, ids=[ledger for _, ledger in LATE])
def test_a_late_close_that_waited_for_the_finding(
    rows: Waiting,
    first: HeldDatabase,
    function: Database,
    source: str,
    finding: Finding,
    outcome: Outcome,
    ledger: str,
) -> None:
    """Acceptance wins over whatever was concluded. Nothing else moves what a person decided."""
    opening = getattr(rows, source)()
    fate = settled(first, opening.id, finding)
    assert fate == ("dead" if (source, finding) == ("undecided", Finding.HOLD) else "settled")

    def close_late() -> object:
        return close_one(function, opening, outcome, keyed=False)

    with waiting(rows.owner, "function", close_late):
        first.commit()
    status, doubt = FOUND[finding]
    row, attempt = row_of(rows.owner, opening.id), row_of(rows.owner, opening.token, "attempts")
    if ledger == "accepted":
        assert (row.status, row.in_doubt) == (
            "delivered" if finding is Finding.DELIVERED else "submitted",
            0,
        )
        assert attempt.outcome == "accepted"
        assert lease(rows.database) == []
        return
    assert row.status == status
    known = finding is not Finding.HOLD  # by the finding, before the close
    assert row.in_doubt == (doubt if known or ledger == "unknown" else 0)
    concluded = {Finding.NOT_ACCEPTED: "transient", Finding.HOLD: ledger}
    assert attempt.outcome == concluded.get(finding, "accepted")
    if finding is Finding.NOT_ACCEPTED:
        assert attempt.settled == "settled_not_accepted"


@pytest.mark.parametrize("finding", list(Finding))
@pytest.mark.parametrize(
    ("outcome", "status"),
    [(ACCEPTANCE, "submitted"), (Transient(code="409"), "pending"), (Rejected(code="400"), "dead")],
    ids=["accepted", "transient", "rejected"],
)
def test_a_finding_that_waited_for_a_late_close_has_nothing_to_settle(
    rows: Waiting,
    held: HeldDatabase,
    operator: Database,
    finding: Finding,
    outcome: Outcome,
    status: str,
) -> None:
    opening = rows.uncertain()
    assert close_one(held, opening, outcome, keyed=False) == status
    with waiting(rows.owner, "operator", lambda: settled(operator, opening.id, finding)) as fate:
        held.commit()
    assert fate.result() == status
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.in_doubt) == (status, 0)


def test_acceptance_after_not_accepted_stops_the_attempt_that_was_begun_meanwhile(
    rows: Waiting, operator: Database
) -> None:
    opening = rows.uncertain()
    assert settled(operator, opening.id, Finding.NOT_ACCEPTED) == "settled"
    (leased,) = lease(rows.database)
    again = opening_of(leased)
    begin_one(rows.database, again, provider="http_keyless")
    assert close_one(rows.database, opening, ACCEPTANCE, keyed=False) == "submitted"
    close_one(rows.database, again, Transient(), keyed=False)
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.attempt_id, row.lease_until, row.in_doubt) == (
        "submitted",
        None,
        None,
        0,
    )
    assert [outcome for _, _, outcome, _ in attempts_of(rows.owner, opening.id)] == [
        "accepted",
        "transient",
    ]
    assert row_of(rows.owner, opening.token, "attempts").reference == "m-1"


@pytest.mark.parametrize("by", ["an operator", "a report"])
@pytest.mark.parametrize("final", [False, True])
def test_the_acceptance_itself_is_evidence_after_others_had_concluded_it(
    rows: Waiting, operator: Database, by: str, final: bool
) -> None:
    """Its reference is kept, by which later reports find it, and a final one is a delivery."""
    opening = rows.uncertain()
    if by == "an operator":
        assert settled(operator, opening.id, Finding.ACCEPTED) == "settled"
    else:
        tell(rows.database, report(opening.id, Rank.ACCEPTED, attempt_id=opening.token))
    late = Accepted(reference="m-1", final=final)
    close_one(rows.database, opening, late, keyed=False)
    row, attempt = row_of(rows.owner, opening.id), row_of(rows.owner, opening.token, "attempts")
    assert row.status == ("delivered" if final else "submitted")
    assert (row.evidence_rank, row.in_doubt) == (3 if final else 1, 0)
    assert (attempt.outcome, attempt.reference) == ("accepted", "m-1")
    assert attempt.evidence_rank == row.evidence_rank
    moves = moves_of(rows.owner, opening.id)
    close_one(rows.database, opening, late, keyed=False)  # its COMMIT's answer was lost
    assert (row_of(rows.owner, opening.id), moves_of(rows.owner, opening.id)) == (row, moves)
    by_reference = report(
        opening.id, Rank.HARD_FAILURE, idempotency_key=None, reference="m-1", provider="http"
    )
    tell(rows.database, by_reference)
    assert row_of(rows.owner, opening.id).status == "failed"


@pytest.mark.parametrize("policy", ["retry", "hold"])
@pytest.mark.parametrize("finding", list(Finding))
def test_a_look_leaves_what_is_just_being_settled_alone(
    rows: Waiting, first: HeldDatabase, policy: str, finding: Finding
) -> None:
    rows.owner.execute("UPDATE channels SET unknown_policy = %s", [policy])
    opening = rows.uncertain()
    later = now_of(rows.owner, hours=1)
    assert settled(first, opening.id, finding) == "settled"
    assert check(rows.database, declarations=ALL, now=later) == Checked()
    first.commit()
    looked = check(rows.database, declarations=ALL, now=later)
    assert (looked.retried, looked.held) == (0, 0)
    assert row_of(rows.owner, opening.id).status == FOUND[finding][0]


@pytest.mark.parametrize(
    ("policy", "finding", "fate", "status"),
    [
        ("retry", Finding.ACCEPTED, "pending", "pending"),
        ("retry", Finding.NOT_ACCEPTED, "pending", "pending"),
        ("retry", Finding.HOLD, "pending", "pending"),
        ("hold", Finding.ACCEPTED, "settled", "submitted"),
        ("hold", Finding.DELIVERED, "settled", "delivered"),
        ("hold", Finding.NOT_ACCEPTED, "settled", "pending"),
        ("hold", Finding.HOLD, "dead", "dead"),
    ],
)
def test_a_finding_that_waited_for_the_policys_decision(
    rows: Waiting,
    held: HeldDatabase,
    operator: Database,
    policy: str,
    finding: Finding,
    fate: str,
    status: str,
) -> None:
    """What is held can still be settled; what is due again, under its doubt, goes its way."""
    rows.owner.execute("UPDATE channels SET unknown_policy = %s", [policy])
    opening = rows.uncertain()
    looked = check(held, declarations=ALL, now=now_of(rows.owner, hours=1))
    assert looked.retried + looked.held == 1
    with waiting(rows.owner, "operator", lambda: settled(operator, opening.id, finding)) as told:
        held.commit()
    assert told.result() == fate
    assert row_of(rows.owner, opening.id).status == status


@pytest.mark.parametrize("finding", list(Finding))
def test_a_report_that_waited_for_the_finding_decides_by_its_rank(
    rows: Waiting, first: HeldDatabase, function: Database, finding: Finding
) -> None:
    opening = rows.uncertain()
    assert settled(first, opening.id, finding) == "settled"
    said = report(opening.id, Rank.HARD_FAILURE, attempt_id=opening.token)
    with waiting(rows.owner, "function", lambda: tell(function, said)):
        first.commit()
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.evidence_rank, row.in_doubt) == ("failed", 4, 0)
    assert row_of(rows.owner, opening.token, "attempts").outcome == "accepted"


@pytest.mark.parametrize("finding", list(Finding))
def test_a_finding_that_waited_for_a_report_has_nothing_to_settle(
    rows: Waiting, held: HeldDatabase, operator: Database, finding: Finding
) -> None:
    opening = rows.uncertain()
    tell(held, report(opening.id, attempt_id=opening.token))
    with waiting(rows.owner, "operator", lambda: settled(operator, opening.id, finding)) as fate:
        held.commit()
    assert fate.result() == "delivered"
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.evidence_rank, row.in_doubt) == ("delivered", 3, 0)


@pytest.mark.parametrize("finding", list(Finding))
def test_the_providers_word_that_it_never_accepted_comes_too_late_for_a_finding(
    rows: Waiting, first: HeldDatabase, function: Database, finding: Finding
) -> None:
    opening = rows.uncertain()
    later = now_of(rows.owner, hours=1)
    assert settled(first, opening.id, finding) == "settled"

    def never_accepted() -> Any:
        return record_never_accepted(function, [opening.id], now=later)

    with waiting(rows.owner, "function", never_accepted) as count:
        first.commit()
    assert count.result() == 0
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.in_doubt) == FOUND[finding]


@pytest.mark.parametrize("finding", list(Finding))
def test_a_finding_comes_too_late_for_the_providers_word(
    rows: Waiting, held: HeldDatabase, operator: Database, finding: Finding
) -> None:
    opening = rows.uncertain()
    assert record_never_accepted(held, [opening.id], now=now_of(rows.owner, hours=1)) == 1
    with waiting(rows.owner, "operator", lambda: settled(operator, opening.id, finding)) as fate:
        held.commit()
    assert fate.result() == "pending"
    assert moves_of(rows.owner, opening.id)[-1][3] == "never_accepted"
    assert row_of(rows.owner, opening.id).in_doubt == 0


@pytest.mark.parametrize("one", list(Finding))
@pytest.mark.parametrize("other", list(Finding))
def test_of_two_operators_at_once_the_first_settles(
    rows: Waiting, first: HeldDatabase, operator: Database, one: Finding, other: Finding
) -> None:
    """What the first one only holds is still in doubt, and the second may know more."""
    opening = rows.uncertain()
    assert settled(first, opening.id, one) == "settled"
    with waiting(rows.owner, "operator", lambda: settled(operator, opening.id, other)) as fate:
        first.commit()
    status, _ = FOUND[one]
    decides = other if one is Finding.HOLD and other is not Finding.HOLD else one
    assert fate.result() == ("settled" if decides is not one else status)
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.in_doubt) == FOUND[decides]
