"""What is held: listed, told what a requeue would come to, or let rest; each command kept."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.core.evidence import Rank
from functions.core.login import Login
from functions.core.outcome import Accepted, Rejected
from functions.core.states import Status
from functions.store.action import Action, Fate
from functions.store.connection import Database
from functions.store.held import discard, preview, requeue
from functions.store.held_list import list_held
from tests.fakes import (
    FIRST_ORGANIZATION,
    SECOND_ORGANIZATION,
    HeldDatabase,
    add_notifications,
    moves_of,
    row_of,
)
from tests.operating import (
    ALL,
    LONG_AGO,
    REASONS,
    SOMEDAY,
    Waiting,
    action,
    actions_of,
    arrange,
    discarded,
    operating,
    operator_of,
    report,
    requeued,
    tell,
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


# Listing


def test_what_is_held_is_listed_with_why_and_since_when(rows: Waiting, operator: Database) -> None:
    opening = rows.rejected()
    (held,) = list_held(operator)
    row = row_of(rows.owner, opening.id)
    assert (held.id, held.organization_id) == (opening.id, FIRST_ORGANIZATION)
    assert (held.channel, held.priority, held.reason) == ("email", "normal", "rejected")
    assert (held.provider, held.attempts_spent, held.max_attempts) == ("http", 1, 5)
    assert (held.in_doubt, held.created_at) == (0, row.created_at)
    assert (held.last_code, held.last_http_status) == ("400", 400)
    last = "SELECT at FROM transitions WHERE notification_id = %s ORDER BY id DESC LIMIT 1"
    assert (held.held_at,) == rows.owner.execute(last, [opening.id]).fetchone()


def test_since_when_it_is_held_is_not_moved_by_what_is_learnt_later(
    rows: Waiting, operator: Database
) -> None:
    opening = rows.crashed()
    (before,) = list_held(operator)
    close_one(rows.database, opening, Rejected(code="400"))
    (after,) = list_held(operator)
    assert (before.in_doubt, after.in_doubt) == (1, 0)
    assert before.held_at == after.held_at < row_of(rows.owner, opening.id).updated_at


def test_what_was_never_attempted_is_listed_too(
    owner: psycopg.Connection, operator: Database
) -> None:
    (id,) = add_notifications(owner)
    arrange(owner, id, status="dead", reason="unreadable")
    (held,) = list_held(operator)
    assert (held.id, held.provider, held.last_code, held.last_http_status) == (id, None, None, None)


def test_the_last_attempt_is_the_one_that_is_told(rows: Waiting, operator: Database) -> None:
    opening = rows.rejected()
    assert requeued(operator, opening.id) == ["requeued"]
    (leased,) = lease(rows.database)
    second = opening_of(leased)
    begin_one(rows.database, second)
    close_one(rows.database, second, Rejected(code="422", http_status=422))
    (held,) = list_held(operator)
    assert (held.last_code, held.last_http_status) == ("422", 422)


def test_a_list_is_narrowed_by_each_of_its_filters_and_by_all(
    owner: psycopg.Connection, operator: Database
) -> None:
    made: dict[tuple[UUID, str, str], UUID] = {}
    for organization in (FIRST_ORGANIZATION, SECOND_ORGANIZATION):
        for channel in ("email", "sms", "push", "webhook"):
            for reason in ("rejected", "outcome_unknown"):
                (id,) = add_notifications(owner, organization_id=organization, channel=channel)
                arrange(owner, id, status="dead", reason=reason)
                made[organization, channel, reason] = id

    def ids(**filters: Any) -> set[UUID]:
        return {held.id for held in list_held(operator, **filters)}

    def having(*parts: object) -> set[UUID]:
        return {id for key, id in made.items() if set(parts) <= set(key)}

    assert ids() == set(made.values())
    assert ids(channel="push") == having("push")
    assert ids(reason="rejected") == having("rejected")
    assert ids(organization_id=SECOND_ORGANIZATION) == having(SECOND_ORGANIZATION)
    some = sorted(made.values())[2:5]
    assert ids(ids=[*some, uuid4()]) == set(some)
    assert ids(ids=[]) == set()
    for key, id in made.items():
        organization, channel, reason = key
        narrow = {"organization_id": organization, "channel": channel, "reason": reason}
        assert ids(**narrow) == {id} == ids(**narrow, ids=[id])
    assert ids(organization_id=uuid4()) == set()


def test_pages_follow_each_other_over_all_channels_the_oldest_first(
    owner: psycopg.Connection, operator: Database
) -> None:
    made = [
        arrange(owner, id, status="dead", reason="rejected")
        for channel in ("webhook", "push", "email", "sms", "email")
        for id in add_notifications(owner, 2, channel=channel)
    ]
    found: list[UUID] = []
    after = None
    while page := list_held(operator, after=after, limit=3):
        assert len(page) <= 3
        found += [held.id for held in page]
        after = page[-1].id
    assert found == sorted(made)


def test_only_what_is_held_is_listed(owner: psycopg.Connection, operator: Database) -> None:
    for status in set(Status) - {Status.DEAD}:
        (id,) = add_notifications(owner)
        arrange(owner, id, **COLUMNS_OF[status])
    (rests,) = add_notifications(owner)
    arrange(owner, rests, **DISCARDED)
    assert list_held(operator) == []


# Fates

EVIDENCE = {"evidence_rank": 1, "evidence_at": LONG_AGO, "evidence_key": "k"}
COLUMNS_OF: dict[str, dict[str, Any]] = {
    "pending": {"status": "pending"},
    "leased": {"status": "leased", "lease_number": 9, "lease_until": SOMEDAY},
    "uncertain": {"status": "uncertain", "in_doubt": 1, "attempt_id": uuid4()},
    "submitted": {"status": "submitted", **EVIDENCE},
    **{
        status: {"status": status, "final_at": LONG_AGO}
        for status in ("delivered", "failed", "unconfirmed", "suppressed", "cancelled", "expired")
    },
}
DISCARDED = {
    "status": "dead",
    "reason": "rejected",
    "discarded_at": LONG_AGO,
    "final_at": LONG_AGO,
}
LEFT_ALONE = [
    *(
        (columns, {"pending": "already_scheduled", "leased": "already_scheduled"}.get(status))
        for status, columns in COLUMNS_OF.items()
        if status in ("pending", "leased")
    ),
    (COLUMNS_OF["uncertain"], "awaiting_evidence"),
    *(
        (columns, status)
        for status, columns in COLUMNS_OF.items()
        if status not in ("pending", "leased", "uncertain")
    ),
    (DISCARDED, "discarded"),
    ({"status": "dead", "reason": "rejected", "expires_at": LONG_AGO}, "expired"),
    ({"status": "dead", "reason": "crash_loop", "attempt_id": uuid4()}, "attempt_open"),
    ({"status": "dead", "reason": "outcome_unknown", "in_doubt": 1}, "needs_consent"),
]


@pytest.mark.parametrize(
    ("columns", "fate"), LEFT_ALONE, ids=[f"{c['status']}-{fate}" for c, fate in LEFT_ALONE]
)
def test_what_may_not_be_requeued_is_left_as_it_is_and_its_fate_is_told(
    owner: psycopg.Connection, operator: Database, columns: dict[str, Any], fate: str
) -> None:
    (id,) = add_notifications(owner)
    arrange(owner, id, **columns)
    before = row_of(owner, id)
    seen = preview(operator, [id], may_send_twice=False, declarations=ALL)
    assert seen == [Fate(id=id, fate=fate)]
    assert requeued(operator, id) == [fate]
    assert (row_of(owner, id), moves_of(owner, id)) == (before, [])
    ((_, _, result),) = actions_of(owner)
    assert result == {"fates": {fate: 1}}


@pytest.mark.parametrize(
    ("columns", "fate"),
    [one for one in LEFT_ALONE if one[1] != "needs_consent"],
    ids=lambda one: one if isinstance(one, str) else None,
)
def test_consent_to_a_duplicate_changes_no_other_fate(
    owner: psycopg.Connection, operator: Database, columns: dict[str, Any], fate: str
) -> None:
    (id,) = add_notifications(owner)
    arrange(owner, id, **columns)
    before = row_of(owner, id)
    assert requeued(operator, id, may_send_twice=True) == [fate]
    assert row_of(owner, id) == before


def test_an_id_that_nothing_has_is_not_found_and_does_not_hold_back_the_others(
    rows: Waiting, operator: Database
) -> None:
    opening, stranger = rows.rejected(), uuid4()
    fates = requeued(operator, stranger, opening.id, opening.id)
    assert fates == ["not_found", "requeued"]
    assert row_of(rows.owner, opening.id).status == "pending"
    assert moves_of(rows.owner, opening.id)[-1] == ("operator", "dead", "pending", "requeued")
    assert len(moves_of(rows.owner, opening.id)) == 2


def test_nobody_requeues_nothing(owner: psycopg.Connection, operator: Database) -> None:
    assert requeued(operator) == []
    assert discarded(operator) == []
    assert [result for _, _, result in actions_of(owner)] == [{"fates": {}}] * 2


@pytest.mark.parametrize("reason", REASONS)
def test_what_is_held_for_each_other_reason_is_requeued_and_the_preview_said_so(
    owner: psycopg.Connection, operator: Database, reason: str
) -> None:
    (id,) = add_notifications(owner)
    arrange(owner, id, status="dead", reason=reason)
    assert preview(operator, [id], may_send_twice=False, declarations=ALL)[0].fate == "requeued"
    assert row_of(owner, id).status == "dead"
    assert requeued(operator, id) == ["requeued"]
    assert row_of(owner, id).status == "pending"


def test_what_expires_later_is_requeued_and_what_expires_now_is_not(
    owner: psycopg.Connection, operator: Database
) -> None:
    (id,) = add_notifications(owner, expires_in_seconds=3600)
    arrange(owner, id, status="dead", reason="rejected")
    end = row_of(owner, id).expires_at
    assert requeued(operator, id, now=end) == ["expired"]
    assert requeued(operator, id, now=end - timedelta(microseconds=1)) == ["requeued"]


# Discard


def test_what_is_discarded_is_final_and_keeps_its_reason(rows: Waiting, operator: Database) -> None:
    opening = rows.rejected()
    now = now_of(rows.owner, seconds=1)
    asked = action("dead.discard", ids=[str(opening.id)], note="the customer left")
    assert discarded(operator, opening.id, asked=asked, now=now) == ["discarded"]
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.reason) == ("dead", "rejected")
    assert row.discarded_at == row.final_at == now
    assert moves_of(rows.owner, opening.id)[-1] == ("operator", "dead", "dead", "discarded")
    assert list_held(operator) == []
    assert discarded(operator, opening.id, now=now) == ["already_discarded"]
    assert row_of(rows.owner, opening.id) == row
    assert [result for _, _, result in actions_of(rows.owner)] == [
        {"fates": {"discarded": 1}},
        {"fates": {"already_discarded": 1}},
    ]


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.DEAD}))
def test_only_what_is_held_is_discarded(
    owner: psycopg.Connection, operator: Database, status: str
) -> None:
    (id,) = add_notifications(owner)
    arrange(owner, id, **COLUMNS_OF[status])
    before = row_of(owner, id)
    assert discarded(operator, id, uuid4()) == [status, "not_found"]
    assert (row_of(owner, id), moves_of(owner, id)) == (before, [])


@pytest.mark.parametrize(
    ("rank", "status"),
    [
        (Rank.ACCEPTED, "submitted"),
        (Rank.SOFT_FAILURE, "failed"),
        (Rank.DELIVERED, "delivered"),
        (Rank.HARD_FAILURE, "failed"),
    ],
)
def test_evidence_wakes_what_was_discarded(
    rows: Waiting, operator: Database, rank: Rank, status: str
) -> None:
    opening = rows.doubtful()
    assert discarded(operator, opening.id) == ["discarded"]
    tell(rows.database, report(opening.id, rank))
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.discarded_at) == (status, None)
    assert (row.final_at is None) is (status == "submitted")


def test_a_late_acceptance_wakes_what_was_discarded(rows: Waiting, operator: Database) -> None:
    opening = rows.crashed(swept=False)
    assert discarded(operator, opening.id) == ["discarded"]
    assert close_one(rows.database, opening, Accepted(reference="m-1")) == "submitted"
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.discarded_at, row.final_at) == ("submitted", None, None)


def test_what_was_discarded_rests_when_its_attempt_turns_out_refused(
    rows: Waiting, operator: Database
) -> None:
    opening = rows.crashed()
    assert discarded(operator, opening.id) == ["discarded"]
    close_one(rows.database, opening, Rejected(code="400"))
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.reason, row.in_doubt) == ("dead", "crash_loop", 0)
    assert row.discarded_at is not None


def test_a_note_about_what_was_discarded_does_not_wake_it(
    rows: Waiting, operator: Database
) -> None:
    opening = rows.rejected()
    assert discarded(operator, opening.id) == ["discarded"]
    before = row_of(rows.owner, opening.id)
    tell(rows.database, report(opening.id, Rank.NONE, type="opened"))
    assert row_of(rows.owner, opening.id) == before


# Audit


Command = Callable[[Database, Sequence[UUID], Action], list[Fate]]


def do_requeue(database: Database, ids: Sequence[UUID], asked: Action) -> list[Fate]:
    return requeue(database, ids, may_send_twice=False, declarations=ALL, action=asked)


def do_discard(database: Database, ids: Sequence[UUID], asked: Action) -> list[Fate]:
    return discard(database, ids, action=asked)


COMMANDS: list[tuple[Command, str]] = [(do_requeue, "requeued"), (do_discard, "discarded")]


@pytest.mark.parametrize(("command", "fate"), COMMANDS)
def test_a_command_and_its_audit_stand_or_fall_together(
    rows: Waiting, login: Login, command: Command, fate: str
) -> None:
    opening = rows.rejected()
    before = row_of(rows.owner, opening.id)
    with connected(operator_of(login), "operator", kind=HeldDatabase) as (operator,):
        assert command(operator, [opening.id], action("c", ids=[str(opening.id)]))[0].fate == fate
        operator.rollback()
        assert (row_of(rows.owner, opening.id), actions_of(rows.owner)) == (before, [])
        asked = action("c", ids=[str(opening.id)])
        command(operator, [opening.id], asked)
        operator.commit()
    assert row_of(rows.owner, opening.id) != before
    kept = "SELECT id, actor, command, arguments, result FROM operator_actions"
    assert rows.owner.execute(kept).fetchall() == [
        (asked.id, "ada@laptop", "c", {"ids": [str(opening.id)]}, {"fates": {fate: 1}})
    ]


@pytest.mark.parametrize(("command", "fate"), COMMANDS)
def test_a_command_whose_commit_was_not_answered_has_its_effect_once(
    rows: Waiting, login: Login, command: Command, fate: str
) -> None:
    """Repeated, it finds its own work, and does not say that somebody else did it."""
    opening, other = rows.rejected(), rows.rejected()
    arrange(rows.owner, other.id, status="cancelled", final_at=LONG_AGO)
    asked = action()
    with losing_its_first_commit(operator_of(login)) as operator:
        answer = command(operator, [opening.id, other.id], asked)
    assert [one.fate for one in answer] == [fate, "cancelled"]
    assert actions_of(rows.owner) == [
        (asked.id, "dead.requeue", {"fates": {fate: 1, "cancelled": 1}})
    ]
    assert row_of(rows.owner, opening.id).key_epoch <= 1
    assert len(moves_of(rows.owner, opening.id)) == 2


def test_a_requeue_is_not_done_again_to_what_was_held_once_more(
    rows: Waiting, operator: Database
) -> None:
    """Between the COMMIT and its repetition the row was sent and refused again."""
    opening, asked = rows.rejected(), action()
    assert requeued(operator, opening.id, asked=asked) == ["requeued"]
    again = opening_of(lease(rows.database)[0])
    begin_one(rows.database, again)
    close_one(rows.database, again, Rejected(code="400"))
    assert requeued(operator, opening.id, asked=asked) == ["requeued"]
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.key_epoch) == ("dead", 1)
    assert len(actions_of(rows.owner)) == 1
