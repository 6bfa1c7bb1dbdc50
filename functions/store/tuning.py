"""What operators see and change of channels and their streams at run time, kept in the audit.

Changing needs the operators' role. A change is checked against the locked row as it would become,
so that two changes at once cannot add up to what neither asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar

import psycopg
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from functions.core.errors import NotFound
from functions.store.action import Action, record_action, result_of
from functions.store.bucket import RECOVERY_SECONDS
from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelTuning:
    """What may be changed of a channel, column by column, but for ``paused``; and
    ``lease_seconds``, which the deployment alone sets, for what has to fit into it.
    """

    provider: str
    provider_url: str | None
    fallback_provider: str | None
    fallback_provider_url: str | None
    rate: float
    burst: float
    max_in_flight: int
    page: int
    provider_deadline_seconds: float
    retries: bool
    backoff_curve: str
    backoff_base_seconds: float
    backoff_cap_seconds: float
    max_attempts: int
    waiting_limit_seconds: float
    check_base_seconds: float
    check_cap_seconds: float
    cutoff_seconds: float
    grace_seconds: float
    unknown_policy: str
    poll_rate: float
    endpoint_concurrency: int
    fallback_after_seconds: float
    paused: bool
    lease_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTuning:
    """What may be changed of a stream."""

    sender_identity: str | None
    configuration_set: str | None
    settings: dict[str, Any]
    rate: float | None
    burst: float
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState(StreamTuning):
    """A stream and its state; ``deployed``: what the last deployment set and is so no more."""

    name: str
    paused_at: datetime | None
    deployed: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelState(ChannelTuning):
    """A channel and its state.

    ``effective_rate`` is what is left of the rate while its provider asks to slow down;
    ``deployed`` is what the last deployment set and is so no more.
    """

    name: str
    effective_rate: float
    slowed_at: datetime | None
    leased: int
    paused_at: datetime | None
    deployed: dict[str, Any]


READ_STATES = """
    SELECT c.name, provider, provider_url, fallback_provider, fallback_provider_url, rate, burst,
           max_in_flight, page, lease_seconds, provider_deadline_seconds, retries, backoff_curve,
           backoff_base_seconds, backoff_cap_seconds, max_attempts, waiting_limit_seconds,
           check_base_seconds, check_cap_seconds, cutoff_seconds, grace_seconds, unknown_policy,
           poll_rate, endpoint_concurrency, fallback_after_seconds,
           paused_at IS NOT NULL AS paused, paused_at, slowed_at,
           rate * least(1, slow_factor * 2 ^ least(64, greatest(0, coalesce(
                  extract(epoch FROM clock_timestamp() - slowed_at), 0)) / %(recovery_seconds)s))
           AS effective_rate,
           (SELECT count(*) FROM notifications n
             WHERE n.channel = c.name AND n.lease_until IS NOT NULL AND n.status = 'leased')
           AS leased,
           coalesce((SELECT jsonb_object_agg(key, value) FROM jsonb_each(c.deployed)
                      WHERE to_jsonb(c) ? key AND to_jsonb(c) -> key IS DISTINCT FROM value), '{}')
           AS deployed
      FROM channels c
     ORDER BY c.name
"""


def read_states(database: Database) -> list[ChannelState]:
    """Return every channel."""

    def read(connection: psycopg.Connection) -> list[ChannelState]:
        with connection.cursor(row_factory=class_row(ChannelState)) as cursor:
            parameters = {"recovery_seconds": RECOVERY_SECONDS}
            return cursor.execute(READ_STATES, parameters).fetchall()

    return database.run(read)


READ_STREAM_STATES = """
    SELECT s.name, s.sender_identity, s.configuration_set, s.settings, s.rate, s.burst,
           s.paused_at IS NOT NULL AS paused, s.paused_at,
           coalesce((SELECT jsonb_object_agg(split_part(key, '.', 2), value)
                       FROM jsonb_each(c.deployed)
                      WHERE split_part(key, '.', 1) = s.name
                        AND to_jsonb(s) -> split_part(key, '.', 2) IS DISTINCT FROM value), '{}')
           AS deployed
      FROM streams s
      JOIN channels c ON c.name = s.channel
     WHERE s.channel = %(channel)s
     ORDER BY s.name DESC
"""


def read_stream_states(database: Database, *, channel: str) -> list[StreamState]:
    """Return the streams of ``channel``, transactional first."""

    def read(connection: psycopg.Connection) -> list[StreamState]:
        with connection.cursor(row_factory=class_row(StreamState)) as cursor:
            return cursor.execute(READ_STREAM_STATES, {"channel": channel}).fetchall()

    return database.run(read)


LOCK_CHANNEL = """
    SELECT provider, provider_url, fallback_provider, fallback_provider_url, rate, burst,
           max_in_flight, page, provider_deadline_seconds, retries, backoff_curve,
           backoff_base_seconds, backoff_cap_seconds, max_attempts, waiting_limit_seconds,
           check_base_seconds, check_cap_seconds, cutoff_seconds, grace_seconds, unknown_policy,
           poll_rate, endpoint_concurrency, fallback_after_seconds,
           paused_at IS NOT NULL AS paused, lease_seconds
      FROM channels
     WHERE name = %(channel)s
       FOR UPDATE
