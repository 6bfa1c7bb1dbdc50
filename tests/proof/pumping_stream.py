"""A seeded stream of SMS: weeks of ordinary traffic, a pumping burst, and two flash sales.

shop     four countries, mostly France; one day it sells out: ten times its day in an hour, and its
         list is sorted by country, the smallest first
app      codes for users around the world, awake by their time zones; a new country grows from
         nothing; then somebody pumps through its sign-up form
local    one country and few prefixes; its sale comes in no order
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from uuid import UUID

from tests.guarding import Text

BEGIN = datetime(2030, 3, 4, tzinfo=UTC)


class Kind(StrEnum):
    ORDINARY = "ordinary traffic"
    GROWING = "a country that grows"
    SALE = "flash sale of 10×"
    BURST = "pumping burst"


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A message, and what it is part of."""

    kind: Kind
    text: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """A country of an organization: its share, when it is awake (UTC), and how numbers begin."""

    country: str
    share: float
    wakes: int
    stems: Sequence[str]
    digits: int
    """That follow a stem."""


SHOP, APP, LOCAL = (
    UUID(f"01900000-0000-7000-8000-0000000000{name}") for name in ("a1", "a2", "a3")
)

MARKETS: Mapping[UUID, Sequence[Market]] = {
    SHOP: (
        Market(country="FR", share=0.60, wakes=6, stems=("+336", "+337"), digits=8),
        Market(country="DE", share=0.25, wakes=6, stems=("+4915", "+4917"), digits=9),
        Market(country="BE", share=0.10, wakes=6, stems=("+3247", "+3248"), digits=7),
        Market(country="CH", share=0.05, wakes=6, stems=("+4176", "+4179"), digits=7),
    ),
    APP: (
        Market(country="US", share=0.50, wakes=13, stems=("+1212", "+1310", "+1512"), digits=7),
        Market(country="GB", share=0.20, wakes=7, stems=("+4475", "+4477"), digits=8),
        Market(country="CA", share=0.15, wakes=14, stems=("+1416", "+1604"), digits=7),
        Market(country="AU", share=0.10, wakes=21, stems=("+614",), digits=8),
        Market(country="IN", share=0.05, wakes=3, stems=("+9198", "+9199"), digits=8),
    ),
    LOCAL: (Market(country="GB", share=1.0, wakes=7, stems=("+447911", "+447912"), digits=6),),
}
NEW = Market(country="BR", share=0.0, wakes=12, stems=("+55119",), digits=8)
NEW_GROWTH = 1.2
"""A day, from one message a day."""

PUMPED = (
    Market(country="MV", share=0.4, wakes=0, stems=("+960931",), digits=4),
    Market(country="TD", share=0.3, wakes=0, stems=("+235663",), digits=5),
    Market(country="CU", share=0.2, wakes=0, stems=("+535287",), digits=4),
    Market(country="LV", share=0.1, wakes=0, stems=("+371280",), digits=5),
)
"""Ranges whose owner earns at each message; nobody of the app lives there."""

PRICES: Mapping[str, Decimal] = {
    country: Decimal(price)
    for country, price in {
        "FR": "0.07", "DE": "0.09", "BE": "0.08", "CH": "0.06", "US": "0.008", "GB": "0.04",
        "CA": "0.007", "AU": "0.04", "IN": "0.08", "BR": "0.03", "CU": "0.11", "TD": "0.25",
        "LV": "0.06",
    }.items()
}  # fmt: skip
"""Per part. The Maldives have none: they cost the highest."""

