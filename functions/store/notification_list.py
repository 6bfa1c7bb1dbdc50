"""A page of an organization's notifications, newest first."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.store.browse import Notification, as_asked
from functions.store.connection import Database
from functions.store.invalid import find_invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a list is narrowed to; None is no bound. Ids order by time, so times are id bounds."""

    status: list[str] | None = None
    channel: list[str] | None = None
    batch_id: UUID | None = None
    event_id: str | None = None
    recipient_id: str | None = None
    """As the event, it is also looked for among what invalid requests asked for."""
    reference: str | None = None
    first_id: UUID | None = None
    """Inclusive."""
    end_id: UUID | None = None
    """Exclusive."""


# Planned for the values at hand at each call (prepare=False): an absent filter folds away, and an
# event or a batch gets the index that finds it. Otherwise the organization stands as a range: were
# it an equality, the primary key would give the order too, and the planner might read through every
# newer row of every other organization.
LIST_NOTIFICATIONS = """
    SELECT id, organization_id, batch_id, batch_index, status, reason,
           coalesce(channels[candidate + 1], channel) AS channel, recipient,
           recipient_id, NULL AS content, priority, category, event_id, reference, metadata,
           send_at, expires_at,
           CASE WHEN channels IS NULL THEN available_at ELSE eligible_at END AS available_at,
           attempts_spent, max_attempts, lease_number, lease_until, key_epoch, created_at,
           updated_at, final_at, discarded_at, next_check_at, decide_at, polls, provider,
           in_doubt, starts, evidence_rank, submitted_at, complained, hold_id, parent_id,
           template_name, template_version, channels, candidate AS place, next_step_at
      FROM notifications
     WHERE organization_id >= %(organization_id)s
       AND organization_id <= %(organization_id)s
       AND (%(status)s::text[] IS NULL OR status = ANY(%(status)s::text[]))
       AND (%(channel)s::text[] IS NULL
            OR coalesce(channels[candidate + 1], channel) = ANY(%(channel)s::text[]))
       AND (%(event_id)s::text IS NULL
            OR organization_id = %(organization_id)s AND event_id = %(event_id)s
            OR %(invalid)s::uuid[] IS NOT NULL AND id = ANY(%(invalid)s::uuid[]))
       AND (%(recipient_id)s::text IS NULL
            OR recipient_id = %(recipient_id)s
            OR %(invalid)s::uuid[] IS NOT NULL AND id = ANY(%(invalid)s::uuid[]))
       AND (%(reference)s::text IS NULL OR reference = %(reference)s)
       AND (%(first_id)s::uuid IS NULL OR id >= %(first_id)s)
       AND (%(end_id)s::uuid IS NULL OR id < %(end_id)s)
       AND (%(after)s::uuid IS NULL OR id < %(after)s)
       AND (%(batch_id)s::uuid IS NULL
            OR organization_id = %(organization_id)s AND id = ANY(ARRAY(
               SELECT unnest(notification_ids)
                 FROM batches
                WHERE id = %(batch_id)s AND organization_id = %(organization_id)s)))
     ORDER BY organization_id DESC, id DESC
     LIMIT %(limit)s
"""


def list_notifications(
    database: Database,
    *,
    organization_id: UUID,
    filters: Filters,
    after: UUID | None,
    limit: int,
) -> list[Notification]:
    """Return at most ``limit`` notifications older than ``after``, newest first, no content."""
    parameters: dict[str, Any] = {
        "organization_id": organization_id,
        "status": filters.status,
        "channel": filters.channel,
        "batch_id": filters.batch_id,
        "event_id": filters.event_id,
        "recipient_id": filters.recipient_id,
        "reference": filters.reference,
        "first_id": filters.first_id,
        "end_id": filters.end_id,
        "after": after,
        "limit": limit,
    }

    def work(connection: psycopg.Connection) -> list[Notification]:
        invalid = find_invalid(
            connection,
            organization_id=organization_id,
            event_id=filters.event_id,
            recipient_id=filters.recipient_id,
        )
        parameters["invalid"] = invalid or None
        with connection.cursor(row_factory=class_row(Notification)) as cursor:
            rows = cursor.execute(LIST_NOTIFICATIONS, parameters, prepare=False).fetchall()
        return as_asked(connection, rows)

    return database.run(work)
