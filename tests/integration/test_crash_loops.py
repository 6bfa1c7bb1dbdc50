"""Crash loops are told by starts that never finished: an outage is none, however long it lasts."""

import dataclasses
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.core.errors import Unavailable
from functions.core.login import Login
from functions.core.states import MAX_STARTS
from functions.providers.choice import DECLARATIONS
from functions.sender.finish import CLOSE_SECONDS
from functions.sender.record import Record, Report
from functions.store.claim import Leased
from functions.store.connection import Connect, Database, connector
from functions.store.delivery import finish_starts, record_starts
from functions.store.survey import promote
from functions.store.sweep import sweep
from tests.fakes import Killed, add_notifications, moves_of, row_of
from tests.gateway import Gateway, gateway
from tests.sending import records_of, sender
from tests.steps import channel_of, lease, losing_its_first_commit, now_of

T = TypeVar("T")

VISIBILITY_MINUTES, OUTAGE_MINUTES = 3, 120
RECEIVES = 5
"""So often the queue gives a message before it puts it aside."""


class Ends(Enum):
    """What happens after the last piece of work."""

    AWAY = "the database is away"
    UNANSWERED = "it is away, and had done that last piece all the same"
    KILL = "the process ends"


class Flapping(Database):
    """A database that lasts for so many pieces of work, when it is told."""

    def __init__(self, connect: Connect) -> None:
        super().__init__(connect)
        self.left: int | None = None
        self.end = Ends.AWAY

    def run(self, work: Callable[[psycopg.Connection], T], *, pipelined: bool = False) -> T:
        if self.left is None:
            return super().run(work, pipelined=pipelined)
        self.left -= 1
        if self.left < 0:
            raise Killed if self.end is Ends.KILL else Unavailable
        done = super().run(work, pipelined=pipelined)
        if self.left == 0 and self.end is Ends.UNANSWERED:
            raise Unavailable(maybe_done=True)
        return done


@dataclass(slots=True)
class Environment:
    """Of a sender: what it still owes lives from one invocation to the next, as its modules do."""

    database: Flapping
    served: Gateway
    finished: list[UUID] = field(default_factory=list[UUID])

    def invoke(
        self, records: Sequence[Record], *, pieces: int | None = None, end: Ends = Ends.AWAY
    ) -> Report:
        """Deliver ``records`` while the database lasts for so many ``pieces`` of work."""
        seconds = 20.0 if pieces is None else CLOSE_SECONDS + 0.5
        with sender(self.database, self.served.provider(), seconds=seconds) as one:
            self.database.left, self.database.end = pieces, end
            try:
                return dataclasses.replace(one, finished=self.finished).deliver(records)
            finally:
                self.database.left = None

    def kill(self, records: Sequence[Record], *, pieces: int) -> None:
        """Let the process end after so many pieces of work; the next one owes nothing."""
        with pytest.raises(Killed):
            self.invoke(records, pieces=pieces, end=Ends.KILL)
        self.finished.clear()


@pytest.fixture
def environment(login: Login) -> Generator[Environment]:
    database = Flapping(connector(lambda: login, application_name="sender"))
    with gateway() as served:
        yield Environment(database, served)
    database.close()


def again(*leases: Leased, received: int = 2) -> list[Record]:
    """Return the same messages as they come again."""
    return records_of(leases, received=received)


def take_back(owner: psycopg.Connection, database: Database) -> None:
    """Let every lease run out, and what is left wait no longer."""
    sweep(
        database,
        channel=channel_of(database),
        declarations=DECLARATIONS,
        now=now_of(owner, hours=1),
    )
    owner.execute("UPDATE notifications SET available_at = clock_timestamp()")
    promote(database)


def starts_of(owner: psycopg.Connection, id: UUID) -> int:
    return row_of(owner, id).starts


