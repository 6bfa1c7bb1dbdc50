"""The clock on somebody's wall: windows of a day by it, and when it leaves them.

A window holds what is ``start ≤ wall clock < end``; one that ends before it starts goes over
midnight. 21:00–07:00 holds 21:00 and 06:59:59, and neither 20:59:59 nor 07:00; 00:00–23:59 leaves
out the last minute of a day. Both ends are never the same (the door refuses it, as it refuses
24:00), so that some time of every day lies in a window, and some outside; were they, it would hold
nothing.

Where a zone changes its clock, the clock on the wall jumps. Forward, it passes over times: a window
that would have ended among them is left by the jump. Back, it shows times again: a window may be
left, entered again by the jump, and left again.

Zones are read from the pinned package, not from the machine: the same everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import tzdata


class UnknownZone(ValueError):
    """There is no zone of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A part of each day by the clock on the wall."""

    start: time
    end: time

    def holds(self, wall: time) -> bool:
        """Return whether the window holds what the clock on the wall shows."""
        if self.start <= self.end:
            return self.start <= wall < self.end
        return wall >= self.start or wall < self.end

    @property
    def rest(self) -> "Window":
        """The rest of each day."""
        return Window(start=self.end, end=self.start)


@cache
def zone_names() -> frozenset[str]:
    """Return the names of all zones (IANA), the old ones among them; without ``Factory``, which
    means that nobody has said where a clock stands."""
    names = files(tzdata).joinpath("zones").read_text(encoding="utf-8").split()
    return frozenset(names) - {"Factory"}


@cache
def zone_of(name: str) -> ZoneInfo:
    """Return the zone ``name``; raise UnknownZone. Each is read once: there are six hundred."""
    if name not in zone_names():
        raise UnknownZone
    with files(tzdata).joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def is_zone(name: str) -> bool:
    """Return whether there is a zone of this name, as it is spelled."""
    return name in zone_names()


def first_outside(window: Window, at: datetime, *, zone: ZoneInfo) -> datetime:
    """Return the first moment (UTC) not before ``at`` at which the clock on the wall in ``zone``
    is outside of ``window``.

    Up to the end of the window the wall's clock runs like any other, unless the zone changes its
    clock before: then what it shows from there on is looked at anew.
    """
    at = at.astimezone(UTC)
    while window.holds(wall := at.astimezone(zone).time()):
        end = at + _from_to(wall, window.end)
        at = _change_between(at, end, zone) or end
    return at


def first_outside_all(windows: Sequence[Window], at: datetime, *, zone: ZoneInfo) -> datetime:
    """Return the first moment (UTC) not before ``at`` at which no window holds the clock in
    ``zone``. There is none where ``leave_nothing`` of a day.

    A change of the clock may pass over all that they leave of a day, and not of the next.
    """
    at = at.astimezone(UTC)
    while any(window.holds(at.astimezone(zone).time()) for window in windows):
        for window in windows:
            at = first_outside(window, at, zone=zone)
    return at


def leave_nothing(windows: Sequence[Window]) -> bool:
    """Return whether windows hold, together, all that a clock can show: one begins before another
    has ended, all around the day. No change of a clock leaves a moment then, on any day."""
    return bool(windows) and all(any(other.holds(one.end) for other in windows) for one in windows)


def first_inside(window: Window, at: datetime, *, zone: ZoneInfo) -> datetime:
    """Return the first moment (UTC) not before ``at`` at which the clock on the wall in ``zone``
    is inside of ``window``."""
    return first_outside(window.rest, at, zone=zone)


def _from_to(wall: time, end: time) -> timedelta:
    """Return how long a clock runs from ``wall`` until it next shows ``end``."""
    return (_since_midnight(end) - _since_midnight(wall)) % timedelta(days=1)


def _since_midnight(wall: time) -> timedelta:
    return timedelta(
        hours=wall.hour, minutes=wall.minute, seconds=wall.second, microseconds=wall.microsecond
    )


def _change_between(after: datetime, until: datetime, zone: ZoneInfo) -> datetime | None:
    """Return when ``zone`` changes its clock in a day at most: after ``after``, not after
    ``until``; None when it does not.

    Changes are at whole seconds, and never two within a day: the closest two since 2015 are four
    weeks apart.
    """
    offset = after.astimezone(zone).utcoffset()
    if until.astimezone(zone).utcoffset() == offset:
        return None
    before, changed = int(after.timestamp()), int(until.timestamp())
    while changed - before > 1:
        middle = (before + changed) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == offset:
            before = middle
        else:
            changed = middle
    return datetime.fromtimestamp(changed, UTC)
