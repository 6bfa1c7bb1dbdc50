"""The lines of a file of suppressions on their way to the console, and what became of each."""

import contextlib
import csv
import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import typer

from functions.cli.console import Console
from functions.cli.console_error import ConsoleError
from functions.cli.csv_records import Record, records_of
from functions.cli.listing import printable
from functions.cli.operating import PAGE
from functions.core.strict_json import UNSTORABLE
from functions.core.suppression_line import COLUMNS, NEEDED, OF_HISTORY

STANDARD_INPUT = Path("-")
FATES = ("added", "already", "skipped", "refused")
SHOWN_AT_MOST = 1000
"""Refused lines that an answer names; a file can name them all."""

MAX_CALL_CHARACTERS = 1_000_000
"""Of one call, escaped: far below the 6 MB that a function may be asked with."""
MAX_LINE_CHARACTERS = 60_000

Told = Mapping[str, Any]
"""A line by its number, and its fate; with a code and a sentence where it was refused."""


@dataclass(slots=True, kw_only=True)
class Imported:
    """What came of the lines so far."""

    organization_id: str
    action_ids: list[str] = field(default_factory=list[str])
    fates: Counter[str] = field(default_factory=Counter[str])
    refused: list[Told] = field(default_factory=list[Told])

    def note(self, told: Told) -> None:
        self.fates[told["fate"]] += 1
        if told["fate"] == "refused" and len(self.refused) < SHOWN_AT_MOST:
            self.refused.append(told)

    def document(self) -> dict[str, Any]:
        refused = [{name: one[name] for name in ("line", "code", "detail")} for one in self.refused]
        return {
            "organization_id": self.organization_id,
            "action_ids": self.action_ids,
            "lines": self.fates.total(),
            **{fate: self.fates[fate] for fate in FATES},
            "refused_lines": refused,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """A file whose header was read."""

    columns: list[str]
    records: Iterator[Record]

    @classmethod
    def of(cls, file: BinaryIO) -> "Lines":
        """Read the header; one that does not fit is a matter of usage, for then no line fits."""
        records = records_of(file)
        header = next(records, None)
        cells = header.cells if header is not None else None
        names = [name.strip().lower() for name in cells or []]
        unknown = [name for name in names if name not in (*COLUMNS, *OF_HISTORY)]
        if unknown or not names:
            named = f" There is no column {printable(unknown[0])[:40]!r}." if unknown else ""
            raise typer.BadParameter(
                "The first line names the columns, in UTF-8 and with commas between: some of "
                f"{', '.join(COLUMNS)}.{named}",
                param_hint="FILE",
            )
        missing = [name for name in NEEDED if name not in names]
        if not {"recipient", "recipient_hash"} & set(names):
            missing.append("recipient")
        if missing or len(set(names)) < len(names):
            fault = f"There is no column {missing[0]}." if missing else "A column is named twice."
            raise typer.BadParameter(fault, param_hint="FILE")
        return cls(columns=names, records=records)

    def calls(self) -> Generator[list[dict[str, Any]]]:
        """Yield the lines that go in one call; a line that cannot is told as refused instead."""
        call: list[dict[str, Any]] = []
        characters = 0
        for record in self.records:
            line = self._line(record)
            size = len(json.dumps(line))
            if call and (len(call) >= PAGE or characters + size > MAX_CALL_CHARACTERS):
                yield call
                call, characters = [], 0
            call.append(line)
            characters += size
        if call:
            yield call

    def _line(self, record: Record) -> dict[str, Any]:
        if record.cells is None:
            return _refusal(record, "malformed_csv", "Its quotes are not those of CSV.")
        if len(record.cells) != len(self.columns):
            detail = f"It has {len(record.cells)} cells, and the first line {len(self.columns)}."
            return _refusal(record, "malformed_csv", detail)
        if any(UNSTORABLE.search(cell) for cell in record.cells):
            return _refusal(record, "not_encodable", "It is not UTF-8, or contains U+0000.")
        filled = {
            name: cell
            for name, cell in zip(self.columns, record.cells, strict=True)
            if cell.strip()
        }
        if sum(map(len, filled.values())) > MAX_LINE_CHARACTERS:
            detail = f"It has at most {MAX_LINE_CHARACTERS} characters."
            return _refusal(record, "too_long", detail)
        return {"line": record.line, **filled}


@contextlib.contextmanager
def opened(path: Path) -> Generator[Lines]:
    """Give the lines of a file, or of standard input, whose header was read."""
    with contextlib.ExitStack() as stack:
        is_input = path == STANDARD_INPUT
        try:
            file = (
                typer.get_binary_stream("stdin")
                if is_input
                else stack.enter_context(path.open("rb"))
            )
        except OSError as error:
            words = f"It cannot be read: {error.strerror}."
            raise typer.BadParameter(words, param_hint="FILE") from None
        yield Lines.of(file)


def _refusal(record: Record, code: str, detail: str) -> dict[str, Any]:
    return {"line": record.line, "fate": "refused", "code": code, "detail": detail}


def import_all(
    console: Console,
    lines: Lines,
    *,
    organization_id: str,
    advance: Callable[[int], None],
    tell: Callable[[Iterable[Told]], None],
) -> Imported:
    """Have ``lines`` stated call by call; ``tell`` what became of those of each call.

    What was stated stays when a later call fails, and is known when the file comes again.
    """
    done = Imported(organization_id=organization_id)
    for call in lines.calls():
        if done.fates:
            advance(done.fates.total())
        try:
            told = _import(console, call, done)
        except ConsoleError as error:
            error.partial = done.document()
            if done.fates:
                error.detail += f" {done.fates.total():,} lines were done before; the same command"
                error.detail += " goes on."
            raise
        for one in told:
            done.note(one)
        tell(told)
    return done


def _import(console: Console, call: list[dict[str, Any]], done: Imported) -> list[Told]:
    """Return what became of each line of a call, in their order."""
    stated = [line for line in call if "fate" not in line]
    fates: dict[int, Told] = {line["line"]: line for line in call if "fate" in line}
    if stated:
        answer = console.call(
            "suppressions.import", organization_id=done.organization_id, lines=stated
        )
        done.action_ids.append(answer["action_id"])
        fates |= {one["line"]: one for one in answer["results"]}
    return [fates[line["line"]] for line in call]


@contextlib.contextmanager
def results_in(path: Path | None) -> Generator[Callable[[Iterable[Told]], None]]:
    """Give what writes the fate of each line into a CSV file, if there is to be one."""
    if path is None:
        yield lambda _told: None
        return
    try:
        file = path.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise typer.BadParameter(f"It cannot be written: {error.strerror}.") from None
    with file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("line", "fate", "code", "detail"))

        def write(told: Iterable[Told]) -> None:
            writer.writerows(
                (one["line"], one["fate"], one.get("code"), one.get("detail")) for one in told
            )
            file.flush()

        yield write
