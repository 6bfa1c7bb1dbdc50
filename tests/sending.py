"""A sender at work in a test: queue records for it, time for it, and what is broken around it."""

import copy
import itertools
import json
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from functions.core.errors import Unavailable
from functions.core.message import LeaseMessage
from functions.core.states import Channel
from functions.providers.choice import DECLARATIONS
from functions.providers.provider import Provider
from functions.sender.deliver import Sender
from functions.sender.record import Record, read_records
from functions.store.claim import Leased
from functions.store.connection import Connect, Database
from tests.steps import channel_of

T = TypeVar("T")

EVENTS = Path(__file__).parents[1] / "events"
SECONDS = 30.0
_numbers = itertools.count(1)


def recorded(name: str) -> Any:
    """Return the recorded event ``name`` (without .json)."""
    return json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))


def body_of(leased: Leased) -> str:
    """Return what the claim puts on the queue for a lease."""
    return LeaseMessage(
        id=leased.id, lease_number=leased.lease_number, channel=Channel(leased.channel)
    ).dumps()


def queue_event(*bodies: str, received: int = 1) -> dict[str, Any]:
    """Return an SQS event, as recorded, with these bodies instead."""
    event = recorded("sender.batch")
    first = event["Records"][0]
    event["Records"] = []
    for body in bodies:
        record = copy.deepcopy(first)
        record.update(messageId=f"message-{next(_numbers)}", body=body)
        record["attributes"]["ApproximateReceiveCount"] = str(received)
        event["Records"].append(record)
    return event


def records_of(leases: Sequence[Leased], *, received: int = 1) -> list[Record]:
    """Return the queue records of ``leases``, received for the ``received``-th time."""
    return read_records(queue_event(*(body_of(one) for one in leases), received=received))


@contextmanager
def sender(
    database: Database,
    provider: Provider[Any],
    *,
    channel: str = "email",
    seconds: float = SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> Generator[Sender]:
    """Yield a sender whose invocation ends in ``seconds``."""
    with ThreadPoolExecutor(10) as threads:
        yield Sender(
            database=database,
            provider_of=lambda _name, _url: provider,
            channel=channel_of(database, channel),
            declarations=DECLARATIONS,
            threads=threads,
            ends_at=time.monotonic() + seconds,
            sleep=sleep,
        )


class Interrupted(Database):
    """A database that is out for some of its pieces of work, counted from 1.

    ``done`` has the work done all the same, and only its answer lost.
    """

    def __init__(self, connect: Connect, *, out: Sequence[int], done: bool = False) -> None:
        super().__init__(connect)
        self._out = out
        self._done = done
        self._count = 0

    def run(self, work: Callable[[psycopg.Connection], T], *, pipelined: bool = False) -> T:
        self._count += 1
        if self._count not in self._out:
            return super().run(work, pipelined=pipelined)
        if self._done:
            super().run(work, pipelined=pipelined)
        raise Unavailable(maybe_done=self._done)
