"""One case: a scene, the fault that comes in it, and how often things are delivered."""

import multiprocessing
import signal
from dataclasses import dataclass, field
from typing import Any

from tests.proof.crash_accounts import Account, account
from tests.proof.crash_boundary import (
    Asked,
    Ended,
    Fault,
    Passed,
    Point,
    Stalled,
    Strike,
    Struck,
)
from tests.proof.crash_drain import drain, repair, step
from tests.proof.crash_plan import Case
from tests.proof.crash_process import Job, run
from tests.proof.crash_scene import Scene, nothing
from tests.proof.crash_sessions import await_their_end
from tests.proof.crash_world import World

FORKS = multiprocessing.get_context("forkserver")
# What a process imports, at once or when it needs it, and what the program imports that starts it:
# every process of this kind runs that program's head.
FORKS.set_forkserver_preload(
    [
        "tests.proof.crash_process",
        "email_validator",
        "tests.conftest",
        "tests.proof.crash_report",
        "tests.proof.crash_scenes",
        "typer",
    ]
)

END_SECONDS = 30.0
WAIT_SECONDS = 120.0
"""Longer than a first backoff, shorter than a lease."""

STANDING_STILL = frozenset({Fault.STALL, Fault.OVERLAP, Fault.FREEZE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    case: Case
    account: Account
    is_reached: bool
    """The fault came, and where it was to come."""


@dataclass(slots=True)
class _Process:
    """The process that dies, and what it passed on its way."""

    world: World
    scene: Scene
    strike: Strike | None
    passed: dict[Point, str] = field(default_factory=dict[Point, str])
    struck: Struck | None = None
    ended: Ended | None = None
    exit_code: int | None = None
    _line: Any = None

    def live(self) -> None:
        """Start it, and be the world to it until it is gone."""
        job = Job(
            function=self.scene.function,
            event=self.scene.event(self.world),
            login=self.world.login,
            declaration=self.world.declaration,
            strike=self.strike,
        )
        self._line, theirs = FORKS.Pipe()
        process = FORKS.Process(target=run, args=(theirs, job), daemon=True)
        process.start()
        theirs.close()
        try:
            self._attend()
        finally:
            process.join(END_SECONDS)
            self.exit_code = process.exitcode
            process.kill()
            self._line.close()
        await_their_end(self.world.owner)

    def _attend(self) -> None:
        """Hear what it says, and answer what it asks, until it is gone."""
        while True:
            try:
                said = self._line.recv()
            except (EOFError, ConnectionResetError):
                return
            match said:
                case Asked():
                    self._line.send(self.world.answer(said))
                case Stalled():
                    self._wait(said.fault)
                case Passed():
                    self.passed[said.point] = said.label
                case Struck():
                    self.struck = said
                case Ended():
                    self.ended = said
                case _:
                    raise AssertionError(said)

    def _wait(self, fault: Fault) -> None:
        """Let the others work on while it stands still; then tell it how long that was."""
        began = self.world.now
        again = self.scene.again if self.world.deliveries > 1 else nothing
        if fault is Fault.OVERLAP:
            self.world.before_next_answer = lambda: self._go_on_to_its_end(began)
        repair(self.world, fault, again=again)
        has_gone_on = fault is Fault.OVERLAP and self.world.before_next_answer is None
        self.world.before_next_answer = None
        if not has_gone_on:
            self._line.send(self.world.now - began)

    def _go_on_to_its_end(self, began: float) -> None:
        """Let it go on while another worker waits for the provider; then let a third one find
        what it can, before that worker's lease is over."""
        self._line.send(self.world.now - began)
        self._attend()
        self.world.pass_time(WAIT_SECONDS)
        step(self.world)


def run_dry(world: World, scene: Scene) -> tuple[dict[Point, str], Account]:
    """Run the scene without a fault; return the points it passes and what it comes to."""
    process = _run(world, scene, None, deliveries=1)
    return process.passed, account(world, scene)


def run_case(world: World, scene: Scene, case: Case) -> Verdict:
    """Run the scene with the fault of ``case``, let it be repaired, and close the accounts."""
    process = _run(world, scene, case.strike, deliveries=case.deliveries)
    struck = process.struck
    return Verdict(
        case=case,
        account=account(world, scene),
        is_reached=struck is not None
        and (struck.point, struck.label) == (case.strike.point, case.label),
    )


def _run(world: World, scene: Scene, strike: Strike | None, *, deliveries: int) -> _Process:
    world.restore(deliveries=deliveries)
    process = _Process(world=world, scene=scene, strike=strike)
    process.live()
    _judge(world, process)
    if process.ended is not None and scene.function == "ingest" and process.ended.answer:
        world.promise(process.ended.answer)
    if strike is not None:
        world.interfere()
        if deliveries > 1 and strike.fault not in STANDING_STILL:  # those had it meanwhile
            scene.again(world)
    drain(world)
    return process


def _judge(world: World, process: _Process) -> None:
    """Complain when the process ended otherwise than it should."""
    complain = world.memory.complaints.append
    is_killed = process.strike is not None and process.strike.fault is Fault.KILL
    if process.exit_code != (-signal.SIGKILL if is_killed else 0):
        complain(f"the process ended with {process.exit_code}")
    if process.ended is not None and process.ended.errors:
        complain(f"the function failed: {process.ended.errors}")
