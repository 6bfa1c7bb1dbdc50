"""What a version holds, and which of its languages a recipient reads.

A version is ``{"channels": {channel: {locale: {part: source}}}, "default_locale"}``.
"""

import re
from collections.abc import Mapping
from typing import Any

from functions.core.states import Channel
from functions.templates.errors import Unrenderable

PARTS: dict[str, tuple[str, ...]] = {
    Channel.EMAIL: ("subject", "text", "html"),
    Channel.SMS: ("text",),
    Channel.PUSH: ("title", "body"),
}
"""The parts of each channel that has templates."""

NAME = r"^[a-z0-9][a-z0-9._-]{0,127}$"
LOCALE = r"^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,7}$"
"""A language tag (RFC 5646), as far as its form goes."""

_LOCALE = re.compile(LOCALE[:-1] + r"\Z")


def is_locale(text: str) -> bool:
    return _LOCALE.match(text) is not None


def locale_of(document: Mapping[str, Any], channel: str, wanted: str | None) -> str:
    """Return the locale of ``document`` to write in to somebody who reads ``wanted``.

    The same tag, in whatever case; else the tag shortened from its end (RFC 4647, 3.4): ``de-AT``
    finds ``de``; else the default. Raises Unrenderable when the channel has no words at all.
    """
    locales = document["channels"].get(channel)
    if not locales:
        raise Unrenderable(f"This version has no words for {channel}.")
    by_tag = {locale.lower(): locale for locale in locales}
    tag = (wanted or "").lower()
    while tag:
        if tag in by_tag:
            return by_tag[tag]
        tag = tag.rpartition("-")[0]
    return document["default_locale"]


def words_of(document: Mapping[str, Any], channel: str, locale: str) -> dict[str, str]:
    """Return the sources by part; a part that is null counts as absent."""
    parts = document["channels"][channel][locale]
    return {part: parts[part] for part in PARTS[channel] if parts.get(part) is not None}
