"""Events that were notified before: the first one of each, and whether it says the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from functions.core.errors import Unavailable
from functions.store.intent import Inserted, NewNotification, written


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The first notification of an event that was known before."""

    id: UUID
    is_equal: bool
    """It says the same, as far as it was asked: by the same template whichever version."""
    template_version: int | None


# What a twin committed while an insert waited for it is seen, for this is a statement of its own.
# What an erased notification said nobody knows: it is not sent a second time. As text 1 and 1.0
# differ, as they do in words and for an idempotency key; it is looked at only where all else is
# equal.
# asked: by its event and by the digest of it, which an erased one may have. Apart, so that a join
#        by equality is all that is left: of an unknown table each might be compared with each.
FIND_KNOWN = """
    WITH asked AS MATERIALIZED (
        SELECT i.place, e.known_as, i.channel, i.recipient_hash,
               coalesce(i.content, 'null') AS content, i.template_name, i.channels
          FROM jsonb_to_recordset(%(items)s::jsonb) AS i (
                   place integer, event_id text, channel text, recipient_hash bytea, content jsonb,
                   template_name text, channels text[]
               )
         CROSS JOIN LATERAL (VALUES (i.event_id), (as_digest(i.event_id))) AS e (known_as)
    )
    SELECT i.place, n.id,
           n.erased_at IS NOT NULL
           OR n.content = i.content
              AND n.template_name IS NOT DISTINCT FROM i.template_name
              AND n.channels IS NOT DISTINCT FROM i.channels
              AND n.content::text = i.content::text AS is_equal,
           n.template_version
      FROM asked i
      JOIN notifications n
        ON n.organization_id = %(organization_id)s
       AND n.event_id = i.known_as
       AND n.channel = i.channel
       AND n.recipient_hash = i.recipient_hash
     ORDER BY i.place
"""


def find_known(
    connection: psycopg.Connection,
    notifications: Mapping[int, NewNotification],
    *,
    organization_id: UUID,
) -> dict[int, Known]:
    """Return, by place, the first notification of each event that was notified before."""
    if not notifications:
        return {}
    items = [_event(place, notification) for place, notification in notifications.items()]
    parameters = {"organization_id": organization_id, "items": written(items)}
    return {
        place: Known(id=id, is_equal=is_equal, template_version=version)
        for place, id, is_equal, version in connection.execute(FIND_KNOWN, parameters)
    }


def find_hidden(
    connection: psycopg.Connection,
    notifications: Sequence[NewNotification],
    rows: Sequence[Inserted],
    *,
    organization_id: UUID,
) -> dict[int, Known]:
    """Return, by place, the first notification of each event that hid a row."""
    hidden = {row.place: notifications[row.place] for row in rows if not row.is_new}
    known = find_known(connection, hidden, organization_id=organization_id)
    if known.keys() != hidden.keys():
        raise Unavailable(VANISHED)
    return known


VANISHED = "A notification was removed while its event was being repeated."


def _event(place: int, notification: NewNotification) -> dict[str, Any]:
    by_reference = notification.by_reference
    return {
        "place": place,
        "event_id": notification.event_id,
        "channel": notification.channel,
        "recipient_hash": notification.recipient_hash,
        "content": notification.content,
        "template_name": by_reference and by_reference.template_name,
        "channels": by_reference and by_reference.channels,
    }
