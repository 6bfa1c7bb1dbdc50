"""The statements of the policy look up what they are asked about, whatever else is stored."""

import json
from typing import Any, LiteralString

import psycopg
import pytest

from functions.core.login import Login
from functions.store.begin import BEGIN
from functions.store.claim import NO_ORGANIZATION, lease_page
from functions.store.connection import Database
from functions.store.guard import READ_CANDIDATES
from functions.store.policy import READ_RECIPIENTS, READ_RULES, RECORD_CHOICES
from tests.by_reference import add_referring, declare
from tests.fakes import FIRST_ORGANIZATION
from tests.guarding import connected
from tests.steps import begin_all, lease, opening_of

ROWS, ASKED = 6_000, 100
FILL: tuple[LiteralString, ...] = (
    """
    INSERT INTO recipients (organization_id, recipient_id)
    SELECT %(organization_id)s, 'r' || i FROM generate_series(1, %(rows)s) i
    """,
    """
    INSERT INTO contact_points (organization_id, recipient_id, channel, place, address,
                                address_hash, verified)
    SELECT %(organization_id)s, 'r' || i, c.channel, c.place, 'a' || i,
           sha256(('a' || i || c.place)::bytea), true
      FROM generate_series(1, %(rows)s) i,
           (VALUES ('email', 0), ('email', 1), ('sms', 2)) AS c (channel, place)
    """,
    """
    INSERT INTO preferences (organization_id, recipient_id, category, channel, allowed)
    SELECT %(organization_id)s, 'r' || i, 'transactional', channel, true
      FROM generate_series(1, %(rows)s) i, unnest('{email,sms}'::text[]) AS c (channel)
    """,
    """
    INSERT INTO suppressions (organization_id, channel, recipient_hash, kind, reason, source,
                              source_at)
    SELECT %(organization_id)s, 'email', sha256(('a' || i || '0')::bytea), 'suppress', 'x', 'x',
           now()
      FROM generate_series(1, %(rows)s) i
    """,
    """
    INSERT INTO category_rules (organization_id, category)
    SELECT id, 'c' || i
      FROM organizations, generate_series(1, 200) i
     WHERE id = %(organization_id)s
    """,
)
OTHERS: LiteralString = """
    INSERT INTO notifications (id, organization_id, channel, recipient, recipient_hash, content,
                               priority, category, metadata, max_attempts, created_at, ready,
                               available_at, eligible_at, updated_at, status, lease_until)
    SELECT uuidv7(), %(organization_id)s, 'email', 'x', sha256(i::text::bytea), '"x"', 'normal',
           'news', '{}', 5, now(), true, now(), now(), now(), 'leased', now()
      FROM generate_series(1, %(rows)s) i
"""
EACH = 9
"""Rows looked at for each that is asked about: its recipient, two addresses and their facts, …"""
EACH_BEGUN = 30
"""The same of begin, which asks about channels, streams and breakers as well, and writes."""

DECIDED = """
    UPDATE notifications n
       SET contact_hash = sha256(('a' || substr(n.recipient_id, 2) || '1')::bytea),
           recipient_version = r.version,
           decision = jsonb_build_object('transactional', true, 'rules_version', c.version)
      FROM recipients r, category_rules c
     WHERE r.recipient_id = n.recipient_id AND c.category = n.category
"""


