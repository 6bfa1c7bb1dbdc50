"""Words by name and version: a version is added and never changed, whatever became of its name."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from functions.core.errors import NotFound
from functions.store.connection import Database

MAX_VERSION = 2**31 - 1
Wanted = tuple[str, int | None]
"""A name and a version; None for the newest."""
Key = tuple[UUID, str, int]
"""Organization, name and version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A name, and what stands behind it."""

    name: str
    latest_version: int
    archived_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    name: str
    version: int
    document: dict[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A version as a notification is accepted with it."""

    name: str
    version: int
    document: dict[str, Any]
    is_archived: bool


# Versions of one name are added one after the other, so that twins find each other's.
LOCK_NAME = """
    SELECT pg_advisory_xact_lock(hashtextextended(
               concat_ws('|', 'template', %(organization_id)s::text, %(name)s::text), 0))
"""

FIND_EQUAL = """
    SELECT v.version
      FROM templates t
      JOIN template_versions v ON v.organization_id = t.organization_id
                              AND v.name = t.name
                              AND v.version = t.latest_version
     WHERE t.organization_id = %(organization_id)s
       AND t.name = %(name)s
       AND v.document = %(document)s
"""

RESTORE = """
    UPDATE templates
       SET archived_at = NULL, updated_at = clock_timestamp()
     WHERE organization_id = %(organization_id)s AND name = %(name)s AND archived_at IS NOT NULL
"""

ADD = """
    INSERT INTO templates (organization_id, name, latest_version)
    VALUES (%(organization_id)s, %(name)s, 1)
        ON CONFLICT (organization_id, name) DO UPDATE
           SET latest_version = templates.latest_version + 1,
               archived_at = NULL,
               updated_at = clock_timestamp()
    RETURNING latest_version
"""

ADD_VERSION = """
    INSERT INTO template_versions (organization_id, name, version, document)
    VALUES (%(organization_id)s, %(name)s, %(version)s, %(document)s)
"""


def add_version(
    database: Database, *, organization_id: UUID, name: str, document: dict[str, Any]
) -> tuple[int, bool]:
    """Add a version and return its number with True; the newest and False when it is equal.

    Either way the name is no longer archived: words are published to be used.
    """
    parameters: dict[str, Any] = {
        "organization_id": organization_id,
        "name": name,
        "document": Jsonb(document),
    }

    def work(connection: psycopg.Connection) -> tuple[int, bool]:
        connection.execute(LOCK_NAME, parameters)
        equal = connection.execute(FIND_EQUAL, parameters).fetchone()
        if equal is not None:
            connection.execute(RESTORE, parameters)
            return equal[0], False
        ((version,),) = connection.execute(ADD, parameters).fetchall()
        connection.execute(ADD_VERSION, {**parameters, "version": version})
        return version, True

    return database.run(work)


ARCHIVE = """
    UPDATE templates
       SET archived_at = coalesce(archived_at, clock_timestamp()),
           updated_at = CASE WHEN archived_at IS NULL THEN clock_timestamp() ELSE updated_at END
     WHERE organization_id = %(organization_id)s AND name = %(name)s
    RETURNING name, latest_version, archived_at, created_at, updated_at
"""


def archive(database: Database, *, organization_id: UUID, name: str) -> Template:
    """Let nothing new be accepted with ``name``; raise NotFound."""
    parameters = {"organization_id": organization_id, "name": name}

    def work(connection: psycopg.Connection) -> Template:
        with connection.cursor(row_factory=class_row(Template)) as cursor:
            archived = cursor.execute(ARCHIVE, parameters).fetchone()
        if archived is None:
            raise NotFound
        return archived

    return database.run(work)


LIST = """
    SELECT name, latest_version, archived_at, created_at, updated_at
      FROM templates
     WHERE organization_id = %(organization_id)s
       AND (%(after)s::text IS NULL OR name > %(after)s)
     ORDER BY name
     LIMIT %(limit)s
"""


