"""What lies around the filters of the library: which values each may be given, what it pays, and
how large what it gives may grow.

None writes a list, an object or nothing the way Python shows them; each pays for what it is about
to do, by the sizes of what it is given and of what it gives.
"""

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from liquid.filter import with_context

from functions.templates.budget import CHARACTERS_PER_STEP
from functions.templates.errors import TooLong, Unrenderable
from functions.templates.values import text_of

if TYPE_CHECKING:
    from functions.templates.nodes import Context

Filter = Callable[..., Any]

MAX_TEXT_CHARACTERS = 500_000
"""Of what a filter gives: as much as a part may hold."""
MAX_NUMBER = 2**63
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?", re.ASCII)
_NEEDLE_CHARACTERS = 32
"""So many characters of what is searched for make a search take as long again, at the worst."""
_NEEDLE_AT_MOST = 100
_NUMBER_STEPS = 2
"""Of a calculation: it is made with decimals, digit by digit."""


def of_text(call: Filter, *, per_step: int = CHARACTERS_PER_STEP) -> Filter:
    """Return a filter of a text, with texts and numbers as arguments.

    ``per_step``: the characters of the text that a step handles, at the least. An argument is text
    like any other: ``replace`` must not turn an escaped value into markup.
    """

    @with_context
    def filter_text(left: Any, *arguments: Any, context: "Context") -> Any:
        text = text_of(left)
        given = [_argument(one) for one in arguments]
        context.budget.spend(1 + len(text) // per_step)
        context.budget.weigh(given)
        return weighed(_call(call, context, text, *given), context)

    return filter_text


def of_two_texts(call: Filter) -> Filter:
    """Return a filter that puts a text and another together. What the template's author writes as
    the argument stays HTML in an HTML part; what is known to be none is escaped."""

    @with_context
    def filter_texts(left: Any, other: Any, *, context: "Context") -> Any:
        texts = [text_of(left), text_of(other)]
        context.budget.weigh([texts, texts])  # what comes of them is as long
        if sum(map(len, texts)) > MAX_TEXT_CHARACTERS:
            raise too_long()
        return weighed(_call(call, context, *texts), context)

    return filter_texts


def searching(call: Filter) -> Filter:
    """Return a filter that looks for its first argument in a text, of which nothing grows."""

    @with_context
    def filter_searched(left: Any, *arguments: Any, context: "Context") -> Any:
        text = text_of(left)
        given = [plain(text_of(one)) for one in arguments]
        search(text, given[0] if given else "", context)
        context.budget.weigh(given)
        return weighed(_call(call, context, text, *given), context)

    return filter_searched


def search(text: str, needle: str, context: "Context") -> None:
    """Spend what it takes to look for ``needle`` in ``text``."""
    times = 1 + min(len(needle), _NEEDLE_AT_MOST) // _NEEDLE_CHARACTERS
    context.budget.spend(1 + times * len(text) // CHARACTERS_PER_STEP)


def of_number(call: Filter) -> Filter:
    """Return a filter of a number, or of a text that is one."""

    @with_context
    def filter_number(left: Any, *arguments: Any, context: "Context") -> int | float:
        context.budget.spend(_NUMBER_STEPS)
        given = [number(one) for one in arguments]
        return finite(_call(call, context, number(left), *given))

    return filter_number


def of_list(call: Filter, *, is_sorting: bool = False) -> Filter:
    """Return a filter of a list, with the name of a member and a value as arguments."""

    @with_context
    def filter_list(left: Any, *arguments: Any, context: "Context") -> Any:
        if not isinstance(left, list):
            raise Unrenderable("It filters lists.")
        elements = cast("list[Any]", left)
        given = [plain(one) if isinstance(one, str) else one for one in arguments]
        before = context.budget.left
        context.budget.weigh([elements, *given])
        if is_sorting:  # each element is compared with some others, as many as there are doublings
            weight = before - context.budget.left
            context.budget.spend(weight * weight.bit_length() // 4)
        return weighed(_call(call, context, elements, *given), context)

    return filter_list


def of_any(call: Filter) -> Filter:
    """Return a filter of a text, a list or an object."""

    @with_context
    def filter_any(left: Any, *, context: "Context") -> Any:
        if not isinstance(left, str | list | tuple | dict):
            raise Unrenderable("It filters texts, lists and objects.")
        return weighed(_call(call, context, left), context)

    return filter_any


def _call(call: Filter, context: "Context", *arguments: Any) -> Any:
    if getattr(call, "with_environment", False):
        return call(*arguments, environment=context.env)
    if getattr(call, "with_context", False):
        return call(*arguments, context=context)
    return call(*arguments)


def weighed(value: Any, context: "Context") -> Any:
    if isinstance(value, str) and len(value) > MAX_TEXT_CHARACTERS:
        raise too_long()
    context.budget.weigh(value)
    return value


def too_long() -> TooLong:
    return TooLong(f"It grows beyond {MAX_TEXT_CHARACTERS} characters.")


def _argument(value: Any) -> Any:
    return value if type(value) is int else plain(text_of(value))


def plain(text: str) -> str:
    """Return a text that is no longer known to be HTML."""
    return str.__str__(text)


def number(value: Any) -> int | float:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value) if "." in value else int(value)
    if type(value) in (int, float):
        return finite(value)
    raise Unrenderable("It calculates with numbers.")


def finite(value: Any) -> int | float:
    if not math.isfinite(value) or abs(value) > MAX_NUMBER:
        raise Unrenderable("It calculates with numbers of up to 18 digits.")
    return value
