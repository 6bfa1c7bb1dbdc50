"""What may be set of a channel or a stream: a reader for each value, and what must hold of all.

The readers take what JSON made of a value, and say what is wrong with it in a sentence.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from functions.console.arguments import Reader, Wrong, flag, one_of, text
from functions.core.errors import RequestRefused
from functions.core.retry import Curve, UnknownPolicy
from functions.core.states import Channel
from functions.core.stream import setting_of
from functions.providers.choice import NAMES
from functions.store.tuning import ChannelTuning

CENTURY_SECONDS = 3_155_760_000
"""As much as the table bears."""

MAX_RATE = 100_000
"""A second: beyond it there is a mistake, not a provider."""

MAX_ADDRESS_CHARACTERS = 2048
MAX_SETTINGS, MAX_SETTINGS_CHARACTERS = 30, 4096

TIMEOUTS_IN_A_LEASE = 6
"""A message is invisible for six timeouts of its sender (infra/config.py), and leased for longer.
"""

GATEWAYS = frozenset({"http", "http_keyless"})
"""They serve every channel, at an address of their own."""

SERVES: Mapping[str, Channel] = {
    "ses": Channel.EMAIL,
    "sms": Channel.SMS,
    "push": Channel.PUSH,
    "webhook": Channel.WEBHOOK,
}
"""The only channel of the others."""

_SETTING = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_ADDRESS = re.compile(r"[\x21-\x7e]+", re.ASCII)


def amount(
    *, above: float | None = None, least: float = 0.0, most: float
) -> Callable[[Any], float]:
    """Return the reader of a number above ``above``, or from ``least`` on, to ``most``."""
    begins = f"from {least:,g}" if above is None else f"above {above:,g}"

    def read(value: Any) -> float:
        if (
            type(value) not in (int, float)
            or not math.isfinite(value)
            or value > most
            or (value < least if above is None else value <= above)
        ):
            raise Wrong(f"It is a number {begins} to {most:,}.")
        return float(value)

    return read


def whole(least: int, most: int) -> Callable[[Any], int]:
    """Return the reader of a whole number."""

    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise Wrong(f"It is a whole number from {least:,} to {most:,}.")
        return value

    return read


def one_of_names(names: frozenset[str]) -> Callable[[Any], str]:
    """Return the reader of one of ``names``."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise Wrong(f"It is one of {', '.join(sorted(names))}.")
        return value

    return read


def address(value: Any) -> str:
    """Read a URL that a provider is called at. Whoever has it must not have a password as well."""
    wrong = Wrong(
        f"It is an http or https URL of at most {MAX_ADDRESS_CHARACTERS} characters, without user "
        "name, query or fragment."
    )
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value[: MAX_ADDRESS_CHARACTERS + 1]):
        raise wrong
    try:
        parts = urlsplit(value)
        has_host, _ = bool(parts.hostname), parts.port
    except ValueError:
        raise wrong from None
    if (
        len(value) > MAX_ADDRESS_CHARACTERS
        or parts.scheme not in ("http", "https")
        or not has_host
        or "@" in parts.netloc
        or "?" in value
        or "#" in value
    ):
        raise wrong
    return value


def named_settings(value: Any) -> dict[str, Any]:
    """Read what one provider alone knows: names, each with its value; null takes one away."""
    if not isinstance(value, dict) or not 0 < len(cast("dict[str, Any]", value)) <= MAX_SETTINGS:
        raise Wrong(f"It is an object of 1 to {MAX_SETTINGS} names with their values.")
    named = cast("dict[str, Any]", value)
    if not all(_SETTING.fullmatch(name) for name in named):
        raise Wrong("Its names are of a-z, 0-9 and _, and begin with a letter.")
    if len(json.dumps(named)) > MAX_SETTINGS_CHARACTERS:
        raise Wrong(f"As JSON it has at most {MAX_SETTINGS_CHARACTERS} characters.")
    return named


def merged(
    before: Mapping[str, Any], named: Mapping[str, Any], *, channel: Channel
) -> dict[str, Any]:
    """Return the settings ``before`` with those that are named; raise RequestRefused."""
    after = dict(before)
    for name, value in named.items():
        # What an earlier version let in can still be taken away.
        is_left_over = value is None and name in before
        after[name] = None if is_left_over else setting_of(channel, name, value)
    return {name: value for name, value in after.items() if value is not None}


