"""What is usual for an organization's SMS, by country and by prefix, and what is too far beyond.

Of each slice (a country, or a prefix) it is kept how many messages were let out in each of the last
24 hours, and how many a day it usually was before. A whole day is compared with whole days, so that
neither the hour nor the time zones of the recipients look like a change.

Traffic may grow as a whole: by how much, tells the weighted median over the countries, which no
country and no few small ones can move. What makes up a third of all is never held as a whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from functions.core.pace import FULL, Bucket

HOURS = 24
MEAN_DAYS = 7.0
"""Of the exponential mean of a day: what was a week ago counts for a third."""

_KEPT = (1 - 1 / MEAN_DAYS) ** (1 / HOURS)

LEAST_DAYS = 3
LEAST_MESSAGES = 100
"""An organization has a usual mix once it has sent so many, before today, and for so long."""

KNOWN_PER_DAY = 0.05
KNOWN_ALLOWANCE = 5.0
"""A slice that is seen at all, if seldom, may always have so many a day."""

MOST_SURGE = 1e6
"""More is not told apart: it comes of a usual that has decayed away, and of next to nothing even
that many times are nothing."""

MOST_COUNTED = 2**31 - 1
"""Of messages, as the database keeps them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The messages let out to a country or a prefix."""

    hour: int
    """The last of ``hours``: whole hours since 1970."""
    hours: tuple[int, ...] = (0,) * HOURS
    usual: float = 0.0
    """A day, before these hours."""
    total: int = 0
    """Ever."""
    trusted_until: datetime | None = None
    """A person said that whatever comes is as it should be."""
    bucket: Bucket = FULL

    @property
    def today(self) -> int:
        """Messages in the last 24 hours."""
        return min(sum(self.hours), MOST_COUNTED)

    def at(self, hour: int) -> "Slice":
        """Return the slice as of ``hour``: what leaves its hours becomes part of what is usual."""
        passed = hour - self.hour
        if passed <= 0:  # a clock that stepped back
            return self
        usual = self.usual
        for count in self.hours[:passed]:
            usual = usual * _KEPT + count * HOURS * (1 - _KEPT)
        usual *= _KEPT ** max(0, passed - HOURS)
        stay = self.hours[passed:]
        hours = stay + (0,) * (HOURS - len(stay))
        return replace(self, hour=hour, hours=hours, usual=usual)

    def with_one_more(self) -> "Slice":
        last = min(self.hours[-1] + 1, MOST_COUNTED)
        return replace(self, hours=(*self.hours[:-1], last), total=self.total + 1)

    def is_trusted(self, now: datetime) -> bool:
        return self.trusted_until is not None and now < self.trusted_until


def has_usual(countries: Mapping[str, Slice], *, first_at: datetime | None, now: datetime) -> bool:
    """Whether there is enough to compare with."""
    if first_at is None or (now - first_at).days < LEAST_DAYS:
        return False
    return sum(one.total - one.today for one in countries.values()) >= LEAST_MESSAGES


def surge_of(countries: Mapping[str, Slice], waiting: Mapping[str, int] | None = None) -> float:
    """Return by how much the traffic as a whole is above what is usual: 1 to a million.

    At least half of what is usual, by volume, has grown by that. ``waiting`` counts what is about
    to follow: whoever is served first must not look like all there is.
    """
    coming = waiting or {}
    grown = sorted(
        ((one.today + coming.get(key, 0)) / one.usual, one.usual)
        for key, one in countries.items()
        if one.usual > 0
    )
    half = sum(usual for _, usual in grown) / 2
    before = 0.0
    for growth, usual in grown:
        before += usual
        if before >= half:
            return min(max(1.0, growth), MOST_SURGE)
    return 1.0


def allowance(one: Slice, *, surge: float, growth: float) -> float:
    """Return how many messages a day are no surprise: ``growth`` times the usual."""
    least = KNOWN_ALLOWANCE if one.usual >= KNOWN_PER_DAY else 0.0
    return growth * surge * one.usual + least


def excess(one: Slice, *, usual_of_all: float, surge: float, growth: float, now: datetime) -> float:
    """Return how many messages of the last 24 hours are beyond what is no surprise."""
    if one.is_trusted(now) or 0 < usual_of_all <= one.usual * growth:
        return 0.0
    return max(0.0, one.today - allowance(one, surge=surge, growth=growth))
