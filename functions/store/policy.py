"""What the policy asks about categories and recipients, in a statement each, and what it chose.

Read when a page is decided and at no other time: what is not read is not known, and not sent.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from operator import itemgetter
from typing import Any, Protocol
from uuid import UUID

import orjson
import psycopg
from psycopg.rows import scalar_row, tuple_row

from functions.core.decision import inputs_of
from functions.core.local_time import Window
from functions.core.policy import (
    POLICY_VERSION,
    Allow,
    ContactPoint,
    Recipient,
    Rules,
)
from functions.store.claim import Leased
from functions.store.connection import Database


class Asking(Protocol):
    """A notification by reference, as far as its recipient is concerned."""

    @property
    def organization_id(self) -> UUID: ...
    @property
    def recipient_id(self) -> str | None: ...
    @property
    def channel(self) -> str: ...
    @property
    def category(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The same of one that is not stored."""

    organization_id: UUID
    recipient_id: str
    channel: str
    category: str


# Asked once for each category of an organization, however many notifications are of it. Where there
# is no such organization, by the default of the column: as when something is accepted.
READ_RULES = """
    SELECT a.category = ANY(coalesce((SELECT transactional_categories
                                        FROM organizations
                                       WHERE id = a.organization_id), '{transactional}')),
           c.version, c.mandatory, c.high_bypasses_quiet_hours, c.window_start, c.window_end
      FROM unnest(%(organizations)b::uuid[], %(categories)b::text[]) WITH ORDINALITY
           AS a (organization_id, category, place)
      LEFT JOIN LATERAL (
           SELECT version, mandatory, high_bypasses_quiet_hours, window_start, window_end
             FROM category_rules
            WHERE organization_id = a.organization_id AND category = a.category
            LIMIT 1) c ON true
     ORDER BY a.place
"""


def rules_of(
    connection: psycopg.Connection, categories: Collection[tuple[UUID, str]]
) -> dict[tuple[UUID, str], Rules]:
    """Return what is declared of each category, by its organization and name."""
    parameters = {
        "organizations": [organization_id for organization_id, _ in categories],
        "categories": [category for _, category in categories],
    }
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        rows = cursor.execute(READ_RULES, parameters).fetchall()
    return dict(zip(categories, (_rules(row) for row in rows), strict=True))


def _rules(row: tuple[Any, ...]) -> Rules:
    transactional, version, mandatory, bypasses, start, end = row
    if version is None:
        return Rules(transactional=transactional)
    return Rules(
        version=version,
        transactional=transactional,
        mandatory=mandatory,
        high_bypasses_quiet_hours=bypasses,
        window=_window(start, end),
    )


# One look-up each by the primary key, recipient by recipient: each sub-select keeps its LIMIT or
# OFFSET so that the planner cannot make joins of them, which would read whole indexes when it knows
# nothing of the tables; and it may not go by the channel, in the index of addresses. No row: there
# is no such recipient. One row for each contact point else, or a single one without any.
# is_suppressed: what begin asks, put so that an address without facts costs one look: there is a
#                fact that suppresses, and none newer in its category. A scalar, as an EXISTS may be
#                planned as one pass over all facts. A link never stops what is transactional by
#                now.
READ_RECIPIENTS = """
    SELECT a.place::int, r.version, r.locale, r.time_zone, r.quiet_start, r.quiet_end, p.allowed,
           t.place, t.address_hash, t.verified, t.country, t.origin,
           coalesce((SELECT true
                       FROM suppressions s
                      WHERE s.organization_id = a.organization_id AND s.channel = a.channel
                        AND s.recipient_hash = t.address_hash AND s.kind = 'suppress'
                        AND (s.category IS NULL OR s.category = a.category)
                        AND NOT (s.source = 'unsubscribe' AND a.is_transactional)
                        AND (SELECT true
                               FROM suppressions later
                              WHERE later.organization_id = s.organization_id
                                AND later.channel = s.channel
                                AND later.recipient_hash = s.recipient_hash
                                AND later.category IS NOT DISTINCT FROM s.category
                                AND later.id > s.id
                                AND NOT (later.source = 'unsubscribe' AND a.is_transactional)
                              LIMIT 1) IS NULL
                      LIMIT 1), false) AS is_suppressed
      FROM unnest(%(organizations)b::uuid[], %(recipients)b::text[], %(channels)b::text[],
                  %(categories)b::text[], %(transactional)b::boolean[]) WITH ORDINALITY
           AS a (organization_id, recipient_id, channel, category, is_transactional, place)
     CROSS JOIN LATERAL (
           SELECT version, locale, time_zone, quiet_start, quiet_end
             FROM recipients
            WHERE organization_id = a.organization_id AND recipient_id = a.recipient_id
            LIMIT 1) r
      LEFT JOIN LATERAL (
           SELECT allowed
             FROM preferences
            WHERE organization_id = a.organization_id AND recipient_id = a.recipient_id
              AND category = a.category AND channel = a.channel
            LIMIT 1) p ON true
      LEFT JOIN LATERAL (
           SELECT place, address_hash, verified, country, origin
             FROM contact_points
            WHERE organization_id = a.organization_id AND recipient_id = a.recipient_id
              AND (channel = a.channel) IS TRUE
           OFFSET 0) t ON true
"""


