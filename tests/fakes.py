"""Fakes with state, and the shortest way to put a notification where a test needs it."""

import hashlib
import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from functions.core.message import LeaseMessage
from functions.runtime.queue import Queues
from functions.store.connection import Database

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

T = TypeVar("T")

INSERT_NOTIFICATION = """
    INSERT INTO notifications (id, organization_id, channel, recipient, recipient_hash, content,
                               priority, category, event_id, metadata, max_attempts, created_at,
                               ready, available_at, eligible_at, updated_at, expires_at)
    SELECT uuidv7(), %(organization_id)s, %(channel)s, %(recipient)s, %(recipient_hash)s,
           %(content)s::jsonb, %(priority)s, %(category)s, NULL, '{}', %(max_attempts)s, t.now,
           %(delay_seconds)s <= 0, t.now + %(delay_seconds)s * interval '1 second',
           t.now + %(delay_seconds)s * interval '1 second', t.now,
           t.now + %(expires_in_seconds)s * interval '1 second'
      FROM generate_series(1, %(count)s), (SELECT clock_timestamp() AS now) t
    RETURNING id
"""

FIRST_ORGANIZATION = UUID("01900000-0000-7000-8000-000000000001")
SECOND_ORGANIZATION = UUID("01900000-0000-7000-8000-000000000002")


def hash_of(recipient: str) -> bytes:
    return hashlib.sha256(recipient.encode()).digest()


def add_notifications(
    owner: psycopg.Connection,
    count: int = 1,
    *,
    organization_id: UUID = FIRST_ORGANIZATION,
    channel: str = "email",
    recipient: str = "ok@example.com",
    content: Any = "Your receipt",
    priority: str = "normal",
    category: str = "transactional",
    max_attempts: int = 5,
    delay_seconds: float = 0,
    expires_in_seconds: float | None = None,
) -> list[UUID]:
    """Put ``count`` pending notifications into the queue of record, as accept would."""
    parameters = {
        "organization_id": organization_id,
        "channel": channel,
        "recipient": recipient,
        "recipient_hash": hash_of(recipient),
        "content": json.dumps(content),
        "priority": priority,
        "category": category,
        "max_attempts": max_attempts,
        "delay_seconds": delay_seconds,
        "expires_in_seconds": expires_in_seconds,
        "count": count,
    }
    return [row[0] for row in owner.execute(INSERT_NOTIFICATION, parameters)]


INSERT_SUPPRESSION = """
    INSERT INTO suppressions (organization_id, channel, recipient, recipient_hash, category, kind,
                              reason, source, source_at)
    VALUES (%(organization_id)s, %(channel)s, %(recipient)s, %(recipient_hash)s, %(category)s,
            %(kind)s, 'operator', 'test', clock_timestamp())
"""


def add_suppression_fact(
    owner: psycopg.Connection,
    *,
    kind: str = "suppress",
    organization_id: UUID = FIRST_ORGANIZATION,
    channel: str = "email",
    recipient: str = "ok@example.com",
    category: str | None = None,
) -> None:
    """State that the address is suppressed, or that its suppression was lifted (kind ``lift``)."""
    parameters = {
        "organization_id": organization_id,
        "channel": channel,
        "recipient": recipient,
        "recipient_hash": hash_of(recipient),
        "category": category,
        "kind": kind,
    }
    owner.execute(INSERT_SUPPRESSION, parameters)


@dataclass(frozen=True, slots=True)
class Row:
    """A notification as the database has it; columns by name."""

    columns: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        return self.columns[name]


def moves_of(owner: psycopg.Connection, id: UUID) -> list[tuple[str, str, str, str | None]]:
    """Return (actor, from, to, reason) of each transition of the notification, in order."""
    statement = """
        SELECT actor, from_status, to_status, reason
          FROM transitions
         WHERE notification_id = %s
         ORDER BY id
    """
    return owner.execute(statement, [id]).fetchall()


