"""Faults that are switched on for everybody: latency, errors, an outage, withheld callbacks."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, cast

from functions.core.states import Channel

MAX_LATENCY_SECONDS = 3600


class Outage(StrEnum):
    NONE = "none"
    UNAVAILABLE = "503"
    REFUSE = "refuse"
    """The connection is reset and nothing is accepted."""
    HANG = "hang"
    """Nothing is answered and nothing is accepted."""


class BadFault(ValueError):
    """A member of the request is unknown or has an impossible value."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What is switched on. ``channels`` narrows the first three; empty means all channels."""

    latency_seconds: float = 0.0
    error_rate: float = 0.0
    outage: Outage = Outage.NONE
    callbacks: bool = True
    channels: frozenset[Channel] = frozenset()

    def concern(self, channel: str) -> bool:
        return not self.channels or channel in self.channels

    def fails_now(self, draw: Callable[[], float] = random.random) -> bool:
        """Whether this request is among the ``error_rate`` that fail."""
        return self.error_rate > 0 and draw() < self.error_rate

    def changed(self, wanted: Any) -> "Faults":
        """Return these faults with the members of ``wanted`` replaced; raise BadFault."""
        if not isinstance(wanted, dict):
            raise BadFault("The body is an object.")
        values: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        for name, value in cast(dict[str, Any], wanted).items():
            read = _READERS.get(name)
            if read is None:
                raise BadFault(f"There is no {name!r}; there are {', '.join(_READERS)}.")
            values[name] = read(name, value)
        return Faults(**values)

    def as_json(self) -> dict[str, Any]:
        return {
            "latency_seconds": self.latency_seconds,
            "error_rate": self.error_rate,
            "outage": self.outage.value,
            "callbacks": self.callbacks,
            "channels": sorted(self.channels),
        }


def _number(name: str, value: object, *, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise BadFault(f"{name} is a number from 0 to {most:g}.")
    return float(value)


def _latency(name: str, value: object) -> float:
    return _number(name, value, most=MAX_LATENCY_SECONDS)


def _rate(name: str, value: object) -> float:
    return _number(name, value, most=1)


def _outage(name: str, value: object) -> Outage:
    try:
        return Outage(str(value))
    except ValueError:
        raise BadFault(f"{name} is one of {', '.join(Outage)}.") from None


def _boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadFault(f"{name} is true or false.")
    return value


def _channels(name: str, value: object) -> frozenset[Channel]:
    try:
        if isinstance(value, list):
            return frozenset(Channel(one) for one in cast(list[Any], value))
    except ValueError:
        pass
    raise BadFault(f"{name} is a list of {', '.join(Channel)}.")


_READERS: Mapping[str, Callable[[str, object], Any]] = {
    "latency_seconds": _latency,
    "error_rate": _rate,
    "outage": _outage,
    "callbacks": _boolean,
    "channels": _channels,
}
