"""Processes that end when the one that started them ends, even when that one is killed by -9.

``start`` runs a command through this file as a small script: it asks the kernel for a signal at the
parent's death and then becomes the command. (A ``preexec_fn`` could do the same, but runs Python
between fork and exec, which is unsafe beside threads.) The signal follows the *thread* that called
``start``, so call it from the main thread. Linux only; elsewhere the command just runs.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1


def start(
    command: Sequence[str],
    *,
    signal_at_death: signal.Signals,
    output: IO[bytes],
    environment: Mapping[str, str],
    directory: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start ``command`` as leader of its own session and process group; return the process."""
    prefix = [sys.executable, "-I", "-S", __file__, str(int(signal_at_death)), str(os.getpid())]
    return subprocess.Popen(
        [*prefix, *command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=dict(environment),
        cwd=directory,
        start_new_session=True,
    )


def stop(
    process: subprocess.Popen[bytes], *, by: signal.Signals, timeout_seconds: float = 5.0
) -> None:
    """Ask ``process`` to end, then kill what is left of its process group."""
    if process.poll() is None:
        process.send_signal(by)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout_seconds)
    kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group of ``process``: children outlive a leader that was killed."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end_with_parent(number: int) -> None:
    """Get signal ``number`` when the parent process ends; 0 takes that back."""
    if sys.platform == "linux":
        import ctypes  # absent from some minimal builds, and needed here only

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def main(arguments: Sequence[str]) -> None:
    """Become the command in ``arguments`` (signal, parent, command …)."""
    number, parent, *command = arguments
    end_with_parent(int(number))
    if os.getppid() != int(parent):  # it died before the kernel was asked
        sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
