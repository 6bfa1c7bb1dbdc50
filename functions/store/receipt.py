"""Receipts: keep each provider report once, match it, and let the strongest evidence decide."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row, scalar_row

from functions.core.evidence import Receipt
from functions.store.connection import Database
from functions.store.lock import lock_notifications


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What came of a set of receipts; a receipt known before counts nowhere."""

    stored: int
    orphaned: int
    applied: int
    after_zero_submissions: int
    """Proof of acceptance for a row we never submitted: a defect signal."""


DATABASE_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"


def database_clock(database: Database) -> float:
    """Return the database's clock in unix seconds: what decides whether a callback is too old."""

    def read(connection: psycopg.Connection) -> float:
        with connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(DATABASE_CLOCK).fetchone() or 0.0

    return database.run(read)


CHANNEL_OF = """
    SELECT n.channel
      FROM notifications n
     WHERE n.id = coalesce(
           %(named)s::uuid,
           (SELECT notification_id FROM attempts
             WHERE provider = %(provider)s AND reference = %(reference)s
             ORDER BY started_at LIMIT 1))
"""


def channel_of(
    database: Database, *, provider: str, idempotency_key: str | None, reference: str | None
) -> str | None:
    """Return the channel of the notification that a report names, None while it is not known."""
    parameters = {
        "named": _notification_of(idempotency_key),
        "provider": provider,
        "reference": reference,
    }

    def read(connection: psycopg.Connection) -> str | None:
        with connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(CHANNEL_OF, parameters).fetchone()

    return database.run(read)


# Matched by our key first (a uuid, "<id>" or "<id>.<n>"), then by the provider's reference. Sorted,
# so that two sets in opposite order do not wait for each other.
STORE = """
    WITH incoming AS MATERIALIZED (
        SELECT *
          FROM unnest(%(event_keys)b::text[], %(types)b::text[], %(ranks)b::int2[],
                      %(permanents)b::boolean[], %(complaints)b::boolean[], %(faults)b::boolean[],
                      %(keys)b::text[], %(references)b::text[], %(hashes)b::bytea[],
                      %(reasons)b::text[], %(times)b::timestamptz[], %(raws)b::bytea[],
                      %(named)b::uuid[])
               AS i (event_key, type, evidence_rank, permanent, complaint, address_at_fault,
                     idempotency_key, reference, recipient_hash, reason, occurred_at, raw, named)
    ),
    instant AS MATERIALIZED (SELECT coalesce(%(now)s, clock_timestamp()) AS at)
    INSERT INTO receipts
           (provider, event_key, organization_id, notification_id, attempt_id, type, evidence_rank,
            permanent, complaint, address_at_fault, idempotency_key, reference, recipient_hash,
            reason, occurred_at, received_at, raw)
    SELECT %(provider)s, i.event_key, n.organization_id, n.id, a.id, i.type, i.evidence_rank,
           i.permanent, i.complaint, i.address_at_fault, i.idempotency_key, i.reference,
           i.recipient_hash, i.reason, coalesce(i.occurred_at, t.at), t.at, i.raw
      FROM incoming i
     CROSS JOIN instant t
      LEFT JOIN LATERAL (
           SELECT notification_id, id
             FROM attempts
            WHERE i.reference IS NOT NULL AND provider = %(provider)s AND reference = i.reference
            ORDER BY started_at LIMIT 1) a ON true
      LEFT JOIN notifications n ON n.id = coalesce(i.named, a.notification_id)
     ORDER BY i.event_key
    ON CONFLICT (provider, event_key) DO NOTHING
    RETURNING id, notification_id
"""

MATCH_ORPHANS = """
    WITH matched AS (
        SELECT r.id, a.notification_id, a.id AS attempt_id, n.organization_id
          FROM (SELECT id, provider, reference
                  FROM receipts
                 WHERE notification_id IS NULL AND reference IS NOT NULL
                   AND received_at > coalesce(%(now)s, clock_timestamp()) - interval '8 days'
                 ORDER BY id) r
         CROSS JOIN LATERAL (
               SELECT notification_id, id
                 FROM attempts
                WHERE provider = r.provider AND reference = r.reference
                ORDER BY started_at LIMIT 1) a
          JOIN notifications n ON n.id = a.notification_id
         LIMIT %(limit)s
    )
    UPDATE receipts r
       SET notification_id = m.notification_id, attempt_id = m.attempt_id,
           organization_id = m.organization_id
      FROM matched m
     WHERE r.id = m.id AND r.notification_id IS NULL
    RETURNING r.id, r.notification_id
"""
MATCHED_AT_ONCE = 500

