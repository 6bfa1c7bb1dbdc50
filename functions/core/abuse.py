"""Which SMS may go out: a text that nobody ordered is paid for by us, and earned by somebody.

What is forbidden ends, what is too fast is spread out, what is beyond the day's money waits for the
next day (UTC), and what is unlike everything the organization usually sends is held for a person:

allowlist   a country outside the organization's list, or none when there is a list: suppressed
hold        its country or its prefix is on hold: it waits there
shift       of all countries together, or of its prefix, more than ``unusual_per_day`` messages in
            24 hours are beyond ``growth`` times the usual: the slice is put on hold
velocity    its number, or its prefix, had its burst: deferred to the next free place
budget      the price of its parts is more than is left of the day's money: deferred to midnight;
            without a price there is no way to tell, and it waits as well

A prefix is the country code and what follows it, seven digits together: mostly a block of numbers
of one operator. Only what is let out counts, so an attack that is held does not become usual.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from functions.core.pace import FULL, Bucket
from functions.core.policy import Allow, Defer, Suppress
from functions.core.segment import encoded
from functions.core.usual import Slice, allowance, excess, has_usual, surge_of

PREFIX_DIGITS = 7
UNKNOWN = ""
"""Stands for the country of a number that has none."""

UNREADABLE_SEGMENTS = 10
"""What cannot be read is never sent, and costs as much as the longest that can."""

MOST_SPENT = Decimal("99999999.999999")
"""Of money in a day, as the database keeps it: ten times the largest budget there can be."""

TRUST = timedelta(days=14)
"""For how long what a person released is not held again: by then it is usual."""


class Kind(StrEnum):
    COUNTRY = "country"
    PREFIX = "prefix"


class Because(StrEnum):
    """Reasons as stored."""

    COUNTRY_NOT_ALLOWED = "country_not_allowed"
    MIX_SHIFTED = "mix_shifted"
    NUMBER_VELOCITY = "number_velocity"
    PREFIX_VELOCITY = "prefix_velocity"
    BUDGET_SPENT = "sms_budget_spent"
    PRICE_UNKNOWN = "sms_price_unknown"


Place = tuple[Kind, str]
"""A slice: a country or a prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What operators set for an organization; a limit of 0 is none."""

    countries: frozenset[str] | None = None
    """None: every country, and numbers of none."""
    daily_budget: Decimal | None = None
    number_per_hour: int = 10
    prefix_per_hour: int = 200
    unusual_per_day: int = 20
    growth: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A notification about to go out."""

    country: str
    prefix: str
    recipient_hash: bytes
    segments: int
    is_reserved: bool = False
    """It was let out before, and nothing that may have been paid for came of it: it counts once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHold:
    """It waits under the hold of ``place``."""

    place: Place
    reason: str = Because.MIX_SHIFTED


Ruling = Allow | Defer | Suppress | OnHold


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Why a slice was put on hold: messages of the last 24 hours, and of a usual day."""

    place: Place
    today: int
    usual: float


def prefix_of(recipient: str | None) -> str:
    """Return the prefix of an E.164 number."""
    return (recipient or "")[: 1 + PREFIX_DIGITS]


def segments_of(content: object) -> int:
    """Return how many parts the stored content of an SMS is billed as."""
    return encoded(content).segments if isinstance(content, str) else UNREADABLE_SEGMENTS


def cost_of(message: Message, prices: Mapping[str, Decimal]) -> Decimal | None:
    """Return what ``message`` costs; a country without a price costs the highest there is."""
    if not prices:
        return None
    price = prices.get(message.country)
    return (max(prices.values()) if price is None else price) * message.segments


def next_day(now: datetime) -> datetime:
    """Return the midnight (UTC) after ``now``."""
    return (now.astimezone(UTC) + timedelta(days=1)).replace(
        hour=0, minute=0, second=0, microsecond=0
    )


