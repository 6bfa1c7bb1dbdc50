"""A requeue: a new budget, the history kept, the right key, and never sent blindly."""

import dataclasses
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from functions.core.errors import TooLate
from functions.core.login import Login
from functions.core.outcome import Transient
from functions.providers.keyless import KeylessProvider
from functions.providers.provider import Provider
from functions.store.begin import Begun, begin
from functions.store.connection import Database
from functions.store.delivery import record_starts
from functions.store.held import preview
from functions.store.sweep import sweep
from tests.fakes import (
    SECOND_ORGANIZATION,
    add_notifications,
    add_suppression_fact,
    moves_of,
    row_of,
)
from tests.gateway import Gateway, gateway, giving
from tests.operating import (
    ALL,
    KEYED,
    LONG_AGO,
    REASONS,
    Waiting,
    action,
    arrange,
    attempts_of,
    cancel,
    discarded,
    operating,
    requeued,
    use,
)
from tests.sending import records_of, sender
from tests.steps import (
    REMAINING_SECONDS,
    begin_one,
    channel_of,
    close_one,
    lease,
    now_of,
    opening_of,
)
from tests.wire import hanging_up


@pytest.fixture
def operator(login: Login) -> Iterator[Database]:
    with operating(login) as database:
        yield database


@pytest.fixture
def rows(owner: psycopg.Connection, database: Database) -> Waiting:
    return Waiting(owner=owner, database=database)


# Budget, history, key


def test_a_requeue_gives_a_new_budget_and_keeps_the_history(
    rows: Waiting, operator: Database
) -> None:
    opening = rows.spent()
    arrange(rows.owner, opening.id, starts=4, waiting_since=LONG_AGO)
    before = row_of(rows.owner, opening.id)
    now = now_of(rows.owner, seconds=1)
    asked = action("dead.requeue", ids=[str(opening.id)])
    assert requeued(operator, opening.id, asked=asked, now=now) == ["requeued"]
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.reason, row.ready) == ("pending", None, True)
    assert (row.attempts_spent, row.starts, row.waiting_since) == (0, 0, None)
    assert row.available_at == row.eligible_at == row.updated_at == now
    assert (row.lease_number, row.max_attempts) == (before.lease_number, before.max_attempts)
    assert (row.created_at, row.recipient) == (before.created_at, before.recipient)
    assert attempts_of(rows.owner, opening.id) == [(1, "http", "transient", "409")]
    assert moves_of(rows.owner, opening.id) == [
        ("sender", "leased", "dead", "budget_spent"),
        ("operator", "dead", "pending", "requeued"),
    ]
    logged = (
        "SELECT operator_action_id, at FROM transitions WHERE notification_id = %s ORDER BY id DESC"
    )
    assert rows.owner.execute(logged, [opening.id]).fetchone() == (asked.id, now)


def test_the_new_budget_is_whole(rows: Waiting, operator: Database) -> None:
    """As many attempts as at first, not one more and not one less."""
    opening = rows.spent()
    arrange(rows.owner, opening.id, max_attempts=3, attempts_spent=3)
    assert requeued(operator, opening.id) == ["requeued"]
    ends: list[str | None] = []
    for _ in range(3):
        arrange(rows.owner, opening.id, ready=True, available_at=now_of(rows.owner))
        again = opening_of(lease(rows.database)[0])
        begin_one(rows.database, again)
        ends.append(close_one(rows.database, again, Transient()))
    assert ends == ["pending", "pending", "dead"]
    assert row_of(rows.owner, opening.id).reason == "budget_spent"
    assert len(attempts_of(rows.owner, opening.id)) == 4


def held_for(reason: str, in_doubt: int) -> dict[str, Any]:
    return {
        "status": "dead",
        "reason": reason,
        "in_doubt": in_doubt,
        "provider": "http",
        "key_first_used_at": LONG_AGO,
    }


@pytest.mark.parametrize("reason", [*REASONS, "outcome_unknown"])
@pytest.mark.parametrize("in_doubt", [0, 1])
@pytest.mark.parametrize("may_send_twice", [False, True])
def test_only_a_known_refusal_starts_a_new_key(
    owner: psycopg.Connection,
    operator: Database,
    reason: str,
    in_doubt: int,
    may_send_twice: bool,
) -> None:
    (id,) = add_notifications(owner)
    arrange(owner, id, **held_for(reason, in_doubt), key_epoch=2)
    (fate,) = requeued(operator, id, may_send_twice=may_send_twice)
    row = row_of(owner, id)
    assert row.key_epoch == (3 if reason == "rejected" and not in_doubt else 2)
    doubted = bool(in_doubt) or reason == "outcome_unknown"  # and the key's window is long over
    assert fate == ("needs_consent" if doubted and not may_send_twice else "requeued")
    assert row.in_doubt == in_doubt


