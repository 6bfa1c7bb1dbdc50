"""Breakers: what is closed for now, who finds out, and what the answers said.

They are advice about whole groups of notifications, read by the claim and by begin. Nothing of them
is written while all goes well. Each writer takes the rows in the order of their keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row, scalar_row

from functions.core.breaker import (
    FAILURE_CODE,
    FAILURE_RATIO,
    LEAST_FAILURES,
    MAX_PROBE_SECONDS,
    PROBE_SECONDS,
    WINDOW_SECONDS,
    Answering,
    blocked_scope,
    is_failure,
    is_through,
)
from functions.core.outcome import Scope
from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBreaker:
    """A breaker that is open; ``is_due`` when the next notification may find out."""

    channel: str
    provider: str
    scope: str
    key: str
    opened_at: datetime
    code: str | None
    trips: int
    probe_at: datetime
    is_due: bool


OPEN_BREAKERS = """
    SELECT channel, provider, scope, key, opened_at, code, trips, probe_at,
           probe_at <= coalesce(%(now)s, clock_timestamp()) AS is_due
      FROM breakers
     WHERE opened_at IS NOT NULL
     ORDER BY channel, provider, scope, key
"""


def open_breakers(database: Database, *, now: datetime | None = None) -> list[OpenBreaker]:
    """Return every breaker that is open."""

    def read(connection: psycopg.Connection) -> list[OpenBreaker]:
        with connection.cursor(row_factory=class_row(OpenBreaker)) as cursor:
            return cursor.execute(OPEN_BREAKERS, {"now": now}).fetchall()

    return database.run(read)


# One notification per breaker or endpoint whose time has come: the oldest of the set. Who comes at
# the same time waits for the row, and finds its time moved.
GRANT_PROBES = """
    WITH instant AS MATERIALIZED (SELECT coalesce(%(now)s, clock_timestamp()) AS at),
    candidate AS MATERIALIZED (
        SELECT n.*
          FROM notifications n
          JOIN unnest(%(ids)b::uuid[], %(leases)b::int4[]) AS m (id, lease_number)
            ON m.id = n.id AND m.lease_number = n.lease_number
         WHERE n.id = ANY(%(ids)b::uuid[]) AND n.status = 'leased' AND n.attempt_id IS NULL
    ),
    breaker AS (
        UPDATE breakers b
           SET probe_id = c.id, probe_at = t.at + %(seconds)s * interval '1 second'
          FROM instant t,
               (SELECT DISTINCT ON (b.channel, b.scope, b.key) b.channel, b.scope, b.key, n.id
                  FROM candidate n
                  JOIN breakers b ON b.channel = n.channel AND b.provider = %(provider)s
                   AND b.opened_at IS NOT NULL
                   AND b.key = CASE b.scope WHEN 'provider' THEN %(provider)s
                                            WHEN 'sender_identity' THEN n.stream
                                            ELSE n.country END
                 ORDER BY b.channel, b.scope, b.key, n.available_at, n.id) c
         WHERE b.channel = c.channel AND b.provider = %(provider)s AND b.scope = c.scope
           AND b.key = c.key
           AND b.opened_at IS NOT NULL AND b.probe_at <= t.at
    )
    UPDATE endpoints e
       SET probe_id = c.id, probe_at = t.at + %(seconds)s * interval '1 second', updated_at = t.at
      FROM instant t,
           (SELECT DISTINCT ON (organization_id, origin) organization_id, origin, id
              FROM candidate
             WHERE origin IS NOT NULL
             ORDER BY organization_id, origin, available_at, id) c
     WHERE e.organization_id = c.organization_id AND e.origin = c.origin
       AND e.paused_at IS NOT NULL AND e.probe_at <= t.at
