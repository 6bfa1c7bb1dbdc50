"""A provider that hangs holds up its own channel and no other."""

import statistics
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.journey.deployment import Service, email, push, sms, wait_for, webhook

HELD_UP, OTHERS = "sms", ("email", "push", "webhook")
EACH = 30
"""Notifications of each of the other channels in one measurement."""
POSTS = 15
HANGING = 200
"""The channel's in-flight budget: no more of them is leased."""

MAX_HAND_OVER_RATIO = 2.0
MAX_POST_RATIO = 3.0
TRIES = 4
"""Measurements on a busy machine scatter; a channel that waits for another is slow every time."""

# From accept to the first attempt.
HAND_OVER = """
    SELECT n.channel, extract(epoch FROM min(a.started_at) - n.created_at)::float8
      FROM notifications n
      JOIN attempts a ON a.notification_id = n.id
     WHERE n.batch_id = ANY (%s::uuid[])
     GROUP BY n.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Seconds: the 95th percentile from accept to first attempt by channel; the median POST."""

    hand_over: dict[str, float]
    post: float


def measure(service: Service) -> Measured:
    """Send to the other channels and look how long it takes."""
    batches: list[str] = []
    seconds: list[float] = []
    items = [item for _ in range(EACH) for item in (email(), push(), webhook(service))]
    for start in range(0, len(items), len(items) // POSTS):
        part = items[start : start + len(items) // POSTS]
        reply = service.first.post("/v1/notifications/batches", {"notifications": part})
        assert reply.status == 202, reply
        seconds.append(reply.seconds)
        batches.append(reply.json["batch_id"])
    for batch in batches:
        assert service.first.when_completed(batch)["counts"] == {"delivered": len(items) // POSTS}
    rows = service.query(HAND_OVER, batches)
    return Measured(
        hand_over={
            channel: percentile_95([row[1] for row in rows if row[0] == channel])
            for channel in OTHERS
        },
        post=statistics.median(seconds),
    )


def percentile_95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[-1]


def test_a_gateway_that_hangs_for_sms_slows_neither_the_other_channels_nor_post(
    service: Service,
) -> None:
    wake(service)
    pairs: list[tuple[Measured, Measured]] = []
    for _ in range(TRIES):
        quiet = measure(service)
        with hanging(service):
            pairs.append((quiet, measure(service)))
        if is_undisturbed(*pairs[-1]):
            return
    raise AssertionError(f"quiet and hanging, seconds: {pairs}")


def is_undisturbed(quiet: Measured, hanging: Measured) -> bool:
    return hanging.post <= MAX_POST_RATIO * quiet.post and all(
        hanging.hand_over[channel] <= MAX_HAND_OVER_RATIO * quiet.hand_over[channel]
        for channel in OTHERS
    )


def wake(service: Service) -> None:
    """Let as many senders start as the measurement needs: what is measured is not their start."""
    service.break_provider(latency_seconds=1, channels=[HELD_UP])
    try:
        texts = service.first.send([sms(number(n)) for n in range(HANGING)])
        measure(service)
        service.first.when_completed(texts["batch_id"])
    finally:
        service.mend_provider()


@contextmanager
def hanging(service: Service) -> Generator[None]:
    """Let the gateway hang for one channel whose in-flight budget is full."""
    service.break_provider(outage="hang", channels=[HELD_UP])
    try:
        texts = service.first.send([sms(number(n)) for n in range(HANGING)])
        wait_for(
            lambda: service.first.counts(texts["batch_id"]).get("leased", 0) >= HANGING // 2,
            what="a channel that is held up",
        )
        yield
        assert service.first.counts(texts["batch_id"]).get("delivered", 0) == 0
    finally:
        service.mend_provider()
    batch = service.first.when_completed(texts["batch_id"])
    assert batch["counts"] == {"delivered": HANGING}


def number(n: int) -> str:
    return f"+15553000{n:03}"
