"""What is held and waits for a person, in pages.

Of a notification by several channels a candidate is held, which it follows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A notification that is held; ``needed`` unless the one that it is a candidate of goes on or
    ended without it, so that nobody has to decide."""

    id: UUID
    organization_id: UUID
    channel: str
    priority: str
    reason: str
    provider: str | None
    attempts_spent: int
    max_attempts: int
    in_doubt: int
    created_at: datetime
    needed: bool
    held_at: datetime
    last_code: str | None
    last_http_status: int | None


# Channels as an array: without one named, all four are walked by the same index. Planned for the
# values at hand. Materialized: the primary key would give the order too, and to find the first held
# rows by it all those that are not held would be walked over. A candidate whose notification goes
# on or ended without it waits for nobody; of one that its notification was not told of, that is not
# known yet. A scalar: an EXISTS may be planned as one pass over all.
LIST_HELD = """
    WITH held AS MATERIALIZED (
        SELECT h.*, w.needed
          FROM notifications h
         CROSS JOIN LATERAL (
               SELECT h.parent_id IS NULL
                      OR (SELECT p.final_at IS NULL
                                 AND (p.status = 'dead' OR h.told_status IS DISTINCT FROM 'dead')
                            FROM notifications p
                           WHERE p.id = h.parent_id) IS NOT FALSE AS needed) w
         WHERE status = 'dead' AND discarded_at IS NULL AND channels IS NULL
           AND channel = ANY(%(channels)s)
           AND (%(organization_id)s::uuid IS NULL OR organization_id = %(organization_id)s)
           AND (%(reason)s::text IS NULL OR reason = %(reason)s)
           AND (%(ids)s::uuid[] IS NULL OR id = ANY(%(ids)s::uuid[]))
           AND (%(after)s::uuid IS NULL OR id > %(after)s)
           AND (%(needless)s OR w.needed)
    )
    SELECT n.id, n.organization_id, n.channel, n.priority, n.reason, n.provider,
           n.attempts_spent, n.max_attempts, n.in_doubt, n.created_at, n.needed,
           coalesce(t.at, n.updated_at) AS held_at, -- a doubt may have been resolved since
           a.code AS last_code, a.http_status AS last_http_status
      FROM (SELECT * FROM held ORDER BY id LIMIT %(limit)s) n
      LEFT JOIN LATERAL (
           SELECT code, http_status
             FROM attempts
            WHERE notification_id = n.id
            ORDER BY lease_number DESC LIMIT 1) a ON true
      LEFT JOIN LATERAL (
           SELECT at
             FROM transitions
            WHERE notification_id = n.id AND to_status = 'dead'
            ORDER BY id DESC LIMIT 1) t ON true
     ORDER BY n.id
"""


def list_held(
    database: Database,
    *,
    channel: str | None = None,
    reason: str | None = None,
    organization_id: UUID | None = None,
    ids: Sequence[UUID] | None = None,
    after: UUID | None = None,
    limit: int = 100,
    needless: bool = False,
) -> list[Held]:
    """Return up to ``limit`` held notifications after the id ``after``, the oldest first; those of
    which nobody needs to decide only where they are asked for, by ``needless`` or by their id."""
    parameters = {
        "channels": [channel] if channel else ["email", "sms", "push", "webhook"],
        "reason": reason,
        "organization_id": organization_id,
        "ids": None if ids is None else list(ids),
        "after": after,
        "limit": limit,
        "needless": needless or ids is not None,
    }

    def read(connection: psycopg.Connection) -> list[Held]:
        with connection.cursor(row_factory=class_row(Held)) as cursor:
            return cursor.execute(LIST_HELD, parameters, prepare=False).fetchall()

    return database.run(read)
