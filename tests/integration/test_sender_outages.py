"""The database goes away at each step of a sender: what is left on the queue, and what recovers."""

import dataclasses
import time
from uuid import UUID

import psycopg
import pytest

from functions.core.login import Login
from functions.providers.choice import DECLARATIONS
from functions.sender.deliver import Sender, deliver
from functions.sender.finish import CLOSE_PAUSE_SECONDS, CLOSE_SECONDS
from functions.sender.record import read_records
from functions.store.connection import Database, connector
from functions.store.survey import promote
from functions.store.sweep import Swept, sweep
from tests.conftest import free_port
from tests.fakes import add_notifications, row_of
from tests.gateway import Gateway, gateway
from tests.sending import Interrupted, body_of, queue_event, records_of, sender
from tests.steps import channel_of, lease, now_of

CHANNEL, LOAD, BEGIN, CLOSE = 1, 2, 3, 4
"""A sender's pieces of work; a record that came again has its start counted before the load."""

START_AGAIN, LOAD_AGAIN, BEGIN_AGAIN = 2, 3, 4


def interrupted(login: Login, *out: int, done: bool = False) -> Interrupted:
    return Interrupted(connector(lambda: login, application_name="sender"), out=out, done=done)


def sweep_and_retry(owner: psycopg.Connection, database: Database, served: Gateway) -> Swept:
    """Let the leases run out, sweep, and deliver what is due then."""
    swept = sweep(
        database,
        channel=channel_of(database),
        declarations=DECLARATIONS,
        now=now_of(owner, hours=1),
    )
    promote(database, now=now_of(owner, hours=2))
    with sender(database, served.provider()) as one:
        assert one.deliver(records_of(lease(database))).failed == []
    return swept


def ends(owner: psycopg.Connection, ids: list[UUID]) -> set[str]:
    return {row_of(owner, id).status for id in ids}


@pytest.mark.parametrize("out", [LOAD, BEGIN])
@pytest.mark.parametrize("received", [1, 2])
def test_gone_before_anything_is_begun_leaves_every_record_on_the_queue(
    owner: psycopg.Connection, database: Database, login: Login, out: int, received: int
) -> None:
    ids = add_notifications(owner, 3)
    records = records_of(lease(database), received=received)
    step = out if received == 1 else {LOAD: START_AGAIN, BEGIN: BEGIN_AGAIN}[out]
    broken = interrupted(login, *range(step, 100))
    with gateway() as served:
        with sender(broken, served.provider()) as one:
            report = one.deliver(records)
        assert served.asked == []
        assert report.failed == [record.message_id for record in records]
        assert report.counts["DatabaseUnavailable"] == (1 if received == 1 else 3)
        with sender(database, served.provider()) as one:
            assert one.deliver(records).failed == []
        assert len(served.effects) == 3
    assert ends(owner, ids) == {"submitted"}
    broken.close()