_rate = amount(above=0, most=MAX_RATE)
_burst = amount(least=1, most=MAX_RATE)
_duration = amount(above=0, most=CENTURY_SECONDS)
_wait = amount(least=0, most=CENTURY_SECONDS)
_provider = one_of_names(NAMES)

OF_CHANNEL: Mapping[str, Reader] = {
    "provider": _provider,
    "provider_url": address,
    "fallback_provider": _provider,
    "fallback_provider_url": address,
    "rate": _rate,
    "burst": _burst,
    "max_in_flight": whole(1, 100_000),
    "page": whole(1, 1_000),
    "provider_deadline_seconds": amount(above=0, most=900),
    "retries": flag,
    "backoff_curve": one_of(Curve),
    "backoff_base_seconds": _duration,
    "backoff_cap_seconds": _duration,
    "max_attempts": whole(1, 1_000),
    "waiting_limit_seconds": _wait,
    "check_base_seconds": _duration,
    "check_cap_seconds": _duration,
    "cutoff_seconds": _duration,
    "grace_seconds": _wait,
    "unknown_policy": one_of(UnknownPolicy),
    "poll_rate": amount(least=0, most=MAX_RATE),
    "endpoint_concurrency": whole(1, 1_000),
    "fallback_after_seconds": _duration,
}
CLEARED_OF_CHANNEL = frozenset({"provider_url", "fallback_provider", "fallback_provider_url"})

OF_STREAM: Mapping[str, Reader] = {
    "sender_identity": text,
    "configuration_set": text,
    "settings": named_settings,
    "rate": _rate,
    "burst": _burst,
    "paused": flag,
}
CLEARED_OF_STREAM = frozenset({"sender_identity", "configuration_set", "rate"})


def settings_of(readers: Mapping[str, Reader]) -> Callable[[Any], dict[str, Any]]:
    """Return the reader of an object with some of the names in ``readers``; every fault is told."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Wrong("It is an object of names with their values.")
        values: dict[str, Any] = {}
        faults: list[str] = []
        for name, one in cast("dict[str, Any]", value).items():
            if name not in readers:
                raise Wrong(f"Its names are some of {', '.join(readers)}.")
            try:
                values[name] = readers[name](one)
            except Wrong as wrong:
                faults.append(f"{name}: {wrong}")
        if faults:
            raise Wrong(" ".join(faults))
        return values

    return read


def check_channel(tuning: ChannelTuning, *, channel: Channel) -> None:
    """Raise RequestRefused where the values, each of them possible, do not go together."""
    _check_provider(tuning.provider, tuning.provider_url, channel=channel, prefix="")
    if tuning.fallback_provider is not None:
        _check_provider(
            tuning.fallback_provider,
            tuning.fallback_provider_url,
            channel=channel,
            prefix="fallback_",
        )
        if tuning.fallback_provider == tuning.provider:
            raise RequestRefused("fallback_provider: It is another one than provider.")
    if tuning.provider_deadline_seconds >= (most := tuning.lease_seconds / TIMEOUTS_IN_A_LEASE):
        raise RequestRefused(
            f"provider_deadline_seconds: It is less than {most:g}, a sixth of the lease "
            f"({tuning.lease_seconds:g} s). A sender is cut off by its timeout: that is a sixth of "
            "the visibility that the lease covers."
        )
    if tuning.backoff_cap_seconds < tuning.backoff_base_seconds:
        raise RequestRefused("backoff_cap_seconds: It is not less than backoff_base_seconds.")
    if tuning.check_cap_seconds < tuning.check_base_seconds:
        raise RequestRefused("check_cap_seconds: It is not less than check_base_seconds.")


def _check_provider(name: str, url: str | None, *, channel: Channel, prefix: str) -> None:
    if name in SERVES and SERVES[name] != channel:
        raise RequestRefused(f"{prefix}provider: {name} does not send {channel}.")
    if name in GATEWAYS and url is None:
        raise RequestRefused(f"{prefix}provider_url: {name} is called at an address of its own.")
