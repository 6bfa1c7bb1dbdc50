"""The probes: what a late worker can do to a job that is no longer its own, asked of any system.

Every probe is written once and runs on all of them. Its verdict is derived from what stands in the
database before and after, and from who is given the job.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tests.proof.rivals_worker import Ending, Job, Stuck, stuck

ROUNDS = 25


class Probe(StrEnum):
    """A row of the table. A is the late worker, B the one that was given the job after it."""

    LATE_SUCCESS = "A reports success while B runs"
    LATE_FAILURE = "A reports a final failure while B runs"
    LATE_RETRY = "A asks for another try while B runs"
    LATE_HEARTBEAT = "A renews the claim; B, who has it, is dead"
    CRASH_LOOP = "The job kills each worker that takes it"
    RESCUE_THEN_SUCCESS = "The rescue, and right behind it A's success"
    SUCCESS_THEN_RESCUE = "A's success, and right behind it the rescue"
    RESCUE_THEN_FAILURE = "The rescue, and right behind it A's final failure"
    FAILURE_THEN_RESCUE = "A's final failure, and right behind it the rescue"


class First(StrEnum):
    """Which of the two that want the same row has it first."""

    RESCUE = "rescue"
    COMPLETION = "completion"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the database says of the job."""

    status: str
    """The system's own word, with the worker that holds the job; ``gone`` without a row."""
    history: tuple[str, ...]
    """What the system keeps beside the row, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """What came of a rescue and a completion that met at the same row."""

    told: list[str]
    """What the loser was told, if anything."""
    taken_by: str | None = None
    """Who was given the job by the rescue itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a probe found in one system."""

    probe: Probe
    system: str
    verdict: str
    observed: str


class System(Protocol):
    """A queue with one job in it, in a database of its own."""

    name: str
    refusal: str
    """The verdict on a write that was refused, and how that is known."""
    keeps: str
    """Where ``State.history`` is read."""

    def work(self, name: str, job: Job) -> list[str]:
        """Run the system's worker ``name`` for at most one job; return what it was told."""
        ...

    def crash(self) -> bool:
        """Run a worker that dies in the job; return whether it was given one."""
        ...

    def lose(self) -> None:
        """Let the time pass after which the claim of whoever holds the job counts as lost."""
        ...

    def rescue(self) -> None:
        """Do what the system does about lost claims, and let its delays pass."""
        ...

    def renew(self, name: str) -> list[str]:
        """Renew the claim of ``name`` as its worker would; return what it was told."""
        ...

    def meet(self, first: First, ending: Ending) -> Met:
        """Give A the job and let its claim be lost; then A's completion and the rescue meet, in the
        order of their locks."""
        ...

    def state(self) -> State: ...


def late_report(system: System, probe: Probe, ending: Ending) -> Finding:
    """A is stuck and loses its claim, B takes the job. A reports, C looks for work, B succeeds."""
    with _working(system, "A", ending) as a:
        _lose(system)
        with _working(system, "B", Ending.SUCCESS) as b:
            before = system.state()
            told_a = a.report()
            after_a = system.state()
            with stuck(_worker(system, "C"), Ending.SUCCESS) as c:
                third = c.took()
                middle = system.state()
                told_b = b.report()
                after_b = system.state()
    accepted = after_a.status != before.status
    words = ["accepted" if accepted else _refused(system, told_a)]
    if third:
        words.append("C starts while B runs")
    if after_b.history == middle.history:
        words.append("B's result is " + (_refused(system, told_b) if told_b else "lost"))
    elif not third:
        words.append("B's result is kept too" if accepted else "B's result counts")
    observed = [
        before.status,
        f"A's report → {after_a.status}{_said(told_a)}",
        *([f"C → {middle.status}"] if third else []),
        f"B's success → {after_b.status}{_said(told_b)}",
    ]
    return _finding(system, probe, words, observed, after_b)


