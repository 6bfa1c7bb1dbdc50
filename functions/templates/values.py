"""The values of a template: which may be given, and the one form that each has.

What is stored comes back from the database in another order, and numbers in another notation
(``1e16`` as ``10000000000000000``); 1 and 1.0 are one number there, as they are in JSON. Here each
has one form, and that is what is measured, checked and written: the words that were found right
when a notification was accepted are the words that are sent.
"""

import re
from decimal import Decimal
from typing import Any, cast

from functions.core.content import encoded_bytes, is_too_deep
from functions.core.errors import Fault
from functions.templates.errors import Missing, Unrenderable

MAX_DATA_BYTES = 64 * 1024
MAX_DATA_DEPTH = 16
MAX_DATA_VALUES = 10_000
"""Members and elements in all."""

# Control characters, NEL among them, and the separators of lines and paragraphs: whatever some
# reader takes for the end of a line.
_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class Refused(Unrenderable):
    """Values that no template may be given."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.detail)
        self.fault = fault
        """What is wrong with them as a whole, by a pointer below the template."""


class Values:
    """The values of one notification in their one form."""

    __slots__ = ("form",)

    def __init__(self, data: Any) -> None:
        """Raise Refused."""
        for fault in _faults(data):
            raise Refused(fault)
        self.form: dict[str, Any] = canonical(data)
        if encoded_bytes(self.form) > MAX_DATA_BYTES:
            detail = f"The data of a template has at most {MAX_DATA_BYTES} bytes as JSON"
            raise Refused(Fault("/data", "too_long", f"{detail}, its numbers written in full."))


def _faults(data: Any) -> list[Fault]:
    """Return what is seen before the values are brought into their form."""
    if not isinstance(data, dict):
        return [Fault("/data", "wrong_type", "The data of a template is an object.")]
    if is_too_deep(data, most=MAX_DATA_DEPTH):
        detail = f"It is nested deeper than {MAX_DATA_DEPTH} levels."
        return [Fault("/data", "not_encodable", detail)]
    if _count(data) > MAX_DATA_VALUES:
        detail = f"The data of a template has at most {MAX_DATA_VALUES} members and elements."
        return [Fault("/data", "too_many", detail)]
    return []


def _count(value: Any) -> int:
    """Return how many members and elements there are; of a value that was found to be not too
    deep."""
    if isinstance(value, dict):
        held = list(cast("dict[str, Any]", value).values())
    elif isinstance(value, list):
        held = cast("list[Any]", value)
    else:
        return 0
    return len(held) + sum(map(_count, held))


def canonical(value: Any) -> Any:
    """Return ``value`` in its one form: members in the order of their names."""
    match value:
        case float():
            return _number(value)
        case list():
            return [canonical(item) for item in cast("list[Any]", value)]
        case dict():
            members = cast("dict[str, Any]", value)
            return {name: canonical(members[name]) for name in sorted(members)}
        case _:
            return value


def _number(value: float) -> float | int:
    return int(Decimal(repr(value))) if value.is_integer() else value


def one_line(text: str) -> str:
    """Return ``text`` with each run of line breaks and control characters as one space, and none
    around it."""
    return _BREAKS.sub(" ", text).strip()


def text_of(value: Any) -> str:
    """Return how a value is written; raise Unrenderable for one that has no text.

    A text is itself, a number is its decimal digits, a truth value ``true`` or ``false``. A list
    or an object has no text: nobody wants to read JSON.
    """
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return format(Decimal(repr(value)), "f")
        case list() | tuple() | dict():
            raise Unrenderable("A list or an object has no text; write its elements one by one.")
        case _:
            if value is not None:
                str(value)  # what is undefined says so itself, by its name
            raise Missing("There is no value.")
