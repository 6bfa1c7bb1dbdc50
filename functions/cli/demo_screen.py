"""What the demo shows: progress while it waits, and a table of what was expected and seen."""

import time
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from rich import box
from rich.console import Console, JustifyMethod
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from functions.cli.chaos_record import Kill, tally
from functions.cli.demo_expectation import Expectation
from functions.cli.demo_verdict import Seen
from functions.core.states import FINAL, HELD, Status
from infra.local.simulator_behaviour import Kind

LINE_SECONDS = 5.0
"""Least time between two plain lines."""
OFFENDERS_SHOWN = 10
PLAIN_WIDTH = 120
_ENDED = FINAL | HELD


def ended(counts: Mapping[str, int]) -> int:
    """Return how many of the notifications counted by status are FINAL or HELD."""
    return sum(number for status, number in counts.items() if status in _ENDED)


def waiting_for(counts: Mapping[str, int], *, silent: int) -> str:
    """Return in words what the open notifications counted by status wait for."""
    submitted = counts.get(Status.SUBMITTED, 0)
    unsent = sum(counts.values()) - ended(counts) - submitted
    parts = [f"{unsent} to send or try again"] if unsent else []
    if submitted > silent or (submitted and unsent):
        parts.append(f"{submitted} await a report")
    elif submitted:
        parts.append(f"{submitted} silent, waiting for the 30 s cutoff (closed once a minute)")
    return " · ".join(parts) or "done"


@dataclass(slots=True)
class Waiting:
    """Progress as a bar on a terminal, as a line every few seconds anywhere else."""

    console: Console
    total: int
    silent: int
    """How many never report, by design."""
    _bar: Progress | None = None
    _begun_at: float = field(default_factory=time.monotonic)
    _said_at: float = float("-inf")
    _said: str = ""

    def show(self, counts: Mapping[str, int]) -> None:
        done, words = ended(counts), waiting_for(counts, silent=self.silent)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, words=words)
            return
        self._line(f"{done} of {self.total} · {words}")

    def lost(self, what: str) -> None:
        """Say that the stack did not answer and is asked again."""
        words = f"no answer ({what}); asking again"
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], words=words)
            return
        self._line(words)

    def _line(self, words: str) -> None:
        now = time.monotonic()
        if words != self._said and now - self._said_at >= LINE_SECONDS:
            self._said, self._said_at = words, now
            self.console.out(f"{now - self._begun_at:5.0f} s  {words}", highlight=False)


def console_for_output() -> Console:
    """Return the console of standard output; wide enough for the table when not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH)


@contextmanager
def waiting(console: Console, *, total: int, silent: int) -> Generator[Waiting]:
    if not console.is_terminal:
        yield Waiting(console, total, silent)
        return
    columns = (
        BarColumn(bar_width=16),
        MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=2 * len(str(total)) + 1)),
        TimeElapsedColumn(table_column=Column(no_wrap=True, min_width=7)),
        TextColumn(
            "{task.fields[words]}",
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
        ),
    )
    with Progress(*columns, console=console, transient=True, expand=True) as bar:
        bar.add_task("", total=total, words="")
        yield Waiting(console, total, silent, bar)


def show_table(console: Console, seen: Sequence[Seen]) -> None:
    """Print a row per channel, behaviour and expected end."""
    table = Table(title="Expected and seen", title_justify="left", box=box.SIMPLE_HEAD)
    for name, justify in _COLUMNS:
        table.add_column(name, justify=justify, no_wrap=True)
    groups: defaultdict[tuple[str, Kind, Expectation], list[Seen]] = defaultdict(list)
    for one in seen:
        groups[one.item.channel, one.item.kind, one.item.expected].append(one)
    in_order = sorted(groups.items(), key=lambda row: (row[0][0], row[0][1], row[0][2].status))
    last = ""
    for (channel, kind, expected), group in in_order:
        if last and channel != last:
            table.add_section()
        last = channel
        table.add_row(channel, kind, *_cells(expected, group))
    console.print(table)


_COLUMNS: tuple[tuple[str, JustifyMethod], ...] = (
    ("channel", "left"),
    ("behaviour", "left"),
    ("items", "right"),
    ("expected", "left"),
    ("seen", "left"),
    ("effects", "right"),
    ("seen", "right"),
    ("", "left"),
)


def _cells(expected: Expectation, group: Sequence[Seen]) -> tuple[str, ...]:
    """Return the cells of a row from the third on."""
    ends = Counter(_end(one.status, is_suppressed=one.is_suppressed) for one in group)
    return (
        str(len(group)),
        _end(expected.status, is_suppressed=expected.is_suppressed),
        ", ".join(
            end if number == len(group) else f"{number} {end}" for end, number in ends.most_common()
        ),
        str(expected.effects * len(group)),
        str(sum(one.effects for one in group)),
        _mark(group),
    )


def _mark(group: Sequence[Seen]) -> str:
    if any(one.faults for one in group):
        return "[red]no[/red]"
    return "[yellow]chaos[/yellow]" if any(one.excuse for one in group) else "[green]ok[/green]"


def _end(status: str, *, is_suppressed: bool) -> str:
    return f"{status} + suppression" if is_suppressed else status


def show_offenders(console: Console, seen: Sequence[Seen]) -> None:
    """Name the first few that did not end as expected."""
    offenders = [one for one in seen if one.faults]
    for one in offenders[:OFFENDERS_SHOWN]:
        console.print(
            f"{one.item.id}  {one.item.channel} {one.item.recipient}: {'; '.join(one.faults)}",
            style="red",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    if len(offenders) > OFFENDERS_SHOWN:
        console.print(f"… and {len(offenders) - OFFENDERS_SHOWN} more", style="red")


def summary(seen: Sequence[Seen], *, accepted_at: datetime) -> str:
    """Return how many are right, and the seconds from accept to the last final state."""
    right = sum(not one.faults and not one.excuse for one in seen)
    effects = sum(one.effects for one in seen)
    expected = sum(one.item.expected.effects for one in seen)
    lines = [f"{right} of {len(seen)} as expected; {effects} effects, {expected} expected."]
    last = _seconds(seen, accepted_at)
    if last is not None:
        lines.append(f"From accept to the last final state: {last:.1f} s.")
    confirmed = [one for one in seen if one.item.expected.status != Status.UNCONFIRMED]
    sooner = _seconds(confirmed, accepted_at)
    if sooner is not None and len(confirmed) < len(seen):
        lines.append(f"Without the silent ones, which wait for the cutoff: {sooner:.1f} s.")
    return "\n".join(lines)


def _seconds(seen: Sequence[Seen], accepted_at: datetime) -> float | None:
    ends = [one.ended_at for one in seen if one.ended_at is not None and one.status in _ENDED]
    return (max(ends) - accepted_at).total_seconds() if ends else None


def under_chaos(seen: Sequence[Seen], killed: Sequence[Kill], *, log: Path) -> str:
    """Return what was killed meanwhile, what that excuses, and whether all is complete."""
    first, last = killed[0].at.astimezone(), killed[-1].at.astimezone()
    lines = [
        f"Chaos ran beside it: {len(killed)} kills from {first:%H:%M:%S} to {last:%H:%M:%S} "
        f"({tally(killed)}), on record in {log}."
    ]
    excuses = Counter(f"dead, {one.reason}: {one.excuse}" for one in seen if one.excuse)
    lines += [f"{number} more right by the kills: {words}." for words, number in excuses.items()]
    if not any(one.faults for one in seen):
        lines.append("Complete all the same: nothing lost, nothing doubled.")
    return "\n".join(lines)
