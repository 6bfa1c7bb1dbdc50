"""Functions whose clocks are ten minutes off: nothing they decide or write is any different.

Each runs as a process of its own whose clock was made wrong from outside (``tests/shifted_clock``).
The database's clock alone decides; only what is sent to others carries the function's.
"""

import json
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.login import Login
from functions.core.message import LeaseMessage
from functions.core.outcome import Accepted, Unknown
from functions.store.connection import Database
from tests.api import email, recorded
from tests.fakes import FIRST_ORGANIZATION, add_notifications, row_of
from tests.function_process import (
    CALLBACK_ARN,
    GATEWAY_ARN,
    HASH_ARN,
    ROOT,
    WEBHOOK_ARN,
    FunctionProcess,
    callbacks_environment,
    environment_of,
    function,
    sender_environment,
)
from tests.gateway import GATEWAY_SECRET, Asked, Gateway, gateway
from tests.reports import HASH_KEY, add_known, report, signed_event
from tests.secrets_manager import SecretsManager, secrets_manager
from tests.sending import body_of, queue_event
from tests.simulated import CALLBACK_SECRET
from tests.steps import begun, close_one, lease, now_of
from tests.unknowns import answering
from tests.wire import Wire, peer

SECRETS: dict[str, Any] = {
    GATEWAY_ARN: {"current": GATEWAY_SECRET.removeprefix("whsec_")},
    CALLBACK_ARN: {"current": CALLBACK_SECRET.removeprefix("whsec_")},
    HASH_ARN: {"current": HASH_KEY.decode()},
    WEBHOOK_ARN: {"current": "A" * 44},
}
OFFSETS = (600, -600)
MINUTES = 5
"""How near to now a moment is that a wrong clock would be on the other side of."""

SLACK_SECONDS = 60.0
CUTOFF = timedelta(hours=72)
"""Of email."""


@dataclass(frozen=True, slots=True)
class Shifted:
    """Functions whose clocks are off by ``offset`` seconds."""

    offset: int
    login: Login
    manager: SecretsManager
    folder: Path
    stack: ExitStack

    def start(self, name: str, **more: str) -> FunctionProcess:
        environment = {
            "sender": lambda: sender_environment(self.login, self.manager),
            "callbacks": lambda: callbacks_environment(self.login, self.manager),
            "ingest": lambda: environment_of(
                self.login, **self.manager.environment, HASH_SECRET_ARN=HASH_ARN
            ),
            "reconcile": lambda: environment_of(
                self.login, **self.manager.environment, GATEWAY_SECRET_ARN=GATEWAY_ARN
            ),
            "sweeper": lambda: environment_of(self.login),
            "claim": lambda: environment_of(self.login, **self.manager.environment),
        }[name]()
        wrong = {
            "PYTHONPATH": str(ROOT / "tests" / "shifted_clock"),
            "CLOCK_OFFSET_SECONDS": str(self.offset),
        }
        return self.stack.enter_context(function(name, environment | wrong | more, self.folder))


@pytest.fixture(params=OFFSETS, ids="{:+d} s".format)
def shifted(request: pytest.FixtureRequest, login: Login, tmp_path: Path) -> Generator[Shifted]:
    with secrets_manager(SECRETS) as manager, ExitStack() as stack:
        yield Shifted(request.param, login, manager, tmp_path, stack)


@contextmanager
def within(owner: psycopg.Connection) -> Generator[None]:
    """Check that every time written by the block is one that the database's clock had meanwhile."""
    began = now_of(owner)
    yield
    ended = now_of(owner)
    for statement in (
        "SELECT updated_at FROM notifications WHERE updated_at <> created_at",
        "SELECT final_at FROM notifications WHERE final_at IS NOT NULL",
        "SELECT at FROM transitions",
        "SELECT started_at FROM attempts",
        "SELECT finished_at FROM attempts WHERE finished_at IS NOT NULL",
        "SELECT received_at FROM receipts",
        "SELECT accepted_at FROM batches",
    ):
        for (moment,) in owner.execute(statement.encode()):
            assert began <= moment <= ended, (statement, moment - began)


def from_now(owner: psycopg.Connection, **later: float) -> str:
    return now_of(owner, **later).isoformat()


