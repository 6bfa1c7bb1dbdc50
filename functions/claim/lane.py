"""Lanes, which are the streams of channels: those that breakers close, and those that may find out.

A closed lane is passed over without a look at its rows. When the time has come, one row of it goes
out to find out whether it is to stay closed. What is about less than a lane (a country, an
endpoint, a fallback provider) is decided row by row, behind the lease.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from functions.core.outcome import Scope
from functions.core.states import Stream
from functions.store.survey import Survey

Lane = tuple[str, str]
"""A channel and a stream of it."""

Limits = Mapping[Lane, int]
"""How many rows of a lane a round may lease: 0, or 1 to find out. All others as many as it can."""

PROBE_PAUSE_SECONDS = 1.0
"""Between rows that find out: the first one's sender has to be heard of before there is need of
another, and rounds are faster than that."""


def no_limits(channels: Sequence[Survey]) -> Limits:
    """Return that every lane is open."""
    del channels
    return {}


class Breaker(Protocol):
    """A breaker that is open; ``is_due`` when somebody is to find out."""

    @property
    def channel(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def scope(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def is_due(self) -> bool: ...


def limits_of(channels: Sequence[Survey], breakers: Sequence[Breaker]) -> dict[Lane, int]:
    """Return what ``breakers`` leave of the lanes.

    A channel with a fallback provider goes on while one of the two works; which of them a row is
    for is decided when it is sent.
    """
    limits: dict[Lane, int] = {}
    for channel in channels:
        mine = [breaker for breaker in breakers if breaker.channel == channel.channel]
        for stream in Stream if mine else ():
            closing = [
                [one for one in mine if one.provider == provider and _closes(one, stream)]
                for provider in {channel.provider, channel.fallback_provider} - {None}
            ]
            if all(closing):
                limits[channel.channel, stream] = int(
                    any(all(one.is_due for one in provider) for provider in closing)
                )
    return limits


def _closes(breaker: Breaker, stream: str) -> bool:
    """Whether the breaker closes its provider to the stream."""
    return breaker.scope == Scope.PROVIDER or (
        breaker.scope == Scope.SENDER_IDENTITY and breaker.key == stream
    )


@dataclass(slots=True, kw_only=True)
class Lanes:
    """The lanes as a run of the loop sees them; ``clock`` measures durations."""

    breakers: Callable[[], Sequence[Breaker]]
    """Returns those that are open."""
    clock: Callable[[], float] = time.monotonic
    _probed_at: dict[Lane, float] = field(default_factory=dict[Lane, float])

    def limits(self, channels: Sequence[Survey]) -> Limits:
        """Return the limits of this round."""
        limits = limits_of(channels, self.breakers())
        return {lane: limit and self._may_probe(lane) for lane, limit in limits.items()}

    def _may_probe(self, lane: Lane) -> int:
        now = self.clock()
        if now < self._probed_at.get(lane, now - PROBE_PAUSE_SECONDS) + PROBE_PAUSE_SECONDS:
            return 0
        self._probed_at[lane] = now
        return 1