"""


def grant_probes(
    connection: psycopg.Connection,
    *,
    ids: Sequence[UUID],
    leases: Sequence[int],
    provider: str,
    seconds: float,
    now: datetime | None = None,
) -> None:
    """Let the oldest of the locked ``ids`` find out about each breaker and endpoint that is due.

    If nobody hears of it within ``seconds``, the next one finds out.
    """
    parameters = {
        "ids": list(ids),
        "leases": list(leases),
        "provider": provider,
        "seconds": seconds,
        "now": now,
    }
    connection.execute(GRANT_PROBES, parameters)


# trips: openings in a row. The answer of a probe counts; those of calls that were under way when
#        the breaker opened say what is known.
TRIP = """
    INSERT INTO breakers AS b (channel, provider, scope, key, opened_at, code, trips, probe_at)
    SELECT %(channel)s, %(provider)s, i.scope, i.key, t.at, i.code, 1,
           t.at + greatest(i.wait_seconds, %(probe_seconds)s) * interval '1 second'
      FROM unnest(%(scopes)b::text[], %(keys)b::text[], %(codes)b::text[], %(waits)b::float8[])
           AS i (scope, key, code, wait_seconds),
           (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
     ORDER BY i.scope, i.key
    ON CONFLICT (channel, provider, scope, key) DO UPDATE
       SET opened_at = coalesce(b.opened_at, EXCLUDED.opened_at),
           code = EXCLUDED.code,
           trips = CASE WHEN b.opened_at IS NULL THEN 1
                        ELSE b.trips
                             + coalesce(b.probe_id = ANY(%(ids)b::uuid[]), false)::int END,
           probe_at = CASE WHEN b.opened_at IS NULL THEN EXCLUDED.probe_at
                           WHEN b.probe_id = ANY(%(ids)b::uuid[])
                           THEN EXCLUDED.opened_at
                                + greatest(EXTRACT(epoch FROM EXCLUDED.probe_at
                                                             - EXCLUDED.opened_at),
                                           least(%(probe_seconds)s * 2 ^ least(b.trips, 30),
                                                 %(max_probe_seconds)s)) * interval '1 second'
                           ELSE b.probe_at END,
           probe_id = CASE WHEN b.probe_id = ANY(%(ids)b::uuid[]) THEN NULL ELSE b.probe_id END
"""

CLOSE = """
    UPDATE breakers
       SET opened_at = NULL, probe_at = NULL, probe_id = NULL, trips = 0, calls = 0, failures = 0
     WHERE channel = %(channel)s AND provider = %(provider)s
       AND opened_at IS NOT NULL AND probe_id = ANY(%(ids)b::uuid[])
"""

# The probe came to no answer: the next one comes later still.
PUT_OFF = """
    UPDATE breakers
       SET trips = trips + 1, probe_id = NULL,
           probe_at = coalesce(%(now)s, clock_timestamp())
                      + least(%(probe_seconds)s * 2 ^ least(trips, 30), %(max_probe_seconds)s)
                        * interval '1 second'
     WHERE channel = %(channel)s AND provider = %(provider)s
       AND opened_at IS NOT NULL AND probe_id = ANY(%(ids)b::uuid[])
"""

# Seldom, and about a handful of rows that several statements write in different orders.
LOCK_BREAKERS = "SELECT pg_advisory_xact_lock(hashtextextended('breakers|' || %(channel)s, 0))"

# The window begins anew when it is over; a breaker that is open counts nothing.
COUNT = """
    INSERT INTO breakers AS b (channel, provider, scope, key, window_at, calls, failures)
    SELECT %(channel)s, %(provider)s, 'provider', %(provider)s, t.at, %(calls)s, %(failures)s
      FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
    ON CONFLICT (channel, provider, scope, key) DO UPDATE
       SET window_at = CASE WHEN b.window_at + %(window_seconds)s * interval '1 second'
                                 <= EXCLUDED.window_at
                            THEN EXCLUDED.window_at ELSE b.window_at END,
           calls = EXCLUDED.calls
                   + CASE WHEN b.window_at + %(window_seconds)s * interval '1 second'
                               > EXCLUDED.window_at THEN b.calls ELSE 0 END,
           failures = EXCLUDED.failures
                      + CASE WHEN b.window_at + %(window_seconds)s * interval '1 second'
                                  > EXCLUDED.window_at THEN b.failures ELSE 0 END
     WHERE b.opened_at IS NULL
    RETURNING failures >= %(least_failures)s AND failures >= calls * %(ratio)s
"""


def record_answers(
    database: Database,
    answers: Sequence[Answering],
    *,
    channel: str,
    calls: int,
    failures: int,
    now: datetime | None = None,
) -> None:
    """Open and close breakers by what ``answers`` say.

    All ``answers`` are of one provider; ``calls`` and ``failures`` are of first attempts at it
    since this was last told of some.
    """
    tripped = _tripped(answers)
    provider = answers[0].provider
    through = [answer.id for answer in answers if is_through(answer.outcome)]
    in_vain = [answer.id for answer in answers if is_failure(answer.outcome)]
    shared = {
        "channel": channel,
        "provider": provider,
        "ids": [answer.id for answer in answers],
        "probe_seconds": PROBE_SECONDS,
        "max_probe_seconds": MAX_PROBE_SECONDS,
        "now": now,
    }

    def work(connection: psycopg.Connection) -> None:
        opened = dict(tripped)
        connection.execute(LOCK_BREAKERS, shared)
        if through:
            connection.execute(CLOSE, {**shared, "ids": through})
        if in_vain:
            connection.execute(PUT_OFF, {**shared, "ids": in_vain})
        if failures and _too_many(
            connection, channel, provider, calls=calls, failures=failures, now=now
        ):
            opened.setdefault((Scope.PROVIDER, provider), (FAILURE_CODE, 0.0))
        if opened:
            connection.execute(TRIP, {**shared, **_columns_of(opened)})

    database.run(work)


Tripped = dict[tuple[Scope, str], tuple[str | None, float]]


def _tripped(answers: Sequence[Answering]) -> Tripped:
    """Return by scope and key the code, and the longest wait, of the answers that blocked it."""
    tripped: Tripped = {}
    for answer in answers:
        scope = blocked_scope(answer.outcome)
        key = scope and answer.key_of(scope)
        if scope is None or key is None:
            continue
        _, wait = tripped.get((scope, key), (None, 0.0))
        longest = max(wait, answer.outcome.retry_after_seconds or 0.0)
        tripped[scope, key] = (answer.outcome.code, longest)
    return tripped


def _columns_of(tripped: Tripped) -> dict[str, list[object]]:
    return {
        "scopes": [str(scope) for scope, _ in tripped],
        "keys": [key for _, key in tripped],
        "codes": [code for code, _ in tripped.values()],
        "waits": [wait for _, wait in tripped.values()],
    }


def _too_many(
    connection: psycopg.Connection,
    channel: str,
    provider: str,
    *,
    calls: int,
    failures: int,
    now: datetime | None,
) -> bool:
    """Count a part of the window under way; tell whether too many of it failed."""
    parameters = {
        "channel": channel,
        "provider": provider,
        "calls": max(calls, failures),
        "failures": failures,
        "window_seconds": WINDOW_SECONDS,
        "least_failures": LEAST_FAILURES,
        "ratio": FAILURE_RATIO,
        "now": now,
    }
    with connection.cursor(row_factory=scalar_row) as cursor:
        return bool(cursor.execute(COUNT, parameters).fetchone())


# Of a provider that its channel has no more, or that nothing has come for to find out: what comes
# next finds out, and opens it again if it has to.
CLOSE_UNUSED = """
    UPDATE breakers b
       SET opened_at = NULL, probe_at = NULL, probe_id = NULL, trips = 0, calls = 0, failures = 0
      FROM channels c
     WHERE c.name = b.channel AND b.opened_at IS NOT NULL
       AND (b.provider NOT IN (c.provider, coalesce(c.fallback_provider, c.provider))
            OR b.probe_at <= coalesce(%(now)s, clock_timestamp())
                             - %(unused_seconds)s * interval '1 second')
"""
UNUSED_SECONDS = 3600.0


def close_unused(database: Database, *, now: datetime | None = None) -> int:
    """Close the breakers that nobody will find out about; return how many."""
    parameters = {"unused_seconds": UNUSED_SECONDS, "now": now}
    return database.run(lambda connection: connection.execute(CLOSE_UNUSED, parameters).rowcount)
