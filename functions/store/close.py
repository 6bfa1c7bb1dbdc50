"""Close: record what each attempt came to, and move its notification, in one statement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core.declaration import Declaration
from functions.core.outcome import Accepted, Outcome, Refused
from functions.store.channel import ChannelRow
from functions.store.connection import Database
from functions.store.lock import lock_notifications


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """An attempt and what it came to; ``again_seconds`` is the wait before the next, if any."""

    id: UUID
    lease_number: int
    token: UUID
    outcome: Outcome
    again_seconds: float | None
    ago_seconds: float = 0.0
    """How long before the close the call ended: its set waits for the slowest."""
    next_provider: str | None = None
    """Another provider that may be asked, since this one provably did not take it: due with that
    one at once, unspent; unless an earlier attempt is in doubt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """Where the notification is now; ``status`` is None when the write was fenced off: another
    lease has the row, or none, and the outcome proves nothing. The ledger has it all the same."""

    id: UUID
    status: str | None
    after_zero_submissions: bool = False
    """Proof of acceptance for a row that we ended as never submitted: a defect signal."""


# ledger:  the attempt's own row, kept whoever holds the notification now. An outcome is taken only
#          where there was none, a known one where there was an unknown one, and an acceptance where
#          somebody had concluded that there was none, or a report had told of it first: so a
#          repeated close writes nothing. What a report has told of is not unknown. `doubt` is -1,
#          0 or +1.
# judged:  what the outcome means for the locked row. `mine`: the open one, or the last in doubt.
#          `better`: acceptance is evidence and needs no lease (rank first, then the earlier).
#          `due_at`: what spends no attempt waits again for about as long as it has waited so far.
#          `undecided`: neither evidence nor a hold has decided the row meanwhile. What we ended
#          ourselves keeps its status; evidence against that is kept and counted.
# moved:   one attempt moves the row only while it is its own, or by proof, or by doubt resolved.
# The answer joins none of these: without statistics each row would be compared with each.
CLOSE = """
    WITH outcome AS MATERIALIZED (
        SELECT *
          FROM unnest(%(ids)b::uuid[], %(leases)b::int4[], %(tokens)b::uuid[],
                      %(outcomes)b::text[], %(ranks)b::int2[], %(references)b::text[],
                      %(agains)b::float8[], %(spends)b::boolean[], %(http_statuses)b::int4[],
                      %(codes)b::text[], %(details)b::text[], %(retry_afters)b::int4[],
                      %(agos)b::float8[], %(scopes)b::text[], %(next_providers)b::text[],
                      %(reasons)b::text[], %(sources)b::text[])
               AS o (id, lease_number, token, outcome, rank, reference, again_seconds, spend,
                     http_status, code, detail, retry_after_seconds, ago, scope, next_provider,
                     suppress_reason, suppress_source)
    ),
    instant AS MATERIALIZED (SELECT coalesce(%(now)s, clock_timestamp()) AS at),
    ledger AS (
        UPDATE attempts a
           SET outcome = CASE WHEN o.outcome = 'unknown' AND EXISTS (
                                   SELECT FROM receipts r
                                    WHERE r.notification_id = a.notification_id
                                      AND r.attempt_id = a.id AND r.applied
                                      AND r.evidence_rank > 0)
                              THEN 'accepted' ELSE o.outcome END,
               (reference, code, detail) = (
                   SELECT w.* FROM unless_erased(o.id, o.reference, o.code, o.detail) w),
               http_status = o.http_status, retry_after_seconds = o.retry_after_seconds,
               scope = o.scope, evidence_rank = o.rank, finished_at = coalesce(
                   a.finished_at, greatest(a.started_at, t.at - o.ago * interval '1 second'))
          FROM outcome o CROSS JOIN instant t
         WHERE a.notification_id = ANY(%(ids)b::uuid[])
           AND a.notification_id = o.id AND a.lease_number = o.lease_number AND a.id = o.token
           AND (a.outcome IS NULL OR a.outcome = 'unknown' AND o.outcome <> 'unknown'
                OR o.outcome = 'accepted' AND (a.outcome <> 'accepted' OR a.evidence_rank = 0))
        RETURNING a.notification_id, NEW.finished_at,
                  (NEW.outcome = 'unknown')::int - (OLD.outcome IS NOT DISTINCT FROM 'unknown')::int
                  AS doubt
    ),
    judged AS MATERIALIZED (
        SELECT o.*, l.doubt, l.finished_at, t.at,
               coalesce(n.attempt_id = o.token, false)
               OR n.status = 'uncertain' AND n.in_doubt + l.doubt = 0 AS mine,
               coalesce(n.attempt_id = o.token, false) AS own,
               CASE WHEN n.evidence_rank = 0 OR o.rank = 0 THEN o.rank > n.evidence_rank
                    ELSE (o.rank, n.evidence_at, n.evidence_key)
                       > (n.evidence_rank, l.finished_at, o.token::text) END AS better,
               n.evidence_rank = 0 AND n.status IN ('leased', 'uncertain') AS undecided,
               n.status IN ('cancelled', 'suppressed') AS ended_by_us,
               n.in_doubt + l.doubt > 0 AS doubtful,
               pass.is_on AS passed_on,
               o.spend AND n.attempts_spent >= n.max_attempts AND NOT pass.is_on AS spent,
               n.evidence_rank = 0 AND n.status IN ('leased', 'uncertain')
               AND o.outcome = 'unknown' AND NOT %(keyed)s AS uncertain,
               t.at + CASE WHEN n.attempt_id = o.token AND NOT pass.is_on
                           THEN greatest(
                                coalesce(o.again_seconds, 0),
                                CASE WHEN o.outcome IN ('throttled', 'blocked')
                                      AND n.waiting_since IS NOT NULL
                                     THEN least(extract(epoch FROM t.at - n.waiting_since),
                                                %(longest_wait_seconds)s)
                                          * (0.5 + 0.5 * random()) END)
                           ELSE 0 END
               * interval '1 second' AS due_at,
               CASE WHEN n.attempt_id = o.token
                    THEN CASE WHEN o.next_provider IS NOT NULL THEN n.waiting_since
                              WHEN o.outcome IN ('throttled', 'blocked')
                              THEN coalesce(n.waiting_since, t.at) END END AS waiting_since,
               n.expires_at
          FROM outcome o
          JOIN ledger l ON l.notification_id = o.id
          JOIN notifications n ON n.id = o.id
         CROSS JOIN instant t
         CROSS JOIN LATERAL (
               SELECT o.next_provider IS NOT NULL AND n.in_doubt + l.doubt = 0) pass (is_on)
    ),
    verdict AS MATERIALIZED (
        SELECT j.*,
               CASE WHEN j.ended_by_us THEN NULL                              -- stays as it is
                    WHEN j.better
                    THEN CASE WHEN j.rank = 3 THEN 'delivered'
                              WHEN %(receipts)s THEN 'submitted' ELSE 'unconfirmed' END
                    WHEN NOT (j.mine AND j.undecided) THEN NULL
                    WHEN j.outcome = 'refused' AND j.own
                    THEN CASE WHEN j.doubtful THEN 'unconfirmed' ELSE 'suppressed' END
                    WHEN j.uncertain THEN 'uncertain'
                    WHEN j.outcome = 'rejected' AND j.own OR j.spent THEN 'dead'
                    WHEN j.waiting_since
                         <= j.at - %(waiting_limit_seconds)s * interval '1 second' THEN 'dead'
                    WHEN j.due_at >= j.expires_at
                    THEN CASE WHEN j.doubtful THEN 'unconfirmed' ELSE 'expired' END
                    ELSE 'pending' END AS status,
               CASE WHEN j.better AND j.rank < 3 AND NOT %(receipts)s
                    THEN 'provider_gives_no_receipts'
                    WHEN j.better OR NOT (j.mine AND j.undecided) OR j.uncertain THEN NULL
                    WHEN j.outcome = 'refused' AND j.own THEN 'refused'
                    WHEN j.outcome = 'rejected' AND j.own
                    THEN CASE WHEN j.doubtful AND (NOT %(keyed)s OR EXISTS (
                                   SELECT FROM attempts other
                                    WHERE other.notification_id = j.id
                                      AND other.outcome = 'unknown'
                                      AND other.provider <> %(provider)s))
                              THEN 'outcome_unknown' ELSE 'rejected' END
                    WHEN j.spent
                    THEN CASE WHEN j.doubtful THEN 'outcome_unknown' ELSE 'budget_spent' END
                    WHEN j.waiting_since
                         <= j.at - %(waiting_limit_seconds)s * interval '1 second'
                    THEN 'waited_too_long'
                    WHEN j.due_at >= j.expires_at THEN 'expired' END AS reason
          FROM judged j
    ),
    moved AS (
        UPDATE notifications n
           SET status = coalesce(v.status, n.status),
               reason = CASE WHEN v.status IS NULL THEN n.reason ELSE v.reason END,
               in_doubt = n.in_doubt + v.doubt,
               evidence_rank = CASE WHEN v.better THEN v.rank ELSE n.evidence_rank END,
               evidence_at = CASE WHEN v.better THEN v.finished_at ELSE n.evidence_at END,
               evidence_key = CASE WHEN v.better THEN v.token::text ELSE n.evidence_key END,
               submitted_at = CASE WHEN v.rank > 0 THEN least(n.submitted_at, v.finished_at)
                                   ELSE n.submitted_at END,
               next_check_at = CASE v.status
                    WHEN 'submitted' THEN v.at
                         + least(%(check_seconds)s, %(cutoff_seconds)s) * interval '1 second'
                    WHEN 'uncertain' THEN v.at + least(
                         %(grace_seconds)s, CASE WHEN %(looks_up)s THEN %(check_seconds)s END
                         ) * interval '1 second'
                    ELSE n.next_check_at END,
               checks = CASE WHEN v.status = 'submitted' THEN 0 ELSE n.checks END,
               decide_at = CASE WHEN v.status = 'uncertain'
                                THEN v.at + %(grace_seconds)s * interval '1 second'
                                WHEN v.status IS NULL THEN n.decide_at END,
               -- kept while uncertain: a late known outcome settles it
               attempt_id = CASE WHEN v.mine AND NOT v.uncertain
                                   OR v.better AND n.status = 'uncertain' THEN NULL
                                 ELSE n.attempt_id END,
               lease_until = CASE WHEN v.mine OR n.attempt_id IS NULL AND v.better
                                  THEN NULL ELSE n.lease_until END,
               attempts_spent = n.attempts_spent
                                - (v.own AND (NOT v.spend OR v.passed_on))::int,
               next_provider = CASE WHEN v.own AND v.passed_on AND v.status = 'pending'
                                    THEN v.next_provider
                                    WHEN v.mine THEN NULL ELSE n.next_provider END,
               starts = CASE WHEN v.mine THEN 0 ELSE n.starts END,
               waiting_since = CASE WHEN v.own THEN v.waiting_since
                                    WHEN v.mine THEN NULL ELSE n.waiting_since END,
               ready = CASE WHEN v.status = 'pending' THEN v.due_at <= v.at ELSE n.ready END,
               available_at = CASE WHEN v.status = 'pending' THEN v.due_at
                                   ELSE n.available_at END,
               discarded_at = CASE WHEN v.status IS NULL THEN n.discarded_at END,
               final_at = CASE WHEN v.status IS NULL THEN n.final_at
                               WHEN v.status IN ('delivered', 'suppressed', 'unconfirmed',
                                                 'expired') THEN v.at END,
               updated_at = v.at
          FROM verdict v
         WHERE n.id = v.id
           AND (v.mine OR v.better OR v.doubt <> 0)
        RETURNING n.id, n.organization_id, OLD.status AS from_status, NEW.status AS to_status,
                  NEW.reason, v.outcome, v.lease_number, v.token, v.mine, v.better, v.at,
                  v.better AND v.ended_by_us AS after_zero_submissions
    ),
    logged AS (
        INSERT INTO transitions
               (notification_id, organization_id, at, actor, from_status, to_status, reason,
                lease_number, attempt_id)
        SELECT id, organization_id, at, 'sender', from_status, to_status,
               coalesce(reason, outcome), lease_number, token
          FROM moved
         WHERE from_status <> to_status
    ),
    refused AS (
        INSERT INTO suppressions (organization_id, channel, recipient_hash, recipient, kind,
                                  reason, source, source_at, evidence)
        SELECT n.organization_id, n.channel, n.address_hash, n.recipient, 'suppress',
               v.suppress_reason, v.suppress_source, v.at, jsonb_build_object('attempt_id', v.token,
               'notification_id', n.id, 'code', CASE WHEN n.erased_at IS NULL THEN v.code END)
          FROM verdict v
          JOIN notifications n ON n.id = v.id
         WHERE v.outcome = 'refused'
    )
    SELECT id, to_status AS status, after_zero_submissions FROM moved WHERE mine OR better
    UNION ALL
    SELECT id, NULL, false FROM verdict WHERE NOT (mine OR better)
"""


