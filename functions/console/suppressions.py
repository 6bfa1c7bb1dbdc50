"""Commands on the suppressions of a tenant by the many: take lines of a file in, give them out.

A line is an object of texts by column, with its number. What is wrong with one is told of that one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import UUID

from functions.console.arguments import (
    DEFAULT_PAGE,
    MAX_PAGE,
    Wrong,
    flag,
    identifier,
    one_of,
    optional,
    page_size,
    required,
)
from functions.console.command import Command, Done, Equipment
from functions.console.tenants import NO_TENANT
from functions.core.errors import NotFound
from functions.core.states import Channel
from functions.core.suppression_line import (
    COLUMNS,
    OF_HISTORY,
    Refused,
    StatedFact,
    is_history,
    read_line,
)
from functions.store import suppression_list as store
from functions.store.action import Action
from functions.store.organization import find_organization
from functions.store.suppression_list import BEFORE_ALL, ListedFact, Place

MOST_LINES = 2_000_000_000
MAX_CELL_CHARACTERS = 64 * 1024
MAX_ANSWER_CHARACTERS = 2_000_000
"""Of a page, escaped: far below the 6 MB that a function may answer."""

_KNOWN = frozenset({*COLUMNS, *OF_HISTORY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a file by its number, as it was read there."""

    number: int
    cells: Mapping[str, str]


def import_lines(
    equipment: Equipment, *, organization_id: UUID, lines: Sequence[Line], action: Action
) -> Done:
    """State what ``lines`` state, those that can be read; tell of each what became of it.

    What is kept of the command is whose and how many lines they were: an address is nobody's to
    find in the audit.
    """
    _must_exist(equipment, organization_id)
    fates, stated = _read(lines, hash_key=equipment.hash_key())
    told = Counter(fate["fate"] for fate in fates.values())
    kept = {"organization_id": str(organization_id), "lines": len(lines)}
    known = store.add_suppressions(
        equipment.database,
        list(stated.values()),
        organization_id=organization_id,
        action=replace(action, arguments=kept),
        told={fate: told[fate] for fate in ("skipped", "refused")},
    )
    for place, number in enumerate(stated):
        fates[number] = {"fate": "already" if place in known else "added"}
    return Done(
        result={
            "action_id": action.id,
            "results": [{"line": line.number, **fates[line.number]} for line in lines],
        },
        counts=dict(Counter(fate["fate"] for fate in fates.values())),
    )


def _read(
    lines: Sequence[Line], *, hash_key: bytes
) -> tuple[dict[int, dict[str, str]], dict[int, StatedFact]]:
    """Return by line number what became of those that state nothing, and what the others state."""
    fates: dict[int, dict[str, str]] = {}
    stated: dict[int, StatedFact] = {}
    for line in lines:
        if is_history(line.cells):
            fates[line.number] = {"fate": "skipped"}
            continue
        try:
            stated[line.number] = read_line(line.cells, hash_key=hash_key)
        except Refused as error:
            told = {"fate": "refused", "code": error.item_code, "detail": error.detail}
            fates[line.number] = told
    return fates, stated


def export_lines(
    equipment: Equipment,
    *,
    organization_id: UUID,
    channel: Channel | None,
    active: bool,
    after: Place | None,
    limit: int,
) -> Done:
    """Return a page of facts as lines, by channel and hash of the address; ``active``: only those
    that decide, else with the columns of history. It is cut where an answer would be too long."""
    _must_exist(equipment, organization_id)
    rows = store.read_by_address(
        equipment.database,
        organization_id=organization_id,
        channel=channel,
        active=active,
        after=after or BEFORE_ALL,
        limit=limit + 1,
    )
    data: list[dict[str, Any]] = []
    characters = 0
    for row in rows[:limit]:
        line = _written(row, with_history=not active)
        characters += 6 * sum(len(value or "") for value in line.values())
        if data and characters > MAX_ANSWER_CHARACTERS:
            break
        data.append(line)
    more = len(rows) > len(data)
    following = _place_written(rows[len(data) - 1].place) if more else None
    return Done(result={"data": data, "next": following}, counts={"listed": len(data)})


def _written(fact: ListedFact, *, with_history: bool) -> dict[str, str | None]:
    line = {
        "channel": fact.channel,
        "recipient": fact.recipient,
        "category": fact.category,
        "reason": fact.reason,
        "source": fact.source,
        "source_at": fact.source_at.isoformat(),
        "evidence": fact.evidence,
        "recipient_hash": fact.recipient_hash.hex() if fact.recipient is None else None,
    }
    if with_history:
        line |= {
            "kind": fact.kind,
            "active": "true" if fact.active else "false",
            "created_at": fact.created_at.isoformat(),
        }
    return line


def _place_written(place: Place) -> str:
    return f"{place.channel}:{place.recipient_hash.hex()}:{place.id}"


def place(value: Any) -> Place:
    """Read where the page before this one ended."""
    try:
        channel, digits, id = value.split(":")
        return Place(
            channel=Channel(channel), recipient_hash=bytes.fromhex(digits), id=identifier(id)
        )
    except (AttributeError, ValueError):
        raise Wrong("It is what the page before named as the next.") from None


def lines_of(value: Any) -> list[Line]:
    """Read 1 to MAX_PAGE lines, each with a number of its own."""
    wrong = Wrong(
        f"It is a list of 1 to {MAX_PAGE} objects, each with a line number of its own and texts "
        f"of at most {MAX_CELL_CHARACTERS} characters by column: {', '.join(COLUMNS)}."
    )
    if not isinstance(value, list) or not 0 < len(cast("list[Any]", value)) <= MAX_PAGE:
        raise wrong
    lines = [_line(one, wrong) for one in cast("list[Any]", value)]
    if len({line.number for line in lines}) < len(lines):
        raise wrong
    return lines


def _line(value: Any, wrong: Wrong) -> Line:
    if not isinstance(value, dict):
        raise wrong
    cells = dict(cast("dict[str, Any]", value))
    number = cells.pop("line", None)
    if type(number) is not int or not 0 < number <= MOST_LINES or not cells.keys() <= _KNOWN:
        raise wrong
    if not all(
        isinstance(text, str) and len(text) <= MAX_CELL_CHARACTERS for text in cells.values()
    ):
        raise wrong
    return Line(number=number, cells=cells)


def _must_exist(equipment: Equipment, organization_id: UUID) -> None:
    if find_organization(equipment.database, id=organization_id) is None:
        raise NotFound(NO_TENANT)


_OF = {"organization_id": required(identifier)}

COMMANDS: Mapping[str, Command] = {
    "suppressions.import": Command(
        parameters={**_OF, "lines": required(lines_of)}, run=import_lines, audited=True
    ),
    "suppressions.export": Command(
        parameters={
            **_OF,
            "channel": optional(one_of(Channel)),
            "active": optional(flag, default=True),
            "after": optional(place),
            "limit": optional(page_size, DEFAULT_PAGE),
        },
        run=export_lines,
    ),
}
