"""From a version and its values to words, the same every time."""

from collections.abc import Mapping
from typing import Any

from functions.core.errors import SendoffError
from functions.core.states import Channel
from functions.templates.budget import (
    IN_A_NOTIFICATION,
    IN_A_PART,
    NOTIFICATION_STEPS,
    PART_STEPS,
    Budget,
)
from functions.templates.choice import words_of
from functions.templates.engine import Compiled, compiled, reading_steps
from functions.templates.errors import Malformed, Overdrawn, Unrenderable
from functions.templates.values import Values, one_line

HTML = "html"
_KEEPS_LINES = {(Channel.EMAIL, "text"), (Channel.EMAIL, HTML)}
"""Everything else is one line: no line break of a value, and none of the template."""

_BEGINNING_STEPS = 10
"""To render nothing."""


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
    with budget.within(NOTIFICATION_STEPS, IN_A_NOTIFICATION) as share:
        content = {
            part: _render_part(part, source, channel=channel, values=values, budget=share)
            for part, source in words.items()
        }
    return content["text"] if channel == Channel.SMS else content


def compiled_part(part: str, source: str) -> Compiled:
    return compiled(source, is_html=part == HTML)


def read_part(part: str, source: str, budget: Budget) -> Compiled:
    """Return a source compiled, and paid for before that; raise Malformed or Exhausted."""
    is_html = part == HTML
    steps = reading_steps(source, is_html=is_html)
    budget.read(source, is_html=is_html, steps=steps)
    return compiled_part(part, source)


def _render_part(part: str, source: str, *, channel: str, values: Values, budget: Budget) -> str:
    try:
        with budget.within(PART_STEPS, IN_A_PART) as share:
            share.spend(_BEGINNING_STEPS)
            text = compiled_part(part, source).render(values.form, budget=share)
            if (channel, part) in _KEEPS_LINES:
                return text
            share.weigh(text)
            return one_line(text)
    except Overdrawn:
        raise
    except Unrenderable as error:
        raise type(error)(f"{part}: {error.detail}") from error
