"""An operator in a test: the console as deployed, its queues on moto, the log-in of its role."""

import dataclasses
import importlib
import itertools
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import psycopg
import pytest
from moto import mock_aws
from psycopg import sql

from functions.console import console
from functions.console.command import Equipment
from functions.core.login import Login
from functions.core.message import LeaseMessage
from functions.core.states import Channel
from functions.runtime.dead_letter import DeadLetters, client
from functions.store.connection import Database, connector
from tests.function_process import HASH_ARN, WEBHOOK_ARN, environment_of
from tests.reports import HASH_KEY

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

ACTOR = "ada@laptop"
_numbers = itertools.count(1)


def operator_login(login: Login) -> Login:
    """Return how the console logs in to the same database."""
    return dataclasses.replace(login, user="sendoff_operator")


def asked(command: str, actor: str = ACTOR, **arguments: Any) -> dict[str, Any]:
    """Return the event of a command."""
    return {"v": 1, "command": command, "arguments": arguments, "actor": actor}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Somebody who invokes ``handler``."""

    handler: Callable[[Any, Any], dict[str, Any]]

    def answer(self, event: Any) -> dict[str, Any]:
        return self.handler(event, SimpleNamespace())

    def ask(self, command: str, **arguments: Any) -> Any:
        """Return the result of a command that is not refused."""
        answer = self.answer(asked(command, **arguments))
        assert answer["ok"], answer
        return answer["result"]

    def refusal(self, command: str, **arguments: Any) -> tuple[str, str]:
        """Return code and sentence of a command that is refused."""
        answer = self.answer(asked(command, **arguments))
        assert not answer["ok"], answer
        return answer["code"], answer["detail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    """The dead-letter queues of a test, on moto; ``urls`` by channel."""

    sqs: "SQSClient"
    urls: Mapping[str, str]

    def put(self, *bodies: str, channel: str = "email") -> list[str]:
        """Put messages on a dead-letter queue; return their message ids."""
        url = self.urls[channel]
        return [
            self.sqs.send_message(QueueUrl=url, MessageBody=body)["MessageId"] for body in bodies
        ]

    def visible(self, channel: str = "email") -> int:
        """Return how many messages of the queue everybody can see."""
        name = "ApproximateNumberOfMessages"
        answer = self.sqs.get_queue_attributes(QueueUrl=self.urls[channel], AttributeNames=[name])
        return int(answer["Attributes"][name])


@contextmanager
def queues(environment: pytest.MonkeyPatch) -> Generator[Queues]:
    """Yield empty dead-letter queues; whoever makes a client within the block reaches them."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        environment.setenv(name, "testing")
    environment.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with mock_aws():
        sqs = client()
        urls = {
            str(channel): sqs.create_queue(QueueName=f"sendoff-{channel}-dlq")["QueueUrl"]
            for channel in Channel
        }
        yield Queues(sqs=sqs, urls=urls)


def console_environment(login: Login, urls: Mapping[str, str], **more: str) -> dict[str, str]:
    """Return the environment of the console."""
    return environment_of(
        operator_login(login),
        HASH_SECRET_ARN=HASH_ARN,
        WEBHOOK_SECRET_ARN=WEBHOOK_ARN,
        **{f"{channel}_DEAD_LETTERS_URL".upper(): url for channel, url in urls.items()},
        **more,
    )


@contextmanager
def deployed(
    environment: pytest.MonkeyPatch, login: Login, urls: Mapping[str, str]
) -> Generator[Operator]:
    """Yield somebody who invokes the handler, imported for this test as on a cold start."""
    # A logger is known by its service, and keeps the output it was made with.
    service = f"sendoff-{next(_numbers)}"
    for name, value in console_environment(login, urls, SERVICE=service).items():
        environment.setenv(name, value)
    sys.modules.pop("functions.console.main", None)
    module = importlib.import_module("functions.console.main")
    environment.delitem(sys.modules, "functions.console.main")
    try:
        yield Operator(handler=module.handler)
    finally:
        module.equipment.database.close()


@contextmanager
def operator_database(login: Login) -> Generator[Database]:
    """Yield the database as the console sees it."""
    who = operator_login(login)
    database = Database(connector(lambda: who, application_name="console"))
    yield database
    database.close()


@contextmanager
def losing_commit(login: Login, *, number: int) -> Generator[Database]:
    """Yield the console's database; its COMMIT of this number arrives, and the answer does not."""
    who, commits = operator_login(login), itertools.count(1)

    class Losing(psycopg.Connection):
        @contextmanager
        def transaction(
            self, savepoint_name: str | None = None, force_rollback: bool = False
        ) -> Generator[psycopg.Transaction]:
            with super().transaction(savepoint_name, force_rollback) as transaction:
                yield transaction
            if next(commits) == number:
                self.close()
                raise psycopg.OperationalError("the connection was lost")

    database = Database(
        lambda: Losing.connect(
            host=who.host, port=who.port, dbname=who.name, user=who.user, autocommit=True
        )
    )
    try:
        yield database
    finally:
        database.close()


def operator_with(
    database: Database,
    sqs: Any,
    urls: Mapping[str, str],
    *,
    webhook_masters: Callable[[], Sequence[str]] = lambda: (),
) -> Operator:
    """Return somebody whose console works with this ``database``, these queues and secrets."""
    equipment = Equipment(
        database=database,
        dead_letters=DeadLetters(cast("SQSClient", sqs), urls, wait_seconds=0),
        hash_key=lambda: HASH_KEY,
        webhook_masters=webhook_masters,
    )

    def handler(event: Any, context: Any) -> dict[str, Any]:
        del context
        return console.answer(console.read(event), equipment).body

    return Operator(handler=handler)


def letter(id: UUID, *, lease: int = 1, channel: Channel = Channel.EMAIL) -> str:
    """Return the body of a message that the claim put on the queue of ``channel``."""
    return LeaseMessage(id=id, lease_number=lease, channel=channel).dumps()


def arrange(owner: psycopg.Connection, id: UUID, **columns: Any) -> UUID:
    """Put a notification where a test needs it, column by column; return its id."""
    sets = sql.SQL(", ").join(
        sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in columns
    )
    statement = sql.SQL("UPDATE notifications SET {} WHERE id = %(which)s").format(sets)
    owner.execute(statement, {**columns, "which": id})
    return id


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One row of the audit."""

    id: UUID
    actor: str
    command: str
    arguments: dict[str, Any]
    result: dict[str, Any]


def audit(owner: psycopg.Connection) -> list[Kept]:
    """Return what operators did, in order."""
    statement = "SELECT id, actor, command, arguments, result FROM operator_actions ORDER BY id"
    return [
        Kept(id=id, actor=actor, command=command, arguments=arguments, result=result)
        for id, actor, command, arguments, result in owner.execute(statement)
    ]
