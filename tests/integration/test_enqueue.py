"""Asking for notifications by SQL: part of the caller's transaction, and the only right needed."""

import json
from collections.abc import Generator

import psycopg
import pytest
from psycopg import errors

from functions.core.login import Login
from functions.store.connection import Database
from functions.store.request import has_waiting, oldest_waiting_seconds
from tests.doors import RECEIPT, add_organizations, enqueue, producing, requests_of, values
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION
from tests.steps import now_of


@pytest.fixture
def producer(owner: psycopg.Connection, login: Login) -> Generator[psycopg.Connection]:
    """An application's connection, which may ask and no more."""
    add_organizations(owner)
    with producing(owner, login) as connection:
        yield connection


def test_a_transaction_that_rolls_back_leaves_nothing(
    owner: psycopg.Connection, database: Database, producer: psycopg.Connection
) -> None:
    enqueue(producer, RECEIPT)
    assert has_waiting(database) is False, "nobody sees it before the commit"
    producer.rollback()
    assert requests_of(owner) == []
    with producer.transaction():
        enqueue(producer, RECEIPT)
        with producer.transaction(force_rollback=True):  # a savepoint of the caller's
            enqueue(producer, RECEIPT)
    assert len(requests_of(owner)) == 1
    producer.commit()


def test_a_commit_leaves_one_request_with_the_id_that_was_told(
    owner: psycopg.Connection, database: Database, producer: psycopg.Connection
) -> None:
    id = enqueue(producer, RECEIPT)
    producer.commit()
    assert requests_of(owner) == [(id, True, None, None)]
    (kept,) = owner.execute("SELECT organization_id, item, bytes FROM requests")
    assert kept[:2] == (FIRST_ORGANIZATION, RECEIPT)
    assert kept[2] == values(owner, "SELECT octet_length(item::text) FROM requests")[0]
    assert id.version == 7
    assert has_waiting(database) is True


def test_many_are_asked_for_in_one_statement(
    owner: psycopg.Connection, producer: psycopg.Connection
) -> None:
    statement = """
        SELECT enqueue_notification(
                   %s, jsonb_build_object('channel', 'email', 'recipient', address, 'content', 'Hi')
               )
          FROM unnest(ARRAY['ada@example.com', 'bob@example.com']) AS address
    """
    told = [row[0] for row in producer.execute(statement, [FIRST_ORGANIZATION])]
    producer.commit()
    assert [request[0] for request in requests_of(owner)] == told


def test_what_must_hold_is_refused_with_words_that_help(producer: psycopg.Connection) -> None:
    unknown = "01900000-0000-7000-8000-00000000dead"
    with pytest.raises(errors.ForeignKeyViolation, match="There is no organization") as missing:
        producer.execute("SELECT enqueue_notification(%s, '{}')", [unknown])
    assert "sendoff tenant list" in (missing.value.diag.message_hint or "")
    producer.rollback()
    large = json.dumps({"content": "x" * 1024 * 1024})
    with pytest.raises(errors.ProgramLimitExceeded, match="at most 1048576") as too_large:
        enqueue(producer, large)
    assert too_large.value.diag.message_hint
    producer.rollback()
    for arguments in ([None, "{}"], [FIRST_ORGANIZATION, None]):
        with pytest.raises(errors.NullValueNotAllowed, match="needs an organization and an item"):
            producer.execute("SELECT enqueue_notification(%s, %s::jsonb)", arguments)
        producer.rollback()


def test_an_item_of_exactly_a_megabyte_is_taken(
    owner: psycopg.Connection, producer: psycopg.Connection
) -> None:
    frame = len('{"content": ""}')
    enqueue(producer, json.dumps({"content": "x" * (1024 * 1024 - frame)}))
    producer.commit()
    assert values(owner, "SELECT bytes FROM requests") == [1024 * 1024]


def test_postgresql_itself_keeps_out_what_is_no_text(producer: psycopg.Connection) -> None:
    for text in ('"\\u0000"', '"\\ud800"', "{", "NaN"):
        with pytest.raises(errors.DataError):
            enqueue(producer, text)
        producer.rollback()


TABLES = (
    "requests", "organizations", "notifications", "api_keys", "suppressions", "recipients",
    "transitions", "batches",
)  # fmt: skip


def test_a_producer_may_ask_and_touches_no_table(producer: psycopg.Connection) -> None:
    for table in TABLES:
        for statement in ("SELECT FROM {}", "DELETE FROM {}", "INSERT INTO {} DEFAULT VALUES"):
            with pytest.raises(errors.InsufficientPrivilege):
                producer.execute(statement.format(table).encode())
            producer.rollback()
    enqueue(producer, RECEIPT)


def test_nobody_else_may_ask(owner: psycopg.Connection) -> None:
    grantees = """
        SELECT CASE WHEN a.grantee = 0 THEN 'everybody' ELSE pg_get_userbyid(a.grantee) END
          FROM pg_proc p, aclexplode(p.proacl) a
         WHERE p.proname = 'enqueue_notification' AND a.grantee <> p.proowner
    """
    assert values(owner, grantees) == ["sendoff_producer"]
    role = """
        SELECT rolcanlogin OR rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls
          FROM pg_roles
         WHERE rolname = 'sendoff_producer'
    """
    assert values(owner, role) == [False]


def test_what_a_caller_puts_in_the_way_is_not_used(
    owner: psycopg.Connection, producer: psycopg.Connection
) -> None:
    """The function runs as the owner: a table or an operator of the caller's must not run in it."""
    producer.execute("CREATE TEMP TABLE requests (LIKE pg_class)")
    producer.execute("CREATE TEMP TABLE organizations (id uuid)")
    producer.execute("CREATE TYPE pg_temp.uuid AS ENUM ('mine')")
    producer.execute("SET search_path = pg_temp, public")
    id = enqueue(producer, RECEIPT)
    producer.commit()
    assert [request[0] for request in requests_of(owner)] == [id]


def test_the_age_of_the_oldest_that_waits_is_told(
    owner: psycopg.Connection, database: Database, producer: psycopg.Connection
) -> None:
    assert oldest_waiting_seconds(database) is None
    enqueue(producer, RECEIPT, SECOND_ORGANIZATION)
    enqueue(producer, RECEIPT)
    producer.commit()
    age = oldest_waiting_seconds(database, now=now_of(owner, minutes=5))
    assert age is not None
    assert 300 <= age < 330
    owner.execute("UPDATE requests SET drained_at = now(), faults = '[]'")
    assert oldest_waiting_seconds(database) is None
