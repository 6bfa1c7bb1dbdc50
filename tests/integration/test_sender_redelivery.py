"""The queue delivers at least once: an extra delivery does no work, and a crash loop ends."""

from dataclasses import dataclass
from uuid import UUID

import psycopg
import pytest

from functions.core.outcome import Outcome
from functions.core.states import MAX_STARTS
from functions.providers.choice import DECLARATIONS
from functions.providers.http import DECLARATION, HttpProvider
from functions.providers.provider import Declaration, PreparedCall, Submission
from functions.sender.record import Record, read_records
from functions.store.claim import Leased
from functions.store.connection import Database
from functions.store.sweep import sweep
from tests.fakes import Killed, add_notifications, moves_of, row_of
from tests.gateway import Asked, gateway
from tests.sending import body_of, queue_event, records_of, sender
from tests.steps import begin_one, channel_of, lease, now_of, opening_of
from tests.wire import Wire


@dataclass(slots=True)
class Dying:
    """A provider that one recipient makes the process end."""

    inner: HttpProvider
    declaration: Declaration
    deaths: int = 0

    def prepare(self, submission: Submission) -> PreparedCall:
        if submission.recipient == "poison@example.com":
            self.deaths += 1
            raise Killed
        return self.inner.prepare(submission)

    def submit(self, call: PreparedCall, *, deadline: float) -> Outcome:
        return self.inner.submit(call, deadline=deadline)


def again(leased: Leased, *, received: int = 2) -> Record:
    """Return the same message as it comes again."""
    return records_of([leased], received=received)[0]


