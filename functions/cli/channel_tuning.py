"""What `sendoff channel set` and `stream` take, and how what came of it is told."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from functions.cli.listing import NOTHING, say
from functions.core.states import Channel, Stream
from functions.core.stream import SETTINGS

TAKES_EFFECT = "Whoever works on the channel does so by this within 10 seconds."

OfChannel = Annotated[Channel, typer.Argument(help="The channel.", show_default=False)]
OfStream = Annotated[Stream, typer.Argument(help="The stream of it.", show_default=False)]


class OnOff(StrEnum):
    ON = "on"
    OFF = "off"


class ClearedOfChannel(StrEnum):
    """What a channel can do without."""

    PROVIDER_URL = "provider-url"
    FALLBACK_PROVIDER = "fallback-provider"
    FALLBACK_PROVIDER_URL = "fallback-provider-url"


class ClearedOfStream(StrEnum):
    """What a stream can do without."""

    IDENTITY = "identity"
    CONFIGURATION_SET = "configuration-set"
    RATE = "rate"

    @property
    def column(self) -> str:
        return "sender_identity" if self is ClearedOfStream.IDENTITY else column_of(self)


def column_of(option: str) -> str:
    return option.replace("-", "_")


def number(text: str) -> float:
    """Read a number of the command line; the console knows which ones can be."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise typer.BadParameter("It is a number.")
    return value


_SETTING = re.compile(r"([a-z][a-z0-9_]*)=(.*)", re.ASCII | re.DOTALL)


def read_named(pairs: list[str] | None, *, channel: Channel) -> dict[str, Any] | None:
    """Read name=value pairs. A value is JSON where it can be read as such, else a text; without
    one the setting is taken away."""
    if not pairs:
        return None
    named: dict[str, Any] = {}
    for pair in pairs:
        match = _SETTING.fullmatch(pair)
        if match is None:
            raise typer.BadParameter("It is name=value, or name= to take it away.")
        name, text = match.groups()
        if name in named:
            raise typer.BadParameter(f"{name} is given twice.")
        setting = SETTINGS[channel].get(name)
        named[name] = _value(text, is_text=setting is not None and setting.is_text)
    return named


def _value(text: str, *, is_text: bool) -> Any:
    """Return what was typed; of a text only what is in quotes, brackets or braces is JSON."""
    if not text:
        return None
    try:
        value = json.loads(text, parse_constant=lambda name: name)
    except ValueError:
        return text
    is_plain = not text.startswith(('"', "[", "{"))
    return text if is_plain and (is_text or isinstance(value, str)) else value


def given(settings: Mapping[str, Any], clear: Sequence[str] | None) -> dict[str, Any]:
    """Return the settings that were given; none, and nothing to clear, is a matter of usage."""
    found = {name: value for name, value in settings.items() if value is not None}
    if not found and not clear:
        raise typer.BadParameter("There is nothing to change; name it by options.")
    return found


def tell_changes(done: Mapping[str, Any]) -> None:
    """Write line by line what changed."""
    changed: Mapping[str, Any] = done["changed"]
    for name, change in changed.items():
        say(f"{name}: {shown(change['was'])} -> {shown(change['is'])}")
    say(TAKES_EFFECT if changed else "Nothing changed: it was so before.")


def shown(value: Any) -> str:
    """Return a value as it is typed."""
    match value:
        case None:
            return NOTHING
        case bool():
            return OnOff.ON if value else OnOff.OFF
        case float() if value.is_integer():
            return str(int(value))
        case dict() | list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)
