"""The two roles: what the functions may not write, and what operators may besides."""

from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import errors

from functions.core.login import Login
from functions.store.connection import Database
from functions.store.held import requeue
from functions.store.replay import replay
from functions.store.restore import mark_gap, pause_all
from tests.fakes import FIRST_ORGANIZATION, add_notifications, moves_of, row_of
from tests.operating import (
    ALL,
    Waiting,
    action,
    actions_of,
    operating,
    operator_of,
    report,
    tell,
)
from tests.steps import connected, now_of


@pytest.fixture
def operator(login: Login) -> Iterator[Database]:
    with operating(login) as database:
        yield database


GRANTS = """
    SELECT p.privilege || ' ' || c.relname || '.' || a.attname
      FROM pg_class c
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     CROSS JOIN unnest(ARRAY['INSERT', 'UPDATE', 'REFERENCES']) AS p (privilege)
     WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
       AND has_column_privilege(%(role)s, c.oid, a.attname, p.privilege)
    UNION ALL
    SELECT p.privilege || ' ' || c.relname
      FROM pg_class c
     CROSS JOIN unnest(ARRAY['DELETE', 'TRUNCATE', 'TRIGGER', 'MAINTAIN']) AS p (privilege)
     WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
       AND has_table_privilege(%(role)s, c.oid, p.privilege)
"""

# Inserted whole; updated by column. A replay rewrites what it reads out of a report, and no more.
OPERATORS_OWN: dict[LiteralString, dict[LiteralString, LiteralString]] = {
    "INSERT": {
        "operator_actions": "id at actor command arguments result",
        "organizations": "id name transactional_categories created_at webhook_key_number "
        "webhook_key_rotated_at",
        "api_keys": "id organization_id name secret_sha256 scopes created_at revoked_at",
        "sms_prices": "country amount",
        "sms_slices": "trusted_until",
        "category_rules": "organization_id category version mandatory high_bypasses_quiet_hours "
        "window_start window_end updated_at",
    },
    "UPDATE": {
        "organizations": "name webhook_key_number webhook_key_rotated_at transactional_categories",
        "category_rules": "version mandatory high_bypasses_quiet_hours window_start window_end "
        "updated_at",
        "api_keys": "revoked_at",
        "channels": "paused_at provider provider_url fallback_provider fallback_provider_url rate "
        "burst max_in_flight page provider_deadline_seconds retries backoff_curve "
        "backoff_base_seconds backoff_cap_seconds max_attempts waiting_limit_seconds "
        "check_base_seconds check_cap_seconds cutoff_seconds grace_seconds unknown_policy "
        "poll_rate endpoint_concurrency fallback_after_seconds",
        "streams": "sender_identity configuration_set settings rate burst paused_at",
        "sms_guards": "countries daily_budget number_per_hour prefix_per_hour unusual_per_day "
        "growth",
        "sms_prices": "amount",
        "sms_slices": "trusted_until",
        "holds": "released_at discarded done_at",
        "receipts": "type evidence_rank permanent complaint address_at_fault idempotency_key "
        "reference recipient_hash reason occurred_at refused fact",
    },
}


def grants_of(owner: psycopg.Connection, role: str) -> set[str]:
    return {row[0] for row in owner.execute(GRANTS, {"role": role})}


def test_an_operator_may_do_exactly_this_besides_what_the_functions_may(
    owner: psycopg.Connection,
) -> None:
    service, operator = (grants_of(owner, role) for role in ("sendoff_service", "sendoff_operator"))
    assert service - operator == set()
    assert operator - service == {
        f"{privilege} {table}.{column}"
        for privilege, tables in OPERATORS_OWN.items()
        for table, columns in tables.items()
        for column in columns.split()
    } | {"DELETE category_rules"}


def test_nobody_may_change_or_remove_what_was_kept_for_the_audit(
    owner: psycopg.Connection,
) -> None:
    kept = ("operator_actions", "transitions", "schema_migrations")
    for role in ("sendoff_service", "sendoff_operator"):
        given = {one for one in grants_of(owner, role) if one.split()[1].split(".")[0] in kept}
        assert {one.split()[0] for one in given} == {"INSERT"}
        assert not any("schema_migrations" in one for one in given)
        assert not any(one.startswith(("TRUNCATE", "TRIGGER")) for one in grants_of(owner, role))


def test_both_roles_have_the_same_settings(owner: psycopg.Connection) -> None:
    """Time limits, time zone, and plans by index are of the role that connects."""
    statement = "SELECT rolname, rolconfig FROM pg_roles WHERE rolname LIKE 'sendoff%'"
    settings = dict(owner.execute(statement).fetchall())
    assert settings["sendoff_operator"] == settings["sendoff_service"]
    assert settings["sendoff_operator"] is not None


