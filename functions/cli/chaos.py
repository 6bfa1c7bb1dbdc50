"""`sendoff chaos`: kill processes of a running local stack, again and again, by SIGKILL.

It kills one process of each target, every few seconds: at random times around that, because kills
that keep step with a schedule of a minute would meet the same moment again and again. Of what takes
its time to come back (the claim with the next minute, PostgreSQL after its recovery, the emulator
after its deployment) the seconds count from when it is back: what is killed before it does anything
proves nothing. Every kill goes on record (``chaos_record``).
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated

import psycopg
import typer
import urllib3

from functions.cli.chaos_record import Kill, Target, record, tally
from functions.cli.chaos_victims import has_deployed, victims
from functions.cli.stack import StateDir, running
from functions.cli.supervise import NotRunning, caller_environment, end_with_uv
from infra.local.state import DEFAULT_FOLDER, StateFolder

EVERY_SECONDS: Mapping[Target, float] = {
    Target.SENDER: 3.0,
    Target.CLAIM: 3.0,
    Target.POSTGRES: 3.0,
    Target.EMULATOR: 20.0,
}
LEAST_SECONDS = 0.1
LOOK_SECONDS = 0.25
_LARGEST_SEED = 2**32


def chaos(
    kill: Annotated[
        list[Target], typer.Option("--kill", help="What to kill; may be given several times.")
    ],
    every: Annotated[
        float | None,
        typer.Option(
            "--every",
            min=LEAST_SECONDS,
            help="Seconds from kill to kill of a target, or from its return to its kill.  "
            "[default: 3; the emulator 20]",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--for", min=0, help="Seconds until it ends.  [default: until Ctrl-C]"),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Repeats the order and the pauses of a run.")
    ] = None,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Kill processes of the running stack by SIGKILL, until Ctrl-C or for some seconds.

    A `demo` beside it must end complete all the same; it learns of the kills by itself.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # a script starts it with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    end_with_uv()
    caller_environment()
    folder, local = running(state_dir)
    seed = random.randrange(_LARGEST_SEED) if seed is None else seed
    run = Chaos(
        folder=folder,
        every={target: every or EVERY_SECONDS[target] for target in dict.fromkeys(kill)},
        serves={
            Target.CLAIM: lambda: bool(victims(folder, Target.CLAIM)),
            Target.POSTGRES: lambda: _connects(local.database_url),
            Target.EMULATOR: lambda: has_deployed(folder) or _answers(f"{local.api_url}/v1/health"),
        },
        dice=random.Random(seed),
    )
    typer.echo(f"Chaos in {folder.path}, seed {seed}: {run.plan()}.")
    is_alive = True
    try:
        is_alive = run.go(seconds=seconds, say=_say)
    except KeyboardInterrupt:
        typer.echo("")
    typer.echo(run.summary())
    if not is_alive:
        raise NotRunning(f"The stack in {folder.path} has ended.")


def _say(kill: Kill) -> None:
    typer.echo(f"{kill.at.astimezone():%H:%M:%S}  killed {kill.name} (process {kill.pid})")


def _connects(url: str) -> bool:
    try:
        psycopg.connect(url, sslmode="disable", connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _answers(url: str) -> bool:
    try:
        return urllib3.request("GET", url, timeout=1.0, retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False


@dataclass(slots=True, kw_only=True)
class Chaos:
    """One run of chaos on the stack in ``folder``; ``every`` target has its seconds."""

    folder: StateFolder
    every: Mapping[Target, float]
    serves: Mapping[Target, Callable[[], bool]]
    """Whether a target that takes its time to come back is there; asked until it is."""
    dice: random.Random
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    killed: list[Kill] = field(default_factory=list[Kill])
    missed: Counter[Target] = field(default_factory=Counter[Target])
    """How often it was time to kill and there was nothing."""
    _begun_at: float = field(init=False)
    _due: dict[Target, float] = field(init=False, default_factory=dict[Target, float])
    """When the next kill is; nothing for a target that is not back."""

    def __post_init__(self) -> None:
        self._begun_at = self.clock()
        for target in self.every:
            self._plan(target)

    def go(self, *, seconds: float | None, say: Callable[[Kill], None]) -> bool:
        """Kill for ``seconds``, or for ever; return whether the stack still runs."""
        until = float("inf") if seconds is None else self._begun_at + seconds
        while self.clock() < until:
            if self.folder.holder() is None:
                return False
            for target in self.every:
                if self._is_time(target):
                    self._strike(target, say)
            self.sleep(min(LOOK_SECONDS, max(0.0, until - self.clock())))
        return True

    def _plan(self, target: Target) -> None:
        """Draw the next time for ``target`` if it is there."""
        is_there = self.serves.get(target)
        if is_there is None or is_there():
            self._due[target] = self.clock() + self.every[target] * self.dice.uniform(0.5, 1.5)

    def _is_time(self, target: Target) -> bool:
        if target not in self._due:
            self._plan(target)
        return target in self._due and self.clock() >= self._due[target]

    def _strike(self, target: Target, say: Callable[[Kill], None]) -> None:
        """Kill one process of ``target``; one that has ended by itself gives way to another."""
        del self._due[target]
        if target not in self.serves:
            self._plan(target)
        found = sorted(victims(self.folder, target), key=lambda victim: victim.process.pid)
        self.dice.shuffle(found)
        victim = next((victim for victim in found if victim.kill()), None)
        if victim is None:
            self.missed[target] += 1
            return
        kill = Kill(at=datetime.now(UTC), target=target, name=victim.name, pid=victim.process.pid)
        record(self.folder, kill)
        self.killed.append(kill)
        say(kill)

    def plan(self) -> str:
        """Return in words what will be killed."""
        return ", ".join(f"{target} every {seconds:g} s" for target, seconds in self.every.items())

    def summary(self) -> str:
        """Return in words what was killed, and when there was nothing to kill."""
        seconds = self.clock() - self._begun_at
        lines = [f"{len(self.killed)} kills in {seconds:.0f} s: {tally(self.killed) or 'none'}."]
        for target, times in self.missed.items():
            lines.append(f"{times} times no {target} was running.")
        return "\n".join(lines)
