"""The filters that templates have: those of the library, between limits of ours.

Each is told which values it may be given, so that none writes a list, an object or nothing the way
Python shows them; each pays for what it handles, and what could grow beyond measure is measured
first. None makes a value HTML, reads the clock, or draws a lot. ``date`` is our own.
"""

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from liquid.builtin.filters import array, misc, string
from liquid.builtin.filters import math as numbers
from liquid.filter import with_context

from functions.templates.dates import date
from functions.templates.errors import TooLong, Unrenderable
from functions.templates.values import text_of

if TYPE_CHECKING:
    from functions.templates.nodes import Context

Filter = Callable[..., Any]

MAX_TEXT_CHARACTERS = 500_000
"""Of what a filter gives: as much as a part may hold."""
MAX_NUMBER = 2**63
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?", re.ASCII)


def _of_text(call: Filter, *, keeps_markup: bool = False) -> Filter:
    """Return a filter of a text, with texts and numbers as arguments.

    ``keeps_markup``: what the template's author writes as an argument stays HTML in an HTML part.
    Elsewhere it is text like any other: ``replace`` must not turn an escaped value into markup.
    """

    @with_context
    def filter_text(left: Any, *arguments: Any, context: "Context") -> Any:
        text = text_of(left)
        given = [_argument(one, keeps_markup=keeps_markup) for one in arguments]
        context.budget.weigh([text, *given])
        return _weighed(_call(call, context, text, *given), context)

    return filter_text


def _of_number(call: Filter) -> Filter:
    """Return a filter of a number, or of a text that is one."""

    @with_context
    def filter_number(left: Any, *arguments: Any, context: "Context") -> int | float:
        given = [_number(one) for one in arguments]
        return _finite(_call(call, context, _number(left), *given))

    return filter_number


def _of_list(call: Filter) -> Filter:
    """Return a filter of a list, with the name of a member and a value as arguments."""

    @with_context
    def filter_list(left: Any, *arguments: Any, context: "Context") -> Any:
        if not isinstance(left, list):
            raise Unrenderable("It filters lists.")
        elements = cast("list[Any]", left)
        given = [_plain(one) if isinstance(one, str) else one for one in arguments]
        context.budget.weigh([elements, *given])
        return _weighed(_call(call, context, elements, *given), context)

    return filter_list


def _of_any(call: Filter) -> Filter:
    """Return a filter of a text, a list or an object."""

    @with_context
    def filter_any(left: Any, *, context: "Context") -> Any:
        if not isinstance(left, str | list | tuple | dict):
            raise Unrenderable("It filters texts, lists and objects.")
        return _weighed(_call(call, context, left), context)

    return filter_any


def _call(call: Filter, context: "Context", *arguments: Any) -> Any:
    if getattr(call, "with_environment", False):
        return call(*arguments, environment=context.env)
    return call(*arguments)


def _weighed(value: Any, context: "Context") -> Any:
    if isinstance(value, str) and len(value) > MAX_TEXT_CHARACTERS:
        raise TooLong(f"It grows beyond {MAX_TEXT_CHARACTERS} characters.")
    context.budget.weigh(value)
    return value


def _argument(value: Any, *, keeps_markup: bool) -> Any:
    if type(value) is int:
        return value
    text = text_of(value)
    return text if keeps_markup else _plain(text)


def _plain(text: str) -> str:
    """Return a text that is no longer known to be HTML."""
    return str.__str__(text)


def _number(value: Any) -> int | float:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value) if "." in value else int(value)
    if type(value) in (int, float):
        return _finite(value)
    raise Unrenderable("It calculates with numbers.")


def _finite(value: Any) -> int | float:
    if not math.isfinite(value) or abs(value) > MAX_NUMBER:
        raise Unrenderable("It calculates with numbers of up to 18 digits.")
    return value


