"""What a sender reads before an attempt, and the two ends that need no attempt at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core.states import MAX_STARTS
from functions.store.connection import Database
from functions.store.lock import lock_notifications


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A notification as its sender loads it; ``token`` is the id its attempt will carry."""

    id: UUID
    organization_id: UUID
    lease_number: int
    status: str
    channel: str
    recipient: str | None
    """The address: given, or chosen when it was claimed and still behind its reference."""
    recipient_id: str | None
    content: str
    """JSON as text: what one row's content does to its reader shall not touch its neighbours."""
    template_name: str | None
    template_version: int | None
    locale: str | None
    priority: str
    category: str
    stream: str
    country: str | None
    origin: str | None
    address_hash: bytes
    created_at: datetime
    erased_at: datetime | None
    expires_at: datetime | None
    remaining_seconds: float | None
    """Until ``expires_at``, by the database's clock."""
    key_epoch: int
    token: UUID
    provider: str
    """Whom to call: whoever an attempt is in doubt with, if the channel still has them; else the
    second one where it takes what it is given, and it was passed on to it or the breaker of the
    first is open (the oldest of a set finds out when it is time); else the channel's own."""
    provider_url: str | None
    sender_identity: str | None
    configuration_set: str | None
    sender_settings: dict[str, Any]
    """Read with the provider they are for: a change is taken up whole, or not at all."""
    is_first: bool
    """Nothing was attempted yet."""
    may_probe: bool
    """A breaker or an endpoint that concerns it is open, and the time to find out has come."""
    endpoint_fails: bool
    """The last that was heard of its endpoint was a failure."""
    may_pass_on: bool
    """The channel has a second provider, and as far as is known that one takes what it is given."""

    @property
    def is_out_of_reach(self) -> bool:
        """There is nothing to call a provider with any more, and nothing wrong with that: it was
        erased, or what is behind its reference has changed since it was claimed."""
        is_gone = self.recipient_id is not None and self.recipient is None
        return self.erased_at is not None or is_gone

    @property
    def idempotency_key(self) -> str:
        """The key the provider sees: the same for every attempt of one epoch."""
        return f"{self.id}.{self.key_epoch}" if self.key_epoch else str(self.id)


# The address is looked for among those of its recipient, which are few; by the index of addresses
# it would be among all who share it. OFFSET keeps the planner from that.
LOAD = """
    SELECT n.id, n.organization_id, n.lease_number, n.status, n.channel,
           coalesce(n.recipient,
                    (SELECT p.address
                       FROM (SELECT address, address_hash
                               FROM contact_points
                              WHERE organization_id = n.organization_id
                                AND recipient_id = n.recipient_id AND channel = n.channel
                             OFFSET 0) p
                      WHERE p.address_hash = n.contact_hash)) AS recipient, n.recipient_id,
           n.content::text AS content, n.template_name, n.template_version, n.locale,
           n.priority, n.category, n.stream, n.country, n.origin,
           n.address_hash, n.created_at, n.erased_at, n.expires_at,
           extract(epoch FROM n.expires_at - t.at)::float8 AS remaining_seconds,
           n.key_epoch, uuidv7() AS token, chosen.provider,
           CASE chosen.provider WHEN c.provider THEN c.provider_url
                                ELSE c.fallback_provider_url END AS provider_url,
           s.sender_identity, s.configuration_set, s.settings AS sender_settings,
           n.attempts_spent = 0 AND n.in_doubt = 0 AS is_first,
           EXISTS (SELECT FROM breakers b
                    WHERE b.channel = n.channel AND b.probe_at <= t.at
                      AND b.key = CASE b.scope WHEN 'provider' THEN b.key
                                               WHEN 'sender_identity' THEN n.stream
                                               ELSE n.country END)
           OR coalesce(e.probe_at <= t.at, false) AS may_probe,
           coalesce(e.failures > 0 OR e.paused_at IS NOT NULL, false) AS endpoint_fails,
           c.fallback_provider IS NOT NULL AND NOT own.other_is_open AS may_pass_on
      FROM (SELECT *, row_number() OVER (
                        ORDER BY next_provider IS NOT NULL, available_at, id) AS place
              FROM notifications
             WHERE id = ANY(%(ids)b::uuid[])) n
      JOIN channels c ON c.name = n.channel
     CROSS JOIN (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
     CROSS JOIN LATERAL (
           SELECT coalesce(bool_or(b.provider = c.provider), false) AS is_open,
                  coalesce(bool_and(b.probe_at <= t.at) FILTER (WHERE b.provider = c.provider),
                           false) AS is_due,
                  coalesce(bool_or(b.provider = c.fallback_provider), false) AS other_is_open
             FROM breakers b
            WHERE b.channel = c.name AND b.opened_at IS NOT NULL
              AND b.key = CASE b.scope WHEN 'provider' THEN b.key
                                       WHEN 'sender_identity' THEN n.stream
                                       ELSE n.country END) own
     CROSS JOIN LATERAL (
           SELECT CASE WHEN n.in_doubt > 0 AND n.provider IN (c.provider, c.fallback_provider)
                       THEN n.provider
                       WHEN c.fallback_provider IS NULL OR own.other_is_open THEN c.provider
                       WHEN n.next_provider = c.fallback_provider THEN c.fallback_provider
                       WHEN own.is_open AND NOT (own.is_due AND n.place = 1)
                       THEN c.fallback_provider
                       ELSE c.provider END AS provider) chosen
      JOIN streams s ON s.channel = n.channel AND s.name = n.stream
      LEFT JOIN endpoints e ON e.organization_id = n.organization_id AND e.origin = n.origin
"""


