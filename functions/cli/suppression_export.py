"""The suppressions of a tenant on their way from the console into a file, in order.

The console gives them page by page in the order of its index, which is that of hashes. They are put
in the order of addresses in a database of SQLite's that lives until then: most of the file is never
in memory, and nothing of it stays on the disk.
"""

import contextlib
import csv
import io
import os
import sqlite3
import tempfile
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, TextIO

import typer

from functions.cli.console import Console
from functions.cli.operating import PAGE
from functions.core.suppression_line import COLUMNS, OF_HISTORY

STANDARD_OUTPUT = Path("-")

# Texts are compared byte by byte, as everywhere; of one address the order is that of time.
MAKE = """
    CREATE TABLE lines (
        place INTEGER PRIMARY KEY, channel TEXT, recipient TEXT, category TEXT, reason TEXT,
        source TEXT, source_at TEXT, evidence TEXT, recipient_hash TEXT, kind TEXT, active TEXT,
        created_at TEXT)
"""
KEEP = """
    INSERT INTO lines (channel, recipient, category, reason, source, source_at, evidence,
                       recipient_hash, kind, active, created_at)
    VALUES (:channel, :recipient, :category, :reason, :source, :source_at, :evidence,
            :recipient_hash, :kind, :active, :created_at)
"""
IN_ORDER = """
    SELECT channel, recipient, category, reason, source, source_at, evidence, recipient_hash,
           kind, active, created_at
      FROM lines
     ORDER BY channel, coalesce(recipient, ''), coalesce(recipient_hash, ''),
              coalesce(category, ''), place
"""


def export_all(
    console: Console,
    *,
    organization_id: str,
    channel: str | None,
    active: bool,
    advance: Callable[[int], None],
    output: Path,
) -> int:
    """Write what there is to ``output``; return how many lines that were, without the header."""
    columns = COLUMNS if active else (*COLUMNS, *OF_HISTORY)
    # Without a name SQLite's file is gone with its connection.
    with _written_to(output) as file, contextlib.closing(sqlite3.connect("")) as kept:
        kept.execute(MAKE)
        count = 0
        for page in _pages(console, organization_id, channel=channel, active=active):
            if count:
                advance(count)
            kept.executemany(KEEP, [dict.fromkeys(OF_HISTORY) | line for line in page])
            count += len(page)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(row[: len(columns)] for row in kept.execute(IN_ORDER))
    return count


def _pages(
    console: Console, organization_id: str, *, channel: str | None, active: bool
) -> Generator[Sequence[dict[str, Any]]]:
    after = None
    while True:
        page = console.call(
            "suppressions.export",
            organization_id=organization_id,
            channel=channel,
            active=active,
            after=after,
            limit=PAGE,
        )
        yield page["data"]
        after = page["next"]
        if after is None:
            return


@contextlib.contextmanager
def _written_to(output: Path) -> Generator[TextIO]:
    """Give what is written to. A file is there whole or not at all, and to be read by nobody else:
    there are addresses in it."""
    if output == STANDARD_OUTPUT:
        stream = io.TextIOWrapper(typer.get_binary_stream("stdout"), encoding="utf-8", newline="")
        try:
            yield stream
        finally:
            stream.detach()  # it is not ours to close
        return
    try:
        descriptor, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}-")
    except OSError as error:
        words = f"It cannot be written: {error.strerror}."
        raise typer.BadParameter(words, param_hint="--output") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            yield file
        Path(name).replace(output)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
