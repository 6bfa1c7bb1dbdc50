"""Recipients by reference: their addresses, and what they are to be told about, where and when.

A document replaces the one before as a whole. Every change gives the record another version, by
which an attempt under way finds out that it was decided from what is no longer so. An address that
a document leaves out is used no more, and yet known: erasing the recipient erases it everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row, scalar_row

from functions.core.errors import NotFound, Unavailable
from functions.store.connection import Database
from functions.store.erasure import is_being_erased


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContactPoint:
    """An address, normalised, with what is derived from it."""

    channel: str
    address: str
    address_hash: bytes
    verified: bool
    country: str | None = None
    """ISO 3166 code of a telephone number, where it has one."""
    origin: str | None = None
    """Scheme, host and port of a webhook's URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecipient:
    """The whole document of a recipient; contact points in the recipient's own order."""

    contact_points: tuple[NewContactPoint, ...]
    locale: str | None
    time_zone: str | None
    quiet_start: time | None
    quiet_end: time | None
    preferences: Mapping[str, Mapping[str, bool]]
    """By category and channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecipient:
    """A recipient as stored; ``contact_points`` are (channel, address, verified) in order."""

    recipient_id: str
    version: int
    contact_points: list[list[Any]]
    locale: str | None
    time_zone: str | None
    quiet_start: time | None
    quiet_end: time | None
    preferences: dict[str, dict[str, bool]]
    created_at: datetime
    updated_at: datetime

    def says(self, document: NewRecipient) -> bool:
        """Whether it is stored as ``document`` has it."""
        given = [
            [point.channel, point.address, point.verified] for point in document.contact_points
        ]
        return (
            self.contact_points == given
            and self.preferences == document.preferences
            and (self.locale, self.time_zone, self.quiet_start, self.quiet_end)
            == (document.locale, document.time_zone, document.quiet_start, document.quiet_end)
        )


class BeingErased(Unavailable):
    """Whom this reference stood for before is not erased completely yet. Repeat the request."""


READ_RECIPIENT = """
    SELECT r.recipient_id, r.version, r.locale, r.time_zone, r.quiet_start, r.quiet_end,
           r.created_at, r.updated_at,
           (SELECT coalesce(jsonb_agg(jsonb_build_array(c.channel, c.address, c.verified)
                                      ORDER BY c.place), '[]')
              FROM contact_points c
             WHERE c.organization_id = r.organization_id AND c.recipient_id = r.recipient_id)
           AS contact_points,
           (SELECT coalesce(jsonb_object_agg(p.category, p.by_channel), '{}')
              FROM (SELECT category, jsonb_object_agg(channel, allowed) AS by_channel
                      FROM preferences
                     WHERE organization_id = r.organization_id AND recipient_id = r.recipient_id
                     GROUP BY category) p)
           AS preferences
      FROM recipients r
     WHERE r.organization_id = %(organization_id)s AND r.recipient_id = %(recipient_id)s
"""


def _read(connection: psycopg.Connection, parameters: dict[str, Any]) -> StoredRecipient | None:
    with connection.cursor(row_factory=class_row(StoredRecipient)) as cursor:
        return cursor.execute(READ_RECIPIENT, parameters).fetchone()


def get_recipient(
    database: Database, *, organization_id: UUID, recipient_id: str
) -> StoredRecipient:
    """Return the recipient; raises NotFound."""
    parameters = {"organization_id": organization_id, "recipient_id": recipient_id}
    found = database.run(lambda connection: _read(connection, parameters))
    if found is None:
        raise NotFound
    return found


# Held until the transaction ends, whether it is new or not: two documents for one recipient come
# one after the other, and an erasure before or after each.
LOCK_RECIPIENT = """
    INSERT INTO recipients AS r
           (organization_id, recipient_id, locale, time_zone, quiet_start, quiet_end, created_at,
            updated_at)
    SELECT %(organization_id)s, %(recipient_id)s, %(locale)s, %(time_zone)s, %(quiet_start)s,
           %(quiet_end)s, t.at, t.at
      FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
    ON CONFLICT (organization_id, recipient_id) DO UPDATE SET updated_at = r.updated_at
    RETURNING OLD.recipient_id IS NULL AS is_new
"""

CHANGE_RECIPIENT = """
    UPDATE recipients
       SET version = nextval('policy_versions'), locale = %(locale)s, time_zone = %(time_zone)s,
           quiet_start = %(quiet_start)s, quiet_end = %(quiet_end)s,
           updated_at = coalesce(%(now)s, clock_timestamp())
     WHERE organization_id = %(organization_id)s AND recipient_id = %(recipient_id)s
