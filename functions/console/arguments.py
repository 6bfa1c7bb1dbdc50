"""What a command is asked with: a reader per argument, every fault told at once, nothing guessed.

A reader takes what JSON made of an argument and returns a value, or raises Wrong with a sentence.
What none of them reads is refused: a misspelt filter must not widen a command.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar, cast
from uuid import UUID

from functions.core.errors import Fault, ValidationFailed
from functions.core.times import DETAIL, InvalidTime, parse_time

V = TypeVar("V")
C = TypeVar("C", bound=StrEnum)

MAX_PAGE = 500
"""Rows that one command reads or changes: a larger set continues after the last id."""

MAX_TEXT_CHARACTERS = 256
MAX_SHOWN_CHARACTERS = 40
MAX_FAULTS = 20

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


class Wrong(ValueError):
    """An argument is not what its command takes; says what it takes, in a sentence."""


Reader = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument that a command takes. Left out, or null, it is ``default``."""

    read: Reader
    required: bool
    default: Any


def required(read: Reader) -> Parameter:
    return Parameter(read=read, required=True, default=None)


def optional(read: Reader, default: Any = None) -> Parameter:
    return Parameter(read=read, required=False, default=default)


def read_arguments(given: object, parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return a value for each of ``parameters``; raise ValidationFailed with every fault."""
    if not isinstance(given, dict):
        raise ValidationFailed([Fault("/arguments", "wrong_type", "It is an object.")])
    arguments = cast("dict[str, Any]", given)
    faults = [
        Fault(f"/arguments/{_shown(name)}", "unknown_field", "The command takes no such argument.")
        for name in arguments
        if name not in parameters
    ]
    values: dict[str, Any] = {}
    for name, parameter in parameters.items():
        values[name] = parameter.default
        value = arguments.get(name)
        if value is None:
            if parameter.required:
                faults.append(Fault(f"/arguments/{name}", "required", "It is required."))
            continue
        try:
            values[name] = parameter.read(value)
        except Wrong as wrong:
            faults.append(Fault(f"/arguments/{name}", "wrong_type", str(wrong)))
    if faults:
        raise ValidationFailed(faults[:MAX_FAULTS])
    return values


def _shown(name: str) -> str:
    """Return a name of somebody's as far as it is fit to be shown."""
    return "".join(one if one.isprintable() else "?" for one in name[:MAX_SHOWN_CHARACTERS])


def identifier(value: Any) -> UUID:
    if not isinstance(value, str) or _ID.fullmatch(value) is None:
        raise Wrong("It is an id: 36 characters, hexadecimal in five groups.")
    return UUID(value)


def text(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT_CHARACTERS:
        raise Wrong(f"It is a text of 1 to {MAX_TEXT_CHARACTERS} characters.")
    if not value.isprintable() or value.strip() != value:
        raise Wrong("It holds printable characters alone, and no space at its ends.")
    return value


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong("It is true or false.")
    return value


def moment(value: Any) -> datetime:
    try:
        return parse_time(value if isinstance(value, str) else "")
    except InvalidTime:
        raise Wrong(DETAIL) from None


def number_up_to(most: int) -> Callable[[Any], int]:
    """Return the reader of a whole number from 1 to ``most``."""

    def read(value: Any) -> int:
        if type(value) is not int or not 1 <= value <= most:
            raise Wrong(f"It is a whole number from 1 to {most}.")
        return value

    return read


def one_of(kind: type[C]) -> Callable[[Any], C]:
    """Return the reader of a member of ``kind``."""

    def read(value: Any) -> C:
        try:
            return kind(value)
        except (ValueError, TypeError):
            raise Wrong(f"It is one of {', '.join(kind)}.") from None

    return read


def list_of(read: Callable[[Any], V], *, most: int = MAX_PAGE) -> Callable[[Any], list[V]]:
    """Return the reader of a list of 1 to ``most`` different values; what is repeated is one."""

    def read_list(value: Any) -> list[V]:
        if not isinstance(value, list) or not 0 < len(cast("list[Any]", value)) <= most:
            raise Wrong(f"It is a list of 1 to {most} values.")
        try:
            return list(dict.fromkeys(read(one) for one in cast("list[Any]", value)))
        except Wrong as wrong:
            raise Wrong(f"One of its values is wrong. {wrong}") from None

    return read_list


page_size = number_up_to(MAX_PAGE)
DEFAULT_PAGE = 100
PAGE: Mapping[str, Parameter] = {
    "after": optional(identifier),
    "limit": optional(page_size, DEFAULT_PAGE),
}
"""What every list takes: it goes on after an id."""
