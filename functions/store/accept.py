"""Accept notifications: one transaction that keeps the request's key and its rows together.

A crash, a refusal or a lost connection leaves neither; a repetition finds both and replays. Twins
of a key wait for each other on its row. Twins of an event wait on the unique index, in one order
for everybody (unsorted multi-row inserts deadlocked in 12 rounds of 12).
"""

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
import psycopg
from psycopg.rows import class_row

from functions.core.errors import EventIdConflict, Fault, Unavailable
from functions.store.batch import AcceptedBatch, insert_batch, read_accepted
from functions.store.browse import History, history_of
from functions.store.connection import Database
from functions.store.idempotency import Request, claim_key, keep_response, read_key

IN_BATCH, ALONE = "/notifications/{place}/event_id", "/event_id"
"""Where a request names its event: in a batch, and in a request for one notification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNotification:
    """What a client asks for, normalised and complete."""

    channel: str
    recipient: str
    recipient_hash: bytes
    content: Any
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayable:
    """An answer, and whether it is the first one again."""

    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAnswer(Replayable):
    batch: AcceptedBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleAnswer(Replayable):
    response: str


def accept_batch(
    database: Database,
    *,
    request: Request,
    notifications: Sequence[NewNotification],
    now: datetime | None = None,
) -> BatchAnswer:
    """Store the batch, or return what an equal request with the same key stored before.

    Raises IdempotencyKeyReused, EventIdConflict (nothing is stored), Unavailable.
    """
    items = _dumps(notifications)

    def work(connection: psycopg.Connection) -> BatchAnswer:
        batch_id = claim_key(connection, request, now=now)
        if batch_id is None:
            return BatchAnswer(batch=_first_batch(connection, request), replayed=True)
        rows = _insert(connection, request, items, batch_id, now)
        known = _find_known(connection, request, notifications, rows, IN_BATCH)
        batch = insert_batch(
            connection,
            organization_id=request.organization_id,
            batch_id=batch_id,
            notification_ids=[known.get(row.place, row.id) for row in rows],
            duplicate_indexes=sorted(known),
        )
        return BatchAnswer(batch=batch, replayed=False)

    return database.run(work)


def _first_batch(connection: psycopg.Connection, request: Request) -> AcceptedBatch:
    batch_id = read_key(connection, request).batch_id
    batch = batch_id and read_accepted(
        connection, organization_id=request.organization_id, batch_id=batch_id
    )
    if not batch:
        raise Unavailable("The batch was removed while its request was being repeated.")
    return batch


def accept_single(
    database: Database,
    *,
    request: Request,
    notification: NewNotification,
    render: Callable[[History], str],
    now: datetime | None = None,
) -> SingleAnswer:
    """Store one notification and keep the response that ``render`` makes of it; or replay that.

    Raises as ``accept_batch``; an event already known with equal content gives the first one.
    """
    items = _dumps([notification])

    def work(connection: psycopg.Connection) -> SingleAnswer:
        if claim_key(connection, request, now=now) is None:
            kept = read_key(connection, request)
            return SingleAnswer(response=kept.response or "", replayed=True)
        (row,) = _insert(connection, request, items, None, now)
        known = _find_known(connection, request, [notification], [row], ALONE)
        stored = history_of(
            connection,
            organization_id=request.organization_id,
            notification_id=known.get(row.place, row.id),
        )
        if stored is None:
            raise Unavailable(_VANISHED)
        response = render(stored)
        keep_response(connection, request, response)
        return SingleAnswer(response=response, replayed=False)

    return database.run(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inserted:
    place: int
    id: UUID
    is_new: bool


# item:     ids in input order, so that the order of ids is the order asked for.
# clock:    one moment for all, after every id.
# asking:   which categories the organization calls transactional. All others are bulk.
# inserted: sorted by the unique index of events against deadlocks; rows without an event meet no
#           index of that kind and keep their order. A twin's row, or an earlier one of this very
#           batch, hides a row: it is then missing in RETURNING.
INSERT_NOTIFICATIONS = """
    WITH item AS MATERIALIZED (
        SELECT uuidv7() AS id, i.*
          FROM ROWS FROM (
                   jsonb_to_recordset(%(items)s::jsonb) AS (
                       channel text, recipient text, recipient_hash bytea, content jsonb,
                       priority text, category text, event_id text, reference text,
                       metadata jsonb, send_at timestamptz, expires_at timestamptz,
                       country text, origin text
                   )
               ) WITH ORDINALITY AS i (
                   channel, recipient, recipient_hash, content, priority, category, event_id,
                   reference, metadata, send_at, expires_at, country, origin, place
               )
    ),
    clock AS MATERIALIZED (
        SELECT coalesce(%(now)s, max(clock_timestamp())) AS now FROM item
    ),
    asking AS MATERIALIZED (
        SELECT coalesce((SELECT transactional_categories FROM organizations
                          WHERE id = %(organization_id)s), '{transactional}') AS categories
    ),
    inserted AS (
        INSERT INTO notifications (
            id, organization_id, batch_id, batch_index, channel, recipient, recipient_hash,
            content, priority, category, event_id, reference, metadata, send_at, expires_at,
            max_attempts, created_at, updated_at, ready, available_at, eligible_at, stream,
            country, origin
        )
        SELECT i.id, %(organization_id)s, %(batch_id)s,
               CASE WHEN %(batch_id)s::uuid IS NOT NULL THEN i.place - 1 END,
               i.channel, i.recipient, i.recipient_hash,
               coalesce(i.content, 'null'), -- the recordset reads a JSON null as SQL's
               i.priority, i.category, i.event_id, i.reference, i.metadata, i.send_at,
               i.expires_at, channels.max_attempts, uuid_extract_timestamp(i.id),
               uuid_extract_timestamp(i.id), i.send_at IS NULL OR i.send_at <= clock.now,
               greatest(i.send_at, clock.now), greatest(i.send_at, clock.now),
               CASE WHEN i.category = ANY(asking.categories) THEN 'transactional' ELSE 'bulk' END,
               i.country, i.origin
          FROM item i
          JOIN channels ON channels.name = i.channel
         CROSS JOIN clock
         CROSS JOIN asking
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


def _insert(
    connection: psycopg.Connection,
    request: Request,
    items: str,
    batch_id: UUID | None,
    now: datetime | None,
) -> list[_Inserted]:
    """Insert the rows; those that an equal event hides are marked as not new."""
    parameters = {
        "organization_id": request.organization_id,
        "batch_id": batch_id,
        "items": items,
        "now": now,
    }
    with connection.cursor(row_factory=class_row(_Inserted), binary=True) as cursor:
        return cursor.execute(INSERT_NOTIFICATIONS, parameters).fetchall()


# The second statement sees what a twin committed while the first one waited for it.
FIND_KNOWN = """
    SELECT i.place, n.id, n.content = coalesce(i.content, 'null') AS is_equal
      FROM jsonb_to_recordset(%(items)s::jsonb) AS i (
               place integer, event_id text, channel text, recipient_hash bytea, content jsonb
           )
      LEFT JOIN notifications n
             ON n.organization_id = %(organization_id)s
            AND n.event_id = i.event_id
            AND n.channel = i.channel
            AND n.recipient_hash = i.recipient_hash
     ORDER BY i.place
"""


def _find_known(
    connection: psycopg.Connection,
    request: Request,
    notifications: Sequence[NewNotification],
    rows: Sequence[_Inserted],
    pointer: str,
) -> dict[int, UUID]:
    """Return, by place, the first notification of each event that was known before.

    Raises EventIdConflict naming every item whose content differs from the first one's.
    """
    hidden = [row.place for row in rows if not row.is_new]
    if not hidden:
        return {}
    items = [
        {
            "place": place,
            "event_id": notifications[place].event_id,
            "channel": notifications[place].channel,
            "recipient_hash": notifications[place].recipient_hash,
            "content": notifications[place].content,
        }
        for place in hidden
    ]
    parameters = {"organization_id": request.organization_id, "items": _dumps(items)}
    known: dict[int, UUID] = {}
    conflicts: list[Fault] = []
    for place, notification_id, is_equal in connection.execute(FIND_KNOWN, parameters):
        if notification_id is None:
            raise Unavailable(_VANISHED)
        known[place] = notification_id
        if not is_equal:
            conflicts.append(
                Fault(
                    pointer.format(place=place),
                    EventIdConflict.code,
                    "This event was notified before, to the same recipient, with other content.",
                )
            )
    if conflicts:
        raise EventIdConflict(conflicts)
    return known


_VANISHED = "A notification was removed while its event was being repeated."


def _dumps(value: Any) -> str:
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
