"""Begin: open an attempt per leased notification, committed before the provider is called."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core.breaker import PROBE_SECONDS
from functions.core.declaration import Declaration, names_of_keyed
from functions.store.breaker import grant_probes
from functions.store.connection import Database
from functions.store.lock import lock_notifications


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A lease under which an attempt named ``token`` shall be opened."""

    id: UUID
    lease_number: int
    token: UUID
    has_address: bool = True
    """False: there was no address behind its reference any more, and so there is no call to open
    an attempt for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The answer: call the provider only when ``send``.

    verdict     meaning
    go          the attempt is open
    mine        it was open already by this very token: our COMMIT's answer had been lost
    stale       another lease, no lease, an attempt already open, or the lease ran out
    erased      it was erased, and nothing is left of it to be sent: ended
    expired     ``expires_at`` passed: ended
    changed     by reference, and something is not as it was decided from: its recipient's record,
                the rules of its category, or that the address is not suppressed. Ready at once,
                unspent, so that the next claim decides anew
    suppressed  the literal address is suppressed: ended
    paused      the channel or its stream was paused after the lease: due again, unspent
    blocked     a breaker or the endpoint is closed for now: due again, unspent
    disabled    the endpoint asked never to be called again: ended
    held        an earlier attempt is in doubt, and its provider's key no longer makes another safe:
                held for a person
    """

    id: UUID
    lease_number: int
    verdict: str
    send: bool
    attempts_spent: int
    eligible_at: datetime | None
    started_at: datetime