def test_a_new_key_is_new_to_its_window_too(owner: psycopg.Connection, operator: Database) -> None:
    (refused,), (spent,) = add_notifications(owner), add_notifications(owner)
    arrange(owner, refused, **held_for("rejected", 0))
    arrange(owner, spent, **held_for("budget_spent", 0))
    assert requeued(operator, refused, spent) == ["requeued"] * 2
    assert row_of(owner, refused).key_first_used_at is None
    assert row_of(owner, spent).key_first_used_at is not None


# Claimed, sent, and under which key


def send(database: Database, provider: Provider[Any]) -> int:
    """Lease whatever is due and deliver it; return how many there were."""
    leases = lease(database)
    with sender(database, provider) as one:
        report = one.deliver(records_of(leases))
    assert (report.failed, report.errors) == ([], [])
    return len(leases)


def test_what_was_refused_is_claimed_and_sent_under_its_next_key(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    (id,) = add_notifications(owner)
    with gateway() as served:
        served.behaviour["ok@example.com"] = giving(400)
        for _ in range(3):
            assert send(database, served.provider()) == 1
            assert row_of(owner, id).reason == "rejected"
            assert requeued(operator, id) == ["requeued"]
        served.behaviour.clear()
        assert send(database, served.provider()) == 1
        assert [asked.key for asked in served.asked] == [
            str(id),
            f"{id}.1",
            f"{id}.2",
            f"{id}.3",
        ]
        assert list(served.effects) == [f"{id}.3"]
    row = row_of(owner, id)
    assert (row.status, row.key_epoch, row.attempts_spent) == ("submitted", 3, 1)


def test_what_is_in_doubt_under_a_key_is_sent_under_that_key_and_takes_effect_once(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    """The gateway accepted it and did not answer; with consent or without, the key is the same."""
    (id,) = add_notifications(owner, max_attempts=1)
    with gateway() as served:
        accept_and_hang_up(served)
        assert send(database, served.provider()) == 1
        assert row_of(owner, id).reason == "outcome_unknown"
        assert requeued(operator, id) == ["needs_consent"]
        assert requeued(operator, id, may_send_twice=True) == ["requeued"]
        served.behaviour.clear()
        assert send(database, served.provider()) == 1
        assert [asked.key for asked in served.asked] == [str(id)] * 2
        assert list(served.effects) == [str(id)]
    row = row_of(owner, id)
    assert (row.status, row.key_epoch) == ("submitted", 0)


def accept_and_hang_up(served: Gateway) -> None:
    """Let the gateway accept what it is given and close the connection instead of answering."""

    def behave(wire: Any, asked: Any) -> None:
        served.accept(asked.key)
        hanging_up(wire)

    served.behaviour["ok@example.com"] = behave


def test_without_keys_each_attempt_has_its_own_and_consent_may_send_twice(
    owner: psycopg.Connection, database: Database, operator: Database, rows: Waiting
) -> None:
    use(owner, "http_keyless")
    opening = rows.undecided()
    assert requeued(operator, opening.id) == ["needs_consent"]
    assert requeued(operator, opening.id, may_send_twice=True) == ["requeued"]
    with gateway() as served:
        assert send(database, KeylessProvider(gateway=served.provider())) == 1
        (asked,) = served.asked
    (_, second) = owner.execute("SELECT id FROM attempts ORDER BY lease_number").fetchall()
    assert asked.key == f"{opening.id}.{second[0]}"
    assert row_of(owner, opening.id).status == "submitted"


def test_a_suppression_since_then_holds_for_a_requeued_row(
    rows: Waiting, operator: Database
) -> None:
    opening = rows.rejected()
    add_suppression_fact(rows.owner)
    assert requeued(operator, opening.id) == ["requeued"]
    with gateway() as served:
        assert send(rows.database, served.provider()) == 1
        assert served.asked == []
    assert row_of(rows.owner, opening.id).status == "suppressed"


def test_what_another_organization_or_nobody_named_is_untouched(
    rows: Waiting, operator: Database
) -> None:
    mine = rows.rejected().id
    neighbour = rows.rejected().id
    theirs = rows.rejected(organization_id=SECOND_ORGANIZATION).id
    before = [row_of(rows.owner, id) for id in (neighbour, theirs)]
    assert requeued(operator, mine) == ["requeued"]
    assert discarded(operator, uuid4()) == ["not_found"]
    assert [row_of(rows.owner, id) for id in (neighbour, theirs)] == before
    assert [leased.id for leased in lease(rows.database)] == [mine]


# In doubt


def begun_again(rows: Waiting, *, provider: str = "http", **later: float) -> Begun:
    """Lease the only row that is due and ask to begin; return the answer."""
    now = now_of(rows.owner, **later)
    (leased,) = lease(rows.database, now=now)
    (declaration,) = [one for one in ALL if one.name == provider]
    opening = opening_of(leased)
    answers = begin(
        rows.database,
        [opening],
        declaration=declaration,
        declarations=ALL,
        remaining_seconds=REMAINING_SECONDS,
        now=now,
    )
    return answers[opening.id]


def test_a_doubt_under_a_key_that_is_still_known_needs_no_consent(
    rows: Waiting, operator: Database
) -> None:
    opening = rows.crashed()
    assert requeued(operator, opening.id) == ["requeued"]
    row = row_of(rows.owner, opening.id)
    assert (row.in_doubt, row.provider, row.key_epoch) == (1, "http", 0)
    assert row.key_first_used_at is not None
    assert begun_again(rows).verdict == "go"


HOUR = timedelta(hours=1)


@pytest.mark.parametrize("reason", ["crash_loop", "waited_too_long", "rejected"])
def test_a_doubt_whose_key_is_forgotten_needs_consent_and_then_begin_says_go(
    rows: Waiting, operator: Database, reason: str
) -> None:
    use(rows.owner, "keyed")
    opening = rows.crashed(provider="keyed")
    arrange(rows.owner, opening.id, reason=reason)
    over = row_of(rows.owner, opening.id).key_first_used_at + HOUR
    assert requeued(operator, opening.id, now=over) == ["needs_consent"]
    just_before = over - timedelta(microseconds=1)
    seen = preview(operator, [opening.id], may_send_twice=False, declarations=ALL, now=just_before)
    assert seen[0].fate == "requeued"
    assert requeued(operator, opening.id, now=over, may_send_twice=True) == ["requeued"]
    row = row_of(rows.owner, opening.id)
    assert (row.key_epoch, row.in_doubt) == (0, 1)
    assert begun_again(rows, provider="keyed", hours=2).verdict == "go"
    assert row_of(rows.owner, opening.id).provider == "keyed"


def test_a_provider_that_remembers_for_ever_needs_no_consent(
    rows: Waiting, operator: Database
) -> None:
    use(rows.owner, "keyed")
    opening = rows.crashed(provider="keyed")
    arrange(rows.owner, opening.id, key_first_used_at=LONG_AGO)
    assert requeued(operator, opening.id) == ["needs_consent"]
    for_ever = [dataclasses.replace(KEYED, key_window_seconds=None)]
    assert requeued(operator, opening.id, declarations=for_ever) == ["requeued"]


def test_a_doubt_with_another_provider_needs_consent_and_then_begin_says_go(
    rows: Waiting, operator: Database
) -> None:
    """A key that the former provider knows means nothing to the one that the channel has now."""
    opening = rows.crashed()
    use(rows.owner, "keyed")
    assert requeued(operator, opening.id) == ["needs_consent"]
    assert requeued(operator, opening.id, may_send_twice=True) == ["requeued"]
    assert begun_again(rows, provider="keyed").verdict == "go"


def test_a_change_of_provider_after_the_requeue_is_held_by_begin(
    rows: Waiting, operator: Database
) -> None:
    opening = rows.crashed()
    assert requeued(operator, opening.id) == ["requeued"]
    use(rows.owner, "keyed")
    assert begun_again(rows, provider="keyed").verdict == "held"
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.reason) == ("dead", "outcome_unknown")
    assert requeued(operator, opening.id, may_send_twice=True) == ["requeued"]
    assert begun_again(rows, provider="keyed").verdict == "go"


def test_a_doubt_without_keys_needs_consent_whatever_it_is_held_for(
    rows: Waiting, operator: Database
) -> None:
    use(rows.owner, "http_keyless")
    opening = rows.crashed(provider="http_keyless")
    assert requeued(operator, opening.id) == ["needs_consent"]
    use(rows.owner, "http")
    assert requeued(operator, opening.id) == ["needs_consent"]  # the doubt was without a key
    assert requeued(operator, opening.id, may_send_twice=True) == ["requeued"]
    assert begun_again(rows).verdict == "go"


def test_a_provider_that_nothing_is_known_of_makes_nothing_safe(
    rows: Waiting, operator: Database
) -> None:
    """After a consent that was not used the row names no provider: that is no proof of a key."""
    opening = rows.crashed()
    assert requeued(operator, opening.id, may_send_twice=True) == ["requeued"]
    for _ in range(5):
        record_starts(rows.database, [opening.id])
    row = row_of(rows.owner, opening.id)
    assert (row.status, row.in_doubt, row.provider) == ("dead", 1, None)
    assert requeued(operator, opening.id) == ["needs_consent"]


def test_an_attempt_that_is_still_open_is_waited_for(rows: Waiting, operator: Database) -> None:
    opening = rows.crashed(swept=False)
    assert requeued(operator, opening.id, may_send_twice=True) == ["attempt_open"]
    sweep(rows.database, channel=channel_of(rows.database), declarations=ALL)
    assert requeued(operator, opening.id) == ["requeued"]
    assert row_of(rows.owner, opening.id).in_doubt == 1


def test_what_may_have_been_accepted_is_not_cancelled_after_a_requeue(
    rows: Waiting, operator: Database
) -> None:
    doubtful, refused = rows.crashed(), rows.rejected()
    assert requeued(operator, doubtful.id, refused.id) == ["requeued"] * 2
    with pytest.raises(TooLate):
        cancel(rows.database, doubtful.id)
    cancel(rows.database, refused.id)
    assert row_of(rows.owner, refused.id).status == "cancelled"
