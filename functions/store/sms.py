"""What operators set for SMS: countries, prices, budgets and limits; and the row that is locked.

Whoever decides for an organization's SMS, and whoever changes what is decided by, holds its row.
Locks are taken in the order of the organizations.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core.abuse import Because, Rules, next_day
from functions.store.action import Action, record_action, result_of
from functions.store.connection import Database

SURGE_KEPT = timedelta(hours=1)
"""For so long it is remembered how much more was coming; by then it is part of what went out."""

DEFAULTS = Rules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """The row of an organization, locked, at ``now``."""

    organization_id: UUID
    countries: list[str] | None
    daily_budget: Decimal | None
    number_per_hour: int | None
    prefix_per_hour: int | None
    unusual_per_day: int | None
    growth: float | None
    first_at: datetime | None
    surge: float
    surge_at: datetime | None
    now: datetime

    @property
    def rules(self) -> Rules:
        """What an operator set, and the default of what nobody did."""
        limits = {
            "number_per_hour": self.number_per_hour,
            "prefix_per_hour": self.prefix_per_hour,
            "unusual_per_day": self.unusual_per_day,
            "growth": self.growth,
        }
        chosen: dict[str, Any] = {
            name: value for name, value in limits.items() if value is not None
        }
        countries = None if self.countries is None else frozenset(self.countries)
        return replace(DEFAULTS, countries=countries, daily_budget=self.daily_budget, **chosen)

    @property
    def known_surge(self) -> float:
        is_known = self.surge_at is not None and self.now < self.surge_at + SURGE_KEPT
        return self.surge if is_known else 1.0


ADD_GUARDS = """
    INSERT INTO sms_guards (organization_id)
    SELECT o.organization_id
      FROM unnest(%(organizations)b::uuid[]) AS o (organization_id)
     WHERE NOT EXISTS (SELECT FROM sms_guards g WHERE g.organization_id = o.organization_id)
     ORDER BY o.organization_id
    ON CONFLICT (organization_id) DO NOTHING
"""

# The time is read after the lock: who waited for it decides as of now.
LOCK_GUARDS = """
    WITH locked AS MATERIALIZED (
        SELECT organization_id, countries, daily_budget, number_per_hour, prefix_per_hour,
               unusual_per_day, growth, first_at, surge, surge_at
          FROM sms_guards
         WHERE organization_id = ANY(%(organizations)b::uuid[])
         ORDER BY organization_id
           FOR UPDATE
    )
    SELECT locked.*, coalesce(%(now)s, clock_timestamp()) AS now FROM locked
"""


def lock_guards(
    connection: psycopg.Connection, organizations: Collection[UUID], *, now: datetime | None = None
) -> dict[UUID, Guarded]:
    """Hold the rows of the organizations until the transaction ends; make those there are none."""
    parameters = {"organizations": list(organizations), "now": now}
    with connection.cursor(row_factory=class_row(Guarded)) as cursor:
        cursor.execute(ADD_GUARDS, parameters)
        rows = cursor.execute(LOCK_GUARDS, parameters).fetchall()
    return {row.organization_id: row for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """An organization's rules, and what it spent today (UTC)."""

    rules: Rules
    day: datetime
    spent: Decimal
    messages: int


READ_STANDING = """
    WITH instant AS MATERIALIZED (SELECT coalesce(%(now)s, clock_timestamp()) AS at)
    SELECT %(organization_id)s::uuid AS organization_id, g.countries, g.daily_budget,
           g.number_per_hour, g.prefix_per_hour, g.unusual_per_day, g.growth, g.first_at,
           coalesce(g.surge, 1) AS surge, g.surge_at, t.at AS now
      FROM instant t
      LEFT JOIN sms_guards g ON g.organization_id = %(organization_id)s
"""

READ_SPENT = """
    SELECT amount, messages
      FROM sms_spend
     WHERE organization_id = %(organization_id)s AND day = %(day)s
"""


