"""Everything around the process that dies: its database, clients, the queue and the provider.

Time passes by Snapshot.move alone; nothing here waits for a clock.
"""

import copy
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg

from functions.core.declaration import Declaration
from functions.core.errors import TooLate
from functions.core.login import Login
from functions.providers.choice import DECLARATIONS
from functions.store.cancel import cancel_notification
from functions.store.channel import read_channels
from functions.store.connection import Database, connector
from functions.store.receipt import record
from tests.api import Api, start
from tests.fakes import FIRST_ORGANIZATION
from tests.proof.crash_boundary import Asked
from tests.proof.crash_ledger import DOOR, Call, Effect, Ledger, kind_of, receipt_of
from tests.proof.crash_outside import LOOK_UP, QUEUE_CALL, SUBMIT
from tests.proof.crash_process import CHANNEL
from tests.proof.crash_snapshot import Snapshot

HOUR = 3600.0
"""Longer than a lease, a backoff and a grace; a day of them is shorter than a key's window."""

DAY = 24 * HOUR
CUTOFF = 3 * DAY + HOUR
"""Longer than the longest wait for a receipt."""

MAX_POSTS = 3


@dataclass(slots=True, kw_only=True)
class Message:
    body: str
    received: int = 0


@dataclass(slots=True, kw_only=True)
class Memory:
    """What the world remembers of a case; a copy of the scene's."""

    calls: list[Call] = field(default_factory=list[Call])
    effects: list[Effect] = field(default_factory=list[Effect])
    queue: list[Message] = field(default_factory=list[Message])
    acknowledged: list[UUID] = field(default_factory=list[UUID])
    withdrawn: set[UUID] = field(default_factory=set[UUID])
    """Whose cancellation was granted."""
    attempts_when_suppressed: dict[UUID, int] = field(default_factory=dict[UUID, int])
    complaints: list[str] = field(default_factory=list[str])
    """What the world saw and should never see."""
    answers: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    """What each answer named that accepted something: the batch and its notifications."""
    in_hand: list[str] = field(default_factory=list[str])
    """The messages that the process was given."""
    at: float = 0.0
    """When it was kept, by the clock of the world."""


