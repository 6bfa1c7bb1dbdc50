"""The database of a local stack: two organizations, three keys, the same at every start."""

from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from functions.core import api_key
from functions.core.signature import key_of
from functions.core.webhook_key import secret_of
from infra.local.postgres import Postgres
from infra.local.state import StateFolder, with_prefix
from infra.local.tenants import FIRST, KEYS, prepare_database
from tests.conftest import owner_connection

NAME = "sendoff"


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    folder = StateFolder(tmp_path / "state")
    folder.create()
    return folder


@pytest.fixture
def connection(postgres: Postgres, folder: StateFolder) -> Generator[psycopg.Connection]:
    """The prepared database, as its owner; it does not outlive the test."""
    prepare_database(folder, port=postgres.port, name=NAME)
    with owner_connection(postgres, NAME) as connection:
        yield connection
    with owner_connection(postgres, "postgres") as connection:
        connection.execute("DROP DATABASE sendoff WITH (FORCE)")


def holder(connection: psycopg.Connection, key: str) -> tuple[str, list[str]]:
    """Return the organization and the scopes behind a key, which must be a good one."""
    presented = api_key.read(key)
    assert presented is not None
    ((name, scopes, digest),) = connection.execute(
        "SELECT o.name, k.scopes, k.secret_sha256 FROM api_keys k"
        " JOIN organizations o ON o.id = k.organization_id WHERE k.id = %s",
        (presented.id,),
    ).fetchall()
    assert api_key.matches(presented.secret, digest)
    return name, scopes


def test_each_key_belongs_to_its_organization_and_has_its_scopes(
    folder: StateFolder, connection: psycopg.Connection
) -> None:
    keys = folder.secrets().api_keys
    assert {name: holder(connection, key) for name, key in keys.items()} == KEYS


def test_another_start_keeps_database_organizations_and_keys(
    folder: StateFolder, connection: psycopg.Connection, postgres: Postgres
) -> None:
    before = folder.secrets()
    assert prepare_database(folder, port=postgres.port, name=NAME) == before
    assert connection.execute("SELECT count(*) FROM api_keys").fetchone() == (3,)
    assert connection.execute("SELECT count(*) FROM organizations").fetchone() == (2,)


def test_a_revoked_key_is_replaced_and_the_others_stay(
    folder: StateFolder, connection: psycopg.Connection, postgres: Postgres
) -> None:
    before = folder.secrets().api_keys
    presented = api_key.read(before["admin_api_key"])
    assert presented is not None
    connection.execute(
        "UPDATE api_keys SET revoked_at = clock_timestamp() WHERE id = %s", (presented.id,)
    )
    after = prepare_database(folder, port=postgres.port, name=NAME).api_keys
    assert after["admin_api_key"] != before["admin_api_key"]
    assert holder(connection, after["admin_api_key"]) == KEYS["admin_api_key"]
    assert {name for name in KEYS if after[name] == before[name]} == {
        "api_key",
        "second_tenant_api_key",
    }


SIGNING = "UPDATE organizations SET webhook_key_number = %s WHERE name = %s RETURNING id"


@pytest.mark.parametrize("number", [1, 2])
def test_one_secret_verifies_the_gateways_requests_and_the_first_organizations_webhooks(
    folder: StateFolder, connection: psycopg.Connection, postgres: Postgres, number: int
) -> None:
    ((id,),) = connection.execute(SIGNING, (number, FIRST)).fetchall()
    secrets = prepare_database(folder, port=postgres.port, name=NAME)
    master = key_of(with_prefix(secrets.webhook))
    signing = secret_of(master, organization_id=id, number=number)
    assert with_prefix(secrets.gateway) == signing
    assert folder.secrets() == secrets
