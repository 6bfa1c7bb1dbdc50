"""After a restore: what becomes of what is in doubt, and how all channels are stopped meanwhile."""

import dataclasses
from collections.abc import Iterator
from datetime import datetime, timedelta

import psycopg
import pytest

from functions.core.login import Login
from functions.core.outcome import Accepted, Rejected, Transient
from functions.providers.keyless import KeylessProvider
from functions.store.action import Action
from functions.store.check import Checked, check, record_never_accepted
from functions.store.claim import Leased
from functions.store.connection import Database
from functions.store.restore import pause_all, resume
from functions.store.survey import promote
from tests.fakes import (
    HeldDatabase,
    add_notifications,
    moves_of,
    row_of,
)
from tests.gateway import gateway
from tests.operating import (
    ALL,
    LONG_AGO,
    Waiting,
    action,
    actions_of,
    attempts_of,
    marked,
    operating,
    operator_of,
    requeued,
    use,
)
from tests.sending import records_of, sender
from tests.steps import (
    begin_one,
    begun,
    close_one,
    connected,
    lease,
    losing_its_first_commit,
    now_of,
    opening_of,
)

CHANNELS = ["email", "push", "sms", "webhook"]
GRACE = timedelta(seconds=900)


@pytest.fixture
def operator(login: Login) -> Iterator[Database]:
    with operating(login) as database:
        yield database


@pytest.fixture
def rows(owner: psycopg.Connection, database: Database) -> Waiting:
    return Waiting(owner=owner, database=database)


# What nothing opens, and what is decided then


