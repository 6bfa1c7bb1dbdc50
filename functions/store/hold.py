"""Holds: what waits for a person because it is unlike everything its organization usually sends.

A message on hold is pending, due never, and expires in its time. It is put there, and let go, under
its organization's lock, so that none is forgotten under a hold that is over.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core.abuse import TRUST, hour_of
from functions.core.policy import Hold
from functions.store.action import Action, record_action, result_of
from functions.store.connection import Database
from functions.store.sms import lock_guards

NEVER = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""When a message on hold is due: nothing that looks for what is due ever finds it."""

RELEASED_AT_ONCE = 2000


class Candidate(Protocol):
    """A leased notification."""

    @property
    def id(self) -> UUID: ...
    @property
    def lease_number(self) -> int: ...


# Fenced by the lease; a row that somebody else holds keeps it, unqueued, until the sweep.
PUT_ON_HOLD = """
    WITH decision AS MATERIALIZED (
        SELECT * FROM unnest(%(ids)b::uuid[], %(leases)b::int4[], %(holds)b::uuid[],
                             %(reasons)b::text[]) AS d (id, lease_number, hold_id, reason)
    ),
    held AS (
        UPDATE notifications n
           SET status = 'pending', reason = d.reason, verdict = 'hold', hold_id = d.hold_id,
               ready = false, available_at = %(never)s, lease_until = NULL, updated_at = %(now)s
          FROM decision d
         WHERE n.id = d.id
           AND n.id = ANY(ARRAY(
               SELECT id
                 FROM notifications
                WHERE id = ANY(%(ids)b::uuid[])
                  FOR UPDATE SKIP LOCKED))
           AND n.lease_number = d.lease_number AND n.status = 'leased' AND n.attempt_id IS NULL
        RETURNING n.id, n.organization_id, n.lease_number, n.reason
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason,
            lease_number)
    SELECT id, organization_id, %(now)s, 'policy', 'leased', 'pending', reason, lease_number
      FROM held
"""


