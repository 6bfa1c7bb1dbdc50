"""The two streams of a channel in a test: what waits in them, their pace, and who was leased."""

from collections import Counter
from typing import Any
from uuid import UUID

import psycopg

from functions.claim.claim import Claimer
from functions.claim.gate import Gates, open_to_all
from functions.store.connection import Database
from tests.fakes import FakeSqs, add_notifications, queues_of

UNBOUND = 1_000_000
STILL = 1e-9
"""Tokens per second of a bucket that does not refill while a test looks at it."""

TRANSACTIONAL, BULK = "transactional", "bulk"


def add_to_stream(
    owner: psycopg.Connection, stream: str, count: int = 1, **intent: Any
) -> list[UUID]:
    """Put ``count`` notifications of ``stream`` into the queue of record."""
    ids = add_notifications(owner, count, **intent)
    owner.execute("UPDATE notifications SET stream = %s WHERE id = ANY(%s)", [stream, ids])
    return ids


def set_pace(
    owner: psycopg.Connection,
    *,
    tokens: float = UNBOUND,
    page: int = 100,
    max_in_flight: int = UNBOUND,
) -> None:
    """Let every channel lease ``tokens`` rows and no more."""
    owner.execute(
        "UPDATE channels SET rate = %s, burst = %s, tokens = %s, page = %s, max_in_flight = %s",
        [STILL, max(tokens, 1), tokens, page, max_in_flight],
    )


def set_own_pace(owner: psycopg.Connection, stream: str, *, tokens: float) -> None:
    """Give the stream of email a bucket of its own, which does not refill."""
    owner.execute(
        "UPDATE streams SET rate = %s, burst = %s, tokens = %s WHERE channel = 'email' "
        "AND name = %s",
        [STILL, max(tokens, 1), tokens, stream],
    )


def pause_stream(owner: psycopg.Connection, stream: str, channel: str = "email") -> None:
    owner.execute(
        "UPDATE streams SET paused_at = now() WHERE channel = %s AND name = %s", [channel, stream]
    )


def tokens_of(owner: psycopg.Connection, stream: str | None = None) -> float:
    """Return what is left in the bucket of email, or in the one of a stream of it."""
    if stream is None:
        statement = "SELECT tokens FROM channels WHERE name = 'email'"
        ((tokens,),) = owner.execute(statement).fetchall()
    else:
        statement = "SELECT tokens FROM streams WHERE channel = 'email' AND name = %s"
        ((tokens,),) = owner.execute(statement, [stream]).fetchall()
    return tokens


def claimer_of(database: Database, *, gates: Gates = open_to_all, **more: Any) -> Claimer:
    return Claimer(
        database=database, queues=queues_of(FakeSqs()), leased_by="run-1", gates=gates, **more
    )


def leased_of(owner: psycopg.Connection) -> Counter[str]:
    """Return how many rows of each stream are leased."""
    statement = "SELECT stream, count(*)::int FROM notifications WHERE status = 'leased' GROUP BY 1"
    return Counter(dict(owner.execute(statement).fetchall()))
