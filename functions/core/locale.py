"""Language tags (BCP 47), by their form: whether anybody speaks them is not asked.

Written as RFC 5646, 2.1.1 recommends: ``de``, ``de-AT``, ``zh-Hant-TW``, ``sl-rozaj``.
"""

import re

MAX_CHARACTERS = 35
"""What RFC 5646, 4.4.1 has every reader keep."""

_TAG = re.compile(
    r"(?:[a-z]{2,3}(?:-[a-z]{3}){0,3}|[a-z]{4,8})"  # language, with its extensions
    r"(?:-[a-z]{4})?"  # script
    r"(?:-(?:[a-z]{2}|[0-9]{3}))?"  # region
    r"(?P<variants>(?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*)"
    r"(?P<extensions>(?:-[0-9a-wy-z](?:-[a-z0-9]{2,8})+)*)"
    r"(?:-x(?:-[a-z0-9]{1,8})+)?",  # private use
    re.ASCII,
)


def normalise_locale(text: str) -> str | None:
    """Return the tag in its usual case; None when it is none."""
    lower = text.lower()
    if len(text) > MAX_CHARACTERS or not text.isascii():
        return None
    found = _TAG.fullmatch(lower)
    if found is None or _repeats(found):
        return None
    language, *rest = lower.split("-")
    tag = [language]
    for part in rest:
        after_singleton = any(len(before) == 1 for before in tag)
        if after_singleton or len(part) not in (2, 4) or part[0].isdigit():
            tag.append(part)
        else:
            tag.append(part.upper() if len(part) == 2 else part.title())
    return "-".join(tag)


def _repeats(tag: re.Match[str]) -> bool:
    """Return whether a variant is named twice, or two extensions are of one kind (2.2.5, 2.2.6)."""
    variants = tag["variants"].split("-")[1:]
    kinds = [part for part in tag["extensions"].split("-")[1:] if len(part) == 1]
    return any(len(set(parts)) < len(parts) for parts in (variants, kinds))
