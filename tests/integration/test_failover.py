"""Failover: whom a notification is due with, when the channel may ask a second provider."""

import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import psycopg
import pytest

from functions.core.declaration import Declaration
from functions.core.outcome import (
    Accepted,
    Blocked,
    Outcome,
    Refused,
    Rejected,
    Scope,
    Throttled,
    Transient,
    Unknown,
)
from functions.providers.choice import DECLARATIONS
from functions.providers.provider import PreparedCall, Submission
from functions.sender.deliver import Sender
from functions.sender.learning import Tally
from functions.sender.record import Report
from functions.store.breaker import open_breakers
from functions.store.connection import Database
from functions.store.survey import promote
from tests.fakes import add_notifications, row_of
from tests.sending import records_of
from tests.steps import channel_of, declaration_of, lease, now_of

SECONDS = 30.0


@dataclass(slots=True)
class Scripted:
    """Gives the outcomes it was given, one after the other; the last one stays."""

    name: str
    outcomes: list[Outcome]
    called: list[str] = field(default_factory=list[str])

    @property
    def declaration(self) -> Declaration:
        return declaration_of(self.name)

    def prepare(self, submission: Submission) -> PreparedCall:
        key = submission.idempotency_key
        return PreparedCall(method="POST", url=key, headers={}, body=b"")

    def submit(self, call: PreparedCall, *, deadline: float) -> Outcome:
        del deadline
        self.called.append(call.url)
        return self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]


@dataclass(slots=True)
class Two:
    """A channel whose own provider is ``http``, and that may ask ``http_keyless``."""

    database: Database
    first: Scripted
    second: Scripted
    threads: ThreadPoolExecutor
    tally: Tally = field(default_factory=Tally)

    def deliver(self) -> Report:
        """Lease what is due and deliver it, as a sender that has just been started."""
        promote(self.database)
        known = {one.name: one for one in (self.first, self.second)}
        one = Sender(
            database=self.database,
            provider_of=lambda name, _: known[name],
            channel=channel_of(self.database),
            declarations=DECLARATIONS,
            threads=self.threads,
            ends_at=time.monotonic() + SECONDS,
            tally=self.tally,
        )
        return one.deliver(records_of(lease(self.database)))

    @property
    def calls(self) -> tuple[int, int]:
        return len(self.first.called), len(self.second.called)


Make = Callable[[list[Outcome], list[Outcome]], Two]


@pytest.fixture
def two(owner: psycopg.Connection, database: Database) -> Generator[Make]:
    owner.execute("UPDATE channels SET fallback_provider = 'http_keyless' WHERE name = 'email'")
    with ThreadPoolExecutor(10) as threads:
        yield lambda first, second: Two(
            database, Scripted("http", first), Scripted("http_keyless", second), threads
        )


TAKEN = Accepted(reference="m-1")


@pytest.mark.parametrize(
    "outcome",
    [
        Transient(code="connection_refused"),
        Throttled(code="429", retry_after_seconds=60),
        Blocked(code="401"),
        Blocked(code="paused", scope=Scope.SENDER_IDENTITY),
    ],
    ids=lambda outcome: f"{outcome.name}-{outcome.reach}",
)
def test_what_the_first_provably_did_not_take_is_due_at_once_with_the_second(
    owner: psycopg.Connection, two: Make, outcome: Outcome
) -> None:
    (id,) = add_notifications(owner)
    pair = two([outcome], [TAKEN])
    pair.deliver()
    row = row_of(owner, id)
    assert (row.status, row.next_provider, row.attempts_spent, row.ready) == (
        "pending", "http_keyless", 0, True,
    )  # fmt: skip
    assert row.available_at <= now_of(owner)
    pair.deliver()
    row = row_of(owner, id)
    assert (row.status, row.provider, row.attempts_spent) == ("submitted", "http_keyless", 1)
    assert row.next_provider is None
    assert pair.calls == (1, 1)