def test_no_role_is_more_than_a_log_in(owner: psycopg.Connection) -> None:
    statement = """
        SELECT rolname, rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls
          FROM pg_roles
         WHERE rolname IN ('sendoff_service', 'sendoff_operator')
    """
    assert dict(owner.execute(statement).fetchall()) == {
        "sendoff_service": False,
        "sendoff_operator": False,
    }


REFUSED: dict[str, LiteralString] = {
    "an action": """
        INSERT INTO operator_actions (actor, command, arguments, result)
        VALUES ('me', 'dead.requeue', '{}', '{}')
    """,
    "an organization": "INSERT INTO organizations (name) VALUES ('mine')",
    "a key": """
        INSERT INTO api_keys (organization_id, name, secret_sha256, scopes)
        VALUES ('01900000-0000-7000-8000-000000000001', 'k', sha256('s'), '{admin}')
    """,
    "a key's end": "UPDATE api_keys SET revoked_at = NULL",
    "a category's rule": """
        INSERT INTO category_rules (organization_id, category)
        VALUES ('01900000-0000-7000-8000-000000000001', 'news')
    """,
    "the end of a rule": "DELETE FROM category_rules",
    "which categories are transactional": """
        UPDATE organizations SET transactional_categories = '{}'
    """,
    "a pause": "UPDATE channels SET paused_at = NULL",
    **{
        f"a report's {column}": f"UPDATE receipts SET {column} = {column}"
        for column in OPERATORS_OWN["UPDATE"]["receipts"].split()
    },
    "a report's bytes": "UPDATE receipts SET raw = raw",
    "a limit": "UPDATE channels SET rate = rate",
    "a lease's length": "UPDATE channels SET lease_seconds = lease_seconds",
    "what was asked for": "UPDATE notifications SET recipient = recipient",
    "a report": "DELETE FROM receipts",
    "what happened": "UPDATE transitions SET actor = actor",
}
NOBODY = {"a report's bytes", "a lease's length", "what was asked for", "a report", "what happened"}


@pytest.mark.parametrize("what", REFUSED)
def test_what_only_operators_may_write_the_functions_may_not(
    owner: psycopg.Connection, database: Database, operator: Database, what: str
) -> None:
    owner.execute("INSERT INTO organizations (id, name) VALUES (%s, 'first')", [FIRST_ORGANIZATION])

    def write(connection: psycopg.Connection) -> Any:
        return connection.execute(REFUSED[what])

    with pytest.raises(errors.InsufficientPrivilege):
        database.run(write)
    if what in NOBODY:
        with pytest.raises(errors.InsufficientPrivilege):
            operator.run(write)
    else:
        operator.run(write)


def test_an_operator_changes_nothing_of_an_action_that_was_kept(operator: Database) -> None:
    for statement in (
        "UPDATE operator_actions SET actor = 'somebody'",
        "DELETE FROM operator_actions",
        "TRUNCATE operator_actions",
    ):
        with pytest.raises(errors.InsufficientPrivilege):
            operator.run(lambda connection, one=statement: connection.execute(one))


def test_by_the_functions_log_in_no_command_has_any_effect(
    owner: psycopg.Connection, database: Database
) -> None:
    """The audit is part of the transaction: without it there is no effect."""
    opening = Waiting(owner=owner, database=database).rejected()
    (due,) = add_notifications(owner)
    tell(database, report(due))
    before = [row_of(owner, id) for id in (opening.id, due)]
    moves = moves_of(owner, opening.id)

    def reread(_: object) -> Any:
        return report(due, idempotency_key=str(opening.id))

    for command in (
        lambda: requeue(
            database, [opening.id], may_send_twice=True, declarations=ALL, action=action()
        ),
        lambda: pause_all(database, action=action()),
        lambda: mark_gap(database, since=now_of(owner), declarations=ALL, action=action()),
        lambda: replay(database, reparse=reread, action=action()),
    ):
        with pytest.raises(errors.InsufficientPrivilege):
            command()
    assert [row_of(owner, id) for id in (opening.id, due)] == before
    assert (moves_of(owner, opening.id), actions_of(owner)) == (moves, [])


def test_an_operator_reads_what_the_functions_read(login: Login) -> None:
    with connected(operator_of(login), "operator", kind=Database) as (operator,):
        for table in ("notifications", "attempts", "receipts", "suppressions", "operator_actions"):
            operator.run(lambda connection, one=table: connection.execute(f"SELECT FROM {one}"))