def close(
    database: Database,
    closings: Sequence[Closing],
    *,
    channel: ChannelRow,
    declaration: Declaration,
    now: datetime | None = None,
) -> dict[UUID, Closed]:
    """Record the outcomes and move the notifications they still move, in one transaction.

    ``declaration`` is the called provider's: one that honours our key may be tried again under it
    after an unknown outcome, and one that gives no receipts leaves nothing to wait for.
    """
    ids = [closing.id for closing in closings]
    parameters = _columns_of(closings) | {
        "ids": ids,
        "provider": declaration.name,
        "keyed": declaration.keyed,
        "receipts": declaration.receipts,
        "looks_up": declaration.looks_up,
        "waiting_limit_seconds": channel.waiting_limit_seconds,
        "longest_wait_seconds": channel.backoff_cap_seconds,
        "check_seconds": channel.check_base_seconds,
        "cutoff_seconds": channel.cutoff_seconds,
        "grace_seconds": channel.grace_seconds,
        "now": now,
    }

    def close_attempts(connection: psycopg.Connection) -> dict[UUID, Closed]:
        lock_notifications(connection, ids)
        with connection.cursor(row_factory=class_row(Closed), binary=True) as cursor:
            closed = {row.id: row for row in cursor.execute(CLOSE, parameters)}
        if len(closed) < len(ids):
            closed = _closed_before(connection, parameters) | closed
        return {id: closed.get(id) or Closed(id=id, status=None) for id in ids}

    return database.run(close_attempts, pipelined=True)


