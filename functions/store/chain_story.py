"""What is told of a chain: where each of its candidates is, and when which one was delivered."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A candidate of a chain; ``place`` is from 0."""

    id: UUID
    place: int
    channel: str
    status: str
    in_doubt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A candidate was delivered ``at``, as far as was known ``until`` then; None is still."""

    channel: str
    at: datetime
    until: datetime | None


READ_LINKS = """
    SELECT id, candidate AS place, channel, status, in_doubt
      FROM notifications
     WHERE parent_id = %(parent_id)s
     ORDER BY candidate
"""

READ_DELIVERIES = """
    SELECT c.channel, t.at,
           (SELECT min(later.at)
              FROM transitions later
             WHERE later.notification_id = c.id AND later.from_status = 'delivered'
               AND later.to_status <> 'delivered' AND later.id > t.id) AS until
      FROM notifications c
      JOIN transitions t ON t.notification_id = c.id
     WHERE c.parent_id = %(parent_id)s
       AND t.to_status = 'delivered' AND t.from_status <> 'delivered'
     ORDER BY t.at, c.candidate
"""


def links_of(connection: psycopg.Connection, parent_id: UUID) -> list[Link]:
    """Return the candidates of a chain in their order, as part of the caller's transaction."""
    with connection.cursor(row_factory=class_row(Link)) as cursor:
        return cursor.execute(READ_LINKS, {"parent_id": parent_id}).fetchall()


def deliveries_of(connection: psycopg.Connection, parent_id: UUID) -> list[Delivery]:
    """Return every delivery of a chain in the order of time, as part of the transaction."""
    with connection.cursor(row_factory=class_row(Delivery)) as cursor:
        return cursor.execute(READ_DELIVERIES, {"parent_id": parent_id}).fetchall()
