"""Organizations and their API keys.

Creating and revoking need the operators' role or an owner's connection: the functions' own role may
only read here. Under an ``action`` they are kept in the same transaction. All of it may be repeated
after an unknown COMMIT: nothing is made twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core import api_key
from functions.store.action import Action, Fate, record_action, result_of
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedApiKey:
    """A key as its organization's operators see it, live or revoked."""

    id: UUID
    name: str
    scopes: list[str]
    created_at: datetime
    revoked_at: datetime | None


CREATE_ORGANIZATION = """
    INSERT INTO organizations (name) VALUES (%(name)s)
    ON CONFLICT (name) DO UPDATE SET name = EXCLUDED.name -- so that RETURNING sees the row
    RETURNING id, name, created_at
"""


def create_organization(
    database: Database, *, name: str, action: Action | None = None
) -> Organization:
    """Return the organization called ``name``, creating it if there is none yet.

    What recipients chose before is not copied to it (shared_fact.py): it learns of a STOP when the
    service's own list refuses its first message, which suppresses the number. Where opt-outs are
    managed by ourselves there is no such list, and it does not learn of it.
    """

    def work(connection: psycopg.Connection) -> Organization:
        with connection.cursor(row_factory=class_row(Organization)) as cursor:
            cursor.execute(CREATE_ORGANIZATION, {"name": name})
            (organization,) = cursor.fetchall()
        if action is not None:
            record_action(connection, action, result={"id": str(organization.id)})
        return organization

    return database.run(work)


FIND_ORGANIZATION = """
    SELECT id, name, created_at
      FROM organizations
     WHERE id = %(id)s OR name = %(name)s
"""


def find_organization(
    database: Database, *, id: UUID | None = None, name: str | None = None
) -> Organization | None:
    """Return the organization with this ``id``, or of this ``name``; None when there is none."""

    def work(connection: psycopg.Connection) -> Organization | None:
        with connection.cursor(row_factory=class_row(Organization)) as cursor:
            return cursor.execute(FIND_ORGANIZATION, {"id": id, "name": name}).fetchone()

    return database.run(work)


LIST_ORGANIZATIONS = """
    SELECT id, name, created_at
      FROM organizations
     WHERE %(after)s::uuid IS NULL OR id > %(after)s
     ORDER BY id
     LIMIT %(limit)s
"""


def list_organizations(
    database: Database, *, after: UUID | None = None, limit: int = 100
) -> list[Organization]:
    """Return up to ``limit`` organizations after the id ``after``, the oldest first."""

    def work(connection: psycopg.Connection) -> list[Organization]:
        with connection.cursor(row_factory=class_row(Organization)) as cursor:
            parameters = {"after": after, "limit": limit}
            return cursor.execute(LIST_ORGANIZATIONS, parameters).fetchall()

    return database.run(work)


# Nobody else has this secret: a key that has it already was made by this very call, whose COMMIT
# was not heard of.
CREATE_API_KEY = """
    WITH known AS MATERIALIZED (
        SELECT id
          FROM api_keys
         WHERE organization_id = %(organization_id)s
           AND secret_sha256 = %(secret_sha256)s
    ),
    made AS (
        INSERT INTO api_keys (organization_id, name, secret_sha256, scopes)
        SELECT %(organization_id)s, %(name)s, %(secret_sha256)s, %(scopes)s
         WHERE NOT EXISTS (SELECT FROM known)
        RETURNING id
    )
    SELECT id FROM known
    UNION ALL
    SELECT id FROM made
"""


def create_api_key(
    database: Database,
    *,
    organization_id: UUID,
    name: str,
    scopes: Sequence[str],
    action: Action | None = None,
) -> NewApiKey:
    """Create a key with ``scopes`` (see Scope) and return its text, this once."""
    secret = api_key.new_secret()
    parameters = {
        "organization_id": organization_id,
        "name": name,
        "secret_sha256": api_key.digest(secret),
        "scopes": list(scopes),
    }

    def work(connection: psycopg.Connection) -> UUID:
        ((key_id,),) = connection.execute(CREATE_API_KEY, parameters).fetchall()
        if action is not None:
            record_action(connection, action, result={"id": str(key_id)})
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


LIST_API_KEYS = """
    SELECT id, name, scopes, created_at, revoked_at
      FROM api_keys
     WHERE organization_id = %(organization_id)s
       AND (%(after)s::uuid IS NULL OR id > %(after)s)
     ORDER BY id
     LIMIT %(limit)s
"""


def list_api_keys(
    database: Database, *, organization_id: UUID, after: UUID | None = None, limit: int = 100
) -> list[ListedApiKey]:
    """Return up to ``limit`` keys of the organization after the id ``after``, the oldest first."""

    def work(connection: psycopg.Connection) -> list[ListedApiKey]:
        with connection.cursor(row_factory=class_row(ListedApiKey)) as cursor:
            parameters = {"organization_id": organization_id, "after": after, "limit": limit}
            return cursor.execute(LIST_API_KEYS, parameters).fetchall()

    return database.run(work)


REVOKE_API_KEY = """
    WITH revoked AS (
        UPDATE api_keys
           SET revoked_at = coalesce(%(now)s, clock_timestamp())
         WHERE id = %(key_id)s
           AND revoked_at IS NULL
        RETURNING id
    )
    SELECT CASE WHEN EXISTS (SELECT FROM revoked) THEN 'revoked'
                WHEN EXISTS (SELECT FROM api_keys WHERE id = %(key_id)s) THEN 'already_revoked'
                ELSE 'not_found' END AS fate
"""


def revoke_api_key(
    database: Database, *, key_id: UUID, action: Action | None = None, now: datetime | None = None
) -> Fate:
    """Revoke the key; callers are refused within 60 s.

    Fates: revoked, already_revoked, not_found.
    """

    def work(connection: psycopg.Connection) -> Fate:
        done = None if action is None else result_of(connection, action)
        if done is not None:
            return Fate(id=key_id, fate=done["fate"])
        parameters = {"key_id": key_id, "now": now}
        ((fate,),) = connection.execute(REVOKE_API_KEY, parameters).fetchall()
        if action is not None:
            record_action(connection, action, result={"fate": fate}, now=now)
        return Fate(id=key_id, fate=fate)

    return database.run(work)