# message: one token per notification, also when a message came twice in one batch.
# held:    what may be done, by columns of the locked row and the newest suppression facts.
#          A doubt under a key is safe to repeat with the provider that knows the key, and for as
#          long as it does: otherwise it is held. What is blocked is due again when somebody is to
#          find out, or has: not at once, or it would go round and round. What has changed is
#          decided anew, and what refers to a recipient is so when its address is suppressed: there
#          may be another. The claim asks the same of that address, so it does not come back. What
#          is compared are scalars: an EXISTS may be planned as one pass over all.
# opened:  the ledger row; the primary key (notification, lease) admits one attempt per lease.
# The answer is put together without a join of these: with no statistics of them the planner would
# compare each row with each, which took half of the time of a set of 100.
BEGIN = """
    WITH message AS MATERIALIZED (
        SELECT DISTINCT ON (id) id, lease_number, token, has_address
          FROM unnest(%(ids)b::uuid[], %(leases)b::int4[], %(tokens)b::uuid[],
                      %(addressed)b::boolean[])
               AS m (id, lease_number, token, has_address)
         ORDER BY id, lease_number DESC
    ),
    instant AS MATERIALIZED (SELECT coalesce(%(now)s, clock_timestamp()) AS at),
    held AS MATERIALIZED (
        SELECT n.id, m.lease_number, m.token, n.attempts_spent, n.eligible_at, t.at,
               CASE WHEN n.attempt_id = m.token AND n.status = 'leased' AND n.lease_until > t.at
                    THEN 'mine'
                    WHEN n.lease_number <> m.lease_number OR n.status <> 'leased'
                      OR n.attempt_id IS NOT NULL OR n.lease_until <= t.at
                    THEN 'stale'
                    WHEN n.erased_at IS NOT NULL
                    THEN 'erased'
                    WHEN n.expires_at <= t.at
                    THEN 'expired'
                    WHEN n.recipient_id IS NOT NULL
                     AND (NOT m.has_address
                          OR ((SELECT r.version
                                 FROM recipients r
                                WHERE r.organization_id = n.organization_id
                                  AND r.recipient_id = n.recipient_id)
                              = n.recipient_version) IS NOT TRUE
                          OR (SELECT c.version
                                FROM category_rules c
                               WHERE c.organization_id = n.organization_id
                                 AND c.category = n.category)
                             IS DISTINCT FROM (n.decision ->> 'rules_version')::bigint
                          OR n.category = ANY(coalesce((SELECT o.transactional_categories
                                                          FROM organizations o
                                                         WHERE o.id = n.organization_id),
                                                       '{transactional}'))
                             IS DISTINCT FROM (n.decision ->> 'transactional')::boolean)
                    THEN 'changed'
                    WHEN 'suppress' = ANY(ARRAY(   -- the newest fact per category
                         SELECT DISTINCT ON (s.category) s.kind
                           FROM suppressions s
                          WHERE s.organization_id = n.organization_id AND s.channel = n.channel
                            AND s.recipient_hash = n.address_hash
                            AND (s.category IS NULL OR s.category = n.category)
                            -- a link never stops what is transactional, by its category of
                            -- now, which was compared above, or for an address by its stream
                            AND NOT (s.source = 'unsubscribe'
                                     AND coalesce((n.decision ->> 'transactional')::boolean,
                                                  n.stream = 'transactional'))
                          ORDER BY s.category, s.id DESC))
                    THEN CASE WHEN n.recipient_id IS NULL THEN 'suppressed' ELSE 'changed' END
                    WHEN EXISTS (SELECT FROM channels c
                                  WHERE c.name = n.channel AND c.paused_at IS NOT NULL)
                      OR EXISTS (SELECT FROM streams s
                                  WHERE s.channel = n.channel AND s.name = n.stream
                                    AND s.paused_at IS NOT NULL)
                    THEN 'paused'
                    WHEN n.origin IS NOT NULL
                     AND EXISTS (SELECT FROM endpoints e
                                  WHERE e.organization_id = n.organization_id
                                    AND e.origin = n.origin AND e.disabled_at IS NOT NULL)
                    THEN 'disabled'
                    WHEN n.in_doubt > 0 AND n.provider = ANY(%(keyed)s)
                     AND n.provider <> %(provider)s
                    THEN 'provider_changed'
                    WHEN n.in_doubt > 0 AND n.key_first_used_at
                         <= t.at - %(key_window_seconds)s * interval '1 second'
                    THEN 'key_window_over'
                    WHEN blocked.until IS NOT NULL THEN 'blocked'
                    ELSE 'go' END AS verdict,
               least(blocked.until, t.at + %(probe_seconds)s * interval '1 second') AS again_at
          FROM message m
          JOIN notifications n ON n.id = m.id
         CROSS JOIN instant t
         CROSS JOIN LATERAL (
               SELECT greatest(
                      (SELECT max(b.probe_at)
                         FROM breakers b
                        WHERE b.channel = n.channel AND b.provider = %(provider)s
                          AND b.opened_at IS NOT NULL AND b.probe_id IS DISTINCT FROM n.id
                          AND b.key = CASE b.scope WHEN 'provider' THEN %(provider)s
                                                   WHEN 'sender_identity' THEN n.stream
                                                   ELSE n.country END),
                      CASE WHEN n.origin IS NOT NULL
                           THEN (SELECT e.probe_at
                                   FROM endpoints e
                                  WHERE e.organization_id = n.organization_id
                                    AND e.origin = n.origin
                                    AND e.probe_id IS DISTINCT FROM n.id) END) AS until) blocked
    ),
    opened AS (
        INSERT INTO attempts (notification_id, lease_number, id, provider, started_at)
        SELECT id, lease_number, token, %(provider)s, at FROM held WHERE verdict = 'go'
        ON CONFLICT DO NOTHING
        RETURNING notification_id, id
    ),
    begun AS (
        UPDATE notifications n
           SET attempt_id = o.id, attempts_spent = n.attempts_spent + 1, provider = %(provider)s,
               key_first_used_at = coalesce(n.key_first_used_at, t.at), updated_at = t.at,
               lease_until = greatest(n.lease_until,
                                      t.at + %(remaining_seconds)s * interval '1 second')
          FROM opened o CROSS JOIN instant t
         WHERE n.id = o.notification_id
        RETURNING n.id, n.lease_number, n.attempts_spent, n.eligible_at, t.at
    ),
    ended AS (
        UPDATE notifications n
           SET status = CASE WHEN h.verdict IN ('paused', 'blocked', 'changed') THEN 'pending'
                             WHEN h.verdict IN ('provider_changed', 'key_window_over') THEN 'dead'
                             WHEN n.in_doubt > 0 THEN 'unconfirmed'
                             WHEN h.verdict = 'expired' THEN 'expired'
                             ELSE 'suppressed' END,
               reason = CASE WHEN h.verdict IN ('erased', 'expired', 'suppressed') THEN h.verdict
                             WHEN h.verdict = 'disabled' THEN 'refused'
                             WHEN h.verdict IN ('provider_changed', 'key_window_over')
                             THEN 'outcome_unknown' END,
               ready = n.ready AND h.verdict <> 'blocked',
               available_at = CASE WHEN h.verdict = 'blocked' THEN h.again_at
                                   ELSE n.available_at END,
               lease_until = NULL, updated_at = h.at,
               final_at = CASE WHEN h.verdict IN ('erased', 'expired', 'suppressed', 'disabled')
                               THEN h.at END
          FROM held h
         WHERE n.id = h.id AND h.verdict NOT IN ('go', 'mine', 'stale')
        RETURNING n.id, n.organization_id, n.lease_number, n.status, h.verdict, h.at
    ),
    logged AS (
        INSERT INTO transitions
               (notification_id, organization_id, at, actor, from_status, to_status, reason,
                lease_number)
        SELECT id, organization_id, at, 'sender', 'leased', status, verdict, lease_number
          FROM ended
    )
    SELECT id, lease_number, 'go' AS verdict, true AS send, attempts_spent, eligible_at,
           at AS started_at
      FROM begun
    UNION ALL
    SELECT id, lease_number,
           CASE WHEN verdict IN ('provider_changed', 'key_window_over') THEN 'held'
                ELSE verdict END, verdict = 'mine', attempts_spent, eligible_at, at
      FROM held
     WHERE verdict <> 'go'
"""


