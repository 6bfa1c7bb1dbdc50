"""Senders as processes: two at once, one that is killed, one that is stopped past its time."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from functions.core.login import Login
from functions.providers.choice import DECLARATIONS
from functions.store.claim import Leased
from functions.store.connection import Database
from functions.store.survey import promote
from functions.store.sweep import sweep
from tests.fakes import add_notifications, row_of
from tests.function_process import (
    GATEWAY_ARN,
    Died,
    function,
    sender_environment,
)
from tests.gateway import GATEWAY_SECRET, Asked, Gateway, gateway
from tests.secrets_manager import SecretsManager, secrets_manager
from tests.sending import body_of, queue_event, records_of, sender
from tests.steps import channel_of, lease, now_of
from tests.wire import Wire

SECRETS = {GATEWAY_ARN: {"current": GATEWAY_SECRET.removeprefix("whsec_"), "token": "t-1"}}


@pytest.fixture
def manager() -> Generator[SecretsManager]:
    with secrets_manager(SECRETS) as manager:
        yield manager


def configure(owner: psycopg.Connection, served: Gateway) -> None:
    owner.execute(
        "UPDATE channels SET provider_url = %s, provider_deadline_seconds = 10", [served.url]
    )


def swept(owner: psycopg.Connection, database: Database) -> int:
    """Sweep when every lease has run out, and make due what that left; return how many."""
    found = sweep(
        database,
        channel=channel_of(database),
        declarations=DECLARATIONS,
        now=now_of(owner, hours=1),
    )
    promote(database, now=now_of(owner, hours=2))
    return found.total


def test_d4_the_same_messages_in_two_processes_at_once_are_one_request_each(
    owner: psycopg.Connection,
    database: Database,
    login: Login,
    manager: SecretsManager,
    tmp_path: Path,
) -> None:
    ids = add_notifications(owner, 10)
    event = queue_event(*(body_of(leased) for leased in lease(database)))
    environment = sender_environment(login, manager)
    with gateway() as served:
        configure(owner, served)
        with (
            function("sender", environment, tmp_path) as first,
            function("sender", environment, tmp_path) as second,
        ):
            for one in (first, second):
                one.start(event)
            for one in (first, second):
                assert one.finish() == {"batchItemFailures": []}
            accepted = [one.metrics.get("AttemptAccepted", 0) for one in (first, second)]
        assert sorted(asked.key for asked in served.asked) == sorted(str(id) for id in ids)
    assert sum(accepted) == 10
    assert {row_of(owner, id).status for id in ids} == {"submitted"}
    assert {row_of(owner, id).attempts_spent for id in ids} == {1}


def test_a_sender_killed_after_the_acceptance_and_before_its_commit_has_one_effect(
    owner: psycopg.Connection,
    database: Database,
    login: Login,
    manager: SecretsManager,
    tmp_path: Path,
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    with gateway(status="delivered") as served:
        configure(owner, served)
        with function("sender", sender_environment(login, manager), tmp_path) as dying:

            def accept_and_kill(wire: Wire, asked: Asked) -> None:
                served.accept(asked.key)
                served.behaviour.clear()
                os.kill(dying.process.pid, signal.SIGKILL)
                wire.wait_until_gone()

            served.behaviour["ok@example.com"] = accept_and_kill
            with pytest.raises(Died):
                dying.invoke(queue_event(body_of(leased)))
        row = row_of(owner, id)
        assert (row.status, row.attempt_id is not None) == ("leased", True)

        # The queue brings the message again, which does nothing: the attempt is open.
        with sender(database, served.provider()) as one:
            assert one.deliver(records_of([leased], received=2)).failed == []
        assert len(served.asked) == 1

        assert swept(owner, database) == 1
        assert (row_of(owner, id).status, row_of(owner, id).in_doubt) == ("pending", 1)
        with function("sender", sender_environment(login, manager), tmp_path) as next_one:
            event = queue_event(*(body_of(again) for again in lease(database)))
            assert next_one.invoke(event) == {"batchItemFailures": []}
        assert [asked.key for asked in served.asked] == [str(id), str(id)]
        assert served.effects == {str(id): "m-1"}
    row = row_of(owner, id)
    assert (row.status, row.attempts_spent) == ("delivered", 2)


@contextmanager
def stopped_before_its_call(login: Login, served: Gateway, leased: Leased) -> Generator["Stopped"]:
    """Yield a sender that has begun the attempt and is stopped before it calls the provider.

    Where the machine is too busy to begin in time, the record is left alone: then once more.
    """
    for seconds in PATIENCE_SECONDS:
        with _started(login, served, leased, seconds) as started:
            _, status = os.waitpid(started.process.pid, os.WUNTRACED)
            if os.WIFSTOPPED(status):
                yield started
                return
    raise AssertionError("the sender never began in time")


PATIENCE_SECONDS = (2.5, 8.0, 30.0)
"""Of an invocation that must get as far as its begin."""


@contextmanager
def _started(login: Login, served: Gateway, leased: Leased, seconds: float) -> Generator["Stopped"]:
    told: dict[str, Any] = {
        "login": dataclasses.asdict(login),
        "url": served.url,
        "body": body_of(leased),
        "seconds": seconds,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.stopping_sender", json.dumps(told)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    try:
        assert process.stdout is not None
        yield Stopped(process=process, ends_at=float(process.stdout.readline()))
    finally:
        process.kill()
        process.communicate()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A sender that goes on only when it is told to."""

    process: subprocess.Popen[str]
    ends_at: float

    def thaw(self) -> dict[str, Any]:
        """Let the sender go on when its time is over; return its report."""
        time.sleep(max(self.ends_at - time.monotonic(), 0))
        self.process.send_signal(signal.SIGCONT)
        said, _ = self.process.communicate("go on\n", timeout=120)
        return json.loads(said)


def test_a_sender_stopped_past_its_time_sends_nothing_and_gives_the_attempt_back(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    with (
        gateway() as served,
        stopped_before_its_call(login, served, leased) as stopped,
    ):
        assert row_of(owner, id).attempt_id is not None
        report = stopped.thaw()
        assert served.asked == []
    assert (report["failed"], report["counts"]["AttemptTransient"]) == ([], 1)
    row = row_of(owner, id)
    assert (row.status, row.attempts_spent, row.attempt_id) == ("pending", 0, None)
    (attempt,) = owner.execute("SELECT outcome, code FROM attempts").fetchall()
    assert attempt == ("transient", "deadline")


def test_a_sender_stopped_past_its_lease_sends_nothing_although_another_has_sent(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    with (
        gateway(status="delivered") as served,
        stopped_before_its_call(login, served, leased) as stopped,
    ):
        assert swept(owner, database) == 1
        with sender(database, served.provider()) as one:
            assert one.deliver(records_of(lease(database))).counts["AttemptAccepted"] == 1
        assert row_of(owner, id).status == "delivered"
        report = stopped.thaw()
        assert len(served.asked) == 1
    assert report["failed"] == []
    row = row_of(owner, id)
    assert (row.status, row.in_doubt, row.attempt_id) == ("delivered", 0, None)
    outcomes = owner.execute("SELECT outcome FROM attempts ORDER BY lease_number").fetchall()
    assert outcomes == [("transient",), ("accepted",)]