def put_on_hold(
    connection: psycopg.Connection,
    held: Sequence[tuple[Candidate, Hold]],
    *,
    now: datetime,
) -> None:
    """Let leased rows wait under their holds; the caller holds the locks of their organizations."""
    if held:
        parameters = {
            "ids": [row.id for row, _ in held],
            "leases": [row.lease_number for row, _ in held],
            "holds": [verdict.hold_id for _, verdict in held],
            "reasons": [verdict.reason for _, verdict in held],
            "never": NEVER,
            "now": now,
        }
        connection.execute(PUT_ON_HOLD, parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedHold:
    """A hold, and how many messages wait under it."""

    id: UUID
    organization_id: UUID
    country: str | None
    """Of a hold on a country; empty is the one of numbers that have none."""
    prefix: str | None
    """Of a hold on a prefix."""
    reason: str
    today: int
    usual: float
    waiting: int
    opened_at: datetime
    released_at: datetime | None


# What was released and not done is listed too: its release was cut off in the middle.
LIST_HOLDS = """
    SELECT h.id, h.organization_id,
           CASE WHEN h.kind = 'country' THEN h.key END AS country,
           CASE WHEN h.kind = 'prefix' THEN h.key END AS prefix,
           h.reason, h.today, h.usual, w.waiting, h.opened_at, h.released_at
      FROM holds h
     CROSS JOIN LATERAL (
           SELECT count(*)::int AS waiting
             FROM notifications n
            WHERE n.hold_id = h.id AND n.status = 'pending') w
     WHERE h.done_at IS NULL
       AND (%(organization_id)s::uuid IS NULL OR h.organization_id = %(organization_id)s)
       AND (%(after)s::uuid IS NULL OR h.id > %(after)s)
     ORDER BY h.id
     LIMIT %(limit)s
"""


def list_holds(
    database: Database,
    *,
    organization_id: UUID | None = None,
    after: UUID | None = None,
    limit: int = 100,
) -> list[ListedHold]:
    """Return up to ``limit`` holds after the id ``after``, the oldest first."""
    parameters = {"organization_id": organization_id, "after": after, "limit": limit}

    def read(connection: psycopg.Connection) -> list[ListedHold]:
        with connection.cursor(row_factory=class_row(ListedHold)) as cursor:
            return cursor.execute(LIST_HOLDS, parameters, prepare=False).fetchall()

    return database.run(read)


FIND_HOLD = "SELECT organization_id, kind, key, released_at, discarded FROM holds WHERE id = %(id)s"

CLOSE_HOLD = """
    UPDATE holds SET released_at = %(now)s, discarded = %(discard)s WHERE id = %(id)s
"""

# The slice of an attack that began at once may not be known yet.
TRUST_SLICE = """
    INSERT INTO sms_slices (organization_id, kind, key, hour, hours, usual, total, trusted_until)
    VALUES (%(organization_id)s, %(kind)s, %(key)s, %(hour)s, array_fill(0, ARRAY[24]), 0, 0,
            %(until)s)
    ON CONFLICT (organization_id, kind, key) DO UPDATE SET trusted_until = EXCLUDED.trusted_until
"""

END_HOLD = "UPDATE holds SET done_at = %(now)s WHERE id = %(id)s AND done_at IS NULL"

LOCK_HELD = """
    SELECT id
      FROM notifications
     WHERE hold_id = %(id)s AND status = 'pending'
     ORDER BY id
     LIMIT %(limit)s
       FOR UPDATE
"""

# Due now: what it waited for is a person's word, and that has come.
LET_GO = """
    WITH let_go AS (
        UPDATE notifications n
           SET status = CASE WHEN NOT %(discard)s THEN 'pending'
                             WHEN n.in_doubt > 0 THEN 'unconfirmed'
                             ELSE 'suppressed' END,
               reason = CASE WHEN %(discard)s THEN 'hold_discarded' END,
               hold_id = CASE WHEN %(discard)s THEN n.hold_id END,
               final_at = CASE WHEN %(discard)s THEN %(now)s::timestamptz END,
               ready = NOT %(discard)s, available_at = %(now)s, eligible_at = %(now)s,
               updated_at = %(now)s
         WHERE n.id = ANY(%(ids)b::uuid[]) AND n.status = 'pending' AND n.hold_id = %(id)s
        RETURNING n.id, n.organization_id, n.status
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason,
            operator_action_id)
    SELECT id, organization_id, %(now)s, 'operator', 'pending', status,
           CASE WHEN %(discard)s THEN 'hold_discarded' ELSE 'hold_released' END,
           %(operator_action_id)s
      FROM let_go
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """What a release came to: ``fate`` is released, already_released or not_found; ``let_go``
    messages go out, or end if they are ``discarded``; ``more`` wait for the next call."""

    fate: str
    discarded: bool = False
    let_go: int = 0
    more: bool = False


def release_hold(
    database: Database,
    id: UUID,
    *,
    discard: bool,
    action: Action,
    now: datetime | None = None,
) -> Released:
    """End a hold, and let up to 2000 of its messages go out, or end as suppressed.

    What is released is trusted for two weeks: by then it is part of what is usual. What is
    discarded is not, and is held again as soon as it goes on. How a hold ended is decided once.
    """

    def work(connection: psycopg.Connection) -> Released:
        hold = connection.execute(FIND_HOLD, {"id": id}).fetchone()
        if hold is None:
            return _kept(connection, action, Released(fate="not_found"), now)
        organization_id, kind, key, *_ = hold
        at = lock_guards(connection, [organization_id], now=now)[organization_id].now
        done = result_of(connection, action)
        if done is not None:
            return Released(**done)
        (*_, released_at, discarded) = connection.execute(FIND_HOLD, {"id": id}).fetchone() or hold
        values: dict[str, Any] = {
            "id": id,
            "organization_id": organization_id,
            "kind": kind,
            "key": key,
            "discard": discard if released_at is None else discarded,
            "operator_action_id": action.id,
            "limit": RELEASED_AT_ONCE,
            "now": at,
            "hour": hour_of(at),
            "until": at + TRUST,
        }
        if released_at is None:
            connection.execute(CLOSE_HOLD, values)
        if released_at is None and not discard:
            connection.execute(TRUST_SLICE, values)
        ids = [row[0] for row in connection.execute(LOCK_HELD, values)]
        connection.execute(LET_GO, values | {"ids": ids})
        if len(ids) < RELEASED_AT_ONCE:
            connection.execute(END_HOLD, values)
        fate = "released" if released_at is None or ids else "already_released"
        released = Released(
            fate=fate,
            discarded=values["discard"],
            let_go=len(ids),
            more=len(ids) >= RELEASED_AT_ONCE,
        )
        return _kept(connection, action, released, now)

    return database.run(work)


def _kept(
    connection: psycopg.Connection, action: Action, released: Released, now: datetime | None
) -> Released:
    record_action(connection, action, result=dataclasses.asdict(released), now=now)
    return released
