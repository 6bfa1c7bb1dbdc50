"""Checks: the next look, the cutoff, and the end of an uncertain row's grace."""

from datetime import datetime, timedelta

import psycopg
import pytest

from functions.core.errors import TooLate
from functions.core.evidence import Rank, Receipt
from functions.core.login import Login
from functions.core.outcome import Accepted, Unknown
from functions.providers.choice import DECLARATIONS
from functions.store.cancel import cancel_notification
from functions.store.check import CHECKED_AT_ONCE, Checked, check
from functions.store.connection import Database
from functions.store.gauge import ChannelGauge, channel_gauges, ready_gauges
from functions.store.receipt import record
from tests.fakes import FIRST_ORGANIZATION, add_notifications, moves_of, row_of, stopped_clock
from tests.steps import as_owner, begun, close_one, connected, lease, now_of, waiting

NOTHING = Checked(looked_at=0, unconfirmed=0, retried=0, held=0)
CUTOFF = timedelta(hours=72)
GRACE = timedelta(seconds=900)


@pytest.fixture
def submitted_at(owner: psycopg.Connection, database: Database) -> datetime:
    """When the only notification was submitted."""
    add_notifications(owner)
    now = now_of(owner)
    close_one(database, begun(database, now=now), Accepted(reference="m-1"), now=now)
    return now


def make_uncertain(
    owner: psycopg.Connection, database: Database, *, now: datetime, policy: str
) -> None:
    owner.execute("UPDATE channels SET unknown_policy = %s", [policy])
    add_notifications(owner, max_attempts=2, expires_in_seconds=7_200)
    opening = begun(database, now=now, provider="http_keyless")
    close_one(database, opening, Unknown(), keyed=False, now=now)


def test_nothing_is_looked_at_before_its_time(database: Database, submitted_at: datetime) -> None:
    assert (
        check(database, declarations=DECLARATIONS, now=submitted_at + timedelta(seconds=29))
        == NOTHING
    )


def test_looks_come_at_doubling_distances_up_to_the_cap(
    owner: psycopg.Connection, database: Database, submitted_at: datetime
) -> None:
    owner.execute("UPDATE channels SET check_cap_seconds = 240")
    row = owner.execute("SELECT id FROM notifications").fetchone()
    assert row is not None
    at = submitted_at + timedelta(seconds=30)
    for expected in (60, 120, 240, 240):
        assert check(database, declarations=DECLARATIONS, now=at).looked_at == 1
        next_check_at = row_of(owner, row[0]).next_check_at
        assert 0.8 * expected <= (next_check_at - at).total_seconds() <= 1.2 * expected
        at = next_check_at


def test_the_next_look_never_lies_beyond_the_cutoff(
    owner: psycopg.Connection, database: Database, submitted_at: datetime
) -> None:
    just_before = submitted_at + CUTOFF - timedelta(seconds=1)
    assert check(database, declarations=DECLARATIONS, now=just_before).unconfirmed == 0
    row = owner.execute("SELECT status, next_check_at FROM notifications").fetchone()
    assert row == ("submitted", submitted_at + CUTOFF)


def test_no_receipt_by_the_cutoff_ends_unconfirmed(
    owner: psycopg.Connection, database: Database, submitted_at: datetime
) -> None:
    end = submitted_at + CUTOFF
    assert check(database, declarations=DECLARATIONS, now=end) == Checked(
        looked_at=1, unconfirmed=1, retried=0, held=0
    )
    row = owner.execute("SELECT id, status, reason, final_at FROM notifications").fetchone()
    assert row is not None
    assert row[1:] == ("unconfirmed", "no_receipt_by_cutoff", end)
    last = moves_of(owner, row[0])[-1]
    assert last == ("reconcile", "submitted", "unconfirmed", "no_receipt_by_cutoff")
    assert check(database, declarations=DECLARATIONS, now=end + CUTOFF) == NOTHING


def test_an_uncertain_row_is_left_alone_within_its_grace(
    owner: psycopg.Connection, database: Database
) -> None:
    now = now_of(owner)
    make_uncertain(owner, database, now=now, policy="retry")
    assert (
        check(database, declarations=DECLARATIONS, now=now + GRACE - timedelta(seconds=1))
        == NOTHING
    )


def test_its_grace_over_an_uncertain_row_is_held_where_the_channel_says_so(
    owner: psycopg.Connection, database: Database
) -> None:
    now = now_of(owner)
    make_uncertain(owner, database, now=now, policy="hold")
    assert check(database, declarations=DECLARATIONS, now=now + GRACE).held == 1
    row = owner.execute("SELECT status, reason, attempt_id, in_doubt FROM notifications").fetchone()
    assert row == ("dead", "outcome_unknown", None, 1)


def test_its_grace_over_an_uncertain_row_is_tried_again_where_the_channel_says_so(
    owner: psycopg.Connection, database: Database
) -> None:
    now = now_of(owner)
    make_uncertain(owner, database, now=now, policy="retry")
    assert check(database, declarations=DECLARATIONS, now=now + GRACE).retried == 1
    row = owner.execute("SELECT status, ready, attempt_id, in_doubt FROM notifications").fetchone()
    assert row == ("pending", True, None, 1)
    assert len(lease(database)) == 1