def _replace(text: str, old: str, new: str = "") -> str:
    growth = text.count(str(old)) * (len(str(new)) - len(str(old)))
    if len(text) + growth > MAX_TEXT_CHARACTERS:
        raise TooLong(f"It grows beyond {MAX_TEXT_CHARACTERS} characters.")
    return string.replace(text, old, new)


@with_context
def _join(left: Any, separator: Any = " ", *, context: "Context") -> str:
    """Join the texts of a list. In an HTML part the whole is escaped where it is written."""
    if not isinstance(left, list):
        raise Unrenderable("It joins lists.")
    texts = [_plain(text_of(one)) for one in cast("list[Any]", left)]
    between = _plain(text_of(separator))
    if sum(map(len, texts)) + len(texts) * len(between) > MAX_TEXT_CHARACTERS:
        raise TooLong(f"It grows beyond {MAX_TEXT_CHARACTERS} characters.")
    return _weighed(between.join(texts), context)


@with_context
def _default(left: Any, instead: Any = "", *, allow_false: Any = False, context: "Context") -> Any:
    """Return ``left``; ``instead`` where it is missing, null, false or empty."""
    return _weighed(misc.default(left, instead, allow_false=allow_false), context)


@with_context
def _date(left: Any, form: Any, *, context: "Context") -> str:
    return _weighed(date(_plain(text_of(left)), _plain(text_of(form))), context)


@with_context
def _sum(left: Any, key: Any = None, *, context: "Context") -> int | float:
    """Add up numbers, or the members called ``key``."""
    if not isinstance(left, list):
        raise Unrenderable("It adds up lists.")
    total: int | float = 0
    for one in cast("list[Any]", left):
        context.budget.spend(1)
        added = one if key is None else cast("dict[Any, Any]", one)[key]
        total = numbers.plus(total, _number(added))
    return _finite(total)


FILTERS: dict[str, Filter] = {
    "append": _of_text(string.append, keeps_markup=True),
    "capitalize": _of_text(string.capitalize),
    "downcase": _of_text(string.downcase),
    "escape": _of_text(string.escape),
    "escape_once": _of_text(string.escape_once),
    "lstrip": _of_text(string.lstrip),
    "newline_to_br": _of_text(string.newline_to_br),
    "prepend": _of_text(string.prepend, keeps_markup=True),
    "remove": _of_text(string.remove),
    "remove_first": _of_text(string.remove_first),
    "replace": _of_text(_replace),
    "replace_first": _of_text(string.replace_first),
    "rstrip": _of_text(string.rstrip),
    "slice": _of_text(string.slice_),
    "split": _of_text(string.split),
    "squish": _of_text(string.squish),
    "strip": _of_text(string.strip),
    "strip_newlines": _of_text(string.strip_newlines),
    "truncate": _of_text(string.truncate),
    "truncatewords": _of_text(string.truncatewords),
    "upcase": _of_text(string.upcase),
    "url_encode": _of_text(string.url_encode),
    "abs": _of_number(numbers.abs_),
    "at_least": _of_number(numbers.at_least),
    "at_most": _of_number(numbers.at_most),
    "ceil": _of_number(numbers.ceil),
    "divided_by": _of_number(numbers.divided_by),
    "floor": _of_number(numbers.floor),
    "minus": _of_number(numbers.minus),
    "modulo": _of_number(numbers.modulo),
    "plus": _of_number(numbers.plus),
    "round": _of_number(numbers.round_),
    "times": _of_number(numbers.times),
    "compact": _of_list(array.compact),
    "concat": _of_list(array.concat),
    "map": _of_list(array.map_),
    "reverse": _of_list(array.reverse),
    "sort": _of_list(array.sort),
    "sort_natural": _of_list(array.sort_natural),
    "where": _of_list(array.where),
    "first": _of_any(array.first),
    "last": _of_any(array.last),
    "size": _of_any(misc.size),
    "join": _join,
    "sum": _sum,
    "default": _default,
    "date": _date,
}
