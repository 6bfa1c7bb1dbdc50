"""Workers as the probes need them: one that is stuck in its job until it is told to go on, and one
that dies in it.

A stuck worker is a thread that runs the library's own worker. The job blocks that thread: no
heartbeat leaves it and nothing else happens in it, which is how a worker becomes late.
"""

import gc
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.01


class Ending(StrEnum):
    """What comes of a job."""

    SUCCESS = "success"
    FAILURE = "failure"
    """For good: it shall not be tried again."""
    AGAIN = "again"
    """A failure that asks to be tried again."""


class JobFailed(Exception):
    """A job's own failure, for good."""


class JobFailedForNow(Exception):
    """A job's own failure that asks for another try."""


Job = Callable[[], Ending]
"""What a worker runs: returns when the probe lets it."""


class Stuck:
    """A worker that takes at most one job, and is stuck in it until ``report``."""

    def __init__(self, ending: Ending) -> None:
        self._ending = ending
        self._taken = threading.Event()
        self._go = threading.Event()
        self.future: Future[list[str]] = Future()

    def job(self) -> Ending:
        self._taken.set()
        if not self._go.wait(PATIENCE_SECONDS):
            raise TimeoutError("the probe forgot a worker")
        return self._ending

    def took(self) -> bool:
        """Whether it was given a job; waits until it was, or ended without one."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._taken.wait(_POLL_SECONDS):
            if self.future.done():
                self.future.result()
                return self._taken.is_set()
            if time.monotonic() > deadline:
                raise TimeoutError("a worker neither took a job nor ended")
        return True

    def report(self) -> list[str]:
        """Let the job end and the worker report it; return what the worker was told."""
        self._go.set()
        return self.future.result(PATIENCE_SECONDS)


@contextmanager
def stuck(work: Callable[[Job], Sequence[str]], ending: Ending) -> Generator[Stuck]:
    """Yield a worker: ``work`` runs one job in a thread of its own and returns what it was told."""
    worker = Stuck(ending)

    def run() -> list[str]:
        with _listening() as heard:
            told = work(worker.job)
            gc.collect()  # asyncio tells of an error that nobody looked at when its task goes
        return [*told, *heard]

    with ThreadPoolExecutor(1) as threads:
        worker.future = threads.submit(run)
        try:
            yield worker
        finally:
            worker.report()


class _Listener(logging.Handler):
    """Keeps what this thread's code warns of, apart from the failure that the job itself raised."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if record.thread != self._thread or isinstance(error, JobFailed | JobFailedForNow):
            return
        while error is not None and error.__cause__ is not None:
            error = error.__cause__
        text = str(error) if error is not None else record.getMessage()
        self.heard.append(text.splitlines()[0])


@contextmanager
def _listening() -> Generator[list[str]]:
    listener = _Listener()
    root = logging.getLogger()
    root.addHandler(listener)
    try:
        yield listener.heard
    finally:
        root.removeHandler(listener)


def die() -> Ending:
    """A job that kills its worker's process, as the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def died(work: Callable[..., object], *arguments: Any) -> bool:
    """Run ``work`` in a process of its own; return whether it was killed in a job."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", work.__module__])
    process = context.Process(target=work, args=arguments)
    process.start()
    process.join(PATIENCE_SECONDS)
    if process.exitcode not in (0, -signal.SIGKILL):
        process.kill()
        raise RuntimeError(f"a worker ended with {process.exitcode}")
    return process.exitcode == -signal.SIGKILL
