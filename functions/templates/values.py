"""The values of a template: which may be given, and the one form that each has.

What is stored comes back from the database in another order, and numbers in another notation
(``1e16`` as ``10000000000000000``). Here both have one form, so the words that were checked when a
notification was accepted are the words that are sent.
"""

import re
from decimal import Decimal
from typing import Any, cast

from functions.core.content import encoded_bytes, is_too_deep
from functions.core.errors import Fault
from functions.templates.errors import Missing, Unrenderable

MAX_DATA_BYTES = 64 * 1024
MAX_DATA_DEPTH = 16

# Control characters, NEL among them, and the separators of lines and paragraphs: whatever some
# reader takes for the end of a line.
_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def data_faults(data: Any) -> list[Fault]:
    """Return what is wrong with the values as a whole, by pointers below the template."""
    if not isinstance(data, dict):
        return [Fault("/data", "wrong_type", "The data of a template is an object.")]
    if is_too_deep(data, most=MAX_DATA_DEPTH):
        detail = f"It is nested deeper than {MAX_DATA_DEPTH} levels."
        return [Fault("/data", "not_encodable", detail)]
    if encoded_bytes(data) > MAX_DATA_BYTES:
        detail = f"The data of a template has at most {MAX_DATA_BYTES} bytes as JSON."
        return [Fault("/data", "too_long", detail)]
    return []


def canonical(value: Any, *, flat: bool) -> Any:
    """Return ``value`` in its one form; ``flat``: without line breaks in any text.

    Members are in the order of their names. The value was found to be not too deep.
    """
    match value:
        case str():
            return one_line(value) if flat else value
        case float():
            return _number(value)
        case list():
            return [canonical(item, flat=flat) for item in cast("list[Any]", value)]
        case dict():
            members = cast("dict[str, Any]", value)
            return {name: canonical(members[name], flat=flat) for name in sorted(members)}
        case _:
            return value


def _number(value: float) -> float | int:
    """Return a number as it comes back from the database."""
    text = repr(value)
    if "e+" in text:
        return int(Decimal(text))
    return value + 0.0  # there is no negative zero


def one_line(text: str) -> str:
    """Return ``text`` with each run of line breaks and control characters as one space."""
    return _BREAKS.sub(" ", text)


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
