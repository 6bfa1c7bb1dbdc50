"""Cancelling a notification by several channels: with all its candidates, or not at all."""

from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.core.errors import NotFound, TooLate
from functions.core.evidence import Rank
from functions.core.login import Login
from functions.core.outcome import Rejected, Transient, Unknown
from functions.providers.choice import DECLARATIONS
from functions.store.cancel import BatchCancelled, cancel_batch, cancel_notification
from functions.store.chain import advance
from functions.store.connection import Database
from functions.store.sweep import sweep
from tests.chains import Story, story
from tests.fakes import (
    FIRST_ORGANIZATION,
    SECOND_ORGANIZATION,
    HeldDatabase,
    add_notifications,
    moves_of,
    row_of,
)
from tests.operating import cancel
from tests.steps import begin_one, channel_of, connected, lease, opening_of, waiting

NEVER_AGAIN = 400.0
"""Days."""


def waits(chain: Story) -> None:
    assert chain.newest.status == "pending"


def is_leased(chain: Story) -> None:
    assert len(lease(chain.database, channel="push")) == 1


def was_put_off(chain: Story) -> None:
    chain.closed(Transient(code="503"))


def came_to_nothing(chain: Story) -> None:
    chain.suppressed()


def fell_back(chain: Story) -> None:
    chain.closed(Rejected(code="400", http_status=400))
    chain.go_on()


def was_requeued(chain: Story) -> None:
    """Its parent does not know yet."""
    for _ in range(3):
        chain.closed(Rejected(code="400", http_status=400))
        chain.go_on()
    assert chain.parent.status == "dead"
    chain.owner.execute(
        "UPDATE notifications SET status = 'pending', reason = NULL WHERE id = %s",
        [chain.newest.id],
    )


@pytest.mark.parametrize(
    "scene", [waits, is_leased, was_put_off, came_to_nothing, fell_back, was_requeued]
)
def test_a_parent_of_which_nothing_may_have_been_accepted_is_cancelled_for_good(
    owner: psycopg.Connection, database: Database, scene: Any
) -> None:
    chain = story(owner, database)
    scene(chain)
    before = [row.status for row in chain.children]
    cancel(database, chain.id)
    cancel(database, chain.id)  # again: 200
    parent = chain.parent
    assert (parent.status, parent.reason, parent.next_step_at) == ("cancelled", None, None)
    assert [row.status for row in chain.children] == [
        "cancelled" if status in ("pending", "leased") else status for status in before
    ]
    assert chain.moves[-1][0] == "client"
    assert sum(move[0] == "client" for move in chain.moves) == 1
    for row in chain.children:
        if row.status == "cancelled":
            assert moves_of(owner, row.id)[-1][0] == "client"
    chain.go_on(now=chain.later(days=NEVER_AGAIN))
    assert (chain.parent.status, len(chain.children)) == ("cancelled", len(before))
    assert [lease(database, channel=channel) for channel in ("push", "sms", "email")] == [[]] * 3


def has_an_open_attempt(chain: Story) -> None:
    chain.opened()


def is_in_doubt(chain: Story) -> None:
    chain.closed(Unknown(code="timeout"))


def is_uncertain(chain: Story) -> None:
    chain.closed(Unknown(code="timeout"), keyed=False)


def was_accepted(chain: Story) -> None:
    chain.accepted()


def failed_after_it_was_accepted(chain: Story) -> None:
    chain.accepted()
    chain.told(0, Rank.HARD_FAILURE)
    chain.go_on()
    assert chain.standing == ("pending", [("push", "failed"), ("sms", "pending")])


def was_accepted_and_fell_back(chain: Story) -> None:
    chain.accepted()
    chain.go_on(now=chain.parent.next_step_at)
    assert chain.standing == ("pending", [("push", "submitted"), ("sms", "pending")])


def was_delivered(chain: Story) -> None:
    chain.accepted()
    chain.told(0)


def came_to_nothing_at_all(chain: Story) -> None:
    for _ in range(3):
        chain.suppressed()
        chain.go_on()
    assert chain.parent.status == "suppressed"


@pytest.mark.parametrize(
    "scene",
    [
        has_an_open_attempt, is_in_doubt, is_uncertain, was_accepted, failed_after_it_was_accepted,
        was_accepted_and_fell_back, was_delivered, came_to_nothing_at_all,
    ],
)  # fmt: skip
def test_a_parent_of_which_something_may_have_been_accepted_is_not_and_nothing_changes(
    owner: psycopg.Connection, database: Database, scene: Any
) -> None:
    chain = story(owner, database)
    scene(chain)
    before = [chain.parent, *chain.children]
    with pytest.raises(TooLate):
        cancel(database, chain.id)
    assert [chain.parent, *chain.children] == before


def test_a_single_child_may_be_cancelled_where_its_parent_may_not(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database)
    was_accepted_and_fell_back(chain)
    cancel(database, chain.newest.id)
    chain.go_on(now=chain.later(days=NEVER_AGAIN))
    assert chain.standing == ("submitted", [("push", "submitted"), ("sms", "cancelled")])
    with pytest.raises(TooLate):
        cancel(database, chain.id)
    chain.told(0)  # what was sent before may still arrive
    chain.go_on()
    assert chain.parent.status == "delivered"


def test_a_parent_never_shows_cancelled_where_something_was_accepted(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database, ["push", "sms"])
    was_accepted_and_fell_back(chain)
    cancel(database, chain.newest.id)
    chain.told(0, Rank.SOFT_FAILURE)
    chain.go_on()
    assert chain.standing == ("failed", [("push", "failed"), ("sms", "cancelled")])
    with pytest.raises(TooLate):
        cancel(database, chain.id)


