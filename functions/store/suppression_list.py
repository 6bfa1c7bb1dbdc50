"""Suppressions by the many: facts added in one go, and read in the order of their addresses."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row, scalar_row

from functions.core.suppression_line import SOURCE, StatedFact
from functions.store.action import Action, record_action, result_of
from functions.store.connection import Database

# The locks under which facts about one address are added one after the other, as one by one they
# are; in the order of the locks, so that two files of the same addresses cannot deadlock.
LOCK_ADDRESSES = """
    SELECT pg_advisory_xact_lock(key)
      FROM (SELECT DISTINCT hashtextextended(
                        concat_ws('|', %(organization_id)s::text, a.channel,
                                  encode(a.recipient_hash, 'hex')), 0) AS key
              FROM unnest(%(channels)b::text[], %(hashes)b::bytea[]) AS a (channel, recipient_hash)
             ORDER BY key) ordered
"""

# Which of the facts are known: an equal one was stated since the last lift. Whether it is the
# newest does not matter, or a file that states two of one address would never come to rest. What a
# line left out says nothing: it matches any source, time and evidence. The look-up is lateral and
# limited, so that it is made line by line, whatever the planner thinks of the table.
KNOWN = """
    SELECT l.place
      FROM unnest(%(places)b::int4[], %(channels)b::text[], %(hashes)b::bytea[],
                  %(categories)b::text[], %(reasons)b::text[], %(sources)b::text[],
                  %(source_ats)b::timestamptz[], %(evidences)b::text[])
           AS l (place, channel, recipient_hash, category, reason, source, source_at, evidence)
     CROSS JOIN LATERAL (
           SELECT
             FROM suppressions s
            WHERE s.organization_id = %(organization_id)s
              AND s.channel = l.channel
              AND s.recipient_hash = l.recipient_hash
              AND s.category IS NOT DISTINCT FROM l.category
              AND s.kind = 'suppress'
              AND s.reason = l.reason
              AND (l.source IS NULL OR s.source = l.source)
              AND (l.source_at IS NULL OR s.source_at = l.source_at)
              AND (l.evidence IS NULL OR s.evidence = l.evidence::jsonb)
              AND NOT EXISTS (
                      SELECT FROM suppressions later
                       WHERE later.organization_id = s.organization_id
                         AND later.channel = s.channel
                         AND later.recipient_hash = s.recipient_hash
                         AND later.category IS NOT DISTINCT FROM s.category
                         AND later.kind = 'lift'
                         AND later.id > s.id)
            LIMIT 1) known
"""

# By address, and of one address in the order of the lines: the last is the newest.
ADD_ALL = """
    INSERT INTO suppressions
           (organization_id, channel, recipient, recipient_hash, category, kind, reason, source,
            source_at, evidence)
    SELECT %(organization_id)s, l.channel, l.recipient, l.recipient_hash, l.category, 'suppress',
           l.reason, coalesce(l.source, %(default_source)s),
           coalesce(l.source_at, %(now)s, clock_timestamp()), l.evidence::jsonb
      FROM unnest(%(places)b::int4[], %(channels)b::text[], %(recipients)b::text[],
                  %(hashes)b::bytea[], %(categories)b::text[], %(reasons)b::text[],
                  %(sources)b::text[], %(source_ats)b::timestamptz[], %(evidences)b::text[])
           AS l (place, channel, recipient, recipient_hash, category, reason, source, source_at,
                 evidence)
     ORDER BY l.channel, l.recipient_hash, l.category NULLS FIRST, l.place