# fresh:   matched receipts not applied yet; one that names another recipient stays a note.
# best:    the strongest per notification: by rank, then the earlier, then the key.
# moved:   rank ≥ 1 stops further attempts in every status. What we ended ourselves without any
#          submission keeps its status; that evidence is counted. An open attempt keeps its lease:
#          its own close, or the sweep, settles it.
APPLY = """
    WITH instant AS MATERIALIZED (SELECT coalesce(%(now)s, clock_timestamp()) AS at),
    fresh AS MATERIALIZED (
        SELECT r.*
          FROM receipts r
          JOIN notifications n ON n.id = r.notification_id
         WHERE r.id = ANY(%(ids)b::uuid[]) AND NOT r.applied
           AND (r.recipient_hash IS NULL OR r.recipient_hash = n.recipient_hash)
    ),
    best AS MATERIALIZED (
        SELECT DISTINCT ON (notification_id)
               notification_id, id, evidence_rank AS rank, occurred_at, event_key, type, reason,
               bool_or(complaint) OVER (PARTITION BY notification_id) AS complaint
          FROM fresh
         ORDER BY notification_id, evidence_rank DESC, occurred_at, event_key
    ),
    judged AS MATERIALIZED (
        SELECT b.*, t.at, least(c.check_base_seconds, c.cutoff_seconds) AS check_seconds,
               CASE WHEN b.rank = 0 OR n.evidence_rank = 0 THEN b.rank > n.evidence_rank
                    ELSE (b.rank, n.evidence_at, n.evidence_key)
                       > (n.evidence_rank, b.occurred_at, b.event_key) END AS better,
               n.status IN ('cancelled', 'suppressed') AS ended_by_us,
               CASE b.rank WHEN 1 THEN 'submitted' WHEN 2 THEN 'failed' WHEN 3 THEN 'delivered'
                           ELSE 'failed' END AS proven
          FROM best b
          JOIN notifications n ON n.id = b.notification_id
          JOIN channels c ON c.name = n.channel
         CROSS JOIN instant t
    ),
    moved AS (
        UPDATE notifications n
           SET status = CASE WHEN j.better AND NOT j.ended_by_us THEN j.proven ELSE n.status END,
               reason = CASE WHEN NOT j.better OR j.ended_by_us THEN n.reason
                             WHEN j.rank IN (2, 4) THEN coalesce(j.reason, j.type) END,
               evidence_rank = CASE WHEN j.better THEN j.rank ELSE n.evidence_rank END,
               evidence_at = CASE WHEN j.better THEN j.occurred_at ELSE n.evidence_at END,
               evidence_key = CASE WHEN j.better THEN j.event_key ELSE n.evidence_key END,
               complained = n.complained OR j.complaint,
               -- what the cutoff counts from: never the future of a provider's clock
               submitted_at = CASE WHEN j.better THEN least(n.submitted_at, j.occurred_at, j.at)
                                   ELSE n.submitted_at END,
               next_check_at = CASE WHEN j.better AND j.rank = 1 AND n.status <> 'submitted'
                                    THEN j.at + j.check_seconds * interval '1 second'
                                    ELSE n.next_check_at END,
               attempt_id = CASE WHEN j.better AND n.status = 'uncertain' THEN NULL
                                 ELSE n.attempt_id END,
               lease_until = CASE WHEN j.better AND n.attempt_id IS NULL THEN NULL
                                  ELSE n.lease_until END,
               discarded_at = CASE WHEN NOT j.better OR j.ended_by_us THEN n.discarded_at END,
               final_at = CASE WHEN NOT j.better OR j.ended_by_us THEN n.final_at
                               WHEN j.rank > 1 THEN j.at END,
               updated_at = j.at
          FROM judged j
         WHERE n.id = j.notification_id
           AND (j.better OR j.complaint AND NOT n.complained)
        RETURNING n.id, n.organization_id, OLD.status AS from_status, NEW.status AS to_status,
                  NEW.reason, j.id AS receipt_id, j.at,
                  j.better AND j.ended_by_us AS after_zero_submissions
    ),
    logged AS (
        INSERT INTO transitions
               (notification_id, organization_id, at, actor, from_status, to_status, reason,
                receipt_id)
        SELECT id, organization_id, at, 'provider', from_status, to_status, reason, receipt_id
          FROM moved
         WHERE from_status <> to_status
    ),
    suppressed AS (
        INSERT INTO suppressions (organization_id, channel, recipient_hash, recipient, kind,
                                  reason, source, source_at, evidence)
        SELECT n.organization_id, n.channel, n.recipient_hash, n.recipient, 'suppress',
               CASE WHEN f.complaint THEN 'complaint' ELSE 'hard_bounce' END,
               f.provider || ':event', f.occurred_at,
               jsonb_build_object('receipt_id', f.id, 'notification_id', n.id, 'type', f.type)
          FROM fresh f
          JOIN notifications n ON n.id = f.notification_id
         WHERE f.address_at_fault
    ),
    marked AS (
        UPDATE receipts r SET applied = true FROM fresh f WHERE r.id = f.id RETURNING r.id
    )
    SELECT (SELECT count(*) FROM marked)::int AS applied,
           (SELECT count(*) FROM moved WHERE after_zero_submissions)::int AS after_zero_submissions
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Applied:
    applied: int
    after_zero_submissions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    id: UUID
    notification_id: UUID | None


def record(
    database: Database, receipts: Sequence[Receipt], *, provider: str, now: datetime | None = None
) -> Recorded:
    """Keep what is new of one provider's ``receipts`` and apply what can be matched."""
    receipts = sorted(receipts, key=lambda receipt: receipt.event_key)
    parameters = {
        "provider": provider,
        "event_keys": [receipt.event_key for receipt in receipts],
        "types": [receipt.type for receipt in receipts],
        "ranks": [int(receipt.rank) for receipt in receipts],
        "permanents": [receipt.permanent for receipt in receipts],
        "complaints": [receipt.complaint for receipt in receipts],
        "faults": [receipt.address_at_fault for receipt in receipts],
        "keys": [receipt.idempotency_key for receipt in receipts],
        "references": [receipt.reference for receipt in receipts],
        "hashes": [receipt.recipient_hash for receipt in receipts],
        "reasons": [receipt.reason for receipt in receipts],
        "times": [receipt.occurred_at for receipt in receipts],
        "raws": [receipt.raw for receipt in receipts],
        "named": [_notification_of(receipt.idempotency_key) for receipt in receipts],
        "now": now,
    }

    def keep(connection: psycopg.Connection) -> Recorded:
        with connection.cursor(row_factory=class_row(_Stored)) as cursor:
            stored = cursor.execute(STORE, parameters).fetchall()
        applied = _apply(connection, stored, now=now)
        return Recorded(
            stored=len(stored),
            orphaned=sum(row.notification_id is None for row in stored),
            applied=applied.applied,
            after_zero_submissions=applied.after_zero_submissions,
        )

    return database.run(keep)


