"""From a version and its values to words, the same every time."""

from collections.abc import Mapping
from typing import Any

from functions.core.errors import SendoffError
from functions.core.states import Channel
from functions.templates.budget import Budget
from functions.templates.choice import words_of
from functions.templates.engine import Compiled, compiled
from functions.templates.errors import Malformed, Unrenderable
from functions.templates.values import canonical, data_faults, one_line

HTML = "html"
ONE_LINE = frozenset({"subject", "title"})
_KEEPS_LINES = {(Channel.EMAIL, "text"), (Channel.EMAIL, HTML)}
"""Elsewhere a value brings no line break with it; those of the template itself stay."""


class Values:
    """The values of one notification in the form that templates read."""

    def __init__(self, data: Any) -> None:
        """Raise Unrenderable for values that no template may be given."""
        for fault in data_faults(data):
            raise Unrenderable(fault.detail)
        self._data = data
        self._forms: dict[bool, dict[str, Any]] = {}

    def form(self, *, flat: bool) -> dict[str, Any]:
        if flat not in self._forms:
            self._forms[flat] = canonical(self._data, flat=flat)
        return self._forms[flat]


def render(
    document: Mapping[str, Any], *, channel: str, locale: str, data: Any
) -> dict[str, str] | str:
    """Return the content that a version gives in one of its locales (``locale_of``).

    Email: subject, and text or html or both; SMS: a string; push: title, body or both. Raises
    Unrenderable; never for what ``check_use`` found right.
    """
    try:
        words = words_of(document, channel, locale)
        return render_words(words, channel=channel, values=Values(data), budget=Budget())
    except (Malformed, KeyError) as error:
        detail = error.detail if isinstance(error, SendoffError) else "There are no such words."
        raise Unrenderable(detail) from error


def render_words(
    words: Mapping[str, str], *, channel: str, values: Values, budget: Budget
) -> dict[str, str] | str:
    """Return the content of these sources by part; raise Malformed or Unrenderable."""
    content = {
        part: _render_part(part, source, channel=channel, values=values, budget=budget)
        for part, source in words.items()
    }
    return content["text"] if channel == Channel.SMS else content


def compiled_part(part: str, source: str) -> Compiled:
    return compiled(source, is_html=part == HTML)


def _render_part(part: str, source: str, *, channel: str, values: Values, budget: Budget) -> str:
    budget.read(source)
    form = values.form(flat=(channel, part) not in _KEEPS_LINES)
    share = budget.part()
    try:
        text = compiled_part(part, source).render(form, budget=share)
    except Unrenderable as error:
        raise type(error)(f"{part}: {error.detail}") from error
    finally:
        budget.settle(share)
    return one_line(text).strip() if part in ONE_LINE else text
