"""Organizations and their API keys.

Creating and revoking need an owner's connection: the functions' role may only read here.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core import api_key
from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Organization:
    id: UUID
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKey:
    """A key at the one moment its text is known: show it, never store it."""

    id: UUID
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A live key as stored."""

    id: UUID
    organization_id: UUID
    secret_sha256: bytes
    scopes: list[str]


CREATE_ORGANIZATION = """
    INSERT INTO organizations (name) VALUES (%(name)s)
    ON CONFLICT (name) DO UPDATE SET name = EXCLUDED.name -- so that RETURNING sees the row
    RETURNING id, name, created_at
"""


def create_organization(database: Database, *, name: str) -> Organization:
    """Return the organization called ``name``, creating it if there is none yet."""

    def work(connection: psycopg.Connection) -> Organization:
        with connection.cursor(row_factory=class_row(Organization)) as cursor:
            cursor.execute(CREATE_ORGANIZATION, {"name": name})
            (organization,) = cursor.fetchall()
            return organization

    return database.run(work)


CREATE_API_KEY = """
    INSERT INTO api_keys (organization_id, name, secret_sha256, scopes)
    VALUES (%(organization_id)s, %(name)s, %(secret_sha256)s, %(scopes)s)
    RETURNING id
"""


def create_api_key(
    database: Database, *, organization_id: UUID, name: str, scopes: list[str]
) -> NewApiKey:
    """Create a key with ``scopes`` (of send, read, admin) and return its text, this once."""
    secret = api_key.new_secret()

    def work(connection: psycopg.Connection) -> UUID:
        parameters = {
            "organization_id": organization_id,
            "name": name,
            "secret_sha256": api_key.digest(secret),
            "scopes": scopes,
        }
        ((key_id,),) = connection.execute(CREATE_API_KEY, parameters).fetchall()
        return key_id

    key_id = database.run(work)
    return NewApiKey(id=key_id, key=api_key.write(key_id=key_id, secret=secret))


FIND_API_KEY = """
    SELECT id, organization_id, secret_sha256, scopes
      FROM api_keys
     WHERE id = %(key_id)s
       AND revoked_at IS NULL
"""


def find_api_key(database: Database, *, key_id: UUID) -> ApiKey | None:
    """Return the live key ``key_id``; None when there is none, or none any more."""

    def work(connection: psycopg.Connection) -> ApiKey | None:
        with connection.cursor(row_factory=class_row(ApiKey)) as cursor:
            return cursor.execute(FIND_API_KEY, {"key_id": key_id}).fetchone()

    return database.run(work)


REVOKE_API_KEY = """
    UPDATE api_keys
       SET revoked_at = coalesce(%(now)s, clock_timestamp())
     WHERE id = %(key_id)s
       AND revoked_at IS NULL
    RETURNING id
"""


def revoke_api_key(database: Database, *, key_id: UUID, now: datetime | None = None) -> bool:
    """Revoke the key; return whether it was live. Callers are refused within 60 s."""

    def work(connection: psycopg.Connection) -> bool:
        parameters = {"key_id": key_id, "now": now}
        return connection.execute(REVOKE_API_KEY, parameters).fetchone() is not None

    return database.run(work)
