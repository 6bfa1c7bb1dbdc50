"""The loop: rounds until its time is up or a newer run has taken over."""

import dataclasses
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from functions.claim.claim import RUN, Claimer
from functions.core.errors import Unavailable
from functions.core.metric import ServiceMetric
from functions.store.survey import start_run

OUTAGE_PAUSE_SECONDS = 1.0

REPORT_SECONDS = 20.0
"""Between heartbeats: well inside the minute that the alarm looks at."""


@dataclass(slots=True, kw_only=True)
class Summary:
    """What a run did: counts per channel, and why it ended."""

    ended: str = "time"
    rounds: int = 0
    undispatched: int = 0
    outages: int = 0
    claimed: Counter[str] = field(default_factory=Counter[str])
    put_off: Counter[str] = field(default_factory=Counter[str])
    fallbacks: int = 0
    fallback_doubles: int = 0

    def told(self) -> dict[str, Any]:
        """Return it as a plain dict: asdict would make a Counter anew by counting its pairs."""
        counters = {"claimed": dict(self.claimed), "put_off": dict(+self.put_off)}
        return dataclasses.asdict(self) | counters


def run_loop(
    claimer: Claimer,
    *,
    seconds: float,
    idle_seconds: float,
    report: Callable[[Counter[str]], None],
    report_fallback: Callable[[Counter[ServiceMetric]], None] = lambda counts: None,
    watch: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Summary:
    """Run rounds for ``seconds``; ``report`` gets the counts per channel a few times a minute,
    ``report_fallback`` those of chains, and ``watch`` looks once a round for what is to be taken in
    first.

    A newer run raises the generation and this one ends after its round, so that schedules may
    overlap without a hole and without two busy loops. An unreachable database is waited for: its
    return is when claiming matters most.
    """
    summary = Summary()
    ends_at, report_at = clock() + seconds, clock()
    generation: int | None = None
    unreported, fallback = Counter[str](), Counter[ServiceMetric]()
    while clock() < ends_at:
        try:
            if generation is None:
                generation = start_run(claimer.database, name=RUN)
            watch()
            done = claimer.round()
        except Unavailable:
            summary.outages += 1
            sleep(OUTAGE_PAUSE_SECONDS)
            continue
        summary.rounds += 1
        summary.undispatched += done.undispatched
        summary.claimed.update(done.claimed)
        summary.put_off.update(done.put_off)
        summary.fallbacks += done.advanced.started
        summary.fallback_doubles += done.advanced.doubles
        unreported.update(done.claimed)
        fallback[ServiceMetric.FALLBACK_STARTED] += done.advanced.started
        fallback[ServiceMetric.FALLBACK_DOUBLE] += done.advanced.doubles
        if clock() >= report_at:
            report(unreported)
            report_fallback(fallback)
            unreported, fallback = Counter[str](), Counter[ServiceMetric]()
            report_at = clock() + REPORT_SECONDS
        if done.generation > generation:
            summary.ended = "newer_run"
            break
        if done.was_idle:
            sleep(idle_seconds)
    if unreported:
        report(unreported)
    report_fallback(fallback)
    return summary
