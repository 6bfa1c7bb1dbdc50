"""The processes of a running stack, found as an operator would: by their command lines."""

import contextlib
import os
import signal
from pathlib import Path

from infra.config import DEFAULT_PREFIX
from infra.local.state import Local, StateFolder

_LAUNCHER = "infra.local.launcher"


def _command_lines() -> dict[int, list[str]]:
    """Return the arguments of every process of this machine."""
    found: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended
                found[int(entry.name)] = entry.joinpath("cmdline").read_bytes().decode().split("\0")
    return found


def workers(local: Local, function: str = "") -> set[int]:
    """Return the processes in which the emulator runs a function, or every function."""
    start = f"{StateFolder(Path(local.state_dir)).temporary}/ministack-lambda-{DEFAULT_PREFIX}-"
    return {
        pid
        for pid, arguments in _command_lines().items()
        if any(argument.startswith(f"{start}{function}") for argument in arguments)
    }


def emulators(local: Local) -> set[int]:
    """Return the process of the stack's emulator; nothing while there is none."""
    port = local.aws_endpoint_url.rpartition(":")[2]
    return {
        pid
        for pid, arguments in _command_lines().items()
        if _LAUNCHER in arguments and port in arguments
    }


def postgres(local: Local) -> int:
    """Return the server's process, as PostgreSQL itself notes it."""
    note = StateFolder(Path(local.state_dir)).cluster / "postmaster.pid"
    return int(note.read_text().split()[0])


def supervisor(local: Local) -> int:
    pid = StateFolder(Path(local.state_dir)).holder()
    assert pid, "no supervisor holds the state folder"
    return pid


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
