"""The claim: lease fair pages, store what was decided against, release what was not queued.

Nothing here waits for a row that another transaction holds: locked rows are passed over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from functions.core.policy import POLICY_VERSION, Defer, Suppress, Verdict
from functions.core.states import Stream
from functions.store.connection import Database

NO_ORGANIZATION = UUID(int=0)
"""The cursor before the first organization."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A notification under a fresh lease, with what is read of it to decide whether it goes on."""

    id: UUID
    organization_id: UUID
    lease_number: int
    channel: str
    stream: str
    priority: str
    category: str
    country: str | None
    origin: str | None
    address_hash: bytes
    attempts_spent: int
    in_doubt: int
    now: datetime
    recipient_id: str | None = None
    """Of a recipient by reference: the policy chooses an address behind it."""
    expires_at: datetime | None = None
    contact_hash: bytes | None = None
    """Of the address that was chosen last, and ``locale`` with it."""
    locale: str | None = None
    had_attempt: bool = False
    """Something may have been made of it already: a further attempt says the same words."""
    is_erased: bool = False
    decision: str | None = None
    """What this claim's verdict was decided from, as JSON."""

    @property
    def is_first(self) -> bool:
        """Nothing was attempted yet, or nothing that counts."""
        return self.attempts_spent == 0 and self.in_doubt == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What one turn of the organizations gave."""

    leased: list[Leased]
    cursor: UUID
    """The organization that was served last, or had its turn in vain: the next page begins after
    it. A hint only: to lose it costs turns."""
    more: bool
    """Another page may find something: an organization gave all it was asked for, or there were
    more organizations than places."""


# turn, again: the organizations with something ready, one index descent each, from the cursor on
#              and around; at most a page of them.
# share:       rows per organization, so that they take turns; a short page is filled by the next.
# due:         the rows, oldest first within each organization; locked ones belong to somebody else.
#              Materialized and made an array: it runs once, whatever the plan, and its LIMIT holds.
# leased:      stores `allow` as well, the verdict of all that goes on to the queue; a row that the
#              policy decides otherwise is corrected before anything is queued. That saves a write
#              per notification.
LEASE_PAGE = """
    WITH RECURSIVE turn (organization_id, seat) AS (
        (SELECT organization_id, 1
           FROM notifications
          WHERE channel = %(channel)s AND stream = %(stream)s AND priority = %(priority)s
            AND status = 'pending' AND ready AND organization_id > %(after)s
          ORDER BY organization_id LIMIT 1)
        UNION ALL
        (SELECT next.organization_id, turn.seat + 1
           FROM turn
          CROSS JOIN LATERAL (
                SELECT organization_id
                  FROM notifications
                 WHERE channel = %(channel)s AND stream = %(stream)s
                   AND priority = %(priority)s AND status = 'pending' AND ready
                   AND organization_id > turn.organization_id
                 ORDER BY organization_id LIMIT 1) next
          WHERE turn.seat < %(page)s)
    ),
    again (organization_id, seat) AS (
        (SELECT organization_id, (SELECT count(*) FROM turn)::int + 1
           FROM notifications
          WHERE channel = %(channel)s AND stream = %(stream)s AND priority = %(priority)s
            AND status = 'pending' AND ready AND organization_id <= %(after)s
            AND (SELECT count(*) FROM turn) < %(page)s
          ORDER BY organization_id LIMIT 1)
        UNION ALL
        (SELECT next.organization_id, again.seat + 1
           FROM again
          CROSS JOIN LATERAL (
                SELECT organization_id
                  FROM notifications
                 WHERE channel = %(channel)s AND stream = %(stream)s
                   AND priority = %(priority)s AND status = 'pending' AND ready
                   AND organization_id > again.organization_id AND organization_id <= %(after)s
                 ORDER BY organization_id LIMIT 1) next
          WHERE again.seat < %(page)s)
    ),
    organization AS MATERIALIZED (
        SELECT organization_id, seat FROM turn UNION ALL SELECT organization_id, seat FROM again
    ),
    share AS (
        SELECT ceil(%(page)s::numeric / greatest(count(*), 1))::int AS size FROM organization
    ),
    due AS MATERIALIZED (
        SELECT row.id, row.place, organization.organization_id, organization.seat
          FROM organization
         CROSS JOIN share
         CROSS JOIN LATERAL (
               SELECT id, row_number() OVER (ORDER BY available_at, id) AS place
                 FROM (SELECT id, available_at
                         FROM notifications n
                        WHERE channel = %(channel)s AND stream = %(stream)s
                          AND priority = %(priority)s AND status = 'pending' AND ready
                          AND n.organization_id = organization.organization_id
                        ORDER BY available_at, id
                        LIMIT share.size
                          FOR UPDATE SKIP LOCKED) locked) row
         ORDER BY row.place, organization.seat
         LIMIT %(page)s
    ),
    leased AS (
        UPDATE notifications n
           SET status = 'leased', reason = NULL, lease_number = n.lease_number + 1,
               lease_until = t.at + %(lease_seconds)s * interval '1 second',
               leased_by = %(leased_by)s, verdict = 'allow', policy_version = %(policy_version)s,
               updated_at = t.at
          FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE n.id = ANY(ARRAY(SELECT id FROM due))
        RETURNING n.id, n.organization_id, n.lease_number, n.channel, n.stream, n.priority,
                  n.category, n.country, n.origin, n.address_hash, n.attempts_spent, n.in_doubt,
                  t.at AS now, n.recipient_id, n.expires_at, n.contact_hash, n.locale,
                  n.key_first_used_at IS NOT NULL AS had_attempt,
                  n.erased_at IS NOT NULL AS is_erased
    ),
    summary AS (
        SELECT coalesce(
                   (SELECT organization_id FROM due ORDER BY place DESC, seat DESC LIMIT 1),
                   (SELECT organization_id FROM organization ORDER BY seat DESC LIMIT 1),
                   %(after)s) AS cursor,
               (SELECT count(*) FROM organization) >= %(page)s
               OR coalesce((SELECT max(place) FROM due) = (SELECT size FROM share), false) AS more
    )
    SELECT summary.cursor, summary.more, leased.* FROM summary LEFT JOIN leased ON true
