"""What becomes of requests that were judged: each write is part of their settling transaction.

A request that became a notification is gone; one that repeats an event, or is invalid, stays and
tells so; one whose recipient was erased meanwhile leaves a notification that was never sent.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import scalar_row

from functions.core.errors import Fault

FORGET_STORED = "DELETE FROM requests WHERE id = ANY(%(ids)b::uuid[])"


def forget_stored(connection: psycopg.Connection, ids: Sequence[UUID]) -> None:
    """Delete requests of which there is a notification by now."""
    connection.execute(FORGET_STORED, {"ids": list(ids)})


KEEP_REPEATS = """
    UPDATE requests r
       SET repeats = m.first, item = NULL, taken_until = NULL,
           drained_at = coalesce(%(now)s, clock_timestamp())
      FROM unnest(%(ids)b::uuid[], %(firsts)b::uuid[]) AS m (id, first)
     WHERE r.id = m.id
"""


def keep_repeats(
    connection: psycopg.Connection,
    repeats: Sequence[tuple[UUID, UUID]],
    *,
    now: datetime | None = None,
) -> None:
    """Keep of each request whose event was known that it repeats another's notification."""
    parameters = {
        "ids": [id for id, _ in repeats],
        "firsts": [first for _, first in repeats],
        "now": now,
    }
    connection.execute(KEEP_REPEATS, parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """To whom a request was meant to go: a recipient, or the keyed hash of an address."""

    id: UUID
    organization_id: UUID
    recipient_id: str | None
    recipient_hash: bytes | None


# What was asked for before the erasure began is erased with it, as what was accepted before is.
FIND_ERASED = """
    SELECT m.id
      FROM unnest(%(ids)s::uuid[], %(organization_ids)s::uuid[], %(recipient_ids)s::text[],
                  %(hashes)s::bytea[])
           AS m (id, organization_id, recipient_id, recipient_hash)
     WHERE EXISTS (
           SELECT FROM erasures e
            WHERE e.organization_id = m.organization_id
              AND e.started_at >= uuid_extract_timestamp(m.id)
              AND (e.recipient_id = m.recipient_id OR m.recipient_hash = ANY(e.addresses)))
"""


def find_erased(connection: psycopg.Connection, meant: Sequence[Meant]) -> frozenset[UUID]:
    """Return those whose recipient was erased after they had been asked for."""
    parameters = {
        "ids": [one.id for one in meant],
        "organization_ids": [one.organization_id for one in meant],
        "recipient_ids": [one.recipient_id for one in meant],
        "hashes": [one.recipient_hash for one in meant],
    }
    with connection.cursor(row_factory=scalar_row) as cursor:
        return frozenset(cursor.execute(FIND_ERASED, parameters).fetchall())


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """A request of which nothing is sent, and what its notification shows of it."""

    id: UUID
    organization_id: UUID
    faults: Sequence[Fault] | None
    """Why it is invalid; None where it is not: its recipient was erased."""
    channel: str
    priority: str
    category: str
    reference: str | None


# Of an address nothing is known: no suppression, no receipt and no event ever finds such a row.
# The status that it would have had is the one it comes from.
KEEP_UNSENT = """
    WITH unsent AS MATERIALIZED (
        SELECT u.*, coalesce(%(now)s, clock_timestamp()) AS at, u.faults IS NULL AS is_erased
          FROM jsonb_to_recordset(%(unsent)s::jsonb) AS u (
                   id uuid, organization_id uuid, channel text, priority text, category text,
                   reference text, faults jsonb
               )
    ),
    ended AS (
        INSERT INTO notifications (
            id, organization_id, channel, recipient_hash, content, priority, category, reference,
            metadata, max_attempts, created_at, updated_at, status, reason, ready, available_at,
            eligible_at, final_at, erased_at, stream
        )
        SELECT u.id, u.organization_id, u.channel, decode(repeat('00', 32), 'hex'), 'null',
               u.priority, u.category, u.reference, '{}', c.max_attempts,
               uuid_extract_timestamp(u.id), u.at,
               CASE WHEN u.is_erased THEN 'suppressed' ELSE 'dead' END,
               CASE WHEN u.is_erased THEN 'erased' ELSE 'invalid' END,
               false, u.at, u.at,
               CASE WHEN u.is_erased THEN u.at END, CASE WHEN u.is_erased THEN u.at END,
               CASE WHEN u.category = ANY(o.transactional_categories) THEN 'transactional'
                    ELSE 'bulk' END
          FROM unsent u
          JOIN channels c ON c.name = u.channel
          JOIN organizations o ON o.id = u.organization_id
        RETURNING id, organization_id, updated_at, status, reason
    ),
    told AS (
        INSERT INTO transitions
               (notification_id, organization_id, at, actor, from_status, to_status, reason)
        SELECT id, organization_id, updated_at,
               CASE WHEN status = 'dead' THEN 'accept' ELSE 'client' END,
               'pending', status, reason
          FROM ended
    ),
    gone AS (
        DELETE FROM requests r
         USING unsent u
         WHERE r.id = u.id AND u.is_erased
    )
    UPDATE requests r
       SET faults = u.faults, drained_at = u.at, taken_until = NULL
      FROM unsent u
     WHERE r.id = u.id AND NOT u.is_erased
"""


def keep_unsent(
    connection: psycopg.Connection, unsent: Sequence[Unsent], *, now: datetime | None = None
) -> None:
    """Make each of ``unsent`` a notification that has ended: a dead one, whose request keeps the
    item and the faults; or a suppressed one, of which nothing else is left."""
    rows = [
        {
            "id": str(one.id),
            "organization_id": str(one.organization_id),
            "channel": one.channel,
            "priority": one.priority,
            "category": one.category,
            "reference": one.reference,
            "faults": one.faults
            and [
                {"pointer": fault.pointer, "code": fault.code, "detail": fault.detail}
                for fault in one.faults
            ],
        }
        for one in unsent
    ]
    connection.execute(KEEP_UNSENT, {"unsent": json.dumps(rows), "now": now})
