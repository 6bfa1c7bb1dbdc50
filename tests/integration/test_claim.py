"""The claim's page: disjoint, bounded, fair, and never waiting for a row that somebody holds."""

import ast
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from psycopg import errors

from functions.core.login import Login
from functions.core.outcome import Transient, Unknown
from functions.core.policy import POLICY_VERSION, Allow, Defer, Suppress
from functions.store.cancel import cancel_notification
from functions.store.claim import (
    LEASE_PAGE,
    NO_ORGANIZATION,
    Leased,
    record_verdicts,
    release,
)
from functions.store.connection import Database
from functions.store.delivery import hold_unreadable
from functions.store.survey import PROMOTED_AT_ONCE, promote, start_run, survey
from functions.store.sweep import sweep
from tests.fakes import (
    FIRST_ORGANIZATION,
    SECOND_ORGANIZATION,
    HeldDatabase,
    add_notifications,
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
    lease_turn,
    now_of,
    opening_of,
    set_for,
    waiting,
)

FUNCTIONS = Path(__file__).resolve().parents[2] / "functions"


def ids_of(page: Sequence[Leased]) -> list[UUID]:
    return [row.id for row in page]


def organizations(count: int) -> list[UUID]:
    """Return ids of ``count`` organizations, in order."""
    return [UUID(int=FIRST_ORGANIZATION.int + number) for number in range(count)]


