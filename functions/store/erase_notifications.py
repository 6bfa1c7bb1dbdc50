"""Erase notifications: end those that wait, and take from each what names its recipient.

The rows stay, with their status, hashes, codes and times. What was submitted goes on being settled
by evidence; an attempt that is open is closed by its sender, who has the address in hand.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import scalar_row

from functions.store.connection import Database
from functions.store.erasure import Erasure
from functions.store.lock import lock_notifications

# A parent and its candidates say the same: all of them, or none.
FIND_FAMILIES = """
    WITH parent AS MATERIALIZED (
        SELECT DISTINCT CASE WHEN channels IS NULL THEN parent_id ELSE id END AS id
          FROM notifications
         WHERE id = ANY(%(ids)b::uuid[]) AND (channels IS NOT NULL OR parent_id IS NOT NULL)
    )
    SELECT id FROM parent
     UNION
    SELECT n.id FROM parent JOIN notifications n ON n.parent_id = parent.id
"""

LOCK_UNERASED = """
    SELECT id
      FROM notifications
     WHERE id = ANY(%(ids)b::uuid[]) AND erased_at IS NULL
     ORDER BY id
       FOR UPDATE
"""


def _lock(connection: psycopg.Connection, page: Sequence[UUID]) -> list[UUID]:
    """Hold the rows and their families, in id order; return those that are not erased yet."""
    held: set[UUID] = set()
    locked: list[UUID] = []
    wanted = set(page)
    with connection.cursor(row_factory=scalar_row) as cursor:
        while True:  # twice, for a candidate may have started while its parent was waited for
            wanted |= set(cursor.execute(FIND_FAMILIES, {"ids": list(wanted)}).fetchall())
            if wanted <= held:
                return locked
            more = {"ids": sorted(wanted - held)}
            locked += cursor.execute(LOCK_UNERASED, more).fetchall()
            held |= wanted


# What provably was not sent is suppressed; of what may have been accepted nobody knows.
END = """
    WITH ended AS (
        UPDATE notifications n
           SET status = CASE WHEN n.in_doubt > 0 THEN 'unconfirmed' ELSE 'suppressed' END,
               reason = 'erased', lease_until = NULL, final_at = t.at, updated_at = t.at
          FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE n.id = ANY(%(ids)b::uuid[])
           AND n.status IN ('pending', 'leased') AND n.attempt_id IS NULL AND n.channels IS NULL
        RETURNING n.id, n.organization_id, OLD.status AS from_status, NEW.status AS to_status, t.at
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason)
    SELECT id, organization_id, at, 'client', from_status, to_status, 'erased' FROM ended