def read_standing(
    database: Database, *, organization_id: UUID, now: datetime | None = None
) -> Standing:
    """Return what an organization's SMS are decided by."""

    def read(connection: psycopg.Connection) -> Standing:
        values = {"organization_id": organization_id, "now": now}
        with connection.cursor(row_factory=class_row(Guarded)) as cursor:
            (guard,) = cursor.execute(READ_STANDING, values).fetchall()
        day = guard.now.astimezone(UTC)
        spent = connection.execute(READ_SPENT, {**values, "day": day.date()}).fetchone()
        amount, messages = spent or (Decimal(0), 0)
        return Standing(rules=guard.rules, day=day, spent=amount, messages=messages)

    return database.run(read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    country: str
    amount: Decimal


READ_PRICES = "SELECT country, amount FROM sms_prices ORDER BY country"


def read_prices(connection: psycopg.Connection) -> list[Price]:
    """Return the price of a part of a message, by country."""
    with connection.cursor(row_factory=class_row(Price)) as cursor:
        return cursor.execute(READ_PRICES).fetchall()


def list_prices(database: Database) -> list[Price]:
    return database.run(read_prices)


SET_PRICE = """
    INSERT INTO sms_prices (country, amount) VALUES (%(country)s, %(amount)s)
    ON CONFLICT (country) DO UPDATE SET amount = EXCLUDED.amount
"""


def set_price(database: Database, *, country: str, amount: Decimal, action: Action) -> None:
    """Let a part of a message to ``country`` cost ``amount`` from now on."""

    def work(connection: psycopg.Connection) -> None:
        connection.execute(SET_PRICE, {"country": country, "amount": amount})
        record_action(connection, action, result={})

    database.run(work)


SET_COUNTRIES = """
    UPDATE sms_guards SET countries = %(countries)s WHERE organization_id = %(organization_id)s
"""


def set_countries(
    database: Database,
    *,
    organization_id: UUID,
    countries: Sequence[str] | None,
    action: Action,
) -> None:
    """Let an organization write to these countries only; None: to every one."""

    def work(connection: psycopg.Connection) -> None:
        lock_guards(connection, [organization_id])
        chosen = None if countries is None else sorted(set(countries))
        values = {"organization_id": organization_id, "countries": chosen}
        connection.execute(SET_COUNTRIES, values)
        record_action(connection, action, result={})

    database.run(work)


SET_LIMITS = """
    UPDATE sms_guards
       SET number_per_hour = coalesce(%(number_per_hour)s, number_per_hour),
           prefix_per_hour = coalesce(%(prefix_per_hour)s, prefix_per_hour),
           unusual_per_day = coalesce(%(unusual_per_day)s, unusual_per_day),
           growth = coalesce(%(growth)s, growth)
     WHERE organization_id = %(organization_id)s
"""


def set_limits(
    database: Database,
    *,
    organization_id: UUID,
    number_per_hour: int | None = None,
    prefix_per_hour: int | None = None,
    unusual_per_day: int | None = None,
    growth: float | None = None,
    action: Action | None = None,
) -> None:
    """Set those limits that are given; 0 is none."""
    values = {
        "organization_id": organization_id,
        "number_per_hour": number_per_hour,
        "prefix_per_hour": prefix_per_hour,
        "unusual_per_day": unusual_per_day,
        "growth": growth,
    }

    def work(connection: psycopg.Connection) -> None:
        lock_guards(connection, [organization_id])
        connection.execute(SET_LIMITS, values)
        if action is not None:
            record_action(connection, action, result={})

    database.run(work)


SET_BUDGET = """
    UPDATE sms_guards SET daily_budget = %(amount)s WHERE organization_id = %(organization_id)s
"""

# They wait until one and the same moment, and the index of what waits leads to it.
WAKE = """
    UPDATE notifications
       SET available_at = %(now)s, updated_at = %(now)s
     WHERE id = ANY(ARRAY(
           SELECT id
             FROM notifications
            WHERE status = 'pending' AND NOT ready AND available_at = %(midnight)s
              AND organization_id = %(organization_id)s AND channel = 'sms'
              AND reason = ANY(%(reasons)s)
            LIMIT %(limit)s
              FOR UPDATE SKIP LOCKED))
"""
WOKEN_AT_ONCE = 5000


def set_budget(
    database: Database,
    *,
    organization_id: UUID,
    amount: Decimal | None,
    action: Action,
    now: datetime | None = None,
) -> int:
    """Set what an organization's SMS may cost a day, None for no limit; return how many messages
    that waited for the next day are judged again at once, at most 5000."""

    def work(connection: psycopg.Connection) -> int:
        guard = lock_guards(connection, [organization_id], now=now)[organization_id]
        done = result_of(connection, action)
        if done is not None:
            return done["woken"]
        values = {
            "organization_id": organization_id,
            "amount": amount,
            "now": guard.now,
            "midnight": next_day(guard.now),
            "reasons": [Because.BUDGET_SPENT, Because.PRICE_UNKNOWN],
            "limit": WOKEN_AT_ONCE,
        }
        connection.execute(SET_BUDGET, values)
        woken = connection.execute(WAKE, values).rowcount
        record_action(connection, action, result={"woken": woken}, now=now)
        return woken

    return database.run(work)
