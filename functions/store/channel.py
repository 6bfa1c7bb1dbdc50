"""Channels: every tunable number, read by those who work on one."""

import math
import time
from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row

from functions.core.retry import Backoff
from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRow:
    """A channel's numbers; seconds and counts as named."""

    name: str
    provider: str
    provider_url: str | None
    fallback_provider: str | None
    fallback_provider_url: str | None
    page: int
    max_in_flight: int
    lease_seconds: float
    provider_deadline_seconds: float
    backoff_base_seconds: float
    backoff_cap_seconds: float
    backoff_curve: str
    waiting_limit_seconds: float
    check_base_seconds: float
    cutoff_seconds: float
    grace_seconds: float
    endpoint_concurrency: int

    def other_than(self, provider: str) -> str | None:
        """Return whom the channel may ask instead of its own ``provider``; None from there on."""
        return self.fallback_provider if provider == self.provider else None

    @property
    def backoff(self) -> Backoff:
        return Backoff(
            base_seconds=self.backoff_base_seconds,
            cap_seconds=self.backoff_cap_seconds,
            curve=self.backoff_curve,
        )


READ_CHANNELS = """
    SELECT name, provider, provider_url, fallback_provider, fallback_provider_url, page,
           max_in_flight, lease_seconds, provider_deadline_seconds, backoff_base_seconds,
           backoff_cap_seconds, backoff_curve, waiting_limit_seconds, check_base_seconds,
           cutoff_seconds, grace_seconds, endpoint_concurrency
      FROM channels
     ORDER BY name
"""


def read_channels(database: Database) -> dict[str, ChannelRow]:
    """Return every channel by name."""

    def read(connection: psycopg.Connection) -> dict[str, ChannelRow]:
        with connection.cursor(row_factory=class_row(ChannelRow)) as cursor:
            return {row.name: row for row in cursor.execute(READ_CHANNELS)}

    return database.run(read)


class Channels:
    """The channels of this environment, read again when they are older than ``seconds``."""

    def __init__(self, database: Database, *, seconds: float = 10.0) -> None:
        self._database = database
        self._seconds = seconds
        self._rows: dict[str, ChannelRow] = {}
        self._read_at = -math.inf

    def get(self, name: str) -> ChannelRow:
        """Return the numbers of ``name``: a change takes effect within ``seconds``."""
        if time.monotonic() - self._read_at > self._seconds:
            self._rows = read_channels(self._database)
            self._read_at = time.monotonic()
        return self._rows[name]
