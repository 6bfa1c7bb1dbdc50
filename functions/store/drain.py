"""Take requests made by SQL to judge them: for a while, so that no row is held meanwhile.

    waiting --take--> taken --settled (drained.py)--> a notification, or what tells of it
       ^                |
       +---give back----+--its time is over--> taken again, alone

Whoever stops without a word has its requests taken from it when their time is over. One of them
stopped it, perhaps: each is taken alone from then on, so that it harms no other, and not for ever.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row, scalar_row

MOST_AT_ONCE = 200
MOST_BYTES = 4 * 1024 * 1024
"""Of the items of a page, so that it needs no more memory than the largest body of the API."""

TAKEN_SECONDS = 30
"""Longer than ingest lives: whoever has not settled a request by then never will."""

MAX_STARTS = 5
"""A request that was taken so often and never settled is told invalid."""

MOST_ORGANIZATIONS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A request as it came, taken; ``text`` is the JSON of its item."""

    id: UUID
    organization_id: UUID
    text: str
    by_template: bool
    is_erased: bool
    starts: int
    taken_until: datetime
    """What it is recognised by: whoever takes it again has another moment."""

    @property
    def is_given_up(self) -> bool:
        return self.starts > MAX_STARTS


# turn:  organizations with something that can be taken, one index descent each.
# first: those of them whose oldest has waited longest, so that everybody's turn comes.
# page:  to each the same share, whoever asks for how much; what somebody else is taking is passed
#        over. The organization stands as a range: were it an equality, the primary key would give
#        the order too, and all that is kept might be read.
# fits:  round by round through the organizations, up to a number of bytes: one in any case.
TAKE = """
    WITH RECURSIVE turn (organization_id, oldest, place) AS (
        (SELECT organization_id, id, 1
           FROM requests
          WHERE drained_at IS NULL AND taken_until IS NULL
          ORDER BY organization_id, id LIMIT 1)
        UNION ALL
        (SELECT next.organization_id, next.id, turn.place + 1
           FROM turn
          CROSS JOIN LATERAL (
                SELECT organization_id, id
                  FROM requests
                 WHERE drained_at IS NULL AND taken_until IS NULL
                   AND organization_id > turn.organization_id
                 ORDER BY organization_id, id LIMIT 1) next
          WHERE turn.place < %(most_organizations)s)
    ),
    first AS MATERIALIZED (
        SELECT organization_id,
               ceil(%(most)s::numeric / least(%(most)s, count(*) OVER ()))::int AS share
          FROM turn
         ORDER BY oldest
         LIMIT %(most)s
    ),
    page AS MATERIALIZED (
        SELECT mine.*
          FROM first
         CROSS JOIN LATERAL (
               SELECT id, organization_id, bytes
                 FROM requests
                WHERE drained_at IS NULL AND taken_until IS NULL
                  AND organization_id >= first.organization_id
                  AND organization_id <= first.organization_id
                ORDER BY organization_id, id
                LIMIT first.share
                  FOR UPDATE SKIP LOCKED) mine
    ),
    fits AS MATERIALIZED (
        SELECT id, bytes, sum(bytes) OVER (ORDER BY round, id) - bytes AS before
          FROM (SELECT page.*,
                       row_number() OVER (PARTITION BY organization_id ORDER BY id) AS round
                  FROM page) r
         ORDER BY round, id
         LIMIT %(most)s
    ),
    taken AS (
        UPDATE requests
           SET starts = starts + 1,
               taken_until = (SELECT coalesce(%(now)s, clock_timestamp()))
                             + %(taken_seconds)s * interval '1 second'
         WHERE id = ANY(ARRAY(SELECT id FROM fits
                               WHERE before = 0 OR before + bytes <= %(bytes)s))
        RETURNING id, organization_id, item::text AS text,
                  jsonb_typeof(item) = 'object' AND jsonb_exists(item, 'template') AS by_template,
                  erased_at IS NOT NULL AS is_erased, starts, taken_until
    )
    SELECT * FROM taken ORDER BY organization_id, id
"""


def take(
    connection: psycopg.Connection,
    *,
    most: int = MOST_AT_ONCE,
    most_bytes: int = MOST_BYTES,
    now: datetime | None = None,
) -> list[Waiting]:
    """Take a page of what waits, by organizations and in each the oldest first; commit at once."""
    parameters = {
        "most": most,
        "bytes": most_bytes,
        "most_organizations": max(most, MOST_ORGANIZATIONS),
        "taken_seconds": TAKEN_SECONDS,
        "now": now,
    }
    with connection.cursor(row_factory=class_row(Waiting)) as cursor:
        return cursor.execute(TAKE, parameters).fetchall()


TAKE_AGAIN = """
    UPDATE requests
       SET starts = starts + 1,
           taken_until = (SELECT coalesce(%(now)s, clock_timestamp()))
                         + %(taken_seconds)s * interval '1 second'
     WHERE id = ANY(ARRAY(
           SELECT id
             FROM requests
            WHERE taken_until <= (SELECT coalesce(%(now)s, clock_timestamp()))
            ORDER BY taken_until
            LIMIT 1
              FOR UPDATE SKIP LOCKED))
    RETURNING id, organization_id, item::text AS text,
              jsonb_typeof(item) = 'object' AND jsonb_exists(item, 'template') AS by_template,
              erased_at IS NOT NULL AS is_erased, starts, taken_until
"""


def take_again(connection: psycopg.Connection, *, now: datetime | None = None) -> list[Waiting]:
    """Take one request, alone, if any was taken and never settled; commit at once."""
    parameters = {"taken_seconds": TAKEN_SECONDS, "now": now}
    with connection.cursor(row_factory=class_row(Waiting)) as cursor:
        return cursor.execute(TAKE_AGAIN, parameters).fetchall()


# One that had been taken before goes on being taken alone.
GIVE_BACK = """
    UPDATE requests r
       SET starts = r.starts - 1,
           taken_until = CASE WHEN r.starts > 1 THEN coalesce(%(now)s, clock_timestamp()) END
      FROM unnest(%(ids)b::uuid[], %(until)b::timestamptz[]) AS t (id, taken_until)
     WHERE r.id = t.id AND r.taken_until = t.taken_until
"""


def give_back(
    connection: psycopg.Connection, taken: Sequence[Waiting], *, now: datetime | None = None
) -> None:
    """Let others take at once what was taken and is not going to be judged."""
    connection.execute(GIVE_BACK, {**_named(taken), "now": now})


HOLD = """
    SELECT r.id
      FROM requests r
      JOIN unnest(%(ids)b::uuid[], %(until)b::timestamptz[]) AS t (id, taken_until)
        ON r.id = t.id AND r.taken_until = t.taken_until
     ORDER BY r.id
       FOR UPDATE OF r
"""


def hold(connection: psycopg.Connection, taken: Sequence[Waiting]) -> frozenset[UUID]:
    """Return which of them are still in the caller's hands; they are until its transaction ends."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        return frozenset(cursor.execute(HOLD, _named(taken)).fetchall())


def _named(taken: Sequence[Waiting]) -> dict[str, list[UUID] | list[datetime]]:
    return {"ids": [one.id for one in taken], "until": [one.taken_until for one in taken]}
