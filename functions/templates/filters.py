"""The filters that templates have: those of the library, between limits of ours, and our own.

None makes a value HTML, reads the clock, or draws a lot.
"""

import inspect
from typing import TYPE_CHECKING, Any, cast

from liquid.builtin.filters import array, misc, string
from liquid.builtin.filters import math as numbers
from liquid.filter import with_context
from markupsafe import Markup, escape

from functions.templates.budget import CHARACTERS_PER_STEP
from functions.templates.dates import date, steps_of
from functions.templates.errors import Unrenderable
from functions.templates.values import text_of
from functions.templates.wrapping import (
    MAX_TEXT_CHARACTERS,
    Filter,
    finite,
    number,
    of_any,
    of_list,
    of_number,
    of_text,
    of_two_texts,
    plain,
    search,
    searching,
    too_long,
    weighed,
)

if TYPE_CHECKING:
    from functions.templates.nodes import Context

_SUM_STEPS = 4
_ENTITY_STEPS = 3
_ENTITY_CHARACTERS = 6
"""Of the longest that ``escape`` makes of one character."""


@with_context
def _replace(left: Any, old: Any, new: Any = "", *, context: "Context") -> str:
    text, old, new = text_of(left), plain(text_of(old)), plain(text_of(new))
    written = escape(new) if isinstance(text, Markup) else new  # as the library does
    for _ in range(2):  # to count it, and to replace it
        search(text, old, context)
    context.budget.weigh([old, written])
    count = text.count(old)
    size = len(text) + count * (len(written) - len(old))
    if size > MAX_TEXT_CHARACTERS:
        raise too_long()
    context.budget.spend(1 + count // 8 + size // CHARACTERS_PER_STEP)
    return weighed(string.replace(text, old, written), context)


@with_context
def _escape_once(left: Any, *, context: "Context") -> str:
    text = text_of(left)
    context.budget.weigh(text)
    context.budget.spend(text.count("&") * _ENTITY_STEPS)
    size = len(text) * _ENTITY_CHARACTERS
    context.budget.spend(size // CHARACTERS_PER_STEP)
    return weighed(string.escape_once(text, environment=context.env), context)


@with_context
def _join(left: Any, separator: Any = " ", *, context: "Context") -> str:
    """Join the texts of a list. In an HTML part the whole is escaped where it is written."""
    if not isinstance(left, list):
        raise Unrenderable("It joins lists.")
    context.budget.weigh([left, separator])
    texts = [plain(text_of(one)) for one in cast("list[Any]", left)]
    between = plain(text_of(separator))
    size = sum(map(len, texts)) + len(texts) * len(between)
    if size > MAX_TEXT_CHARACTERS:
        raise too_long()
    context.budget.spend(size // CHARACTERS_PER_STEP)
    return weighed(between.join(texts), context)


@with_context
def _default(left: Any, instead: Any = "", *, allow_false: Any = False, context: "Context") -> Any:
    """Return ``left``; ``instead`` where it is missing, null, false or empty."""
    return weighed(misc.default(left, instead, allow_false=allow_false), context)


@with_context
def _date(left: Any, form: Any, *, context: "Context") -> str:
    moment, written = plain(text_of(left)), plain(text_of(form))
    context.budget.spend(steps_of(written))
    return weighed(date(moment, written), context)


@with_context
def _sum(left: Any, key: Any = None, *, context: "Context") -> int | float:
    """Add up numbers, or the members called ``key``."""
    if not isinstance(left, list):
        raise Unrenderable("It adds up lists.")
    total: int | float = 0
    for one in cast("list[Any]", left):
        context.budget.spend(_SUM_STEPS)
        added = one if key is None else cast("dict[Any, Any]", one)[key]
        total = numbers.plus(total, number(added))
    return finite(total)


_OF_TEXT: dict[str, tuple[Filter, int]] = {
    "capitalize": (string.capitalize, 64),
    "downcase": (string.downcase, 64),
    "escape": (string.escape, 32),
    "lstrip": (string.lstrip, 64),
    "newline_to_br": (string.newline_to_br, 8),
    "rstrip": (string.rstrip, 64),
    "slice": (string.slice_, 64),
    "split": (string.split, 8),
    "squish": (string.squish, 16),
    "strip": (string.strip, 64),
    "strip_newlines": (string.strip_newlines, 8),
    "truncate": (string.truncate, 64),
    "truncatewords": (string.truncatewords, 8),
    "upcase": (string.upcase, 64),
    "url_encode": (string.url_encode, 8),
}
"""Filters of a text, with the characters that they handle in a step, at the least."""

_OF_TWO_TEXTS: dict[str, Filter] = {"append": string.append, "prepend": string.prepend}

_SEARCHING: dict[str, Filter] = {
    "remove": string.remove,
    "remove_first": string.remove_first,
    "replace_first": string.replace_first,
}

_OF_NUMBER: dict[str, Filter] = {
    "abs": numbers.abs_,
    "at_least": numbers.at_least,
    "at_most": numbers.at_most,
    "ceil": numbers.ceil,
    "divided_by": numbers.divided_by,
    "floor": numbers.floor,
    "minus": numbers.minus,
    "modulo": numbers.modulo,
    "plus": numbers.plus,
    "round": numbers.round_,
    "times": numbers.times,
}

_OF_LIST: dict[str, Filter] = {
    "compact": array.compact,
    "concat": array.concat,
    "map": array.map_,
    "reverse": array.reverse,
    "where": array.where,
}
_SORTING: dict[str, Filter] = {"sort": array.sort, "sort_natural": array.sort_natural}
_OF_ANY: dict[str, Filter] = {"first": array.first, "last": array.last, "size": misc.size}
_OWN: dict[str, Filter] = {
    "date": _date,
    "default": _default,
    "escape_once": _escape_once,
    "join": _join,
    "replace": _replace,
    "sum": _sum,
}

FILTERS: dict[str, Filter] = {
    **{name: of_text(call, per_step=least) for name, (call, least) in _OF_TEXT.items()},
    **{name: of_two_texts(call) for name, call in _OF_TWO_TEXTS.items()},
    **{name: searching(call) for name, call in _SEARCHING.items()},
    **{name: of_number(call) for name, call in _OF_NUMBER.items()},
    **{name: of_list(call) for name, call in _OF_LIST.items()},
    **{name: of_list(call, is_sorting=True) for name, call in _SORTING.items()},
    **{name: of_any(call) for name, call in _OF_ANY.items()},
    **_OWN,
}


def _arguments(call: Filter) -> range:
    """Return how many arguments a filter may be given."""
    places = [
        one.default is not inspect.Parameter.empty
        for one in inspect.signature(call).parameters.values()
        if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ][1:]
    return range(places.count(False), len(places) + 1)


ARGUMENTS: dict[str, range] = {
    name: _arguments(call)
    for name, call in (
        *((name, call) for name, (call, _) in _OF_TEXT.items()),
        *(_OF_TWO_TEXTS | _SEARCHING | _OF_NUMBER | _OF_LIST | _SORTING | _OF_ANY | _OWN).items(),
    )
}
"""How many arguments each may be given."""
