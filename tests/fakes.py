"""Fakes with state, and the shortest way to put a notification where a test needs it."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql

INSERT_NOTIFICATION = """
    INSERT INTO notifications (id, organization_id, channel, recipient, recipient_hash, content,
                               priority, category, event_id, metadata, max_attempts, created_at,
                               ready, available_at, eligible_at, updated_at, expires_at)
    SELECT uuidv7(), %(organization_id)s, %(channel)s, %(recipient)s, %(recipient_hash)s,
           %(content)s::jsonb, %(priority)s, %(category)s, NULL, '{}', %(max_attempts)s, t.now,
           %(delay_seconds)s <= 0, t.now + %(delay_seconds)s * interval '1 second',
           t.now + %(delay_seconds)s * interval '1 second', t.now,
           t.now + %(expires_in_seconds)s * interval '1 second'
      FROM generate_series(1, %(count)s), (SELECT clock_timestamp() AS now) t
    RETURNING id
"""

FIRST_ORGANIZATION = UUID("01900000-0000-7000-8000-000000000001")
SECOND_ORGANIZATION = UUID("01900000-0000-7000-8000-000000000002")


def hash_of(recipient: str) -> bytes:
    return hashlib.sha256(recipient.encode()).digest()


def add_notifications(
    owner: psycopg.Connection,
    count: int = 1,
    *,
    organization_id: UUID = FIRST_ORGANIZATION,
    channel: str = "email",
    recipient: str = "ok@example.com",
    content: Any = "Your receipt",
    priority: str = "normal",
    category: str = "transactional",
    max_attempts: int = 5,
    delay_seconds: float = 0,
    expires_in_seconds: float | None = None,
) -> list[UUID]:
    """Put ``count`` pending notifications into the queue of record, as accept would."""
    parameters = {
        "organization_id": organization_id,
        "channel": channel,
        "recipient": recipient,
        "recipient_hash": hash_of(recipient),
        "content": json.dumps(content),
        "priority": priority,
        "category": category,
        "max_attempts": max_attempts,
        "delay_seconds": delay_seconds,
        "expires_in_seconds": expires_in_seconds,
        "count": count,
    }
    return [row[0] for row in owner.execute(INSERT_NOTIFICATION, parameters)]


@dataclass(frozen=True, slots=True)
class Row:
    """A notification as the database has it; columns by name."""

    columns: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        return self.columns[name]


def row_of(owner: psycopg.Connection, id: UUID, table: str = "notifications") -> Row:
    """Return the row ``id`` of ``table``."""
    statement = sql.SQL("SELECT * FROM {} WHERE id = %s").format(sql.Identifier(table))
    cursor = owner.execute(statement, [id])
    found = cursor.fetchone()
    assert found is not None, f"there is no {id} in {table}"
    return Row(dict(zip([column.name for column in cursor.description or ()], found, strict=True)))