"""

REMOVE_CONTACT_POINTS = """
    DELETE FROM contact_points
     WHERE organization_id = %(organization_id)s AND recipient_id = %(recipient_id)s
"""

REMOVE_PREFERENCES = """
    DELETE FROM preferences
     WHERE organization_id = %(organization_id)s AND recipient_id = %(recipient_id)s
"""

# Earlier addresses stay behind the recipient until the recipient is erased: what was sent to one is
# found by its hash, and what somebody wrote it into by the address.
ADD_CONTACT_POINTS = """
    WITH given AS MATERIALIZED (
        SELECT *
          FROM unnest(%(channels)b::text[], %(addresses)b::text[], %(hashes)b::bytea[],
                      %(verified)b::boolean[], %(countries)b::text[], %(origins)b::text[])
               WITH ORDINALITY
               AS g (channel, address, address_hash, verified, country, origin, place)
    ),
    remembered AS (
        INSERT INTO contact_hashes AS h
               (organization_id, recipient_id, channel, address_hash, address)
        SELECT %(organization_id)s, %(recipient_id)s, channel, address_hash, address FROM given
        ON CONFLICT (organization_id, recipient_id, channel, address_hash) DO UPDATE
           SET address = EXCLUDED.address
         WHERE h.address IS DISTINCT FROM EXCLUDED.address
    )
    INSERT INTO contact_points (organization_id, recipient_id, channel, place, address,
                                address_hash, verified, country, origin)
    SELECT %(organization_id)s, %(recipient_id)s, channel, place, address, address_hash, verified,
           country, origin
      FROM given
"""

ADD_PREFERENCES = """
    INSERT INTO preferences (organization_id, recipient_id, category, channel, allowed)
    SELECT %(organization_id)s, %(recipient_id)s, g.category, g.channel, g.allowed
      FROM unnest(%(categories)b::text[], %(preferred)b::text[], %(allowed)b::boolean[])
           AS g (category, channel, allowed)
"""


def put_recipient(
    database: Database,
    *,
    organization_id: UUID,
    recipient_id: str,
    document: NewRecipient,
    now: datetime | None = None,
) -> tuple[StoredRecipient, bool]:
    """Store the document; return the recipient, and whether there was none before.

    A document that says what is stored already changes nothing, not even the version. Raises
    BeingErased while something waits for whom the reference stood for before: it is not theirs.
    """
    parameters = {
        "organization_id": organization_id,
        "recipient_id": recipient_id,
        "now": now,
        **_columns_of(document),
    }

    def work(connection: psycopg.Connection) -> tuple[StoredRecipient, bool]:
        with connection.cursor(row_factory=scalar_row) as cursor:
            is_new = bool(cursor.execute(LOCK_RECIPIENT, parameters).fetchone())
        if is_new and is_being_erased(  # seen after the lock: an erasure began before it or not
            connection, organization_id=organization_id, recipient_id=recipient_id
        ):
            raise BeingErased
        if not is_new:
            before = _read(connection, parameters)
            if before is not None and before.says(document):
                return before, False
            connection.execute(CHANGE_RECIPIENT, parameters)
            connection.execute(REMOVE_CONTACT_POINTS, parameters)
            connection.execute(REMOVE_PREFERENCES, parameters)
        connection.execute(ADD_CONTACT_POINTS, parameters)
        connection.execute(ADD_PREFERENCES, parameters)
        after = _read(connection, parameters)
        if after is None:  # its lock is held
            raise Unavailable("The recipient was removed while it was being written.")
        return after, is_new

    return database.run(work)


def _columns_of(document: NewRecipient) -> dict[str, Any]:
    points = document.contact_points
    preferences = [
        (category, channel, allowed)
        for category, by_channel in document.preferences.items()
        for channel, allowed in by_channel.items()
    ]
    return {
        "locale": document.locale,
        "time_zone": document.time_zone,
        "quiet_start": document.quiet_start,
        "quiet_end": document.quiet_end,
        "channels": [point.channel for point in points],
        "addresses": [point.address for point in points],
        "hashes": [point.address_hash for point in points],
        "verified": [point.verified for point in points],
        "countries": [point.country for point in points],
        "origins": [point.origin for point in points],
        "categories": [category for category, _, _ in preferences],
        "preferred": [channel for _, channel, _ in preferences],
        "allowed": [allowed for _, _, allowed in preferences],
    }