def parameters_of(database: Database) -> dict[str, dict[str, Any]]:
    """Lease what refers to somebody; return what each statement is given for that."""
    leased = lease_page(
        database,
        channel="email",
        priority="normal",
        page=ASKED,
        after=NO_ORGANIZATION,
        lease_seconds=60,
        leased_by="test",
    ).leased
    assert len(leased) == ASKED
    ids, leases = [row.id for row in leased], [row.lease_number for row in leased]
    return {
        READ_RULES: {
            "organizations": [row.organization_id for row in leased],
            "categories": [row.category for row in leased],
        },
        READ_RECIPIENTS: {
            "organizations": [row.organization_id for row in leased],
            "recipients": [row.recipient_id for row in leased],
            "channels": [row.channel for row in leased],
            "categories": [row.category for row in leased],
            "transactional": [True] * ASKED,
        },
        RECORD_CHOICES: {
            "ids": ids,
            "leases": leases,
            "hashes": [bytes(32)] * ASKED,
            "countries": [None] * ASKED,
            "origins": [None] * ASKED,
            "locales": ["en"] * ASKED,
            "versions": [1] * ASKED,
            "decisions": ["{}"] * ASKED,
            "policy_version": 2,
        },
        READ_CANDIDATES: {"ids": ids, "leases": leases, "day": "2030-01-01"},
    }


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("mood", ["analyzed", "no statistics", "kept since small"])
def test_a_page_looks_at_no_more_than_it_is_about(
    mode: str, mood: str, owner: psycopg.Connection, login: Login
) -> None:
    with connected(login) as database:
        setting = "SELECT set_config('plan_cache_mode', %s, false)"
        database.run(lambda connection: connection.execute(setting, [mode]))
        for number in range(ASKED):
            add_referring(owner, recipient_id=f"r{1 + number * (ROWS // ASKED)}")
        owner.execute(
            "INSERT INTO organizations (id, name) VALUES (%s, 'First')", [FIRST_ORGANIZATION]
        )
        given = parameters_of(database)
        if mood == "kept since small":
            for statement, parameters in given.items():
                looked_at(database, statement, parameters)
        values = {"organization_id": FIRST_ORGANIZATION, "rows": ROWS}
        for statement in (*FILL, OTHERS):
            owner.execute(statement, values)
        if mood == "analyzed":
            owner.execute("VACUUM ANALYZE")
        for statement, parameters in given.items():
            found = looked_at(database, statement, parameters)
            assert found <= EACH * ASKED, (statement, found)


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("mood", ["analyzed", "no statistics", "kept since small"])
def test_begin_looks_at_no_more_than_what_each_was_decided_from(
    mode: str, mood: str, owner: psycopg.Connection, login: Login
) -> None:
    with connected(login) as database:
        setting = "SELECT set_config('plan_cache_mode', %s, false)"
        database.run(lambda connection: connection.execute(setting, [mode]))
        for number in range(ASKED):
            add_referring(owner, recipient_id=f"r{1 + number * (ROWS // ASKED)}")
        declare(owner)
        openings = [opening_of(row) for row in lease(database, page=ASKED)]
        parameters = {
            "ids": [one.id for one in openings],
            "leases": [one.lease_number for one in openings],
            "tokens": [one.token for one in openings],
            "addressed": [True] * ASKED,
            "provider": "http",
            "keyed": ["http"],
            "key_window_seconds": 3600.0,
            "remaining_seconds": 60.0,
            "probe_seconds": 60.0,
            "now": None,
        }
        if mood == "kept since small":
            looked_at(database, BEGIN, parameters)
        values = {"organization_id": FIRST_ORGANIZATION, "rows": ROWS}
        for statement in (*FILL, OTHERS):
            owner.execute(statement, values)
        owner.execute(DECIDED)
        if mood == "analyzed":
            owner.execute("VACUUM ANALYZE")
        found = looked_at(database, BEGIN, parameters)
        assert found <= EACH_BEGUN * ASKED, found
        answers = begin_all(database, openings)
        assert {answer.verdict for answer in answers.values()} == {"go"}


def looked_at(database: Database, statement: str, parameters: dict[str, Any]) -> int:
    """Run a statement, and undo it; return how many rows its plan looked at, compared ones
    included."""

    def explain(connection: psycopg.Connection) -> Any:
        text: Any = "EXPLAIN (ANALYZE, FORMAT JSON) " + statement
        with connection.transaction(force_rollback=True):
            ((plan,),) = connection.execute(text, parameters, prepare=True).fetchall()
        return json.loads(plan) if isinstance(plan, str) else plan

    return rows_of(database.run(explain)[0]["Plan"])


def rows_of(plan: dict[str, Any]) -> int:
    """Return what scans and joins looked at, what they dropped among it."""
    looked = plan["Actual Rows"] if "Scan" in plan["Node Type"] else 0
    removed = (
        "Rows Removed by Filter",
        "Rows Removed by Index Recheck",
        "Rows Removed by Join Filter",
    )
    here = (looked + sum(plan.get(name, 0) for name in removed)) * plan["Actual Loops"]
    return int(here) + sum(rows_of(child) for child in plan.get("Plans", ()))
