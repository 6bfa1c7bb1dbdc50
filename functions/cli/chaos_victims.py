"""The processes of one running stack that chaos may kill, found below its supervisor.

A process is known by its place in the tree and by what it runs, so neither another stack's nor
anything else on this machine can be meant.

PostgreSQL, emulator   children of the supervisor: the postmaster, and the launcher
sender, claim          the emulator's workers, each in a folder named after its function
"""

from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from functions.cli.chaos_record import Target
from infra.config import DEFAULT_PREFIX
from infra.local import launcher
from infra.local.state import StateFolder

LAUNCHER = launcher.__name__
POSTMASTER = "postgres"

_GONE = (psutil.NoSuchProcess, psutil.AccessDenied)
"""Ended meanwhile, or not ours to look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A process, and the name of what it runs."""

    process: psutil.Process
    name: str

    def kill(self) -> bool:
        """Kill it by SIGKILL; False when it has ended by itself."""
        try:
            self.process.kill()  # looks again whether the number still means the same process
        except psutil.NoSuchProcess:
            return False
        return True


def victims(folder: StateFolder, target: Target) -> list[Victim]:
    """Return the running processes of ``target``; none while there are none."""
    holder = folder.holder()
    if not holder:
        return []
    try:
        supervisor = psutil.Process(holder)
        below = supervisor.children(recursive=target in (Target.SENDER, Target.CLAIM))
    except _GONE:
        return []
    found: list[Victim] = []
    for process in below:
        try:
            name = _name(process.cmdline(), target, folder)
        except _GONE:
            continue
        if name is not None:
            found.append(Victim(process=process, name=name))
    return found


def has_deployed(folder: StateFolder) -> bool:
    """Whether the emulator that runs has been deployed to: the stack says so each time."""
    try:
        emulators = victims(folder, Target.EMULATOR)
        return any(folder.published_at() > one.process.create_time() for one in emulators)
    except _GONE:
        return False


def _name(command: Sequence[str], target: Target, folder: StateFolder) -> str | None:
    """Return what a command line runs, if that is ``target``."""
    match target:
        case Target.POSTGRES:
            is_server = str(folder.cluster) in command and _program(command) == POSTMASTER
            return target.value if is_server else None
        case Target.EMULATOR:
            return target.value if LAUNCHER in command else None
        case Target.SENDER | Target.CLAIM:
            function = _function(command, folder)
            return function if function and function.partition("-")[0] == target else None


def _program(command: Sequence[str]) -> str:
    """Return the name of the program, without its folder."""
    return command[0].rpartition("/")[2]


def _function(command: Sequence[str], folder: StateFolder) -> str | None:
    """Return the function of an emulator's worker, whose script lies in
    ``<temporary>/ministack-lambda-<prefix>-<function>-<random>``."""
    start = f"{folder.temporary}/ministack-lambda-{DEFAULT_PREFIX}-"
    for argument in command:
        if argument.startswith(start):
            return argument.removeprefix(start).partition("/")[0].rpartition("-")[0]
    return None
