"""Everything there is about a notification, for an operator: whichever organization's it is."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row, dict_row, scalar_row

from functions.store.browse import SAME_MOMENT, History, history_of
from functions.store.bucket import RECOVERY_SECONDS
from functions.store.chain_story import Delivery, Link, deliveries_of, links_of
from functions.store.connection import Database
from functions.store.contact_fact import SuppressedPoint, suppressed_points_of
from functions.store.decided import Decided, decided_of


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
    fallback_provider: str | None
    retries: bool
    unknown_policy: str
    cutoff_seconds: float
    max_attempts: int
    waiting_limit_seconds: float
    endpoint_concurrency: int
    share_of_rate: float
    slowed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """A breaker that is open and concerns the notification."""

    provider: str
    scope: str
    key: str
    opened_at: datetime
    code: str | None
    probe_at: datetime
    is_probed_by_it: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Its endpoint, which fails, or is paused or disabled."""

    origin: str
    failures: int
    failing_since: datetime | None
    code: str | None
    paused_at: datetime | None
    disabled_at: datetime | None
    probe_at: datetime | None
    is_probed_by_it: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The hold it waits under."""

    id: UUID
    kind: str
    key: str
    today: int
    usual: float
    opened_at: datetime
    released_at: datetime | None
    discarded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """Why its recipient is not to be written to."""

    reason: str
    source: str
    category: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Where it goes next, and what lies there."""

    country: str | None
    stream: str
    stream_paused_at: datetime | None
    next_provider: str | None
    waiting_since: datetime | None
    breakers: list[Breaker]
    endpoint: Endpoint | None
    hold: Hold | None
    suppression: Suppression | None
    suppressed_points: list[SuppressedPoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """A notification's history, what was decided of it, who moved it by hand, what its channel
    would do next, and what lies in its way."""

    history: History
    decided: Decided
    operator_actions: list[OperatorAction]
    channel: ChannelPolicy
    way: Way
    links: list[Link]
    deliveries: list[Delivery]
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
    SELECT paused_at, provider, fallback_provider, retries, unknown_policy, cutoff_seconds,
           max_attempts, waiting_limit_seconds, endpoint_concurrency, slowed_at,
           least(1, slow_factor * 2 ^ least(64, greatest(0, coalesce(
                    extract(epoch FROM clock_timestamp() - slowed_at), 0))
                    / %(recovery_seconds)s))::float8 AS share_of_rate
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
        row = history.notification
        chain = notification_id if row.channels else row.parent_id
        ids = [one.operator_action_id for one in history.transitions if one.operator_action_id]
        channel = {
            "channel": row.channel,
            "recovery_seconds": RECOVERY_SECONDS,
        }
        with (
            connection.cursor(row_factory=class_row(OperatorAction)) as actions,
            connection.cursor(row_factory=class_row(ChannelPolicy)) as policies,
        ):
            (policy,) = policies.execute(READ_POLICY, channel).fetchall()
            return Dossier(
                history=history,
                decided=decided_of(connection, notification_id),
                operator_actions=actions.execute(READ_ACTIONS, {"ids": ids}).fetchall(),
                channel=policy,
                way=_way_of(connection, notification_id),
                links=links_of(connection, chain) if chain else [],
                deliveries=deliveries_of(connection, chain) if chain and row.channels else [],
                now=now,
            )

    return database.run(work)


READ_WAY = """
    SELECT n.country, n.stream, s.paused_at AS stream_paused_at, n.next_provider, n.waiting_since
      FROM notifications n
      LEFT JOIN streams s ON s.channel = n.channel AND s.name = n.stream
     WHERE n.id = %(notification_id)s
"""

# At most three for each provider of its channel.
READ_BREAKERS = """
    SELECT b.provider, b.scope, b.key, b.opened_at, b.code, b.probe_at,
           coalesce(b.probe_id = n.id, false) AS is_probed_by_it
      FROM notifications n
      JOIN breakers b
        ON b.channel = n.channel AND b.opened_at IS NOT NULL
       AND b.key = CASE b.scope WHEN 'provider' THEN b.provider
                                WHEN 'sender_identity' THEN n.stream
                                ELSE n.country END
     WHERE n.id = %(notification_id)s
     ORDER BY b.provider, b.opened_at, b.scope
"""

READ_ENDPOINT = """
    SELECT e.origin, e.failures, e.failing_since, e.code, e.paused_at, e.disabled_at, e.probe_at,
           coalesce(e.probe_id = n.id, false) AS is_probed_by_it
      FROM notifications n
      JOIN endpoints e ON e.organization_id = n.organization_id AND e.origin = n.origin
     WHERE n.id = %(notification_id)s
       AND (e.failures > 0 OR e.paused_at IS NOT NULL OR e.disabled_at IS NOT NULL)
"""

READ_HOLD = """
    SELECT h.id, h.kind, h.key, h.today, h.usual, h.opened_at, h.released_at, h.discarded
      FROM notifications n
      JOIN holds h ON h.id = n.hold_id
     WHERE n.id = %(notification_id)s
"""

# Live as for whom opens an attempt: the newest fact of each category, and of those the newest.
READ_SUPPRESSION = """
    SELECT f.reason, f.source, f.category, f.created_at
      FROM (SELECT DISTINCT ON (s.category) s.*
              FROM notifications n
              JOIN suppressions s
                ON s.organization_id = n.organization_id AND s.channel = n.channel
               AND s.recipient_hash = n.address_hash
               AND (s.category IS NULL OR s.category = n.category)
               AND NOT (s.source = 'unsubscribe' AND n.stream = 'transactional')
             WHERE n.id = %(notification_id)s
             ORDER BY s.category, s.id DESC) f
     WHERE f.kind = 'suppress'
     ORDER BY f.id DESC
     LIMIT 1
"""


def _way_of(connection: psycopg.Connection, notification_id: UUID) -> Way:
    """Return its way, as part of the caller's transaction: a handful of rows, each by its key."""
    which = {"notification_id": notification_id}
    with (
        connection.cursor(row_factory=dict_row) as ways,
        connection.cursor(row_factory=class_row(Breaker)) as breakers,
        connection.cursor(row_factory=class_row(Endpoint)) as endpoints,
        connection.cursor(row_factory=class_row(Hold)) as holds,
        connection.cursor(row_factory=class_row(Suppression)) as suppressions,
    ):
        (way,) = ways.execute(READ_WAY, which).fetchall()
        return Way(
            **way,
            breakers=breakers.execute(READ_BREAKERS, which).fetchall(),
            endpoint=endpoints.execute(READ_ENDPOINT, which).fetchone(),
            hold=holds.execute(READ_HOLD, which).fetchone(),
            suppression=suppressions.execute(READ_SUPPRESSION, which).fetchone(),
            suppressed_points=suppressed_points_of(connection, notification_id),
        )