def test_a_load_that_was_cut_off_leaves_its_records_on_the_queue(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    add_notifications(owner)
    records = records_of(lease(database))
    broken = interrupted(login, LOAD, done=True)
    with gateway() as served, sender(broken, served.provider()) as one:
        assert one.deliver(records).failed == [records[0].message_id]
        assert served.asked == []
    broken.close()


def test_a_channel_that_cannot_be_read_leaves_every_record_on_the_queue(login: Login) -> None:
    records = read_records(queue_event("not read at all", "nor this"))
    broken = interrupted(login, CHANNEL)

    def unready() -> Sender:
        channel_of(broken)
        raise AssertionError("the channel was read")

    report = deliver(records, sender=unready)
    assert report.failed == [record.message_id for record in records]
    assert report.counts == {"DatabaseUnavailable": 1}
    broken.close()


def test_a_server_that_refuses_connections_leaves_every_record_on_the_queue(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    """FAULTS D2: an outage reports all of them."""
    (id,) = add_notifications(owner)
    elsewhere = Login(host=login.host, port=free_port(), name="x", user="x", tls=False)
    unreachable = Database(connector(lambda: elsewhere, application_name="sender"))
    records = records_of(lease(database))
    with gateway() as served, sender(database, served.provider()) as one:
        report = dataclasses.replace(one, database=unreachable).deliver(records)
        assert served.asked == []
    assert report.failed == [record.message_id for record in records]
    assert row_of(owner, id).attempt_id is None


def test_a_begin_whose_answer_was_lost_is_acknowledged_and_swept(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    ids = add_notifications(owner, 2)
    records = records_of(lease(database))
    broken = interrupted(login, BEGIN, done=True)
    with gateway(status="delivered") as served:
        with sender(broken, served.provider()) as one:
            report = one.deliver(records)
        assert (report.failed, served.asked) == ([], [])
        assert all(row_of(owner, id).attempt_id for id in ids)
        assert sweep_and_retry(owner, database, served).in_doubt == 2
        assert len(served.effects) == 2
    assert ends(owner, ids) == {"delivered"}
    broken.close()


def test_gone_after_the_begin_fails_no_record_and_the_sweep_recovers(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    ids = add_notifications(owner, 3)
    records = records_of(lease(database))
    broken = interrupted(login, *range(CLOSE, 100))
    pauses: list[float] = []
    seconds = CLOSE_SECONDS + 5.0  # also where the machine stands still for a while

    def pause(wanted: float) -> None:
        pauses.append(wanted)
        time.sleep(wanted)

    with gateway(status="delivered") as served:
        with sender(broken, served.provider(), seconds=seconds, sleep=pause) as one:
            report = one.deliver(records)
            assert time.monotonic() < one.ends_at
        assert report.failed == []
        assert (report.counts["AttemptAccepted"], report.counts["CloseGivenUp"]) == (3, 3)
        assert pauses
        assert set(pauses) == {CLOSE_PAUSE_SECONDS}
        assert sweep_and_retry(owner, database, served).in_doubt == 3
        assert len(served.asked) == 6
        assert len(served.effects) == 3, "the same keys took effect once"
    assert ends(owner, ids) == {"delivered"}
    broken.close()


def test_a_close_is_repeated_until_the_database_is_back(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    ids = add_notifications(owner, 3)
    records = records_of(lease(database))
    broken = interrupted(login, CLOSE, CLOSE + 1, CLOSE + 2)
    pauses: list[float] = []
    with gateway() as served:
        with sender(broken, served.provider(), sleep=pauses.append) as one:
            report = one.deliver(records)
        assert len(served.asked) == 3
    assert report.failed == []
    assert "CloseGivenUp" not in report.counts
    assert pauses == [CLOSE_PAUSE_SECONDS] * 3
    assert ends(owner, ids) == {"submitted"}
    broken.close()


def test_a_close_whose_answer_was_lost_is_repeated_and_changes_nothing(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    (id,) = add_notifications(owner)
    records = records_of(lease(database))
    broken = interrupted(login, CLOSE, done=True)
    with gateway() as served:
        with sender(broken, served.provider(), sleep=lambda seconds: None) as one:
            report = one.deliver(records)
        assert len(served.asked) == 1
    assert (report.failed, report.errors) == ([], [])
    row = row_of(owner, id)
    assert (row.status, row.attempts_spent, row.in_doubt) == ("submitted", 1, 0)
    assert owner.execute("SELECT count(*) FROM transitions").fetchone() == (1,)
    broken.close()


def test_one_group_out_of_luck_does_not_stop_the_others(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    ids = add_notifications(owner, 3)
    leased = lease(database)
    event = queue_event(*(body_of(one) for one in leased))
    for place in (1, 2):
        event["Records"][place]["attributes"]["ApproximateReceiveCount"] = "2"
    records = read_records(event)
    broken = interrupted(login, BEGIN)
    with gateway() as served:
        with sender(broken, served.provider()) as one:
            report = one.deliver(records)
        assert len(served.asked) == 2
    assert report.failed == [records[0].message_id]
    assert [row_of(owner, id).status for id in ids] == ["leased", "submitted", "submitted"]
    broken.close()


def test_an_error_nobody_expected_fails_its_group_and_is_told(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = add_notifications(owner, 2)
    records = records_of(lease(database))
    owner.execute("ALTER TABLE attempts ADD CONSTRAINT none_today CHECK (false) NOT VALID")
    with gateway() as served:
        with sender(database, served.provider()) as one:
            report = one.deliver(records)
        assert served.asked == []
        assert [type(error) for error in report.errors] == [psycopg.errors.CheckViolation]
        assert report.failed == [record.message_id for record in records]
        owner.execute("ALTER TABLE attempts DROP CONSTRAINT none_today")
        with sender(database, served.provider()) as one:
            assert one.deliver(records).failed == []
    assert ends(owner, ids) == {"submitted"}
