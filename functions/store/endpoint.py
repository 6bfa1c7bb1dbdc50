"""Endpoints: the origins of webhook URLs, and how their receivers fare, per organization.

Nothing is written while an endpoint works. One that fails again and again is paused: what is for it
waits, and the oldest that is due finds out. One that asks never to be called again is disabled.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row, scalar_row

from functions.core.breaker import (
    ENDPOINT_FAILING_SECONDS,
    ENDPOINT_FAILURES,
    ENDPOINT_PROBE_SECONDS,
    MAX_ENDPOINT_PROBE_SECONDS,
    Answering,
    Word,
    word_about_endpoint,
)
from functions.core.outcome import Refused, Scope
from functions.store.action import Action, Fate, record_action, result_of
from functions.store.connection import Database

# A failure of another attempt than the probe's changes nothing about a paused endpoint but the
# count. The first success ends it all, whoever brings it.
RECORD_ENDPOINTS = """
    WITH instant AS MATERIALIZED (SELECT coalesce(%(now)s, clock_timestamp()) AS at),
    word AS MATERIALIZED (
        SELECT * FROM unnest(%(organizations)b::uuid[], %(origins)b::text[], %(works)b::boolean[],
                             %(failures)b::int4[], %(codes)b::text[], %(disables)b::boolean[])
                      AS w (organization_id, origin, works, failures, code, disables)
    ),
    working AS (
        UPDATE endpoints e
           SET failures = 0, failing_since = NULL, paused_at = NULL, probe_at = NULL,
               probe_id = NULL, trips = 0, updated_at = t.at
          FROM word w CROSS JOIN instant t
         WHERE e.organization_id = w.organization_id AND e.origin = w.origin
           AND w.works AND NOT w.disables AND (e.failures > 0 OR e.paused_at IS NOT NULL)
    )
    INSERT INTO endpoints AS e
           (organization_id, origin, failures, failing_since, code, disabled_at, updated_at)
    SELECT w.organization_id, w.origin, w.failures, t.at, w.code,
           CASE WHEN w.disables THEN t.at END, t.at
      FROM word w CROSS JOIN instant t
     WHERE NOT w.works OR w.disables
     ORDER BY w.organization_id, w.origin
    ON CONFLICT (organization_id, origin) DO UPDATE
       SET failures = e.failures + EXCLUDED.failures,
           failing_since = coalesce(e.failing_since, EXCLUDED.failing_since),
           code = EXCLUDED.code,
           disabled_at = coalesce(e.disabled_at, EXCLUDED.disabled_at),
           paused_at = CASE
               WHEN e.paused_at IS NOT NULL THEN e.paused_at
               WHEN e.failures + EXCLUDED.failures >= %(most_failures)s
                AND e.failing_since <= EXCLUDED.updated_at
                                       - %(failing_seconds)s * interval '1 second'
               THEN EXCLUDED.updated_at END,
           probe_at = CASE
               WHEN e.paused_at IS NULL
               THEN CASE WHEN e.failures + EXCLUDED.failures >= %(most_failures)s
                          AND e.failing_since <= EXCLUDED.updated_at
                                                 - %(failing_seconds)s * interval '1 second'
                         THEN EXCLUDED.updated_at + %(probe_seconds)s * interval '1 second' END
               WHEN e.probe_id = ANY(%(ids)b::uuid[])
               THEN EXCLUDED.updated_at + least(%(probe_seconds)s * 2 ^ least(e.trips + 1, 30),
                                                %(max_probe_seconds)s) * interval '1 second'
               ELSE e.probe_at END,
           trips = e.trips + (e.paused_at IS NOT NULL
                              AND coalesce(e.probe_id = ANY(%(ids)b::uuid[]), false))::int,
           probe_id = CASE WHEN e.probe_id = ANY(%(ids)b::uuid[]) THEN NULL ELSE e.probe_id END,
           updated_at = EXCLUDED.updated_at