"""


def add_suppressions(
    database: Database,
    facts: Sequence[StatedFact],
    *,
    organization_id: UUID,
    action: Action,
    told: Mapping[str, int],
    now: datetime | None = None,
) -> set[int]:
    """Add those of ``facts`` that are not known; return the places of those that are.

    ``told`` is what else is to be kept of the action. Repeated after a COMMIT whose answer was
    lost, it finds what it had come to: its own facts would be known by now.
    """

    def add(connection: psycopg.Connection) -> set[int]:
        done = result_of(connection, action)
        if done is not None:
            return set(done["already_known"])
        known: set[int] = set()
        if facts:
            parameters = _columns_of(dict(enumerate(facts)), organization_id, now)
            connection.execute(LOCK_ADDRESSES, parameters)
            with connection.cursor(row_factory=scalar_row) as cursor:
                known.update(cursor.execute(KNOWN, parameters))
            known |= _repeated(facts, known)
            new = {place: fact for place, fact in enumerate(facts) if place not in known}
            connection.execute(ADD_ALL, _columns_of(new, organization_id, now))
        result: dict[str, Any] = {
            **told,
            "added": len(facts) - len(known),
            "already_known": sorted(known),
        }
        record_action(connection, action, result=result, now=now)
        return known

    return database.run(add)


def _repeated(facts: Sequence[StatedFact], known: set[int]) -> set[int]:
    """Return the places of those facts that an earlier one of them, not known before, states."""
    stated: defaultdict[StatedFact, list[StatedFact]] = defaultdict(list)
    repeated: set[int] = set()
    for place, fact in enumerate(facts):
        if place in known:
            continue
        about = replace(fact, recipient=None, source=None, source_at=None, evidence=None)
        if any(_states(earlier, fact) for earlier in stated[about]):
            repeated.add(place)
        else:
            stated[about].append(fact)
    return repeated


def _states(earlier: StatedFact, fact: StatedFact) -> bool:
    """Whether ``earlier``, of the same address, category and reason, says what ``fact`` says."""
    return (
        fact.source in (None, earlier.source or SOURCE)
        and fact.source_at in (None, earlier.source_at)
        and fact.evidence in (None, earlier.evidence)
    )


def _columns_of(
    facts: Mapping[int, StatedFact], organization_id: UUID, now: datetime | None
) -> dict[str, Any]:
    """Return the facts by place, column by column."""
    return {
        "organization_id": organization_id,
        "default_source": SOURCE,
        "now": now,
        "places": list(facts),
        "channels": [str(fact.channel) for fact in facts.values()],
        "recipients": [fact.recipient for fact in facts.values()],
        "hashes": [fact.recipient_hash for fact in facts.values()],
        "categories": [fact.category for fact in facts.values()],
        "reasons": [str(fact.reason) for fact in facts.values()],
        "sources": [fact.source for fact in facts.values()],
        "source_ats": [fact.source_at for fact in facts.values()],
        "evidences": [fact.evidence for fact in facts.values()],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a fact stands among those of its organization."""

    channel: str
    recipient_hash: bytes
    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFact:
    """A fact with all that a file says of it; ``evidence`` is JSON as text, as it is kept."""

    id: UUID
    channel: str
    recipient: str | None
    recipient_hash: bytes
    category: str | None
    kind: str
    reason: str
    source: str
    source_at: datetime
    evidence: str | None
    created_at: datetime
    active: bool

    @property
    def place(self) -> Place:
        return Place(channel=self.channel, recipient_hash=self.recipient_hash, id=self.id)


# A fact is active while it may decide: while it is the newest of its category, or the newest but
# for choices made by a link, which do not concern what is transactional.
READ_BY_ADDRESS = """
    SELECT s.id, s.channel, s.recipient, s.recipient_hash, s.category, s.kind, s.reason, s.source,
           s.source_at, s.evidence::text AS evidence, s.created_at, state.active
      FROM suppressions s
     CROSS JOIN LATERAL (
           SELECT s.kind = 'suppress' AND NOT EXISTS (
                      SELECT FROM suppressions later
                       WHERE later.organization_id = s.organization_id
                         AND later.channel = s.channel
                         AND later.recipient_hash = s.recipient_hash
                         AND later.category IS NOT DISTINCT FROM s.category
                         AND (later.source <> 'unsubscribe' OR s.source = 'unsubscribe')
                         AND later.id > s.id) AS active) state
     WHERE s.organization_id = %(organization_id)s
       AND (%(only)s::text IS NULL OR s.channel = %(only)s)
       AND (s.channel, s.recipient_hash, s.id) > (%(channel)s, %(recipient_hash)s, %(id)s)
       AND (state.active OR NOT %(active)s)
     ORDER BY s.channel, s.recipient_hash, s.id
     LIMIT %(limit)s
"""

BEFORE_ALL = Place(channel="", recipient_hash=b"", id=UUID(int=0))


def read_by_address(
    database: Database,
    *,
    organization_id: UUID,
    channel: str | None,
    active: bool,
    after: Place,
    limit: int,
) -> list[ListedFact]:
    """Return at most ``limit`` facts after a place, by channel and hash of the address, and of one
    address the oldest first; ``active``: only those that decide."""
    parameters = {
        "organization_id": organization_id,
        "only": channel,
        "channel": after.channel,
        "recipient_hash": after.recipient_hash,
        "id": after.id,
        "active": active,
        "limit": limit,
    }

    def read(connection: psycopg.Connection) -> list[ListedFact]:
        with connection.cursor(row_factory=class_row(ListedFact)) as cursor:
            return cursor.execute(READ_BY_ADDRESS, parameters, prepare=False).fetchall()

    return database.run(read)
