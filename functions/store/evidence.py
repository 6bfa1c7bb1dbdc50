"""Evidence: let the strongest of what receipts prove decide where a notification is."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    applied: int
    after_zero_submissions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A receipt that is kept now, and what it is about."""

    id: UUID
    notification_id: UUID | None


# fresh:   matched receipts not applied yet; one that names another recipient stays a note.
# best:    the strongest per notification: by rank, then the earlier, then the key.
# settled: a report about an attempt of unknown outcome, or of one concluded not to be accepted: it
#          was, whatever became of it then.
# judged:  refused by the provider's own list is no failure: suppressed. What a report suppressed
#          another may still decide, if it is earlier; what we ended ourselves none may. Only the
#          history tells the two apart: it is written under the row's lock, which is held here.
# moved:   rank ≥ 1 stops further attempts in every status. What we ended ourselves without any
#          submission keeps its status; that evidence is counted. An open attempt keeps its lease:
#          its own close, or the sweep, settles it.
APPLY = """
    WITH instant AS MATERIALIZED (SELECT coalesce(%(now)s, clock_timestamp()) AS at),
    fresh AS MATERIALIZED (
        SELECT r.*
          FROM receipts r
          JOIN notifications n ON n.id = r.notification_id
         WHERE r.id = ANY(%(ids)b::uuid[]) AND NOT r.applied
           AND (r.recipient_hash IS NULL OR r.recipient_hash = n.address_hash)
    ),
    best AS MATERIALIZED (
        SELECT DISTINCT ON (notification_id)
               notification_id, id, evidence_rank AS rank, occurred_at, event_key, type, reason,
               refused,
               bool_or(complaint) OVER (PARTITION BY notification_id) AS complaint
          FROM fresh
         ORDER BY notification_id, evidence_rank DESC, occurred_at, event_key
    ),
    settled AS (
        UPDATE attempts a
           SET outcome = 'accepted', reference = coalesce(a.reference, f.reference)
          FROM fresh f
         WHERE a.notification_id = f.notification_id AND a.id = f.attempt_id
           AND f.evidence_rank > 0
           AND (a.outcome = 'unknown' OR a.settled IS NOT NULL)
        RETURNING a.notification_id, (OLD.outcome = 'unknown')::int AS doubt
    ),
    judged AS MATERIALIZED (
        SELECT b.*, t.at,
               coalesce((SELECT sum(doubt) FROM settled s WHERE s.notification_id = n.id), 0)::int
               AS resolved,
               least(c.check_base_seconds, c.cutoff_seconds) AS check_seconds,
               CASE WHEN b.rank = 0 OR n.evidence_rank = 0 THEN b.rank > n.evidence_rank
                    ELSE (b.rank, n.evidence_at, n.evidence_key)
                       > (n.evidence_rank, b.occurred_at, b.event_key) END AS better,
               n.status = 'cancelled'
               OR n.status = 'suppressed' AND (
                  SELECT x.id FROM transitions x
                   WHERE x.notification_id = n.id AND x.to_status = 'suppressed'
                     AND x.receipt_id IS NOT NULL
                   LIMIT 1) IS NULL AS ended_by_us,  -- not EXISTS, which may read all of them
               CASE b.rank WHEN 1 THEN 'submitted' WHEN 2 THEN 'failed' WHEN 3 THEN 'delivered'
                           ELSE CASE WHEN b.refused THEN 'suppressed' ELSE 'failed' END
                           END AS proven
          FROM best b
          JOIN notifications n ON n.id = b.notification_id
          JOIN channels c ON c.name = n.channel
         CROSS JOIN instant t
    ),
    moved AS (
        UPDATE notifications n
           SET status = CASE WHEN j.better AND NOT j.ended_by_us THEN j.proven ELSE n.status END,
               reason = CASE WHEN NOT j.better OR j.ended_by_us THEN n.reason
                             WHEN j.rank IN (2, 4) THEN coalesce(j.reason, j.type) END,
               evidence_rank = CASE WHEN j.better THEN j.rank ELSE n.evidence_rank END,
               evidence_at = CASE WHEN j.better THEN j.occurred_at ELSE n.evidence_at END,
               evidence_key = CASE WHEN j.better THEN j.event_key ELSE n.evidence_key END,
               in_doubt = n.in_doubt - j.resolved,
               complained = n.complained OR j.complaint,
               -- what the cutoff counts from: never the future of a provider's clock
               submitted_at = CASE WHEN j.better THEN least(n.submitted_at, j.occurred_at, j.at)
                                   ELSE n.submitted_at END,
               next_check_at = CASE WHEN j.better AND j.rank = 1 AND n.status <> 'submitted'
                                    THEN j.at + j.check_seconds * interval '1 second'
                                    ELSE n.next_check_at END,
               attempt_id = CASE WHEN j.better AND n.status = 'uncertain' THEN NULL
                                 ELSE n.attempt_id END,
               checks = CASE WHEN j.better AND j.rank = 1 AND n.status <> 'submitted' THEN 0
                             ELSE n.checks END,
               decide_at = CASE WHEN NOT j.better THEN n.decide_at END,
               lease_until = CASE WHEN j.better AND n.attempt_id IS NULL THEN NULL
                                  ELSE n.lease_until END,
               discarded_at = CASE WHEN NOT j.better OR j.ended_by_us THEN n.discarded_at END,
               final_at = CASE WHEN NOT j.better OR j.ended_by_us THEN n.final_at
                               WHEN j.rank > 1 THEN j.at END,
               told_status = NULL, -- a parent is to hear of it, also where the status stays
               updated_at = j.at
          FROM judged j
         WHERE n.id = j.notification_id
           AND (j.better OR j.complaint AND NOT n.complained OR j.resolved > 0)
        RETURNING n.id, n.organization_id, OLD.status AS from_status, NEW.status AS to_status,
                  NEW.reason, j.id AS receipt_id, j.at,
                  j.better AND j.ended_by_us AS after_zero_submissions
    ),
    logged AS (
        INSERT INTO transitions
               (notification_id, organization_id, at, actor, from_status, to_status, reason,
                receipt_id, operator_action_id)
        SELECT id, organization_id, at, %(actor)s, from_status, to_status,
               coalesce(%(reason)s, reason), receipt_id, %(operator_action_id)s
          FROM moved
         WHERE from_status <> to_status
    ),
    suppressed AS (
        INSERT INTO suppressions (organization_id, channel, recipient_hash, recipient, kind,
                                  reason, source, source_at, evidence)
        SELECT n.organization_id, n.channel, n.address_hash, n.recipient, 'suppress',
               coalesce(f.fact ->> 'reason',
                        CASE WHEN f.complaint THEN 'complaint' ELSE 'hard_bounce' END),
               coalesce(f.fact ->> 'source', f.provider || ':event'), f.occurred_at,
               coalesce(f.fact -> 'evidence', '{}')
               || jsonb_build_object('receipt_id', f.id, 'notification_id', n.id, 'type', f.type)
          FROM fresh f
          JOIN notifications n ON n.id = f.notification_id
         WHERE f.address_at_fault OR f.refused
    ),
    marked AS (
        UPDATE receipts r SET applied = true FROM fresh f WHERE r.id = f.id RETURNING r.id
    )
    SELECT (SELECT count(*) FROM marked)::int AS applied,
           (SELECT count(*) FROM moved WHERE after_zero_submissions)::int AS after_zero_submissions
"""


