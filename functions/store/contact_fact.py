"""Why contact points behind a reference are on the suppression list, and since when."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressedPoint:
    """The newest fact that keeps a contact point from being written to; ``number`` is its place
    among the ``count`` that the recipient has on its channel, from 1."""

    channel: str
    number: int
    count: int
    address_hash: bytes
    reason: str
    source: str
    category: str | None
    created_at: datetime


# Live as for whom decides: the newest fact of each category, and of those the newest. A link never
# stops what is transactional by now. Of a parent, the contact points of all its channels.
READ_FACTS = """
    SELECT p.channel, p.number, p.count, p.address_hash, f.reason, f.source, f.category,
           f.created_at
      FROM notifications n
     CROSS JOIN LATERAL (
           SELECT channel, address_hash,
                  row_number() OVER (PARTITION BY channel ORDER BY place)::int AS number,
                  count(*) OVER (PARTITION BY channel)::int AS count
             FROM contact_points
            WHERE organization_id = n.organization_id AND recipient_id = n.recipient_id
              AND channel = ANY(coalesce(n.channels, ARRAY[n.channel]))) p
     CROSS JOIN LATERAL (
           SELECT n.category = ANY(coalesce((SELECT transactional_categories
                                               FROM organizations
                                              WHERE id = n.organization_id), '{transactional}'))
                  AS transactional) c
     CROSS JOIN LATERAL (
           SELECT live.*
             FROM (SELECT DISTINCT ON (s.category) s.*
                     FROM suppressions s
                    WHERE s.organization_id = n.organization_id AND s.channel = p.channel
                      AND s.recipient_hash = p.address_hash
                      AND (s.category IS NULL OR s.category = n.category)
                      AND NOT (s.source = 'unsubscribe' AND c.transactional)
                    ORDER BY s.category, s.id DESC) live
            WHERE live.kind = 'suppress'
            ORDER BY live.id DESC
            LIMIT 1) f
     WHERE n.id = %(notification_id)s
     ORDER BY p.channel, p.number
"""


def suppressed_points_of(
    connection: psycopg.Connection, notification_id: UUID
) -> list[SuppressedPoint]:
    """Return the contact points of a notification's recipient that are suppressed for it now, in
    the recipient's order, as part of the caller's transaction; none of a literal address."""
    with connection.cursor(row_factory=class_row(SuppressedPoint)) as cursor:
        return cursor.execute(READ_FACTS, {"notification_id": notification_id}).fetchall()
