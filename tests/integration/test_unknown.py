"""The classes of unknown, each through a sender and a real socket: what may have been accepted.

A gateway that honours keys is tried again under the same key; one that does not leaves the
notification uncertain, until its grace is over. What surely never left is neither.
"""

import os
import signal
from collections.abc import Generator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.login import Login
from functions.providers.choice import DECLARATIONS
from functions.providers.provider import Provider
from functions.sender.record import Report
from functions.store.connection import Database
from functions.store.survey import promote
from functions.store.sweep import sweep
from tests.fakes import Row, add_notifications, moves_of, row_of
from tests.function_process import GATEWAY_ARN, Died, function, sender_environment
from tests.gateway import GATEWAY_SECRET, Asked, Gateway, gateway
from tests.secrets_manager import SecretsManager, secrets_manager
from tests.sending import body_of, queue_event, records_of, sender
from tests.steps import begin_one, channel_of, lease, now_of, opening_of
from tests.unknowns import (
    HANGING,
    NEVER_LEFT,
    PROVIDERS,
    UNKNOWN,
    Lost,
    calling,
    provider_at,
    provider_of,
)
from tests.wire import Wire

GRACE = timedelta(seconds=900)
"""Of email."""


@pytest.fixture
def manager() -> Generator[SecretsManager]:
    secret = GATEWAY_SECRET.removeprefix("whsec_")
    with secrets_manager({GATEWAY_ARN: {"current": secret}}) as manager:
        yield manager


def address(case: str) -> str:
    return f"{case}@example.com"


def add_cases(
    owner: psycopg.Connection, served: Gateway, cases: dict[str, Lost]
) -> dict[str, UUID]:
    """Add a notification per case, whose recipient the gateway does that to."""
    for case, lost in cases.items():
        served.behaviour[address(case)] = lost.behaviour
    return {case: add_notifications(owner, recipient=address(case))[0] for case in cases}


def deliver(database: Database, provider: Provider[Any]) -> Report:
    """Send all that is due, in sets of ten as the queue gives them."""
    with sender(database, provider) as one:
        report = Report()
        while leases := lease(database, page=10):
            more = one.deliver(records_of(leases))
            assert (more.failed, more.errors) == ([], [])
            report.counts.update(more.counts)
    return report


def attempts_of(owner: psycopg.Connection, id: UUID) -> list[Row]:
    found = owner.execute(
        "SELECT id FROM attempts WHERE notification_id = %s ORDER BY lease_number", [id]
    )
    return [row_of(owner, attempt_id, "attempts") for (attempt_id,) in found.fetchall()]


def is_in_doubt_under_its_key(owner: psycopg.Connection, id: UUID, lost: Lost) -> None:
    """Check that the row is due again under the same key, and what the ledger has."""
    row, (attempt,) = row_of(owner, id), attempts_of(owner, id)
    assert (attempt.outcome, attempt.reference) == ("unknown", None)
    assert (attempt.code, attempt.http_status) in lost.ledger
    assert (row.status, row.in_doubt, row.attempts_spent) == ("pending", 1, 1)
    assert (row.attempt_id, row.lease_until, row.decide_at) == (None, None, None)
    assert (row.evidence_rank, row.ready) == (0, False)
    assert moves_of(owner, id) == [("sender", "leased", "pending", "unknown")]


def is_uncertain(owner: psycopg.Connection, id: UUID, lost: Lost) -> None:
    """Check that the row waits for evidence until its grace is over."""
    row, (attempt,) = row_of(owner, id), attempts_of(owner, id)
    assert (attempt.outcome, attempt.provider) == ("unknown", "http_keyless")
    assert (attempt.code, attempt.http_status) in lost.ledger
    assert (row.status, row.in_doubt, row.attempts_spent) == ("uncertain", 1, 1)
    assert (row.attempt_id, row.lease_until) == (attempt.id, None)
    assert row.decide_at == row.next_check_at == row.updated_at + GRACE
    assert attempt.started_at <= attempt.finished_at <= row.updated_at
    assert row.evidence_rank == 0
    assert moves_of(owner, id) == [("sender", "leased", "uncertain", "unknown")]


@pytest.mark.parametrize("deadline", [None, 1.0], ids=["answered", "hanging"])
def test_what_may_have_been_accepted_is_tried_again_under_the_same_key(
    owner: psycopg.Connection,
    database: Database,
    deadline: float | None,
    subtests: pytest.Subtests,
) -> None:
    cases = dict(UNKNOWN if deadline is None else HANGING)
    with gateway() as served:
        ids = add_cases(owner, served, cases)
        if deadline is not None:
            owner.execute("UPDATE channels SET provider_deadline_seconds = %s", [deadline])
        assert deliver(database, served.provider()).counts["AttemptUnknown"] == len(cases)
        for case, lost in cases.items():
            with subtests.test(case):
                is_in_doubt_under_its_key(owner, ids[case], lost)
        assert sorted(asked.key for asked in served.asked) == sorted(map(str, ids.values()))

        owner.execute("UPDATE channels SET provider_deadline_seconds = 10")
        served.behaviour.clear()
        promote(database, now=now_of(owner, hours=1))
        assert deliver(database, served.provider()).counts["AttemptAccepted"] == len(cases)
        assert len(served.asked) == 2 * len(cases), "once each: nothing is sent again by itself"
        assert served.effects.keys() == set(map(str, ids.values())), "the keys are the same"
    assert {row_of(owner, id).status for id in ids.values()} == {"submitted"}