# The lock of lock.py, which every writer of a set takes first; and which of the rows were erased,
# as they are now that nobody else can move them.
LOCK_AND_TELL_ERASED = """
    SELECT id, erased_at IS NOT NULL
      FROM notifications
     WHERE id = ANY(%(ids)b::uuid[])
     ORDER BY id
       FOR UPDATE
"""

# What was erased stays so: a report that comes after it leaves no address either.
ERASE_LATE = "SELECT erase_late_receipts(%(receipts)b::uuid[])"


def apply(
    connection: psycopg.Connection,
    stored: Sequence[Stored],
    *,
    actor: str = "provider",
    reason: str | None = None,
    operator_action_id: UUID | None = None,
    now: datetime | None = None,
) -> Applied:
    """Let the strongest of what ``stored`` proves decide, as part of the caller's transaction."""
    matched = [row for row in stored if row.notification_id is not None]
    nothing = Applied(applied=0, after_zero_submissions=0)
    if not matched:
        return nothing
    about = {"ids": [row.notification_id for row in matched]}
    erased = {id for id, erased in connection.execute(LOCK_AND_TELL_ERASED, about) if erased}
    if late := [row.id for row in matched if row.notification_id in erased]:
        connection.execute(ERASE_LATE, {"receipts": late})
    parameters = {
        "ids": [row.id for row in matched],
        "actor": actor,
        "reason": reason,
        "operator_action_id": operator_action_id,
        "now": now,
    }
    with connection.cursor(row_factory=class_row(Applied)) as cursor:
        return cursor.execute(APPLY, parameters).fetchone() or nothing
