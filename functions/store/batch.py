"""Batches: the ids of their notifications in input order, from which all else is read.

The order is kept here, and no index on the hot table is needed to replay, count or cancel.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedBatch:
    """A batch as it was accepted; ``duplicate_indexes`` are positions that repeat an event."""

    batch_id: UUID
    accepted_at: datetime
    notification_ids: list[UUID]
    duplicate_indexes: list[int]


INSERT_BATCH = """
    INSERT INTO batches (id, organization_id, notification_ids, duplicate_indexes, accepted_at)
    VALUES (%(batch_id)s, %(organization_id)s, %(notification_ids)b, %(duplicate_indexes)s,
            uuid_extract_timestamp(%(batch_id)s))
    RETURNING id AS batch_id, accepted_at, notification_ids, duplicate_indexes
"""


def insert_batch(
    connection: psycopg.Connection,
    *,
    organization_id: UUID,
    batch_id: UUID,
    notification_ids: list[UUID],
    duplicate_indexes: list[int],
) -> AcceptedBatch:
    """Store the batch, as part of the caller's transaction, and return it."""
    parameters = {
        "batch_id": batch_id,
        "organization_id": organization_id,
        "notification_ids": notification_ids,
        "duplicate_indexes": duplicate_indexes,
    }
    with connection.cursor(row_factory=class_row(AcceptedBatch), binary=True) as cursor:
        (batch,) = cursor.execute(INSERT_BATCH, parameters).fetchall()
        return batch


READ_ACCEPTED = """
    SELECT id AS batch_id, accepted_at, notification_ids, duplicate_indexes
      FROM batches
     WHERE organization_id = %(organization_id)s
       AND id = %(batch_id)s
"""


def read_accepted(
    connection: psycopg.Connection, *, organization_id: UUID, batch_id: UUID
) -> AcceptedBatch | None:
    """Return the batch as it was accepted, as part of the caller's transaction."""
    parameters = {"organization_id": organization_id, "batch_id": batch_id}
    with connection.cursor(row_factory=class_row(AcceptedBatch), binary=True) as cursor:
        return cursor.execute(READ_ACCEPTED, parameters).fetchone()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCount:
    """How many of a batch are in one status of one channel."""

    channel: str
    status: str
    number: int
    claimed: bool
    """At least one of them was leased before."""
    settled_at: datetime
    """When the last of them became final or held, if the status is of that kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    id: UUID
    accepted_at: datetime
    total_count: int
    counts: Sequence[StatusCount]


READ_BATCH = """
    SELECT id, accepted_at, cardinality(notification_ids) AS total_count
      FROM batches
     WHERE organization_id = %(organization_id)s
       AND id = %(batch_id)s
"""

# A position counts even when it repeats another: the counts sum to the total. What is claimed of a
# notification by several channels are its candidates, and it counts for the channel of the one that
# it shows. Not EXISTS, which may read all of them.
COUNT_BATCH = """
    SELECT coalesce(n.channels[n.candidate + 1], n.channel) AS channel, n.status,
           count(*)::int AS number,
           bool_or(n.lease_number > 0 OR n.channels IS NOT NULL AND (
                   SELECT c.id
                     FROM notifications c
                    WHERE c.parent_id = n.id AND c.lease_number > 0
                    LIMIT 1) IS NOT NULL) AS claimed,
           max(coalesce(n.final_at, n.updated_at)) AS settled_at
      FROM batches b
     CROSS JOIN LATERAL unnest(b.notification_ids) AS item (id)
      JOIN notifications n ON n.id = item.id
     WHERE b.organization_id = %(organization_id)s
       AND b.id = %(batch_id)s
     GROUP BY 1, n.status
     ORDER BY 1, n.status
"""


def read_batch(database: Database, *, organization_id: UUID, batch_id: UUID) -> Batch | None:
    """Return the batch with its rows counted by channel and status; None when it is not theirs."""
    parameters = {"organization_id": organization_id, "batch_id": batch_id}

    def work(connection: psycopg.Connection) -> Batch | None:
        row = connection.execute(READ_BATCH, parameters).fetchone()
        if row is None:
            return None
        with connection.cursor(row_factory=class_row(StatusCount)) as cursor:
            counts = cursor.execute(COUNT_BATCH, parameters).fetchall()
        return Batch(id=row[0], accepted_at=row[1], total_count=row[2], counts=counts)

    return database.run(work)
