"""The record of chaos: every process it killed, beside the logs of the stack that it happened to.

One JSON line for each kill in ``log/chaos.log`` of the state folder. Whoever judges what a stack
did reads there what was done to it; nobody has to say so. The next start of the stack empties it.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from infra.local.state import StateFolder

LOG = "chaos"


class Target(StrEnum):
    """What chaos can kill."""

    SENDER = "sender"
    CLAIM = "claim"
    POSTGRES = "postgres"
    EMULATOR = "emulator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One process ended by SIGKILL; ``name`` is the function's, or the target's."""

    at: datetime
    target: Target
    name: str
    pid: int


def record(folder: StateFolder, kill: Kill) -> None:
    """Add one kill: a single write, so that two commands at once do not mix their lines."""
    line = {"at": kill.at.isoformat(), "target": kill.target, "name": kill.name, "pid": kill.pid}
    with folder.log(LOG).open("ab", buffering=0) as log:
        log.write(json.dumps(line).encode() + b"\n")


def kills(folder: StateFolder, *, since: datetime) -> list[Kill]:
    """Return what was killed since a moment, in order."""
    try:
        lines = folder.log(LOG).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    every = filter(None, map(_read, lines))
    return sorted((kill for kill in every if kill.at >= since), key=lambda kill: kill.at)


def _read(line: str) -> Kill | None:
    """Return the kill of a line; None for a damaged one, which proves nothing."""
    try:
        one = json.loads(line)
        return Kill(
            at=datetime.fromisoformat(one["at"]),
            target=Target(one["target"]),
            name=str(one["name"]),
            pid=int(one["pid"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def tally(killed: Sequence[Kill]) -> str:
    """Return in words how often what was killed."""
    counts = Counter(kill.name for kill in killed)
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
