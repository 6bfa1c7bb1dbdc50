"""The statements of the guard use their indexes, whatever else is stored."""

import json
from datetime import UTC, date, datetime
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest

from functions.core.login import Login
from functions.store.guard import READ_CANDIDATES, WAITING
from functions.store.hold import LIST_HOLDS, LOCK_HELD
from functions.store.sms import WAKE
from functions.store.sms_books import READ_NUMBERS, READ_SLICES
from functions.store.sms_forget import FORGET_NUMBERS, FORGET_PREFIXES, FORGET_RESERVATIONS
from tests.fakes import FIRST_ORGANIZATION
from tests.guarding import connected

ROWS = 30_000
FILL: LiteralString = """
    INSERT INTO notifications (id, organization_id, channel, recipient, recipient_hash, content,
                               priority, category, metadata, max_attempts, created_at, ready,
                               available_at, eligible_at, updated_at, country, status, final_at,
                               hold_id)
    SELECT uuidv7(), uuidv7(), CASE WHEN mod(i, 3) = 0 THEN 'email' ELSE 'sms' END, 'x',
           sha256(i::text::bytea), '"x"', 'normal', 'transactional', '{}', 5, now(), mod(i, 3) = 0,
           now() + i * interval '1 second', now(), now(), 'FR',
           CASE WHEN mod(i, 2) = 0 THEN 'delivered' ELSE 'pending' END,
           CASE WHEN mod(i, 2) = 0 THEN now() END, CASE WHEN mod(i, 11) = 0 THEN uuidv7() END
      FROM generate_series(1, %(rows)s) i;
    INSERT INTO sms_slices (organization_id, kind, key, hour, hours, usual, total)
    SELECT uuidv7(), CASE WHEN mod(i, 9) = 0 THEN 'country' ELSE 'prefix' END, 'FR', i,
           array_fill(0, ARRAY[24]), 0, 0
      FROM generate_series(1, %(rows)s) i;
    INSERT INTO sms_numbers (organization_id, recipient_hash, full_at)
    SELECT uuidv7(), sha256(i::text::bytea), now() + i * interval '1 second'
      FROM generate_series(1, %(rows)s) i;
    INSERT INTO sms_reservations (notification_id, lease_number, day)
    SELECT uuidv7(), 1, current_date + mod(i, 99) FROM generate_series(1, %(rows)s) i;
    INSERT INTO holds (organization_id, kind, key, reason, today, usual, opened_at, released_at,
                       done_at)
    SELECT uuidv7(), 'country', 'FR', 'mix_shifted', 1, 0, now(), now(),
           CASE WHEN mod(i, 1000) > 0 THEN now() END
      FROM generate_series(1, %(rows)s) i;
"""
AT, LONG_AGO = datetime(2040, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)
STATEMENTS: dict[str, tuple[LiteralString, dict[str, Any]]] = {
    "candidates": (READ_CANDIDATES, {"ids": [uuid4()], "leases": [1], "day": date(2030, 1, 1)}),
    "waiting": (WAITING, {"organization_id": FIRST_ORGANIZATION, "now": LONG_AGO, "limit": 100}),
    "wake": (
        WAKE,
        {
            "organization_id": FIRST_ORGANIZATION,
            "now": AT,
            "midnight": AT,
            "reasons": ["sms_budget_spent"],
            "limit": 100,
        },
    ),
    "held": (LOCK_HELD, {"id": uuid4(), "limit": 2000}),
    "holds": (LIST_HOLDS, {"organization_id": None, "after": None, "limit": 100}),
    "slices": (
        READ_SLICES,
        {"organizations": [FIRST_ORGANIZATION], "owners": [FIRST_ORGANIZATION], "prefixes": ["x"]},
    ),
    "numbers": (READ_NUMBERS, {"owners": [FIRST_ORGANIZATION], "hashes": [b"x"]}),
    "forgotten numbers": (FORGET_NUMBERS, {"now": LONG_AGO, "limit": 100}),
    "forgotten reservations": (FORGET_RESERVATIONS, {"now": LONG_AGO, "limit": 100}),
    "forgotten prefixes": (FORGET_PREFIXES, {"hour": 0, "limit": 100}),
}
FEW = 200
"""Rows that a statement about nothing may look at."""


@pytest.mark.parametrize("analyzed", [True, False], ids=["analyzed", "no statistics"])
def test_a_statement_about_nothing_reads_next_to_nothing(
    analyzed: bool, owner: psycopg.Connection, login: Login
) -> None:
    with owner.transaction():
        for statement in FILL.strip().removesuffix(";").split(";"):
            owner.execute(statement, {"rows": ROWS})  # pyright: ignore[reportArgumentType]
    if analyzed:
        owner.execute("ANALYZE")
    with connected(login, user="sendoff_operator") as database:
        for name, (statement, values) in STATEMENTS.items():
            for mode in ("force_custom_plan", "force_generic_plan"):
                assert read_by(database, mode, statement, values) < FEW, (name, mode)


def read_by(database: Any, mode: str, statement: str, values: dict[str, Any]) -> int:
    """Return how many rows the plan of a statement looked at."""

    def explain(connection: psycopg.Connection) -> Any:
        connection.execute("SELECT set_config('plan_cache_mode', %s, true)", [mode])
        text: Any = "EXPLAIN (ANALYZE, FORMAT JSON) " + statement
        ((plan,),) = connection.execute(text, values, prepare=True).fetchall()
        return json.loads(plan) if isinstance(plan, str) else plan

    return rows_of(database.run(explain)[0]["Plan"])


def rows_of(plan: dict[str, Any]) -> int:
    here = 0
    if "Scan" in plan["Node Type"]:
        looked_at = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        looked_at += plan.get("Rows Removed by Index Recheck", 0)
        here = looked_at * plan["Actual Loops"]
    return int(here) + sum(rows_of(child) for child in plan.get("Plans", ()))
