"""Running a local stack: in the foreground, in the background, or for as long as one command."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict
from pathlib import Path

from functions.cli.progress import ToParent, relay
from functions.core.errors import SendoffError
from infra.local import dependent
from infra.local.stack import Report, Stack
from infra.local.state import REPOSITORY, FolderInUse, Local, Ports, StateFolder

STOP_SECONDS = 30.0
LEAVE_SECONDS = 2.0
"""Between letting go of the folder, the last act, and the end of the process."""

READY_SECONDS = 300.0
_POLL_SECONDS = 0.1
_OTHER_WORLDS = ("AWS_", "PG")
"""Settings of another account or server than those of the local stack."""


class NotRunning(SendoffError):
    """No stack runs here."""

    code = "not_running"


def caller_environment() -> dict[str, str]:
    """Remove from this process's environment what speaks of other accounts; return the rest.

    Removed and not only left out: boto3 and psycopg read it behind our back.
    """
    for name in list(os.environ):
        if name.startswith(_OTHER_WORLDS):
            del os.environ[name]
    return dict(os.environ)


def run(
    folder: StateFolder,
    ports: Ports,
    *,
    report: Report,
    environment: Mapping[str, str],
    when_ready: Callable[[Local], None],
) -> None:
    """Start a stack and keep it up until SIGINT, SIGTERM or SIGHUP; leave no process behind.

    Raises FolderInUse when another one runs already, and KeyboardInterrupt at the signal.
    """
    _end_at_signals()
    with folder.held() as was_killed:
        stack = Stack(folder=folder, ports=ports, environment=environment, report=report)
        try:
            when_ready(stack.start(was_killed=was_killed))
            stack.watch()
        finally:
            with _undisturbed():
                stack.stop()


def _end_at_signals() -> None:
    # SIGINT too: a shell without job control starts `up &` with it ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, signal.default_int_handler)


@contextlib.contextmanager
def _undisturbed() -> Generator[None]:
    """Ignore requests to end, of which there is one already."""
    kept = {
        number: signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def end_with_uv() -> None:
    """End when `uv run`, which only waits for us, is killed; a shell that ends is no reason to."""
    with contextlib.suppress(OSError):
        if Path(f"/proc/{os.getppid()}/comm").read_text(encoding="utf-8").strip() == "uv":
            dependent.end_with_parent(signal.SIGTERM)


def start_detached(
    folder: StateFolder, ports: Ports, *, report: Report, stays: bool = True
) -> Local:
    """Start a stack in the background and wait until it is ready.

    It ``stays`` when this process ends, or it ends too, however this one ends. Raises FolderInUse
    when another one runs already, SendoffError with its words when it fails.
    """
    command = [
        sys.executable, "-m", "functions.cli.main", "supervise", "--state-dir", str(folder.path),
    ]  # fmt: skip
    for name, number in asdict(ports).items():
        command += [f"--{name}-port", str(number)]
    if stays:
        command.append("--stays")
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        cwd=REPOSITORY,
    )
    assert process.stdout is not None
    try:
        error = relay(process.stdout, to=report)
        local = folder.local()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if error is None and local is not None:
        return local
    process.wait()
    if error is None:
        raise SendoffError(f"The stack did not start (log: {folder.log('supervisor')}).")
    code, words = error
    raise FolderInUse(words) if code == FolderInUse.code else SendoffError(words)


def supervise(
    folder: StateFolder, ports: Ports, *, environment: Mapping[str, str], stays: bool
) -> int:
    """Be the background process of ``start_detached``; return the exit status.

    Until it is ready, it reports to its parent and ends with it; from then on it has its own log.
    """
    dependent.end_with_parent(signal.SIGTERM)
    report = ToParent(sys.stdout)

    def let_go(_local: Local) -> None:
        with folder.log("supervisor").open("ab") as log:
            os.dup2(log.fileno(), sys.stdout.fileno())
            os.dup2(log.fileno(), sys.stderr.fileno())
        if stays:
            dependent.end_with_parent(0)

    try:
        run(folder, ports, report=report, environment=environment, when_ready=let_go)
    except SendoffError as error:
        report.fail(error)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def wait_for_other(folder: StateFolder) -> Local:
    """Return what the stack that holds the folder says, once it is ready; raise NotRunning."""
    deadline = time.monotonic() + READY_SECONDS
    while (local := folder.local()) is None:
        if folder.holder() is None or time.monotonic() > deadline:
            raise NotRunning(f"The other stack in {folder.path} did not become ready.")
        time.sleep(_POLL_SECONDS)
    return local


def stop(folder: StateFolder) -> bool:
    """End the stack in ``folder`` and wait until it is gone; return whether one ran."""
    holder = folder.holder()
    if holder is None:
        return False
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
        if holder:
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder, number)
        if _comes_true(lambda: folder.holder() is None, seconds):
            _comes_true(lambda: not Path(f"/proc/{holder}").exists(), LEAVE_SECONDS)
            return True
    raise SendoffError(f"The stack in {folder.path} (process {holder}) did not end.")


def _comes_true(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


@contextlib.contextmanager
def running_or_own(folder: StateFolder, ports: Ports, *, report: Report) -> Generator[Local]:
    """Give the stack that runs in ``folder``, or one that is started and ended for this use."""
    folder.create()
    if folder.holder() is not None:
        yield wait_for_other(folder)
        return
    end_with_uv()
    local = start_detached(folder, ports, report=report, stays=False)
    try:
        yield local
    finally:
        stop(folder)
