"""Requests made by SQL: whether any wait and for how long, and what is known of those that ended.

A row is written by ``enqueue_notification`` within its caller's transaction. It waits until it is
drained (drain.py): deleted once it is a notification, kept where it repeats one or is invalid.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import scalar_row

from functions.core.errors import Fault
from functions.store.connection import Database
from functions.store.idempotency import FORGOTTEN_AT_ONCE

KEPT_DAYS = 7
"""Of what repeats an event: for so long its id leads to the notification that was first."""

HAS_WAITING = "SELECT EXISTS (SELECT FROM requests WHERE drained_at IS NULL)"


def has_waiting(database: Database) -> bool:
    """Whether anything waits, by one descent of an index."""

    def read(connection: psycopg.Connection) -> bool:
        with connection.cursor(row_factory=scalar_row) as cursor:
            return bool(cursor.execute(HAS_WAITING).fetchone())

    return database.run(read)


FAULTS_OF = "SELECT faults FROM requests WHERE id = %(id)s AND faults IS NOT NULL"


def faults_of(connection: psycopg.Connection, id: UUID) -> list[Fault]:
    """Return why the request of the notification ``id`` was invalid; none where it was not."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        found: list[dict[str, Any]] = cursor.execute(FAULTS_OF, {"id": id}).fetchone() or []
    return [Fault(**fault) for fault in found]


REPEATS_OF = "SELECT repeats FROM requests WHERE id = %(id)s"


def repeats_of(connection: psycopg.Connection, id: UUID) -> UUID | None:
    """Return the notification whose event the request ``id`` repeats; None where it repeats none.

    It is one of the same organization.
    """
    with connection.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(REPEATS_OF, {"id": id}).fetchone()


FORGET_INVALID_ITEMS = """
    UPDATE requests
       SET item = NULL
     WHERE organization_id = %(organization_id)s AND faults IS NOT NULL
       AND is_named(item::text, %(spellings)b::text[])
"""


def forget_invalid_items(
    connection: psycopg.Connection, *, organization_id: UUID, spellings: Sequence[str]
) -> int:
    """Forget the items of an organization's invalid requests that name an address in one of
    ``spellings``; return how many. Their faults stay."""
    parameters = {"organization_id": organization_id, "spellings": list(spellings)}
    return connection.execute(FORGET_INVALID_ITEMS, parameters).rowcount


# first: the oldest of each organization, one index descent each.
# A request is as old as its id: the transaction that made it may have committed later.
OLDEST_WAITING = """
    WITH RECURSIVE first (organization_id, id) AS (
        (SELECT organization_id, id
           FROM requests
          WHERE drained_at IS NULL
          ORDER BY organization_id, id LIMIT 1)
        UNION ALL
        (SELECT next.organization_id, next.id
           FROM first
          CROSS JOIN LATERAL (
                SELECT organization_id, id
                  FROM requests
                 WHERE drained_at IS NULL AND organization_id > first.organization_id
                 ORDER BY organization_id, id LIMIT 1) next)
    )
    SELECT greatest(0, extract(epoch FROM coalesce(%(now)s, clock_timestamp())
                                          - min(uuid_extract_timestamp(id))))::float8
      FROM first
    HAVING count(*) > 0
"""


def oldest_waiting_seconds(database: Database, *, now: datetime | None = None) -> float | None:
    """Return for how long the oldest of what waits has been waiting; None when nothing does."""

    def read(connection: psycopg.Connection) -> float | None:
        with connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(OLDEST_WAITING, {"now": now}).fetchone()

    return database.run(read)


FORGET_REPEATS = """
    DELETE FROM requests
     WHERE id = ANY(ARRAY(
           SELECT id
             FROM requests
            WHERE repeats IS NOT NULL
              AND drained_at <= (SELECT coalesce(%(now)s, clock_timestamp()))
                                - %(kept_days)s * interval '1 day'
            ORDER BY drained_at
            LIMIT %(limit)s
              FOR UPDATE SKIP LOCKED))
"""


def forget_repeats(database: Database, *, now: datetime | None = None) -> int:
    """Delete up to 1000 requests that repeated an event a week ago; return how many."""
    parameters = {"now": now, "kept_days": KEPT_DAYS, "limit": FORGOTTEN_AT_ONCE}
    return database.run(lambda connection: connection.execute(FORGET_REPEATS, parameters).rowcount)
