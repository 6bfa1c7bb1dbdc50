"""Fallback: the next candidate starts when the last one came to nothing, or had its time."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from functions.core.evidence import Rank
from functions.core.outcome import Accepted, Refused, Rejected, Transient, Unknown
from functions.providers.choice import DECLARATIONS
from functions.store.check import check
from functions.store.connection import Database
from functions.store.hold import NEVER
from functions.store.sweep import expire
from tests.chains import Story, story
from tests.fakes import moves_of
from tests.operating import cancel
from tests.steps import lease, now_of

AFTER = 600.0
INTENT = (
    "organization_id", "recipient_id", "recipient_hash", "content", "priority", "category",
    "stream", "expires_at", "reference", "metadata", "template_name", "template_version",
)  # fmt: skip


def test_the_first_child_is_what_was_asked_for_and_due_when_it_was_asked_for(
    owner: psycopg.Connection, database: Database
) -> None:
    owner.execute("UPDATE channels SET max_attempts = 3 WHERE name = 'push'")
    send_at, expires_at = now_of(owner, hours=1), now_of(owner, hours=9)
    chain = story(owner, database, after=AFTER, send_at=send_at, expires_at=expires_at)
    parent, (child,) = chain.parent, chain.children
    assert [getattr(child, name) for name in INTENT] == [getattr(parent, name) for name in INTENT]
    assert (child.channel, child.candidate, child.max_attempts) == ("push", 0, 3)
    assert (child.status, child.ready, child.batch_id, child.event_id) == (
        "pending", False, None, None
    )  # fmt: skip
    assert child.send_at == child.available_at == child.eligible_at == send_at
    assert child.id > parent.id
    assert (parent.status, parent.ready, parent.available_at) == ("pending", False, NEVER)
    assert parent.next_step_at == send_at + timedelta(seconds=AFTER)
    assert chain.go_on().told == 0  # its parent knows


def test_a_channel_has_its_own_time_where_none_was_asked_for(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database)
    assert chain.parent.next_step_at - chain.newest.eligible_at == timedelta(seconds=300)
    alone = story(owner, database, ["email"])
    assert alone.parent.next_step_at is None


def rejected(chain: Story) -> None:
    assert chain.closed(Rejected(code="400", http_status=400)) == "dead"


def refused(chain: Story) -> None:
    outcome = Refused(code="410")
    assert chain.closed(outcome) == "suppressed"


def failed_softly(chain: Story) -> None:
    chain.accepted()
    chain.told(-1, Rank.SOFT_FAILURE)


def failed_hard(chain: Story) -> None:
    chain.accepted()
    chain.told(-1, Rank.HARD_FAILURE)


ENDS = [Story.suppressed, rejected, refused, failed_softly, failed_hard]


@pytest.mark.parametrize("ends", ENDS, ids=lambda ends: ends.__name__)
def test_the_next_starts_at_once_when_the_last_came_to_nothing_until_one_is_delivered(
    owner: psycopg.Connection, database: Database, ends: Any
) -> None:
    chain = story(owner, database)
    for number, channel in enumerate(["push", "sms", "email"], start=1):
        assert chain.newest.channel == channel
        assert chain.parent.candidate == number - 1
        if number < 3:
            ends(chain)
            before = chain.parent.next_step_at
            done = chain.go_on()
            assert (done.started, done.told) == (1, 1)
            assert chain.newest.ready
            assert (chain.parent.next_step_at is None) == (number == 2) or before
    assert chain.parent.status == "pending"
    assert chain.moves[-1] == ("fallback", "pending", "pending", "fallback_started")
    chain.accepted()
    chain.go_on()
    assert chain.parent.status == "submitted"
    chain.told(2)
    assert chain.go_on().started == 0
    parent, child = chain.parent, chain.newest
    assert (parent.status, parent.final_at, parent.next_step_at) == (
        "delivered", child.final_at, None
    )  # fmt: skip
    assert chain.moves[-2:] == [
        ("fallback", "pending", "submitted", "submitted"),
        ("fallback", "submitted", "delivered", "delivered"),
    ]
    assert chain.go_on().told == 0


@pytest.mark.parametrize("ends", ENDS, ids=lambda ends: ends.__name__)
def test_when_the_last_one_came_to_nothing_the_parent_ends_as_it_did(
    owner: psycopg.Connection, database: Database, ends: Any
) -> None:
    chain = story(owner, database, ["push", "sms"])
    for _ in range(2):
        ends(chain)
        chain.go_on()
    parent, child = chain.parent, chain.newest
    assert (parent.status, parent.reason, parent.final_at) == (
        child.status, child.reason, child.final_at
    )  # fmt: skip
    assert parent.next_step_at is None
    assert chain.moves[-1][2:] == (child.status, child.reason or child.status)


def submitted(chain: Story) -> None:
    chain.accepted()


def unconfirmed(chain: Story) -> None:
    chain.accepted()
    chain.owner.execute("UPDATE channels SET cutoff_seconds = 60")
    check(chain.database, declarations=DECLARATIONS, now=chain.later(minutes=2))
    assert chain.newest.status == "unconfirmed"


def uncertain(chain: Story) -> None:
    assert chain.closed(Unknown(code="timeout"), keyed=False) == "uncertain"


def in_doubt(chain: Story) -> None:
    assert chain.closed(Unknown(code="timeout")) == "pending"


def put_off(chain: Story) -> None:
    assert chain.closed(Transient(code="503")) == "pending"


def waiting(chain: Story) -> None:
    assert chain.newest.status == "pending"


def under_way(chain: Story) -> None:
    chain.opened()


WAITS = [
    (submitted, "submitted"), (unconfirmed, "submitted"), (uncertain, "uncertain"),
    (in_doubt, "pending"), (put_off, "pending"), (waiting, "pending"), (under_way, "pending"),
]  # fmt: skip


@pytest.mark.parametrize(("waits", "shown"), WAITS, ids=[waits.__name__ for waits, _ in WAITS])
def test_the_next_starts_after_its_time_while_the_last_may_still_be_delivered(
    owner: psycopg.Connection, database: Database, waits: Any, shown: str
) -> None:
    chain = story(owner, database, after=AFTER)
    due = chain.parent.next_step_at
    waits(chain)
    assert chain.go_on(now=due - timedelta(seconds=1)).started == 0
    # No end while the chain goes on, though its candidate may have come to one.
    assert (chain.parent.status, chain.parent.final_at) == (shown, None)
    assert chain.parent.next_step_at == due
    assert chain.go_on(now=due).started == 1
    assert [row.channel for row in chain.children] == ["push", "sms"]
    assert chain.parent.next_step_at == due + timedelta(seconds=AFTER)
    assert chain.moves[-1] == ("fallback", shown, "pending", "fallback_after")
    assert chain.parent.in_doubt == 0
    assert chain.go_on(now=due).started == 0


def test_a_candidate_that_the_policy_puts_off_has_its_time_from_then_on(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database, after=AFTER)
    due, until = chain.parent.next_step_at, chain.later(hours=9)
    owner.execute(
        "UPDATE notifications SET eligible_at = %s, available_at = %s WHERE id = %s",
        [until, until, chain.newest.id],
    )
    assert chain.go_on(now=due).started == 0
    assert chain.parent.next_step_at == until + timedelta(seconds=AFTER)
    assert chain.go_on(now=chain.parent.next_step_at).started == 1


def test_evidence_before_its_time_is_over_stops_the_chain(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database, after=AFTER)
    due = chain.parent.next_step_at
    chain.accepted()
    chain.told(0)
    assert chain.go_on(now=due).started == 0
    assert chain.standing == ("delivered", [("push", "delivered")])
    assert chain.parent.next_step_at is None


def test_acceptance_that_is_delivery_stops_the_chain(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database, ["webhook", "email"])
    due = chain.parent.next_step_at
    assert chain.closed(Accepted(reference="m-1", final=True)) == "delivered"
    assert chain.go_on(now=due).started == 0
    assert chain.standing == ("delivered", [("webhook", "delivered")])


def test_a_cancelled_child_stops_the_chain(owner: psycopg.Connection, database: Database) -> None:
    chain = story(owner, database)
    due = chain.parent.next_step_at
    cancel(database, chain.newest.id)
    assert chain.go_on(now=due).started == 0
    assert chain.standing == ("cancelled", [("push", "cancelled")])
    assert (chain.parent.next_step_at, chain.parent.final_at) == (None, chain.newest.final_at)
    assert chain.moves == [("fallback", "pending", "cancelled", "cancelled")]


def test_what_expires_ends_with_its_children_and_is_not_expired_itself(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database, expires_at=now_of(owner, minutes=1))
    late = chain.later(minutes=2)
    assert expire(database, now=late) == 1
    assert chain.standing == ("pending", [("push", "expired")])
    assert chain.go_on(now=late).started == 0
    assert chain.standing == ("expired", [("push", "expired")])
    assert chain.moves == [("fallback", "pending", "expired", "expired")]


def test_nothing_starts_when_the_time_to_be_sent_has_passed(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database, expires_at=now_of(owner, minutes=1))
    chain.suppressed()
    assert chain.go_on(now=chain.later(minutes=2)).started == 0
    assert chain.standing == ("suppressed", [("push", "suppressed")])


def test_nothing_starts_of_what_was_erased(owner: psycopg.Connection, database: Database) -> None:
    chain = story(owner, database)
    owner.execute(
        "UPDATE notifications SET status = 'suppressed', reason = 'erased', final_at = now(), "
        "erased_at = now(), content = 'null' WHERE id = %s OR parent_id = %s",
        [chain.id, chain.id],
    )
    done = chain.go_on()
    assert (done.started, done.told) == (0, 1)
    assert chain.standing == ("suppressed", [("push", "suppressed")])
    assert (chain.parent.reason, chain.parent.next_step_at, chain.moves) == ("erased", None, [])
    assert chain.go_on(now=chain.later(days=1)).started == 0


def test_a_late_delivery_is_shown_and_what_waits_beside_it_is_withdrawn(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database, after=AFTER)
    chain.accepted()
    chain.go_on(now=chain.parent.next_step_at)
    assert len(lease(database, channel="sms")) == 1  # and no attempt under it
    chain.told(0)
    assert chain.go_on().doubles == 0
    assert chain.standing == ("delivered", [("push", "delivered"), ("sms", "cancelled")])
    gone = chain.newest
    assert (gone.reason, gone.lease_until, gone.told_status) == (
        "fallback_delivered", None, "cancelled"
    )  # fmt: skip
    assert moves_of(owner, gone.id) == [("fallback", "leased", "cancelled", "fallback_delivered")]
    assert chain.go_on(now=chain.later(days=9)).started == 0


def test_an_earlier_one_that_still_waits_is_withdrawn_too(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database, ["push", "sms"], after=AFTER)
    chain.go_on(now=chain.parent.next_step_at)
    chain.accepted(1)
    chain.told(1)
    chain.go_on()
    assert chain.standing == ("delivered", [("push", "cancelled"), ("sms", "delivered")])


@pytest.mark.parametrize("sent", [under_way, in_doubt, uncertain, submitted])
def test_what_may_have_been_sent_is_not_withdrawn(
    owner: psycopg.Connection, database: Database, sent: Any
) -> None:
    chain = story(owner, database, after=AFTER)
    chain.accepted()
    chain.go_on(now=chain.parent.next_step_at)
    sent(chain)
    before = chain.newest.status
    chain.told(0)
    chain.go_on()
    assert chain.standing == ("delivered", [("push", "delivered"), ("sms", before)])


def test_a_second_delivery_is_counted_once_and_changes_nothing_else(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database, after=AFTER)
    chain.accepted()
    chain.go_on(now=chain.parent.next_step_at)
    chain.accepted()
    chain.told(1)
    chain.go_on()
    first = chain.parent
    chain.told(0)
    assert [chain.go_on().doubles for _ in range(2)] == [1, 0]
    parent = chain.parent
    assert (parent.status, parent.final_at, parent.fallback_doubles) == (
        "delivered", first.final_at, 1
    )  # fmt: skip
    assert chain.moves[-1] == ("fallback", "delivered", "delivered", "fallback_double")
    chain.told(0, Rank.HARD_FAILURE)  # it was not, after all: it had been counted by then
    assert (chain.go_on().doubles, chain.parent.fallback_doubles) == (0, 1)
    assert chain.parent.status == "delivered"


def test_two_deliveries_that_are_heard_of_at_once_are_a_delivery_and_a_double(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database, after=AFTER)
    chain.accepted()
    chain.go_on(now=chain.parent.next_step_at)
    chain.accepted()
    chain.told(0)
    chain.told(1)
    assert chain.go_on().doubles == 1
    assert chain.moves[-2:] == [
        ("fallback", "pending", "delivered", "delivered"),
        ("fallback", "delivered", "delivered", "fallback_double"),
    ]


def test_a_delivery_that_turns_out_to_have_failed_lets_the_chain_go_on(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database, after=AFTER)
    chain.accepted()
    chain.go_on(now=chain.parent.next_step_at)
    chain.told(0)
    chain.go_on()
    chain.told(0, Rank.HARD_FAILURE)
    assert chain.go_on().started == 1
    assert chain.standing == (
        "pending", [("push", "failed"), ("sms", "cancelled"), ("email", "pending")]
    )  # fmt: skip


def test_a_complaint_is_shown_with_the_parent(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database)
    chain.accepted()
    chain.told(0, complaint=True)
    chain.go_on()
    assert (chain.parent.status, chain.parent.complained) == ("delivered", True)


@pytest.mark.parametrize("news", ["complaint", "hard failure"])
def test_what_a_report_says_without_a_change_of_status_is_shown_as_well(
    owner: psycopg.Connection, database: Database, news: str
) -> None:
    chain = story(owner, database, ["email"])
    chain.accepted()
    chain.told(0, Rank.DELIVERED if news == "complaint" else Rank.SOFT_FAILURE, reason="full")
    chain.go_on()
    if news == "complaint":
        chain.told(0, complaint=True)
    else:
        chain.told(0, Rank.HARD_FAILURE, reason="unknown user")
    assert chain.go_on().told == 1
    parent, child = chain.parent, chain.newest
    assert (parent.status, parent.reason, parent.complained, parent.final_at) == (
        child.status, child.reason, child.complained, child.final_at
    )  # fmt: skip
