"""How a command says what it does: a spinner on a terminal, plain lines anywhere else."""

import contextlib
import json
import sys
import time
from collections.abc import Generator, Iterable
from typing import TextIO

from rich.console import Console
from rich.status import Status

from functions.core.errors import SendoffError
from infra.local.stack import Report

BEGIN, NOTE = "begin", "note"


class OnTerminal:
    """The running step as a spinner; the finished ones above it with their seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None
        self._step, self._begun_at = "", 0.0

    def begin(self, step: str) -> None:
        self.finish()
        self._step, self._begun_at = step, time.monotonic()
        self._status = self._console.status(step)
        self._status.start()

    def note(self, text: str) -> None:
        self._console.print(text, style="yellow", markup=False, highlight=False)

    def finish(self) -> None:
        if self._status is not None:
            self.abandon()
            seconds = time.monotonic() - self._begun_at
            self._console.print(f"[green]✓[/green] {self._step} [dim]{seconds:.1f} s[/dim]")

    def abandon(self) -> None:
        """Take the spinner away: its step did not come to its end."""
        if self._status is not None:
            self._status.stop()
            self._status = None


class InLines:
    """One plain line for each step and note."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def begin(self, step: str) -> None:
        self._write(f"{step} …")

    def note(self, text: str) -> None:
        self._write(text)

    def finish(self) -> None:
        pass

    def _write(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()


class ToParent:
    """One JSON line for each step and note, for the process that reads ``relay``."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def begin(self, step: str) -> None:
        self._write(BEGIN, step)

    def note(self, text: str) -> None:
        self._write(NOTE, text)

    def finish(self) -> None:
        pass

    def fail(self, error: SendoffError) -> None:
        self._write(error.code, error.detail)

    def _write(self, kind: str, text: str) -> None:
        self._stream.write(json.dumps([kind, text]) + "\n")
        self._stream.flush()


def relay(lines: Iterable[str], *, to: Report) -> tuple[str, str] | None:
    """Report what ``ToParent`` wrote until it ends; return code and words of the error, if any."""
    error = None
    for line in lines:
        try:
            kind, text = json.loads(line)
        except ValueError:  # a warning or a traceback of something below us
            to.note(line.rstrip())
            continue
        match kind:
            case "begin":
                to.begin(text)
            case "note":
                to.note(text)
            case code:
                error = (code, text)
    return error


@contextlib.contextmanager
def reporting(*, quiet: bool = False) -> Generator[Report]:
    """Give the report that suits standard output; ``quiet`` keeps it free for something else."""
    stream = sys.stderr if quiet else sys.stdout
    if not stream.isatty():
        yield InLines(stream)
        return
    report = OnTerminal(Console(file=stream))
    try:
        yield report
        report.finish()
    finally:
        report.abandon()
