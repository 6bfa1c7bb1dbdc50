"""What operators do is kept: a row per command, written in the transaction of its effect."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import scalar_row
from psycopg.types.json import Jsonb

from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A command as an operator gave it; ``arguments`` hold no address, content or secret."""

    id: UUID
    actor: str
    command: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What a command came to for one notification, in a word."""

    id: UUID
    fate: str
    candidate_id: UUID | None = None
    """Of a notification by several channels: its newest candidate, which is what was sent."""


NEXT_ACTION_ID = "SELECT uuidv7()"


def new_action(
    database: Database, *, actor: str, command: str, arguments: dict[str, Any]
) -> Action:
    """Return the action that is about to be taken: the transitions it makes carry its id."""

    def next_id(connection: psycopg.Connection) -> UUID:
        with connection.cursor(row_factory=scalar_row) as cursor:
            (action_id,) = cursor.execute(NEXT_ACTION_ID).fetchall()
            return action_id

    return Action(id=database.run(next_id), actor=actor, command=command, arguments=arguments)


RESULT_OF = """
    SELECT result FROM operator_actions WHERE id = %(id)s
"""


def result_of(connection: psycopg.Connection, action: Action) -> dict[str, Any] | None:
    """Return what ``action`` came to, None while it is not done.

    A command whose COMMIT's answer was lost is repeated: it finds itself, and its first result
    stands. A second look at its own work would tell the operator that somebody else had done it.
    """
    with connection.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(RESULT_OF, {"id": action.id}).fetchone()


RECORD_ACTION = """
    INSERT INTO operator_actions (id, at, actor, command, arguments, result)
    VALUES (%(id)s, coalesce(%(now)s, clock_timestamp()), %(actor)s, %(command)s, %(arguments)s,
            %(result)s)
    ON CONFLICT (id) DO NOTHING
"""


def record_action(
    connection: psycopg.Connection,
    action: Action,
    *,
    result: dict[str, Any],
    now: datetime | None = None,
) -> None:
    """Keep ``action`` and what came of it, once, as part of the caller's transaction."""
    parameters = {
        "id": action.id,
        "actor": action.actor,
        "command": action.command,
        "arguments": Jsonb(action.arguments),
        "result": Jsonb(result),
        "now": now,
    }
    connection.execute(RECORD_ACTION, parameters)