def late_heartbeat(system: System) -> Finding:
    """B has taken the job over from A and is dead as well. A renews; is the job rescued?"""
    with (
        _working(system, "A", Ending.SUCCESS),
        _after(lambda: _lose(system)),
        _working(system, "B", Ending.SUCCESS),
    ):
        system.lose()
        before = system.state()
        told = system.renew("A")
        system.rescue()
        renewed = system.state()
        with stuck(_worker(system, "C"), Ending.SUCCESS) as c:
            rescued = c.took()
            after = system.state()
    if rescued:
        words = [_refused(system, told), "C gets the job"]
    else:
        words = ["accepted", "nobody gets the job"]
    observed = [
        before.status,
        f"A's renewal and a rescue → {renewed.status}{_said(told)}",
        f"C → {after.status}" if rescued else "C gets nothing",
    ]
    return _finding(system, Probe.LATE_HEARTBEAT, words, observed, after)


def crash_loop(system: System) -> Finding:
    """Each worker is killed in the job, and each lost claim is rescued."""
    runs = 0
    while runs < ROUNDS and system.crash():
        runs += 1
        system.lose()
        system.rescue()
    after = system.state()
    word = f"unbounded ({runs} of {ROUNDS})" if runs == ROUNDS else f"stopped after {runs}"
    observed = [f"{runs} workers were killed", f"then {after.status}"]
    return _finding(system, Probe.CRASH_LOOP, [word], observed, None)


def race(system: System, probe: Probe, first: First, ending: Ending) -> Finding:
    """The rescue of A's claim and A's completion meet. Does somebody run the job once more?"""
    met = system.meet(first, ending)
    after = system.state()
    with stuck(_worker(system, "C"), Ending.SUCCESS) as c:
        runner = met.taken_by or ("C" if c.took() else None)
    words = ["runs again" if runner else "runs once"]
    observed = [f"both → {after.status}{_said(met.told)}"]
    if met.taken_by:
        observed.append(f"the rescue gave {met.taken_by} the job")
    else:
        observed.append("C is given the job" if runner else "C gets nothing")
    return _finding(system, probe, words, observed, after)


PROBES: dict[Probe, Callable[[System], Finding]] = {
    Probe.LATE_SUCCESS: lambda one: late_report(one, Probe.LATE_SUCCESS, Ending.SUCCESS),
    Probe.LATE_FAILURE: lambda one: late_report(one, Probe.LATE_FAILURE, Ending.FAILURE),
    Probe.LATE_RETRY: lambda one: late_report(one, Probe.LATE_RETRY, Ending.AGAIN),
    Probe.LATE_HEARTBEAT: late_heartbeat,
    Probe.CRASH_LOOP: crash_loop,
    Probe.RESCUE_THEN_SUCCESS: lambda one: race(
        one, Probe.RESCUE_THEN_SUCCESS, First.RESCUE, Ending.SUCCESS
    ),
    Probe.SUCCESS_THEN_RESCUE: lambda one: race(
        one, Probe.SUCCESS_THEN_RESCUE, First.COMPLETION, Ending.SUCCESS
    ),
    Probe.RESCUE_THEN_FAILURE: lambda one: race(
        one, Probe.RESCUE_THEN_FAILURE, First.RESCUE, Ending.FAILURE
    ),
    Probe.FAILURE_THEN_RESCUE: lambda one: race(
        one, Probe.FAILURE_THEN_RESCUE, First.COMPLETION, Ending.FAILURE
    ),
}


def _lose(system: System) -> None:
    system.lose()
    system.rescue()


@contextmanager
def _after(step: Callable[[], None]) -> Generator[None]:
    step()
    yield


def _worker(system: System, name: str) -> Callable[[Job], list[str]]:
    return lambda job: system.work(name, job)


@contextmanager
def _working(system: System, name: str, ending: Ending) -> Generator[Stuck]:
    """Yield the worker ``name``, which has been given the job and is stuck in it."""
    with stuck(_worker(system, name), ending) as worker:
        if not worker.took():
            raise AssertionError(f"{system.name} gave {name} nothing to do")
        yield worker


def _refused(system: System, told: Sequence[str]) -> str:
    return system.refusal if told else "without effect"


def _said(told: Sequence[str]) -> str:
    return f" ({'; '.join(told)})" if told else ""


def _finding(
    system: System,
    probe: Probe,
    words: Sequence[str],
    observed: Sequence[str],
    after: State | None,
) -> Finding:
    kept = [f"{system.keeps}: {', '.join(after.history)}"] if after else []
    return Finding(
        probe=probe,
        system=system.name,
        verdict="; ".join(words),
        observed="; ".join([*observed, *kept]),
    )