def test_what_is_accepted_is_due_and_expires_by_the_databases_clock(
    owner: psycopg.Connection, shifted: Shifted
) -> None:
    items = {
        "now": {},
        "soon": {"send_at": from_now(owner, minutes=MINUTES)},
        "since": {"send_at": from_now(owner, minutes=-MINUTES)},
        "for a while": {"expires_at": from_now(owner, minutes=MINUTES)},
        "not any more": {"expires_at": from_now(owner, minutes=-MINUTES)},
    }
    event = recorded("ingest.post")
    event["rawPath"] = event["requestContext"]["http"]["path"] = "/v1/notifications/batches"
    event["requestContext"]["authorizer"]["lambda"] = {
        "organization_id": str(FIRST_ORGANIZATION),
        "scopes": "send",
        "key_id": "01900000-0000-7000-8000-00000000000a",
    }
    event["body"] = json.dumps(
        {
            "notifications": [
                email(f"{place}@example.com", reference=name, **members)
                for place, (name, members) in enumerate(items.items())
            ]
        }
    )
    with shifted.stack, within(owner):
        ingest = shifted.start("ingest")
        first, again = ingest.invoke(event), ingest.invoke(event)
        assert (first["statusCode"], again["body"]) == (202, first["body"])
        assert again["headers"]["Idempotent-Replayed"] == "true"
        swept = shifted.start("sweeper").invoke(recorded("sweeper.scheduled"))
        assert (swept["expired"], swept["forgotten"]) == (1, 0)
    rows = owner.execute("SELECT reference, status, ready, available_at > now() FROM notifications")
    assert {reference: state for reference, *state in rows} == {
        "now": ["pending", True, False],
        "soon": ["pending", False, True],
        "since": ["pending", True, False],
        "for a while": ["pending", True, False],
        "not any more": ["expired", True, False],
    }


@contextmanager
def queue() -> Generator[tuple[str, list[LeaseMessage]]]:
    """Yield where a queue is that takes everything, and what it was given."""
    taken: list[LeaseMessage] = []

    def serve(wire: Wire) -> None:
        while True:
            entries = json.loads(wire.read_request().body)["Entries"]
            taken.extend(LeaseMessage.loads(entry["MessageBody"]) for entry in entries)
            kept = [{"Id": entry["Id"], "MessageId": entry["Id"]} for entry in entries]
            answer = json.dumps({"Successful": kept, "Failed": []}).encode()
            wire.answer(200, answer, {"Content-Type": "application/x-amz-json-1.0"})

    with peer(serve) as server:
        yield server.url, taken


def test_c5_nothing_is_claimed_early_and_no_live_lease_is_taken(
    owner: psycopg.Connection, database: Database, shifted: Shifted
) -> None:
    (live,) = add_notifications(owner)
    lease(database, lease_seconds=60 * MINUTES, now=now_of(owner, minutes=-1))
    (lost,) = add_notifications(owner)
    lease(database, lease_seconds=60, now=now_of(owner, minutes=-2))
    (soon,) = add_notifications(owner, delay_seconds=60 * MINUTES)
    (due,) = add_notifications(owner)
    owner.execute("UPDATE notifications SET updated_at = created_at")
    with shifted.stack, queue() as (url, taken), within(owner):
        swept = shifted.start("sweeper").invoke(recorded("sweeper.scheduled"))
        assert swept["swept"]["email"]["LeaseReleased"] == 1
        urls = {f"{name}_QUEUE_URL": url for name in ("EMAIL", "SMS", "PUSH", "WEBHOOK")}
        claiming = shifted.start(
            "claim",
            **urls,
            INGEST_FUNCTION="ingest",
            AWS_ENDPOINT_URL=url,
            AWS_DEFAULT_REGION="eu-central-1",
            RUN_SECONDS="0.5",
        )
        assert claiming.invoke(recorded("claim.scheduled"))["claimed"] == {"email": 2}
    assert {message.id for message in taken} == {lost, due}
    assert row_of(owner, live).lease_number == 1
    assert (row_of(owner, soon).status, row_of(owner, soon).ready) == ("pending", False)
    for id in (lost, due):
        row = row_of(owner, id)
        seconds = (row.lease_until - row.updated_at).total_seconds()
        assert (row.status, seconds) == ("leased", pytest.approx(240, abs=1))


def dated(served: Gateway, seconds: float) -> Any:
    """Return a gateway's wish to wait, as a date by its own clock, which is right."""

    def behave(wire: Wire, asked: Asked) -> None:
        now = datetime.now(UTC)
        later = format_datetime(now + timedelta(seconds=seconds), usegmt=True)
        wire.answer(429, headers={"Retry-After": later, "Date": format_datetime(now, usegmt=True)})

    return behave


def test_a_sender_opens_closes_and_waits_by_the_databases_clock(
    owner: psycopg.Connection, database: Database, shifted: Shifted
) -> None:
    names = ("accepted", "throttled", "unknown", "late", "in time")
    ids = {name: add_notifications(owner, recipient=f"{name}@example.com")[0] for name in names}
    for name, minutes in (("late", -1), ("in time", MINUTES)):
        owner.execute(
            "UPDATE notifications SET expires_at = clock_timestamp() + %s WHERE id = %s",
            [timedelta(minutes=minutes), ids[name]],
        )
    leases = lease(database)
    with gateway() as served, shifted.stack, within(owner):
        owner.execute("UPDATE channels SET provider_url = %s", [served.url])
        served.behaviour["throttled@example.com"] = dated(served, 200)
        served.behaviour["unknown@example.com"] = answering(500, b"")
        event = queue_event(*map(body_of, leases))
        assert shifted.start("sender").invoke(event) == {"batchItemFailures": []}
        stamps = {int(asked.received.headers["webhook-timestamp"]) for asked in served.asked}
        wrong = now_of(owner).timestamp() + shifted.offset
        assert all(abs(stamp - wrong) < SLACK_SECONDS for stamp in stamps), (
            "its own is the wrong one"
        )
    rows = {name: row_of(owner, id) for name, id in ids.items()}
    assert {name: (row.status, row.reason) for name, row in rows.items()} == {
        "accepted": ("submitted", None),
        "throttled": ("pending", None),
        "unknown": ("pending", None),
        "late": ("expired", "expired"),
        "in time": ("submitted", None),
    }
    waits = {
        name: (rows[name].available_at - rows[name].updated_at).total_seconds()
        for name in ("throttled", "unknown")
    }
    assert waits["throttled"] == pytest.approx(200, abs=2)
    assert 30 <= waits["unknown"] <= 60
    first_look = rows["accepted"].next_check_at - rows["accepted"].updated_at
    assert first_look == timedelta(seconds=30)