def test_d4_the_same_message_twice_in_a_row_is_one_request(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    with gateway() as served:
        for records in (records_of([leased]), [again(leased)], [again(leased, received=3)]):
            with sender(database, served.provider()) as one:
                report = one.deliver(records)
            assert (report.failed, report.errors) == ([], [])
        assert len(served.asked) == 1
        assert report.counts["StaleDelivery"] == 1
    row = row_of(owner, id)
    assert (row.status, row.attempts_spent, row.starts) == ("submitted", 1, 0)


def test_d4_the_same_message_twice_in_one_batch_is_one_request(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    with gateway() as served:
        with sender(database, served.provider()) as one:
            report = one.deliver(records_of([leased, leased]))
        assert len(served.asked) == 1
    assert (report.failed, report.counts["StaleDelivery"]) == ([], 1)
    assert row_of(owner, id).status == "submitted"


@pytest.mark.parametrize("status", ["delivered", "cancelled", "suppressed", "failed", "expired"])
def test_d4_a_delivery_after_the_end_is_acknowledged_without_work(
    owner: psycopg.Connection, database: Database, status: str
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    owner.execute(
        "UPDATE notifications SET status = %s, final_at = clock_timestamp(), lease_until = NULL"
        " WHERE id = %s",
        [status, id],
    )
    with gateway() as served:
        with sender(database, served.provider()) as one:
            report = one.deliver([*records_of([leased]), again(leased)])
        assert served.asked == []
    assert (report.failed, report.errors) == ([], [])
    row = row_of(owner, id)
    assert (row.status, row.starts) == (status, 0)


def test_a_message_of_an_earlier_lease_does_nothing_to_the_later_one(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner)
    (first,) = lease(database)
    sweep(
        database,
        channel=channel_of(database),
        declarations=DECLARATIONS,
        now=now_of(owner, hours=1),
    )
    (second,) = lease(database)
    with gateway() as served:
        with sender(database, served.provider()) as one:
            report = one.deliver(records_of([first]))
            assert (served.asked, report.counts["StaleDelivery"]) == ([], 1)
            report = one.deliver(records_of([second, first]))
        assert len(served.asked) == 1
    assert report.counts["AttemptAccepted"] == 1


def test_a_message_that_came_before_goes_alone_and_last(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = add_notifications(owner, 4)
    leased = lease(database)
    for number, id in enumerate(ids):
        owner.execute("UPDATE notifications SET priority = 'high' WHERE id = %s", [id])
        assert leased[number].id == id
    event = queue_event(*(body_of(one) for one in leased))
    for place in (0, 2):
        event["Records"][place]["attributes"]["ApproximateReceiveCount"] = "2"
    order: list[UUID] = []

    def note(wire: Wire, asked: Asked) -> None:
        order.append(UUID(asked.key))
        wire.answer(200, f'{{"message_id":"{served.accept(asked.key)}"}}'.encode())

    with gateway() as served:
        served.behaviour["ok@example.com"] = note
        with sender(database, served.provider()) as one:
            assert one.deliver(read_records(event)).failed == []
    assert set(order[:2]) == {ids[1], ids[3]}
    assert order[2:] == [ids[0], ids[2]]


def test_a_redelivery_counts_a_start_and_a_close_forgets_them(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    starts: list[int] = []

    def look(wire: Wire, asked: Asked) -> None:
        starts.append(row_of(owner, UUID(asked.key)).starts)
        wire.answer(503)

    with gateway() as served:
        served.behaviour["ok@example.com"] = look
        with sender(database, served.provider()) as one:
            one.deliver([again(leased)])
    assert starts == [1]
    row = row_of(owner, id)
    assert (row.status, row.starts) == ("pending", 0)


def test_what_kills_its_handler_five_times_is_held_as_a_crash_loop(
    owner: psycopg.Connection, database: Database
) -> None:
    (poison,) = add_notifications(owner, recipient="poison@example.com")
    (good,) = add_notifications(owner)
    leases = {one.id: one for one in lease(database)}

    with gateway() as served:
        provider = Dying(inner=served.provider(), declaration=DECLARATION)
        for received in range(2, 2 + MAX_STARTS):
            records = [again(leases[poison], received=received), again(leases[good])]
            with sender(database, provider) as one:
                if received < 1 + MAX_STARTS:
                    with pytest.raises(Killed):
                        one.deliver(records)
                else:
                    report = one.deliver(records)
                    assert report.counts["CrashLoop"] == 1
        assert provider.deaths == MAX_STARTS - 1
        assert [asked.key for asked in served.asked] == [str(good)]
    row = row_of(owner, poison)
    assert (row.status, row.reason, row.lease_until) == ("dead", "crash_loop", None)
    assert moves_of(owner, poison) == [("sender", "leased", "dead", "crash_loop")]
    assert row_of(owner, good).status == "submitted"


def test_a_start_under_a_stale_lease_that_ends_in_order_is_taken_back(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    sweep(
        database,
        channel=channel_of(database),
        declarations=DECLARATIONS,
        now=now_of(owner, hours=1),
    )
    with gateway() as served, sender(database, served.provider()) as one:
        one.deliver([again(leased)])
        assert served.asked == []
    row = row_of(owner, id)
    assert (row.status, row.starts) == ("pending", 0)


def test_under_a_later_lease_the_first_start_counts_too(
    owner: psycopg.Connection, database: Database
) -> None:
    """A row that kills its sender before its attempt opens is dead after five starts, however late
    its redeliveries come: each of them finds another lease and ends in order."""
    (id,) = add_notifications(owner, recipient="poison@example.com")
    with gateway() as served:
        provider = Dying(inner=served.provider(), declaration=DECLARATION)
        while row_of(owner, id).status == "pending":
            (leased,) = lease(database)
            with sender(database, provider) as one, pytest.raises(Killed):
                one.deliver(records_of([leased]))
            sweep(
                database,
                channel=channel_of(database),
                declarations=DECLARATIONS,
                now=now_of(owner, hours=1),
            )
            with sender(database, provider) as one:
                counts = one.deliver([again(leased)]).counts
            assert counts["StaleDelivery"] + counts["CrashLoop"] == 1
        assert (provider.deaths, served.asked) == (MAX_STARTS, [])
    assert row_of(owner, id).reason == "crash_loop"


def test_a_redelivery_beside_an_open_attempt_does_not_touch_it(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    opening = opening_of(leased)
    begin_one(database, opening)
    with gateway() as served:
        with sender(database, served.provider()) as one:
            report = one.deliver([again(leased)])
        assert served.asked == []
    assert (report.failed, report.counts["StaleDelivery"]) == ([], 1)
    row = row_of(owner, id)
    assert (row.status, row.attempt_id, row.attempts_spent) == ("leased", opening.token, 1)
