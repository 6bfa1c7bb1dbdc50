"""How operators' commands show what there is: tables, sentences, and one JSON document.

An id is always whole: a table is as wide as its rows, whatever the terminal, so that no cell is cut
or wrapped. What others wrote is shown without the characters that a terminal would act on.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

NOTHING = "-"


def write_json(document: Mapping[str, Any]) -> None:
    """Write the machine reading: ASCII, so that nothing in it acts on a terminal."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Write a line of words as it is: never wrapped, or a command in it could not be copied."""
    sys.stdout.write(printable(text) + "\n")
    sys.stdout.flush()


def tell(text: str) -> None:
    """Write a sentence, which a terminal may fold between its words."""
    console = Console(file=sys.stdout, highlight=False)
    console.print(Text(printable(text)), soft_wrap=not console.is_terminal)


def printable(value: object) -> str:
    """Return ``value`` as one line without control characters; nothing is shown as a dash."""
    if value is None:
        return NOTHING
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in str(value))


def short_time(text: str | None) -> str:
    """Return a time of the console to the second."""
    if text is None:
        return NOTHING
    return f"{text[:19]}Z" if text.endswith("Z") and "." in text[19:20] else text


def number_of(count: int, what: str, *, plural: str | None = None) -> str:
    """Return "1 notification" or "1,234 notifications"."""
    return f"{count:,} {what if count == 1 else plural or what + 's'}"


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write ``rows`` under the names of ``columns``, as wide as they are."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        table.add_column(name, no_wrap=True, overflow="ignore")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(file=sys.stdout, highlight=False)
    needed = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    _write(console, table, width=max(console.width, needed))


def show_story(lines: Sequence[tuple[str, str, str]]) -> None:
    """Write what happened line by line: when, who, and a sentence, which a terminal may fold."""
    console = Console(file=sys.stdout, highlight=False)
    folds = console.is_terminal
    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True, overflow="ignore", style="dim")
    table.add_column(no_wrap=True, overflow="ignore", style="bold")
    table.add_column(no_wrap=not folds, overflow="fold" if folds else "ignore")
    for line in lines:
        table.add_row(*(Text(printable(part)) for part in line))
    needed = Measurement.get(console, console.options.update(max_width=10_000), table)
    least = needed.minimum if folds else needed.maximum
    _write(console, table, width=max(console.width, least))


def _write(console: Console, table: Table, *, width: int) -> None:
    """Write ``table`` without the spaces that fill up its last column."""
    console.width = width
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        sys.stdout.write(f"{line.rstrip()}\n")
    sys.stdout.flush()
