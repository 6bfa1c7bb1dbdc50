"""Boundaries: where a function of ours touches the world, and what may happen to it there.

A boundary is one call over the edge of the process: opening a connection, a statement or COMMIT as
it is sent on the wire, one SendMessageBatch, one call of a provider. The gate counts them. In a dry
pass it only counts; in a case it lets one fault happen at one phase of one boundary, once.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Phase(StrEnum):
    """Of a call: what has happened of it when the fault comes."""

    BEFORE = "before"
    """Nothing left the process."""
    WRITTEN = "written"
    """Only of a provider: it has the request and did what it does, and no answer came yet."""
    AFTER = "after"
    """It took effect, and its answer arrived, which the function never gets to see."""


class Fault(StrEnum):
    ERROR = "error"
    """The call fails: connection lost, or no answer. The next call of the kind works."""
    TIMEOUT = "timeout"
    """The server cancels the statement, as when it waited too long; the connection stays."""
    OUTAGE = "outage"
    """As error, and no other connection to the database comes about while the function runs."""
    REFUSED = "refused"
    """The queue refuses every second entry of the call."""
    KILL = "kill"
    """The process dies (SIGKILL): no handler and no ``finally`` of ours runs any more."""
    STALL = "stall"
    """The process stands still past its lease, while sweep and another worker begin to repair; then
    it goes on."""
    OVERLAP = "overlap"
    """The same, but it goes on while another worker's call of the provider is under way."""
    FREEZE = "freeze"
    """The process stands still until everything else is over; then it goes on."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Point:
    """A phase of the ``number``-th boundary (from 1) that a function passes."""

    number: int
    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """The fault that shall happen, and where."""

    point: Point
    fault: Fault


# What the process says to the outside. Only the first two of these wait for an answer.


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The queue or the provider is called: ``what`` names the call, the answer is its answer."""

    what: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """The process stands still until it is answered: by how many seconds time moved on."""

    fault: Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What a dry pass finds."""

    point: Point
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """The fault is about to happen."""

    point: Point
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The function came to its end by itself; ``errors`` are those that nobody expects of it."""

    answer: Any = None
    errors: tuple[str, ...] = ()


@dataclass(slots=True)
class Clock:
    """What the process does not notice of time: the seconds it stood still."""

    skipped_seconds: float = 0.0
    real: Callable[[], float] = time.monotonic

    def skip(self, seconds: float) -> None:
        self.skipped_seconds += seconds

    def monotonic(self) -> float:
        """Tell the time as the process would find it, had it really stood still."""
        return self.real() + self.skipped_seconds


@dataclass(slots=True)
class Gate:
    """Stands at every boundary of one process; ``line`` leads to the outside."""

    line: Any
    strike: Strike | None
    clock: Clock = field(default_factory=Clock)
    is_down: bool = False
    """The database's: an outage has begun."""
    _count: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def arrive(self) -> int:
        """Count a boundary; return its number."""
        with self._lock:
            self._count += 1
            return self._count

    def is_awaited(self, number: int, phase: Phase) -> bool:
        """Whether the fault comes at this point."""
        return self.strike is not None and self.strike.point == Point(number=number, phase=phase)

    def meet(self, number: int, phase: Phase, label: str) -> Fault | None:
        """Pass a point; return the fault that the caller shall make of its call, None if none."""
        point = Point(number=number, phase=phase)
        if self.strike is None:
            self.tell(Passed(point=point, label=label))
            return None
        if self.strike.point != point:
            return None
        self.tell(Struck(point=point, label=label))
        match self.strike.fault:
            case Fault.KILL:
                os.kill(os.getpid(), signal.SIGKILL)
                raise AssertionError("nobody lives here any more")
            case Fault.STALL | Fault.OVERLAP | Fault.FREEZE as fault:
                self.clock.skip(self.ask(Stalled(fault=fault)))
                return None
            case Fault.OUTAGE:
                self.is_down = True
                return Fault.OUTAGE
            case fault:
                return fault

    def tell(self, message: Passed | Struck | Ended) -> None:
        with self._lock:
            self.line.send(message)

    def ask(self, question: Asked | Stalled) -> Any:
        """Return the answer of the outside, which answers one at a time."""
        with self._lock:
            self.line.send(question)
            return self.line.recv()
