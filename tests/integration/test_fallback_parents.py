"""Parents of candidates are not sent: nothing that is about what is sent finds them."""

from uuid import UUID

import psycopg
import pytest

from functions.core.evidence import Rank
from functions.core.login import Login
from functions.core.outcome import Rejected, Unknown
from functions.core.states import Finding
from functions.providers.choice import DECLARATIONS
from functions.store.batch import StatusCount, read_batch
from functions.store.check import check
from functions.store.connection import Database
from functions.store.gauge import channel_gauges, ready_gauges
from functions.store.held import discard, requeue
from functions.store.held_list import list_held
from functions.store.restore import mark_gap
from functions.store.survey import promote, survey
from functions.store.sweep import expire, sweep
from functions.store.uncertain import list_uncertain, settle
from tests.chains import Story, story
from tests.fakes import FIRST_ORGANIZATION, row_of
from tests.operating import action, cancel, operating, requeued
from tests.steps import channel_of, lease, now_of

CHANNELS = ("push", "sms", "email", "webhook")


def held(owner: psycopg.Connection, database: Database) -> Story:
    """Both candidates were rejected."""
    chain = story(owner, database, ["push", "sms"])
    for _ in range(2):
        assert chain.closed(Rejected(code="400", http_status=400)) == "dead"
        chain.go_on()
    assert chain.standing == ("dead", [("push", "dead"), ("sms", "dead")])
    return chain


def test_a_parent_is_neither_claimed_nor_promoted_nor_swept_nor_checked_nor_expired(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database, expires_at=now_of(owner, hours=1))
    late = chain.later(days=4000)
    (leased,) = lease(database, channel="push")
    assert leased.id == chain.newest.id
    owner.execute(
        "UPDATE notifications SET status = 'delivered', final_at = now(), lease_until = NULL "
        "WHERE id = %s",
        [leased.id],
    )
    before = chain.parent
    assert promote(database, now=late) == 0
    assert all(not one.ready for one in survey(database, run="claim"))
    assert [lease(database, channel=channel, now=late) for channel in CHANNELS] == [[]] * 4
    for channel in CHANNELS:
        swept = sweep(
            database,
            channel=channel_of(database, channel),
            declarations=DECLARATIONS,
            now=late,
        )
        assert swept.total == 0
    assert expire(database, now=late) == 0
    for status, doubt in (("submitted", 0), ("uncertain", 1)):
        owner.execute(
            "UPDATE notifications SET status = %s, in_doubt = %s WHERE id = %s",
            [status, doubt, chain.id],
        )
        assert check(database, declarations=DECLARATIONS, now=late).looked_at == 0
    owner.execute(
        "UPDATE notifications SET status = 'pending', in_doubt = 0 WHERE id = %s", [chain.id]
    )
    assert chain.parent == before


@pytest.mark.parametrize("status", ["pending", "uncertain", "submitted", "dead"])
def test_gauges_count_what_is_sent(
    owner: psycopg.Connection, database: Database, status: str
) -> None:
    chain = story(owner, database)
    owner.execute(
        "UPDATE notifications SET status = %s, reason = 'rejected', in_doubt = 1, ready = false, "
        "available_at = now() + interval '1 hour' WHERE parent_id = %s OR id = %s",
        [status, chain.id, chain.id],
    )
    counted = [
        one.waiting + one.uncertain + one.submitted + one.dead for one in channel_gauges(database)
    ]
    assert sum(counted) == 1
    assert sum(one.ready for one in ready_gauges(database)) == 0


