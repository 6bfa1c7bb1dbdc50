"""`sendoff logs`: what the functions wrote to CloudWatch Logs, and the processes' own logs.

A function's lines are those it would have on AWS. The processes of the stack (postgres, emulator,
simulator …) write files in the state folder.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer
from botocore.exceptions import BotoCoreError, ClientError

from functions.cli.stack import StateDir, running, state_folder
from functions.cli.supervise import caller_environment
from functions.core.errors import SendoffError
from infra.config import DEFAULT_PREFIX
from infra.local.emulator import Clients
from infra.local.state import DEFAULT_FOLDER, Local, StateFolder

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient
    from mypy_boto3_logs.type_defs import FilteredLogEventTypeDef

FOLLOW_SECONDS = 0.5
OVERLAP_MILLISECONDS = 2000
"""A line appears when its invocation ends, so it may be older than one that was read already."""

PREFIX = f"{DEFAULT_PREFIX}-"


class UnknownLog(SendoffError):
    """Nothing of that name writes a log."""

    code = "unknown_log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    at_milliseconds: int
    text: str


class Log(Protocol):
    def read(self) -> list[Line]:
        """Return the lines not returned before."""
        ...


@dataclass(slots=True)
class FunctionLog:
    """The log of one function."""

    logs: "CloudWatchLogsClient"
    name: str
    _newest: int = 0
    _seen: Counter[tuple[str, int, str]] = field(default_factory=Counter[tuple[str, int, str]])

    def read(self) -> list[Line]:
        lines: list[Line] = []
        while fresh := self._read_once():  # again, because one answer has a limit
            lines += fresh
        return lines

    def _read_once(self) -> list[Line]:
        pages = self.logs.get_paginator("filter_log_events").paginate(
            logGroupName=f"/aws/lambda/{PREFIX}{self.name}",
            startTime=max(0, self._newest - OVERLAP_MILLISECONDS),
        )
        present: Counter[tuple[str, int, str]] = Counter()
        lines: list[Line] = []
        for page in pages:
            for event in page["events"]:
                key = _identity(event)
                present[key] += 1
                if present[key] > self._seen[key]:
                    lines.append(self._line(event))
        self._seen = present
        return lines

    def _line(self, event: "FilteredLogEventTypeDef") -> Line:
        at = event.get("timestamp", 0)
        self._newest = max(self._newest, at)
        moment = datetime.fromtimestamp(at / 1000, UTC).astimezone()
        text = event.get("message", "").rstrip()
        return Line(
            at_milliseconds=at, text=f"{moment:%H:%M:%S.%f}"[:-3] + f" {self.name:<15} {text}"
        )


def _identity(event: "FilteredLogEventTypeDef") -> tuple[str, int, str]:
    return event.get("logStreamName", ""), event.get("timestamp", 0), event.get("message", "")


@dataclass(slots=True)
class ProcessLog:
    """The log file of a process; starts over when the process did."""

    path: Path
    _read: int = 0

    def read(self) -> list[Line]:
        try:
            if self.path.stat().st_size < self._read:
                self._read = 0
            with self.path.open("rb") as file:
                file.seek(self._read)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        return [
            Line(at_milliseconds=0, text=line)
            for line in whole.decode(errors="replace").splitlines()
        ]


def logs(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[FUNCTION]",
            help="A function (`sender` for all four senders) or a process of the stack; "
            "all functions without it.",
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines.")] = False,
    state_dir: StateDir = DEFAULT_FOLDER,
) -> None:
    """Show what the functions logged; a process's own log also when the stack has ended."""
    folder = state_folder(state_dir)
    caller_environment()
    if folder.holder() is None and name in processes_of(folder):
        show([ProcessLog(processes_of(folder)[name])])
        return
    folder, local = running(state_dir)
    chosen = choose(name, folder=folder, local=local)
    show(chosen)
    if follow:
        with contextlib.suppress(KeyboardInterrupt):  # the one way to end it
            _follow(chosen, folder)


def _follow(chosen: Sequence[Log], folder: StateFolder) -> None:
    while folder.holder() is not None:
        time.sleep(FOLLOW_SECONDS)
        show(chosen)
    typer.echo(f"The stack in {folder.path} has ended.", err=True)


def processes_of(folder: StateFolder) -> dict[str, Path]:
    """Return the log files of the stack's processes by name."""
    return {path.stem: path for path in sorted(folder.logs.glob("*.log"))}


def choose(name: str | None, *, folder: StateFolder, local: Local) -> list[Log]:
    """Return the logs that ``name`` means; raise UnknownLog with the names there are."""
    functions = sorted({one.removeprefix(PREFIX) for one in local.functions})
    processes = processes_of(folder)
    wanted = name.removeprefix(PREFIX) if name else None
    if wanted in processes:
        return [ProcessLog(processes[wanted])]
    found = [
        one for one in functions if wanted is None or one == wanted or one.startswith(f"{wanted}-")
    ]
    if not found:
        raise UnknownLog(
            f"There is no log of {name}. Functions: {', '.join(functions)}. "
            f"Processes: {', '.join(processes)}."
        )
    client = Clients(local.aws_endpoint_url).logs()
    return [FunctionLog(client, one) for one in found]


def show(chosen: Sequence[Log]) -> None:
    """Print what is new in ``chosen``, in the order of time."""
    lines: list[Line] = []
    for log in chosen:
        try:
            lines += log.read()
        except (ClientError, BotoCoreError):
            continue  # the emulator is being started again
    for line in sorted(lines, key=lambda one: one.at_milliseconds):
        typer.echo(line.text)