def test_a_callback_is_old_by_the_databases_clock(
    owner: psycopg.Connection, shifted: Shifted
) -> None:
    statuses: dict[int, int] = {}
    with shifted.stack, within(owner):
        called_back = shifted.start("callbacks")
        for age in (0, 290, -290, 310, -310, shifted.offset):
            (id,) = add_known(owner)
            body = report("delivered", idempotency_key=id)
            del body["timestamp"]  # it happened when it came: by which clock?
            answer = called_back.invoke(signed_event(body, age_seconds=age))
            statuses[age] = answer["statusCode"]
            assert row_of(owner, id).status == ("delivered" if abs(age) < 300 else "pending")
        (early, late) = owner.execute(
            "SELECT min(occurred_at - received_at), max(occurred_at - received_at) FROM receipts"
        ).fetchall()[0]
    assert statuses == {0: 202, 290: 202, -290: 202, 310: 401, -310: 401, shifted.offset: 401}
    assert early == late == timedelta(0)


def test_what_has_waited_long_enough_is_decided_by_the_databases_clock(
    owner: psycopg.Connection, database: Database, shifted: Shifted
) -> None:
    submitted, uncertain = "submitted", "uncertain"
    waits = {
        "a look is due": (submitted, {"next_check_at": -1}),
        "its cutoff is near": (submitted, {"next_check_at": -1, "cutoff_at": MINUTES}),
        "its cutoff is over": (submitted, {"next_check_at": -1, "cutoff_at": -MINUTES}),
        "its look is near": (submitted, {"next_check_at": MINUTES}),
        "its grace is nearly over": (uncertain, {"next_check_at": MINUTES, "decide_at": MINUTES}),
        "its grace is over": (uncertain, {"next_check_at": -1, "decide_at": -MINUTES}),
    }
    owner.execute(
        "UPDATE channels SET unknown_policy = 'hold', poll_rate = 0, check_base_seconds = 600"
    )
    ids: dict[str, UUID] = {}
    for name, (status, minutes) in waits.items():
        (ids[name],) = add_notifications(owner)
        opening = begun(database, provider="http" if status == submitted else "http_keyless")
        outcome = Accepted(reference=name) if status == submitted else Unknown()
        assert close_one(database, opening, outcome, keyed=status == submitted) == status
        let_wait(owner, ids[name], **minutes)
    with shifted.stack:
        reconciled = shifted.start("reconcile").invoke(recorded("reconcile.scheduled"))
    assert (reconciled["checked"], reconciled["unconfirmed"], reconciled["held"]) == (4, 1, 1)
    assert {
        name: (row_of(owner, id).status, row_of(owner, id).checks) for name, id in ids.items()
    } == {
        "a look is due": (submitted, 1),
        "its cutoff is near": (submitted, 1),
        "its cutoff is over": ("unconfirmed", 1),
        "its look is near": (submitted, 0),
        "its grace is nearly over": (uncertain, 0),
        "its grace is over": ("dead", 1),
    }
    near = row_of(owner, ids["its cutoff is near"])
    assert near.next_check_at == near.submitted_at + CUTOFF, "it is looked at again at its cutoff"
    due = row_of(owner, ids["a look is due"])
    assert 960 <= (due.next_check_at - due.updated_at).total_seconds() <= 1440


def let_wait(
    owner: psycopg.Connection,
    id: UUID,
    *,
    next_check_at: float,
    cutoff_at: float | None = None,
    decide_at: float | None = None,
) -> None:
    """Set when something is due, in minutes from now."""
    owner.execute(
        "UPDATE notifications SET next_check_at = clock_timestamp() + %(look)s,"
        " decide_at = clock_timestamp() + %(decide)s,"
        " submitted_at = coalesce(clock_timestamp() + %(cutoff)s - %(whole)s, submitted_at)"
        " WHERE id = %(id)s",
        {
            "look": timedelta(minutes=next_check_at),
            "decide": None if decide_at is None else timedelta(minutes=decide_at),
            "cutoff": None if cutoff_at is None else timedelta(minutes=cutoff_at),
            "whole": CUTOFF,
            "id": id,
        },
    )
