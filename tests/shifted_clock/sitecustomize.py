"""A process whose clock is wrong: for tests, by ``PYTHONPATH``, before anything else is imported.

CLOCK_OFFSET_SECONDS says by how much. Everything that tells the time of day is off by it; what
only measures time (``time.monotonic``) is not. Nothing of the product knows of it.
"""

import datetime as datetime_module
import os
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from types import ModuleType
from typing import Any

OFFSET_SECONDS = float(os.environ["CLOCK_OFFSET_SECONDS"])
OFFSET = timedelta(seconds=OFFSET_SECONDS)


class StandsFor(type):
    """What is one of the real class counts as one of the wrong one: C code makes real ones."""

    real: type

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.real)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.real)


class WrongDatetime(datetime, metaclass=StandsFor):
    real = datetime

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        return datetime.now(tz) + OFFSET

    @classmethod
    def utcnow(cls) -> Any:
        return datetime.now(UTC).replace(tzinfo=None) + OFFSET

    @classmethod
    def today(cls) -> Any:
        return WrongDatetime.now()


class WrongDate(date, metaclass=StandsFor):
    real = date

    @classmethod
    def today(cls) -> Any:
        return WrongDatetime.now().date()


def wrong(function: Callable[..., Any], *before: Any) -> Callable[..., Any]:
    """Return ``function`` of the time module, which reads a clock when it is not told a time."""

    def told(*arguments: Any) -> Any:
        given = [one for one in arguments[len(before) :] if one is not None]
        return function(*arguments[: len(before)], *(given or [wrong_moment(function)]))

    return told


def wrong_moment(function: Callable[..., Any]) -> Any:
    now = real_time() + OFFSET_SECONDS
    return real_localtime(now) if function in (real_strftime, real_asctime) else now


real_time, real_time_ns, real_clock = time.time, time.time_ns, time.clock_gettime
real_localtime, real_strftime, real_asctime = time.localtime, time.strftime, time.asctime


def wrong_clock(clock: int) -> float:
    return real_clock(clock) + (OFFSET_SECONDS if clock == time.CLOCK_REALTIME else 0)


REPLACED: tuple[tuple[ModuleType, str, Any], ...] = (
    (datetime_module, "datetime", WrongDatetime),
    (datetime_module, "date", WrongDate),
    (time, "time", lambda: real_time() + OFFSET_SECONDS),
    (time, "time_ns", lambda: real_time_ns() + int(OFFSET_SECONDS * 10**9)),
    (time, "clock_gettime", wrong_clock),
    (time, "localtime", wrong(time.localtime)),
    (time, "gmtime", wrong(time.gmtime)),
    (time, "ctime", wrong(time.ctime)),
    (time, "asctime", wrong(time.asctime)),
    (time, "strftime", wrong(time.strftime, "a format")),
)
for module, name, value in REPLACED:
    setattr(module, name, value)