"""


def record_endpoints(
    database: Database, answers: Sequence[Answering], *, now: datetime | None = None
) -> None:
    """Keep what ``answers`` say about the endpoints that gave them: per endpoint one word, which is
    that it works as soon as one of them says so."""
    words: dict[tuple[UUID, str], list[Answering]] = {}
    for answer in answers:
        if answer.origin and word_about_endpoint(answer.outcome) is not Word.NOTHING:
            words.setdefault((answer.organization_id, answer.origin), []).append(answer)
    if not words:
        return
    failing = {
        endpoint: [one for one in said if word_about_endpoint(one.outcome) is Word.FAILS]
        for endpoint, said in words.items()
    }
    parameters = {
        "organizations": [organization_id for organization_id, _ in words],
        "origins": [origin for _, origin in words],
        "works": [len(failing[endpoint]) < len(said) for endpoint, said in words.items()],
        "failures": [len(said) for said in failing.values()],
        "codes": [said[-1].outcome.code if said else None for said in failing.values()],
        "disables": [any(_disables(one) for one in said) for said in words.values()],
        "ids": [answer.id for answer in answers],
        "most_failures": ENDPOINT_FAILURES,
        "failing_seconds": ENDPOINT_FAILING_SECONDS,
        "probe_seconds": ENDPOINT_PROBE_SECONDS,
        "max_probe_seconds": MAX_ENDPOINT_PROBE_SECONDS,
        "now": now,
    }
    database.run(lambda connection: connection.execute(RECORD_ENDPOINTS, parameters))


def _disables(answer: Answering) -> bool:
    return isinstance(answer.outcome, Refused) and answer.outcome.suppress is Scope.ENDPOINT


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """How an endpoint that does not simply work stands, as the claim sees it."""

    organization_id: UUID
    origin: str
    is_paused: bool
    is_due: bool
    """It is paused, and somebody is to find out."""
    probe_at: datetime | None
    in_flight: int
    """Leases for it, those of the page under way included."""


TROUBLES = """
    SELECT e.organization_id, e.origin, e.paused_at IS NOT NULL AS is_paused,
           coalesce(e.probe_at <= t.at, false) AS is_due, e.probe_at,
           (SELECT count(*)
              FROM notifications n
             WHERE n.channel = 'webhook' AND n.lease_until IS NOT NULL AND n.status = 'leased'
               AND n.organization_id = e.organization_id AND n.origin = e.origin)::int AS in_flight
      FROM unnest(%(organizations)b::uuid[], %(origins)b::text[]) AS i (organization_id, origin)
      JOIN endpoints e ON e.organization_id = i.organization_id AND e.origin = i.origin
     CROSS JOIN (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
     WHERE e.disabled_at IS NULL AND (e.paused_at IS NOT NULL OR e.failures > 0)
"""


def troubles_of(
    database: Database, endpoints: Collection[tuple[UUID, str]], *, now: datetime | None = None
) -> list[Trouble]:
    """Return those of ``endpoints`` (organization, origin) that fail or are paused."""
    if not endpoints:
        return []
    ordered = sorted(endpoints)
    parameters = {
        "organizations": [organization_id for organization_id, _ in ordered],
        "origins": [origin for _, origin in ordered],
        "now": now,
    }

    def read(connection: psycopg.Connection) -> list[Trouble]:
        with connection.cursor(row_factory=class_row(Trouble)) as cursor:
            return cursor.execute(TROUBLES, parameters).fetchall()

    return database.run(read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An endpoint that does not simply work; ``state`` is failing, paused or disabled."""

    id: UUID
    organization_id: UUID
    origin: str
    state: str
    failures: int
    failing_since: datetime | None
    code: str | None
    probe_at: datetime | None


LIST_ENDPOINTS = """
    SELECT id, organization_id, origin, failures, failing_since, code, probe_at,
           CASE WHEN disabled_at IS NOT NULL THEN 'disabled'
                WHEN paused_at IS NOT NULL THEN 'paused' ELSE 'failing' END AS state
      FROM endpoints
     WHERE (disabled_at IS NOT NULL OR paused_at IS NOT NULL
            OR failures > 0 AND NOT %(stopped)s)
       AND (%(organization_id)s::uuid IS NULL OR organization_id = %(organization_id)s)
       AND (%(after)s::uuid IS NULL OR id > %(after)s)
     ORDER BY id
     LIMIT %(limit)s
"""


def list_endpoints(
    database: Database,
    *,
    organization_id: UUID | None = None,
    stopped: bool = False,
    after: UUID | None = None,
    limit: int = 100,
) -> list[Endpoint]:
    """Return up to ``limit`` endpoints that fail, or are ``stopped``, after the id ``after``."""
    parameters = {
        "organization_id": organization_id,
        "stopped": stopped,
        "after": after,
        "limit": limit,
    }

    def read(connection: psycopg.Connection) -> list[Endpoint]:
        with connection.cursor(row_factory=class_row(Endpoint)) as cursor:
            return cursor.execute(LIST_ENDPOINTS, parameters, prepare=False).fetchall()

    return database.run(read)


WOKEN_AT_ONCE = 5000
"""Of what waits for an endpoint; the rest goes out when it would have been tried again."""

# What waits for the endpoint is due at once; by the index of what waits, as far as it may wait.
RESUME_ENDPOINT = """
    WITH known AS MATERIALIZED (
        SELECT id, organization_id, origin,
               disabled_at IS NOT NULL OR paused_at IS NOT NULL AS is_stopped,
               greatest(probe_at, coalesce(%(now)s, clock_timestamp()))
               + interval '1 hour' AS waits_until
          FROM endpoints
         WHERE id = %(id)s
           FOR UPDATE
    ),
    woken AS (
        UPDATE notifications n
           SET available_at = least(n.available_at, t.at), updated_at = t.at
          FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE n.id = ANY(ARRAY(
               SELECT w.id
                 FROM notifications w
                 JOIN known ON known.organization_id = w.organization_id
                           AND known.origin = w.origin
                WHERE w.status = 'pending' AND NOT w.ready
                  AND w.available_at <= known.waits_until
                  AND w.reason IN ('endpoint_paused', 'endpoint_busy')
                ORDER BY w.available_at
                LIMIT %(woken_at_once)s
                  FOR UPDATE OF w SKIP LOCKED))
    ),
    resumed AS (
        UPDATE endpoints e
           SET failures = 0, failing_since = NULL, paused_at = NULL, disabled_at = NULL,
               probe_at = NULL, probe_id = NULL, trips = 0,
               updated_at = coalesce(%(now)s, clock_timestamp())
          FROM known
         WHERE e.id = known.id
    )
    SELECT CASE WHEN is_stopped THEN 'resumed' ELSE 'not_stopped' END FROM known
"""


def resume_endpoint(
    database: Database, id: UUID, *, action: Action, now: datetime | None = None
) -> Fate:
    """Let an endpoint be called again; what waits for it goes out at its next claim.

    Fates: resumed, not_stopped, not_found.
    """

    def work(connection: psycopg.Connection) -> Fate:
        done = result_of(connection, action)
        if done is not None:
            return Fate(id=id, fate=done["fate"])
        with connection.cursor(row_factory=scalar_row) as cursor:
            values = {"id": id, "woken_at_once": WOKEN_AT_ONCE, "now": now}
            found = cursor.execute(RESUME_ENDPOINT, values).fetchone()
        fate = found or "not_found"
        record_action(connection, action, result={"fate": fate}, now=now)
        return Fate(id=id, fate=fate)

    return database.run(work)
