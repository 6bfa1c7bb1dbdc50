"""Held notifications: send them once more, or let them rest.

Of a notification by several channels a candidate is held, which it follows. A requeue starts a new
budget and keeps the history. It never sends blindly: a row whose attempt may have been accepted
needs the operator's word that a duplicate is acceptable.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core.declaration import Declaration, names_of_keyed
from functions.store.action import Action, Fate, record_action, result_of
from functions.store.connection import Database
from functions.store.lock import lock_notifications

# What a requeue of each row would come to; "requeued" for those that it may, and for those that
# this very action did: repeated after a COMMIT whose answer was lost, it must not say that somebody
# else had scheduled them. `safe`: the provider still knows the key under which an attempt is in
# doubt, so that another cannot take effect twice; what is not known to be safe is not. A candidate
# is sent no more when its parent was withdrawn or another one delivered, and needs consent while a
# later one goes on. None starts meanwhile: whoever starts one has to hold this one's lock, too.
JUDGE = """
    WITH instant AS MATERIALIZED (SELECT coalesce(%(now)s, clock_timestamp()) AS at)
    SELECT m.id,
           CASE WHEN n.id IS NULL THEN 'not_found'
                WHEN n.channels IS NOT NULL THEN 'sent_by_candidates'
                WHEN EXISTS (SELECT FROM transitions
                              WHERE notification_id = n.id
                                AND operator_action_id = %(operator_action_id)s) THEN 'requeued'
                WHEN n.status IN ('pending', 'leased') THEN 'already_scheduled'
                WHEN n.status = 'uncertain' THEN 'awaiting_evidence'
                WHEN n.status <> 'dead' THEN n.status
                WHEN n.discarded_at IS NOT NULL THEN 'discarded'
                WHEN n.attempt_id IS NOT NULL THEN 'attempt_open'
                WHEN n.expires_at <= t.at THEN 'expired'
                WHEN p.status = 'cancelled' THEN 'chain_cancelled'
                WHEN others.are_told THEN 'chain_delivered'
                WHEN (n.reason = 'outcome_unknown' OR n.in_doubt > 0 AND NOT k.safe
                      OR others.go_on)
                 AND NOT %(may_send_twice)s THEN 'needs_consent'
                WHEN n.reason = 'invalid' THEN 'invalid'
                ELSE 'requeued' END AS fate,
           CASE WHEN n.channels IS NOT NULL
                THEN (SELECT c.id FROM notifications c
                       WHERE c.parent_id = n.id
                       ORDER BY c.candidate DESC LIMIT 1) END AS candidate_id
      FROM unnest(%(ids)b::uuid[]) WITH ORDINALITY AS m (id, place)
     CROSS JOIN instant t
      LEFT JOIN notifications n ON n.id = m.id
      LEFT JOIN channels c ON c.name = n.channel
      LEFT JOIN notifications p ON p.id = n.parent_id
     CROSS JOIN LATERAL (
           SELECT coalesce(n.provider = c.provider AND n.provider = ANY(%(keyed)s), false)
                  AND NOT EXISTS (SELECT FROM attempts a
                                   WHERE a.notification_id = n.id AND a.outcome = 'unknown'
                                     AND a.provider <> n.provider)
                  AND coalesce(n.key_first_used_at
                      + (%(windows)s::float8[])[array_position(%(keyed)s, n.provider)]
                      * interval '1 second' > t.at, true) AS safe) k
     CROSS JOIN LATERAL (
           SELECT bool_or(s.status = 'delivered') AS are_told,
                  bool_or(s.candidate > n.candidate
                          AND (s.in_doubt > 0 OR s.status IN ('pending', 'leased', 'submitted',
                                                              'unconfirmed'))) AS go_on
             FROM notifications s
            WHERE s.parent_id = n.parent_id) others
     ORDER BY m.place
"""

# fresh:     only a known refusal starts a new key: the same key keeps a doubtful attempt harmless.
# consented: the operator answers for the doubt. The key's first use is forgotten, so that the next
#            begin does not hold the row again at once.
REQUEUE = """
    WITH requeued AS (
        UPDATE notifications n
           SET status = 'pending', reason = NULL, ready = true,
               available_at = t.at, eligible_at = t.at, updated_at = t.at,
               attempts_spent = 0, starts = 0, waiting_since = NULL,
               key_epoch = n.key_epoch + k.fresh::int,
               key_first_used_at = CASE WHEN k.fresh OR k.consented THEN NULL
                                        ELSE n.key_first_used_at END,
               provider = CASE WHEN k.consented THEN NULL ELSE n.provider END
          FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t,
               (SELECT id, reason = 'rejected' AND in_doubt = 0 AS fresh,
                       %(may_send_twice)s AND in_doubt > 0 AS consented
                  FROM notifications
                 WHERE id = ANY(%(ids)b::uuid[])) k
         WHERE n.id = ANY(%(ids)b::uuid[]) AND n.id = k.id AND n.status = 'dead'
        RETURNING n.id, n.organization_id, t.at
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason,
            operator_action_id)
    SELECT id, organization_id, at, 'operator', 'dead', 'pending', 'requeued',
           %(operator_action_id)s
      FROM requeued
