"""Notifications whose outcome is unknown: list them, and settle one by what somebody found out."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import orjson
import psycopg
from psycopg.rows import class_row, scalar_row

from functions.core.evidence import Rank, Receipt
from functions.core.states import Finding
from functions.store.action import Action, Fate, record_action, result_of
from functions.store.connection import Database
from functions.store.evidence import apply
from functions.store.lock import lock_notifications
from functions.store.receipt import store

OPERATOR = "operator"
"""Stands for the provider of what an operator found out: it is evidence like a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertain:
    """A notification that waits for evidence, until its channel's policy decides."""

    id: UUID
    organization_id: UUID
    channel: str
    provider: str | None
    attempt_id: UUID | None
    in_doubt: int
    since: datetime
    decide_at: datetime | None
    policy: str


# As what is held is listed: by its own index, never by walking over all the rest.
LIST_UNCERTAIN = """
    WITH uncertain AS MATERIALIZED (
        SELECT *
          FROM notifications
         WHERE status = 'uncertain' AND channel = ANY(%(channels)s) AND channels IS NULL
           AND (%(organization_id)s::uuid IS NULL OR organization_id = %(organization_id)s)
           AND (%(after)s::uuid IS NULL OR id > %(after)s)
    )
    SELECT n.id, n.organization_id, n.channel, n.provider, n.attempt_id, n.in_doubt,
           coalesce(a.finished_at, n.updated_at) AS since, n.decide_at, c.unknown_policy AS policy
      FROM (SELECT * FROM uncertain ORDER BY id LIMIT %(limit)s) n
      JOIN channels c ON c.name = n.channel
      LEFT JOIN LATERAL (
           SELECT finished_at
             FROM attempts
            WHERE notification_id = n.id AND outcome = 'unknown'
            ORDER BY lease_number DESC LIMIT 1) a ON true
     ORDER BY n.id
"""


def list_uncertain(
    database: Database,
    *,
    channel: str | None = None,
    organization_id: UUID | None = None,
    after: UUID | None = None,
    limit: int = 100,
) -> list[Uncertain]:
    """Return up to ``limit`` uncertain notifications after the id ``after``, the oldest first."""
    parameters = {
        "channels": [channel] if channel else ["email", "sms", "push", "webhook"],
        "organization_id": organization_id,
        "after": after,
        "limit": limit,
    }

    def read(connection: psycopg.Connection) -> list[Uncertain]:
        with connection.cursor(row_factory=class_row(Uncertain)) as cursor:
            return cursor.execute(LIST_UNCERTAIN, parameters, prepare=False).fetchall()

    return database.run(read)


JUDGE_SETTLE = """
    SELECT CASE WHEN channels IS NOT NULL THEN 'sent_by_candidates'
                WHEN status = 'uncertain' THEN 'settled'
                WHEN discarded_at IS NOT NULL THEN 'discarded'
                WHEN status = 'dead' AND attempt_id IS NOT NULL THEN 'attempt_open'
                WHEN status = 'dead' AND in_doubt > 0 AND %(finding)s <> 'hold' THEN 'settled'
                ELSE status END
      FROM notifications
     WHERE id = %(id)s
"""

DOUBTFUL_ATTEMPT = """
    SELECT id
      FROM attempts
     WHERE notification_id = %(id)s AND outcome = 'unknown'
     ORDER BY lease_number DESC LIMIT 1
"""


def settle(
    database: Database, id: UUID, *, finding: Finding, action: Action, now: datetime | None = None
) -> Fate:
    """Settle a notification that is uncertain, or held in doubt, by what an operator found out.

    accepted, delivered  evidence like a report's: submitted or delivered
    not_accepted         nothing of it was accepted: due again, or held where its budget is spent or
                         another reason holds it
    hold                 held for a person, as its channel's policy may say too

    Fates: settled, sent_by_candidates, not_found, attempt_open, discarded, or the status it has.
    """

    def work(connection: psycopg.Connection) -> Fate:
        lock_notifications(connection, [id])
        done = result_of(connection, action)
        if done is not None:
            return Fate(id=id, fate=done["fate"])
        with connection.cursor(row_factory=scalar_row) as cursor:
            judged = cursor.execute(JUDGE_SETTLE, {"id": id, "finding": finding})
            fate = judged.fetchone() or "not_found"
        if fate == "settled":
            match finding:
                case Finding.ACCEPTED | Finding.DELIVERED:
                    _testify(connection, id, finding, action, now=now)
                case Finding.NOT_ACCEPTED:
                    settle_not_accepted(
                        connection,
                        [id],
                        actor=OPERATOR,
                        reason="settled_not_accepted",
                        operator_action_id=action.id,
                        now=now,
                    )
                case Finding.HOLD:
                    values = {"id": id, "operator_action_id": action.id, "now": now}
                    connection.execute(HOLD, values)
        record_action(connection, action, result={"fate": fate}, now=now)
        return Fate(id=id, fate=fate)

    return database.run(work)


