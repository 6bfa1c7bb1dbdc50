"""Evidence once more: recompute it from everything there is about a row.

What a row has taken for evidence may read differently today. Evidence is a function of the set of
reports and acceptances, so it is computed from all of them, not from what has changed.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import scalar_row

# proof:   everything there is about each row: reports about its recipient, and acceptances. One
#          that the row names as its evidence counts as what the row took it for: code from before
#          the ledger kept that may have closed it.
# settled: as when a report comes in: one about an attempt of unknown outcome tells that outcome.
# judged:  the strongest by the rule of evidence, and by the rule of `apply` for what was refused by
#          the provider's own list. Where nothing is left of what had been taken for evidence, it
#          may have been accepted all the same: it ends as unconfirmed and is not sent.
# weighed: a report that names another recipient now is a note, and one that no longer does is not.
REJUDGE = """
    WITH instant AS MATERIALIZED (SELECT coalesce(%(now)s, clock_timestamp()) AS at),
    proof AS MATERIALIZED (
        SELECT r.notification_id, r.evidence_rank AS rank, r.occurred_at AS at, r.event_key AS key,
               coalesce(r.reason, r.type) AS said, r.id AS receipt_id, r.complaint, r.refused
          FROM receipts r
          JOIN notifications n ON n.id = r.notification_id
         WHERE r.notification_id = ANY(%(ids)b::uuid[])
           AND (r.recipient_hash IS NULL OR r.recipient_hash = n.address_hash)
        UNION ALL
        SELECT a.notification_id, greatest(a.evidence_rank, n.evidence_rank * k.is_own),
               a.finished_at, a.id::text, NULL, NULL, false, false
          FROM attempts a
          JOIN notifications n ON n.id = a.notification_id
         CROSS JOIN LATERAL (
               SELECT (coalesce(n.evidence_key = a.id::text, false))::int AS is_own) k
         WHERE a.notification_id = ANY(%(ids)b::uuid[]) AND (a.evidence_rank > 0 OR k.is_own = 1)
    ),
    best AS MATERIALIZED (
        SELECT DISTINCT ON (notification_id)
               notification_id, rank, at, key, said, receipt_id, refused,
               bool_or(complaint) OVER (PARTITION BY notification_id) AS complaint
          FROM proof
         ORDER BY notification_id, rank DESC, at, key
    ),
    settled AS (
        UPDATE attempts a
           SET outcome = 'accepted', reference = coalesce(a.reference, r.reference)
          FROM receipts r
          JOIN notifications n ON n.id = r.notification_id
         WHERE r.id = ANY(%(changed)b::uuid[]) AND r.evidence_rank > 0
           AND (r.recipient_hash IS NULL OR r.recipient_hash = n.address_hash)
           AND a.notification_id = ANY(%(ids)b::uuid[])
           AND a.notification_id = r.notification_id AND a.id = r.attempt_id
           AND (a.outcome = 'unknown' OR a.settled IS NOT NULL)
        RETURNING a.notification_id, (OLD.outcome = 'unknown')::int AS doubt
    ),
    judged AS MATERIALIZED (
        SELECT n.id, t.at AS now, coalesce(b.rank, 0) AS rank, b.receipt_id, s.status,
               coalesce((SELECT sum(doubt) FROM settled WHERE notification_id = n.id), 0)::int
               AS resolved,
               CASE WHEN b.rank > 0 THEN b.at END AS at,
               CASE WHEN b.rank > 0 THEN b.key END AS key,
               coalesce(b.complaint, false) AS complaint,
               CASE WHEN e.by_us THEN n.reason
                    WHEN b.rank IN (2, 4) THEN b.said
                    WHEN s.status = n.status THEN n.reason
                    WHEN s.status = 'unconfirmed' THEN 'outcome_unknown' END AS reason,
               least(c.check_base_seconds, c.cutoff_seconds) AS check_seconds
          FROM notifications n
          JOIN channels c ON c.name = n.channel
          LEFT JOIN best b ON b.notification_id = n.id
         CROSS JOIN instant t
         CROSS JOIN LATERAL (
               SELECT n.status = 'cancelled'
                      OR n.status = 'suppressed' AND (
                         SELECT x.id FROM transitions x
                          WHERE x.notification_id = n.id AND x.to_status = 'suppressed'
                            AND x.receipt_id IS NOT NULL
                          LIMIT 1) IS NULL AS by_us) e
         CROSS JOIN LATERAL (
               SELECT CASE WHEN e.by_us THEN n.status
                           WHEN b.rank = 4
                           THEN CASE WHEN b.refused THEN 'suppressed' ELSE 'failed' END
                           WHEN coalesce(b.rank, 0) = n.evidence_rank THEN n.status
                           ELSE CASE coalesce(b.rank, 0)
                                WHEN 0 THEN 'unconfirmed' WHEN 1 THEN 'submitted'
                                WHEN 3 THEN 'delivered' ELSE 'failed' END END AS status) s
         WHERE n.id = ANY(%(ids)b::uuid[])
    ),
    moved AS (
        UPDATE notifications n
           SET status = j.status, reason = j.reason, in_doubt = n.in_doubt - j.resolved,
               evidence_rank = j.rank, evidence_at = j.at, evidence_key = j.key,
               complained = j.complaint,
               submitted_at = CASE WHEN j.rank > 0 THEN coalesce(n.submitted_at, least(j.at, j.now))
                                   ELSE n.submitted_at END,
               next_check_at = CASE WHEN j.status = 'submitted' AND n.status <> 'submitted'
                                    THEN j.now + j.check_seconds * interval '1 second'
                                    ELSE n.next_check_at END,
               attempt_id = CASE WHEN n.status = 'uncertain' AND j.status <> 'uncertain' THEN NULL
                                 ELSE n.attempt_id END,
               decide_at = CASE WHEN j.status = 'uncertain' THEN n.decide_at END,
               lease_until = CASE WHEN n.attempt_id IS NULL AND j.status <> n.status THEN NULL
                                  ELSE n.lease_until END,
               discarded_at = CASE WHEN j.status = n.status THEN n.discarded_at END,
               final_at = CASE WHEN j.status = n.status THEN n.final_at
                               WHEN j.status <> 'submitted' THEN j.now END,
               updated_at = j.now
          FROM judged j
         WHERE n.id = j.id
           AND (n.evidence_rank, n.evidence_at, n.evidence_key, n.complained, n.reason, 0, n.status)
               IS DISTINCT FROM (j.rank, j.at, j.key, j.complaint, j.reason, j.resolved, j.status)
        RETURNING n.id, n.organization_id, OLD.status AS from_status, NEW.status AS to_status,
                  j.receipt_id, j.now
    ),
    logged AS (
        INSERT INTO transitions
               (notification_id, organization_id, at, actor, from_status, to_status, reason,
                receipt_id, operator_action_id)
        SELECT id, organization_id, now, 'operator', from_status, to_status, 'replayed',
               receipt_id, %(operator_action_id)s
          FROM moved
         WHERE from_status <> to_status
    ),
    blamed AS (
        INSERT INTO suppressions (organization_id, channel, recipient_hash, recipient, kind,
                                  reason, source, source_at, evidence)
        SELECT n.organization_id, n.channel, n.address_hash, n.recipient, 'suppress',
               coalesce(r.fact ->> 'reason',
                        CASE WHEN r.complaint THEN 'complaint' ELSE 'hard_bounce' END),
               coalesce(r.fact ->> 'source', r.provider || ':event'), r.occurred_at,
               coalesce(r.fact -> 'evidence', '{}')
               || jsonb_build_object('receipt_id', r.id, 'notification_id', n.id, 'type', r.type)
          FROM receipts r
          JOIN notifications n ON n.id = r.notification_id
         WHERE r.id = ANY(%(blaming)b::uuid[])
           AND (r.recipient_hash IS NULL OR r.recipient_hash = n.address_hash)
    ),
    weighed AS (
        UPDATE receipts r
           SET applied = (r.recipient_hash IS NULL OR r.recipient_hash = n.address_hash)
          FROM notifications n
         WHERE r.id = ANY(%(changed)b::uuid[]) AND n.id = r.notification_id
           AND r.applied <> (r.recipient_hash IS NULL OR r.recipient_hash = n.address_hash)
    )
    SELECT count(*)::int FROM moved
"""


def rejudge(
    connection: psycopg.Connection,
    ids: Sequence[UUID],
    *,
    changed: Sequence[UUID],
    blaming: Sequence[UUID],
    operator_action_id: UUID,
    now: datetime | None,
) -> int:
    """Recompute the evidence of the locked ``ids``, as part of the caller's transaction; return how
    many of them it changed.

    ``changed`` are the reports that read differently, ``blaming`` those of them that blame the
    address for the first time.
    """
    parameters = {
        "ids": list(ids),
        "changed": list(changed),
        "blaming": list(blaming),
        "operator_action_id": operator_action_id,
        "now": now,
    }
    with connection.cursor(row_factory=scalar_row) as cursor:
        (moved,) = cursor.execute(REJUDGE, parameters).fetchall()
    return moved