def test_a_report_after_a_cancel_makes_nothing_else_of_the_parent(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database)
    fell_back(chain)
    cancel(database, chain.id)
    chain.told(0)
    chain.go_on()
    assert chain.standing == ("cancelled", [("push", "delivered"), ("sms", "cancelled")])
    cancel(database, chain.id)


def test_a_cancel_that_waits_for_the_next_child_to_start_withdraws_it(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    chain = story(owner, database)
    chain.suppressed()
    with (
        connected(login, "loop", kind=HeldDatabase) as (loop,),
        connected(login, "cancel", kind=Database) as (cancelling,),
    ):
        assert advance(loop).started == 1
        with waiting(owner, "cancel", lambda: cancel(cancelling, chain.id)) as cancelled:
            loop.commit()
        cancelled.result()
    assert chain.standing == ("cancelled", [("push", "suppressed"), ("sms", "cancelled")])


def test_nothing_starts_beside_a_cancel(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    chain = story(owner, database)
    chain.suppressed()
    with connected(login, "cancel", kind=HeldDatabase) as (cancelling,):
        cancel(cancelling, chain.id)
        assert chain.go_on().started == 0  # it does not wait
        cancelling.commit()
    assert chain.go_on().started == 0
    assert chain.standing == ("cancelled", [("push", "suppressed")])


def test_a_begin_that_waits_for_a_cancel_of_the_parent_sends_nothing(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    chain = story(owner, database)
    (leased,) = lease(database, channel="push")
    with (
        connected(login, "begin", kind=Database) as (beginning,),
        connected(login, "cancel", kind=HeldDatabase) as (cancelling,),
    ):
        cancel(cancelling, chain.id)
        with waiting(owner, "begin", lambda: begin_one(beginning, opening_of(leased))) as began:
            cancelling.commit()
        assert (began.result().verdict, began.result().send) == ("stale", False)


def test_a_cancel_of_the_parent_that_waits_for_a_begin_comes_too_late(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    chain = story(owner, database)
    with (
        connected(login, "begin", kind=HeldDatabase) as (beginning,),
        connected(login, "cancel", kind=Database) as (cancelling,),
    ):
        (leased,) = lease(database, channel="push")
        owner.execute(
            "UPDATE notifications SET recipient_version = (SELECT version FROM recipients), "
            "decision = '{\"transactional\": true}' WHERE id = %s",
            [leased.id],
        )
        assert begin_one(beginning, opening_of(leased)).verdict == "go"
        with waiting(owner, "cancel", lambda: cancel(cancelling, chain.id)) as cancelled:
            beginning.commit()
        with pytest.raises(TooLate):
            cancelled.result()
    assert chain.standing == ("pending", [("push", "leased")])
    sweep(
        database,
        channel=channel_of(database, "push"),
        declarations=DECLARATIONS,
        now=chain.later(hours=1),
    )
    with pytest.raises(TooLate):  # what was open may have been accepted
        cancel(database, chain.id)


def batch_of(owner: psycopg.Connection, *ids: UUID) -> UUID:
    statement = """
        INSERT INTO batches (organization_id, notification_ids, duplicate_indexes, accepted_at)
        VALUES (%s, %s, '{}', now())
        RETURNING id
    """
    ((id,),) = owner.execute(statement, [FIRST_ORGANIZATION, list(ids)]).fetchall()
    return id


def test_a_batch_counts_its_parents_and_not_their_children(
    owner: psycopg.Connection, database: Database
) -> None:
    free, sent, gone = (story(owner, database, ["push", "sms"]) for _ in range(3))
    cancel(database, gone.id)
    leased = [one for one in lease(database, channel="push") if one.id == sent.newest.id]
    owner.execute("UPDATE notifications SET attempt_id = %s WHERE id = %s",
                  [uuid4(), leased[0].id])  # fmt: skip
    (plain,) = add_notifications(owner)
    batch_id = batch_of(owner, free.id, plain, sent.id, gone.id)
    (stranger,) = add_notifications(owner)

    def cancel_all() -> BatchCancelled:
        return cancel_batch(database, organization_id=FIRST_ORGANIZATION, batch_id=batch_id)

    assert cancel_all() == BatchCancelled(cancelled=2, too_late=1, already_cancelled=1)
    assert free.standing == ("cancelled", [("push", "cancelled")])
    assert sent.standing == ("pending", [("push", "leased")])
    assert [row_of(owner, id).status for id in (plain, stranger)] == ["cancelled", "pending"]
    assert cancel_all() == BatchCancelled(cancelled=0, too_late=1, already_cancelled=3)


def test_a_batch_that_waits_for_a_child_to_start_withdraws_it(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    chain = story(owner, database)
    batch_id = batch_of(owner, chain.id)
    chain.suppressed()
    with (
        connected(login, "loop", kind=HeldDatabase) as (loop,),
        connected(login, "cancel", kind=Database) as (cancelling,),
    ):
        advance(loop)

        def cancel_all() -> BatchCancelled:
            return cancel_batch(cancelling, organization_id=FIRST_ORGANIZATION, batch_id=batch_id)

        with waiting(owner, "cancel", cancel_all) as cancelled:
            loop.commit()
        assert cancelled.result().cancelled == 1
    assert chain.standing == ("cancelled", [("push", "suppressed"), ("sms", "cancelled")])


def test_another_tenant_cancels_neither_a_parent_nor_a_child(
    owner: psycopg.Connection, database: Database
) -> None:
    chain = story(owner, database)
    for id in (chain.id, chain.newest.id):
        with pytest.raises(NotFound):
            cancel_notification(database, organization_id=SECOND_ORGANIZATION, notification_id=id)
    assert chain.standing == ("pending", [("push", "pending")])
