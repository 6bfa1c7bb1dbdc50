"""Chains as they are found, and as they are read under their locks."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row, scalar_row

from functions.core.chain import Candidate, Parent
from functions.store.hold import NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A parent and its children; without a parent where only children are left."""

    parent: Parent | None
    candidates: Sequence[Candidate]


# The time stands in a sub-select: as a bare volatile function it could not bound the index scan.
FIND = """
    WITH untold AS MATERIALIZED (
        SELECT parent_id
          FROM notifications
         WHERE parent_id IS NOT NULL AND status <> 'leased'
           AND told_status IS DISTINCT FROM status
         ORDER BY updated_at
         LIMIT %(limit)s
    ),
    due AS MATERIALIZED (
        SELECT id
          FROM notifications
         WHERE next_step_at <= (SELECT coalesce(%(now)s, clock_timestamp()))
         ORDER BY next_step_at
         LIMIT %(limit)s
    )
    SELECT id, greatest((SELECT count(*) FROM untold), (SELECT count(*) FROM due))::int AS number
      FROM (SELECT parent_id FROM untold UNION SELECT id FROM due) found (id)
"""


def find(
    connection: psycopg.Connection, *, limit: int, now: datetime | None
) -> tuple[list[UUID], bool]:
    """Return parents that are to be told something, or whose next step is due; and whether there
    may be more of either kind."""
    found = connection.execute(FIND, {"limit": limit, "now": now}).fetchall()
    return [id for id, _ in found], any(number >= limit for _, number in found)


LOCK_CHAINS = """
    SELECT id
      FROM notifications
     WHERE id = ANY(ARRAY(
           SELECT unnest(%(parents)b::uuid[])
           UNION ALL
           SELECT id FROM notifications WHERE parent_id = ANY(%(parents)b::uuid[])))
     ORDER BY id
       FOR UPDATE SKIP LOCKED
"""

# Only the history tells who cancelled a parent. Not EXISTS, which may read all of it.
READ_PARENTS = """
    SELECT n.id, n.status, cardinality(n.channels) AS channel_count, n.expires_at,
           n.status = 'cancelled' AND (
           SELECT x.id FROM transitions x
            WHERE x.notification_id = n.id AND x.to_status = 'cancelled' AND x.actor = 'client'
            LIMIT 1) IS NOT NULL AS is_cancelled,
           n.erased_at IS NOT NULL AS is_erased, n.fallback_doubles,
           coalesce(%(now)s, clock_timestamp()) AS at
      FROM notifications n
     WHERE n.id = ANY(%(parents)b::uuid[]) AND n.channels IS NOT NULL
"""

READ_CANDIDATES = """
    SELECT n.id, n.parent_id, n.candidate AS place, n.status, n.reason, n.told_status, n.final_at,
           n.attempt_id, n.in_doubt, n.evidence_rank, n.complained,
           least(n.eligible_at + coalesce(p.fallback_after_seconds, c.fallback_after_seconds)
                 * interval '1 second', %(never)s) AS next_at
      FROM notifications n
      JOIN channels c ON c.name = n.channel
      LEFT JOIN notifications p ON p.id = n.parent_id AND p.id = ANY(%(parents)b::uuid[])
     WHERE n.parent_id = ANY(%(parents)b::uuid[])
"""


def lock_and_read(
    connection: psycopg.Connection, parents: Sequence[UUID], *, now: datetime | None
) -> list[Chain]:
    """Lock the chains of ``parents``, and return those of which nobody else holds a row."""
    parameters = {"parents": list(parents), "never": NEVER, "now": now}
    with connection.cursor(row_factory=scalar_row) as cursor:
        locked = frozenset(cursor.execute(LOCK_CHAINS, parameters).fetchall())
    with connection.cursor(row_factory=class_row(Parent)) as cursor:
        heads = {parent.id: parent for parent in cursor.execute(READ_PARENTS, parameters)}
    candidates: defaultdict[UUID, list[Candidate]] = defaultdict(list)
    with connection.cursor(row_factory=class_row(Candidate)) as cursor:
        for one in cursor.execute(READ_CANDIDATES, parameters):
            candidates[one.parent_id].append(one)
    return [
        Chain(parent=heads.get(id), candidates=mine)
        for id, mine in candidates.items()
        if all(one.id in locked for one in mine) and (id in locked or id not in heads)
    ]
