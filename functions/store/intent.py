"""What clients ask for, as rows: inserted as asked, once per event, a parent with its first child.

Twins of an event wait on the unique index, in one order for everybody (unsorted multi-row inserts
deadlocked in 12 rounds of 12).
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
import psycopg
from psycopg.rows import class_row

from functions.store.chain import start_first
from functions.store.hold import NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class ByReference:
    """What stands for an address, for words, or for one channel: together, for it is seldom."""

    recipient_id: str | None = None
    template_name: str | None = None
    template_version: int | None = None
    """The one that is sent, whatever becomes of the template."""
    segments: int | None = None
    """Of an SMS by template: the most parts that it has in any language."""
    channels: Sequence[str] | None = None
    fallback_after_seconds: float | None = None
    is_repetition: bool = False
    """Its event was notified before: whether its recipient is still there does not matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNotification:
    """What a client asks for, normalised and complete."""

    channel: str
    """Of several the first."""
    recipient: str | None
    """None where it is given by reference."""
    recipient_hash: bytes
    content: Any
    """Of a template ``{"version", "data"}``: the version that was asked for, if one was."""
    priority: str
    category: str
    event_id: str | None
    reference: str | None
    metadata: dict[str, str]
    send_at: datetime | None
    expires_at: datetime | None
    country: str | None = None
    """ISO 3166 code of a telephone number, where it has one."""
    origin: str | None = None
    """Scheme, host and port of a webhook's URL."""
    by_reference: ByReference | None = None
    """None of what has one address, one channel and its words with it: nearly everything."""

    @property
    def channels(self) -> Sequence[str] | None:
        """The candidates of a parent, in order."""
        return self.by_reference and self.by_reference.channels

    @property
    def candidates(self) -> Sequence[str]:
        """The channels that it may be sent by."""
        return self.channels or (self.channel,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inserted:
    """A row by its place among those asked for; not ``is_new`` when an equal event hides it."""

    place: int
    id: UUID
    is_new: bool


# item:     new ids in input order, so that the order of ids is the order asked for.
# clock:    one moment for all, after every id.
# asking:   which categories the organization calls transactional. All others are bulk.
# inserted: sorted by the unique index of events against deadlocks; rows without an event meet no
#           index of that kind and keep their order. A twin's row, or an earlier one of this very
#           batch, hides a row: it is then missing in RETURNING. A parent is never due itself.
# known:    who is erased leaves a digest of the event, which is no conflict: so it is looked for,
#           and in clear as well, for what is being erased is not waited for. The digests are made
#           apart (asked), so that only a join by equality is left: of a table that was not analyzed
#           yet each row might be compared with each item, which took 12 s for a thousand.
INSERT_NOTIFICATIONS = """
    WITH item AS MATERIALIZED (
        SELECT coalesce((%(ids)b::uuid[])[i.place], uuidv7()) AS id, i.*,
               coalesce(jsonb_typeof(i.by_reference -> 'channels') = 'array', false) AS is_parent
          FROM ROWS FROM (
                   jsonb_to_recordset(%(items)s::jsonb) AS (
                       channel text, recipient text, recipient_hash bytea, content jsonb,
                       priority text, category text, event_id text, reference text,
                       metadata jsonb, send_at timestamptz, expires_at timestamptz,
                       country text, origin text, by_reference jsonb
                   )
               ) WITH ORDINALITY AS i (
                   channel, recipient, recipient_hash, content, priority, category, event_id,
                   reference, metadata, send_at, expires_at, country, origin, by_reference, place
               )
    ),
    clock AS MATERIALIZED (
        SELECT coalesce(%(now)s, max(clock_timestamp())) AS now FROM item
    ),
    asking AS MATERIALIZED (
        SELECT coalesce((SELECT transactional_categories FROM organizations
                          WHERE id = %(organization_id)s), '{transactional}') AS categories
    ),
    asked AS MATERIALIZED (
        SELECT i.place, e.known_as, i.channel, i.recipient_hash
          FROM item i
         CROSS JOIN LATERAL (VALUES (i.event_id), (as_digest(i.event_id))) AS e (known_as)
         WHERE i.event_id IS NOT NULL
    ),
    known AS MATERIALIZED (
        SELECT a.place
          FROM asked a
          JOIN notifications n
            ON n.organization_id = %(organization_id)s
           AND n.event_id = a.known_as
           AND n.channel = a.channel
           AND n.recipient_hash = a.recipient_hash
    ),
    inserted AS (
        INSERT INTO notifications (
            id, organization_id, batch_id, batch_index, channel, recipient, recipient_hash,
            content, priority, category, event_id, reference, metadata, send_at, expires_at,
            max_attempts, created_at, updated_at, ready, available_at, eligible_at, stream,
            country, origin, recipient_id, template_name, template_version, segments, channels,
            fallback_after_seconds, candidate
        )
        SELECT i.id, %(organization_id)s, %(batch_id)s,
               CASE WHEN %(batch_id)s::uuid IS NOT NULL THEN i.place - 1 END,
               i.channel, i.recipient, i.recipient_hash,
               coalesce(i.content, 'null'), -- the recordset reads a JSON null as SQL's
               i.priority, i.category, i.event_id, i.reference, i.metadata, i.send_at,
               i.expires_at, channels.max_attempts, uuid_extract_timestamp(i.id),
               uuid_extract_timestamp(i.id),
               NOT i.is_parent AND (i.send_at IS NULL OR i.send_at <= clock.now),
               CASE WHEN i.is_parent THEN %(never)s ELSE greatest(i.send_at, clock.now) END,
               greatest(i.send_at, clock.now),
               CASE WHEN i.category = ANY(asking.categories) THEN 'transactional' ELSE 'bulk' END,
               i.country, i.origin, i.by_reference ->> 'recipient_id',
               i.by_reference ->> 'template_name',
               (i.by_reference ->> 'template_version')::integer,
               (i.by_reference ->> 'segments')::integer,
               CASE WHEN i.is_parent
                    THEN ARRAY(SELECT jsonb_array_elements_text(i.by_reference -> 'channels')) END,
               (i.by_reference ->> 'fallback_after_seconds')::double precision,
               CASE WHEN i.is_parent THEN 0 END
          FROM item i
          JOIN channels ON channels.name = i.channel
         CROSS JOIN clock
         CROSS JOIN asking
         WHERE i.place NOT IN (SELECT place FROM known)
         ORDER BY i.event_id COLLATE "C" NULLS FIRST,
                  CASE WHEN i.event_id IS NOT NULL THEN i.channel END,
                  CASE WHEN i.event_id IS NOT NULL THEN i.recipient_hash END,
                  i.place
        ON CONFLICT (organization_id, event_id, channel, recipient_hash)
           WHERE event_id IS NOT NULL DO NOTHING
        RETURNING id
    )
    SELECT (item.place - 1)::int AS place, item.id, inserted.id IS NOT NULL AS is_new
      FROM item
      LEFT JOIN inserted USING (id)
     ORDER BY item.place
"""


def insert(
    connection: psycopg.Connection,
    notifications: Sequence[NewNotification],
    items: str,
    *,
    organization_id: UUID,
    batch_id: UUID | None,
    ids: Sequence[UUID] | None = None,
    now: datetime | None,
) -> list[Inserted]:
    """Insert the rows, and start the first child of each parent among them.

    ``items`` are the notifications as ``written``; ``ids`` those they are to have, else new ones.
    """
    parameters = {
        "organization_id": organization_id,
        "batch_id": batch_id,
        "items": items,
        "ids": ids,
        "never": NEVER,
        "now": now,
    }
    with connection.cursor(row_factory=class_row(Inserted), binary=True) as cursor:
        rows = cursor.execute(INSERT_NOTIFICATIONS, parameters).fetchall()
    parents = [row.id for row in rows if row.is_new and notifications[row.place].channels]
    if parents:
        start_first(connection, parents, now=now)
    return rows


def written(value: Any) -> str:
    """Return ``value`` as JSON for a recordset."""
    try:
        return orjson.dumps(value, default=_plain).decode()
    except TypeError:  # an integer beyond 64 bits: legal JSON, seldom, and beyond orjson
        return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    """Return what JSON has no form for, in the form PostgreSQL reads."""
    match value:
        case bytes():
            return "\\x" + value.hex()
        case datetime():
            return value.isoformat()
        case NewNotification():
            return dataclasses.asdict(value)
        case _:
            raise TypeError(f"{type(value).__name__} has no place in a notification.")