"""


def lease_page(
    database: Database,
    *,
    channel: str,
    stream: str = Stream.TRANSACTIONAL,
    priority: str,
    page: int,
    after: UUID,
    lease_seconds: float,
    leased_by: str,
    now: datetime | None = None,
) -> Page:
    """Lease at most ``page`` ready rows, organizations in turn after the cursor ``after``."""
    parameters = {
        "channel": channel,
        "stream": stream,
        "priority": priority,
        "page": page,
        "after": after,
        "lease_seconds": lease_seconds,
        "leased_by": leased_by,
        "policy_version": POLICY_VERSION,
        "now": now,
    }

    def lease(connection: psycopg.Connection) -> Page:
        with connection.cursor(row_factory=dict_row, binary=True) as cursor:
            rows = cursor.execute(LEASE_PAGE, parameters).fetchall()
        (cursor_after, more), *_ = [(row.pop("cursor"), row.pop("more")) for row in rows]
        leased = [Leased(**row) for row in rows if row["id"] is not None]
        return Page(leased=leased, cursor=cursor_after, more=more)

    return database.run(lease)


# Fenced by the lease, and only while no attempt is open. What is merely blocked goes on waiting in
# the eyes of whoever measures how long it takes: only the policy moves `eligible_at`. What it was
# decided from is kept beside the verdict, but for what was erased meanwhile.
RECORD_VERDICTS = """
    WITH decision AS MATERIALIZED (
        SELECT * FROM unnest(%(ids)b::uuid[], %(leases)b::int4[], %(verdicts)b::text[],
                             %(reasons)b::text[], %(untils)b::timestamptz[],
                             %(blocked)b::boolean[], %(inputs)b::text[])
                      AS d (id, lease_number, verdict, reason, until, blocked, inputs)
    ),
    decided AS (
        UPDATE notifications n
           SET verdict = d.verdict,
               status = CASE WHEN d.verdict = 'defer' THEN 'pending'
                             WHEN n.in_doubt > 0 THEN 'unconfirmed'
                             ELSE 'suppressed' END,
               reason = d.reason,
               ready = n.ready AND d.verdict <> 'defer',
               available_at = coalesce(d.until, n.available_at),
               eligible_at = CASE WHEN d.blocked THEN n.eligible_at
                                  ELSE coalesce(d.until, n.eligible_at) END,
               decision = CASE WHEN n.erased_at IS NULL THEN coalesce(d.inputs::jsonb, n.decision)
                               ELSE n.decision END,
               lease_until = NULL,
               final_at = CASE WHEN d.verdict = 'suppress' THEN t.at ELSE n.final_at END,
               updated_at = t.at
          FROM decision d
         CROSS JOIN (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE n.id = d.id
           AND n.id = ANY(ARRAY(
               SELECT id
                 FROM notifications
                WHERE id = ANY(%(ids)b::uuid[])
                  FOR UPDATE SKIP LOCKED))
           AND n.lease_number = d.lease_number AND n.status = 'leased' AND n.attempt_id IS NULL
        RETURNING n.id, n.organization_id, n.lease_number, n.status, n.reason, t.at, d.blocked
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason,
            lease_number)
    SELECT id, organization_id, at, CASE WHEN blocked THEN 'claim' ELSE 'policy' END,
           'leased', status, reason, lease_number
      FROM decided
"""


def record_verdicts(
    database: Database,
    verdicts: Sequence[tuple[Leased, Verdict]],
    *,
    now: datetime | None = None,
) -> None:
    """Store what was decided against: a deferred row waits until its time, a suppressed one ends.

    What is allowed was stored with its lease. A row that somebody else holds keeps its lease,
    unqueued: the sweep takes it back, and the next claim decides it again.
    """
    against = [(row, verdict) for row, verdict in verdicts if isinstance(verdict, Defer | Suppress)]
    if not against:
        return
    parameters = {
        "ids": [row.id for row, _ in against],
        "leases": [row.lease_number for row, _ in against],
        "verdicts": [verdict.name for _, verdict in against],
        "reasons": [verdict.reason for _, verdict in against],
        "untils": [verdict.until if isinstance(verdict, Defer) else None for _, verdict in against],
        "blocked": [isinstance(verdict, Defer) and verdict.blocked for _, verdict in against],
        "inputs": [row.decision for row, _ in against],
        "now": now,
    }
    database.run(lambda connection: connection.execute(RECORD_VERDICTS, parameters))


# A row that is held is being begun, cancelled or moved by evidence: its lease is no longer ours to
# give back, and the claim must not wait for it.
RELEASE = """
    WITH released AS (
        UPDATE notifications n
           SET status = 'pending', ready = true, lease_until = NULL, leased_by = NULL,
               updated_at = t.at
          FROM unnest(%(ids)b::uuid[], %(leases)b::int4[]) AS m (id, lease_number)
         CROSS JOIN (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE n.id = m.id
           AND n.id = ANY(ARRAY(
               SELECT id
                 FROM notifications
                WHERE id = ANY(%(ids)b::uuid[])
                  FOR UPDATE SKIP LOCKED))
           AND n.lease_number = m.lease_number AND n.status = 'leased' AND n.attempt_id IS NULL
        RETURNING n.id, n.organization_id, n.lease_number, t.at
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason,
            lease_number)
    SELECT id, organization_id, at, 'claim', 'leased', 'pending', 'not_dispatched', lease_number
      FROM released
"""


def release(
    database: Database, leases: Sequence[tuple[UUID, int]], *, now: datetime | None = None
) -> None:
    """Give back those of the leases (id, lease number) under which no attempt was opened."""
    if not leases:
        return
    parameters = {
        "ids": [id for id, _ in leases],
        "leases": [number for _, number in leases],
        "now": now,
    }
    database.run(lambda connection: connection.execute(RELEASE, parameters))