"""

TUNE_CHANNEL = """
    UPDATE channels
       SET provider = %(provider)s, provider_url = %(provider_url)s,
           fallback_provider = %(fallback_provider)s,
           fallback_provider_url = %(fallback_provider_url)s, rate = %(rate)s, burst = %(burst)s,
           max_in_flight = %(max_in_flight)s, page = %(page)s,
           provider_deadline_seconds = %(provider_deadline_seconds)s, retries = %(retries)s,
           backoff_curve = %(backoff_curve)s, backoff_base_seconds = %(backoff_base_seconds)s,
           backoff_cap_seconds = %(backoff_cap_seconds)s, max_attempts = %(max_attempts)s,
           waiting_limit_seconds = %(waiting_limit_seconds)s,
           check_base_seconds = %(check_base_seconds)s, check_cap_seconds = %(check_cap_seconds)s,
           cutoff_seconds = %(cutoff_seconds)s, grace_seconds = %(grace_seconds)s,
           unknown_policy = %(unknown_policy)s, poll_rate = %(poll_rate)s,
           endpoint_concurrency = %(endpoint_concurrency)s,
           fallback_after_seconds = %(fallback_after_seconds)s,
           paused_at = CASE WHEN %(paused)s THEN coalesce(paused_at, clock_timestamp()) END
     WHERE name = %(channel)s
"""

LOCK_STREAM = """
    SELECT sender_identity, configuration_set, settings, rate, burst,
           paused_at IS NOT NULL AS paused
      FROM streams
     WHERE channel = %(channel)s AND name = %(stream)s
       FOR UPDATE
"""

TUNE_STREAM = """
    UPDATE streams
       SET sender_identity = %(sender_identity)s, configuration_set = %(configuration_set)s,
           settings = %(settings)s, rate = %(rate)s, burst = %(burst)s,
           paused_at = CASE WHEN %(paused)s THEN coalesce(paused_at, clock_timestamp()) END
     WHERE channel = %(channel)s AND name = %(stream)s
"""

T = TypeVar("T", ChannelTuning, StreamTuning)
Changed = dict[str, Any]
"""By column what it was and what it is now; only what changed."""


def tune_channel(
    database: Database,
    *,
    channel: str,
    change: Callable[[ChannelTuning], ChannelTuning],
    action: Action,
) -> Changed:
    """Store what ``change`` makes of the channel; return what that changed.

    ``change`` may refuse by raising, and then nothing is stored. Raises NotFound.
    """

    def work(connection: psycopg.Connection) -> Changed:
        if (done := result_of(connection, action)) is not None:
            return done["changed"]
        with connection.cursor(row_factory=class_row(ChannelTuning)) as cursor:
            before = cursor.execute(LOCK_CHANNEL, {"channel": channel}).fetchone()
        if before is None:
            raise NotFound("There is no such channel.")
        after = change(before)
        connection.execute(TUNE_CHANNEL, {"channel": channel, **_columns_of(after)})
        return _kept(connection, action, _difference(before, after))

    return database.run(work)


def tune_stream(
    database: Database,
    *,
    channel: str,
    stream: str,
    change: Callable[[StreamTuning], StreamTuning],
    action: Action,
) -> Changed:
    """Store what ``change`` makes of the stream; as ``tune_channel``."""
    key = {"channel": channel, "stream": stream}

    def work(connection: psycopg.Connection) -> Changed:
        if (done := result_of(connection, action)) is not None:
            return done["changed"]
        with connection.cursor(row_factory=class_row(StreamTuning)) as cursor:
            before = cursor.execute(LOCK_STREAM, key).fetchone()
        if before is None:
            raise NotFound("There is no such stream.")
        after = change(before)
        columns = _columns_of(after) | {"settings": Jsonb(after.settings)}
        connection.execute(TUNE_STREAM, {**key, **columns})
        return _kept(connection, action, _difference(before, after))

    return database.run(work)


def _columns_of(tuning: ChannelTuning | StreamTuning) -> dict[str, Any]:
    return {field.name: getattr(tuning, field.name) for field in fields(tuning)}


def _difference(before: T, after: T) -> Changed:
    was, now = _columns_of(before), _columns_of(after)
    return {name: {"was": was[name], "is": now[name]} for name in was if was[name] != now[name]}


def _kept(connection: psycopg.Connection, action: Action, changed: Changed) -> Changed:
    record_action(connection, action, result={"changed": changed})
    return changed
