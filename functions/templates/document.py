"""May this document be a version? Its shape, and every source of it read."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, cast

from functions.core.content import encoded_bytes, is_too_deep, pointer_token
from functions.core.errors import Fault
from functions.core.states import Channel
from functions.core.strict_json import MAX_FAULTS
from functions.templates.budget import PLACE_READING_STEPS, VERSION_READING_STEPS, Budget
from functions.templates.choice import PARTS, is_locale, words_of
from functions.templates.errors import Exhausted, Malformed
from functions.templates.render import read_part

MAX_DOCUMENT_BYTES = 256 * 1024
MAX_LOCALES = 50
"""Of a channel."""

# What a recipient cannot do without, one part of each group.
_NEEDED: dict[str, tuple[tuple[str, ...], ...]] = {
    Channel.EMAIL: (("subject",), ("text", "html")),
    Channel.SMS: (("text",),),
    Channel.PUSH: (("title", "body"),),
}
_DEPTH = 4  # of a document itself: channels, locales, parts


def check_document(document: Any) -> list[Fault]:
    """Return what keeps ``document`` from being a version, by pointers into it; up to 100."""
    if not isinstance(document, dict):
        return [Fault("", "wrong_type", "A version is an object.")]
    members = cast("dict[str, Any]", document)
    if is_too_deep(members, most=_DEPTH):
        return [Fault("", "wrong_type", "A version holds channels, locales and texts.")]
    if encoded_bytes(members) > MAX_DOCUMENT_BYTES:
        detail = f"A version has at most {MAX_DOCUMENT_BYTES} bytes as JSON."
        return [Fault("", "too_long", detail)]
    faults = _unknown("", members, ("channels", "default_locale"))
    channels = _members("/channels", members.get("channels"), faults)
    default = members.get("default_locale")
    if default is None:
        faults.append(Fault("/default_locale", "required", "It is required."))
    elif not isinstance(default, str):
        faults.append(Fault("/default_locale", "wrong_type", "It is a string."))
    faults += _unknown("/channels", channels, tuple(PARTS), "There are no templates for it.")
    for channel in PARTS:
        if channels.get(channel) is not None:
            _check_channel(channel, channels[channel], default, faults)
    if not faults and not any(channels.get(channel) for channel in PARTS):
        faults.append(Fault("/channels", "required", "There is at least one channel."))
    return (faults or _faults_of_sources(members))[:MAX_FAULTS]


def _check_channel(channel: str, value: Any, default: Any, faults: list[Fault]) -> None:
    here = f"/channels/{channel}"
    locales = _members(here, value, faults)
    if len(locales) > MAX_LOCALES:
        faults.append(Fault(here, "too_many", f"There are at most {MAX_LOCALES} locales."))
        return
    seen: set[str] = set()
    for locale, parts in locales.items():
        there = f"{here}/{pointer_token(locale)}"
        if not is_locale(locale) or locale.lower() in seen:
            detail = "A locale is a language tag, like de or de-AT, and stands once."
            faults.append(Fault(there, "not_allowed", detail))
        seen.add(locale.lower())
        _check_parts(there, channel, parts, faults)
    if isinstance(default, str) and default not in locales:
        detail = f"The default locale is one of the locales of {channel}."
        faults.append(Fault("/default_locale", "not_allowed", detail))


def _check_parts(here: str, channel: str, value: Any, faults: list[Fault]) -> None:
    parts = _members(here, value, faults)
    faults += _unknown(here, parts, PARTS[channel])
    for part in PARTS[channel]:
        if not isinstance(parts.get(part), str | None):
            faults.append(Fault(f"{here}/{part}", "wrong_type", "It is a string."))
    for group in _NEEDED[channel]:
        if not any(parts.get(part) for part in group):
            where = f"{here}/{group[0]}" if len(group) == 1 else here
            faults.append(Fault(where, "required", f"It needs {' or '.join(group)}."))


def _faults_of_sources(document: Mapping[str, Any]) -> list[Fault]:
    """Read every source; a version that takes too long to read would hold up every request, and a
    language that does every sender."""
    channels: Mapping[str, Any] = document["channels"]
    budget = Budget(VERSION_READING_STEPS, "The version has too many statements.", Exhausted)
    faults: list[Fault] = []
    for channel in PARTS:
        for locale in channels.get(channel) or ():
            here = f"/channels/{channel}/{pointer_token(locale)}"
            words = words_of(document, channel, locale)
            with budget.within(PLACE_READING_STEPS, _TOO_MANY) as share:
                faults += _faults_of_place(here, channel, words, share)
            if faults and faults[-1].code == "too_long":
                return faults
    return faults


_TOO_MANY = "It has, with the other parts of this language, too many statements."


def _faults_of_place(
    here: str, channel: str, words: Mapping[str, str], budget: Budget
) -> list[Fault]:
    faults: list[Fault] = []
    writing: set[str] = set()
    for part, source in words.items():
        try:
            if not read_part(part, source, budget).is_blank:
                writing.add(part)
        except Malformed as error:
            faults.append(Fault(f"{here}/{part}", "not_allowed", error.detail))
        except Exhausted as error:
            return [*faults, Fault(f"{here}/{part}", "too_long", error.detail)]
    if faults:
        return faults
    return [
        Fault(f"{here}/{given[0]}", "required", "It is empty, whatever the values are.")
        for group in _NEEDED[channel]
        if (given := [part for part in group if part in words]) and not writing.intersection(group)
    ]


def _members(here: str, value: Any, faults: list[Fault]) -> dict[str, Any]:
    """Return the members of an object; none, and a fault, of anything else."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    code, detail = ("required", "It is required.") if value is None else ("wrong_type", _OBJECT)
    faults.append(Fault(here, code, detail))
    return {}


_OBJECT = "It is an object."


def _unknown(
    here: str,
    members: Iterable[str],
    known: tuple[str, ...],
    detail: str = "There is no such field.",
) -> list[Fault]:
    unknown = islice((name for name in members if name not in known), MAX_FAULTS)
    return [Fault(f"{here}/{pointer_token(name)}", "unknown_field", detail) for name in unknown]
