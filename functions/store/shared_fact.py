"""Facts that hold for every organization: stated for each of them, once per report.

No index tells which organizations have sent to an address, and one of them may send tomorrow. So
the fact stands for all that there are, by the hash alone; only the organization whose message was
answered is told whose choice it was. One that is created later has none of what was told before:
there the provider's own list has to refuse the first message, which suppresses. A number whose
opt-outs the service leaves to us has no such list.

What SNS delivers has no order. Every choice is therefore kept once more as a fact of EVERYBODY,
also one that changes nothing when it is told: a START whose STOP is still to come. By it alone is
decided whether a choice is the last.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import scalar_row

from functions.core.declaration import Declaration, names_reporting_as
from functions.core.evidence import Receipt
from functions.core.shared_fact import SharedFact
from functions.store.connection import Database
from functions.store.evidence import apply
from functions.store.receipt import Recorded, recorded, store

EVERYBODY = UUID(int=0)
"""Stands where an organization does; none has this id, so nobody is suppressed by it or sees it."""

# Two choices about one address are stated one after the other.
LOCK_CHOICES = """
    SELECT pg_advisory_xact_lock(hashtextextended(
               concat_ws('|', 'shared', %(channel)s::text, encode(%(recipient_hash)s, 'hex')), 0))
"""

KEEP_CHOICE = """
    INSERT INTO suppressions (organization_id, channel, recipient_hash, kind, reason, source,
                              source_at, evidence)
    SELECT %(everybody)s, %(channel)s, %(recipient_hash)s, %(kind)s, %(reason)s, %(source)s, t.at,
           %(evidence)s::jsonb || jsonb_build_object('receipt_id', %(receipt_id)s::uuid)
      FROM (SELECT coalesce(%(at)s, %(now)s, clock_timestamp()) AS at) t
     WHERE NOT EXISTS (
           SELECT FROM suppressions s
            WHERE s.organization_id = %(everybody)s AND s.channel = %(channel)s
              AND s.recipient_hash = %(recipient_hash)s AND s.category IS NULL
              AND s.source_at > t.at)
    RETURNING true
"""

# What is known already is not stated again, so a STOP that is repeated adds nothing; nor is what
# has been lifted since: of choices that is decided before.
SUPPRESS_FOR_ALL = """
    INSERT INTO suppressions (organization_id, channel, recipient_hash, recipient, kind, reason,
                              source, source_at, evidence)
    SELECT o.id, %(channel)s, %(recipient_hash)s,
           CASE WHEN o.id = r.organization_id AND n.erased_at IS NULL THEN %(recipient)s END,
           'suppress',
           %(reason)s, %(source)s, coalesce(%(at)s, %(now)s, clock_timestamp()),
           %(evidence)s::jsonb || jsonb_build_object('receipt_id', r.id)
      FROM organizations o
      JOIN receipts r ON r.id = %(receipt_id)s
      LEFT JOIN notifications n ON n.id = r.notification_id
      LEFT JOIN LATERAL (
           SELECT s.kind, s.reason, s.source_at
             FROM suppressions s
            WHERE s.organization_id = o.id AND s.channel = %(channel)s
              AND s.recipient_hash = %(recipient_hash)s AND s.category IS NULL
            ORDER BY s.id DESC
            LIMIT 1) newest ON true
     WHERE (newest.kind = 'suppress' AND newest.reason = %(reason)s) IS NOT TRUE
       AND (newest.kind = 'lift' AND NOT %(is_choice)s AND newest.source_at > %(at)s) IS NOT TRUE
"""

# Lifted is only what was chosen by the same way. What had been known before that choice holds again
# as it was: a number that is out of use, or that an operator has suppressed, stays so.
LIFT_FOR_ALL = """
    INSERT INTO suppressions (organization_id, channel, recipient_hash, recipient, kind, reason,
                              source, source_at, evidence)
    SELECT o.id, %(channel)s, %(recipient_hash)s, newest.recipient,
           coalesce(earlier.kind, 'lift'), coalesce(earlier.reason, %(reason)s),
           coalesce(earlier.source, %(source)s),
           coalesce(earlier.source_at, %(at)s, %(now)s, clock_timestamp()),
           coalesce(earlier.evidence,
                    %(evidence)s::jsonb || jsonb_build_object('receipt_id', r.id))
      FROM organizations o
      JOIN receipts r ON r.id = %(receipt_id)s
     CROSS JOIN LATERAL (
           SELECT s.id, s.kind, s.reason, s.source, s.source_at, s.recipient
             FROM suppressions s
            WHERE s.organization_id = o.id AND s.channel = %(channel)s
              AND s.recipient_hash = %(recipient_hash)s AND s.category IS NULL
            ORDER BY s.id DESC
            LIMIT 1) newest
      LEFT JOIN LATERAL (
           SELECT e.*
             FROM (SELECT s.kind, s.reason, s.source, s.source_at, s.evidence
                     FROM suppressions s
                    WHERE s.organization_id = o.id AND s.channel = %(channel)s
                      AND s.recipient_hash = %(recipient_hash)s AND s.category IS NULL
                      AND s.id < newest.id
                      AND NOT (s.kind = 'suppress' AND s.reason = %(reason)s
                               AND starts_with(s.source, %(channel)s || ':'))
                    ORDER BY s.id DESC
                    LIMIT 1) e
            WHERE e.kind = 'suppress') earlier ON true
     WHERE newest.kind = 'suppress' AND newest.reason = %(reason)s
       AND starts_with(newest.source, %(channel)s || ':')
       AND (newest.source_at > %(at)s) IS NOT TRUE
"""


def record_shared(
    database: Database,
    receipt: Receipt,
    *,
    shared: Sequence[SharedFact],
    declarations: Sequence[Declaration],
    now: datetime | None = None,
) -> Recorded:
    """Keep ``receipt`` if it is new, and then state what it says for every organization.

    What is no choice is stated only where the receipt is about no notification that is known: else
    that one's organization has it now, and to every other it is told by its own next message.
    """

    def keep(connection: psycopg.Connection) -> Recorded:
        senders = names_reporting_as(declarations, receipt.provider)
        stored = store(connection, [receipt], provider=receipt.provider, senders=senders, now=now)
        applied = apply(connection, stored, now=now)  # notifications before suppressions
        for one in stored:
            for fact in sorted(shared, key=lambda fact: fact.recipient_hash):
                if fact.is_choice or one.notification_id is None:
                    _state(connection, fact, receipt_id=one.id, now=now)
        return recorded(stored, applied)

    return database.run(keep)


def _state(
    connection: psycopg.Connection, shared: SharedFact, *, receipt_id: Any, now: datetime | None
) -> None:
    parameters = {
        "everybody": EVERYBODY,
        "channel": shared.channel,
        "recipient": shared.recipient,
        "recipient_hash": shared.recipient_hash,
        "kind": "lift" if shared.lifts else "suppress",
        "is_choice": shared.is_choice,
        "reason": shared.fact.reason,
        "source": shared.fact.source,
        "evidence": json.dumps(shared.fact.evidence),
        "at": shared.at,
        "receipt_id": receipt_id,
        "now": now,
    }
    with connection.cursor(row_factory=scalar_row) as cursor:
        cursor.execute(LOCK_CHOICES, parameters)
        if shared.is_choice and cursor.execute(KEEP_CHOICE, parameters).fetchone() is None:
            return
        cursor.execute(LIFT_FOR_ALL if shared.lifts else SUPPRESS_FOR_ALL, parameters)
