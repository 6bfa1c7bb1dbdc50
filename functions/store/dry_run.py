"""What a dry run is told by: read once for all of its items, and nothing is written."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

import psycopg
from psycopg.rows import scalar_row

from functions.core.policy import Recipient
from functions.core.states import Channel, Stream
from functions.store.connection import Database
from functions.store.policy import Asked, recipients_of
from functions.store.sms import read_prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A channel that an item may be sent by: to a recipient by reference, or to an address."""

    channel: str
    category: str
    recipient_id: str | None
    address_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the items of a request are planned by, as of ``now``."""

    now: datetime
    recipients: Mapping[Question, Recipient | None]
    suppressed: Collection[Question]
    """Those to an address that is suppressed."""
    prices: Mapping[str, Decimal]
    countries: Collection[str] | None
    """Which the organization writes SMS to; None: to every one."""


def stream_of(category: str, transactional: Collection[str]) -> Stream:
    return Stream.TRANSACTIONAL if category in transactional else Stream.BULK


# Where there is no such organization, by the default of the column: as when it is accepted.
READ_CATEGORIES = """
    SELECT coalesce(%(now)s, clock_timestamp()),
           coalesce((SELECT transactional_categories FROM organizations
                      WHERE id = %(organization_id)s), '{transactional}')
"""

READ_COUNTRIES = "SELECT countries FROM sms_guards WHERE organization_id = %(organization_id)s"


def read_facts(
    database: Database,
    *,
    organization_id: UUID,
    questions: Collection[Question],
    now: datetime | None = None,
) -> Facts:
    """Return what the questions are answered by."""
    parameters = {"organization_id": organization_id, "now": now}
    referring = [one for one in questions if one.recipient_id is not None]
    literal = [one for one in questions if one.recipient_id is None]

    def work(connection: psycopg.Connection) -> Facts:
        (at, transactional) = connection.execute(READ_CATEGORIES, parameters).fetchall()[0]
        asked = [_asked(organization_id, one) for one in referring]
        prices: dict[str, Decimal] = {}
        countries: list[str] | None = None
        if any(one.channel == Channel.SMS for one in questions):
            prices = {price.country: price.amount for price in read_prices(connection)}
            with connection.cursor(row_factory=scalar_row) as cursor:
                countries = cursor.execute(READ_COUNTRIES, parameters).fetchone()
        return Facts(
            now=at,
            recipients=dict(zip(referring, recipients_of(connection, asked), strict=True)),
            suppressed=_suppressed(connection, organization_id, literal, transactional),
            prices=prices,
            countries=countries,
        )

    return database.run(work)


def _asked(organization_id: UUID, question: Question) -> Asked:
    return Asked(
        organization_id=organization_id,
        recipient_id=question.recipient_id or "",
        channel=question.channel,
        category=question.category,
    )


# What begin asks of an address.
FIND_SUPPRESSED = """
    SELECT a.place::int
      FROM unnest(%(channels)b::text[], %(hashes)b::bytea[], %(categories)b::text[],
                  %(streams)b::text[]) WITH ORDINALITY
           AS a (channel, address_hash, category, stream, place)
     WHERE 'suppress' = ANY(ARRAY(   -- the newest fact per category
           SELECT DISTINCT ON (s.category) s.kind
             FROM suppressions s
            WHERE s.organization_id = %(organization_id)s AND s.channel = a.channel
              AND s.recipient_hash = a.address_hash
              AND (s.category IS NULL OR s.category = a.category)
              -- a link never stops what has become transactional since
              AND NOT (s.source = 'unsubscribe' AND a.stream = 'transactional')
            ORDER BY s.category, s.id DESC))
"""


def _suppressed(
    connection: psycopg.Connection,
    organization_id: UUID,
    questions: Sequence[Question],
    transactional: Collection[str],
) -> frozenset[Question]:
    """Return those of ``questions`` whose address is suppressed."""
    if not questions:
        return frozenset()
    parameters = {
        "organization_id": organization_id,
        "channels": [one.channel for one in questions],
        "hashes": [one.address_hash for one in questions],
        "categories": [one.category for one in questions],
        "streams": [stream_of(one.category, transactional) for one in questions],
    }
    with connection.cursor(row_factory=scalar_row) as cursor:
        places: list[int] = cursor.execute(FIND_SUPPRESSED, parameters).fetchall()
    return frozenset(questions[place - 1] for place in places)
