"""The process that dies: each function of the service, at work on one event.

Started anew for every case by a server of forks that has everything imported, as an environment of
the platform has when it is invoked. What it says to the outside goes over one pipe.
"""

import dataclasses
import gc
import io
import logging
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, cast

from aws_lambda_powertools import Logger

from functions.callbacks.receive import Receiver
from functions.claim.claim import Claimer
from functions.core.declaration import Declaration
from functions.core.errors import Unavailable
from functions.core.login import Login
from functions.ingest.api import build
from functions.providers.choice import DECLARATIONS
from functions.reconcile.reconcile import Answer, Reconciler
from functions.runtime.queue import Queues
from functions.sender.deliver import Sender, deliver
from functions.sender.record import read_records
from functions.store.channel import read_channels
from functions.store.check import Inquiry
from functions.store.connection import Database, connector
from functions.sweeper.sweeper import run_sweep
from tests.api import HASH_KEY, LOCAL_ORIGIN
from tests.proof.crash_boundary import Ended, Gate, Strike
from tests.proof.crash_outside import GatedProvider, GatedSqs, LedgeredProvider
from tests.proof.crash_wire import Wire
from tests.simulated import CALLBACK_SECRET

VICTIM = "victim"
"""The application name of its connections."""

CHANNEL = "email"
INVOCATION_SECONDS = 30.0

LONGER = 20
"""A pause of the function counts so many times, lest it repeats a hundred times what fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the process is to do; ``strike`` is what happens to it, None in a dry pass."""

    function: str
    event: Any
    login: Login
    declaration: Declaration
    strike: Strike | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a function's main module would have made of the platform."""

    gate: Gate
    database: Database
    provider: GatedProvider
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    """One, so that the boundaries come in the same order every time."""
    errors: list[str] = field(default_factory=list[str])
    """What a function reports instead of failing."""


def ingest(event: Any, around: Surroundings) -> Any:
    logger = Logger(service="proof", logger_handler=logging.StreamHandler(io.StringIO()))
    handler = build(
        around.database,
        hash_key=lambda: HASH_KEY,
        local_webhook_origin=LOCAL_ORIGIN,
        logger=logger,
    )
    return handler(event, None)


def claim(event: Any, around: Surroundings) -> Any:
    queues = Queues(cast(Any, GatedSqs(gate=around.gate)), {CHANNEL: CHANNEL})
    return Claimer(database=around.database, queues=queues, leased_by=VICTIM).round().claimed


def send(event: Any, around: Surroundings) -> Any:
    ends_at = time.monotonic() + INVOCATION_SECONDS

    def make() -> Sender:
        channel = read_channels(around.database)[CHANNEL]
        return Sender(
            database=around.database,
            provider_of=lambda _name, _url: around.provider,
            channel=channel,
            declarations=DECLARATIONS,
            threads=around.threads,
            ends_at=ends_at,
            sleep=lambda seconds: around.gate.clock.skip(LONGER * seconds),
        )

    report = deliver(read_records(event), sender=make)
    around.errors.extend(repr(error) for error in report.errors)
    return report.failed


def callback(event: Any, around: Surroundings) -> Any:
    receiver = Receiver(
        database=around.database, secrets=lambda: (CALLBACK_SECRET,), hash_key=lambda: HASH_KEY
    )
    answer, _ = receiver.receive(event)
    return answer


def reconcile(event: Any, around: Surroundings) -> Any:
    def ask(inquiry: Inquiry) -> Answer:
        return around.provider.look_up(
            channel=inquiry.channel, idempotency_key=inquiry.idempotency_key, deadline=0.0
        )

    report = Reconciler(
        database=around.database,
        declarations=DECLARATIONS,
        ask=ask,
        threads=around.threads,
        ends_at=time.monotonic() + INVOCATION_SECONDS,
        clock=time.monotonic,
        sleep=around.gate.clock.skip,
    ).run()
    return dataclasses.asdict(report)


def sweep(event: Any, around: Surroundings) -> Any:
    run_sweep(around.database, declarations=DECLARATIONS)


FUNCTIONS: Mapping[str, Callable[[Any, Surroundings], Any]] = {
    "ingest": ingest,
    "claim": claim,
    "send": send,
    "callback": callback,
    "reconcile": reconcile,
    "sweep": sweep,
}


def run(line: Any, job: Job) -> None:
    """Do the job; end as a process does whose work is done."""
    logging.disable(logging.WARNING)  # psycopg tells of every connection that is lost here
    gc.disable()  # it would copy all that it shares with the server of forks
    gate = Gate(line, job.strike)
    time.monotonic = gate.clock.monotonic
    wire = Wire(gate, job.login.port).start()
    login = dataclasses.replace(job.login, port=wire.port)
    ledgered = LedgeredProvider(declaration=job.declaration, call=gate.ask)
    around = Surroundings(
        gate=gate,
        database=Database(connector(lambda: login, application_name=VICTIM)),
        provider=GatedProvider(ledgered=ledgered, gate=gate),
    )
    try:
        ended = Ended(answer=FUNCTIONS[job.function](job.event, around), errors=(*around.errors,))
    except Unavailable:
        ended = Ended()  # the platform runs it again in a minute
    except Exception as error:
        ended = Ended(errors=(repr(error),))
    gate.tell(ended)
    os._exit(0)
