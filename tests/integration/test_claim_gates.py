"""Between lease and queue: what does not pass waits or ends, costs no token, and keeps its age."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from functions.claim.claim import Claimer
from functions.claim.gate import Judged
from functions.core.errors import Unavailable
from functions.core.policy import Allow, Defer, Suppress, Verdict
from functions.store.claim import Leased, record_verdicts
from functions.store.connection import Database
from functions.store.survey import promote
from tests.fakes import FakeSqs, add_notifications, moves_of, queues_of, row_of
from tests.steps import lease, now_of
from tests.streams import BULK, add_to_stream, claimer_of, set_own_pace, set_pace, tokens_of


def by_recipient(verdict_of: Callable[[Leased], Verdict]) -> Callable[[Sequence[Leased]], Judged]:
    return lambda leased: [(row, verdict_of(row)) for row in leased]


def blocked(row: Leased) -> Defer:
    return Defer(until=row.now + timedelta(minutes=5), reason="country_blocked", blocked=True)


def test_a_blocked_row_waits_without_moving_what_it_is_measured_from(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    eligible_at = row_of(owner, id).eligible_at
    (leased,) = lease(database)
    until = now_of(owner, minutes=5)
    verdict = Defer(until=until, reason="country_blocked", blocked=True)
    record_verdicts(database, [(leased, verdict)])
    row = row_of(owner, id)
    assert (row.status, row.reason, row.verdict) == ("pending", "country_blocked", "defer")
    assert (row.ready, row.available_at, row.eligible_at) == (False, until, eligible_at)
    assert (row.lease_until, row.attempts_spent, row.attempt_id) == (None, 0, None)
    assert moves_of(owner, id) == [("claim", "leased", "pending", "country_blocked")]
    assert promote(database) == 0
    assert promote(database, now=until) == 1


def test_what_does_not_pass_costs_no_token_of_either_bucket(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner, tokens=500)
    set_own_pace(owner, BULK, tokens=100)
    add_to_stream(owner, BULK, 10, recipient="blocked@example.com")
    add_to_stream(owner, BULK, 4)
    stopped = row_of(owner, add_notifications(owner, recipient="blocked@example.com")[0])

    def verdict_of(row: Leased) -> Verdict:
        return blocked(row) if row.address_hash == stopped.address_hash else Allow()

    sqs = FakeSqs()
    claimer = Claimer(
        database=database,
        queues=queues_of(sqs),
        leased_by="run-1",
        gates=by_recipient(verdict_of),
    )
    done = claimer.round()
    assert (done.claimed, done.put_off) == ({"email": 4}, {"email": 11})
    assert len(sqs.ids()) == 4
    assert tokens_of(owner) == pytest.approx(496)
    assert tokens_of(owner, BULK) == pytest.approx(96)
    assert not done.was_idle  # behind what was put off there may be more
    assert claimer.round().was_idle


def test_what_is_suppressed_at_a_gate_ends(owner: psycopg.Connection, database: Database) -> None:
    set_pace(owner)
    (id,) = add_notifications(owner)
    claimer_of(database, gates=by_recipient(lambda row: Suppress(reason="refused"))).round()
    assert (row_of(owner, id).status, row_of(owner, id).reason) == ("suppressed", "refused")
    assert tokens_of(owner) == 1_000_000


def test_the_gates_are_asked_once_a_page_and_only_about_what_else_would_go(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    owner.execute("UPDATE channels SET retries = false")
    first = add_notifications(owner, 3)
    (retry,) = add_notifications(owner)
    owner.execute("UPDATE notifications SET attempts_spent = 1 WHERE id = %s", [retry])
    asked: list[list[UUID]] = []

    def gates(leased: Sequence[Leased]) -> Judged:
        asked.append(sorted(row.id for row in leased))
        return [(row, Allow()) for row in leased]

    claimer_of(database, gates=gates).round()
    assert asked == [first]


class Broken(Exception):
    """A gate does not work."""


def failing(leased: Sequence[Leased]) -> Judged:
    raise Broken(len(leased))


def test_what_cannot_be_decided_is_not_sent_and_keeps_no_channel_back(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner, tokens=200)
    ids = add_notifications(owner, 3)
    told: list[tuple[str, str]] = []

    def gates(leased: Sequence[Leased]) -> Judged:
        if any(row.channel == "email" for row in leased):
            return failing(leased)
        return [(row, Allow()) for row in leased]

    sqs = FakeSqs()
    claimer = Claimer(
        database=database,
        queues=queues_of(sqs),
        leased_by="run-1",
        gates=gates,
        trouble=lambda channel, error: told.append((channel, type(error).__name__)),
    )
    done = claimer.round()
    assert (done.claimed, done.was_idle) == ({"email": 0}, True)
    assert {row_of(owner, id).status for id in ids} == {"pending"}
    assert (tokens_of(owner), sqs.ids()) == (pytest.approx(197), [])
    sms = add_notifications(owner, 2, channel="sms")
    assert claimer.round().claimed == {"email": 0, "sms": 2}
    assert sorted(sqs.ids("sms")) == sms
    assert told == [("email", "Broken")]


def test_an_outage_behind_the_gates_ends_the_round_and_gives_the_leases_back(
    owner: psycopg.Connection, database: Database
) -> None:
    set_pace(owner)
    (id,) = add_notifications(owner)

    def gates(leased: Sequence[Leased]) -> Judged:
        raise Unavailable

    with pytest.raises(Unavailable):
        claimer_of(database, gates=gates).round()
    assert row_of(owner, id).status == "pending"
