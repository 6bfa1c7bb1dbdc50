"""Who must not be told: append-only facts; the newest per category wins, lifting is a fact too."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from functions.core.errors import NotFound
from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """One fact. It is active while it suppresses and nothing newer stands in its place."""

    id: UUID
    channel: str
    recipient: str | None
    category: str | None
    kind: str
    reason: str
    source: str
    source_at: datetime
    evidence: Any
    created_at: datetime
    active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSuppression:
    """A fact to add; ``source``, ``source_at`` and ``evidence`` None when the client names none."""

    channel: str
    recipient: str | None
    """None when only the hash is known: an unsubscribe link holds no address."""
    recipient_hash: bytes
    category: str | None
    reason: str
    source: str | None
    source_at: datetime | None
    evidence: Any


DEFAULT_SOURCE = "api"

# Facts about one address are added one after the other, so that twins find each other's.
LOCK_ADDRESS = """
    SELECT pg_advisory_xact_lock(hashtextextended(
               concat_ws('|', %(organization_id)s::text, %(channel)s::text,
                         encode(%(recipient_hash)s, 'hex')), 0))
"""

FIND_EQUAL = """
    SELECT id, channel, recipient, category, kind, reason, source, source_at, evidence, created_at,
           true AS active
      FROM (SELECT s.*
              FROM suppressions s
             WHERE s.organization_id = %(organization_id)s
               AND s.channel = %(channel)s
               AND s.recipient_hash = %(recipient_hash)s
               AND s.category IS NOT DISTINCT FROM %(category)s
             ORDER BY s.id DESC
             LIMIT 1) newest
     WHERE kind = 'suppress'
       AND reason = %(reason)s
       AND (%(source)s::text IS NULL OR source = %(source)s)
       AND (%(source_at)s::timestamptz IS NULL OR source_at = %(source_at)s)
       AND (%(evidence)s::jsonb IS NULL OR evidence = %(evidence)s)
"""

ADD = """
    INSERT INTO suppressions
           (organization_id, channel, recipient, recipient_hash, category, kind, reason, source,
            source_at, evidence)
    SELECT %(organization_id)s, %(channel)s, %(recipient)s, %(recipient_hash)s, %(category)s,
           %(kind)s, %(reason)s, coalesce(%(source)s, %(default_source)s),
           coalesce(%(source_at)s, %(now)s, clock_timestamp()), %(evidence)s
    RETURNING id, channel, recipient, category, kind, reason, source, source_at, evidence,
              created_at, kind = 'suppress' AS active
"""


def _add_once(
    connection: psycopg.Connection, parameters: dict[str, Any]
) -> tuple[Suppression, bool]:
    connection.execute(LOCK_ADDRESS, parameters)
    with connection.cursor(row_factory=class_row(Suppression)) as cursor:
        equal = cursor.execute(FIND_EQUAL, parameters).fetchone()
        if equal is not None:
            return equal, False
        (added,) = cursor.execute(ADD, parameters).fetchall()
        return added, True


def add_suppression(
    database: Database,
    *,
    organization_id: UUID,
    fact: NewSuppression,
    now: datetime | None = None,
) -> tuple[Suppression, bool]:
    """Add the fact and return it with True; or return the live fact that says the same, and False.

    What the client left out says nothing: it matches any source, time and evidence.
    """
    parameters = _parameters(organization_id, fact, "suppress", now)
    return database.run(lambda connection: _add_once(connection, parameters))


def unsubscribe(
    database: Database,
    *,
    organization_id: UUID,
    fact: NewSuppression,
    now: datetime | None = None,
) -> bool:
    """Add the recipient's own choice, unless it is live already; return whether it is now.

    False, and nothing is added, when the organization lists the category as transactional: nobody
    unsubscribes from those.
    """
    parameters = _parameters(organization_id, fact, "suppress", now)

    def work(connection: psycopg.Connection) -> bool:
        if _is_transactional(connection, parameters):
            return False
        _add_once(connection, parameters)
        return True

    return database.run(work)


def is_transactional(database: Database, *, organization_id: UUID, category: str) -> bool:
    """Return whether the organization lists ``category`` as transactional."""
    parameters = {"organization_id": organization_id, "category": category}
    return database.run(lambda connection: _is_transactional(connection, parameters))


# Where there is no such organization, by the default of the column: as when a message is accepted.
IS_TRANSACTIONAL = """
    SELECT %(category)s = ANY(coalesce((SELECT transactional_categories
                                          FROM organizations
                                         WHERE id = %(organization_id)s), '{transactional}'))