@dataclass(slots=True, kw_only=True)
class Account:
    """An organization's SMS as they are ruled upon one after the other, all at ``now``.

    It holds every country the organization sent to, and the prefixes and numbers of the messages
    that are ruled upon.
    """

    rules: Rules
    now: datetime
    prices: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    spent: Decimal = Decimal(0)
    first_at: datetime | None = None
    least_surge: float = 1.0
    """By how much the traffic is known to have grown, from a look at what waits."""
    countries: dict[str, Slice] = field(default_factory=dict[str, Slice])
    prefixes: dict[str, Slice] = field(default_factory=dict[str, Slice])
    numbers: dict[bytes, Bucket] = field(default_factory=dict[bytes, Bucket])
    holds: set[Place] = field(default_factory=set[Place])
    shifts: list[Shift] = field(default_factory=list[Shift])
    """Of the holds that were opened."""
    was_paced: bool = False
    """The pace of a prefix put something off."""
    _surge: float = field(init=False)
    _usual: float = field(init=False)
    _has_usual: bool = field(init=False)

    def __post_init__(self) -> None:
        self._surge = max(self.least_surge, surge_of(self.countries))
        self._usual = sum(one.usual for one in self.countries.values())
        self._has_usual = has_usual(self.countries, first_at=self.first_at, now=self.now)

    def rule(self, message: Message) -> Ruling:
        """Return whether ``message`` goes out, and count it if it does."""
        allowed = self.rules.countries
        if allowed is not None and message.country not in allowed:
            return Suppress(reason=Because.COUNTRY_NOT_ALLOWED)
        for place in ((Kind.COUNTRY, message.country), (Kind.PREFIX, message.prefix)):
            if place in self.holds:
                return OnHold(place=place)
        if message.is_reserved:
            return Allow()
        shift = self._shift(message)
        if shift is not None:
            self.holds.add(shift.place)
            self.shifts.append(shift)
            return OnHold(place=shift.place)
        return self._put_off(message) or self._beyond_budget(message) or self._let_out(message)

    def _shift(self, message: Message) -> Shift | None:
        """Return the slice that ``message`` makes unlike what is usual."""
        limit = self.rules.unusual_per_day
        if not limit or not self._has_usual:
            return None
        country = self._country(message).with_one_more()
        beyond = self._excess(country)
        if beyond > 0:
            others = (one for key, one in self.countries.items() if key != message.country)
            if beyond + sum(map(self._excess, others)) > limit:
                place = (Kind.COUNTRY, message.country)
                return Shift(place=place, today=country.today, usual=country.usual)
        prefix = self._prefix(message).with_one_more()
        if not country.is_trusted(self.now) and self._excess(prefix) > limit:
            place = (Kind.PREFIX, message.prefix)
            return Shift(place=place, today=prefix.today, usual=prefix.usual)
        return None

    def _excess(self, one: Slice) -> float:
        return excess(
            one,
            usual_of_all=self._usual,
            surge=self._surge,
            growth=self.rules.growth,
            now=self.now,
        )

    def _put_off(self, message: Message) -> Defer | None:
        """Put ``message`` off until its number's pace, and its prefix's, have a place for it."""
        limit, number = self.rules.number_per_hour, self._number(message)
        until = number.wait(per_hour=limit, now=self.now) if limit else None
        if until is not None:
            self.numbers[message.recipient_hash] = number.reserved(until)
            return Defer(until=until, reason=Because.NUMBER_VELOCITY)
        limit, prefix = self._prefix_per_hour(message), self._prefix(message)
        until = prefix.bucket.wait(per_hour=limit, now=self.now) if limit else None
        if until is not None:
            self.was_paced = True
            bucket = prefix.bucket.reserved(until)
            self.prefixes[message.prefix] = replace(prefix, bucket=bucket)
            return Defer(until=until, reason=Because.PREFIX_VELOCITY)
        return None

    def _prefix_per_hour(self, message: Message) -> int:
        """Return the pace of a prefix, 0 for none: what is no surprise in a day may as well come
        in an hour."""
        prefix = self._prefix(message)
        if prefix.is_trusted(self.now) or self._country(message).is_trusted(self.now):
            return 0
        limit = self.rules.prefix_per_hour
        most = allowance(prefix, surge=self._surge, growth=self.rules.growth)
        return limit and max(limit, int(most))

    def _beyond_budget(self, message: Message) -> Defer | None:
        budget = self.rules.daily_budget
        if budget is None:
            return None
        cost = cost_of(message, self.prices)
        if cost is None:
            return Defer(until=next_day(self.now), reason=Because.PRICE_UNKNOWN)
        if self.spent + cost > budget:
            return Defer(until=next_day(self.now), reason=Because.BUDGET_SPENT)
        return None

    def _let_out(self, message: Message) -> Allow:
        now = self.now
        self.first_at = self.first_at or now
        cost = cost_of(message, self.prices) or Decimal(0)
        self.spent = min(self.spent + cost, MOST_SPENT)
        limit, prefix = self._prefix_per_hour(message), self._prefix(message).with_one_more()
        bucket = prefix.bucket.taken(per_hour=limit, now=now) if limit else prefix.bucket
        self.prefixes[message.prefix] = replace(prefix, bucket=bucket)
        self.countries[message.country] = self._country(message).with_one_more()
        if limit := self.rules.number_per_hour:
            taken = self._number(message).taken(per_hour=limit, now=now)
            self.numbers[message.recipient_hash] = taken
        return Allow()

    def _country(self, message: Message) -> Slice:
        return self.countries.get(message.country) or Slice(hour=hour_of(self.now))

    def _prefix(self, message: Message) -> Slice:
        return self.prefixes.get(message.prefix) or Slice(hour=hour_of(self.now))

    def _number(self, message: Message) -> Bucket:
        return self.numbers.get(message.recipient_hash) or FULL


def hour_of(now: datetime) -> int:
    """Return the number of the hour ``now`` lies in, since 1970."""
    return int(now.timestamp() // 3600)