def test_a_lease_has_a_number_an_end_a_holder_and_the_verdict(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    now = now_of(owner)
    (leased,) = lease(database, lease_seconds=40, now=now)
    row = row_of(owner, id)
    assert (leased.id, leased.lease_number, leased.now) == (id, 1, now)
    assert (row.status, row.lease_number, row.leased_by) == ("leased", 1, "test")
    assert row.lease_until == now + timedelta(seconds=40)
    assert (row.verdict, row.policy_version) == ("allow", POLICY_VERSION)


def test_the_second_claimer_gets_a_full_disjoint_page_while_the_first_holds_its_own(
    owner: psycopg.Connection, login: Login
) -> None:
    add_notifications(owner, 200)
    with connected(login, "first", "second", kind=HeldDatabase) as (first, second):
        a, b = lease(first), lease(second)
        assert (len(a), len(b)) == (100, 100)
        assert not set(ids_of(a)) & set(ids_of(b))


def test_without_skip_locked_the_second_claimer_runs_into_the_lock_timeout(
    owner: psycopg.Connection, login: Login
) -> None:
    add_notifications(owner, 200)
    assert "SKIP LOCKED" in LEASE_PAGE
    waiting_lease = LEASE_PAGE.replace("SKIP LOCKED", "")
    parameters = {
        "channel": "email",
        "stream": "transactional",
        "priority": "normal",
        "page": 100,
        "after": NO_ORGANIZATION,
        "lease_seconds": 60,
        "leased_by": "second",
        "policy_version": POLICY_VERSION,
        "now": None,
    }

    def lease_waiting(connection: psycopg.Connection) -> None:
        connection.execute("SET LOCAL lock_timeout = '50ms'")
        connection.execute(waiting_lease, parameters)

    with connected(login, "first", "second", kind=HeldDatabase) as (first, second):
        lease(first)
        with pytest.raises(errors.LockNotAvailable):
            second.run(lease_waiting)


def test_a_row_locked_by_a_cancel_in_progress_delays_no_page(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    ids = add_notifications(owner, 101)
    with connected(login, "cancel", kind=HeldDatabase) as (cancelling,):
        cancel_notification(cancelling, organization_id=FIRST_ORGANIZATION, notification_id=ids[0])
        assert set(ids_of(lease(database))) == set(ids[1:])


def test_a_row_cancelled_between_the_claims_look_and_its_lock_is_not_leased(
    owner: psycopg.Connection, login: Login
) -> None:
    ids = add_notifications(owner, 3)
    with (
        stopped_clock(owner, login.name),
        connected(login, "claim", kind=Database) as (claiming,),
        as_owner(login) as client,
        waiting(owner, "claim", lambda: lease(claiming)) as leased,
    ):
        cancel_notification(client, organization_id=FIRST_ORGANIZATION, notification_id=ids[0])
        owner.execute("SELECT pg_advisory_unlock(1)")
    assert set(ids_of(leased.result())) == set(ids[1:])
    assert row_of(owner, ids[0]).status == "cancelled"


def test_a_page_of_locked_rows_hands_the_turn_on(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    (locked,) = add_notifications(owner)
    (free,) = add_notifications(owner, organization_id=SECOND_ORGANIZATION)
    with connected(login, "cancel", kind=HeldDatabase) as (cancelling,):
        cancel_notification(cancelling, organization_id=FIRST_ORGANIZATION, notification_id=locked)
        first = lease_turn(database, page=1)
        assert (first.leased, first.cursor, first.more) == ([], FIRST_ORGANIZATION, True)
        second = lease_turn(database, page=1, after=first.cursor)
        assert ids_of(second.leased) == [free]


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("joins", ["on", "off"])
def test_c3_no_page_is_larger_than_asked_and_none_overlap(
    owner: psycopg.Connection, database: Database, analyzed: bool, joins: str
) -> None:
    ids = add_notifications(owner, 10_000)
    if analyzed:
        owner.execute("ANALYZE notifications")
    for setting in ("enable_hashjoin", "enable_mergejoin"):
        set_for(database, setting, joins)
    pages: list[list[UUID]] = []
    while page := lease(database, page=100):
        pages.append(ids_of(page))
    assert {len(page) for page in pages} == {100}
    assert sorted(id for page in pages for id in page) == ids


def test_c3_two_claimers_at_once_share_the_rows_between_them(
    owner: psycopg.Connection, login: Login
) -> None:
    ids = add_notifications(owner, 10_000)

    def drain(database: Database) -> list[UUID]:
        claimed: list[UUID] = []
        while page := lease(database, page=100):
            assert len(page) <= 100
            claimed += ids_of(page)
        return claimed

    with (
        connected(login, "first", "second", kind=Database) as databases,
        ThreadPoolExecutor(2) as threads,
    ):
        first, second = threads.map(drain, databases)
    # A row the other one has locked or just leased is passed over, never waited for or leased
    # again; when both are through, each row was leased exactly once.
    assert sorted(first + second) == ids


def test_c3_a_claimer_slower_than_its_schedule_is_overtaken_not_doubled(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    ids = add_notifications(owner, 250)
    with connected(login, "slow", kind=HeldDatabase) as (slow,):
        held = ids_of(lease(slow))
        others = [id for page in (lease(database), lease(database)) for id in ids_of(page)]
        slow.commit()
    assert sorted(held + others) == ids


def test_c5_nothing_is_claimed_before_the_databases_clock_says_so(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner, delay_seconds=300)
    assert (promote(database), lease(database)) == (0, [])
    assert promote(database, now=now_of(owner, seconds=290)) == 0
    assert promote(database, now=now_of(owner, seconds=310)) == 1
    assert ids_of(lease(database)) == [id]


def test_c5_a_lease_lives_and_ends_by_the_databases_clock(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    lease(database, lease_seconds=240, now=now_of(owner, seconds=-60))
    channel = channel_of(database)
    assert sweep(database, channel=channel, declarations=[]).total == 0
    late = now_of(owner, seconds=190)
    assert sweep(database, channel=channel, declarations=[], now=late).released == 1
    assert row_of(owner, id).status == "pending"


def test_c5_no_clock_of_the_process_decides_anything() -> None:
    """A process clock ten minutes off cannot matter where none is read; durations may be."""
    readers = [
        f"{path.relative_to(FUNCTIONS)}:{node.lineno}"
        for folder in ("store", "claim", "sweeper", "reconcile")
        for path in (FUNCTIONS / folder).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in {"time", "time_ns", "now", "utcnow", "today"}
        and isinstance(node.value, ast.Name)
        and node.value.id in {"time", "datetime", "date"}
    ]
    assert readers == []


def test_c6_one_item_is_claimed_beside_another_tenants_burst(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner, 5_000)
    (single,) = add_notifications(owner, organization_id=SECOND_ORGANIZATION)
    page = lease_turn(database, page=100)
    assert single in ids_of(page.leased)
    assert len(page.leased) == 51  # the burst's half of the turns; the next page fills up the rest
    assert page.more


def test_every_organization_has_its_turn_within_as_many_pages_as_it_takes_to_seat_them(
    owner: psycopg.Connection, database: Database
) -> None:
    for organization in organizations(250):
        add_notifications(owner, 5, organization_id=organization)
    after, served = NO_ORGANIZATION, list[UUID]()
    for _ in range(3):
        page = lease_turn(database, page=100, after=after)
        after = page.cursor
        served += [row.organization_id for row in page.leased]
    assert len(served) == 300
    assert set(served) == set(organizations(250))


def test_c6_every_organization_that_fits_a_page_is_in_it_however_many_rows_it_has(
    owner: psycopg.Connection, database: Database
) -> None:
    sixty = organizations(60)  # shares of two would fill the page with the first fifty
    for organization in sixty:
        add_notifications(owner, 5, organization_id=organization)
    page = lease_turn(database, page=100)
    assert len(page.leased) == 100
    assert {row.organization_id for row in page.leased} == set(sixty)


def test_what_a_page_cannot_share_evenly_goes_round(
    owner: psycopg.Connection, database: Database
) -> None:
    three = organizations(3)
    for organization in three:
        add_notifications(owner, 20, organization_id=organization)
    after, served = NO_ORGANIZATION, list[UUID]()
    for _ in range(6):
        page = lease_turn(database, page=4, after=after)
        after = page.cursor
        served += [row.organization_id for row in page.leased]
    assert [served.count(organization) for organization in three] == [8, 8, 8]


def test_within_an_organization_the_oldest_go_first(
    owner: psycopg.Connection, database: Database
) -> None:
    late = add_notifications(owner, 3)
    early = add_notifications(owner, 3)
    owner.execute(
        "UPDATE notifications SET available_at = available_at - interval '1 hour' "
        "WHERE id = ANY(%s)",
        [early],
    )
    assert set(ids_of(lease(database, page=3))) == set(early)
    assert set(ids_of(lease(database, page=3))) == set(late)


def test_unreadable_rows_at_the_front_hold_nothing_back(
    owner: psycopg.Connection, database: Database
) -> None:
    bad = add_notifications(owner, 10, content=[1, {"not": "content"}])
    good = add_notifications(owner, 50)
    page = lease(database)
    assert set(ids_of(page)) == {*bad, *good}
    hold_unreadable(database, [(row.id, row.lease_number) for row in page if row.id in bad])
    assert {(row_of(owner, id).status, row_of(owner, id).reason) for id in bad} == {
        ("dead", "unreadable")
    }
    assert lease(database, now=now_of(owner, hours=1)) == []


def test_another_channel_and_another_priority_are_other_pages(
    owner: psycopg.Connection, database: Database
) -> None:
    (low,) = add_notifications(owner, priority="low")
    (sms,) = add_notifications(owner, channel="sms")
    assert lease(database) == []
    assert ids_of(lease(database, priority="low")) == [low]
    assert ids_of(lease(database, channel="sms")) == [sms]


def test_a_deferred_row_waits_until_its_time_and_spends_nothing(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    until = now_of(owner, hours=8)
    record_verdicts(database, [(leased, Defer(until=until, reason="quiet_hours"))])
    row = row_of(owner, id)
    assert (row.status, row.reason, row.verdict) == ("pending", "quiet_hours", "defer")
    assert (row.ready, row.available_at, row.eligible_at) == (False, until, until)
    assert (row.lease_until, row.attempts_spent) == (None, 0)
    assert promote(database) == 0
    assert promote(database, now=until) == 1
    (again,) = lease(database)
    assert again.lease_number == 2
    assert (row_of(owner, id).verdict, row_of(owner, id).reason) == ("allow", None)


def test_a_suppressed_row_ends_and_says_why(owner: psycopg.Connection, database: Database) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    record_verdicts(database, [(leased, Suppress(reason="opted_out"))])
    row = row_of(owner, id)
    assert (row.status, row.reason, row.verdict) == ("suppressed", "opted_out", "suppress")
    assert row.final_at is not None
    moves = owner.execute("SELECT actor, from_status, to_status, reason FROM transitions")
    assert moves.fetchall() == [("policy", "leased", "suppressed", "opted_out")]


def test_a_row_that_may_have_been_accepted_is_not_called_suppressed(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    close_one(database, opening, Unknown(), again_seconds=None)
    (leased,) = lease(database)
    record_verdicts(database, [(leased, Suppress(reason="opted_out"))])
    assert row_of(owner, id).status == "unconfirmed"


def test_a_verdict_is_fenced_by_its_lease_and_by_an_open_attempt(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    (old,) = lease(database)
    release(database, [(id, old.lease_number)])
    (new,) = lease(database)
    record_verdicts(database, [(old, Suppress(reason="late"))])
    assert row_of(owner, id).status == "leased"
    begin_one(database, opening_of(new))
    record_verdicts(database, [(new, Suppress(reason="late"))])
    assert row_of(owner, id).status == "leased"


def test_what_is_allowed_is_not_written_again(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner, 3)
    page = lease(database)
    before = owner.execute("SELECT id, xmin::text FROM notifications ORDER BY id").fetchall()
    record_verdicts(database, [(row, Allow()) for row in page])
    after = owner.execute("SELECT id, xmin::text FROM notifications ORDER BY id").fetchall()
    assert before == after


@pytest.mark.parametrize("step", ["verdict", "release"])
def test_the_claim_waits_for_nobody_who_holds_a_row_it_leased(
    owner: psycopg.Connection, database: Database, login: Login, step: str
) -> None:
    ids = add_notifications(owner, 2)
    page = lease(database)
    with connected(login, "cancel", kind=HeldDatabase) as (cancelling,):
        cancel_notification(cancelling, organization_id=FIRST_ORGANIZATION, notification_id=ids[0])
        if step == "verdict":
            record_verdicts(database, [(row, Suppress(reason="opted_out")) for row in page])
        else:
            release(database, [(row.id, row.lease_number) for row in page])
        cancelling.commit()
    assert row_of(owner, ids[0]).status == "cancelled"
    assert row_of(owner, ids[1]).status == ("suppressed" if step == "verdict" else "pending")


def test_only_a_lease_without_an_attempt_is_given_back(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = add_notifications(owner, 3)
    page = {row.id: row for row in lease(database)}
    begin_one(database, opening_of(page[ids[1]]))
    release(database, [(ids[0], 1), (ids[1], 1), (ids[2], 7)])
    assert [row_of(owner, id).status for id in ids] == ["pending", "leased", "leased"]
    assert row_of(owner, ids[0]).ready
    moves = owner.execute("SELECT notification_id, actor, to_status, reason FROM transitions")
    assert moves.fetchall() == [(ids[0], "claim", "pending", "not_dispatched")]


def test_rows_become_ready_a_page_at_a_time_oldest_first(
    owner: psycopg.Connection, database: Database
) -> None:
    later = add_notifications(owner, 10, delay_seconds=20)
    sooner = add_notifications(owner, PROMOTED_AT_ONCE, delay_seconds=10)
    now = now_of(owner, seconds=30)
    assert promote(database, now=now) == PROMOTED_AT_ONCE
    ready = owner.execute("SELECT id FROM notifications WHERE ready ORDER BY id").fetchall()
    assert [row[0] for row in ready] == sooner
    assert (promote(database, now=now), promote(database, now=now)) == (len(later), 0)


def test_a_waiting_row_that_somebody_holds_delays_no_promotion(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    ids = add_notifications(owner, 2, delay_seconds=10)
    with connected(login, "cancel", kind=HeldDatabase) as (cancelling,):
        cancel_notification(cancelling, organization_id=FIRST_ORGANIZATION, notification_id=ids[0])
        assert promote(database, now=now_of(owner, seconds=30)) == 1


def test_a_row_backing_off_is_ready_again_when_its_time_has_come(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    close_one(database, begun(database), Transient(), again_seconds=60)
    assert (promote(database), lease(database)) == (0, [])
    assert promote(database, now=now_of(owner, seconds=61)) == 1
    assert ids_of(lease(database)) == [id]


def test_a_survey_sees_what_is_ready_and_what_is_in_flight(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner, 3, priority="high")
    add_notifications(owner, priority="low", channel="sms")
    add_notifications(owner, delay_seconds=60, channel="push")
    lease(database, priority="high", page=2)
    seen = {channel.channel: channel for channel in survey(database, run="claim")}
    assert {name: channel.ready for name, channel in seen.items()} == {
        "email": {"high": ["transactional"]},
        "push": {},
        "sms": {"low": ["transactional"]},
        "webhook": {},
    }
    assert (seen["email"].leased, seen["sms"].leased) == (2, 0)


def test_a_survey_of_paused_channels_still_tells_the_generation(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner)
    owner.execute("UPDATE channels SET paused_at = now()")
    assert [start_run(database, name="claim") for _ in range(2)] == [1, 2]
    seen = survey(database, run="claim")
    assert {channel.generation for channel in seen} == {2}
    assert [channel.ready for channel in seen] == [{}, {}, {}, {}]
