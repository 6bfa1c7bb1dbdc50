"""The doors to ingest besides the API: a payment's own transaction, events, schedules, drains."""

import dataclasses
import io
import itertools
import json
import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from aws_lambda_powertools import Logger
from psycopg import sql
from psycopg.rows import scalar_row

from functions.core.login import Login
from functions.ingest.api import Handler
from functions.ingest.deployment import Deployment
from functions.ingest.dispatch import dispatching
from functions.store.connection import Database
from tests.api import HASH_KEY, LOCAL_ORIGIN, recorded, start
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION

_numbers = itertools.count(1)

RECEIPT: dict[str, Any] = recorded("ingest.payment_settled")["detail"]["notifications"][0]
"""The item by which every door asks for the receipt of one payment."""


def add_organizations(owner: psycopg.Connection) -> None:
    owner.execute(
        "INSERT INTO organizations (id, name) VALUES (%s, 'first'), (%s, 'second')",
        [FIRST_ORGANIZATION, SECOND_ORGANIZATION],
    )


ENQUEUE = "SELECT enqueue_notification(%s, %s::jsonb)"


def enqueue(
    connection: psycopg.Connection, item: Any, organization_id: UUID | None = FIRST_ORGANIZATION
) -> UUID:
    """Ask for a notification as part of the caller's transaction; return the id it will have."""
    text = item if isinstance(item, str) else json.dumps(item)
    with connection.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(ENQUEUE, [organization_id, text]).fetchall()[0]


@contextmanager
def producing(owner: psycopg.Connection, login: Login) -> Generator[psycopg.Connection]:
    """Yield a connection of an application that was granted the role of producers."""
    name = f"billing_{login.name}"
    role = sql.Identifier(name)
    owner.execute(sql.SQL("CREATE ROLE {} LOGIN IN ROLE sendoff_producer").format(role))
    try:
        with psycopg.connect(
            host=login.host, port=login.port, dbname=login.name, user=name
        ) as connection:
            yield connection
    finally:
        owner.execute(sql.SQL("DROP OWNED BY {}").format(role))
        owner.execute(sql.SQL("DROP ROLE {}").format(role))


def deployment_of(database: Database) -> Deployment:
    return Deployment(
        database=database, hash_key=lambda: HASH_KEY, local_webhook_origin=LOCAL_ORIGIN
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a handler reads of its invocation."""

    aws_request_id: str = "8f507cfc-7c1e-4f6e-9a53-3b2a3cf0a001"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """The function ingest as everything but HTTP reaches it."""

    handler: Handler
    log: io.StringIO
    metrics: list[dict[str, float]] = field(default_factory=list[dict[str, float]])

    def invoke(self, event: Any, context: Context | None = None) -> dict[str, Any]:
        return self.handler(event, context or Context())

    def drain(self) -> dict[str, Any]:
        return self.invoke(recorded("ingest.drain"))

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


def doors_of(database: Database) -> Doors:
    """Return the function over ``database``, with the API behind it as well."""
    log = io.StringIO()
    logger = Logger(service=f"doors-{next(_numbers)}", logger_handler=logging.StreamHandler(log))
    metrics: list[dict[str, float]] = []

    def emit(values: Any, **dimensions: str) -> None:
        assert dimensions == {}
        metrics.append({str(name): value for name, value in values.items()})

    handler = dispatching(
        start(database).handler,
        deployment=deployment_of(database),
        logger=logger,
        emit_metrics=emit,
    )
    return Doors(handler=handler, log=log, metrics=metrics)


def payment_settled(*items: Any, id: str | None = None, **detail: Any) -> dict[str, Any]:
    """Return the recorded event, with other items, another id, or other members of its detail."""
    event = recorded("ingest.payment_settled")
    if items:
        event["detail"]["notifications"] = list(items)
    event["detail"].update(detail)
    return event | ({"id": id} if id else {})


def values(owner: psycopg.Connection, statement: LiteralString, *arguments: Any) -> list[Any]:
    """Return the first column of what ``statement`` gives."""
    with owner.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(statement, arguments).fetchall()


def ids_of(owner: psycopg.Connection) -> list[UUID]:
    return values(owner, "SELECT id FROM notifications ORDER BY id")


def requests_of(owner: psycopg.Connection) -> list[tuple[UUID, bool, UUID | None, Any]]:
    """Return (id, whether it waits, what it repeats, its faults) of each request that is kept."""
    statement = "SELECT id, drained_at IS NULL, repeats, faults FROM requests ORDER BY id"
    return owner.execute(statement).fetchall()


def lapse(owner: psycopg.Connection) -> None:
    """End the time of whoever has requests in hand, once the server holds nothing for the dead."""
    owner.execute("SELECT FROM requests FOR UPDATE")
    owner.execute("UPDATE requests SET taken_until = now() WHERE taken_until IS NOT NULL")


def pointers(faults: Sequence[dict[str, str]]) -> list[tuple[str, str]]:
    return [(fault["pointer"], fault["code"]) for fault in faults]


def other(login: Login, user: str) -> Login:
    return dataclasses.replace(login, user=user)
