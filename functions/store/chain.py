"""Chains of candidates: parents learn how their children fare, and the next child is started.

A child tells nobody that it moved: the index of those whose parent was not told does, and that of
the parents whose next step is due. They are found without a lock, and then each parent is locked
together with all its children. Whoever holds them decides, in the next statement, on rows as they
are; a chain of which somebody else holds a row is passed over until later. Children start under
their parent's lock alone, so that no two have one place, whatever runs beside or dies in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg

from functions.core.chain import WITHDRAWN, Candidate, Parent, Step, next_step
from functions.store.chain_read import Chain, find, lock_and_read
from functions.store.connection import Database
from functions.store.hold import NEVER

ADVANCED_AT_ONCE = 200
"""Children that were not told of, and parents whose next step is due: of each so many at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """What a page came to: children started, children whose parents were told how they stand, and
    those delivered beyond the first; ``is_full`` when the next page may come to something, too."""

    started: int = 0
    told: int = 0
    doubles: int = 0
    is_full: bool = False


# child:   from its parent, as it was asked for; materialized, so that each gets an id of its own.
# started: the first waits for the time that was asked for, each further one is due at once.
START = """
    WITH child AS MATERIALIZED (
        SELECT uuidv7() AS id, s.place, p.id AS parent_id, c.name AS channel, c.max_attempts,
               CASE WHEN s.place = 0 THEN p.send_at END AS send_at, t.at
          FROM unnest(%(parents)b::uuid[], %(places)b::int4[]) AS s (parent_id, place)
          JOIN notifications p ON p.id = s.parent_id
          JOIN channels c ON c.name = p.channels[s.place + 1]
         CROSS JOIN (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE p.id = ANY(%(parents)b::uuid[])
    ),
    started AS (
        INSERT INTO notifications (
            id, organization_id, parent_id, candidate, channel, recipient_id, recipient_hash,
            content, template_name, template_version, segments, priority, category, stream,
            reference, metadata, send_at, expires_at, max_attempts, created_at, updated_at, ready,
            available_at, eligible_at, told_status
        )
        SELECT child.id, p.organization_id, p.id, child.place, child.channel, p.recipient_id,
               p.recipient_hash, p.content, p.template_name, p.template_version,
               CASE WHEN child.channel = 'sms' THEN p.segments END, p.priority, p.category,
               p.stream, p.reference, p.metadata, child.send_at, p.expires_at, child.max_attempts,
               uuid_extract_timestamp(child.id), uuid_extract_timestamp(child.id),
               child.send_at IS NULL OR child.send_at <= child.at,
               greatest(child.send_at, child.at), greatest(child.send_at, child.at), 'pending'
          FROM child
          JOIN notifications p ON p.id = child.parent_id
         WHERE p.id = ANY(%(parents)b::uuid[])
        RETURNING parent_id, candidate, channel, eligible_at
    )
    UPDATE notifications p
       SET candidate = s.candidate,
           next_step_at = CASE WHEN s.candidate + 1 < cardinality(p.channels)
                               THEN least(s.eligible_at
                                          + coalesce(p.fallback_after_seconds,
                                                     c.fallback_after_seconds)
                                          * interval '1 second', %(never)s) END
      FROM started s
      JOIN channels c ON c.name = s.channel
     WHERE p.id = s.parent_id AND p.id = ANY(%(parents)b::uuid[])
"""


def start_first(
    connection: psycopg.Connection, parent_ids: Sequence[UUID], *, now: datetime | None = None
) -> None:
    """Start the first candidate of each of the parents, as part of the transaction that inserted
    them."""
    _start(connection, [(id, 0) for id in parent_ids], now=now)


def _start(
    connection: psycopg.Connection, places: Sequence[tuple[UUID, int]], *, now: datetime | None
) -> int:
    """Start the candidates (parent, place); return how many."""
    parameters = {
        "parents": [parent_id for parent_id, _ in places],
        "places": [place for _, place in places],
        "never": NEVER,
        "now": now,
    }
    return connection.execute(START, parameters).rowcount if places else 0


def advance(
    database: Database, *, limit: int = ADVANCED_AT_ONCE, now: datetime | None = None
) -> Advanced:
    """Tell the parents of up to ``limit`` children that moved, take the next step of up to as many
    parents for which it is due, and start what is to start."""

    def work(connection: psycopg.Connection) -> Advanced:
        parents, is_full = find(connection, limit=limit, now=now)
        if not parents:
            return Advanced()
        chains = lock_and_read(connection, parents, now=now)
        steps = [
            (chain.parent, next_step(chain.parent, chain.candidates))
            for chain in chains
            if chain.parent is not None and not chain.parent.is_cancelled
        ]
        if steps:
            _mirror(connection, steps)
        told = _tell(
            connection,
            chains,
            withdrawn=[one for _, step in steps for one in step.withdrawn],
            now=now,
        )
        starting = [(parent.id, step.place) for parent, step in steps if step.starts]
        return Advanced(
            started=_start(connection, starting, now=now),
            told=told,
            doubles=sum(step.doubles - parent.fallback_doubles for parent, step in steps),
            is_full=is_full and bool(chains),
        )

    return database.run(work)


