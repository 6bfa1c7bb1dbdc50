"""Receipts: keep each provider report once, and match it with what it is about."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import psycopg
from psycopg.rows import class_row, scalar_row

from functions.core.declaration import Declaration, names_reporting_as
from functions.core.evidence import Receipt, named_by
from functions.store.connection import Database
from functions.store.evidence import Applied, Stored, apply
from functions.store.lock import lock_notifications


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What came of a set of receipts; a receipt known before counts nowhere."""

    stored: int
    orphaned: int
    applied: int
    after_zero_submissions: int
    """Proof of acceptance for a row we never submitted: a defect signal."""
    unforeseen: int = 0
    """Reports that no table names, kept as notes."""
    unreadable: int = 0
    """What has not the shape of a report, kept as a note all the same."""
    choices: int = 0
    """Recipients who wrote that they want nothing more, or something again."""

    def __add__(self, other: "Recorded") -> "Recorded":
        mine, theirs = dataclasses.asdict(self), dataclasses.asdict(other)
        return Recorded(**{name: mine[name] + theirs[name] for name in mine})


NOTHING = Recorded(stored=0, orphaned=0, applied=0, after_zero_submissions=0)


CHANNEL_OF = """
    SELECT n.channel
      FROM notifications n
     WHERE n.id = coalesce(
           %(named)s::uuid,
           (SELECT notification_id FROM attempts
             WHERE provider = ANY(%(senders)s)
               AND reference = ANY(ARRAY[%(reference)s, as_digest(%(reference)s)])
             ORDER BY started_at LIMIT 1))
"""


def channel_of(
    database: Database,
    *,
    senders: Sequence[str],
    idempotency_key: str | None,
    reference: str | None,
) -> str | None:
    """Return the channel of the notification that a report names, None while it is not known."""
    parameters = {
        "named": named_by(idempotency_key)[0],
        "senders": list(senders),
        "reference": reference,
    }

    def read(connection: psycopg.Connection) -> str | None:
        with connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(CHANNEL_OF, parameters).fetchone()

    return database.run(read)


# Matched by the attempt that our key names, then by the key's notification, then by the reference
# of the provider (one of those whose reports come by this door). Sorted, so that two sets in
# opposite order do not wait for each other. One about nothing that is known, to an address that was
# erased, does not bring it back; what is about something is left to `apply`, which holds its lock.
# What named somebody who was erased is a digest now, and known by that: a reference, and an event.
STORE = """
    WITH incoming AS MATERIALIZED (
        SELECT *
          FROM unnest(%(event_keys)b::text[], %(types)b::text[], %(ranks)b::int2[],
                      %(permanents)b::boolean[], %(complaints)b::boolean[], %(faults)b::boolean[],
                      %(keys)b::text[], %(references)b::text[], %(hashes)b::bytea[],
                      %(reasons)b::text[], %(times)b::timestamptz[], %(raws)b::bytea[],
                      %(named)b::uuid[], %(attempts)b::uuid[], %(refusals)b::boolean[],
                      %(facts)b::text[])
               AS i (event_key, type, evidence_rank, permanent, complaint, address_at_fault,
                     idempotency_key, reference, recipient_hash, reason, occurred_at, raw, named,
                     attempt_id, refused, fact)
    ),
    instant AS MATERIALIZED (SELECT coalesce(%(now)s, clock_timestamp()) AS at)
    INSERT INTO receipts
           (provider, event_key, organization_id, notification_id, attempt_id, type, evidence_rank,
            permanent, complaint, address_at_fault, refused, fact, idempotency_key, reference,
            recipient_hash, reason, occurred_at, received_at, raw)
    SELECT %(provider)s, CASE WHEN gone.is_so THEN as_digest(i.event_key) ELSE i.event_key END,
           n.organization_id, n.id,
           coalesce(own.id, CASE WHEN a.notification_id = n.id THEN a.id END),
           CASE WHEN gone.is_so THEN coalesce(code_or_null(i.type, '{}'), 'erased')
                ELSE i.type END,
           i.evidence_rank, i.permanent, i.complaint, i.address_at_fault, i.refused,
           CASE WHEN gone.is_so THEN i.fact::jsonb - 'evidence' ELSE i.fact::jsonb END,
           CASE WHEN gone.is_so AND i.named IS NULL THEN NULL ELSE i.idempotency_key END,
           CASE WHEN gone.is_so AND i.reference ~ '@|%%40|://' THEN as_digest(i.reference)
                ELSE i.reference END, i.recipient_hash,
           CASE WHEN gone.is_so THEN code_or_null(i.reason, '{}') ELSE i.reason END,
           coalesce(i.occurred_at, t.at), t.at, CASE WHEN gone.is_so THEN '' ELSE i.raw END
      FROM incoming i
     CROSS JOIN instant t
      LEFT JOIN attempts own ON own.notification_id = i.named AND own.id = i.attempt_id
      LEFT JOIN LATERAL (
           SELECT notification_id, id
             FROM attempts
            WHERE i.reference IS NOT NULL AND provider = ANY(%(senders)s)
              AND reference = ANY(ARRAY[i.reference, as_digest(i.reference)])
            ORDER BY started_at LIMIT 1) a ON true
      LEFT JOIN notifications n ON n.id = coalesce(i.named, a.notification_id)
     CROSS JOIN LATERAL (
           SELECT n.id IS NULL AND i.recipient_hash IS NOT NULL
                  AND EXISTS (SELECT FROM notifications e
                               WHERE e.erased_at IS NOT NULL
                                 AND coalesce(e.contact_hash, e.recipient_hash)
                                     = i.recipient_hash) AS is_so) gone
     WHERE (SELECT true
              FROM receipts r
             WHERE r.provider = %(provider)s
               AND r.event_key = ANY(ARRAY[i.event_key, as_digest(i.event_key)])
             LIMIT 1) IS NULL
     ORDER BY i.event_key
    ON CONFLICT (provider, event_key) DO NOTHING
    RETURNING id, notification_id
"""