def test_never_are_both_called_under_one_lease(owner: psycopg.Connection, two: Make) -> None:
    (id,) = add_notifications(owner)
    pair = two([Transient()], [TAKEN])
    pair.deliver()
    assert pair.calls == (1, 0)
    pair.deliver()
    ledger = owner.execute(
        "SELECT lease_number, provider, outcome FROM attempts WHERE notification_id = %s"
        " ORDER BY lease_number",
        [id],
    ).fetchall()
    assert ledger == [(1, "http", "transient"), (2, "http_keyless", "accepted")]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Unknown(code="timeout"), "pending"),
        (Rejected(code="400"), "dead"),
        (Refused(), "suppressed"),
        (Throttled(scope=Scope.DESTINATION), "pending"),
        (Transient(begun=False), "pending"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_what_says_nothing_about_the_first_alone_is_not_passed_on(
    owner: psycopg.Connection, two: Make, outcome: Outcome, status: str
) -> None:
    (id,) = add_notifications(owner)
    pair = two([outcome], [TAKEN])
    pair.deliver()
    row = row_of(owner, id)
    assert (row.status, row.next_provider) == (status, None)


def test_after_an_unknown_outcome_the_other_is_never_asked(
    owner: psycopg.Connection, two: Make
) -> None:
    """Its key means nothing to the other one: what the first may have taken stays with it."""
    (id,) = add_notifications(owner)
    pair = two([Unknown(code="timeout"), Transient(), Blocked(), TAKEN], [TAKEN])
    for _ in range(4):
        owner.execute("UPDATE notifications SET available_at = created_at WHERE id = %s", [id])
        owner.execute("DELETE FROM breakers")
        pair.deliver()
    assert row_of(owner, id).status == "submitted"
    assert pair.calls == (4, 0)


def test_what_is_in_doubt_is_not_passed_on_and_waits_as_always(
    owner: psycopg.Connection, two: Make
) -> None:
    (id,) = add_notifications(owner)
    pair = two([Unknown(code="timeout"), Transient()], [TAKEN])
    pair.deliver()
    owner.execute("UPDATE notifications SET available_at = created_at WHERE id = %s", [id])
    pair.deliver()
    row = row_of(owner, id)
    assert (row.next_provider, row.attempts_spent, row.in_doubt) == (None, 2, 1)
    assert row.available_at > now_of(owner)


def test_a_second_that_does_not_take_it_either_spends_the_budget(
    owner: psycopg.Connection, two: Make
) -> None:
    (id,) = add_notifications(owner, max_attempts=3)
    pair = two([Transient()], [Transient()])
    for _ in range(20):
        owner.execute("UPDATE notifications SET available_at = created_at WHERE id = %s", [id])
        pair.deliver()
    row = row_of(owner, id)
    assert (row.status, row.reason, row.attempts_spent) == ("dead", "budget_spent", 3)
    assert pair.calls == (3, 3)


def left(owner: psycopg.Connection) -> int:
    row = owner.execute("SELECT count(*) FROM notifications WHERE status <> 'submitted'").fetchone()
    assert row is not None
    return row[0]


def test_while_the_breaker_of_the_first_is_open_the_second_is_asked_first(
    owner: psycopg.Connection, database: Database, two: Make
) -> None:
    pair = two([Blocked(code="401")], [TAKEN])
    add_notifications(owner)
    pair.deliver()
    assert [(one.scope, one.key) for one in open_breakers(database)] == [("provider", "http")]
    add_notifications(owner, 3)
    pair.deliver()
    assert pair.calls == (1, 4)
    assert left(owner) == 0


def test_when_it_is_time_one_finds_out_about_the_first(
    owner: psycopg.Connection, database: Database, two: Make
) -> None:
    pair = two([Blocked(code="401"), TAKEN], [TAKEN])
    add_notifications(owner)
    pair.deliver()
    owner.execute("UPDATE breakers SET probe_at = opened_at")
    add_notifications(owner, 3)
    pair.deliver()
    assert pair.calls[0] == 2
    assert open_breakers(database) == []
    owner.execute("UPDATE notifications SET available_at = created_at WHERE NOT ready")
    pair.deliver()
    assert left(owner) == 0


def test_without_a_second_provider_all_is_as_before(
    owner: psycopg.Connection, database: Database, two: Make
) -> None:
    owner.execute("UPDATE channels SET fallback_provider = NULL")
    (id,) = add_notifications(owner)
    pair = two([Transient()], [TAKEN])
    pair.deliver()
    row = row_of(owner, id)
    assert (row.status, row.attempts_spent, row.next_provider) == ("pending", 1, None)
    assert row.available_at > now_of(owner)


def test_what_is_blocked_with_the_one_it_is_in_doubt_with_does_not_go_round_and_round(
    owner: psycopg.Connection, database: Database, two: Make
) -> None:
    (id,) = add_notifications(owner)
    pair = two([Unknown(code="timeout"), Blocked(code="401")], [TAKEN])
    pair.deliver()
    for _ in range(2):
        owner.execute("UPDATE notifications SET available_at = created_at WHERE id = %s", [id])
        pair.deliver()
    leases = row_of(owner, id).lease_number
    for _ in range(5):
        pair.deliver()
    row = row_of(owner, id)
    assert (row.status, row.lease_number, pair.calls) == ("pending", leases, (2, 0))
    assert row.available_at > now_of(owner)


def test_what_was_passed_on_to_one_that_is_closed_goes_back_to_the_first(
    owner: psycopg.Connection, two: Make
) -> None:
    pair = two([Transient(), TAKEN], [Blocked(code="suspended")])
    (id,) = add_notifications(owner)
    pair.deliver()
    pair.deliver()
    assert pair.calls == (1, 1)
    owner.execute("UPDATE notifications SET available_at = created_at")
    pair.deliver()
    assert (row_of(owner, id).status, pair.calls) == ("submitted", (2, 1))


def test_while_the_second_is_closed_nothing_is_passed_on_to_it(
    owner: psycopg.Connection, two: Make
) -> None:
    pair = two([Transient()], [Blocked(code="suspended")])
    (id,) = add_notifications(owner)
    pair.deliver()
    pair.deliver()
    owner.execute("UPDATE notifications SET available_at = created_at")
    pair.deliver()
    row = row_of(owner, id)
    assert (row.next_provider, row.attempts_spent, pair.calls) == (None, 1, (2, 1))
    assert row.available_at > now_of(owner)


def test_while_one_finds_out_about_the_first_the_others_go_to_the_second(
    owner: psycopg.Connection, two: Make
) -> None:
    pair = two([Blocked(code="401")], [TAKEN])
    add_notifications(owner)
    pair.deliver()
    pair.deliver()
    owner.execute("UPDATE breakers SET probe_at = opened_at")
    add_notifications(owner, 4)
    pair.deliver()
    assert pair.calls == (2, 4)


def test_one_of_two_breakers_that_is_due_does_not_open_the_way(
    owner: psycopg.Connection, two: Make
) -> None:
    pair = two([Blocked(code="401")], [TAKEN])
    add_notifications(owner)
    pair.deliver()
    owner.execute(
        "INSERT INTO breakers (channel, provider, scope, key, opened_at, probe_at)"
        " SELECT channel, provider, 'sender_identity', 'transactional', opened_at, opened_at"
        "   FROM breakers"
    )
    add_notifications(owner, 2)
    pair.deliver()
    assert pair.calls == (1, 3)
