"""Crashes of a running stack, each with what was under way when it came.

Their ends take a lease and a sweep, so the crashes come early (they are session fixtures) and their
ends are looked at late (test_nothing_is_lost.py): the other tests use the time in between.
"""

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import urllib3

from infra.local.state import Local
from tests.journey import processes
from tests.journey.deployment import (
    NOTIFICATIONS,
    Reply,
    Service,
    email,
    fresh,
    push,
    sms,
    wait_for,
    webhook,
)

EACH = 25
"""Notifications of each channel that are under way."""


def mixed(service: Service, count: int = EACH) -> list[dict[str, Any]]:
    """Return ``count`` notifications of each channel for recipients that work."""
    items: list[dict[str, Any]] = []
    for number in range(count):
        items += [email(), push(), webhook(service), sms(f"+155530020{number:02}")]
    return items


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorCrash:
    """``leased`` was on its way, ``pending`` not yet due; ``workers`` ran its functions."""

    leased: dict[str, Any]
    pending: dict[str, Any]
    workers: set[int]


def crash_the_emulator(service: Service) -> EmulatorCrash:
    """Kill the emulator; return when the stack has started and deployed it again."""
    local, client = service.local, service.first
    client.when_completed(client.send(mixed(service, 5))["batch_id"])  # every function has run
    soon = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
    pending = client.send([{**item, "send_at": soon} for item in mixed(service, 5)])
    leased = client.send([webhook(service, "hang") for _ in range(5)])
    wait_for(lambda: _leased(service, leased["batch_id"]), what="a lease")
    (victim,), workers = processes.emulators(local), processes.workers(local)
    processes.kill(victim)
    wait_for(lambda: processes.emulators(local) - {victim}, what="a new emulator")
    wait_for(lambda: _answers(service), what="the service in it")
    return EmulatorCrash(leased=leased, pending=pending, workers=workers)


def _leased(service: Service, batch_id: str) -> bool:
    return service.first.counts(batch_id).get("leased", 0) > 0


def _answers(service: Service) -> bool:
    try:
        return service.client(None).call("GET", "/v1/health").status == 200
    except urllib3.exceptions.HTTPError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderCrash:
    """``attempts`` as they were after the crash."""

    notification_id: str
    recipient: str
    attempts: list[dict[str, Any]]


def crash_a_sender(service: Service) -> SenderCrash:
    """Kill a sender after the provider's acceptance and before it could commit it.

    The recipient hangs: it accepts and never answers, so the sender waits for seconds.
    """
    item = push("hang")
    sent = service.first.send_one(item)
    wait_for(lambda: service.effects(item["recipient"]), what="the provider's acceptance")
    senders = processes.workers(service.local, "sender-push-")
    assert senders
    for pid in senders:
        processes.kill(pid)
    wait_for(lambda: not senders & processes.workers(service.local), what="the end of the sender")
    return SenderCrash(
        notification_id=sent["id"],
        recipient=item["recipient"],
        attempts=service.first.notification(sent["id"])["attempts"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseCrash:
    """What was acknowledged before, and what was answered while there was no database."""

    before: dict[str, Any]
    item: dict[str, Any]
    key: str
    refused: list[Reply]
    accepted: Reply
    """The answer to the same request under the same key, when the database was back."""


def crash_the_database(service: Service) -> DatabaseCrash:
    """Kill PostgreSQL while it works; return when a POST is accepted again."""
    local, item, key = service.local, email(), fresh()
    before = service.first.send(mixed(service))
    wait_for(lambda: _leased(service, before["batch_id"]), what="a lease")
    with _nobody_repairs(local):
        processes.kill(processes.postgres(local))
        refused = [
            service.first.post(NOTIFICATIONS, item, key=key),
            service.second.call("GET", NOTIFICATIONS),
            service.client(local.admin_api_key).call("GET", "/v1/suppressions"),
            service.client(None).call("GET", "/v1/health"),
        ]

    def accepted() -> Reply | None:
        reply = service.first.post(NOTIFICATIONS, item, key=key)
        if reply.status != 202:
            refused.append(reply)
            return None
        return reply

    reply = wait_for(accepted, what="a POST that is accepted")
    return DatabaseCrash(before=before, item=item, key=key, refused=refused, accepted=reply)


@contextmanager
def _nobody_repairs(local: Local) -> Generator[None]:
    """Hold the stack's supervisor still: it repairs quicker than anybody could look."""
    supervisor = processes.supervisor(local)
    os.kill(supervisor, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(supervisor, signal.SIGCONT)