class World:
    """One database and what is around it; used for one case after another."""

    def __init__(
        self, login: Login, owner: psycopg.Connection, *, declaration: Declaration
    ) -> None:
        self.login = login
        self.owner = owner
        self.declaration = declaration
        self.snapshot = Snapshot.of(owner)
        self.database = Database(connector(lambda: login, application_name="rest"))
        self.clients = Database(connector(lambda: login, application_name="clients"))
        self.api: Api = start(self.clients)
        self.memory = Memory()
        self.deliveries = 1
        """How often everything is delivered that may be delivered more than once."""
        self.before_next_answer: Callable[[], None] | None = None
        """Runs once, while a call of the rest of the service to the provider is under way."""
        self._kept = Memory()
        self._moved = 0.0
        self.channel = read_channels(self.database)[CHANNEL]

    def close(self) -> None:
        self.database.close()
        self.clients.close()

    # Time and memory.

    @property
    def now(self) -> float:
        """The clock of the world, in unix seconds: it goes on as time is let pass."""
        return time.time() + self._moved

    def pass_time(self, seconds: float) -> None:
        self.snapshot.move(seconds)
        self._moved += seconds

    def keep(self) -> None:
        """Let every case start from here."""
        self.memory.at = self.now
        self._kept = copy.deepcopy(self.memory)
        self.snapshot.keep()

    def restore(self, *, deliveries: int) -> None:
        self.snapshot.restore()
        self.deliveries = deliveries
        self._moved = 0.0
        self.memory = copy.deepcopy(self._kept)
        for effect in self.memory.effects:
            effect.at += self.now - self.memory.at

    # The outside, as processes call it.

    def answer(self, asked: Asked) -> Any:
        """Answer a call over the edge of a process."""
        match asked.what:
            case name if name == SUBMIT:
                arguments = asked.arguments
                return self.ledger.submit(
                    Call(
                        key=arguments["key"],
                        notification_id=UUID(arguments["notification_id"]),
                        attempt_id=UUID(arguments["attempt_id"]),
                        recipient=arguments["recipient"],
                    )
                )
            case name if name == LOOK_UP:
                return self.ledger.look_up(asked.arguments["key"])
            case name if name == QUEUE_CALL:
                self.enqueue(asked.arguments["bodies"])
                return None
            case _:
                raise AssertionError(asked)

    @property
    def ledger(self) -> Ledger:
        return Ledger(
            clock=lambda: self.now,
            check=self._check,
            soon=lambda effect: self.report([effect]),
            calls=self.memory.calls,
            effects=self.memory.effects,
        )

    def _check(self, call: Call) -> None:
        """Complain about a call that may not be: of no attempt, of one that ended, a second one
        of an attempt, or one after a cancellation that was granted."""
        row = self.owner.execute(
            "SELECT outcome FROM attempts WHERE notification_id = %s AND id = %s",
            [call.notification_id, call.attempt_id],
        ).fetchone()
        complain = self.memory.complaints.append
        if row is None:
            complain(f"{call.kind}: called without a committed attempt")
        elif row[0] not in (None, "unknown"):
            complain(f"{call.kind}: called after its attempt ended as {row[0]}")
        if any(before.attempt_id == call.attempt_id for before in self.memory.calls):
            complain(f"{call.kind}: one attempt called twice")
        if call.notification_id in self.memory.withdrawn:
            complain(f"{call.kind}: called after its cancellation was granted")

    def enqueue(self, bodies: Sequence[str], *, received: int = 0) -> None:
        self.memory.queue += [Message(body=body, received=received) for body in bodies]

    def report(self, effects: Sequence[Effect]) -> None:
        """Let the provider report about ``effects``, as often as things are delivered."""
        receipts = [
            receipt_of(effect, occurred_at=datetime.fromtimestamp(effect.at - self._moved, UTC))
            for effect in effects
        ]
        for _ in range(self.deliveries if receipts else 0):
            record(self.database, receipts, provider=DOOR, declarations=DECLARATIONS)
        for effect in effects:
            effect.is_reported = True

    # Clients.

    def promise(self, answer: dict[str, Any]) -> bool:
        """Remember what an answer of the API promised; return whether it accepted anything."""
        if answer["statusCode"] != 202:
            return False
        body = json.loads(answer["body"])
        ids = [UUID(one["id"]) for one in body.get("notifications", [body])]
        # Not the times in it: they are as the rows have them, and those are moved.
        self.memory.answers.append((body.get("batch_id"), *ids))
        self.memory.acknowledged += ids
        return True

    def post(self, event: dict[str, Any]) -> None:
        """Post until it is accepted, as a client does that got no answer or was asked to wait."""
        for _ in range(MAX_POSTS):
            if self.promise(self.api.handler(copy.deepcopy(event), None)):
                return
        self.memory.complaints.append("a request was not accepted")

    def take(self) -> list[str]:
        """Take all messages off the queue, into the hands of the process."""
        messages, self.memory.queue = self.memory.queue, []
        self.memory.in_hand = [message.body for message in messages]
        return self.memory.in_hand

    def interfere(self) -> None:
        """Withdraw and suppress what is to be, now that something went wrong."""
        for id, recipient in self.owner.execute(
            "SELECT id, recipient FROM notifications ORDER BY id"
        ):
            match kind_of(recipient):
                case "cancelled" if id not in self.memory.withdrawn:
                    self._cancel(id)
                case "suppressed" if id not in self.memory.attempts_when_suppressed:
                    self._suppress(id, recipient)
                case _:
                    pass

    def _cancel(self, id: UUID) -> None:
        try:
            cancel_notification(
                self.clients, organization_id=FIRST_ORGANIZATION, notification_id=id
            )
        except TooLate:
            return
        self.memory.withdrawn.add(id)

    def _suppress(self, id: UUID, recipient: str) -> None:
        reply = self.api.call(
            "POST",
            "/v1/suppressions",
            body={"channel": CHANNEL, "recipient": recipient, "reason": "operator"},
        )
        assert reply.status in (200, 201), reply
        self.memory.attempts_when_suppressed[id] = self.attempts_of(id)

    def attempts_of(self, id: UUID) -> int:
        row = self.owner.execute(
            "SELECT count(*) FROM attempts WHERE notification_id = %s", [id]
        ).fetchone()
        assert row is not None
        return row[0]
