"""One organization's thousand does not stand before another's one."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from tests.journey.deployment import Service, webhook

PAGE = 100
IN_FLIGHT = 200

# One page of tokens, and next to none after it: a sender that starts slowly with the one must not
# be overtaken by pages that are claimed meanwhile.
PAUSE = """
    UPDATE channels
       SET paused_at = clock_timestamp(), tokens = 100, refilled_at = clock_timestamp(),
           burst = 100, rate = 1
     WHERE name = %s
    RETURNING OLD.rate, OLD.burst
"""
RESUME = "UPDATE channels SET paused_at = NULL WHERE name = %s"
RESTORE = "UPDATE channels SET rate = %s, burst = %s, tokens = burst WHERE name = %s"

# The first attempts of one batch that began before the first attempt of one notification.
BEFORE = """
    SELECT count(*)
      FROM notifications n
      JOIN attempts a ON a.notification_id = n.id AND a.started_at < (
               SELECT min(started_at) FROM attempts WHERE notification_id = %s)
     WHERE n.batch_id = %s
"""


@pytest.mark.usefixtures("demo")  # whose wait is used
def test_one_of_another_organization_leaves_with_the_next_page(service: Service) -> None:
    # Senders start slowly: what is looked at is the order, not their start.
    start = service.first.send([webhook(service) for _ in range(2 * PAGE)])
    service.first.when_completed(start["batch_id"])
    with slow(service, "webhook") as resume:
        many = service.first.send([webhook(service) for _ in range(1000)])
        one = service.second.send_one(webhook(service))
        resume()
        ended = service.second.when_ended(one["id"])
        stopped = service.first.call("POST", f"/v1/batches/{many['batch_id']}/cancel")
    assert ended["status"] == "delivered"
    (before,) = service.query(BEFORE, one["id"], many["batch_id"])[0]
    assert before <= PAGE + IN_FLIGHT  # what is in flight may be begun in any order
    assert stopped.status == 200, stopped
    assert stopped.json["cancelled"] > 0  # the others were still waiting
    batch = service.first.when_completed(many["batch_id"])
    assert batch["counts"] == {
        "cancelled": stopped.json["cancelled"],
        "delivered": stopped.json["too_late"],
    }


@contextmanager
def slow(service: Service, channel: str) -> Generator[Callable[[], None]]:
    """Let what is due gather until it is resumed, so that all of it is due at one moment; then let
    it leave slowly."""
    ((rate, burst),) = service.query(PAUSE, channel)

    def resume() -> None:
        service.query(RESUME, channel)

    try:
        yield resume
    finally:
        resume()
        service.query(RESTORE, rate, burst, channel)