# c: the child that is shown, which the parent is like; a chain that goes on has no end, and no
#    reason for one.
MIRROR = """
    WITH step AS MATERIALIZED (
        SELECT *
          FROM unnest(%(ids)b::uuid[], %(shown)b::uuid[], %(statuses)b::text[],
                      %(starts)b::text[], %(nexts)b::timestamptz[], %(complained)b::boolean[],
                      %(doubles)b::int4[], %(ats)b::timestamptz[])
               AS s (id, shown_id, status, starts, next_at, complained, doubles, at)
    ),
    mirrored AS (
        UPDATE notifications p
           SET status = s.status, candidate = c.candidate,
               reason = CASE WHEN s.status = c.status AND s.status <> 'pending' THEN c.reason END,
               final_at = CASE WHEN s.status = c.status THEN c.final_at END,
               discarded_at = CASE WHEN s.status = c.status THEN c.discarded_at END,
               in_doubt = CASE WHEN s.starts IS NULL THEN c.in_doubt ELSE 0 END,
               submitted_at = CASE WHEN s.starts IS NULL THEN c.submitted_at END,
               complained = s.complained, fallback_doubles = s.doubles, next_step_at = s.next_at,
               updated_at = s.at
          FROM step s
          JOIN notifications c ON c.id = s.shown_id
         WHERE p.id = s.id AND p.id = ANY(%(ids)b::uuid[]) AND c.id = ANY(%(shown)b::uuid[])
        RETURNING p.id, p.organization_id, OLD.status AS from_status, NEW.status AS to_status,
                  coalesce(s.starts, CASE WHEN s.status = c.status THEN c.reason END, c.status)
                  AS reason, s.starts, s.at,
                  NEW.fallback_doubles > OLD.fallback_doubles AS is_double
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason)
    SELECT id, organization_id, at, 'fallback', from_status, to_status, reason
      FROM mirrored
     WHERE from_status <> to_status OR starts IS NOT NULL
    UNION ALL
    SELECT id, organization_id, at, 'fallback', to_status, to_status, 'fallback_double'
      FROM mirrored
     WHERE is_double
"""


def _mirror(connection: psycopg.Connection, steps: Sequence[tuple[Parent, Step]]) -> None:
    """Let each parent show where its chain is, and when it goes on."""
    parameters = {
        "ids": [parent.id for parent, _ in steps],
        "shown": [step.shown.id for _, step in steps],
        "statuses": [step.status for _, step in steps],
        "starts": [step.starts for _, step in steps],
        "nexts": [step.next_at for _, step in steps],
        "complained": [step.complained for _, step in steps],
        "doubles": [step.doubles for _, step in steps],
        "ats": [parent.at for parent, _ in steps],
    }
    connection.execute(MIRROR, parameters)


# What a parent was told of is kept with the child, in the transaction that tells.
TELL = """
    WITH told AS (
        UPDATE notifications n
           SET told_status = m.told_status,
               status = CASE WHEN m.withdrawn THEN 'cancelled' ELSE n.status END,
               reason = CASE WHEN m.withdrawn THEN %(reason)s ELSE n.reason END,
               lease_until = CASE WHEN m.withdrawn THEN NULL ELSE n.lease_until END,
               final_at = CASE WHEN m.withdrawn THEN t.at ELSE n.final_at END,
               updated_at = CASE WHEN m.withdrawn THEN t.at ELSE n.updated_at END
          FROM unnest(%(ids)b::uuid[], %(told)b::text[], %(withdrawn)b::boolean[])
               AS m (id, told_status, withdrawn)
         CROSS JOIN (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
         WHERE n.id = m.id AND n.id = ANY(%(ids)b::uuid[])
        RETURNING n.id, n.organization_id, OLD.status AS from_status, m.withdrawn, t.at
    )
    INSERT INTO transitions
           (notification_id, organization_id, at, actor, from_status, to_status, reason)
    SELECT id, organization_id, at, 'fallback', from_status, 'cancelled', %(reason)s
      FROM told
     WHERE withdrawn
"""


def _tell(
    connection: psycopg.Connection,
    chains: Sequence[Chain],
    *,
    withdrawn: Sequence[Candidate],
    now: datetime | None,
) -> int:
    """Note what the parents know of their children now, and withdraw those that gave way; return
    of how many."""
    given_way = {one.id for one in withdrawn}
    moved = [
        (one.id, "cancelled" if one.id in given_way else one.standing, one.id in given_way)
        for chain in chains
        for one in chain.candidates
        if one.id in given_way or one.told_status != one.standing
    ]
    if moved:
        ids, told, flags = map(list, zip(*moved, strict=True))
        connection.execute(
            TELL, {"ids": ids, "told": told, "withdrawn": flags, "reason": WITHDRAWN, "now": now}
        )
    return len(moved)