def _columns_of(closings: Sequence[Closing]) -> dict[str, Any]:
    """Return the closings column by column; a column of seconds is of one type throughout."""
    outcomes = [closing.outcome for closing in closings]
    return {
        "leases": [closing.lease_number for closing in closings],
        "tokens": [closing.token for closing in closings],
        "outcomes": [outcome.name for outcome in outcomes],
        "ranks": [outcome.rank for outcome in outcomes],
        "references": [
            outcome.reference if isinstance(outcome, Accepted) else None for outcome in outcomes
        ],
        "agains": [_seconds(closing.again_seconds) for closing in closings],
        "spends": [outcome.spends for outcome in outcomes],
        "http_statuses": [outcome.http_status for outcome in outcomes],
        "codes": [outcome.code for outcome in outcomes],
        "details": [outcome.detail for outcome in outcomes],
        "agos": [float(closing.ago_seconds) for closing in closings],
        "scopes": [outcome.reach for outcome in outcomes],
        "next_providers": [closing.next_provider for closing in closings],
        "reasons": [
            outcome.reason if isinstance(outcome, Refused) else None for outcome in outcomes
        ],
        "sources": [
            outcome.source if isinstance(outcome, Refused) else None for outcome in outcomes
        ],
        "retry_afters": [_seconds(outcome.retry_after_seconds) for outcome in outcomes],
    }


def _seconds(seconds: float | None) -> float | None:
    return None if seconds is None else float(seconds)


# Only after a repetition, the first of which found its COMMIT's answer lost.
CLOSED_BEFORE = """
    SELECT o.id, n.status
      FROM unnest(%(ids)b::uuid[], %(leases)b::int4[], %(tokens)b::uuid[], %(outcomes)b::text[])
           AS o (id, lease_number, token, outcome)
      JOIN attempts a
        ON a.notification_id = o.id AND a.lease_number = o.lease_number AND a.id = o.token
      JOIN notifications n ON n.id = o.id
     WHERE a.notification_id = ANY(%(ids)b::uuid[]) AND a.outcome = o.outcome
"""


def _closed_before(
    connection: psycopg.Connection, parameters: Mapping[str, Any]
) -> dict[UUID, Closed]:
    """Return where the notifications are whose attempts have the same outcome already."""
    with connection.cursor(row_factory=class_row(Closed), binary=True) as cursor:
        return {row.id: row for row in cursor.execute(CLOSED_BEFORE, parameters)}
