"""The rest of the service: the product's own use cases, on connections that nothing happens to."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from functions.claim.claim import Claimer
from functions.providers.choice import DECLARATIONS
from functions.reconcile.reconcile import Reconciler
from functions.runtime.queue import Queues
from functions.sender.deliver import Sender
from functions.sender.record import Record
from functions.store.sweep import expire
from functions.store.sweep import sweep as take_back
from tests.fakes import FakeSqs
from tests.proof.crash_boundary import Asked
from tests.proof.crash_outside import LedgeredProvider
from tests.proof.crash_process import CHANNEL, INVOCATION_SECONDS
from tests.proof.crash_world import Message, World

AT_ONCE = 10
"""Messages a queue hands over in one set."""

MAX_RECEIVES = 5
"""Then a message goes to the dead-letter queue, where it is evidence and no work."""


def claim(world: World) -> None:
    """Run a round of the claim."""
    sqs = FakeSqs()
    queues = Queues(cast(Any, sqs), {CHANNEL: CHANNEL})
    Claimer(database=world.database, queues=queues, leased_by="rest").round()
    world.enqueue([message.dumps() for message in sqs.messages.get(CHANNEL, [])])


def send(world: World) -> None:
    """Deliver what is on the queue, set by set; what is handed back stays on it."""
    for _ in range(MAX_RECEIVES):
        messages, world.memory.queue = world.memory.queue, []
        for first in range(0, len(messages), AT_ONCE):
            _deliver(world, messages[first : first + AT_ONCE])
        if not world.memory.queue:
            return


def _deliver(world: World, messages: Sequence[Message]) -> None:
    for message in messages:
        message.received += 1
    records = [
        Record(message_id=str(number), body=message.body, received=message.received)
        for number, message in enumerate(messages)
    ]
    with ThreadPoolExecutor(1) as threads:
        report = _sender(world, threads).deliver(records)
    world.memory.complaints += [f"a sender failed: {error!r}" for error in report.errors]
    world.memory.queue += [
        message
        for number, message in enumerate(messages)
        if str(number) in report.failed and message.received < MAX_RECEIVES
    ]


def _sender(world: World, threads: ThreadPoolExecutor) -> Sender:
    def call(asked: Asked) -> Any:
        answer = world.answer(asked)
        meanwhile, world.before_next_answer = world.before_next_answer, None
        if meanwhile is not None:
            meanwhile()
        return answer

    return Sender(
        database=world.database,
        provider_of=lambda _name, _url: LedgeredProvider(declaration=world.declaration, call=call),
        channel=world.channel,
        declarations=DECLARATIONS,
        threads=threads,
        ends_at=time.monotonic() + INVOCATION_SECONDS,
    )


def sweep(world: World) -> None:
    """Take back what ran out: what the sweeper does that moves a row of the scene."""
    take_back(world.database, channel=world.channel, declarations=DECLARATIONS)
    expire(world.database)


def reconcile(world: World) -> None:
    """Run a reconciliation; the provider answers at once."""
    with ThreadPoolExecutor(1) as threads:
        Reconciler(
            database=world.database,
            declarations=DECLARATIONS,
            ask=lambda inquiry: world.ledger.look_up(inquiry.idempotency_key),
            threads=threads,
            ends_at=time.monotonic() + INVOCATION_SECONDS,
            sleep=lambda seconds: None,
        ).run()
