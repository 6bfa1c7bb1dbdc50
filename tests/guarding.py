"""SMS of an organization, leased as the claim leases them, and the guard that rules on them."""

import dataclasses
import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID

import psycopg

from functions.core.login import Login
from functions.core.policy import Verdict
from functions.store.claim import NO_ORGANIZATION, Leased, lease_page, record_verdicts
from functions.store.connection import Database, connector
from functions.store.guard import guard
from tests.fakes import FIRST_ORGANIZATION, hash_of

PAGE = 100
D = TypeVar("D", bound=Database)


class LosesFirstCommit(psycopg.Connection):
    """A connection whose first COMMIT arrives, and whose answer does not."""

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Generator[psycopg.Transaction]:
        with super().transaction(savepoint_name, force_rollback) as transaction:
            yield transaction
        self.close()
        raise psycopg.OperationalError("the connection was lost")


@contextmanager
def losing_its_first_commit(login: Login) -> Generator[Database]:
    """Yield a database whose first COMMIT arrives, and whose answer does not."""
    kinds: list[type[psycopg.Connection]] = [LosesFirstCommit]

    def connect() -> psycopg.Connection:
        return (kinds.pop() if kinds else psycopg.Connection).connect(
            host=login.host, port=login.port, dbname=login.name, user=login.user, autocommit=True
        )

    database = Database(connect)
    try:
        yield database
    finally:
        database.close()


@contextmanager
def connected(
    login: Login, *, user: str = "sendoff_service", kind: type[D] = Database
) -> Generator[D]:
    """Yield the database as ``user`` sees it, by a connection of its own."""
    who = dataclasses.replace(login, user=user)
    database = kind(connector(lambda: who, application_name="guarding"))
    try:
        yield database
    finally:
        database.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """An SMS that somebody asks for."""

    recipient: str
    country: str | None
    at: datetime
    content: str = "Your code is 123456."
    organization_id: UUID = FIRST_ORGANIZATION


INSERT_TEXTS = """
    INSERT INTO notifications (id, organization_id, channel, recipient, recipient_hash, content,
                               priority, category, metadata, max_attempts, created_at, ready,
                               available_at, eligible_at, updated_at, country)
    SELECT uuidv7(), t.organization_id, 'sms', t.recipient, t.recipient_hash, t.content::jsonb,
           'normal', 'transactional', '{}', 5, t.at, true, t.at, t.at, t.at, t.country
      FROM unnest(%(organizations)s::uuid[], %(recipients)s::text[], %(hashes)s::bytea[],
                  %(contents)s::text[], %(times)s::timestamptz[], %(countries)s::text[])
           WITH ORDINALITY
           AS t (organization_id, recipient, recipient_hash, content, at, country, place)
     ORDER BY t.place
    RETURNING id
"""


def add_texts(owner: psycopg.Connection, texts: Sequence[Text]) -> list[UUID]:
    """Put SMS into the queue of record, ready, as accept would; return their ids in order."""
    parameters = {
        "organizations": [text.organization_id for text in texts],
        "recipients": [text.recipient for text in texts],
        "hashes": [hash_of(text.recipient) for text in texts],
        "contents": [json.dumps(text.content) for text in texts],
        "times": [text.at for text in texts],
        "countries": [text.country for text in texts],
    }
    return [row[0] for row in owner.execute(INSERT_TEXTS, parameters)]


def some_texts(
    count: int,
    *,
    at: datetime,
    country: str | None = "FR",
    stem: str = "+336123",
    step: timedelta = timedelta(0),
    first: int = 0,
    organization_id: UUID = FIRST_ORGANIZATION,
) -> list[Text]:
    """Return ``count`` SMS, each to another number that begins with ``stem``, ``step`` apart."""
    return [
        Text(
            recipient=f"{stem}{first + number:05}",
            country=country,
            at=at + step * number,
            organization_id=organization_id,
        )
        for number in range(count)
    ]


def leased_texts(database: Database, *, now: datetime, page: int = PAGE) -> list[Leased]:
    """Lease a page of SMS."""
    return lease_page(
        database,
        channel="sms",
        priority="normal",
        page=page,
        after=NO_ORGANIZATION,
        lease_seconds=60,
        leased_by="test",
        now=now,
    ).leased


def ruled(database: Database, *, now: datetime, page: int = PAGE) -> list[tuple[Leased, Verdict]]:
    """Lease a page of SMS and let the guard rule on it; store what is deferred or suppressed."""
    leased = leased_texts(database, now=now, page=page)
    verdicts = list(zip(leased, guard(database, leased, now=now), strict=True))
    record_verdicts(database, verdicts, now=now)
    return verdicts


def names_of(verdicts: Iterable[tuple[Leased, Verdict]]) -> list[str]:
    return [verdict.name for _, verdict in verdicts]


SENT = """
    UPDATE notifications
       SET status = 'submitted', lease_until = NULL, evidence_rank = 1, evidence_at = %(now)s,
           evidence_key = 'test', submitted_at = %(now)s
     WHERE status = 'leased' AND channel = 'sms'
"""


def all_are_sent(owner: psycopg.Connection, *, now: datetime) -> None:
    """Let everything that is leased have been sent."""
    owner.execute(SENT, {"now": now})


def usual_weeks(
    database: Database,
    owner: psycopg.Connection,
    *,
    until: datetime,
    days: int = 10,
    a_day: int = 40,
    organization_id: UUID = FIRST_ORGANIZATION,
) -> None:
    """Let ``days`` of ordinary traffic go by: three quarters to France, the rest to Germany."""
    for day in range(days, 0, -1):
        at = until - timedelta(days=day) + timedelta(hours=1)
        german = a_day // 4
        texts = some_texts(
            a_day - german, at=at, first=day * 1000, organization_id=organization_id
        ) + some_texts(
            german, at=at, country="DE", stem="+49151", first=day * 1000,
            organization_id=organization_id,
        )  # fmt: skip
        add_texts(owner, texts)
        assert set(names_of(ruled(database, now=at, page=a_day))) == {"allow"}
        all_are_sent(owner, now=at)