"""

# shown: what a parent shows (core/chain.py), if that ended just now. One that is under way, or that
#        something else has ended, is told to the parent by its chain: at once, for it goes no
#        further.
END_PARENTS = """
    WITH shown AS MATERIALIZED (
        SELECT DISTINCT ON (c.parent_id) c.parent_id, c.status, c.candidate,
               c.status IN ('suppressed', 'unconfirmed') AND c.reason IS NOT DISTINCT FROM 'erased'
               AS ended
          FROM notifications c
         WHERE c.parent_id = ANY(%(ids)b::uuid[])
         ORDER BY c.parent_id, c.status = 'delivered' DESC,
                  c.status IN ('pending', 'leased', 'uncertain', 'submitted') DESC,
                  c.candidate DESC
    ),
    stopped AS (
        UPDATE notifications p
           SET status = CASE WHEN s.ended THEN s.status ELSE p.status END,
               candidate = CASE WHEN s.ended THEN s.candidate ELSE p.candidate END,
               reason = CASE WHEN s.ended THEN 'erased' ELSE p.reason END,
               final_at = CASE WHEN s.ended THEN t.at ELSE p.final_at END,
               next_step_at = CASE WHEN NOT s.ended AND p.next_step_at IS NOT NULL THEN t.at END,
               updated_at = t.at
          FROM shown s
         CROSS JOIN (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE p.id = s.parent_id AND p.id = ANY(%(ids)b::uuid[])
           AND p.status IN ('pending', 'uncertain', 'submitted')
        RETURNING p.id, p.organization_id, OLD.status AS from_status, NEW.status AS to_status, t.at
    ),
    told AS (
        UPDATE notifications c
           SET told_status = c.status
          FROM stopped s
         WHERE c.parent_id = s.id AND s.from_status <> s.to_status
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason)
    SELECT id, organization_id, at, 'client', from_status, to_status, 'erased'
      FROM stopped
     WHERE from_status <> to_status
"""

ERASE_NOTIFICATIONS = """
    SELECT erase_notifications(%(ids)b::uuid[], %(spellings)b::text[],
                               coalesce(%(now)s, clock_timestamp()))
"""

# A repetition is shown what is left of the notification.
ERASE_ANSWERS = """
    UPDATE idempotency_keys SET response = NULL WHERE notification_id = ANY(%(ids)b::uuid[])
"""


def erase_notifications(
    connection: psycopg.Connection,
    page: Sequence[UUID],
    *,
    spellings: Sequence[str],
    now: datetime | None = None,
) -> int:
    """Erase the notifications ``page`` and the other candidates of theirs, as part of the caller's
    transaction; return how many were not erased before.

    ``spellings`` are looked for in what clients and providers wrote, beside a row's own address,
    be it as parts of other words.
    """
    ids = _lock(connection, page)
    parameters = {"ids": ids, "spellings": list(spellings), "now": now}
    connection.execute(END, parameters)
    connection.execute(END_PARENTS, parameters)
    connection.execute(ERASE_NOTIFICATIONS, parameters)
    connection.execute(ERASE_ANSWERS, parameters)
    return len(ids)


# What an attempt went to is known of the last one only. So these are the notifications of whoever
# had the address, that something is left at of it: what was written there, or told of it.
# every: each address that they ever had. OFFSET keeps the look-ups by it apart: as a join it might
#        be one over all that the organization has.
FIND_TRACES = """
    WITH every AS MATERIALIZED (
        SELECT DISTINCT h.recipient_id, h.address_hash
          FROM contact_hashes had
          JOIN contact_hashes h
            ON h.organization_id = had.organization_id AND h.recipient_id = had.recipient_id
         WHERE had.organization_id = %(organization_id)s AND had.channel = %(channel)s
           AND had.address_hash = ANY(%(addresses)b::bytea[])
    )
    SELECT n.id
      FROM every e
     CROSS JOIN LATERAL (
           SELECT id
             FROM notifications
            WHERE organization_id = %(organization_id)s
              AND coalesce(contact_hash, recipient_hash) = e.address_hash
              AND recipient_id = e.recipient_id AND erased_at IS NULL
           OFFSET 0) n
     WHERE (EXISTS (SELECT FROM attempts a
                     WHERE a.notification_id = n.id
                       AND (is_spelt(a.detail, %(spellings)b::text[])
                            OR is_spelt(a.code, %(spellings)b::text[])
                            OR a.reference <> digest_if_spelt(a.reference, %(spellings)b::text[])))
            OR EXISTS (SELECT FROM transitions t
                        WHERE t.notification_id = n.id
                          AND is_spelt(t.reason, %(spellings)b::text[]))
            OR EXISTS (SELECT FROM receipts r
                        WHERE r.notification_id = n.id AND r.raw <> ''
                          AND (r.recipient_hash = ANY(%(addresses)b::bytea[])
                               OR is_named(encode(r.raw, 'escape'), %(spellings)b::text[]))))
     LIMIT %(limit)s
"""

ERASE_TRACES = """
    SELECT erase_traces(%(ids)b::uuid[], %(addresses)b::bytea[], %(spellings)b::text[])
"""


def erase_traces(database: Database, erasure: Erasure, *, limit: int) -> bool:
    """Erase what an address left at up to ``limit`` notifications that went to it, and then on to
    another address of their recipient; return whether there were any."""
    parameters = {
        "organization_id": erasure.organization_id,
        "channel": erasure.channel,
        "addresses": erasure.addresses,
        "spellings": erasure.own_spellings,
        "limit": limit,
    }

    def work(connection: psycopg.Connection) -> bool:
        with connection.cursor(row_factory=scalar_row) as cursor:
            ids = cursor.execute(FIND_TRACES, parameters, prepare=False).fetchall()
        if ids:
            lock_notifications(connection, ids)
            connection.execute(ERASE_TRACES, {**parameters, "ids": ids})
        return bool(ids)

    return database.run(work)