def load(
    database: Database, ids: Sequence[UUID], *, now: datetime | None = None
) -> dict[UUID, Delivery]:
    """Return what is known of ``ids``, each with a fresh token; unknown ids are absent."""

    def read(connection: psycopg.Connection) -> dict[UUID, Delivery]:
        with connection.cursor(row_factory=class_row(Delivery)) as cursor:
            return {row.id: row for row in cursor.execute(LOAD, {"ids": list(ids), "now": now})}

    return database.run(read)


# Counted although the lease may be stale: what kills its handler kills it under any lease. An
# attempt that a killed handler left open keeps its lease, so that the sweep closes it as unknown.
# `counted` is what the count came to when this very start was recorded before, and the answer to
# its COMMIT was lost: then it stands there already.
RECORD_STARTS = """
    WITH started AS (
        UPDATE notifications n
           SET starts = n.starts + 1,
               status = CASE WHEN n.starts + 1 >= %(limit)s THEN 'dead' ELSE n.status END,
               reason = CASE WHEN n.starts + 1 >= %(limit)s THEN 'crash_loop' ELSE n.reason END,
               lease_until = CASE WHEN n.starts + 1 >= %(limit)s AND n.attempt_id IS NULL
                                  THEN NULL ELSE n.lease_until END,
               updated_at = t.at
          FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t,
               unnest(%(ids)b::uuid[], %(counted)b::int4[]) AS c (id, counted)
         WHERE n.id = ANY(%(ids)b::uuid[]) AND n.id = c.id AND n.status IN ('pending', 'leased')
           AND (c.counted = 0 OR n.starts < c.counted)
        RETURNING n.id, n.organization_id, OLD.status AS from_status, NEW.status AS to_status,
                  n.lease_number, n.starts, t.at
    ),
    logged AS (
        INSERT INTO transitions
               (notification_id, organization_id, at, actor, from_status, to_status, reason,
                lease_number)
        SELECT id, organization_id, at, 'sender', from_status, to_status, 'crash_loop',
               lease_number
          FROM started
         WHERE to_status = 'dead'
    )
    SELECT id, starts FROM started
"""


def record_starts(
    database: Database, ids: Sequence[UUID], *, now: datetime | None = None
) -> set[UUID]:
    """Count a handler start on each of ``ids``, until ``finish_starts`` or the close takes it back;
    return those for which that was one too many: they are held as a crash loop now."""
    counts: dict[UUID, int] = dict.fromkeys(ids, 0)

    def count(connection: psycopg.Connection) -> set[UUID]:
        parameters = {
            "ids": list(counts),
            "counted": list(counts.values()),
            "limit": MAX_STARTS,
            "now": now,
        }
        lock_notifications(connection, list(counts))
        with connection.cursor() as cursor:
            counts.update(cursor.execute(RECORD_STARTS, parameters).fetchall())
        return {id for id, starts in counts.items() if starts >= MAX_STARTS}

    return database.run(count) if counts else set()


FINISH_STARTS = """
    UPDATE notifications n
       SET starts = greatest(n.starts - f.number, 0)
      FROM (SELECT id, count(*)::int AS number FROM unnest(%(ids)b::uuid[]) AS e (id) GROUP BY id) f
     WHERE n.id = ANY(%(ids)b::uuid[]) AND n.id = f.id
       AND n.starts > 0 AND n.status IN ('pending', 'leased', 'uncertain')
"""


def finish_starts(database: Database, ids: Sequence[UUID]) -> None:
    """Take back one start for each time that ``ids`` name a notification: it came to its end,
    whatever that was. Repeated after a lost COMMIT it takes back one more, which errs on the side
    of trying again."""

    def finish(connection: psycopg.Connection) -> None:
        lock_notifications(connection, ids)
        connection.execute(FINISH_STARTS, {"ids": list(ids)})

    database.run(finish, pipelined=True)


HOLD_UNREADABLE = """
    WITH held AS (
        UPDATE notifications n
           SET status = 'dead', reason = 'unreadable', lease_until = NULL, updated_at = t.at
          FROM unnest(%(ids)b::uuid[], %(leases)b::int4[]) AS m (id, lease_number)
         CROSS JOIN (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE n.id = m.id AND n.lease_number = m.lease_number
           AND n.status = 'leased' AND n.attempt_id IS NULL
        RETURNING n.id, n.organization_id, n.lease_number, t.at
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason,
            lease_number)
    SELECT id, organization_id, at, 'sender', 'leased', 'dead', 'unreadable', lease_number
      FROM held
"""


def hold_unreadable(
    database: Database, leases: Sequence[tuple[UUID, int]], *, now: datetime | None = None
) -> None:
    """Hold the notifications (id, lease number) whose content no provider call can be made of."""
    if not leases:
        return
    ids = [id for id, _ in leases]
    parameters = {"ids": ids, "leases": [number for _, number in leases], "now": now}

    def hold(connection: psycopg.Connection) -> None:
        lock_notifications(connection, ids)
        connection.execute(HOLD_UNREADABLE, parameters)

    database.run(hold, pipelined=True)