"""


def _is_transactional(connection: psycopg.Connection, parameters: dict[str, Any]) -> bool:
    (is_transactional,) = connection.execute(IS_TRANSACTIONAL, parameters).fetchone() or (False,)
    return is_transactional


IS_SUPPRESSED = """
    SELECT kind = 'suppress'
      FROM suppressions
     WHERE organization_id = %(organization_id)s
       AND channel = %(channel)s
       AND recipient_hash = %(recipient_hash)s
       AND category IS NOT DISTINCT FROM %(category)s
     ORDER BY id DESC
     LIMIT 1
"""


def lift_suppression(
    database: Database,
    *,
    organization_id: UUID,
    fact: NewSuppression,
    now: datetime | None = None,
) -> Suppression:
    """Add the fact that lifts the live one of the same address and category; raises NotFound."""
    parameters = _parameters(organization_id, fact, "lift", now)

    def work(connection: psycopg.Connection) -> Suppression:
        connection.execute(LOCK_ADDRESS, parameters)
        row = connection.execute(IS_SUPPRESSED, parameters).fetchone()
        if row is None or not row[0]:
            raise NotFound("There is no live suppression of this recipient and category.")
        with connection.cursor(row_factory=class_row(Suppression)) as cursor:
            (lifted,) = cursor.execute(ADD, parameters).fetchall()
            return lifted

    return database.run(work)


def _parameters(
    organization_id: UUID, fact: NewSuppression, kind: str, now: datetime | None
) -> dict[str, Any]:
    return {
        "organization_id": organization_id,
        "channel": fact.channel,
        "recipient": fact.recipient,
        "recipient_hash": fact.recipient_hash,
        "category": fact.category,
        "kind": kind,
        "reason": fact.reason,
        "source": fact.source,
        "default_source": DEFAULT_SOURCE,
        "source_at": fact.source_at,
        "evidence": None if fact.evidence is None else Jsonb(fact.evidence),
        "now": now,
    }


# The organization stands as a range for the same reason as in the list of notifications.
LIST_SUPPRESSIONS = """
    SELECT s.id, s.channel, s.recipient, s.category, s.kind, s.reason, s.source, s.source_at,
           s.evidence, s.created_at, state.active
      FROM suppressions s
     CROSS JOIN LATERAL (
           SELECT s.kind = 'suppress' AND NOT EXISTS (
                      SELECT FROM suppressions later
                       WHERE later.organization_id = s.organization_id
                         AND later.channel = s.channel
                         AND later.recipient_hash = s.recipient_hash
                         AND later.category IS NOT DISTINCT FROM s.category
                         AND later.id > s.id) AS active) state
     WHERE s.organization_id >= %(organization_id)s
       AND s.organization_id <= %(organization_id)s
       AND (%(channel)s::text IS NULL OR s.channel = %(channel)s)
       AND (%(recipient_hash)s::bytea IS NULL
            OR s.organization_id = %(organization_id)s AND s.recipient_hash = %(recipient_hash)s)
       AND (%(category)s::text IS NULL OR s.category = %(category)s)
       AND (%(active)s::boolean IS NULL OR state.active = %(active)s)
       AND (%(after)s::uuid IS NULL OR s.id < %(after)s)
     ORDER BY s.organization_id DESC, s.id DESC
     LIMIT %(limit)s
"""


def list_suppressions(
    database: Database,
    *,
    organization_id: UUID,
    channel: str | None,
    recipient_hash: bytes | None,
    category: str | None,
    active: bool | None,
    after: UUID | None,
    limit: int,
) -> list[Suppression]:
    """Return at most ``limit`` facts older than ``after``, newest first."""
    parameters = {
        "organization_id": organization_id,
        "channel": channel,
        "recipient_hash": recipient_hash,
        "category": category,
        "active": active,
        "after": after,
        "limit": limit,
    }

    def work(connection: psycopg.Connection) -> list[Suppression]:
        with connection.cursor(row_factory=class_row(Suppression)) as cursor:
            return cursor.execute(LIST_SUPPRESSIONS, parameters, prepare=False).fetchall()

    return database.run(work)
