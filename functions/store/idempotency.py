"""Idempotency keys: the first answer to a request, found again by its repetition for 24 hours.

A key is written in the transaction that accepts: a crash, a refusal or an outage leaves it free,
and nothing is ever "in progress" without a transaction that holds it.

What clients take for a key may name somebody, and is never to be free before its time: so only its
digest is stored, of which nothing has to be erased.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg

from functions.core.errors import IdempotencyKeyReused, Unavailable
from functions.store.connection import Database

KEPT_HOURS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as its repetition is recognised: who, where, which key, which content."""

    organization_id: UUID
    route: str
    key: str
    request_sha256: bytes

    def parameters(self) -> dict[str, Any]:
        return {
            "organization_id": self.organization_id,
            "route": self.route,
            "key": self.key,
            "request_sha256": self.request_sha256,
        }


# An expired key is taken over in place; a live one gives no row, after waiting for its owner. A key
# in clear is of before they were digests: it stands until it expires.
CLAIM_KEY = """
    INSERT INTO idempotency_keys AS k
           (organization_id, route, key, request_sha256, batch_id, expires_at)
    SELECT %(organization_id)s, %(route)s,
           coalesce((SELECT c.key
                       FROM idempotency_keys c
                      WHERE c.organization_id = %(organization_id)s AND c.route = %(route)s
                        AND c.key = %(key)s), as_digest(%(key)s)),
           %(request_sha256)s, uuidv7(),
           coalesce(%(now)s, clock_timestamp()) + %(kept_hours)s * interval '1 hour'
    ON CONFLICT (organization_id, route, key) DO UPDATE
       SET request_sha256 = EXCLUDED.request_sha256, batch_id = EXCLUDED.batch_id, response = NULL,
           notification_id = NULL, created_at = EXCLUDED.created_at,
           expires_at = EXCLUDED.expires_at
     WHERE k.expires_at <= coalesce(%(now)s, clock_timestamp())
    RETURNING batch_id
"""


def claim_key(
    connection: psycopg.Connection, request: Request, *, now: datetime | None
) -> UUID | None:
    """Return the id for a batch to store under the key; None when the key has its answer."""
    parameters = {**request.parameters(), "kept_hours": KEPT_HOURS, "now": now}
    row = connection.execute(CLAIM_KEY, parameters).fetchone()
    return row[0] if row else None


KEEP_RESPONSE = """
    UPDATE idempotency_keys
       SET response = %(response)s, notification_id = %(notification_id)s, batch_id = NULL
     WHERE organization_id = %(organization_id)s AND route = %(route)s
       AND key = ANY(ARRAY[%(key)s, as_digest(%(key)s)])
"""


def keep_response(
    connection: psycopg.Connection, request: Request, response: str, *, notification_id: UUID
) -> None:
    """Keep the text of the answer, which shows this notification, under a key that ``claim_key``
    has just given."""
    shown = {"response": response, "notification_id": notification_id}
    connection.execute(KEEP_RESPONSE, {**request.parameters(), **shown})


READ_KEY = """
    SELECT request_sha256, batch_id, response, notification_id
      FROM idempotency_keys
     WHERE organization_id = %(organization_id)s AND route = %(route)s
       AND key = ANY(ARRAY[%(key)s, as_digest(%(key)s)])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a key stands for: a batch, or the text of an answer that shows a notification."""

    batch_id: UUID | None
    response: str | None
    """None of a batch, and where its notification was erased."""
    notification_id: UUID | None


def read_key(connection: psycopg.Connection, request: Request) -> Kept:
    """Return what the key stands for; raise IdempotencyKeyReused for another request."""
    row = connection.execute(READ_KEY, request.parameters()).fetchone()
    if row is None:
        raise Unavailable("The idempotency key expired while its request was being repeated.")
    request_sha256, batch_id, response, notification_id = row
    if request_sha256 != request.request_sha256:
        raise IdempotencyKeyReused
    return Kept(batch_id=batch_id, response=response, notification_id=notification_id)


# A key that is just being taken over is locked by its request, and skipped.
FORGET_EXPIRED_KEYS = """
    DELETE FROM idempotency_keys
     WHERE ctid = ANY(ARRAY(
           SELECT ctid
             FROM idempotency_keys
            WHERE expires_at <= (SELECT coalesce(%(now)s, clock_timestamp()))
            ORDER BY expires_at
            LIMIT %(limit)s
              FOR UPDATE SKIP LOCKED))
"""
FORGOTTEN_AT_ONCE = 1000


def forget_expired_keys(database: Database, *, now: datetime | None = None) -> int:
    """Delete up to 1000 keys whose 24 hours are over; return how many."""
    parameters = {"now": now, "limit": FORGOTTEN_AT_ONCE}
    return database.run(
        lambda connection: connection.execute(FORGET_EXPIRED_KEYS, parameters).rowcount
    )