@pytest.mark.parametrize("pieces", range(4))
def test_two_hours_without_a_database_at_whatever_step_hold_no_row(
    owner: psycopg.Connection, database: Database, environment: Environment, pieces: int
) -> None:
    """Every three minutes the messages come again, and each time the database goes away after so
    many pieces of work: the handler fails in order, and says so to the queue."""
    ids = add_notifications(owner, 2, max_attempts=1000)
    leases: list[Leased] = []
    for round in range(OUTAGE_MINUTES // VISIBILITY_MINUTES):
        received = round % RECEIVES + 2
        if received == 2:
            take_back(owner, database)
            leases = lease(database)
        environment.invoke(again(*leases, received=received), pieces=pieces)
        assert {row_of(owner, id).status for id in ids} == {"leased"}
        assert max(starts_of(owner, id) for id in ids) <= 1
    take_back(owner, database)
    report = environment.invoke(again(*lease(database)))
    assert (report.failed, report.errors, environment.finished) == ([], [], [])
    assert len(environment.served.effects) == 2
    for id in ids:
        assert (row_of(owner, id).status, starts_of(owner, id)) == ("submitted", 0)


def test_messages_that_always_come_late_hold_no_row(
    owner: psycopg.Connection, database: Database, environment: Environment
) -> None:
    """No sender runs, or too few: each message is received when its lease is long over."""
    (id,) = add_notifications(owner)
    for _ in range(2 * MAX_STARTS):
        late = lease(database)
        take_back(owner, database)
        for received in (1, 5):
            report = environment.invoke(again(*late, received=received))
            assert (report.failed, report.counts["StaleDelivery"]) == ([], 1)
    row = row_of(owner, id)
    assert (row.status, row.starts, row.attempts_spent) == ("pending", 0, 0)
    assert environment.served.asked == []


def test_a_channel_that_is_paused_again_and_again_holds_no_row(
    owner: psycopg.Connection, database: Database, environment: Environment
) -> None:
    (id,) = add_notifications(owner)
    for _ in range(2 * MAX_STARTS):
        leases = lease(database)
        owner.execute("UPDATE channels SET paused_at = clock_timestamp()")
        assert environment.invoke(again(*leases)).failed == []
        owner.execute("UPDATE channels SET paused_at = NULL")
    assert (row_of(owner, id).status, starts_of(owner, id)) == ("pending", 0)


BEFORE_THE_LOAD, BEFORE_THE_BEGIN = 1, 2


@pytest.mark.parametrize("pieces", [BEFORE_THE_LOAD, BEFORE_THE_BEGIN])
def test_what_always_kills_its_sender_is_dead_after_five_starts(
    owner: psycopg.Connection, database: Database, environment: Environment, pieces: int
) -> None:
    (id,) = add_notifications(owner)
    kills = 0
    while starts_of(owner, id) < MAX_STARTS - 1:
        leases = lease(database)
        for received in range(2, RECEIVES + 1):
            environment.kill(again(*leases, received=received), pieces=pieces)
            kills += 1
            assert starts_of(owner, id) == kills
        take_back(owner, database)
    assert environment.invoke(again(*lease(database))).counts["CrashLoop"] == 1
    row = row_of(owner, id)
    assert (row.status, row.reason, row.attempt_id) == ("dead", "crash_loop", None)
    take_back(owner, database)
    assert (lease(database), environment.served.asked) == ([], [])


def test_kills_with_outages_in_between_are_counted_alone(
    owner: psycopg.Connection, database: Database, environment: Environment
) -> None:
    (id,) = add_notifications(owner)
    leases = lease(database)
    for kills in range(1, MAX_STARTS - 1):
        environment.kill(again(*leases), pieces=BEFORE_THE_BEGIN)
        environment.invoke(again(*leases), pieces=BEFORE_THE_LOAD)
        assert starts_of(owner, id) == kills + 1
        environment.invoke([])
        assert starts_of(owner, id) == kills
    environment.kill(again(*leases), pieces=BEFORE_THE_BEGIN)
    assert environment.invoke(again(*leases)).counts["CrashLoop"] == 1
    assert moves_of(owner, id) == [("sender", "leased", "dead", "crash_loop")]


def test_what_was_owed_is_told_before_anything_else(
    owner: psycopg.Connection, database: Database, environment: Environment
) -> None:
    """By the next invocation, whatever it is about."""
    first, second = add_notifications(owner, 2)
    leases = {one.id: one for one in lease(database)}
    environment.invoke(again(leases[first]), pieces=BEFORE_THE_LOAD)
    assert (starts_of(owner, first), environment.finished) == (1, [first])
    environment.invoke(again(leases[second]))
    assert (starts_of(owner, first), environment.finished) == (0, [])
    assert (row_of(owner, first).status, row_of(owner, second).status) == ("leased", "submitted")


def test_a_neighbour_that_ended_before_the_kill_is_not_counted(
    owner: psycopg.Connection, database: Database, environment: Environment
) -> None:
    """Its end is told at once, not with those that follow."""
    (stale,) = add_notifications(owner)
    (old,) = lease(database)
    take_back(owner, database)
    (poison,) = add_notifications(owner)
    leases = {one.id: one for one in lease(database)}
    one_that_ends = 3  # its start, its load, its end
    for _ in range(MAX_STARTS - 1):
        records = [*again(old), *again(leases[poison])]
        environment.kill(records, pieces=one_that_ends + BEFORE_THE_BEGIN)
    assert (starts_of(owner, stale), starts_of(owner, poison)) == (0, MAX_STARTS - 1)


def test_an_error_that_nobody_expected_counts_as_a_start_that_never_ended(
    owner: psycopg.Connection, database: Database, environment: Environment
) -> None:
    """What fails like that each time must come to an end, too."""
    (id,) = add_notifications(owner)
    owner.execute("ALTER TABLE attempts ADD CONSTRAINT none_today CHECK (false) NOT VALID")
    leases = lease(database)
    for count in range(1, MAX_STARTS):
        report = environment.invoke(again(*leases))
        assert ([type(error).__name__ for error in report.errors], len(report.failed)) == (
            ["CheckViolation"],
            1,
        )
        assert starts_of(owner, id) == count
    assert environment.invoke(again(*leases)).counts["CrashLoop"] == 1
    assert (row_of(owner, id).status, row_of(owner, id).reason) == ("dead", "crash_loop")


def test_a_start_whose_commit_was_not_answered_counts_once(
    owner: psycopg.Connection, login: Login
) -> None:
    (id,) = add_notifications(owner)
    for count in range(1, MAX_STARTS):
        with losing_its_first_commit(login) as lossy:
            assert record_starts(lossy, [id]) == set()
        assert starts_of(owner, id) == count
    with losing_its_first_commit(login) as lossy:
        assert record_starts(lossy, [id]) == {id}
    assert row_of(owner, id).status == "dead"
    assert owner.execute("SELECT count(*) FROM transitions").fetchone() == (1,)


def test_a_start_that_may_have_been_counted_is_taken_back_too(
    owner: psycopg.Connection, database: Database, environment: Environment
) -> None:
    """The database goes away with the COMMIT of the start, and stays away until the next time."""
    (id,) = add_notifications(owner)
    leases = lease(database)
    for pieces in [1, 2, 2] * MAX_STARTS:  # what was owed is the first
        environment.invoke(again(*leases), pieces=pieces, end=Ends.UNANSWERED)
        assert starts_of(owner, id) <= 1
    assert environment.invoke(again(*leases)).counts["AttemptAccepted"] == 1
    assert (row_of(owner, id).status, starts_of(owner, id)) == ("submitted", 0)


def test_a_message_twice_in_one_batch_is_one_start_and_takes_back_one(
    owner: psycopg.Connection, database: Database, environment: Environment
) -> None:
    (id,) = add_notifications(owner)
    lease(database)
    take_back(owner, database)
    leases = lease(database)  # the second: its first message is counted, too
    environment.kill(again(*leases), pieces=BEFORE_THE_LOAD)
    twice = records_of([*leases, *leases])
    environment.invoke(twice, pieces=BEFORE_THE_LOAD)
    assert (starts_of(owner, id), environment.finished) == (2, [id])
    environment.invoke([])
    assert starts_of(owner, id) == 1


def test_ends_are_taken_back_one_by_one_and_never_below_none(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = add_notifications(owner, 3)
    for id, count in zip(ids, (3, 2, 1), strict=True):
        for _ in range(count):
            record_starts(database, [id])
    finish_starts(database, [ids[2], ids[0], ids[2], ids[0], ids[1], uuid4()])
    assert [starts_of(owner, id) for id in ids] == [1, 1, 0]


@pytest.mark.parametrize("status", ["dead", "submitted", "delivered", "cancelled"])
def test_the_end_of_a_start_leaves_what_has_ended_itself_alone(
    owner: psycopg.Connection, database: Database, status: str
) -> None:
    (id,) = add_notifications(owner)
    owner.execute(
        "UPDATE notifications SET status = %s, starts = 3, reason = 'crash_loop',"
        " final_at = clock_timestamp()",
        [status],
    )
    before = row_of(owner, id)
    finish_starts(database, [id])
    assert row_of(owner, id) == before


def test_what_cannot_be_told_for_another_reason_is_no_worse_for_the_records(
    owner: psycopg.Connection, database: Database, environment: Environment
) -> None:
    (id,) = add_notifications(owner)
    environment.finished.append(id)
    owner.execute("UPDATE notifications SET starts = 1")
    owner.execute("ALTER TABLE notifications ADD CONSTRAINT never CHECK (starts > 0) NOT VALID")
    report = environment.invoke(records_of(lease(database)))
    assert next(type(error).__name__ for error in report.errors) == "CheckViolation"
    assert environment.finished == []
