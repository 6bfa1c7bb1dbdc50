"""Accept notifications: one transaction that keeps the request's key and its rows together.

A crash, a refusal or a lost connection leaves neither; a repetition finds both and replays. Twins
of a key wait for each other on its row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID

import psycopg

from functions.core.errors import EventIdConflict, Fault, Unavailable, ValidationFailed
from functions.store.batch import AcceptedBatch, insert_batch, read_accepted
from functions.store.browse import History, history_of
from functions.store.connection import Database
from functions.store.idempotency import Request, claim_key, keep_response, read_key
from functions.store.intent import Inserted, NewNotification, insert, written
from functions.store.known import VANISHED, find_hidden
from functions.store.reference import hold_recipients, unknown_recipient

IN_BATCH, ALONE = "/notifications/{place}", ""
"""Where a request has an item: in a batch, and when it is one."""

A = TypeVar("A")


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

    Raises IdempotencyKeyReused, EventIdConflict (nothing is stored), Unavailable; ValidationFailed
    when a recipient was erased just now.
    """
    items = written(notifications)
    organization_id = request.organization_id

    def work(connection: psycopg.Connection) -> BatchAnswer:
        batch_id = claim_key(connection, request, now=now)
        if batch_id is None:
            return _first_batch(connection, request)
        _hold_recipients(connection, notifications, organization_id, IN_BATCH)
        rows = insert(
            connection,
            notifications,
            items,
            organization_id=organization_id,
            batch_id=batch_id,
            now=now,
        )
        known = _first_ones(connection, notifications, rows, organization_id, IN_BATCH)
        batch = insert_batch(
            connection,
            organization_id=organization_id,
            batch_id=batch_id,
            notification_ids=[known.get(row.place, row.id) for row in rows],
            duplicate_indexes=sorted(known),
        )
        return BatchAnswer(batch=batch, replayed=False)

    return database.run(work)


def replay_batch(
    database: Database, *, request: Request, now: datetime | None = None
) -> BatchAnswer | None:
    """Return what an equal request with the same key stored before; None when the key is free."""
    return _replay(database, _first_batch, request, now)


def _first_batch(connection: psycopg.Connection, request: Request) -> BatchAnswer:
    batch_id = read_key(connection, request).batch_id
    batch = batch_id and read_accepted(
        connection, organization_id=request.organization_id, batch_id=batch_id
    )
    if not batch:
        raise Unavailable("The batch was removed while its request was being repeated.")
    return BatchAnswer(batch=batch, replayed=True)


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
    notifications = [notification]
    items = written(notifications)
    organization_id = request.organization_id

    def work(connection: psycopg.Connection) -> SingleAnswer:
        if claim_key(connection, request, now=now) is None:
            return _first_response(connection, request, render)
        _hold_recipients(connection, notifications, organization_id, ALONE)
        rows = insert(
            connection,
            notifications,
            items,
            organization_id=organization_id,
            batch_id=None,
            now=now,
        )
        known = _first_ones(connection, notifications, rows, organization_id, ALONE)
        (row,) = rows
        notification_id = known.get(row.place, row.id)
        stored = history_of(
            connection, organization_id=organization_id, notification_id=notification_id
        )
        if stored is None:
            raise Unavailable(VANISHED)
        response = render(stored)
        keep_response(connection, request, response, notification_id=notification_id)
        return SingleAnswer(response=response, replayed=False)

    return database.run(work)


def replay_single(
    database: Database,
    *,
    request: Request,
    render: Callable[[History], str],
    now: datetime | None = None,
) -> SingleAnswer | None:
    """Return the first response to an equal request with the same key; None when it is free."""

    def first(connection: psycopg.Connection, request: Request) -> SingleAnswer:
        return _first_response(connection, request, render)

    return _replay(database, first, request, now)


def _first_response(
    connection: psycopg.Connection, request: Request, render: Callable[[History], str]
) -> SingleAnswer:
    """Return the response that was kept; of what was erased since, how it is shown now."""
    kept = read_key(connection, request)
    response = kept.response
    if response is None and kept.notification_id is not None:
        stored = history_of(
            connection,
            organization_id=request.organization_id,
            notification_id=kept.notification_id,
        )
        response = stored and render(stored)
    if response is None:
        raise Unavailable("The notification was removed while its request was being repeated.")
    return SingleAnswer(response=response, replayed=True)


class _KeyIsFree(Exception):
    """Undoes the claim of a key that nothing is to be stored under."""


def _replay(
    database: Database,
    first: Callable[[psycopg.Connection, Request], A],
    request: Request,
    now: datetime | None,
) -> A | None:
    """Return the first answer under the request's key, after waiting for a twin that makes it."""

    def work(connection: psycopg.Connection) -> A:
        if claim_key(connection, request, now=now) is not None:
            raise _KeyIsFree
        return first(connection, request)

    try:
        return database.run(work)
    except _KeyIsFree:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of a request that brought the id its notification is to have."""

    id: UUID
    duplicate_of: UUID | None
    """The notification that its event made before; nothing was inserted."""
    is_conflict: bool
    """Its event made another one before; nothing was inserted."""


def accept_requests(
    connection: psycopg.Connection,
    *,
    organization_id: UUID,
    requests: Sequence[tuple[UUID, NewNotification]],
    now: datetime | None = None,
) -> list[Taken]:
    """Insert notifications with the ids that they are to have, as part of the caller's transaction;
    return what became of each, in order."""
    notifications = [notification for _, notification in requests]
    rows = insert(
        connection,
        notifications,
        written(notifications),
        organization_id=organization_id,
        batch_id=None,
        ids=[id for id, _ in requests],
        now=now,
    )
    known = find_hidden(connection, notifications, rows, organization_id=organization_id)
    answers: list[Taken] = []
    for row in rows:
        first = known.get(row.place)
        answers.append(
            Taken(
                id=row.id,
                duplicate_of=first.id if first and first.is_equal else None,
                is_conflict=first is not None and not first.is_equal,
            )
        )
    return answers


def _hold_recipients(
    connection: psycopg.Connection,
    notifications: Sequence[NewNotification],
    organization_id: UUID,
    pointer: str,
) -> None:
    """Keep the recipients from being erased until the transaction ends; raise ValidationFailed for
    those that were since they were looked for."""
    asked = {
        place: one.by_reference.recipient_id
        for place, one in enumerate(notifications)
        if one.by_reference is not None
        and one.by_reference.recipient_id is not None
        and not one.by_reference.is_repetition
    }
    held = hold_recipients(connection, set(asked.values()), organization_id=organization_id)
    gone = [place for place, recipient_id in asked.items() if recipient_id not in held]
    if gone:
        raise ValidationFailed([unknown_recipient(pointer.format(place=place)) for place in gone])


def _first_ones(
    connection: psycopg.Connection,
    notifications: Sequence[NewNotification],
    rows: Sequence[Inserted],
    organization_id: UUID,
    pointer: str,
) -> dict[int, UUID]:
    """Return, by place, the first notification of each event that was known before.

    Raises EventIdConflict naming every item whose content differs from the first one's.
    """
    known = find_hidden(connection, notifications, rows, organization_id=organization_id)
    conflicts = [
        event_conflict(pointer.format(place=place))
        for place, first in known.items()
        if not first.is_equal
    ]
    if conflicts:
        raise EventIdConflict(conflicts)
    return {place: first.id for place, first in known.items()}


def event_conflict(pointer: str = "") -> Fault:
    """Return the fault of the item at ``pointer``."""
    return Fault(
        f"{pointer}/event_id",
        EventIdConflict.code,
        "This event was notified before, to the same recipient, with other content.",
    )