def begin(
    database: Database,
    openings: Sequence[Opening],
    *,
    declaration: Declaration,
    declarations: Sequence[Declaration],
    remaining_seconds: float,
    probe: bool = False,
    now: datetime | None = None,
) -> dict[UUID, Begun]:
    """Open what may be opened, in one transaction; return the answer per notification there is.

    ``declaration`` is the provider's that will be called, ``declarations`` those of all there are.
    The lease is extended to at least ``remaining_seconds`` from now: the rest of the invocation and
    a margin, so that no sweep finds a call that is still running. ``probe``: one of ``openings``
    may be the one that finds out whether a breaker is still to be open.
    """
    ids = [opening.id for opening in openings]
    parameters = {
        "ids": ids,
        "leases": [opening.lease_number for opening in openings],
        "tokens": [opening.token for opening in openings],
        "addressed": [opening.has_address for opening in openings],
        "provider": declaration.name,
        "keyed": names_of_keyed(declarations),
        "key_window_seconds": declaration.key_window_seconds if declaration.keyed else None,
        "remaining_seconds": remaining_seconds,
        "probe_seconds": PROBE_SECONDS,
        "now": now,
    }

    def open_attempts(connection: psycopg.Connection) -> dict[UUID, Begun]:
        lock_notifications(connection, ids)
        if probe:
            grant_probes(
                connection,
                ids=ids,
                leases=[opening.lease_number for opening in openings],
                provider=declaration.name,
                seconds=remaining_seconds,
                now=now,
            )
        with connection.cursor(row_factory=class_row(Begun), binary=True) as cursor:
            return {row.id: row for row in cursor.execute(BEGIN, parameters)}

    return database.run(open_attempts, pipelined=True)
