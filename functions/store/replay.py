"""Read kept reports once more by the rules of today, and let what they prove now decide.

A report that was not understood, or misunderstood, is kept as it was received. Evidence is a
function of the set of reports and acceptances, so a row's is recomputed from all there are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row, scalar_row

from functions.core.evidence import Receipt, StoredReceipt, named_by
from functions.store.action import Action, record_action, result_of
from functions.store.connection import Database
from functions.store.evidence import ERASE_LATE
from functions.store.lock import lock_notifications
from functions.store.receipt import fact_of
from functions.store.rejudge import rejudge


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What came of a page of reports; the next page begins after ``last_id``, None at the end."""

    read: int
    changed: int
    moved: int
    last_id: UUID | None


# Ids order by time: a time bounds the id too, so that what is older is not walked over. The minute
# is for a clock that was set back.
READ_PAGE = """
    SELECT r.id, r.provider, r.event_key, r.raw, r.received_at, n.channel
      FROM receipts r
      LEFT JOIN notifications n ON n.id = r.notification_id
     WHERE (%(after)s::uuid IS NULL OR r.id > %(after)s)
       AND (%(since)s::timestamptz IS NULL
            OR r.received_at >= %(since)s
               AND r.id >= (SELECT uuidv7(greatest(%(since)s::timestamptz, '2000-01-01Z')
                                          - clock_timestamp() - interval '1 minute')))
     ORDER BY r.id
     LIMIT %(limit)s
"""

# Materialized: the primary key would give the order too, and walk over everybody's reports.
READ_PAGE_ABOUT = """
    WITH about AS MATERIALIZED (
        SELECT * FROM receipts WHERE notification_id = %(notification_id)s
    )
    SELECT r.id, r.provider, r.event_key, r.raw, r.received_at, n.channel
      FROM about r
      JOIN notifications n ON n.id = r.notification_id
     WHERE (%(after)s::uuid IS NULL OR r.id > %(after)s)
       AND (%(since)s::timestamptz IS NULL OR r.received_at >= %(since)s)
     ORDER BY r.id
     LIMIT %(limit)s
"""

# Only what reads differently now. One that named nothing known then may name something now, and one
# that was matched by its reference may name another row by our key, which comes first.
REWRITE = """
    WITH again AS MATERIALIZED (
        SELECT *
          FROM unnest(%(ids)b::uuid[], %(types)b::text[], %(ranks)b::int2[],
                      %(permanents)b::boolean[], %(complaints)b::boolean[], %(faults)b::boolean[],
                      %(keys)b::text[], %(references)b::text[], %(hashes)b::bytea[],
                      %(reasons)b::text[], %(times)b::timestamptz[], %(named)b::uuid[],
                      %(attempts)b::uuid[], %(refusals)b::boolean[], %(facts)b::text[])
               AS i (id, type, evidence_rank, permanent, complaint, address_at_fault,
                     idempotency_key, reference, recipient_hash, reason, occurred_at, named,
                     attempt_id, refused, fact)
    )
    UPDATE receipts r
       SET type = i.type, evidence_rank = i.evidence_rank, permanent = i.permanent,
           complaint = i.complaint, address_at_fault = i.address_at_fault,
           refused = i.refused, fact = i.fact::jsonb,
           idempotency_key = i.idempotency_key, reference = i.reference,
           recipient_hash = i.recipient_hash, reason = i.reason,
           occurred_at = coalesce(i.occurred_at, r.received_at),
           notification_id = coalesce(n.id, r.notification_id),
           organization_id = coalesce(n.organization_id, r.organization_id),
           attempt_id = coalesce(a.id, CASE WHEN coalesce(n.id, r.notification_id)
                                               = r.notification_id THEN r.attempt_id END)
      FROM again i
      LEFT JOIN notifications n ON n.id = i.named
      LEFT JOIN attempts a ON a.notification_id = i.named AND a.id = i.attempt_id
     WHERE r.id = i.id AND r.id = ANY(%(ids)b::uuid[])
       AND (r.type, r.evidence_rank, r.permanent, r.complaint, r.address_at_fault,
            r.refused, r.fact, r.idempotency_key, r.reference, r.recipient_hash, r.reason,
            r.occurred_at, r.notification_id, r.attempt_id)
           IS DISTINCT FROM
           (i.type, i.evidence_rank, i.permanent, i.complaint, i.address_at_fault,
            i.refused, i.fact::jsonb, i.idempotency_key, i.reference, i.recipient_hash, i.reason,
            coalesce(i.occurred_at, r.received_at),
            coalesce(n.id, r.notification_id), coalesce(a.id, r.attempt_id))
    RETURNING r.id, r.notification_id, OLD.notification_id AS was_about,
              (NEW.address_at_fault OR NEW.refused)
              AND NOT ((OLD.address_at_fault OR OLD.refused) AND OLD.applied) AS blames
"""