def recipients_of(
    source: Database | psycopg.Connection, asked: Sequence[Asking]
) -> list[Recipient | None]:
    """Return what is known of each recipient, in their order; None of one that there is not."""
    if not asked:
        return []
    if isinstance(source, Database):
        return source.run(lambda connection: _read(connection, asked), pipelined=True)
    return _read(source, asked)


def _read(connection: psycopg.Connection, asked: Sequence[Asking]) -> list[Recipient | None]:
    categories = dict.fromkeys((one.organization_id, one.category) for one in asked)
    declared = rules_of(connection, categories)
    rules = [declared[one.organization_id, one.category] for one in asked]
    parameters = {
        "organizations": [one.organization_id for one in asked],
        "recipients": [one.recipient_id for one in asked],
        "channels": [one.channel for one in asked],
        "categories": [one.category for one in asked],
        "transactional": [one.transactional for one in rules],
    }
    rows: list[list[tuple[Any, ...]]] = [[] for _ in asked]
    with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
        for row in cursor.execute(READ_RECIPIENTS, parameters):
            rows[row[0] - 1].append(row)  # pyright: ignore[reportUnknownMemberType]
    return [
        _recipient(one, its_rules) if one else None
        for one, its_rules in zip(rows, rules, strict=True)
    ]


def _recipient(rows: list[tuple[Any, ...]], rules: Rules) -> Recipient:
    """Return a recipient of their rows."""
    _, version, locale, zone, quiet_start, quiet_end, preference, *_ = rows[0]
    if len(rows) > 1:
        rows.sort(key=_PLACE)
    return Recipient(
        version=version,
        locale=locale,
        time_zone=zone,
        quiet_hours=_window(quiet_start, quiet_end),
        preference=preference,
        contact_points=tuple(
            ContactPoint(
                address_hash=address_hash,
                verified=verified,
                country=country,
                origin=origin,
                is_suppressed=is_suppressed,
            )
            for *_, address_hash, verified, country, origin, is_suppressed in rows
            if address_hash is not None
        ),
        rules=rules,
    )


_PLACE = itemgetter(7)
"""Of a contact point's place in its row."""


def _window(start: time | None, end: time | None) -> Window | None:
    return None if start is None or end is None else Window(start=start, end=end)


# held: fenced by the lease, and only while no attempt is open and nobody has erased it. A row that
#       somebody else holds is passed over. One look-up each, as above: where the planner expects
#       few rows it would compare each choice with each row.
RECORD_CHOICES = """
    WITH held AS MATERIALIZED (
        SELECT c.*
          FROM unnest(%(ids)b::uuid[], %(leases)b::int4[], %(hashes)b::bytea[],
                      %(countries)b::text[], %(origins)b::text[], %(locales)b::text[],
                      %(versions)b::int8[], %(decisions)b::text[]) WITH ORDINALITY
               AS c (id, lease_number, contact_hash, country, origin, locale, recipient_version,
                     decision, place)
         CROSS JOIN LATERAL (
               SELECT
                 FROM notifications n
                WHERE n.id = c.id AND n.lease_number = c.lease_number AND n.status = 'leased'
                  AND n.attempt_id IS NULL AND n.erased_at IS NULL
                LIMIT 1
                  FOR UPDATE SKIP LOCKED) locked
    )
    UPDATE notifications n
       SET contact_hash = h.contact_hash, country = h.country, origin = h.origin,
           locale = h.locale, recipient_version = h.recipient_version,
           decision = h.decision::jsonb, policy_version = %(policy_version)s
      FROM held h
     WHERE n.id = h.id
    RETURNING h.place::int
"""


def record_choices(
    database: Database, choices: Sequence[tuple[Leased, Allow, Recipient]]
) -> set[UUID]:
    """Store where each row goes, in which language, and by which version of its recipient; return
    the ids of those that were written.

    What was not is not to be queued: without a choice it goes nowhere. It keeps its lease, the
    sweep takes it back, and the next claim decides it again.
    """
    chosen = [
        (row, allow.contact_point, allow.locale, recipient)
        for row, allow, recipient in choices
        if allow.contact_point is not None
    ]
    if not chosen:
        return set()
    ids = [row.id for row, *_ in chosen]
    parameters = {
        "ids": ids,
        "leases": [row.lease_number for row, *_ in chosen],
        "hashes": [point.address_hash for _, point, *_ in chosen],
        "countries": [point.country for _, point, *_ in chosen],
        "origins": [point.origin for _, point, *_ in chosen],
        "locales": [locale for *_, locale, _ in chosen],
        "versions": [recipient.version for *_, recipient in chosen],
        "decisions": [dumped(recipient, point, now=row.now) for row, point, _, recipient in chosen],
        "policy_version": POLICY_VERSION,
    }

    def write(connection: psycopg.Connection) -> set[UUID]:
        with connection.cursor(binary=True, row_factory=scalar_row) as cursor:
            return {ids[place - 1] for place in cursor.execute(RECORD_CHOICES, parameters)}

    return database.run(write, pipelined=True)


def dumped(
    recipient: Recipient | None, contact_point: ContactPoint | None, *, now: datetime
) -> str:
    """Return what a verdict was decided from as JSON."""
    return orjson.dumps(inputs_of(recipient, contact_point, now=now)).decode()
