"""Commands on what SMS are decided by: countries, prices, budgets and limits.

Money is a decimal written as a text, in the currency of the price table; a price is of one part.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from functions.console.arguments import Wrong, flag, identifier, list_of, optional, required
from functions.console.command import Command, Done, Equipment
from functions.console.tenants import NO_TENANT
from functions.core.errors import Fault, NotFound, RequestRefused, ValidationFailed
from functions.store import sms
from functions.store.action import Action
from functions.store.organization import find_organization
from functions.store.sms_usual import read_usual

MOST_COUNTRIES = 300
MOST_MONEY = Decimal(10_000_000)
MOST_PRICE = Decimal(1000)
MOST_MESSAGES = 1_000_000
MOST_GROWTH = 1000.0

_COUNTRY = re.compile(r"[A-Z]{2}", re.ASCII)
_MONEY = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?", re.ASCII)


def show(equipment: Equipment, *, organization_id: UUID) -> Done:
    """Tell the rules of an organization, what it spent today, and whether its mix is known."""
    _must_exist(equipment, organization_id)
    standing = sms.read_standing(equipment.database, organization_id=organization_id)
    usual = read_usual(equipment.database, organization_id=organization_id)
    rules = standing.rules
    return Done(
        result={
            "organization_id": organization_id,
            "countries": None if rules.countries is None else sorted(rules.countries),
            "daily_budget": written(rules.daily_budget),
            "number_per_hour": rules.number_per_hour,
            "prefix_per_hour": rules.prefix_per_hour,
            "unusual_per_day": rules.unusual_per_day,
            "growth": rules.growth,
            "day": standing.day.date(),
            "spent": written(standing.spent),
            "messages": standing.messages,
            "usual": {
                "known": usual.is_known,
                "since": usual.first_at,
                "messages": usual.messages,
            },
        }
    )


def allow(
    equipment: Equipment,
    *,
    organization_id: UUID,
    countries: Sequence[str] | None,
    every: bool,
    action: Action,
) -> Done:
    """Let an organization write to ``countries`` only, or to ``every`` one."""
    if (countries is None) is not every:
        raise _wrong("countries", "Name countries, or say that every one is allowed.")
    _must_exist(equipment, organization_id)
    sms.set_countries(
        equipment.database, organization_id=organization_id, countries=countries, action=action
    )
    chosen = None if countries is None else sorted(countries)
    return Done(result={"action_id": action.id, "countries": chosen})


def list_prices(equipment: Equipment) -> Done:
    prices = sms.list_prices(equipment.database)
    data = [{"country": one.country, "amount": written(one.amount)} for one in prices]
    return Done(result={"data": data}, counts={"listed": len(data)})


def set_price(equipment: Equipment, *, country: str, amount: Decimal, action: Action) -> Done:
    sms.set_price(equipment.database, country=country, amount=amount, action=action)
    return Done(
        result={"action_id": action.id, "country": country, "amount": written(amount)},
    )


def set_budget(
    equipment: Equipment,
    *,
    organization_id: UUID,
    amount: Decimal | None,
    none: bool,
    action: Action,
) -> Done:
    """Set what an organization may spend a day; what waits for the next day is judged anew."""
    if (amount is None) is not none:
        raise _wrong("amount", "Name an amount, or say that there is no limit.")
    _must_exist(equipment, organization_id)
    if amount is not None and not sms.list_prices(equipment.database):
        raise RequestRefused(
            "There is no price yet, and what has none is not sent under a budget: set prices first."
        )
    woken = sms.set_budget(
        equipment.database, organization_id=organization_id, amount=amount, action=action
    )
    return Done(
        result={"action_id": action.id, "daily_budget": written(amount), "woken": woken},
        counts={"woken": woken},
    )


def set_limits(
    equipment: Equipment,
    *,
    organization_id: UUID,
    number_per_hour: int | None,
    prefix_per_hour: int | None,
    unusual_per_day: int | None,
    growth: float | None,
    action: Action,
) -> Done:
    limits = {
        "number_per_hour": number_per_hour,
        "prefix_per_hour": prefix_per_hour,
        "unusual_per_day": unusual_per_day,
        "growth": growth,
    }
    given = {name: value for name, value in limits.items() if value is not None}
    if not given:
        raise _wrong("", f"It takes at least one of {', '.join(limits)}.")
    _must_exist(equipment, organization_id)
    sms.set_limits(
        equipment.database,
        organization_id=organization_id,
        number_per_hour=number_per_hour,
        prefix_per_hour=prefix_per_hour,
        unusual_per_day=unusual_per_day,
        growth=growth,
        action=action,
    )
    return Done(result={"action_id": action.id, **given})


def _must_exist(equipment: Equipment, organization_id: UUID) -> None:
    if find_organization(equipment.database, id=organization_id) is None:
        raise NotFound(NO_TENANT)


def _wrong(name: str, detail: str) -> ValidationFailed:
    return ValidationFailed([Fault(f"/arguments/{name}", "required", detail)])


def written(amount: Decimal | None) -> str | None:
    """Return an amount as it is shown."""
    return None if amount is None else f"{amount.normalize():f}"


def country(value: Any) -> str:
    if not isinstance(value, str) or _COUNTRY.fullmatch(value) is None:
        raise Wrong("It is a country by its two capital letters (ISO 3166).")
    return value


def money_up_to(most: Decimal) -> Any:
    """Return the reader of an amount from 0 to ``most``."""

    def read(value: Any) -> Decimal:
        if isinstance(value, str) and _MONEY.fullmatch(value) and Decimal(value) <= most:
            return Decimal(value)
        raise Wrong(f'It is an amount from 0 to {most} as a text, like "12.50".')

    return read


def limit(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_MESSAGES:
        raise Wrong(f"It is a whole number from 0, which is no limit, to {MOST_MESSAGES}.")
    return value


def factor(value: Any) -> float:
    if type(value) not in (int, float) or not 1 <= value <= MOST_GROWTH:
        raise Wrong(f"It is a number from 1 to {MOST_GROWTH:.0f}.")
    return float(value)


_OF = {"organization_id": required(identifier)}

COMMANDS: Mapping[str, Command] = {
    "sms.show": Command(parameters=_OF, run=show),
    "sms.allow": Command(
        parameters={
            **_OF,
            "countries": optional(list_of(country, most=MOST_COUNTRIES)),
            "every": optional(flag, default=False),
        },
        run=allow,
        audited=True,
    ),
    "sms.prices": Command(parameters={}, run=list_prices),
    "sms.price": Command(
        parameters={"country": required(country), "amount": required(money_up_to(MOST_PRICE))},
        run=set_price,
        audited=True,
    ),
    "sms.budget": Command(
        parameters={
            **_OF,
            "amount": optional(money_up_to(MOST_MONEY)),
            "none": optional(flag, default=False),
        },
        run=set_budget,
        audited=True,
    ),
    "sms.limits": Command(
        parameters={
            **_OF,
            "number_per_hour": optional(limit),
            "prefix_per_hour": optional(limit),
            "unusual_per_day": optional(limit),
            "growth": optional(factor),
        },
        run=set_limits,
        audited=True,
    ),
}