def test_what_is_held_is_the_candidate_and_its_parent_follows(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    chain = held(owner, database)
    first, second = (row.id for row in chain.children)
    with operating(login) as operator:
        assert [one.id for one in list_held(operator)] == [first, second]
        (fate,) = requeue(
            operator,
            [chain.id],
            may_send_twice=True,
            declarations=DECLARATIONS,
            action=action(),
        )
        assert (fate.fate, fate.candidate_id) == ("sent_by_candidates", second)
        (fate,) = discard(operator, [chain.id], action=action())
        assert (fate.fate, fate.candidate_id) == ("sent_by_candidates", second)
        assert requeued(operator, second) == ["requeued"]
        chain.go_on()
        assert chain.standing == ("pending", [("push", "dead"), ("sms", "pending")])
        assert (chain.parent.reason, chain.parent.next_step_at) == (None, None)
        chain.closed(Rejected(code="400", http_status=400))
        chain.go_on()
        assert [one.fate for one in discard(operator, [second], action=action())] == ["discarded"]
        assert [one.fate for one in discard(operator, [second], action=action())] == [
            "already_discarded"
        ]
    chain.go_on()
    parent, child = chain.parent, chain.newest
    assert (parent.status, parent.discarded_at, parent.final_at) == (
        "dead", child.discarded_at, child.final_at
    )  # fmt: skip
    assert parent.discarded_at is not None


def test_an_earlier_candidate_is_sent_again_where_nobody_is_told_twice(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    chain = story(owner, database, ["push", "sms"])
    chain.closed(Rejected(code="400", http_status=400))
    chain.go_on()
    first = chain.children[0].id
    with operating(login) as operator:
        assert requeued(operator, first) == ["needs_consent"]  # the next one goes on
        chain.accepted()
        chain.go_on()
        assert requeued(operator, first) == ["needs_consent"]
        chain.told(1, Rank.HARD_FAILURE)
        chain.go_on()
        assert requeued(operator, first) == ["requeued"]
        chain.go_on()
        assert chain.standing == ("pending", [("push", "pending"), ("sms", "failed")])
        chain.closed(Rejected(code="400", http_status=400), place=0)
        chain.go_on()
        assert chain.standing == ("failed", [("push", "dead"), ("sms", "failed")])
        chain.told(1, Rank.HARD_FAILURE)
        owner.execute(
            "UPDATE notifications SET status = 'delivered' WHERE id = %s", [chain.newest.id]
        )
        assert requeued(operator, first, may_send_twice=True) == ["chain_delivered"]


def test_a_candidate_is_not_sent_again_once_its_parent_was_withdrawn(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    chain = story(owner, database, ["push", "sms"])
    chain.closed(Rejected(code="400", http_status=400))
    chain.go_on()
    cancel(database, chain.id)
    with operating(login) as operator:
        assert requeued(operator, chain.children[0].id, may_send_twice=True) == ["chain_cancelled"]


def test_what_is_uncertain_is_the_candidate_and_its_parent_follows(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    chain = story(owner, database)
    assert chain.closed(Unknown(code="timeout"), keyed=False) == "uncertain"
    chain.go_on()
    assert (chain.parent.status, chain.parent.in_doubt) == ("uncertain", 1)
    with operating(login) as operator:
        assert [one.id for one in list_uncertain(operator)] == [chain.newest.id]
        fate = settle(operator, chain.id, finding=Finding.ACCEPTED, action=action())
        assert fate.fate == "sent_by_candidates"
        settle(operator, chain.newest.id, finding=Finding.NOT_ACCEPTED, action=action())
    chain.go_on()
    assert chain.standing == ("pending", [("push", "pending")])
    assert chain.parent.in_doubt == 0


def test_after_a_restore_the_candidate_is_in_doubt_and_not_its_parent(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    chain = story(owner, database)
    with operating(login) as operator:
        marked = mark_gap(
            operator, since=chain.later(seconds=1), declarations=DECLARATIONS, action=action()
        )
    assert (marked.marked, chain.parent.status) == (1, "pending")
    chain.go_on()
    assert chain.standing == ("uncertain", [("push", "uncertain")])


INSERT_BATCH = """
    INSERT INTO batches (organization_id, notification_ids, duplicate_indexes, accepted_at)
    VALUES (%s, %s, '{}', now())
    RETURNING id
"""


def test_a_batch_counts_parents_as_claimed_with_a_child_and_as_settled_with_the_last(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database, ["push", "sms"])
    ((batch_id,),) = owner.execute(INSERT_BATCH, [FIRST_ORGANIZATION, [chain.id]]).fetchall()

    def counts(channel: str) -> StatusCount:
        batch = read_batch(database, organization_id=FIRST_ORGANIZATION, batch_id=batch_id)
        assert batch is not None
        (count,) = batch.counts
        assert (batch.total_count, count.number, count.channel) == (1, 1, channel)
        return count

    assert not counts("push").claimed
    chain.suppressed()
    assert (counts("push").claimed, counts("push").status) == (True, "pending")
    chain.go_on()
    assert (counts("sms").claimed, counts("sms").status) == (True, "pending")
    chain.accepted()
    chain.told(1)
    chain.go_on()
    assert (counts("sms").status, counts("sms").settled_at) == (
        "delivered", chain.newest.final_at
    )  # fmt: skip


def test_no_place_of_a_chain_is_filled_twice(owner: psycopg.Connection, database: Database) -> None:
    chain = story(owner, database)
    other = story(owner, database)
    with pytest.raises(psycopg.errors.UniqueViolation):
        owner.execute(
            "UPDATE notifications SET parent_id = %s WHERE id = %s", [chain.id, other.newest.id]
        )
    moved: UUID = other.newest.id
    assert row_of(owner, moved).parent_id == other.id
