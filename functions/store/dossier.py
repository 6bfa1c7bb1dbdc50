"""Everything there is about a notification, for an operator: whichever organization's it is."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row, scalar_row

from functions.store.browse import SAME_MOMENT, History, history_of
from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAction:
    """What an operator did."""

    id: UUID
    at: datetime
    actor: str
    command: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPolicy:
    """The numbers of its channel that decide what happens next."""

    paused_at: datetime | None
    provider: str
    unknown_policy: str
    cutoff_seconds: float
    max_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """A notification's history, who moved it by hand, and what its channel would do next."""

    history: History
    operator_actions: list[OperatorAction]
    channel: ChannelPolicy
    now: datetime
    """The database's clock when it was read."""


READ_OWNER = """
    SELECT organization_id FROM notifications WHERE id = %(notification_id)s
"""

READ_ACTIONS = """
    SELECT id, at, actor, command, arguments
      FROM operator_actions
     WHERE id = ANY(%(ids)s)
     ORDER BY id
"""

READ_POLICY = """
    SELECT paused_at, provider, unknown_policy, cutoff_seconds, max_attempts
      FROM channels
     WHERE name = %(channel)s
"""

READ_CLOCK = "SELECT clock_timestamp()"


def read_dossier(database: Database, *, notification_id: UUID) -> Dossier | None:
    """Return what there is about ``notification_id``; None when there is no such notification."""

    def work(connection: psycopg.Connection) -> Dossier | None:
        connection.execute(SAME_MOMENT)
        with connection.cursor(row_factory=scalar_row) as cursor:
            owner = cursor.execute(READ_OWNER, {"notification_id": notification_id}).fetchone()
            (now,) = cursor.execute(READ_CLOCK).fetchall()
        if owner is None:
            return None
        history = history_of(connection, organization_id=owner, notification_id=notification_id)
        if history is None:
            return None
        ids = [one.operator_action_id for one in history.transitions if one.operator_action_id]
        with (
            connection.cursor(row_factory=class_row(OperatorAction)) as actions,
            connection.cursor(row_factory=class_row(ChannelPolicy)) as policies,
        ):
            (policy,) = policies.execute(
                READ_POLICY, {"channel": history.notification.channel}
            ).fetchall()
            return Dossier(
                history=history,
                operator_actions=actions.execute(READ_ACTIONS, {"ids": ids}).fetchall(),
                channel=policy,
                now=now,
            )

    return database.run(work)