FIND_ORPHANS = """
    SELECT r.id, a.notification_id, a.id AS attempt_id, n.organization_id
      FROM (SELECT id, provider, reference
              FROM receipts
             WHERE notification_id IS NULL AND reference IS NOT NULL
               AND received_at > coalesce(%(now)s, clock_timestamp()) - interval '8 days'
             ORDER BY id DESC
             LIMIT %(looked_at)s) r
     CROSS JOIN LATERAL (
           SELECT notification_id, id
             FROM attempts
            WHERE provider = ANY(%(names)s)
              AND reference = ANY(ARRAY[r.reference, as_digest(r.reference)])
              AND (%(doors)s::text[])[array_position(%(names)s, provider)] = r.provider
            ORDER BY started_at LIMIT 1) a
      JOIN notifications n ON n.id = a.notification_id
     LIMIT %(limit)s
"""

MATCH_ORPHANS = """
    UPDATE receipts r
       SET notification_id = m.notification_id, attempt_id = m.attempt_id,
           organization_id = m.organization_id
      FROM unnest(%(receipts)b::uuid[], %(ids)b::uuid[], %(attempts)b::uuid[],
                  %(organizations)b::uuid[])
           AS m (id, notification_id, attempt_id, organization_id)
     WHERE r.id = ANY(%(receipts)b::uuid[]) AND r.id = m.id AND r.notification_id IS NULL
    RETURNING r.id, r.notification_id
"""
MATCHED_AT_ONCE = 500
ORPHANS_LOOKED_AT = 20_000
"""The newest: an acceptance is closed within minutes, and what a gateway tells of others is never
matched, however much it is."""


def record(
    database: Database,
    receipts: Sequence[Receipt],
    *,
    provider: str,
    declarations: Sequence[Declaration],
    now: datetime | None = None,
) -> Recorded:
    """Keep what is new of ``receipts``, which came by the door of ``provider``, and apply what can
    be matched; ``declarations`` tell whose reports come by that door."""

    def keep(connection: psycopg.Connection) -> Recorded:
        stored = store(
            connection,
            receipts,
            provider=provider,
            senders=names_reporting_as(declarations, provider),
            now=now,
        )
        return recorded(stored, apply(connection, stored, now=now))

    return database.run(keep)


def store(
    connection: psycopg.Connection,
    receipts: Sequence[Receipt],
    *,
    provider: str,
    senders: Sequence[str],
    now: datetime | None = None,
) -> list[Stored]:
    """Keep what is new of ``receipts``, as part of the caller's transaction."""
    receipts = sorted(receipts, key=lambda receipt: receipt.event_key)
    named = [named_by(receipt.idempotency_key) for receipt in receipts]
    parameters = {
        "senders": list(senders),
        "provider": provider,
        "event_keys": [receipt.event_key for receipt in receipts],
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
        "raws": [receipt.raw for receipt in receipts],
        "named": [notification_id for notification_id, _ in named],
        "attempts": [
            receipt.attempt_id or attempt_id
            for receipt, (_, attempt_id) in zip(receipts, named, strict=True)
        ],
        "now": now,
    }
    with connection.cursor(row_factory=class_row(Stored)) as cursor:
        return cursor.execute(STORE, parameters).fetchall()


def fact_of(receipt: Receipt) -> str | None:
    """Return the provenance that ``receipt`` brings along for a suppression, as JSON."""
    return json.dumps(dataclasses.asdict(receipt.fact)) if receipt.fact else None


def match_orphans(
    database: Database, *, declarations: Sequence[Declaration], now: datetime | None = None
) -> Recorded:
    """Match receipts that came before what they name was known, and apply them."""
    parameters = {
        "limit": MATCHED_AT_ONCE,
        "looked_at": ORPHANS_LOOKED_AT,
        "names": [declaration.name for declaration in declarations],
        "doors": [declaration.door for declaration in declarations],
        "now": now,
    }

    def match(connection: psycopg.Connection) -> Recorded:
        found = connection.execute(FIND_ORPHANS, parameters).fetchall()
        if not found:
            return NOTHING
        receipts, ids, attempts, organizations = map(list, zip(*found, strict=True))
        # Notifications before their receipts, in the order of everybody else.
        lock_notifications(connection, ids)
        values = {
            "receipts": receipts, "ids": ids, "attempts": attempts, "organizations": organizations,
        }  # fmt: skip
        with connection.cursor(row_factory=class_row(Stored)) as cursor:
            matched = cursor.execute(MATCH_ORPHANS, values).fetchall()
        return recorded(matched, apply(connection, matched, now=now))

    return database.run(match)


def recorded(stored: Sequence[Stored], applied: Applied) -> Recorded:
    """Return what came of the receipts that were new."""
    return Recorded(
        stored=len(stored),
        orphaned=sum(row.notification_id is None for row in stored),
        applied=applied.applied,
        after_zero_submissions=applied.after_zero_submissions,
    )
