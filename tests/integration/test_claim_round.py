"""A round of the claim with a queue: shares, budgets, what is refused, and what dies in between."""

from collections.abc import Callable
from typing import TypeVar

import psycopg
import pytest
from psycopg import errors

from functions.claim.claim import Claimer
from functions.core.errors import Unavailable
from functions.core.login import Login
from functions.core.message import LeaseMessage
from functions.core.outcome import Accepted
from functions.store.begin import Opening
from functions.store.cancel import cancel_notification
from functions.store.claim import Page
from functions.store.connection import Connect, Database, connector
from functions.store.sweep import sweep
from tests.fakes import (
    FIRST_ORGANIZATION,
    SECOND_ORGANIZATION,
    FakeSqs,
    HeldDatabase,
    Killed,
    add_notifications,
    queues_of,
    row_of,
)
from tests.steps import begin_one, channel_of, close_one, connected, now_of, token_of

T = TypeVar("T")

UNBOUND = 1_000_000
STILL = 1e-9
"""Tokens per second of a bucket that does not refill while a test looks at it."""


def set_pace(
    owner: psycopg.Connection,
    *,
    tokens: float = UNBOUND,
    page: int = 100,
    max_in_flight: int = UNBOUND,
) -> None:
    """Let every channel lease ``tokens`` rows and no more."""
    owner.execute(
        "UPDATE channels SET rate = %s, burst = %s, tokens = %s, page = %s, max_in_flight = %s",
        [STILL, max(tokens, 1), tokens, page, max_in_flight],
    )


def claimer_of(database: Database, sqs: FakeSqs) -> Claimer:
    return Claimer(database=database, queues=queues_of(sqs), leased_by="run-1")


def opening_of(database: Database, message: LeaseMessage) -> Opening:
    """Return what a sender opens when it gets ``message``."""
    return Opening(
        id=message.id,
        lease_number=message.lease_number,
        token=token_of(database, message.id),
    )


