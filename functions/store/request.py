"""Requests made by SQL: whether any wait and for how long, and what is known of those that ended.

A row is written by ``enqueue_notification`` within its caller's transaction. It waits until it is
drained (drain.py, drained.py): deleted once it is a notification, kept where it repeats one or is
invalid.
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

# Waiting and free; or taken by somebody who will never be done.
HAS_WAITING = """
    SELECT EXISTS (SELECT FROM requests WHERE drained_at IS NULL AND taken_until IS NULL)
        OR EXISTS (SELECT FROM requests
                    WHERE taken_until <= (SELECT coalesce(%(now)s, clock_timestamp())))
"""


def has_waiting(database: Database, *, now: datetime | None = None) -> bool:
    """Whether anything can be taken, by one descent of an index or two."""

    def read(connection: psycopg.Connection) -> bool:
        with connection.cursor(row_factory=scalar_row) as cursor:
            return bool(cursor.execute(HAS_WAITING, {"now": now}).fetchone())

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


# The name of a member may be an address as well; in a pointer it is escaped (RFC 6901), and a long
# one is cut, perhaps within the address.
FORGET_INVALID_ITEMS = """
    UPDATE requests
       SET item = NULL,
           faults = coalesce(
               (SELECT jsonb_agg(
                           fault || jsonb_build_object(
                               'pointer', CASE WHEN is_named(replace(replace(fault ->> 'pointer',
                                                                             '~1', '/'), '~0', '~'),
                                                             %(spellings)b::text[])
                                                    OR position('…' IN fault ->> 'pointer') > 0
                                               THEN '…' ELSE fault ->> 'pointer' END,
                               'detail', CASE WHEN is_named(fault ->> 'detail',
                                                            %(spellings)b::text[])
                                              THEN '…' ELSE fault ->> 'detail' END)
                           ORDER BY place)
                  FROM jsonb_array_elements(faults) WITH ORDINALITY AS f (fault, place)),
               '[]')
     WHERE organization_id = %(organization_id)s AND faults IS NOT NULL
       AND (is_named(item::text, %(spellings)b::text[])
            OR is_named(replace(replace(faults::text, '~1', '/'), '~0', '~'),
                        %(spellings)b::text[]))
"""


def forget_invalid_items(
    connection: psycopg.Connection, *, organization_id: UUID, spellings: Sequence[str]
) -> int:
    """Forget the items of an organization's invalid requests that name an address in one of
    ``spellings``, and where their faults do; return how many. What was wrong stays told."""
    parameters = {"organization_id": organization_id, "spellings": list(spellings)}
    return connection.execute(FORGET_INVALID_ITEMS, parameters).rowcount


# waiting: of the organization, whether or not somebody has it in hand; made before the erasure.
# named:   locked in one order, for those who settle them do so as well.
# What is left says as which kind of notification it ends. Whoever has it in hand has it no more.
ERASE_WAITING = """
    WITH waiting AS MATERIALIZED (
        SELECT id
          FROM requests
         WHERE drained_at IS NULL AND taken_until IS NULL
           AND organization_id >= %(organization_id)s AND organization_id <= %(organization_id)s
         UNION
        SELECT id
          FROM requests
         WHERE taken_until IS NOT NULL AND organization_id = %(organization_id)s
    ),
    named AS MATERIALIZED (
        SELECT r.id
          FROM requests r
          JOIN waiting USING (id)
         WHERE r.drained_at IS NULL AND r.erased_at IS NULL
           AND uuid_extract_timestamp(r.id) <= %(started_at)s
           AND (r.item ->> 'recipient_id' = %(recipient_id)s
                OR (%(channel)s::text IS NULL OR r.item ->> 'channel' = %(channel)s)
                   AND (lower(btrim(r.item ->> 'recipient')) = ANY(%(spellings)b::text[])
                        OR regexp_replace(r.item ->> 'recipient', '[ ()./+-]', '', 'g')
                           = ANY(%(spellings)b::text[])))
         ORDER BY r.id
           FOR UPDATE OF r
    )
    UPDATE requests r
       SET item = CASE WHEN is_named(kept.item::text, %(spellings)b::text[]) THEN '{}'
                       ELSE kept.item END,
           erased_at = coalesce(%(now)s, clock_timestamp()), taken_until = NULL
      FROM named
     CROSS JOIN LATERAL (
           SELECT jsonb_build_object(
                      'channel', o.item -> 'channel', 'channels', o.item -> 'channels',
                      'priority', o.item -> 'priority', 'category', o.item -> 'category') AS item
             FROM requests o
            WHERE o.id = named.id) kept
     WHERE r.id = named.id
"""


def erase_waiting(
    connection: psycopg.Connection,
    *,
    organization_id: UUID,
    recipient_id: str | None,
    channel: str | None,
    spellings: Sequence[str],
    started_at: datetime,
    now: datetime | None = None,
) -> int:
    """Empty the requests that wait for a recipient who is being erased, or for an address in one
    of ``spellings`` (on ``channel``, if that is all that is erased); return how many.

    They end suppressed when they are drained. An address that is spelt in a way of its own is
    found by its hash then.
    """
    parameters = {
        "organization_id": organization_id,
        "recipient_id": recipient_id,
        "channel": channel,
        "spellings": list(spellings),
        "started_at": started_at,
        "now": now,
    }
    return connection.execute(ERASE_WAITING, parameters).rowcount


# first: the oldest of each organization that is free, one index descent each.
# A request is as old as its id: the transaction that made it may have committed later.
OLDEST_WAITING = """
    WITH RECURSIVE first (organization_id, id) AS (
        (SELECT organization_id, id
           FROM requests
          WHERE drained_at IS NULL AND taken_until IS NULL
          ORDER BY organization_id, id LIMIT 1)
        UNION ALL
        (SELECT next.organization_id, next.id
           FROM first
          CROSS JOIN LATERAL (
                SELECT organization_id, id
                  FROM requests
                 WHERE drained_at IS NULL AND taken_until IS NULL
                   AND organization_id > first.organization_id
                 ORDER BY organization_id, id LIMIT 1) next)
    ),
    waiting AS (
        SELECT id FROM first
         UNION ALL
        SELECT id FROM requests WHERE taken_until IS NOT NULL
    )
    SELECT greatest(0, extract(epoch FROM coalesce(%(now)s, clock_timestamp())
                                          - min(uuid_extract_timestamp(id))))::float8
      FROM waiting
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