"""


def preview(
    database: Database,
    ids: Sequence[UUID],
    *,
    may_send_twice: bool,
    declarations: Sequence[Declaration],
    now: datetime | None = None,
) -> list[Fate]:
    """Return what ``requeue`` would come to for each of ``ids``, in their order."""
    parameters = _parameters(
        ids, may_send_twice=may_send_twice, declarations=declarations, action=None, now=now
    )
    return database.run(lambda connection: _judge(connection, parameters))


def requeue(
    database: Database,
    ids: Sequence[UUID],
    *,
    may_send_twice: bool,
    declarations: Sequence[Declaration],
    action: Action,
    now: datetime | None = None,
) -> list[Fate]:
    """Make the held ones of ``ids`` pending again with a new budget; return what came of each.

    requeued           pending now
    already_scheduled  pending or leased: nothing to do
    awaiting_evidence  uncertain: evidence, or its policy, comes first
    needs_consent      an attempt may have been accepted, and ``may_send_twice`` is not given
    attempt_open       a sender may still be at work; the sweep closes its attempt within minutes
    expired            its ``expires_at`` has passed
    sent_by_candidates a parent; its newest candidate is named
    chain_delivered    another candidate of its notification was delivered
    chain_cancelled    its notification was cancelled
    discarded, not_found, or the status it has
    """
    parameters = _parameters(
        ids, may_send_twice=may_send_twice, declarations=declarations, action=action, now=now
    )

    def work(connection: psycopg.Connection) -> list[Fate]:
        lock_notifications(connection, ids)
        fates = _judge(connection, parameters)
        if result_of(connection, action) is None:
            requeued = [one.id for one in fates if one.fate == "requeued"]
            connection.execute(REQUEUE, {**parameters, "ids": requeued})
            record_action(connection, action, result=_result(fates), now=now)
        return fates

    return database.run(work)


def _parameters(
    ids: Sequence[UUID],
    *,
    may_send_twice: bool,
    declarations: Sequence[Declaration],
    action: Action | None,
    now: datetime | None,
) -> dict[str, object]:
    windows = {one.name: one.key_window_seconds for one in declarations}
    keyed = names_of_keyed(declarations)
    return {
        "ids": list(dict.fromkeys(ids)),
        "may_send_twice": may_send_twice,
        "keyed": keyed,
        "windows": [windows[name] for name in keyed],
        "operator_action_id": action.id if action else None,
        "now": now,
    }


def _judge(connection: psycopg.Connection, parameters: dict[str, object]) -> list[Fate]:
    with connection.cursor(row_factory=class_row(Fate)) as cursor:
        return cursor.execute(JUDGE, parameters).fetchall()


def _result(fates: Sequence[Fate]) -> dict[str, object]:
    return {"fates": dict(Counter(one.fate for one in fates))}


JUDGE_DISCARD = """
    SELECT m.id,
           CASE WHEN n.id IS NULL THEN 'not_found'
                WHEN n.channels IS NOT NULL THEN 'sent_by_candidates'
                WHEN EXISTS (SELECT FROM transitions
                              WHERE notification_id = n.id
                                AND operator_action_id = %(operator_action_id)s) THEN 'discarded'
                WHEN n.status <> 'dead' THEN n.status
                WHEN n.discarded_at IS NOT NULL THEN 'already_discarded'
                ELSE 'discarded' END AS fate,
           CASE WHEN n.channels IS NOT NULL
                THEN (SELECT c.id FROM notifications c
                       WHERE c.parent_id = n.id
                       ORDER BY c.candidate DESC LIMIT 1) END AS candidate_id
      FROM unnest(%(ids)b::uuid[]) WITH ORDINALITY AS m (id, place)
      LEFT JOIN notifications n ON n.id = m.id
     ORDER BY m.place
"""

# A parent is to hear of it, though the status is the same.
DISCARD = """
    WITH discarded AS (
        UPDATE notifications n
           SET discarded_at = t.at, final_at = t.at, updated_at = t.at, told_status = NULL
          FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE n.id = ANY(%(ids)b::uuid[]) AND n.status = 'dead' AND n.discarded_at IS NULL
        RETURNING n.id, n.organization_id, t.at
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason,
            operator_action_id)
    SELECT id, organization_id, at, 'operator', 'dead', 'dead', 'discarded', %(operator_action_id)s
      FROM discarded
"""


def discard(
    database: Database, ids: Sequence[UUID], *, action: Action, now: datetime | None = None
) -> list[Fate]:
    """Let the held ones of ``ids`` rest: final, with their reason kept; evidence may still come.

    Fates: discarded, already_discarded, sent_by_candidates, not_found, or the status it has.
    """
    parameters = {"ids": list(dict.fromkeys(ids)), "operator_action_id": action.id, "now": now}

    def work(connection: psycopg.Connection) -> list[Fate]:
        lock_notifications(connection, ids)
        with connection.cursor(row_factory=class_row(Fate)) as cursor:
            fates = cursor.execute(JUDGE_DISCARD, parameters).fetchall()
        if result_of(connection, action) is None:
            connection.execute(DISCARD, parameters)
            record_action(connection, action, result=_result(fates), now=now)
        return fates

    return database.run(work)