def test_what_is_leased_is_queued_once_by_its_channel(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    email, sms = add_notifications(owner, 25), add_notifications(owner, 3, channel="sms")
    sqs = FakeSqs()
    claimer = claimer_of(database, sqs)
    done = claimer.round()
    assert done.claimed == {"email": 25, "sms": 3}
    assert (sorted(sqs.ids("email")), sorted(sqs.ids("sms"))) == (email, sms)
    assert {message.lease_number for message in sqs.messages["email"]} == {1}
    assert not done.was_idle
    assert claimer.round().was_idle
    assert len(sqs.ids("email")) == 25


def test_rows_whose_time_has_come_are_claimed_in_the_same_round(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    (id,) = add_notifications(owner, delay_seconds=60)
    sqs = FakeSqs()
    assert claimer_of(database, sqs).round().was_idle
    owner.execute("UPDATE notifications SET available_at = available_at - interval '61 seconds'")
    assert claimer_of(database, sqs).round().promoted == 1
    assert sqs.ids() == [id]


def test_priorities_share_ten_to_five_to_one_over_many_rounds(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner, page=10)
    for priority in ("high", "normal", "low"):
        add_notifications(owner, 200, priority=priority)
    sqs = FakeSqs()
    claimer = claimer_of(database, sqs)
    for _ in range(16):
        assert claimer.round().claimed == {"email": 10}
    leased = owner.execute(
        "SELECT priority, count(*)::int FROM notifications WHERE status = 'leased' GROUP BY 1"
    )
    assert dict(leased.fetchall()) == {"high": 100, "normal": 50, "low": 10}


def test_low_priority_never_starves_even_with_one_token_a_round(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner, page=1)
    add_notifications(owner, 50, priority="high")
    low = add_notifications(owner, 2, priority="low")
    sqs = FakeSqs()
    claimer = claimer_of(database, sqs)
    for _ in range(22):
        claimer.round()
    assert set(low) <= set(sqs.ids())


@pytest.mark.parametrize("priority", ["high", "normal", "low"])
def test_what_the_others_do_not_use_flows_on(
    owner: psycopg.Connection, database: Database, priority: str
) -> None:
    set_pace(owner, page=100)
    for other in {"high", "normal", "low"} - {priority}:
        add_notifications(owner, 3, priority=other)
    add_notifications(owner, 200, priority=priority)
    assert claimer_of(database, FakeSqs()).round().claimed == {"email": 100}


def test_the_higher_priority_stands_first_in_the_queue(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    low, high = (
        add_notifications(owner, 5, priority="low"),
        add_notifications(owner, 5, priority="high"),
    )
    sqs = FakeSqs()
    claimer_of(database, sqs).round()
    assert (set(sqs.ids()[:5]), set(sqs.ids()[5:])) == (set(high), set(low))


def test_c6_one_item_leaves_with_the_next_page_beside_a_thousand_of_another_tenant(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    add_notifications(owner, 1_000)
    sqs = FakeSqs()
    claimer = claimer_of(database, sqs)
    claimer.round()
    (single,) = add_notifications(owner, organization_id=SECOND_ORGANIZATION)
    assert claimer.round().claimed == {"email": 100}
    assert single in sqs.ids()


def test_a_page_is_filled_although_organizations_are_uneven(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    add_notifications(owner, 500)
    for _ in range(2):
        add_notifications(owner, 2, organization_id=SECOND_ORGANIZATION)
    assert claimer_of(database, FakeSqs()).round().claimed == {"email": 100}


def test_a_locked_row_does_not_cost_its_priority_the_turn(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    set_pace(owner, page=1)
    (locked,) = add_notifications(owner)
    (free,) = add_notifications(owner, organization_id=SECOND_ORGANIZATION)
    sqs = FakeSqs()
    with connected(login, "cancel", kind=HeldDatabase) as (cancelling,):
        cancel_notification(cancelling, organization_id=FIRST_ORGANIZATION, notification_id=locked)
        assert claimer_of(database, sqs).round().claimed == {"email": 1}
    assert sqs.ids() == [free]


def test_rows_that_are_all_locked_end_the_round(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    set_pace(owner, page=1)
    ids = add_notifications(owner, 2)
    with connected(login, "cancel", kind=HeldDatabase) as (cancelling,):
        for id in ids:
            cancel_notification(cancelling, organization_id=FIRST_ORGANIZATION, notification_id=id)
        assert claimer_of(database, FakeSqs()).round().was_idle


def test_leases_stay_within_the_bucket(owner: psycopg.Connection, database: Database) -> None:
    set_pace(owner, tokens=150)
    add_notifications(owner, 400)
    claimer = claimer_of(database, FakeSqs())
    assert [claimer.round().claimed["email"] for _ in range(3)] == [100, 50, 0]


def test_leases_stay_within_what_may_be_in_flight(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner, max_in_flight=130)
    add_notifications(owner, 400)
    sqs = FakeSqs()
    claimer = claimer_of(database, sqs)
    assert [claimer.round().claimed["email"] for _ in range(3)] == [100, 30, 0]
    opening = opening_of(database, sqs.messages["email"][0])
    begin_one(database, opening)
    close_one(database, opening, Accepted(reference="m-1"))
    assert claimer.round().claimed == {"email": 1}


def test_tokens_that_found_nothing_are_given_back(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner, tokens=100)
    add_notifications(owner, 3)
    claimer_of(database, FakeSqs()).round()
    row = owner.execute("SELECT tokens FROM channels WHERE name = 'email'").fetchone()
    assert row == (pytest.approx(97),)


def test_a_paused_channel_leases_nothing_and_the_others_go_on(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    add_notifications(owner, 3)
    add_notifications(owner, 2, channel="sms")
    owner.execute("UPDATE channels SET paused_at = now() WHERE name = 'email'")
    assert claimer_of(database, FakeSqs()).round().claimed == {"sms": 2}


def test_a_refused_entry_gets_its_lease_back_at_once_and_the_others_go(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    ids = add_notifications(owner, 10)
    sqs = FakeSqs(refuse={ids[3]})
    claimer = claimer_of(database, sqs)
    done = claimer.round()
    assert (done.claimed, done.undispatched) == ({"email": 10}, 1)
    assert sorted(sqs.ids()) == [id for id in ids if id != ids[3]]
    row = row_of(owner, ids[3])
    assert (row.status, row.ready, row.lease_until) == ("pending", True, None)
    sqs.refuse.clear()
    assert claimer.round().claimed == {"email": 1}
    assert sqs.messages["email"][-1].lease_number == 2


def test_c7_killed_after_the_commit_before_the_queue_the_row_is_claimed_again(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    (id,) = add_notifications(owner)
    dead = FakeSqs(die_before=Killed())
    with pytest.raises(Killed):
        claimer_of(database, dead).round()
    assert (row_of(owner, id).status, dead.ids()) == ("leased", [])
    assert claimer_of(database, FakeSqs()).round().was_idle  # the lease stands until it ends
    late = now_of(owner, hours=1)
    assert sweep(database, channel=channel_of(database), declarations=[], now=late).released == 1
    assert submissions_of(owner, database, claim_again(database)) == 1


def test_c7_killed_after_the_queue_the_message_stands_for_its_lease(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    (id,) = add_notifications(owner)
    dead = FakeSqs(die_after=Killed())
    with pytest.raises(Killed):
        claimer_of(database, dead).round()
    assert (row_of(owner, id).status, dead.ids()) == ("leased", [id])
    assert submissions_of(owner, database, dead.messages["email"]) == 1
    assert row_of(owner, id).status == "submitted"


def test_c7_a_message_of_a_lease_that_was_taken_back_sends_nothing(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    (id,) = add_notifications(owner)
    dead = FakeSqs(die_after=Killed())
    with pytest.raises(Killed):
        claimer_of(database, dead).round()
    late = now_of(owner, hours=1)
    assert sweep(database, channel=channel_of(database), declarations=[], now=late).released == 1
    messages = [*dead.messages["email"], *claim_again(database)]
    assert [message.lease_number for message in messages] == [1, 2]
    assert submissions_of(owner, database, messages) == 1
    assert row_of(owner, id).status == "submitted"


def claim_again(database: Database) -> list[LeaseMessage]:
    """Return what another run of the claim puts on the queue."""
    sqs = FakeSqs()
    claimer_of(database, sqs).round()
    return sqs.messages["email"]


def submissions_of(
    owner: psycopg.Connection, database: Database, messages: list[LeaseMessage]
) -> int:
    """Deliver each message twice, as SQS may; return how many provider calls that makes."""
    calls = 0
    for message in (*messages, *messages):
        opening = opening_of(database, message)
        if begin_one(database, opening).send:
            calls += 1
            close_one(database, opening, Accepted(reference="m-1"))
    ledger = owner.execute("SELECT count(*) FROM attempts").fetchone()
    assert ledger == (calls,)
    return calls


class FailingDatabase(Database):
    """Is gone from the n-th piece of work on, as in an outage that begins within a round."""

    def __init__(self, connect: Connect, *, works: int) -> None:
        super().__init__(connect)
        self.works = works

    def run(self, work: Callable[[psycopg.Connection], T], *, pipelined: bool = False) -> T:
        self.works -= 1
        if self.works < 0:
            raise Unavailable
        return super().run(work, pipelined=pipelined)


def test_what_was_leased_is_queued_although_the_database_went_away(
    owner: psycopg.Connection, login: Login
) -> None:
    set_pace(owner)
    ids = add_notifications(owner, 2, priority="high")
    add_notifications(owner, 2, priority="low")
    sqs = FakeSqs()
    # promote, survey, reserve, one page; the next page finds no database
    database = FailingDatabase(connector(lambda: login, application_name="failing"), works=4)
    with pytest.raises(Unavailable):
        claimer_of(database, sqs).round()
    database.close()
    assert sorted(sqs.ids()) == ids
    assert {row_of(owner, id).status for id in ids} == {"leased"}


def test_a_channel_that_cannot_be_claimed_from_keeps_no_other_back(
    owner: psycopg.Connection, login: Login
) -> None:
    set_pace(owner)
    add_notifications(owner, 2)
    ids = add_notifications(owner, 2, channel="sms")
    told: list[tuple[str, str]] = []
    sqs = FakeSqs()

    class Broken(Database):
        def run(self, work: Callable[[psycopg.Connection], T], *, pipelined: bool = False) -> T:
            value = super().run(work, pipelined=pipelined)
            if isinstance(value, Page) and any(row.channel == "email" for row in value.leased):
                raise errors.NumericValueOutOfRange
            return value

    database = Broken(connector(lambda: login, application_name="broken"))
    claimer = Claimer(
        database=database,
        queues=queues_of(sqs),
        leased_by="run-1",
        trouble=lambda channel, error: told.append((channel, type(error).__name__)),
    )
    assert claimer.round().claimed["sms"] == 2
    add_notifications(owner, 1)
    claimer.round()  # five rounds a second must not be five lines a second
    database.close()
    assert sorted(sqs.ids("sms")) == ids
    assert told == [("email", "NumericValueOutOfRange")]
