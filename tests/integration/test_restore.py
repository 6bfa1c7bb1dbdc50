"""After a restore: what may have been sent in the part of history that was lost is in doubt."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.login import Login
from functions.core.outcome import Transient, Unknown
from functions.core.states import Status
from functions.store.check import check, record_never_accepted
from functions.store.connection import Database
from functions.store.restore import Marked
from functions.store.sweep import sweep
from tests.fakes import (
    SECOND_ORGANIZATION,
    HeldDatabase,
    add_notifications,
    moves_of,
    row_of,
)
from tests.operating import (
    ALL,
    LONG_AGO,
    Waiting,
    action,
    actions_of,
    arrange,
    attempts_of,
    mark,
    marked,
    operating,
    operator_of,
    requeued,
    use,
)
from tests.steps import (
    begun,
    channel_of,
    close_one,
    connected,
    lease,
    losing_its_first_commit,
    now_of,
    waiting,
)

CHANNELS = ["email", "push", "sms", "webhook"]
GRACE = timedelta(seconds=900)


@pytest.fixture
def operator(login: Login) -> Iterator[Database]:
    with operating(login) as database:
        yield database


@pytest.fixture
def rows(owner: psycopg.Connection, database: Database) -> Waiting:
    return Waiting(owner=owner, database=database)


# What is marked


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("provider", ["http", "webhook", "keyed", "http_keyless"])
def test_what_was_due_may_have_been_sent(
    owner: psycopg.Connection, operator: Database, channel: str, provider: str
) -> None:
    use(owner, provider)
    owner.execute("UPDATE channels SET grace_seconds = 900")
    (id,) = add_notifications(owner, channel=channel)
    since, now, asked = now_of(owner), now_of(owner, hours=1), action("recover")
    assert marked(operator, since, now=now, asked=asked) == 1
    row = row_of(owner, id)
    assert (row.status, row.reason, row.in_doubt) == ("uncertain", None, 1)
    assert (row.provider, row.key_epoch, row.key_first_used_at) == (provider, 0, since)
    assert (row.lease_number, row.lease_until, row.attempts_spent) == (1, None, 0)
    assert (row.next_check_at, row.updated_at) == (now, now)
    assert row.decide_at == now + (GRACE if provider == "http_keyless" else timedelta())
    assert attempts_of(owner, id) == [(1, provider, "unknown", "restored")]
    attempt = row_of(owner, row.attempt_id, "attempts")
    assert (attempt.notification_id, attempt.started_at, attempt.finished_at) == (id, since, now)
    assert moves_of(owner, id) == [("operator", "pending", "uncertain", "restored")]
    logged = "SELECT operator_action_id, attempt_id, lease_number FROM transitions"
    assert owner.execute(logged).fetchall() == [(asked.id, row.attempt_id, 1)]


def test_a_lease_without_an_attempt_may_have_opened_one(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    (id,) = add_notifications(owner)
    lease(database)
    assert marked(operator, now_of(owner)) == 1
    row = row_of(owner, id)
    assert (row.status, row.in_doubt, row.lease_until) == ("uncertain", 1, None)
    assert (row.lease_number, row.attempts_spent) == (2, 0)
    assert attempts_of(owner, id) == [(2, "http", "unknown", "restored")]
    assert sweep(database, channel=channel_of(database), declarations=ALL).total == 0


def test_an_attempt_that_the_restore_shows_as_open_is_the_one_in_doubt(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    add_notifications(owner)
    opening = begun(database)
    used_at = row_of(owner, opening.id).key_first_used_at
    assert marked(operator, now_of(owner)) == 1
    row = row_of(owner, opening.id)
    assert (row.status, row.in_doubt, row.attempt_id) == ("uncertain", 1, opening.token)
    assert (row.lease_number, row.attempts_spent, row.key_first_used_at) == (1, 1, used_at)
    assert attempts_of(owner, opening.id) == [(1, "http", "unknown", "restored")]


def test_what_was_tried_before_keeps_its_key_and_its_history(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    (id,) = add_notifications(owner)
    close_one(database, begun(database), Transient(code="409"), again_seconds=None)
    used_at = row_of(owner, id).key_first_used_at
    assert marked(operator, now_of(owner)) == 1
    row = row_of(owner, id)
    assert (row.key_first_used_at, row.attempts_spent) == (used_at, 1)
    assert attempts_of(owner, id) == [
        (1, "http", "transient", "409"),
        (2, "http", "unknown", "restored"),
    ]


def test_what_was_promoted_or_not_is_marked_once_its_time_had_come(
    owner: psycopg.Connection, operator: Database
) -> None:
    """Due within the gap: the claim may have promoted and leased it since."""
    (id,) = add_notifications(owner, delay_seconds=60)
    since, due = now_of(owner), row_of(owner, id).available_at
    assert marked(operator, since, now=due - timedelta(microseconds=1)) == 0
    assert marked(operator, since, now=due) == 1
    assert not row_of(owner, id).ready


def test_what_is_not_yet_due_cannot_have_been_sent(
    owner: psycopg.Connection, operator: Database
) -> None:
    (id,) = add_notifications(owner, delay_seconds=3600)
    before = row_of(owner, id)
    assert marked(operator, now_of(owner), now=now_of(owner, minutes=50)) == 0
    assert (row_of(owner, id), moves_of(owner, id)) == (before, [])


def test_what_was_accepted_after_the_restore_was_not_lost(
    owner: psycopg.Connection, operator: Database
) -> None:
    (old,) = add_notifications(owner)
    since = now_of(owner)
    (new,) = add_notifications(owner)
    assert row_of(owner, old).created_at <= since < row_of(owner, new).created_at
    assert marked(operator, since) == 1
    assert (row_of(owner, old).status, row_of(owner, new).status) == ("uncertain", "pending")


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.PENDING, Status.LEASED}))
def test_what_was_neither_waiting_nor_leased_is_left_alone(
    owner: psycopg.Connection, operator: Database, status: str
) -> None:
    (id,) = add_notifications(owner)
    evidence = {"evidence_rank": 1, "evidence_at": LONG_AGO, "evidence_key": "k"}
    columns: dict[str, Any] = {
        "uncertain": {"in_doubt": 1},
        "submitted": evidence,
        "dead": {"reason": "rejected"},
    }.get(status, {"final_at": LONG_AGO})
    arrange(owner, id, status=status, **columns)
    before = row_of(owner, id)
    assert marked(operator, now_of(owner)) == 0
    assert row_of(owner, id) == before


def test_a_doubt_under_a_key_cannot_be_more_so(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    """It is tried again under that key, whatever was sent under it in between."""
    (id,) = add_notifications(owner)
    close_one(database, begun(database), Unknown(), again_seconds=None)
    before = row_of(owner, id)
    assert (before.status, before.in_doubt) == ("pending", 1)
    assert marked(operator, now_of(owner)) == 0
    assert row_of(owner, id) == before


def test_a_doubt_without_a_key_may_have_been_tried_again_in_the_gap(
    rows: Waiting, operator: Database
) -> None:
    use(rows.owner, "http_keyless")
    rows.owner.execute("UPDATE channels SET unknown_policy = 'retry', grace_seconds = 0")
    opening = rows.uncertain()
    check(rows.database, declarations=ALL)
    assert row_of(rows.owner, opening.id).status == "pending"
    assert marked(operator, now_of(rows.owner)) == 1
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.in_doubt) == ("uncertain", 2)


def test_what_an_operator_released_may_have_been_sent_in_the_gap(
    rows: Waiting, operator: Database
) -> None:
    """The consent was to one more; after the restore nobody knows that it was used."""
    use(rows.owner, "http_keyless")
    opening = rows.undecided()
    assert requeued(operator, opening.id, may_send_twice=True) == ["requeued"]
    assert marked(operator, now_of(rows.owner)) == 1
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.in_doubt, row.provider) == ("uncertain", 2, "http_keyless")


def test_every_organization_and_channel_is_marked_and_each_row_once(
    owner: psycopg.Connection, operator: Database
) -> None:
    ids = [
        id
        for channel in CHANNELS
        for organization in (SECOND_ORGANIZATION, UUID(int=7))
        for id in add_notifications(owner, 2, channel=channel, organization_id=organization)
    ]
    assert marked(operator, now_of(owner)) == len(ids)
    assert {row_of(owner, id).status for id in ids} == {"uncertain"}
    assert owner.execute("SELECT count(*) FROM attempts").fetchone() == (len(ids),)
    providers = owner.execute(
        "SELECT n.channel, array_agg(DISTINCT a.provider) FROM attempts a "
        "JOIN notifications n ON n.id = a.notification_id GROUP BY n.channel ORDER BY n.channel"
    ).fetchall()
    assert providers == [
        ("email", ["http"]),
        ("push", ["http"]),
        ("sms", ["http"]),
        ("webhook", ["webhook"]),
    ]


# Pages, repetition, crashes


def test_pages_follow_each_other_and_mark_each_row_once(
    owner: psycopg.Connection, operator: Database
) -> None:
    ids = sorted(add_notifications(owner, 7))
    since = now_of(owner)
    pages: list[Marked] = []
    while not pages or pages[-1].last_id:
        pages.append(mark(operator, since, after=pages[-1].last_id if pages else None, limit=3))
    assert pages == [
        Marked(marked=3, last_id=ids[2]),
        Marked(marked=3, last_id=ids[5]),
        Marked(marked=1, last_id=None),
    ]
    assert [row_of(owner, id).in_doubt for id in ids] == [1] * 7
    assert [result["marked"] for _, _, result in actions_of(owner)] == [3, 3, 1]


def test_rows_of_the_past_are_walked_over_in_pages_that_mark_nothing(
    owner: psycopg.Connection, operator: Database
) -> None:
    """A page that looked at enough says where the next begins, although it found nothing."""
    past = sorted(add_notifications(owner, 250))
    owner.execute(
        "UPDATE notifications SET status = 'delivered', final_at = clock_timestamp() "
        "WHERE id = ANY(%s)",
        [past],
    )
    (due,) = add_notifications(owner)
    since = now_of(owner)
    first = mark(operator, since, limit=1)
    assert first == Marked(marked=0, last_id=past[99])
    second = mark(operator, since, limit=1, after=first.last_id)
    assert second == Marked(marked=0, last_id=past[199])
    third = mark(operator, since, limit=1, after=second.last_id)
    assert third == Marked(marked=1, last_id=due)
    assert mark(operator, since, limit=1, after=due) == Marked(marked=0, last_id=None)


def test_a_repetition_marks_nothing_twice_whatever_was_decided_meanwhile(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    """One is due again under its key, one was found never to have been accepted, one is leased."""
    ids = add_notifications(owner, 3)
    since = now_of(owner)
    assert marked(operator, since) == 3
    assert marked(operator, since) == 0
    assert record_never_accepted(database, [ids[1]]) == 1
    assert check(database, declarations=ALL).retried == 2
    (leased,) = lease(database, page=1)
    statuses = [row_of(owner, id).status for id in ids]
    assert sorted(statuses) == ["leased", "pending", "pending"]
    before = [row_of(owner, id) for id in ids]
    assert marked(operator, since) == 0
    assert [row_of(owner, id) for id in ids] == before
    assert owner.execute("SELECT count(*) FROM attempts").fetchone() == (3,)
    assert leased.id in ids


def test_another_restore_marks_again(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    """A gap of its own: what the first one marked, and its policy released, may be sent since."""
    (id,) = add_notifications(owner)
    assert marked(operator, now_of(owner)) == 1
    assert record_never_accepted(database, [id]) == 1
    assert marked(operator, now_of(owner)) == 1
    assert row_of(owner, id).in_doubt == 1
    assert len(attempts_of(owner, id)) == 2


def test_a_page_that_was_not_committed_marked_nothing_and_the_next_one_goes_on(
    owner: psycopg.Connection, login: Login, operator: Database
) -> None:
    ids = sorted(add_notifications(owner, 4))
    since = now_of(owner)
    assert mark(operator, since, limit=2).last_id == ids[1]
    with connected(operator_of(login), "dying", kind=HeldDatabase) as (dying,):
        assert mark(dying, since, after=ids[1], limit=2).marked == 2
        dying.rollback()
    assert [row_of(owner, id).status for id in ids] == ["uncertain"] * 2 + ["pending"] * 2
    assert len(actions_of(owner)) == 1
    assert marked(operator, since) == 2
    assert [row_of(owner, id).in_doubt for id in ids] == [1] * 4


def test_a_page_whose_commit_was_not_answered_is_told_as_it_was(
    owner: psycopg.Connection, login: Login
) -> None:
    """Else the operator would hear of the page after it, or of none, and stop too soon."""
    ids = sorted(add_notifications(owner, 3))
    asked = action("recover")
    with losing_its_first_commit(operator_of(login)) as operator:
        page = mark(operator, now_of(owner), limit=2, asked=asked)
    assert page == Marked(marked=2, last_id=ids[1])
    assert [row_of(owner, id).status for id in ids] == ["uncertain", "uncertain", "pending"]
    assert actions_of(owner) == [(asked.id, "recover", {"marked": 2, "last_id": str(ids[1])})]


def test_the_last_page_whose_commit_was_not_answered_is_told_as_it_was(
    owner: psycopg.Connection, login: Login
) -> None:
    add_notifications(owner)
    with losing_its_first_commit(operator_of(login)) as operator:
        assert mark(operator, now_of(owner)) == Marked(marked=1, last_id=None)
    assert len(actions_of(owner)) == 1


def test_two_operators_at_once_mark_each_row_once(
    owner: psycopg.Connection, login: Login, operator: Database
) -> None:
    ids = add_notifications(owner, 3)
    since = now_of(owner)
    with connected(operator_of(login), "first", kind=HeldDatabase) as (first,):
        assert marked(first, since) == 3
        with waiting(owner, "operator", lambda: marked(operator, since)) as count:
            first.commit()
    assert count.result() == 0
    assert [row_of(owner, id).in_doubt for id in ids] == [1] * 3
