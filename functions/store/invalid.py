"""What invalid requests by SQL asked for: their notifications cannot show it themselves.

The row of such a notification has no event, so that the corrected request may name it, and no
recipient; the request keeps the item until an erasure forgets it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

import psycopg
from psycopg.rows import scalar_row

MOST = 1000
"""Of an organization's invalid requests, the newest, which are looked through: the items of those
may be large, and no index knows what is in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for, as far as it can be shown: None of what is missing or no such thing."""

    event_id: str | None = None
    recipient_id: str | None = None
    template_name: str | None = None


READ_ASKED = """
    SELECT id,
           CASE WHEN jsonb_typeof(item -> 'event_id') = 'string'
                 AND length(item ->> 'event_id') BETWEEN 1 AND 128
                THEN item ->> 'event_id' END AS event_id,
           CASE WHEN jsonb_typeof(item -> 'recipient_id') = 'string'
                 AND item ->> 'recipient_id' ~ '^[A-Za-z0-9._:-]{1,128}$'
                THEN item ->> 'recipient_id' END AS recipient_id,
           CASE WHEN jsonb_typeof(item #> '{template,name}') = 'string'
                 AND length(item #>> '{template,name}') BETWEEN 1 AND 128
                THEN item #>> '{template,name}' END AS template_name
      FROM requests
     WHERE id = ANY(%(ids)b::uuid[]) AND faults IS NOT NULL
"""


def asked_of(connection: psycopg.Connection, ids: Collection[UUID]) -> dict[UUID, Asked]:
    """Return what was asked for by each of the invalid requests among ``ids``."""
    if not ids:
        return {}
    return {
        id: Asked(event_id=event_id, recipient_id=recipient_id, template_name=template_name)
        for id, event_id, recipient_id, template_name in connection.execute(
            READ_ASKED, {"ids": list(ids)}
        )
    }


# newest: the index holds nothing but invalid requests. The organization stands as a range, for as
#         an equality the primary key would give the order too.
FIND_INVALID = """
    WITH newest AS MATERIALIZED (
        SELECT id, item
          FROM requests
         WHERE organization_id >= %(organization_id)s AND organization_id <= %(organization_id)s
           AND faults IS NOT NULL
         ORDER BY organization_id DESC, id DESC
         LIMIT %(most)s
    )
    SELECT id
      FROM newest
     WHERE (%(event_id)s::text IS NULL OR item -> 'event_id' = to_jsonb(%(event_id)s::text))
       AND (%(recipient_id)s::text IS NULL
            OR item -> 'recipient_id' = to_jsonb(%(recipient_id)s::text))
"""


def find_invalid(
    connection: psycopg.Connection,
    *,
    organization_id: UUID,
    event_id: str | None,
    recipient_id: str | None,
) -> list[UUID]:
    """Return the notifications of invalid requests that named all of what is given; none where
    nothing is."""
    if event_id is None and recipient_id is None:
        return []
    parameters = {
        "organization_id": organization_id,
        "event_id": event_id,
        "recipient_id": recipient_id,
        "most": MOST,
    }
    with connection.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(FIND_INVALID, parameters).fetchall()
