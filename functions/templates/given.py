"""Is a value there, wherever a path leads: what can be said without rendering."""

from collections.abc import Sequence
from typing import Any, cast

from functions.templates.budget import Budget

EACH = None
Steps = tuple[str | int | None, ...]
"""A path to a value: names of members and places in lists; EACH is every element of a list."""
Place = tuple[str | int, ...]


def lacking(data: dict[str, Any], path: Steps, budget: Budget) -> Place | None:
    """Return the first place at which nothing is, or null; None when a value is everywhere.

    A list of which each element is looked at is there: that it is, another path asks.
    """
    return _lacking(data, path, (), budget)


def _lacking(value: Any, path: Steps, here: Place, budget: Budget) -> Place | None:
    for index, step in enumerate(path):
        budget.spend(1)
        if step is None:  # each element
            if not isinstance(value, list):
                return None  # pairs of an object, or a text: the rendering shows it
            elements, rest = cast("list[Any]", value), path[index + 1 :]
            places = (
                _lacking(element, rest, (*here, place), budget)
                for place, element in enumerate(elements)
            )
            return next((place for place in places if place is not None), None)
        here = (*here, step)
        try:
            value = _at(value, step)
        except LookupError:
            return _unless_asked_elsewhere(here, path[index + 1 :])
    if value is None:
        return here
    return None


def _unless_asked_elsewhere(here: Place, rest: Sequence[str | int | None]) -> Place | None:
    if EACH in rest:
        return None
    return (*here, *(step for step in rest if step is not None))


def _at(value: Any, step: str | int) -> Any:
    """Return a member or an element as a template reads it; raise LookupError."""
    match value:
        case dict():
            return cast("dict[Any, Any]", value)[step]
        case list():
            elements = cast("list[Any]", value)
            if step == "size":
                return len(elements)
            if isinstance(step, int):
                return elements[step]
            if step in ("first", "last"):
                return elements[0 if step == "first" else -1]
        case str() if step == "size":
            return len(value)
        case _:
            pass
    raise LookupError