def test_a_budget_spent_is_held_whatever_the_channel_says(
    owner: psycopg.Connection, database: Database
) -> None:
    now = now_of(owner)
    make_uncertain(owner, database, now=now, policy="retry")
    owner.execute("UPDATE notifications SET attempts_spent = max_attempts")
    assert check(database, declarations=DECLARATIONS, now=now + GRACE).held == 1


def test_an_uncertain_row_that_expired_ends_unconfirmed(
    owner: psycopg.Connection, database: Database
) -> None:
    now = now_of(owner)
    make_uncertain(owner, database, now=now, policy="retry")
    assert check(database, declarations=DECLARATIONS, now=now + timedelta(hours=3)).unconfirmed == 1
    row = owner.execute("SELECT status, reason FROM notifications").fetchone()
    assert row == ("unconfirmed", "expired")


def test_what_may_have_been_accepted_is_not_cancelled_after_a_retry(
    owner: psycopg.Connection, database: Database
) -> None:
    now = now_of(owner)
    make_uncertain(owner, database, now=now, policy="retry")
    check(database, declarations=DECLARATIONS, now=now + GRACE)
    row = owner.execute("SELECT id FROM notifications").fetchone()
    assert row is not None
    with pytest.raises(TooLate):
        cancel_notification(database, organization_id=FIRST_ORGANIZATION, notification_id=row[0])


@pytest.mark.parametrize("policy", ["retry", "hold"])
@pytest.mark.parametrize(
    ("rank", "status"), [(Rank.ACCEPTED, "submitted"), (Rank.DELIVERED, "delivered")]
)
def test_evidence_that_comes_between_the_look_and_the_lock_decides(
    owner: psycopg.Connection,
    login: Login,
    database: Database,
    policy: str,
    rank: Rank,
    status: str,
) -> None:
    """Read on the snapshot before it, the row would be sent again or held, although accepted."""
    make_uncertain(owner, database, now=now_of(owner, hours=-1), policy=policy)
    row = owner.execute("SELECT id FROM notifications").fetchone()
    assert row is not None
    receipt = Receipt(
        provider="http",
        event_key="event-1",
        type="accepted",
        rank=rank,
        occurred_at=None,
        idempotency_key=str(row[0]),
        raw=b"{}",
    )
    with (
        stopped_clock(owner, login.name),
        connected(login, "check", kind=Database) as (checking,),
        as_owner(login) as callbacks,
        waiting(owner, "check", lambda: check(checking, declarations=DECLARATIONS)) as checked,
    ):
        record(callbacks, [receipt], provider="http", declarations=DECLARATIONS)
        owner.execute("SELECT pg_advisory_unlock(1)")
    assert (checked.result().retried, checked.result().held) == (0, 0)
    assert row_of(owner, row[0]).status == status


def test_a_check_looks_at_a_bounded_number_the_longest_due_first(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner, CHECKED_AT_ONCE + 5)
    owner.execute(
        "UPDATE notifications SET status = 'submitted', submitted_at = clock_timestamp(), "
        "next_check_at = clock_timestamp()"
    )
    now = now_of(owner, seconds=1)
    looked_at = [check(database, declarations=DECLARATIONS, now=now).looked_at for _ in range(3)]
    assert looked_at == [CHECKED_AT_ONCE, 5, 0]


def test_the_gauges_count_what_waits_and_say_how_long(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner, 3, priority="high")
    (unpromoted,) = add_notifications(owner, delay_seconds=60)
    now = now_of(owner, seconds=90)
    gauges = {(g.channel, g.priority): g for g in ready_gauges(database, now=now)}
    assert len(gauges) == 12  # zero is said, not left out
    assert gauges["email", "high"].ready == 3
    assert gauges["email", "high"].oldest_eligible_age_seconds == pytest.approx(90, abs=5)
    assert gauges["email", "normal"].ready == 1  # due, though no claim has promoted it
    assert gauges["email", "normal"].oldest_eligible_age_seconds == pytest.approx(30, abs=5)
    assert gauges["sms", "low"].ready == 0
    assert not row_of(owner, unpromoted).ready


def test_the_gauges_of_a_channel_count_each_live_row_once(
    owner: psycopg.Connection, database: Database
) -> None:
    for status, count in {"submitted": 2, "uncertain": 3, "dead": 4}.items():
        ids = add_notifications(owner, count, channel="sms")
        owner.execute(
            "UPDATE notifications SET status = %s, in_doubt = 1, reason = 'rejected' "
            "WHERE id = ANY(%s)",
            [status, ids],
        )
    owner.execute(
        "UPDATE notifications SET discarded_at = now(), final_at = now() WHERE id = "
        "(SELECT id FROM notifications WHERE status = 'dead' LIMIT 1)"
    )
    add_notifications(owner, 5, channel="sms", delay_seconds=60)
    add_notifications(owner, 6, channel="sms")
    lease(database, channel="sms", page=4)
    gauges = {gauge.channel: gauge for gauge in channel_gauges(database)}
    assert gauges["sms"] == ChannelGauge(
        channel="sms", leased=4, waiting=5, uncertain=3, submitted=2, dead=3, open_breakers=0
    )
    assert gauges["email"] == ChannelGauge(
        channel="email", leased=0, waiting=0, uncertain=0, submitted=0, dead=0, open_breakers=0
    )