def _testify(
    connection: psycopg.Connection,
    id: UUID,
    finding: Finding,
    action: Action,
    *,
    now: datetime | None,
) -> None:
    """Keep what the operator found out as a receipt, and let it decide like any other."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        attempt_id = cursor.execute(DOUBTFUL_ATTEMPT, {"id": id}).fetchone()
    rank = Rank.DELIVERED if finding is Finding.DELIVERED else Rank.ACCEPTED
    receipt = Receipt(
        provider=OPERATOR,
        event_key=str(action.id),
        type=finding,
        rank=rank,
        occurred_at=now,
        idempotency_key=str(id),
        attempt_id=attempt_id,
        raw=orjson.dumps({"actor": action.actor, **action.arguments}),
    )
    stored = store(connection, [receipt], provider=OPERATOR, senders=[], now=now)
    apply(
        connection,
        stored,
        actor=OPERATOR,
        reason=f"settled_{finding}",
        operator_action_id=action.id,
        now=now,
    )


# A known outcome settles the doubt: nothing was accepted, so nothing stands against another try
# but the budget and the expiry. What is held for another reason than the doubt stays held for it.
SETTLE_NOT_ACCEPTED = """
    WITH instant AS MATERIALIZED (SELECT coalesce(%(now)s, clock_timestamp()) AS at),
    named AS MATERIALIZED ( -- by their ids, not by the indexes of all that is uncertain or held
        SELECT * FROM notifications WHERE id = ANY(%(ids)b::uuid[])
    ),
    closed AS (
        UPDATE attempts a
           SET outcome = 'transient', settled = %(reason)s
          FROM named
         WHERE a.notification_id = ANY(%(ids)b::uuid[]) AND a.notification_id = named.id
           AND a.outcome = 'unknown' AND (%(every_provider)s OR a.provider = named.provider)
        RETURNING a.notification_id
    ),
    settled AS (
        UPDATE notifications n
           SET status = v.status,
               reason = CASE WHEN v.status IN ('pending', 'uncertain') THEN NULL
                             WHEN v.status <> 'dead' THEN v.status
                             WHEN n.status = 'dead' AND n.reason <> 'outcome_unknown' THEN n.reason
                             ELSE 'budget_spent' END,
               in_doubt = v.in_doubt, attempt_id = NULL,
               decide_at = CASE WHEN v.status = 'uncertain' THEN n.decide_at END,
               ready = CASE WHEN v.status = 'pending' THEN true ELSE n.ready END,
               available_at = CASE WHEN v.status = 'pending' THEN t.at ELSE n.available_at END,
               final_at = CASE WHEN v.status = 'expired' THEN t.at END,
               updated_at = t.at
          FROM instant t,
               (SELECT o.id, c.in_doubt,
                       CASE WHEN c.in_doubt > 0 THEN o.status
                            WHEN o.status = 'dead' AND o.reason <> 'outcome_unknown' THEN 'dead'
                            WHEN o.attempts_spent >= o.max_attempts THEN 'dead'
                            WHEN o.expires_at <= i.at THEN 'expired'
                            ELSE 'pending' END AS status
                  FROM named o CROSS JOIN instant i
                 CROSS JOIN LATERAL (
                       SELECT o.in_doubt - count(*)::int AS in_doubt
                         FROM closed WHERE notification_id = o.id) c
                 WHERE o.in_doubt > 0
                   AND (o.status = 'uncertain'
                        OR o.status = 'dead' AND o.attempt_id IS NULL
                           AND o.discarded_at IS NULL)) v
         WHERE n.id = ANY(%(ids)b::uuid[]) AND n.id = v.id
        RETURNING n.id, n.organization_id, OLD.status AS from_status, NEW.status AS to_status,
                  OLD.attempt_id, t.at
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason,
            attempt_id, operator_action_id)
    SELECT id, organization_id, at, %(actor)s, from_status, to_status, %(reason)s, attempt_id,
           %(operator_action_id)s
      FROM settled
"""


def settle_not_accepted(
    connection: psycopg.Connection,
    ids: Sequence[UUID],
    *,
    actor: str,
    reason: str,
    operator_action_id: UUID | None = None,
    now: datetime | None = None,
) -> int:
    """Settle the locked ``ids`` as not accepted, as part of the caller's transaction; count them.

    ``reason`` says how that is known: ``never_accepted`` by the provider, which knows its own
    attempts only, or by an operator, who answers for all of them.
    """
    parameters = {
        "ids": list(ids),
        "actor": actor,
        "reason": reason,
        "every_provider": operator_action_id is not None,
        "operator_action_id": operator_action_id,
        "now": now,
    }
    return connection.execute(SETTLE_NOT_ACCEPTED, parameters).rowcount


HOLD = """
    WITH held AS (
        UPDATE notifications n
           SET status = 'dead', reason = 'outcome_unknown', attempt_id = NULL, decide_at = NULL,
               updated_at = t.at
          FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE n.id = %(id)s AND n.status = 'uncertain'
        RETURNING n.id, n.organization_id, OLD.status AS from_status, OLD.attempt_id, t.at
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason,
            attempt_id, operator_action_id)
    SELECT id, organization_id, at, 'operator', from_status, 'dead', 'settled_hold', attempt_id,
           %(operator_action_id)s
      FROM held
"""
