"""Read a request's JSON strictly, and name what PostgreSQL could not store.

Refused as malformed: anything RFC 8259 does not allow, NaN and Infinity, names that repeat within
an object, invalid UTF-8, and nesting that no reader of ours follows. Legal JSON that has no place
in the database (U+0000, half of a surrogate pair, numbers beyond a double) is named by its pointer.
"""

import json
import math
import re
from itertools import accumulate
from typing import Any, NoReturn, cast

from functions.core.content import is_too_deep, pointer_token
from functions.core.errors import Fault, RequestRefused

MAX_FAULTS = 100
MAX_NESTING = 500
"""Our own limit: Python's depends on its version, 1000 levels here and 10,000 there."""


class MalformedJson(RequestRefused):
    """The body is not JSON in UTF-8."""

    code = "malformed_json"


def parse(body: bytes) -> tuple[Any, list[Fault]]:
    """Return the value of ``body`` and a fault for each string, name or number we cannot store.

    Raises MalformedJson; its detail never repeats what was sent.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedJson(f"Byte {error.start} is not UTF-8.") from None
    too_large: list[float] = []

    def number(literal: str) -> float:
        value = float(literal)
        if math.isinf(value):
            too_large.append(value)
        return value

    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_float=number,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        raise MalformedJson(
            f"The body is not JSON (line {error.lineno}, column {error.colno})."
        ) from None
    except RecursionError:
        raise MalformedJson(_NESTED) from None
    except ValueError:  # Python reads integers of up to 4300 digits
        raise MalformedJson("A number has too many digits.") from None
    if _may_be_deep(body) and is_too_deep(value, most=MAX_NESTING):
        raise MalformedJson(_NESTED)
    # U+0000 and surrogates can only have come from an escape, and escapes are seldom.
    if too_large or _ESCAPED.search(text):
        return value, unencodable(value)
    return value, []


_NESTED = "The body is nested too deeply."
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def _may_be_deep(body: bytes) -> bool:
    """Whether brackets stand open MAX_NESTING deep, those inside of strings included."""
    brackets = body.translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > MAX_NESTING


_ESCAPED = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
"""What no text of PostgreSQL can hold: NUL, and half of a surrogate pair."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise MalformedJson("An object has two members of the same name.")
    return members


def _refuse_constant(_: str) -> NoReturn:
    raise MalformedJson("NaN and Infinity are not JSON.")


def unencodable(value: Any) -> list[Fault]:
    """Return a fault for each string, member name or number in ``value`` that cannot be stored."""
    faults: list[Fault] = []
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting and len(faults) < MAX_FAULTS:
        pointer, item = waiting.pop()
        if isinstance(item, str):
            if UNSTORABLE.search(item):
                faults.append(Fault(pointer, "not_encodable", _TEXT))
        elif isinstance(item, float):
            if not math.isfinite(item):
                faults.append(Fault(pointer, "not_encodable", _NUMBER))
        elif isinstance(item, dict):
            members = cast("dict[str, Any]", item)
            children = [(f"{pointer}/{token(name)}", name, members[name]) for name in members]
            faults += [
                Fault(child, "not_encodable", _NAME)
                for child, name, _ in children
                if UNSTORABLE.search(name)
            ]
            waiting += [(child, inner) for child, _, inner in reversed(children)]
        elif isinstance(item, list):
            elements = list(enumerate(cast("list[Any]", item)))
            waiting += [(f"{pointer}/{index}", inner) for index, inner in reversed(elements)]
    return faults[:MAX_FAULTS]


_TEXT = "The text contains U+0000 or half of a surrogate pair."
_NAME = "The name contains U+0000 or half of a surrogate pair."
_NUMBER = "The number is too large, or none at all."


def token(name: str) -> str:
    """Return ``name`` for a pointer that can itself be sent as JSON in UTF-8."""
    return pointer_token(UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", name))