@pytest.mark.parametrize("deadline", [None, 1.0], ids=["answered", "hanging"])
def test_without_keys_what_may_have_been_accepted_waits_for_evidence(
    owner: psycopg.Connection,
    database: Database,
    deadline: float | None,
    subtests: pytest.Subtests,
) -> None:
    cases = dict(UNKNOWN if deadline is None else HANGING)
    with gateway() as served:
        ids = add_cases(owner, served, cases)
        if deadline is not None:
            owner.execute("UPDATE channels SET provider_deadline_seconds = %s", [deadline])
        report = deliver(database, provider_of("http_keyless", served))
        assert report.counts["AttemptUnknown"] == len(cases)
        for case, lost in cases.items():
            with subtests.test(case):
                is_uncertain(owner, ids[case], lost)
        keys = {f"{id}.{attempts_of(owner, id)[0].id}" for id in ids.values()}
        assert {asked.key for asked in served.asked} == keys, "each key names its attempt"
        promote(database, now=now_of(owner, days=365))
        assert lease(database) == [], "nothing is sent again because time went by"


@pytest.mark.parametrize("case", NEVER_LEFT)
@pytest.mark.parametrize("name", PROVIDERS)
def test_what_surely_never_left_is_a_passing_failure(
    owner: psycopg.Connection, database: Database, name: str, case: str
) -> None:
    (id,) = add_notifications(owner)
    place, code = NEVER_LEFT[case]
    if case == "no-connection":
        owner.execute("UPDATE channels SET provider_deadline_seconds = 0.5")
    with ExitStack() as stack:
        provider = provider_at(name, calling(*place(stack)))
        assert deliver(database, provider).counts["AttemptTransient"] == 1
    row, (attempt,) = row_of(owner, id), attempts_of(owner, id)
    assert (attempt.outcome, attempt.code) == ("transient", code)
    assert (row.status, row.in_doubt, row.attempts_spent) == ("pending", 0, 1)
    assert (row.attempt_id, row.decide_at) == (None, None)
    assert moves_of(owner, id) == [("sender", "leased", "pending", "transient")]


@pytest.mark.parametrize("name", PROVIDERS)
def test_an_open_attempt_whose_lease_ran_out_is_unknown(
    owner: psycopg.Connection, database: Database, name: str
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    begin_one(database, opening_of(leased), provider=name)
    later = now_of(owner, hours=1)
    swept = sweep(database, channel=channel_of(database), declarations=DECLARATIONS, now=later)
    assert (swept.in_doubt, swept.total) == (1, 1)
    row, (attempt,) = row_of(owner, id), attempts_of(owner, id)
    assert (attempt.outcome, attempt.code, attempt.finished_at) == (
        "unknown",
        "lease_expired",
        later,
    )
    assert (row.in_doubt, row.attempts_spent, row.lease_until) == (1, 1, None)
    if name == "http":
        assert (row.status, row.attempt_id, row.decide_at) == ("pending", None, None)
        assert row.available_at > later
    else:
        assert (row.status, row.attempt_id) == ("uncertain", attempt.id)
        assert row.decide_at == row.next_check_at == later + GRACE


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_sender_killed_in_its_call_leaves_an_unknown_outcome(
    owner: psycopg.Connection,
    database: Database,
    login: Login,
    manager: SecretsManager,
    tmp_path: Path,
    name: str,
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    with gateway() as served:
        owner.execute("UPDATE channels SET provider = %s, provider_url = %s", [name, served.url])
        with function("sender", sender_environment(login, manager), tmp_path) as dying:

            def accept_and_kill(wire: Wire, asked: Asked) -> None:
                served.accept(asked.key)
                os.kill(dying.process.pid, signal.SIGKILL)
                wire.wait_until_gone()

            served.behaviour["ok@example.com"] = accept_and_kill
            with pytest.raises(Died):
                dying.invoke(queue_event(body_of(leased)))
        assert (row_of(owner, id).status, attempts_of(owner, id)[0].outcome) == ("leased", None)
        sweep(
            database,
            channel=channel_of(database),
            declarations=DECLARATIONS,
            now=now_of(owner, hours=1),
        )
        row, (attempt,) = row_of(owner, id), attempts_of(owner, id)
        assert (attempt.outcome, row.in_doubt) == ("unknown", 1)
        served.behaviour.clear()
        promote(database, now=now_of(owner, hours=2))
        deliver(database, provider_of(name, served))
    if name == "http":
        assert [asked.key for asked in served.asked] == [str(id)] * 2
        assert row_of(owner, id).status == "submitted"
    else:
        assert row.status == "uncertain"
        assert [asked.key for asked in served.asked] == [f"{id}.{attempt.id}"]
        assert row_of(owner, id) == row
    assert len(served.effects) == 1
