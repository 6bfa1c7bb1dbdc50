"""Close: what each outcome makes of its notification, and what the ledger keeps."""

from datetime import timedelta

import psycopg
import pytest

from functions.core.outcome import (
    Accepted,
    Answer,
    Blocked,
    Outcome,
    Refused,
    Rejected,
    Throttled,
    Transient,
    Unknown,
)
from functions.store.close import Closing, close
from functions.store.connection import Database
from functions.store.survey import promote
from tests.fakes import add_notifications, moves_of, row_of
from tests.steps import (
    begin_one,
    begun,
    channel_of,
    close_one,
    declaration_of,
    lease,
    now_of,
    opening_of,
)

WAITING_LIMIT_SECONDS = 72 * 3_600


@pytest.mark.parametrize(
    ("outcome", "status", "reason", "spent"),
    [
        (Accepted(reference="m-1"), "submitted", None, 1),
        (Accepted(reference="m-1", final=True), "delivered", None, 1),
        (Rejected(code="400"), "dead", "rejected", 1),
        (Refused(code="opted_out"), "suppressed", "refused", 1),
        (Transient(code="503"), "pending", None, 1),
        (Transient(begun=False), "pending", None, 0),
        (Throttled(retry_after_seconds=3), "pending", None, 0),
        (Blocked(code="401"), "pending", None, 0),
        (Unknown(), "pending", None, 1),
    ],
    ids=lambda value: value.name if isinstance(value, Answer) else None,
)
def test_an_outcome_moves_its_notification(
    owner: psycopg.Connection,
    database: Database,
    outcome: Outcome,
    status: str,
    reason: str | None,
    spent: int,
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    assert close_one(database, opening, outcome) == status
    row, attempt = row_of(owner, id), row_of(owner, opening.token, "attempts")
    assert (row.status, row.reason, row.attempts_spent) == (status, reason, spent)
    assert (row.attempt_id, row.lease_until) == (None, None)
    assert (attempt.outcome, attempt.code) == (outcome.name, outcome.code)
    assert attempt.finished_at is not None
    assert (row.final_at is not None) == (status in {"delivered", "suppressed"})
    assert moves_of(owner, id) == [("sender", "leased", status, reason or outcome.name)]


def test_the_ledger_keeps_the_answer(owner: psycopg.Connection, database: Database) -> None:
    add_notifications(owner)
    opening = begun(database)
    answer = Accepted(reference="m-1", code="ok", detail="queued", http_status=202)
    close_one(database, opening, answer)
    attempt = row_of(owner, opening.token, "attempts")
    assert (attempt.reference, attempt.code, attempt.detail) == ("m-1", "ok", "queued")
    assert attempt.http_status == 202


def test_acceptance_is_evidence_and_starts_the_checks(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    opening, now = begun(database), now_of(owner)
    close_one(database, opening, Accepted(reference="m-1"), now=now)
    row = row_of(owner, id)
    assert (row.evidence_rank, row.evidence_at, row.evidence_key) == (1, now, str(opening.token))
    assert row.submitted_at == now
    assert row.next_check_at == now + timedelta(seconds=30)


def test_the_first_check_never_lies_beyond_the_cutoff(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    owner.execute("UPDATE channels SET cutoff_seconds = 10")
    opening, now = begun(database), now_of(owner)
    close_one(database, opening, Accepted(reference="m-1"), now=now)
    assert row_of(owner, id).next_check_at == now + timedelta(seconds=10)


def test_a_retry_waits_outside_the_claims_index_until_it_is_due(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    opening, now = begun(database), now_of(owner)
    close_one(database, opening, Transient(), again_seconds=60, now=now)
    row = row_of(owner, id)
    assert (row.ready, row.available_at) == (False, now + timedelta(seconds=60))
    assert row.eligible_at < now  # what the objective is measured from is never moved by backoff


def test_a_retry_at_once_is_ready_at_once(owner: psycopg.Connection, database: Database) -> None:
    (id,) = add_notifications(owner)
    close_one(database, begun(database), Transient(begun=False), again_seconds=None)
    assert row_of(owner, id).ready
    assert len(lease(database)) == 1


def test_a_spent_budget_is_held(owner: psycopg.Connection, database: Database) -> None:
    (id,) = add_notifications(owner, max_attempts=2)
    assert close_one(database, begun(database), Transient(), again_seconds=None) == "pending"
    assert close_one(database, begun(database), Transient(), again_seconds=None) == "dead"
    assert (row_of(owner, id).reason, row_of(owner, id).attempts_spent) == ("budget_spent", 2)


def test_throttled_and_blocked_never_spend_the_budget(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner, max_attempts=1)
    at = now_of(owner)
    for outcome in (Throttled(), Blocked(), Throttled()):
        opening = begun(database, now=at)
        assert close_one(database, opening, outcome, again_seconds=None, now=at) == "pending"
        at = row_of(owner, id).available_at
        promote(database, now=at)
    assert row_of(owner, id).attempts_spent == 0


def test_a_budget_spent_in_doubt_says_that_the_outcome_is_unknown(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner, max_attempts=2)
    close_one(database, begun(database), Unknown(), again_seconds=None)
    assert row_of(owner, id).in_doubt == 1
    assert close_one(database, begun(database), Transient(), again_seconds=None) == "dead"
    assert row_of(owner, id).reason == "outcome_unknown"


def test_an_unknown_outcome_that_spends_the_budget_is_held_as_such(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner, max_attempts=1)
    assert close_one(database, begun(database), Unknown()) == "dead"
    assert (row_of(owner, id).reason, row_of(owner, id).in_doubt) == ("outcome_unknown", 1)


@pytest.mark.parametrize(("keyed", "reason"), [(True, "rejected"), (False, "outcome_unknown")])
def test_rejected_in_doubt_is_certain_only_under_a_key(
    owner: psycopg.Connection, database: Database, keyed: bool, reason: str
) -> None:
    (id,) = add_notifications(owner)
    close_one(database, begun(database), Unknown(), again_seconds=None)
    assert close_one(database, begun(database), Rejected(), keyed=keyed) == "dead"
    assert row_of(owner, id).reason == reason


def test_refused_in_doubt_ends_unconfirmed(owner: psycopg.Connection, database: Database) -> None:
    (id,) = add_notifications(owner)
    close_one(database, begun(database), Unknown(), again_seconds=None)
    assert close_one(database, begun(database), Refused()) == "unconfirmed"
    assert (row_of(owner, id).reason, row_of(owner, id).in_doubt) == ("refused", 1)


def test_an_unknown_outcome_without_keys_is_uncertain_and_keeps_its_attempt(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    opening, now = begun(database), now_of(owner)
    assert close_one(database, opening, Unknown(), keyed=False, now=now) == "uncertain"
    row = row_of(owner, id)
    assert (row.attempt_id, row.in_doubt, row.lease_until) == (opening.token, 1, None)
    assert row.next_check_at == now + timedelta(seconds=900)  # the grace of email
    assert lease(database) == []


@pytest.mark.parametrize(
    ("late", "status"),
    [
        (Accepted(reference="m-1"), "submitted"),
        (Transient(), "pending"),
        (Rejected(), "dead"),
        (Refused(), "suppressed"),
    ],
    ids=lambda value: value.name if isinstance(value, Answer) else None,
)
def test_a_late_known_outcome_settles_an_uncertain_row(
    owner: psycopg.Connection, database: Database, late: Outcome, status: str
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    close_one(database, opening, Unknown(), keyed=False)
    assert close_one(database, opening, late, keyed=False) == status
    row = row_of(owner, id)
    assert (row.status, row.in_doubt, row.attempt_id) == (status, 0, None)
    assert row_of(owner, opening.token, "attempts").outcome == late.name


def test_of_two_acceptances_the_earlier_one_counts_as_the_submission(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    first, start = begun(database), now_of(owner)
    assert close_one(database, first, Unknown(), again_seconds=0, now=start) == "pending"
    second = begun(database)
    close_one(database, first, Accepted(reference="m-1"), now=start + timedelta(seconds=3))
    close_one(database, second, Accepted(reference="m-2"), now=start + timedelta(seconds=9))
    assert row_of(owner, id).submitted_at == start


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize(
    "outcome",
    [
        Accepted(reference="m-1"),
        Transient(code="503"),
        Rejected(),
        Refused(),
        Throttled(),
        Unknown(),
    ],
    ids=lambda outcome: outcome.name,
)
def test_a_repeated_close_changes_nothing(
    owner: psycopg.Connection, database: Database, outcome: Outcome, keyed: bool
) -> None:
    (id,) = add_notifications(owner)
    opening, now = begun(database), now_of(owner)
    first = close_one(database, opening, outcome, keyed=keyed, now=now)
    before = row_of(owner, id), row_of(owner, opening.token, "attempts"), moves_of(owner, id)
    later = now + timedelta(seconds=7)
    assert close_one(database, opening, outcome, keyed=keyed, now=later) == first
    after = row_of(owner, id), row_of(owner, opening.token, "attempts"), moves_of(owner, id)
    assert before == after
    facts = owner.execute("SELECT count(*) FROM suppressions").fetchone()
    assert facts == (1 if outcome.name == "refused" else 0,)


def test_a_known_outcome_is_not_replaced(owner: psycopg.Connection, database: Database) -> None:
    add_notifications(owner)
    opening = begun(database)
    close_one(database, opening, Transient(code="503", http_status=503))
    assert close_one(database, opening, Unknown(code="timeout")) is None
    attempt = row_of(owner, opening.token, "attempts")
    assert (attempt.outcome, attempt.code, attempt.http_status) == ("transient", "503", 503)


def test_a_refusal_states_a_fact_about_the_address(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    close_one(database, begun(database), Refused(code="dead_token"))
    fact = owner.execute(
        "SELECT recipient, channel, kind, source, evidence ->> 'code' FROM suppressions"
    ).fetchone()
    assert fact == ("ok@example.com", "email", "suppress", "provider", "dead_token")
    assert row_of(owner, id).final_at is not None


def test_throttled_for_too_long_is_held(owner: psycopg.Connection, database: Database) -> None:
    (id,) = add_notifications(owner)
    start = now_of(owner)
    status = close_one(database, begun(database), Throttled(), again_seconds=None, now=start)
    assert (status, row_of(owner, id).waiting_since) == ("pending", start)
    almost = start + timedelta(seconds=WAITING_LIMIT_SECONDS - 1)
    opening = begun(database, now=almost)
    assert close_one(database, opening, Blocked(), again_seconds=None, now=almost) == "pending"
    assert row_of(owner, id).waiting_since == start
    end = start + timedelta(seconds=WAITING_LIMIT_SECONDS + 3600)
    promote(database, now=end)
    opening = begun(database, now=end)
    assert close_one(database, opening, Throttled(), again_seconds=None, now=end) == "dead"
    assert row_of(owner, id).reason == "waited_too_long"


def test_another_answer_in_between_ends_the_waiting(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    start = now_of(owner)
    close_one(database, begun(database), Throttled(), again_seconds=None, now=start)
    close_one(database, begun(database), Transient(), again_seconds=None, now=start)
    assert row_of(owner, id).waiting_since is None


@pytest.mark.parametrize("doubt", [False, True])
def test_a_retry_due_after_the_expiry_ends_it_now(
    owner: psycopg.Connection, database: Database, doubt: bool
) -> None:
    (id,) = add_notifications(owner, expires_in_seconds=600)
    outcome = Unknown() if doubt else Transient()
    status = close_one(database, begun(database), outcome, again_seconds=601)
    assert status == ("unconfirmed" if doubt else "expired")
    row = row_of(owner, id)
    assert row.reason == "expired"
    assert row.final_at is not None


def test_a_retry_due_before_the_expiry_waits_for_it(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner, expires_in_seconds=600)
    assert close_one(database, begun(database), Transient(), again_seconds=300) == "pending"
    assert promote(database, now=now_of(owner, seconds=301)) == 1
    assert row_of(owner, id).ready


def test_a_close_resets_the_starts(owner: psycopg.Connection, database: Database) -> None:
    (id,) = add_notifications(owner)
    owner.execute("UPDATE notifications SET starts = 4")
    close_one(database, begun(database), Transient())
    assert row_of(owner, id).starts == 0


def test_a_set_closes_each_as_it_came_out(owner: psycopg.Connection, database: Database) -> None:
    ids = add_notifications(owner, 4)
    openings = {row.id: opening_of(row) for row in lease(database)}
    for opening in openings.values():
        begin_one(database, opening)
    outcomes = (Accepted(reference="m-1"), Rejected(), Transient(), Unknown())
    closings = [
        Closing(
            id=id,
            lease_number=1,
            token=openings[id].token,
            outcome=outcome,
            again_seconds=10,
        )
        for id, outcome in zip(ids, outcomes, strict=True)
    ]
    closed = close(
        database, closings, channel=channel_of(database), declaration=declaration_of("http")
    )
    statuses = [closed[id].status for id in ids]
    assert statuses == ["submitted", "dead", "pending", "pending"]
    assert [row_of(owner, id).status for id in ids] == statuses


def test_seconds_may_be_whole_or_not_within_one_set(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = add_notifications(owner, 4)
    openings = [opening_of(row) for row in lease(database)]
    for opening in openings:
        begin_one(database, opening)
    answers = zip(openings, (None, 7, 7.4, 0), strict=True)
    closings = [
        Closing(
            id=opening.id,
            lease_number=1,
            token=opening.token,
            outcome=Throttled(retry_after_seconds=seconds),
            again_seconds=seconds,
        )
        for opening, seconds in answers
    ]
    close(database, closings, channel=channel_of(database), declaration=declaration_of("http"))
    assert {row_of(owner, id).status for id in ids} == {"pending"}
    kept = owner.execute("SELECT retry_after_seconds FROM attempts ORDER BY 1").fetchall()
    assert kept == [(0,), (7,), (7,), (None,)]


def test_d5_who_is_throttled_again_and_again_waits_longer_and_longer(
    owner: psycopg.Connection, database: Database
) -> None:
    owner.execute("UPDATE channels SET backoff_base_seconds = 60, backoff_cap_seconds = 1800")
    (id,) = add_notifications(owner)
    at, waits = now_of(owner), list[float]()
    for _ in range(12):
        promote(database, now=at)
        close_one(database, begun(database, now=at), Throttled(), again_seconds=30, now=at)
        row = row_of(owner, id)
        waits.append((row.available_at - at).total_seconds())
        at = row.available_at
    assert waits[:2] == [30, 30]
    assert all(wait >= 30 for wait in waits)
    assert 900 <= waits[-1] <= 1800
    assert row_of(owner, id).attempts_spent == 0
