"""The two organizations of a local stack and their keys, the same from start to start."""

import dataclasses
from collections.abc import Sequence
from uuid import UUID

import psycopg

from functions.core import api_key
from functions.core.login import Login
from functions.core.signature import SECRET_PREFIX, key_of
from functions.core.webhook_key import secret_of
from functions.migrate.migrate import MigrationRefused, migrate
from functions.store.connection import Database, connector
from functions.store.organization import create_api_key, create_organization, find_api_key
from functions.store.sms import set_limits
from functions.store.webhook_key import read_webhook_key
from infra.local.postgres import HOST, SUPERUSER
from infra.local.state import Secrets, StateFolder

FIRST, SECOND = "organization 1", "organization 2"
KEYS: dict[str, tuple[str, list[str]]] = {
    "api_key": (FIRST, ["send", "read", "admin"]),
    "admin_api_key": (FIRST, ["admin"]),
    "second_tenant_api_key": (SECOND, ["send", "read"]),
}
"""{name in local.json: (organization, scopes)}"""

CREATE_DATABASE = "CREATE DATABASE sendoff"


def prepare_database(folder: StateFolder, *, port: int, name: str) -> Secrets:
    """Create and migrate the database, see to tenants and keys; return all secrets."""
    with _connect(port, "postgres") as connection:
        known = connection.execute("SELECT FROM pg_database WHERE datname = %s", (name,)).fetchone()
        if known is None:
            connection.execute(CREATE_DATABASE)
    with _connect(port, name) as connection:
        try:
            migrate(connection)
        except MigrationRefused as error:
            raise MigrationRefused(
                f"{error.detail} `sendoff reset` starts afresh with an empty database."
            ) from error
    login = Login(host=HOST, port=port, name=name, user=SUPERUSER, tls=False)
    database = Database(connector(lambda: login, application_name="sendoff up"))
    try:
        return _with_keys(database, folder)
    finally:
        database.close()


def _connect(port: int, name: str) -> psycopg.Connection:
    return psycopg.connect(
        host=HOST, port=port, dbname=name, user=SUPERUSER, sslmode="disable", autocommit=True
    )


def _with_keys(database: Database, folder: StateFolder) -> Secrets:
    secrets = folder.secrets()
    organizations = {name: create_organization(database, name=name).id for name in (FIRST, SECOND)}
    if not secrets.api_keys:
        _lift_limits(database, list(organizations.values()))
    keys = {
        name: key
        for name, key in secrets.api_keys.items()
        if name in KEYS and _is_live(database, key)
    }
    for name, (organization, scopes) in KEYS.items():
        if name not in keys:
            made = create_api_key(
                database, organization_id=organizations[organization], name=name, scopes=scopes
            )
            keys[name] = made.key
    first = organizations[FIRST]
    signing = secret_of(
        key_of(SECRET_PREFIX + secrets.webhook),
        organization_id=first,
        number=read_webhook_key(database, id=first).number,
    ).removeprefix(SECRET_PREFIX)
    # The gateway's too: one secret verifies whatever the first organization's stack sends out.
    secrets = dataclasses.replace(secrets, api_keys=keys, gateway=signing)
    folder.keep(secrets)
    return secrets


def _lift_limits(database: Database, organizations: Sequence[UUID]) -> None:
    """All numbers of the simulator begin alike: as the traffic of a few days' old tenant they would
    look like an attack."""
    for organization_id in organizations:
        set_limits(
            database,
            organization_id=organization_id,
            number_per_hour=0,
            prefix_per_hour=0,
            unusual_per_day=0,
        )


def _is_live(database: Database, key: str) -> bool:
    presented = api_key.read(key)
    stored = find_api_key(database, key_id=presented.id) if presented else None
    return bool(presented and stored and api_key.matches(presented.secret, stored.secret_sha256))