CODE = "123456 is your code. Never share it."
OFFER = "Today only: half the price on everything in our shop. " * 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much of it all. The attack and the sales are on the day after ``days``."""

    seed: int = 1
    days: int = 28
    shop_a_day: int = 200
    app_a_day: int = 300
    local_a_day: int = 60
    burst: int = 1500
    burst_per_second: float = 5.0

    @property
    def last_day(self) -> datetime:
        return BEGIN + timedelta(days=self.days)

    @property
    def burst_at(self) -> datetime:
        return self.last_day + timedelta(hours=15)

    @property
    def sale_at(self) -> datetime:
        return self.last_day + timedelta(hours=10)


def stream(plan: Plan) -> list[Labelled]:
    """Return every message there is, in the order of time."""
    chance = random.Random(plan.seed)
    messages = [
        *_ordinary(plan, chance),
        *_growing(plan, chance),
        *_sale(plan, chance, SHOP, 10 * plan.shop_a_day, is_sorted=True),
        *_sale(plan, chance, LOCAL, 10 * plan.local_a_day, is_sorted=False),
        *_burst(plan, chance),
    ]
    return sorted(messages, key=lambda one: one.text.at)


def _ordinary(plan: Plan, chance: random.Random) -> Iterator[Labelled]:
    a_day = {SHOP: plan.shop_a_day, APP: plan.app_a_day, LOCAL: plan.local_a_day}
    for day in range(plan.days + 1):
        begins = BEGIN + timedelta(days=day)
        weekend = 0.6 if begins.weekday() >= 5 else 1.0
        for organization, markets in MARKETS.items():
            for market in markets:
                count = round(chance.gauss(1, 0.15) * weekend * market.share * a_day[organization])
                yield from _awake(chance, organization, market, count, begins, Kind.ORDINARY)


def _growing(plan: Plan, chance: random.Random) -> Iterator[Labelled]:
    for day in range(plan.days + 1):
        count = min(round(NEW_GROWTH**day), plan.app_a_day // 4)
        begins = BEGIN + timedelta(days=day)
        yield from _awake(chance, APP, NEW, count, begins, Kind.GROWING)


def _awake(
    chance: random.Random,
    organization: UUID,
    market: Market,
    count: int,
    begins: datetime,
    kind: Kind,
) -> Iterator[Labelled]:
    """Yield ``count`` messages of a day, while its market is awake."""
    for _ in range(count):
        hour = (market.wakes + chance.triangular(0, 15, 4)) % 24
        at = begins + timedelta(hours=hour)
        yield _message(chance, organization, market, at, kind)


def _sale(
    plan: Plan, chance: random.Random, organization: UUID, count: int, *, is_sorted: bool
) -> Iterator[Labelled]:
    """Yield a sale in the usual mix, asked for within a second and due at once."""
    markets = MARKETS[organization]
    shares = [market.share for market in markets]
    chosen = chance.choices(markets, shares, k=count)
    if is_sorted:
        chosen.sort(key=lambda market: (market.share, market.country))
    for place, market in enumerate(chosen):
        at = plan.sale_at + timedelta(seconds=place / count)
        yield _message(chance, organization, market, at, Kind.SALE, content=OFFER)


def _burst(plan: Plan, chance: random.Random) -> Iterator[Labelled]:
    """Yield the attack: many numbers of few prefixes, and every fourth a number once more."""
    pumped: list[tuple[Market, str]] = []
    for place in range(plan.burst):
        if pumped and place % 4 == 3:
            market, recipient = chance.choice(pumped)
        else:
            (market,) = chance.choices(PUMPED, [one.share for one in PUMPED])
            recipient = _number(chance, market)
            pumped.append((market, recipient))
        at = plan.burst_at + timedelta(seconds=place / plan.burst_per_second)
        yield _message(chance, APP, market, at, Kind.BURST, recipient=recipient)


def _message(
    chance: random.Random,
    organization: UUID,
    market: Market,
    at: datetime,
    kind: Kind,
    *,
    recipient: str | None = None,
    content: str = CODE,
) -> Labelled:
    return Labelled(
        kind=kind,
        text=Text(
            recipient=recipient or _number(chance, market),
            country=market.country,
            at=at,
            content=content,
            organization_id=organization,
        ),
    )


def _number(chance: random.Random, market: Market) -> str:
    return chance.choice(market.stems) + f"{chance.randrange(10**market.digits):0{market.digits}}"
