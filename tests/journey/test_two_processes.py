"""Two claim processes at once, and one of them killed: no row twice under a lease, none lost."""

import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from uuid import UUID

import psycopg
import pytest

from functions.core.login import Login
from functions.core.message import LeaseMessage
from functions.core.outcome import Accepted
from functions.store.begin import Opening
from functions.store.close import Closing, close
from functions.store.connection import Database
from functions.store.delivery import load
from functions.store.survey import promote
from functions.store.sweep import sweep
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION, add_notifications
from tests.journey.claim_process import GATE
from tests.steps import begin_all, channel_of, declaration_of, now_of

UNBOUND = (
    "UPDATE channels SET rate = 1e9, burst = 1e9, tokens = 1e9, max_in_flight = 1e9, page = %s"
)
AT_THE_GATE = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
TIMEOUT_SECONDS = 60


@contextmanager
def gate(owner: psycopg.Connection, processes: int) -> Generator[None]:
    """Hold the gate while the block starts processes; open it when all of them stand there."""
    owner.execute("SELECT pg_advisory_lock(%s)", [GATE])
    yield
    while owner.execute(AT_THE_GATE).fetchone() != (processes,):
        pass
    owner.execute("SELECT pg_advisory_unlock(%s)", [GATE])


def start(login: Login, *dies: str) -> subprocess.Popen[str]:
    """Start a claim process on the database."""
    command = [sys.executable, "-m", "tests.journey.claim_process"]
    return subprocess.Popen(
        [*command, login.host, str(login.port), login.name, *dies],
        stdout=subprocess.PIPE,
        text=True,
    )


def messages_of(process: subprocess.Popen[str]) -> list[LeaseMessage]:
    """Wait for the process to end and return the messages it put on the queue."""
    output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    return [LeaseMessage.loads(line) for line in output.splitlines()]


def test_two_claim_processes_over_ten_thousand_rows_take_none_twice_and_leave_none(
    owner: psycopg.Connection, login: Login
) -> None:
    owner.execute(UNBOUND, [100])
    ids = add_notifications(owner, 6_000)
    ids += add_notifications(owner, 4_000, organization_id=SECOND_ORGANIZATION)
    with gate(owner, 2):
        processes = [start(login), start(login)]
    first, second = (messages_of(process) for process in processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(message.id for message in first + second) == sorted(ids)
    assert {message.lease_number for message in first + second} == {1}
    left = owner.execute("SELECT count(*) FROM notifications WHERE status <> 'leased'").fetchone()
    assert left == (0,)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_c7_a_claim_process_killed_at_the_queue_loses_nothing_and_doubles_nothing(
    owner: psycopg.Connection, login: Login, database: Database, moment: str
) -> None:
    owner.execute(UNBOUND, [20])
    ids = add_notifications(owner, 200, organization_id=FIRST_ORGANIZATION)
    killed = start(login, moment, "3")  # in its second page: two calls of ten messages each
    out = messages_of(killed)
    assert killed.returncode == -signal.SIGKILL
    survivor = start(login)
    out += messages_of(survivor)
    assert len({message.id for message in out}) == len(out)
    submitted = submit(database, out)
    assert submitted == {message.id for message in out}
    if moment == "before":
        assert submitted < set(ids)  # what was leased and not queued stays under its lease
    assert sweep_all(owner, database) == len(ids) - len(submitted)
    last = start(login)
    again = messages_of(last)
    assert {message.lease_number for message in again} <= {2}
    assert {message.id for message in again} == set(ids) - submitted
    submit(database, [*out, *again])
    attempts = owner.execute("SELECT notification_id FROM attempts ORDER BY 1").fetchall()
    assert [row[0] for row in attempts] == ids  # one submission each, every message came twice
    states = owner.execute("SELECT DISTINCT status FROM notifications").fetchall()
    assert states == [("submitted",)]


def submit(database: Database, messages: list[LeaseMessage]) -> set[UUID]:
    """Deliver each message; return the notifications that made a provider call."""
    tokens = {id: row.token for id, row in load(database, [m.id for m in messages]).items()}
    openings = [Opening(id=m.id, lease_number=m.lease_number, token=tokens[m.id]) for m in messages]
    begun = begin_all(database, openings, remaining_seconds=30)
    closings = [
        Closing(
            id=id,
            lease_number=answer.lease_number,
            token=tokens[id],
            outcome=Accepted(reference=None),
            again_seconds=None,
        )
        for id, answer in begun.items()
        if answer.send
    ]
    close(database, closings, channel=channel_of(database), declaration=declaration_of("http"))
    return {closing.id for closing in closings}


def sweep_all(owner: psycopg.Connection, database: Database) -> int:
    """Let every lease end; return how many were taken back."""
    late = now_of(owner, hours=1)
    swept = sweep(database, channel=channel_of(database), declarations=[], now=late)
    promote(database)
    return swept.released