def list_templates(
    database: Database, *, organization_id: UUID, after: str | None, limit: int
) -> list[Template]:
    """Return templates in the order of their names."""
    parameters = {"organization_id": organization_id, "after": after, "limit": limit}

    def read(connection: psycopg.Connection) -> list[Template]:
        with connection.cursor(row_factory=class_row(Template)) as cursor:
            return cursor.execute(LIST, parameters).fetchall()

    return database.run(read)


READ = """
    SELECT name, latest_version, archived_at, created_at, updated_at
      FROM templates
     WHERE organization_id = %(organization_id)s AND name = %(name)s
"""

READ_VERSION = """
    SELECT name, version, document, created_at
      FROM template_versions
     WHERE organization_id = %(organization_id)s AND name = %(name)s AND version = %(version)s
"""


def read_template(
    database: Database, *, organization_id: UUID, name: str, version: int | None = None
) -> tuple[Template, Version]:
    """Return a template with one version of it, the newest by default; raise NotFound."""
    parameters: dict[str, Any] = {"organization_id": organization_id, "name": name}

    def read(connection: psycopg.Connection) -> tuple[Template, Version]:
        with connection.cursor(row_factory=class_row(Template)) as cursor:
            template = cursor.execute(READ, parameters).fetchone()
        if template is None:
            raise NotFound
        wanted = {**parameters, "version": version or template.latest_version}
        with connection.cursor(row_factory=class_row(Version)) as cursor:
            found = cursor.execute(READ_VERSION, wanted).fetchone()
        if found is None:
            raise NotFound
        return template, found

    return database.run(read)


READ_PINNED = """
    SELECT wanted.version AS wanted, v.name, v.version, v.document,
           t.archived_at IS NOT NULL AS is_archived
      FROM unnest(%(names)s::text[], %(versions)s::integer[]) AS wanted (name, version)
      JOIN templates t ON t.organization_id = %(organization_id)s AND t.name = wanted.name
      JOIN template_versions v ON v.organization_id = t.organization_id
                              AND v.name = t.name
                              AND v.version = coalesce(wanted.version, t.latest_version)
"""


def read_pinned(
    connection: psycopg.Connection, *, organization_id: UUID, wanted: Iterable[Wanted]
) -> dict[Wanted, Pinned]:
    """Return the version behind each of ``wanted``; one that does not exist is left out.

    A document has up to 256 KB: ask for no more than a request may name.
    """
    possible = [
        (name, version)
        for name, version in dict.fromkeys(wanted)
        if version is None or 0 < version <= MAX_VERSION
    ]
    parameters = {
        "organization_id": organization_id,
        "names": [name for name, _ in possible],
        "versions": [version for _, version in possible],
    }
    return {
        (name, asked): Pinned(
            name=name, version=version, document=document, is_archived=is_archived
        )
        for asked, name, version, document, is_archived in connection.execute(
            READ_PINNED, parameters
        )
    }


READ_DOCUMENTS = """
    SELECT v.organization_id, v.name, v.version, v.document
      FROM unnest(%(organization_ids)s::uuid[], %(names)s::text[], %(versions)s::integer[])
           AS wanted (organization_id, name, version)
      JOIN template_versions v USING (organization_id, name, version)
"""


def documents_of(database: Database, keys: Iterable[Key]) -> dict[Key, dict[str, Any]]:
    """Return the documents of pinned versions."""
    pinned = list(dict.fromkeys(keys))
    parameters = {
        "organization_ids": [organization_id for organization_id, _, _ in pinned],
        "names": [name for _, name, _ in pinned],
        "versions": [version for _, _, version in pinned],
    }

    def read(connection: psycopg.Connection) -> dict[Key, dict[str, Any]]:
        return {
            (organization_id, name, version): document
            for organization_id, name, version, document in connection.execute(
                READ_DOCUMENTS, parameters
            )
        }

    return database.run(read)
