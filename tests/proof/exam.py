"""The exam is itself examined: remove one guard at a time, and see that a test turns red.

`python -m tests.proof.exam` works on copies of the repository, prints a table, and fails when a
guard can be removed unnoticed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from tests.proof.exam_guards import GUARDS, Guard

REPOSITORY = Path(__file__).resolve().parents[2]
COPIED = ("functions", "infra", "migrations", "events", "tests")
FILES = ("pyproject.toml", "README.md", "cdk.json")
SECONDS = 600
WIDTH = 250
"""Of a table that nobody looks at on a terminal: every name in one line."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::[^\s\[]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the tests said without a guard; ``test`` is the first that turned red."""

    guard: Guard
    test: str | None
    output: str


def occurrences(guard: Guard) -> int:
    """Return how often what is to be removed stands in its file: once, or the edit is stale."""
    return (REPOSITORY / guard.path).read_text(encoding="utf-8").count(guard.present)


def examine(guard: Guard) -> Verdict:
    """Run the guard's tests on a copy without it."""
    with _copy() as folder:
        path = folder / guard.path
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(guard.present, guard.absent), encoding="utf-8")
        ended = _run(folder, guard.tests)
    failed = _FAILED.search(ended.stdout)
    return Verdict(guard=guard, test=failed[1] if failed else None, output=ended.stdout[-2000:])


def passes_whole() -> subprocess.CompletedProcess[str]:
    """Run every test that a guard names on an untouched copy: red there would prove nothing."""
    with _copy() as folder:
        return _run(folder, sorted({test for guard in GUARDS for test in guard.tests}))


@contextmanager
def _copy() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="sendoff-exam-") as name:
        folder = Path(name)
        for part in COPIED:
            shutil.copytree(
                REPOSITORY / part, folder / part, ignore=shutil.ignore_patterns("__pycache__")
            )
        for part in FILES:
            shutil.copy(REPOSITORY / part, folder / part)
        yield folder


def _run(folder: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run ``tests`` against the code in ``folder``, until the first failure."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider", *tests],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def main(
    only: Annotated[
        str, typer.Option("--only", help="Remove only the guards whose name holds this.")
    ] = "",
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Copies examined at once.")] = 2,
) -> None:
    """Remove each guard in turn and run its tests; fail if they stay green."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    chosen = [guard for guard in GUARDS if only in guard.name]
    if stale := [guard.name for guard in chosen if occurrences(guard) != 1]:
        console.print("These edits no longer fit their file: " + "; ".join(stale))
        raise typer.Exit(1)
    with console.status("the tests as they are"):
        whole = passes_whole()
    if whole.returncode != 0:
        console.print(whole.stdout[-3000:])
        console.print("The tests are red with every guard in place: nothing can be examined.")
        raise typer.Exit(1)
    with ThreadPoolExecutor(jobs) as threads, console.status("one guard after another"):
        verdicts = list(threads.map(examine, chosen))
    console.print(_table(verdicts, console))
    unnoticed = [verdict for verdict in verdicts if verdict.test is None]
    for verdict in unnoticed:
        console.print(f"\n{verdict.guard.name}:\n{verdict.output}")
    console.print(f"{len(verdicts) - len(unnoticed)} of {len(verdicts)} removals were noticed.")
    if unnoticed:
        raise typer.Exit(1)


def _table(verdicts: Sequence[Verdict], console: Console) -> Table:
    """Return the table; as Markdown where it goes to a file."""
    box = None if console.is_terminal else MARKDOWN
    table = Table("guard removed", "first test that turned red", box=box)
    for verdict in verdicts:
        table.add_row(verdict.guard.name, Path(verdict.test).name if verdict.test else "NONE")
    return table


if __name__ == "__main__":
    typer.run(main)
