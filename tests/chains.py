"""Chains of candidates as tests take them: a parent as accept inserts it, and what becomes of each
child, by the steps that every notification takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg

from functions.core.evidence import Rank
from functions.core.outcome import Accepted, Outcome
from functions.core.policy import Suppress
from functions.store.begin import Opening
from functions.store.chain import Advanced, advance, start_first
from functions.store.claim import record_verdicts
from functions.store.close import Closing, close
from functions.store.connection import Database
from functions.store.hold import NEVER
from tests.fakes import FIRST_ORGANIZATION, Row, hash_of, moves_of, row_of
from tests.operating import report, tell
from tests.steps import begin_one, channel_of, declaration_of, lease, now_of, opening_of

ALL = ("push", "sms", "email")

KNOW = """
    INSERT INTO recipients (organization_id, recipient_id)
    VALUES (%(organization_id)s, 'customer-1')
    ON CONFLICT DO NOTHING
"""

INSERT_PARENT = """
    INSERT INTO notifications (
        id, organization_id, batch_id, channel, recipient_id, recipient_hash, content, priority,
        category, reference, metadata, send_at, expires_at, max_attempts, created_at, updated_at,
        ready, available_at, eligible_at, channels, candidate, fallback_after_seconds
    )
    SELECT uuidv7(), %(organization_id)s, %(batch_id)s, (%(channels)s::text[])[1], 'customer-1',
           %(recipient_hash)s, '"Your receipt"', 'normal', 'transactional', 'order-7',
           '{"kind": "receipt"}', %(send_at)s, %(expires_at)s, 5, t.at, t.at, false, %(never)s,
           greatest(%(send_at)s, t.at), %(channels)s, 0, %(after)s
      FROM (SELECT clock_timestamp() AS at) t
    RETURNING id
"""

CHOOSE = """
    UPDATE notifications n
       SET recipient_version = r.version, contact_hash = %s,
           decision = '{"transactional": true}'
      FROM recipients r
     WHERE n.id = %s AND r.organization_id = n.organization_id
       AND r.recipient_id = n.recipient_id
"""


def add_parent(
    owner: psycopg.Connection,
    database: Database,
    channels: Sequence[str] = ALL,
    *,
    after: float | None = None,
    send_at: datetime | None = None,
    expires_at: datetime | None = None,
    batch_id: UUID | None = None,
    now: datetime | None = None,
) -> UUID:
    """Put a parent with its first child into the queue of record, in one transaction."""
    owner.execute(KNOW, {"organization_id": FIRST_ORGANIZATION})
    parameters = {
        "organization_id": FIRST_ORGANIZATION,
        "batch_id": batch_id,
        "recipient_hash": hash_of("customer-1"),
        "channels": list(channels),
        "send_at": send_at,
        "expires_at": expires_at,
        "after": after,
        "never": NEVER,
    }

    def accept(connection: psycopg.Connection) -> UUID:
        ((id,),) = connection.execute(INSERT_PARENT, parameters).fetchall()
        start_first(connection, [id], now=now)
        return id

    return database.run(accept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A chain, as its owner looks at it and as the service moves it."""

    owner: psycopg.Connection
    database: Database
    id: UUID

    @property
    def parent(self) -> Row:
        return row_of(self.owner, self.id)

    @property
    def children(self) -> list[Row]:
        """The candidates that were started, in order."""
        statement = "SELECT id FROM notifications WHERE parent_id = %s ORDER BY candidate"
        return [row_of(self.owner, id) for (id,) in self.owner.execute(statement, [self.id])]

    @property
    def newest(self) -> Row:
        return self.children[-1]

    @property
    def standing(self) -> tuple[str, list[tuple[str, str]]]:
        """Where the parent is, and where each child is by its channel."""
        return self.parent.status, [(row.channel, row.status) for row in self.children]

    @property
    def moves(self) -> list[tuple[str, str, str, str | None]]:
        return moves_of(self.owner, self.id)

    def go_on(self, *, now: datetime | None = None) -> Advanced:
        return advance(self.database, now=now)

    def opened(self, place: int = -1, *, now: datetime | None = None) -> Opening:
        """Lease a child and open an attempt, with the address that the policy would have chosen."""
        child = self.children[place]
        leased = next(
            one
            for one in lease(self.database, channel=child.channel, now=now)
            if one.id == child.id
        )
        self.owner.execute(CHOOSE, [hash_of(child.channel), child.id])
        opening = opening_of(leased)
        assert begin_one(self.database, opening, now=now).verdict == "go"
        return opening

    def closed(
        self,
        outcome: Outcome,
        *,
        place: int = -1,
        opening: Opening | None = None,
        keyed: bool = True,
        now: datetime | None = None,
    ) -> str | None:
        """Let the attempt of a child come to ``outcome``; return where the child is."""
        opening = opening or self.opened(place, now=now)
        closing = Closing(
            id=opening.id,
            lease_number=opening.lease_number,
            token=opening.token,
            outcome=outcome,
            again_seconds=60.0,
        )
        row = row_of(self.owner, opening.id)
        answers = close(
            self.database,
            [closing],
            channel=channel_of(self.database, row.channel),
            declaration=declaration_of("http" if keyed else "http_keyless"),
            now=now,
        )
        return answers[opening.id].status

    def accepted(self, place: int = -1, *, now: datetime | None = None) -> UUID:
        """Let the provider accept a child; return its id."""
        id = self.children[place].id
        assert self.closed(Accepted(reference=f"m-{id}"), place=place, now=now) == "submitted"
        return id

    def told(self, place: int, rank: Rank = Rank.DELIVERED, **more: Any) -> None:
        """Let a report about a child come in."""
        tell(self.database, report(self.children[place].id, rank, **more))

    def suppressed(self, reason: str = "opted_out", place: int = -1) -> None:
        """Let the policy decide against a child."""
        child = self.children[place]
        leased = [one for one in lease(self.database, channel=child.channel) if one.id == child.id]
        record_verdicts(self.database, [(row, Suppress(reason=reason)) for row in leased])

    def later(self, **by: float) -> datetime:
        return now_of(self.owner, **by)


def story(
    owner: psycopg.Connection, database: Database, channels: Sequence[str] = ALL, **intent: Any
) -> Story:
    """Begin the story of a parent."""
    return Story(owner=owner, database=database, id=add_parent(owner, database, channels, **intent))
