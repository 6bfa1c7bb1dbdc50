"""Scenes of the way out: ingest, claim and send."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.proof.crash_rest import claim, send
from tests.proof.crash_scene import HOLD, KEYLESS, RETRY, Scene, accept, item, leased
from tests.proof.crash_world import HOUR, World
from tests.sending import queue_event

# Ingest: a client posts; again, it posts the same with the same key until it is accepted.

BATCH = [
    item("prompt", event_id="order-1"),
    item("early"),
    item("transient", priority="high"),
    item("reject"),
    item("cancelled"),
    item("prompt", event_id="order-1"),
]


def post_batch(world: World) -> dict[str, Any]:
    body = {"notifications": BATCH}
    headers = {"idempotency-key": "order-1"}
    return world.api.event("POST", "/v1/notifications/batches", body=body, headers=headers)


def post_single(world: World) -> dict[str, Any]:
    headers = {"idempotency-key": "order-1"}
    return world.api.event("POST", "/v1/notifications", body=BATCH[0], headers=headers)


INGEST = [
    Scene(
        name="ingest batch",
        function="ingest",
        event=post_batch,
        again=lambda world: world.post(post_batch(world)),
    ),
    Scene(
        name="ingest single",
        function="ingest",
        event=post_single,
        again=lambda world: world.post(post_single(world)),
    ),
]


# Claim: some rows are ready, some only become due; again, the next run starts at once, and the
# queue delivers twice what the first one put on it.


def become_due(world: World) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=HOUR / 2)).isoformat()
    accept(world, "prompt", "late", send_at=soon)
    accept(world, "prompt", "early", priority="high")
    accept(world, "prompt", "early", "late", "transient", "reject", "cancelled", "suppressed")
    world.pass_time(HOUR)


def claim_again(world: World) -> None:
    world.enqueue([message.body for message in world.memory.queue], received=1)
    claim(world)


CLAIM = [Scene(name="claim", function="claim", prepare=become_due, again=claim_again)]


# Send: a set of messages; again, the queue delivers the same messages for the second time.


def hand_over(world: World) -> dict[str, Any]:
    return queue_event(*world.take())


def hand_over_again(world: World) -> dict[str, Any]:
    return queue_event(*world.take(), received=2)


def redeliver(world: World) -> None:
    world.enqueue(world.memory.in_hand, received=1)


def in_doubt(world: World) -> None:
    """The first attempt of each got no answer; of one it took effect."""
    leased(world, "lost", "vanished")
    send(world)
    world.pass_time(HOUR)
    claim(world)


SEND = [
    Scene(
        name="send keyed",
        function="send",
        prepare=lambda world: _lease(
            world, "prompt early late transient throttled reject cancelled suppressed"
        ),
        event=hand_over,
        again=redeliver,
    ),
    Scene(
        name="send keyless retry",
        function="send",
        declaration=KEYLESS,
        policy=RETRY,
        prepare=lambda world: _lease(world, "transient by_reference late silent cancelled"),
        event=hand_over,
        again=redeliver,
    ),
    Scene(
        name="send keyless hold",
        function="send",
        declaration=KEYLESS,
        policy=HOLD,
        prepare=lambda world: _lease(world, "transient early late refuse suppressed"),
        event=hand_over,
        again=redeliver,
    ),
    Scene(
        name="send redelivered",
        function="send",
        prepare=lambda world: _lease(world, "prompt"),
        event=hand_over_again,
        again=redeliver,
    ),
    Scene(
        name="send in doubt", function="send", prepare=in_doubt, event=hand_over, again=redeliver
    ),
]


def _lease(world: World, kinds: str) -> None:
    leased(world, *kinds.split())