def row_of(owner: psycopg.Connection, id: UUID, table: str = "notifications") -> Row:
    """Return the row ``id`` of ``table``."""
    statement = sql.SQL("SELECT * FROM {} WHERE id = %s").format(sql.Identifier(table))
    cursor = owner.execute(statement, [id])
    found = cursor.fetchone()
    assert found is not None, f"there is no {id} in {table}"
    return Row(dict(zip([column.name for column in cursor.description or ()], found, strict=True)))


class HeldDatabase(Database):
    """Keeps the transaction of a piece of work open, locks and all, until the test ends it."""

    def run(self, work: Callable[[psycopg.Connection], T], *, pipelined: bool = False) -> T:
        del pipelined
        connection = self._open()
        if connection.info.transaction_status == TransactionStatus.IDLE:
            connection.execute("BEGIN")
        return work(connection)

    def commit(self) -> None:
        self._open().execute("COMMIT")

    def rollback(self) -> None:
        self._open().execute("ROLLBACK")


class Killed(BaseException):
    """Stands for the end of the process: nothing of the product catches it."""


@dataclass(slots=True)
class FakeSqs:
    """SQS as the claim uses it: remembers what was put on which queue.

    ``refuse`` names notifications whose entries are refused. ``die_before`` is raised before the
    messages of a call are kept, ``die_after`` when they are, in place of the answer.
    """

    messages: dict[str, list[LeaseMessage]] = field(default_factory=dict[str, list[LeaseMessage]])
    refuse: set[UUID] = field(default_factory=set[UUID])
    die_before: BaseException | None = None
    die_after: BaseException | None = None

    def send_message_batch(
        self,
        *,
        QueueUrl: str,
        Entries: list[dict[str, str]],
    ) -> dict[str, Any]:
        if self.die_before is not None:
            raise self.die_before
        successful: list[dict[str, str]] = []
        failed: list[dict[str, str]] = []
        for entry in Entries:
            message = LeaseMessage.loads(entry["MessageBody"])
            if message.id in self.refuse:
                failed.append({"Id": entry["Id"], "Code": "InternalError"})
            else:
                self.messages.setdefault(QueueUrl, []).append(message)
                successful.append({"Id": entry["Id"]})
        if self.die_after is not None:
            raise self.die_after
        return {"Successful": successful, "Failed": failed}

    def ids(self, channel: str = "email") -> list[UUID]:
        """Return the notifications on the queue of ``channel``, in the order they were put."""
        return [message.id for message in self.messages.get(channel, [])]


def queues_of(sqs: FakeSqs) -> Queues:
    """Return the product's queues on ``sqs``; each queue's address is its channel's name."""
    urls = {channel: channel for channel in ("email", "sms", "push", "webhook")}
    return Queues(cast("SQSClient", sqs), urls)


STOPPABLE_CLOCK = """
    CREATE SCHEMA stoppable;
    GRANT USAGE ON SCHEMA stoppable TO sendoff_service;
    CREATE FUNCTION stoppable.clock_timestamp() RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock_shared(1);
        RETURN pg_catalog.clock_timestamp();
    END
    $$
"""


@contextmanager
def stopped_clock(owner: psycopg.Connection, name: str) -> Generator[None]:
    """Stop every statement of the service role where it reads the database's clock.

    That is after it took its snapshot and before it locks a row: what the block commits falls into
    exactly that gap. Concerns connections opened by the role within the block to database ``name``.
    """
    owner.execute(STOPPABLE_CLOCK)
    path = sql.SQL(
        "ALTER ROLE sendoff_service IN DATABASE {} SET search_path = stoppable, public, pg_catalog"
    )
    owner.execute(path.format(sql.Identifier(name)))
    owner.execute("SELECT pg_advisory_lock(1)")
    try:
        yield
    finally:
        owner.execute("SELECT pg_advisory_unlock_all()")