def match_orphans(database: Database, *, now: datetime | None = None) -> Recorded:
    """Match receipts that came before what they name was known, and apply them."""

    def match(connection: psycopg.Connection) -> Recorded:
        with connection.cursor(row_factory=class_row(_Stored)) as cursor:
            parameters = {"limit": MATCHED_AT_ONCE, "now": now}
            matched = cursor.execute(MATCH_ORPHANS, parameters).fetchall()
        applied = _apply(connection, matched, now=now)
        return Recorded(
            stored=len(matched),
            orphaned=0,
            applied=applied.applied,
            after_zero_submissions=applied.after_zero_submissions,
        )

    return database.run(match)


def _apply(
    connection: psycopg.Connection, stored: Sequence[_Stored], *, now: datetime | None
) -> _Applied:
    matched = [row for row in stored if row.notification_id is not None]
    nothing = _Applied(applied=0, after_zero_submissions=0)
    if not matched:
        return nothing
    lock_notifications(connection, [row.notification_id for row in matched if row.notification_id])
    with connection.cursor(row_factory=class_row(_Applied)) as cursor:
        parameters = {"ids": [row.id for row in matched], "now": now}
        return cursor.execute(APPLY, parameters).fetchone() or nothing


def _notification_of(idempotency_key: str | None) -> UUID | None:
    """Return the notification behind our key, ``<id>`` or ``<id>.<n>``; None if it is not ours."""
    try:
        return UUID((idempotency_key or "").partition(".")[0])
    except ValueError:
        return None
