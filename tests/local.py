"""Processes of a local stack as its tests see them: found in /proc, waited for, killed."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from infra.local.state import Local

T = TypeVar("T")

SOON_SECONDS = 20.0

LOCAL = Local(
    api_url="http://127.0.0.1:8080",
    api_key="sk_1",
    second_tenant_api_key="sk_2",
    admin_api_key="sk_3",
    simulator_url="http://127.0.0.1:8081",
    database_url="postgresql://postgres@127.0.0.1:5499/sendoff",
    aws_endpoint_url="http://127.0.0.1:4566",
    callback_secret="whsec_a",
    webhook_secret="whsec_b",
    functions={"claim": "arn"},
    queues={"email": "url"},
    state_dir="/somewhere",
)


def until(look: Callable[[], T], *, seconds: float = SOON_SECONDS) -> T:
    """Return the first true value of ``look``, or its last one after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not (value := look()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return value


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not yet waited for does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def is_gone(pid: int) -> bool:
    return not is_alive(pid)


def mentioning(text: str) -> set[int]:
    """Return the living processes, other than this one, with ``text`` in command or environment."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):  # it has ended, or is not ours
                known = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                if text.encode() in known and is_alive(int(entry.name)):
                    found.add(int(entry.name))
    return found


@contextmanager
def python(
    code: str,
    *arguments: str,
    executable: str = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> Generator[subprocess.Popen[str]]:
    """Run ``code`` in a process of its own, which is killed at the end; read its ``stdout``."""
    process = subprocess.Popen(
        [executable, "-c", code, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def command(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in ``folder``, without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "functions.cli.main", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=folder,
        timeout=120,
        check=False,
    )