def test_messages_of_the_lost_leases_open_nothing(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    """That of the lease which the restore shows, and that of the next, which it does not."""
    (id,) = add_notifications(owner)
    (shown,) = lease(database)
    with gateway() as served, sender(database, served.provider()) as one:
        assert marked(operator, now_of(owner)) == 1
        lost = records_of([shown, next_of(shown)])
        assert one.deliver(lost[:1]).counts["StaleDelivery"] == 1
        assert one.deliver(lost[1:]).counts["StaleDelivery"] == 1
        assert check(database, declarations=ALL).retried == 1
        (again,) = lease(database)
        assert one.deliver(lost).counts["StaleDelivery"] >= 1
        assert served.asked == []
        assert one.deliver(records_of([again])).counts["AttemptAccepted"] == 1
        assert [asked.key for asked in served.asked] == [str(id)]
    row = row_of(owner, id)
    assert (row.status, row.lease_number) == ("submitted", 3)


def next_of(leased: Leased) -> Leased:
    """Return the lease that followed in what was lost."""
    return dataclasses.replace(leased, lease_number=leased.lease_number + 1)


@pytest.mark.parametrize("provider", ["keyed", "webhook"])
def test_under_a_key_it_is_due_again_at_once_and_sent_under_the_same(
    owner: psycopg.Connection, database: Database, operator: Database, provider: str
) -> None:
    use(owner, provider)
    (id,) = add_notifications(owner)
    since = now_of(owner)
    assert marked(operator, since) == 1
    assert check(database, declarations=ALL).retried == 1
    row = row_of(owner, id)
    assert (row.status, row.ready, row.in_doubt, row.attempt_id) == ("pending", True, 1, None)
    assert (row.key_epoch, row.key_first_used_at) == (0, since)
    assert moves_of(owner, id)[-1] == ("reconcile", "uncertain", "pending", "grace_over")


def test_a_key_that_was_forgotten_in_the_gap_is_not_used_again(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    """Restored to a day ago: what was sent right after may be sent once more by now."""
    (id,) = add_notifications(owner)
    since = now_of(owner)
    later = since + timedelta(hours=24)
    assert marked(operator, since, now=later) == 1
    assert check(database, declarations=ALL, now=later).retried == 1
    (leased,) = lease(database, now=later)
    assert begin_one(database, opening_of(leased), now=later).verdict == "held"
    row = row_of(owner, id)
    assert (row.status, row.reason, row.in_doubt) == ("dead", "outcome_unknown", 1)


def test_a_provider_that_can_be_asked_is_asked_at_once(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    (id,) = add_notifications(owner)
    assert marked(operator, now_of(owner)) == 1
    looked = check(database, declarations=ALL, horizon_seconds=1)
    assert (looked.retried, looked.held) == (0, 0)
    (inquiry,) = looked.inquiries
    assert (inquiry.id, inquiry.provider, inquiry.idempotency_key) == (id, "http", str(id))
    assert record_never_accepted(database, [id]) == 1
    row = row_of(owner, id)
    assert (row.status, row.in_doubt) == ("pending", 0)


@pytest.mark.parametrize("by", ["its policy", "its provider"])
def test_what_no_claim_had_promoted_is_claimed_all_the_same(
    owner: psycopg.Connection, database: Database, operator: Database, by: str
) -> None:
    """It came due in the gap, and the restore shows it outside the claim's index."""
    (id,) = add_notifications(owner, delay_seconds=60)
    later = now_of(owner, minutes=5)
    assert marked(operator, now_of(owner), now=later) == 1
    assert not row_of(owner, id).ready
    if by == "its policy":
        assert check(database, declarations=ALL, now=later).retried == 1
    else:
        assert record_never_accepted(database, [id], now=later) == 1
    assert [leased.id for leased in lease(database, now=later)] == [id]


@pytest.mark.parametrize(("policy", "status"), [("retry", "pending"), ("hold", "dead")])
def test_without_a_key_the_grace_comes_first_and_then_the_policy(
    owner: psycopg.Connection,
    database: Database,
    operator: Database,
    policy: str,
    status: str,
) -> None:
    use(owner, "http_keyless")
    owner.execute("UPDATE channels SET unknown_policy = %s", [policy])
    (id,) = add_notifications(owner)
    now = now_of(owner)
    assert marked(operator, now, now=now) == 1
    looked = check(database, declarations=ALL, now=now)
    assert looked == Checked(looked_at=1)
    assert row_of(owner, id).next_check_at <= now + GRACE
    check(database, declarations=ALL, now=now + GRACE)
    row = row_of(owner, id)
    assert (row.status, row.in_doubt) == (status, 1)
    if status == "dead":
        assert row.reason == "outcome_unknown"
        assert requeued(operator, id) == ["needs_consent"]


def test_without_a_key_a_retry_after_the_grace_is_sent(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    use(owner, "http_keyless")
    owner.execute("UPDATE channels SET unknown_policy = 'retry', grace_seconds = 0")
    (id,) = add_notifications(owner)
    assert marked(operator, now_of(owner)) == 1
    assert check(database, declarations=ALL).retried == 1
    with gateway() as served, sender(database, KeylessProvider(gateway=served.provider())) as one:
        one.deliver(records_of(lease(database)))
        assert len(served.effects) == 1
    row = row_of(owner, id)
    assert (row.status, row.in_doubt) == ("submitted", 1)
    assert [outcome for _, _, outcome, _ in attempts_of(owner, id)] == ["unknown", "accepted"]


def test_a_late_close_of_the_attempt_that_was_open_settles_it(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    for outcome, status in (
        (Accepted(reference="m-1"), "submitted"),
        (Transient(), "pending"),
        (Rejected(code="400"), "dead"),
    ):
        add_notifications(owner)
        opening = begun(database)
        assert marked(operator, now_of(owner)) == 1
        assert close_one(database, opening, outcome) == status
        row = row_of(owner, opening.id)
        assert (row.status, row.in_doubt, row.attempt_id) == (status, 0, None)
        assert row_of(owner, opening.token, "attempts").outcome == outcome.name


def test_what_has_expired_since_ends_as_unconfirmed_not_as_expired(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    """It may have been sent while there was time."""
    (id,) = add_notifications(owner, expires_in_seconds=60)
    later = now_of(owner, minutes=5)
    assert marked(operator, now_of(owner), now=later) == 1
    assert check(database, declarations=ALL, now=later).unconfirmed == 1
    assert row_of(owner, id).status == "unconfirmed"


# Channels are stopped meanwhile


def stopped(owner: psycopg.Connection) -> set[str]:
    statement = "SELECT name FROM channels WHERE paused_at IS NOT NULL"
    return {row[0] for row in owner.execute(statement)}


def test_all_channels_are_paused_and_those_that_were_not_are_named(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    owner.execute("UPDATE channels SET paused_at = %s WHERE name = 'sms'", [LONG_AGO])
    add_notifications(owner)
    assert pause_all(operator, action=action("recover.pause")) == ["email", "push", "webhook"]
    assert stopped(owner) == set(CHANNELS)
    assert pause_all(operator, action=action("recover.pause")) == []
    (leased,) = lease(database)
    assert begin_one(database, opening_of(leased)).verdict == "paused"
    assert resume(operator, ["webhook", "email"], action=action("recover.resume")) == [
        "email",
        "webhook",
    ]
    assert stopped(owner) == {"push", "sms"}
    kept = "SELECT paused_at FROM channels WHERE name = 'sms'"
    assert owner.execute(kept).fetchone() == (datetime.fromisoformat(LONG_AGO),)
    promote(database)
    (leased,) = lease(database)
    assert begin_one(database, opening_of(leased)).verdict == "go"
    assert [(command, result) for _, command, result in actions_of(owner)] == [
        ("recover.pause", {"paused": ["email", "push", "webhook"]}),
        ("recover.pause", {"paused": []}),
        ("recover.resume", {"resumed": ["email", "webhook"]}),
    ]


def test_a_pause_whose_commit_was_not_answered_still_names_what_it_paused(
    owner: psycopg.Connection, login: Login
) -> None:
    """Told of none, the operator would resume none, and everything stood still for ever."""
    asked = action("recover.pause")
    with losing_its_first_commit(operator_of(login)) as operator:
        assert pause_all(operator, action=asked) == CHANNELS
    again = action("recover.resume")
    with losing_its_first_commit(operator_of(login)) as operator:
        assert resume(operator, CHANNELS, action=again) == CHANNELS
    assert stopped(owner) == set()
    assert [id for id, _, _ in actions_of(owner)] == [asked.id, again.id]


def test_a_pause_and_its_audit_stand_or_fall_together(
    owner: psycopg.Connection, login: Login
) -> None:
    with connected(operator_of(login), "operator", kind=HeldDatabase) as (operator,):
        pause_all(operator, action=action("recover.pause"))
        operator.rollback()
    assert (stopped(owner), actions_of(owner)) == (set(), [])


def test_an_action_is_of_its_own(owner: psycopg.Connection, operator: Database) -> None:
    """The first result stands for a repetition, and for nothing else."""
    one: Action = action("recover.pause")
    assert pause_all(operator, action=one) == CHANNELS
    owner.execute("UPDATE channels SET paused_at = NULL")
    assert pause_all(operator, action=one) == CHANNELS
    assert stopped(owner) == set()
    assert pause_all(operator, action=action("recover.pause")) == CHANNELS
    assert stopped(owner) == set(CHANNELS)