def replay(
    database: Database,
    *,
    reparse: Callable[[StoredReceipt], Receipt | None],
    since: datetime | None = None,
    notification_id: UUID | None = None,
    after: UUID | None = None,
    limit: int = 500,
    action: Action,
    now: datetime | None = None,
) -> Replayed:
    """Read up to ``limit`` kept reports again; rewrite those that read differently, and recompute
    the evidence of what they are about. A report that ``reparse`` cannot read stays as it is."""
    parameters = {
        "since": since,
        "notification_id": notification_id,
        "after": after,
        "limit": limit,
    }

    def work(connection: psycopg.Connection) -> Replayed:
        if (done := result_of(connection, action)) is not None:
            last_id = done.pop("last_id")
            return Replayed(**done, last_id=last_id and UUID(last_id))
        statement = READ_PAGE if notification_id is None else READ_PAGE_ABOUT
        with connection.cursor(row_factory=class_row(StoredReceipt)) as cursor:
            page = cursor.execute(statement, parameters, prepare=False).fetchall()
        again = [(one.id, receipt) for one in page if (receipt := reparse(one)) is not None]
        changed, moved = _rewrite(connection, again, action_id=action.id, now=now)
        last_id = page[-1].id if len(page) == limit else None
        counts = {"read": len(page), "changed": changed, "moved": moved}
        result = {**counts, "last_id": last_id and str(last_id)}
        record_action(connection, action, result=result, now=now)
        return Replayed(**counts, last_id=last_id)

    return database.run(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rewritten:
    id: UUID
    notification_id: UUID | None
    was_about: UUID | None
    blames: bool


ABOUT = """
    SELECT notification_id FROM receipts
     WHERE id = ANY(%(ids)b::uuid[]) AND notification_id IS NOT NULL
"""


def _rewrite(
    connection: psycopg.Connection,
    again: Sequence[tuple[UUID, Receipt]],
    *,
    action_id: UUID,
    now: datetime | None,
) -> tuple[int, int]:
    """Rewrite what reads differently; return how many reports did, and how many rows moved."""
    parameters = _columns_of(again)
    with connection.cursor(row_factory=scalar_row) as cursor:
        about = cursor.execute(ABOUT, parameters).fetchall()
    named = [id for id in parameters["named"] if id is not None]
    locked = {*about, *named}
    lock_notifications(connection, list(locked))  # before the receipts, like every writer
    with connection.cursor(row_factory=class_row(_Rewritten)) as cursor:
        rewritten = cursor.execute(REWRITE, parameters).fetchall()
    if not rewritten:
        return 0, 0
    connection.execute(ERASE_LATE, {"receipts": [one.id for one in rewritten]})
    concerned = {id for one in rewritten for id in (one.notification_id, one.was_about) if id}
    if not concerned <= locked:  # matched by somebody else, while this waited for the receipts
        lock_notifications(connection, list(concerned))
    moved = rejudge(
        connection,
        list(concerned),
        changed=[one.id for one in rewritten],
        blaming=[one.id for one in rewritten if one.blames],
        operator_action_id=action_id,
        now=now,
    )
    return len(rewritten), moved


def _columns_of(again: Sequence[tuple[UUID, Receipt]]) -> dict[str, list[Any]]:
    receipts = [receipt for _, receipt in again]
    named = [named_by(receipt.idempotency_key) for receipt in receipts]
    return {
        "ids": [id for id, _ in again],
        "types": [receipt.type for receipt in receipts],
        "ranks": [int(receipt.rank) for receipt in receipts],
        "permanents": [receipt.permanent for receipt in receipts],
        "complaints": [receipt.complaint for receipt in receipts],
        "faults": [receipt.address_at_fault for receipt in receipts],
        "refusals": [receipt.refused for receipt in receipts],
        "facts": [fact_of(receipt) for receipt in receipts],
        "keys": [receipt.idempotency_key for receipt in receipts],
        "references": [receipt.reference for receipt in receipts],
        "hashes": [receipt.recipient_hash for receipt in receipts],
        "reasons": [receipt.reason for receipt in receipts],
        "times": [receipt.occurred_at for receipt in receipts],
        "named": [notification_id for notification_id, _ in named],
        "attempts": [
            receipt.attempt_id or attempt_id
            for receipt, (_, attempt_id) in zip(receipts, named, strict=True)
        ],
    }
