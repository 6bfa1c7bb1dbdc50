"""One sweep: leases that ran out, rows that expired, and the gauges of what waits."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from functions.core.declaration import Declaration
from functions.core.metric import ChannelMetric
from functions.store.breaker import close_unused
from functions.store.channel import read_channels
from functions.store.connection import Database
from functions.store.erase import continue_erasures
from functions.store.gauge import (
    ChannelGauge,
    ReadyGauge,
    channel_gauges,
    ready_gauges,
    stopped_endpoints,
)
from functions.store.idempotency import FORGOTTEN_AT_ONCE, forget_expired_keys
from functions.store.request import forget_repeats, oldest_waiting_seconds
from functions.store.sms_forget import forget
from functions.store.sweep import SWEPT_AT_ONCE, Swept, expire, sweep

ERASING_SECONDS = 10.0
"""For what an erasure that ran out of its time has left."""

MAX_ROUNDS = 40
"""Statements of 500 rows per channel and run: what is left waits for the next minute."""


@dataclass(slots=True, kw_only=True)
class Report:
    """What a sweep did and found."""

    swept: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    expired: int = 0
    forgotten: int = 0
    """Idempotency keys past their 24 hours, requests that repeated others a week ago, and what the
    SMS guard needs no more."""
    ready: Sequence[ReadyGauge] = ()
    channels: Sequence[ChannelGauge] = ()
    stopped_endpoints: int = 0
    oldest_request_seconds: float | None = None
    """Of those that wait to be drained; None where none does."""


def run_sweep(database: Database, *, declarations: Sequence[Declaration]) -> Report:
    """Take back lost leases and end expired rows, in bounded statements; read the gauges."""
    report = Report()
    for name, channel in read_channels(database).items():
        counts = report.swept[name] = Counter[str]()
        for _ in range(MAX_ROUNDS):
            swept = sweep(database, channel=channel, declarations=declarations)
            counts.update(_by_metric(swept))
            if swept.total < SWEPT_AT_ONCE:
                break
    for _ in range(MAX_ROUNDS):
        expired = expire(database)
        report.expired += expired
        if expired < SWEPT_AT_ONCE:
            break
    for forget_some in (forget_expired_keys, forget_repeats):
        for _ in range(MAX_ROUNDS):
            forgotten = forget_some(database)
            report.forgotten += forgotten
            if forgotten < FORGOTTEN_AT_ONCE:
                break
    report.forgotten += forget(database)
    continue_erasures(database, ends_at=time.monotonic() + ERASING_SECONDS)
    close_unused(database)
    report.ready = ready_gauges(database)
    report.channels = channel_gauges(database)
    report.stopped_endpoints = stopped_endpoints(database)
    report.oldest_request_seconds = oldest_waiting_seconds(database)
    return report


def _by_metric(swept: Swept) -> dict[str, int]:
    return {
        ChannelMetric.LEASE_RELEASED: swept.released,
        ChannelMetric.LEASE_IN_DOUBT: swept.in_doubt,
        ChannelMetric.LEASE_DEAD: swept.dead,
        ChannelMetric.LEASE_SETTLED: swept.settled,
    }
