"""The records of a CSV file, each with the number of its first line, whatever the others are like.

A quote that is never closed, or not where it may be, would make one record of many lines. So where
a record cannot be read its first line alone is given up, and the next is begun at the second.
"""

import codecs
import csv
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import BinaryIO

MAX_LINE_BYTES = 128 * 1024
MAX_RECORD_LINES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What begins in a line; ``cells`` is None when it cannot be read."""

    line: int
    cells: list[str] | None


class _TooLong(Exception):
    """No record of ours is so long: a quote was not closed, or it is no CSV."""


@dataclass(slots=True)
class _Lines:
    """The lines of a file, of which those of a record can be given back but for the first."""

    file: BinaryIO
    number: int = 0
    """Of the line that was taken last."""
    _taken: list[bytes] = field(default_factory=list[bytes])
    _waiting: deque[bytes] = field(default_factory=deque[bytes])

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._waiting.popleft() if self._waiting else self._read()
        if not line:
            raise StopIteration
        self.number += 1
        self._taken.append(line)
        if len(self._taken) > MAX_RECORD_LINES or len(line) > MAX_LINE_BYTES:
            raise _TooLong
        return line.decode("utf-8", "surrogateescape")

    def begin(self) -> None:
        self._taken.clear()

    def give_back(self) -> None:
        self._waiting.extendleft(reversed(self._taken[1:]))
        self.number -= len(self._taken[1:])

    def _read(self) -> bytes:
        """Return the next line; of one that is longer than any may be, no more than shows it: a
        file without line breaks is not to be read whole."""
        line = part = self.file.readline(MAX_LINE_BYTES + 1)
        while len(part) > MAX_LINE_BYTES and not part.endswith(b"\n"):
            part = self.file.readline(MAX_LINE_BYTES + 1)
        return line if self.number else line.removeprefix(codecs.BOM_UTF8)


def records_of(file: BinaryIO) -> Generator[Record]:
    """Yield what is in ``file``, which is UTF-8 with or without a byte order mark; empty lines are
    passed over. Bytes that are not UTF-8 come as halves of surrogate pairs."""
    lines = _Lines(file)
    while True:
        lines.begin()
        first = lines.number + 1
        try:
            cells = next(csv.reader(lines, strict=True), None)
        except (csv.Error, _TooLong):
            lines.give_back()
            yield Record(line=first, cells=None)
            continue
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield Record(line=first, cells=cells)
