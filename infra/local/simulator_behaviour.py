"""How the simulator treats a recipient: the behaviour is written in the address itself.

email    the local part up to ``+``                  flaky.2+0001@example.com
sms      +1555010 and four digits (SMS_TABLE)        +15550104002
push     sim-<behaviour>[.<number>][-anything]       sim-flaky.2-0001
webhook  <simulator>/hooks/<behaviour>[.<number>]/…  http://127.0.0.1:8081/hooks/flaky.2/0001

Whatever names no behaviour is ``ok``, so a developer's own address simply works.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from functions.core.states import Channel


class Kind(StrEnum):
    OK = "ok"
    TWICE = "twice"
    EARLY = "early"
    LATE = "late"
    SILENT = "silent"
    BOUNCE = "bounce"
    REJECT = "reject"
    FLAKY = "flaky"
    THROTTLE = "throttle"
    HANG = "hang"
    DROP = "drop"


NUMBERED = frozenset({Kind.LATE, Kind.FLAKY, Kind.THROTTLE})
"""``late.<seconds>``, ``flaky.<times>``, ``throttle.<seconds>``; the number defaults to 1."""

SMS_PREFIX = "+1555010"
SMS_TABLE: tuple[tuple[str, Kind], ...] = (
    (r"0\d{3}", Kind.OK),
    (r"1\d{3}", Kind.REJECT),
    (r"2\d{3}", Kind.BOUNCE),
    (r"3\d{3}", Kind.SILENT),
    (r"40(\d{2})", Kind.FLAKY),
    (r"50(\d{2})", Kind.THROTTLE),
    (r"6000", Kind.HANG),
    (r"6001", Kind.DROP),
    (r"6002", Kind.TWICE),
    (r"6003", Kind.EARLY),
    (r"61(\d{2})", Kind.LATE),
)

_KINDS = {kind.value: kind for kind in Kind}
_SMS = tuple((re.compile(re.escape(SMS_PREFIX) + digits), kind) for digits, kind in SMS_TABLE)
_NAME = re.compile(r"(?P<name>[a-z]+)(?:\.(?P<number>\d{1,5}))?")
_PUSH = re.compile(r"sim-([^-]*)(?:-.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One row of the table: ``number`` is seconds or times, 0 where the kind has none."""

    kind: Kind
    number: int = 0

    def __str__(self) -> str:
        return f"{self.kind}.{self.number}" if self.kind in NUMBERED else str(self.kind)


OK = Behaviour(Kind.OK)


def behaviour_of(channel: str, recipient: str) -> Behaviour:
    """Return the behaviour that ``recipient`` asks for."""
    match channel:
        case Channel.EMAIL:
            return _named(recipient.rpartition("@")[0].partition("+")[0])
        case Channel.SMS:
            return _numbered(recipient)
        case Channel.PUSH:
            token = _PUSH.fullmatch(recipient)
            return _named(token[1]) if token else OK
        case Channel.WEBHOOK:
            return hook_behaviour(urlsplit(recipient).path)
        case _:
            return OK


def hook_behaviour(path: str) -> Behaviour:
    """Return the behaviour that a path ``/hooks/<behaviour>[.<number>][/anything]`` asks for."""
    parts = path.split("/")
    return _named(parts[2]) if len(parts) > 2 and parts[1] == "hooks" else OK


def _named(text: str) -> Behaviour:
    found = _NAME.fullmatch(text.lower())
    kind = _KINDS.get(found["name"]) if found else None
    if found is None or kind is None:
        return OK
    return Behaviour(kind, int(found["number"] or 1)) if kind in NUMBERED else Behaviour(kind)


def _numbered(number: str) -> Behaviour:
    for pattern, kind in _SMS:
        found = pattern.fullmatch(number)
        if found:
            return Behaviour(kind, int(found[1])) if kind in NUMBERED else Behaviour(kind)
    return OK
