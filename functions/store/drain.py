"""Take in requests made by SQL: held while they are judged, gone with what comes of them.

Whoever drains holds the rows it took until the notifications that come of them are committed;
others pass them over. A crash leaves them waiting, so that each is taken in exactly once.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core.errors import Fault

MOST_AT_ONCE = 200
MOST_BYTES = 4 * 1024 * 1024
"""Of the items of a page, so that it needs no more memory than the largest body of the API."""

FIRST = UUID(int=0)
"""Before every organization."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A request as it came; ``text`` is the JSON of its item."""

    id: UUID
    organization_id: UUID
    text: str


# turn: the organizations with something waiting, one index descent each, so that whoever asks for
#       much leaves the others their share of a page.
# page: locked; what another drain holds is passed over. The organization stands as a range: were it
#       an equality, the primary key would give the order too, and all that is kept might be read.
# The items of a page are read up to a number of bytes, and of one request in any case.
TAKE = """
    WITH RECURSIVE turn (organization_id, place) AS (
        (SELECT organization_id, 1
           FROM requests
          WHERE drained_at IS NULL AND organization_id > %(after)s
          ORDER BY organization_id LIMIT 1)
        UNION ALL
        (SELECT next.organization_id, turn.place + 1
           FROM turn
          CROSS JOIN LATERAL (
                SELECT organization_id
                  FROM requests
                 WHERE drained_at IS NULL AND organization_id > turn.organization_id
                 ORDER BY organization_id LIMIT 1) next
          WHERE turn.place < %(most)s)
    ),
    share AS (
        SELECT ceil(%(most)s::numeric / greatest(count(*), 1))::int AS size FROM turn
    ),
    page AS MATERIALIZED (
        SELECT mine.*
          FROM turn
         CROSS JOIN share
         CROSS JOIN LATERAL (
               SELECT id, organization_id, item, bytes
                 FROM requests
                WHERE drained_at IS NULL
                  AND organization_id >= turn.organization_id
                  AND organization_id <= turn.organization_id
                ORDER BY organization_id, id
                LIMIT share.size
                  FOR UPDATE SKIP LOCKED) mine
    )
    SELECT id, organization_id, item::text AS text
      FROM (SELECT page.*, sum(bytes) OVER (ORDER BY organization_id, id) - bytes AS before
              FROM page) measured
     WHERE before = 0 OR before + bytes <= %(bytes)s
     ORDER BY organization_id, id
     LIMIT %(most)s
"""


def take(
    connection: psycopg.Connection,
    *,
    after: UUID,
    most: int = MOST_AT_ONCE,
    most_bytes: int = MOST_BYTES,
) -> list[Waiting]:
    """Return a page of what waits, by organizations after ``after`` and in each the oldest first.

    They stay locked until the caller's transaction ends.
    """
    parameters = {"after": after, "most": most, "bytes": most_bytes}
    with connection.cursor(row_factory=class_row(Waiting)) as cursor:
        return cursor.execute(TAKE, parameters).fetchall()


FORGET_STORED = "DELETE FROM requests WHERE id = ANY(%(ids)b::uuid[])"


def forget_stored(connection: psycopg.Connection, ids: Sequence[UUID]) -> None:
    """Delete requests of which there is a notification by now, as part of the transaction."""
    connection.execute(FORGET_STORED, {"ids": list(ids)})


KEEP_REPEATS = """
    UPDATE requests r
       SET repeats = m.first, item = NULL, drained_at = coalesce(%(now)s, clock_timestamp())
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
class Invalid:
    """A request that cannot be sent, and what its notification shows of it."""

    id: UUID
    organization_id: UUID
    faults: Sequence[Fault]
    channel: str
    priority: str
    category: str
    reference: str | None


# Of an address nothing is known: no suppression, no receipt and no event ever finds such a row.
# The status that it would have had is the one it comes from.
KEEP_INVALID = """
    WITH invalid AS MATERIALIZED (
        SELECT i.*, coalesce(%(now)s, clock_timestamp()) AS at
          FROM jsonb_to_recordset(%(invalid)s::jsonb) AS i (
                   id uuid, organization_id uuid, channel text, priority text, category text,
                   reference text, faults jsonb
               )
    ),
    dead AS (
        INSERT INTO notifications (
            id, organization_id, channel, recipient_hash, content, priority, category, reference,
            metadata, max_attempts, created_at, updated_at, status, reason, ready, available_at,
            eligible_at, stream
        )
        SELECT i.id, i.organization_id, i.channel, decode(repeat('00', 32), 'hex'), 'null',
               i.priority, i.category, i.reference, '{}', c.max_attempts,
               uuid_extract_timestamp(i.id), i.at, 'dead', 'invalid', false, i.at, i.at,
               CASE WHEN i.category = ANY(o.transactional_categories) THEN 'transactional'
                    ELSE 'bulk' END
          FROM invalid i
          JOIN channels c ON c.name = i.channel
          JOIN organizations o ON o.id = i.organization_id
        RETURNING id, organization_id, updated_at
    ),
    told AS (
        INSERT INTO transitions
               (notification_id, organization_id, at, actor, from_status, to_status, reason)
        SELECT id, organization_id, updated_at, 'accept', 'pending', 'dead', 'invalid' FROM dead
    )
    UPDATE requests r
       SET faults = i.faults, drained_at = i.at
      FROM invalid i
     WHERE r.id = i.id
"""


def keep_invalid(
    connection: psycopg.Connection, invalid: Sequence[Invalid], *, now: datetime | None = None
) -> None:
    """Make each of ``invalid`` a dead notification; its request keeps the item and the faults."""
    rows = [
        {
            "id": str(one.id),
            "organization_id": str(one.organization_id),
            "channel": one.channel,
            "priority": one.priority,
            "category": one.category,
            "reference": one.reference,
            "faults": [
                {"pointer": fault.pointer, "code": fault.code, "detail": fault.detail}
                for fault in one.faults
            ],
        }
        for one in invalid
    ]
    connection.execute(KEEP_INVALID, {"invalid": json.dumps(rows), "now": now})
