"""Obstacles of single rows: the claim lets one find out, and the others wait without an attempt."""

from collections import Counter
from datetime import datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from functions.claim.obstacle import (
    COUNTRY_BLOCKED,
    ENDPOINT_BUSY,
    ENDPOINT_PAUSED,
    Obstacles,
)
from functions.core.breaker import PROBE_SECONDS
from functions.core.policy import Allow, Defer, Verdict
from functions.store.claim import Leased
from functions.store.connection import Database
from tests.fakes import add_notifications
from tests.steps import channel_of, lease, now_of

ORIGIN = "https://hooks.example"
CONCURRENCY = 3


@pytest.fixture(autouse=True)
def numbers(owner: psycopg.Connection) -> None:
    owner.execute(
        "UPDATE channels SET endpoint_concurrency = %s, provider_deadline_seconds = 10",
        [CONCURRENCY],
    )


def judged(database: Database, leased: list[Leased]) -> dict[UUID, Verdict]:
    obstacles = Obstacles(database=database, channel=lambda name: channel_of(database, name))
    verdicts = obstacles.gates(leased)
    assert Counter(row.id for row, _ in verdicts) == Counter(row.id for row in leased)
    return {row.id: verdict for row, verdict in verdicts}


def hooks(owner: psycopg.Connection, count: int, *, origin: str = ORIGIN) -> list[UUID]:
    ids = add_notifications(owner, count, channel="webhook", recipient=f"{origin}/x", content={})
    owner.execute("UPDATE notifications SET origin = %s WHERE id = ANY(%s)", [origin, ids])
    return ids


def texts(owner: psycopg.Connection, count: int, *, country: str | None) -> list[UUID]:
    ids = add_notifications(owner, count, channel="sms", recipient="+33612345678")
    owner.execute("UPDATE notifications SET country = %s WHERE id = ANY(%s)", [country, ids])
    return ids


def trouble(
    owner: psycopg.Connection, *, failures: int = 1, probe_at: datetime | None = None
) -> None:
    owner.execute(
        "INSERT INTO endpoints (organization_id, origin, failures, paused_at, probe_at)"
        " SELECT DISTINCT organization_id, origin, %(failures)s, %(at)s::timestamptz, %(at)s"
        "   FROM notifications WHERE origin = %(origin)s",
        {"failures": failures, "at": probe_at, "origin": ORIGIN},
    )


def close_country(
    owner: psycopg.Connection, *, probe_at: datetime, provider: str = "http", key: str = "FR"
) -> None:
    owner.execute(
        "INSERT INTO breakers (channel, provider, scope, key, opened_at, probe_at)"
        " VALUES ('sms', %s, 'country', %s, %s, %s)",
        [provider, key, probe_at, probe_at],
    )


def allowed(verdicts: dict[UUID, Verdict]) -> list[UUID]:
    return [id for id, verdict in verdicts.items() if isinstance(verdict, Allow)]


def test_an_endpoint_that_works_has_as_many_as_there_are(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = hooks(owner, 40)
    assert sorted(allowed(judged(database, lease(database, channel="webhook")))) == ids


def test_one_that_fails_has_so_many_at_once_and_others_their_room(
    owner: psycopg.Connection, database: Database
) -> None:
    failing, others = hooks(owner, 8), hooks(owner, 8, origin="https://other.example")
    trouble(owner)
    leased = lease(database, channel="webhook")
    verdicts = judged(database, leased)
    assert sorted(allowed(verdicts)) == sorted([*failing[:CONCURRENCY], *others])
    waits = [verdicts[id] for id in failing[CONCURRENCY:]]
    seconds = [
        (one.until - leased[0].now).total_seconds() for one in waits if isinstance(one, Defer)
    ]
    assert seconds == [10, 10, 10, 20, 20]
    assert {(one.reason, one.blocked) for one in waits if isinstance(one, Defer)} == {
        (ENDPOINT_BUSY, True)
    }


def test_what_is_in_flight_already_counts(owner: psycopg.Connection, database: Database) -> None:
    hooks(owner, 2)
    trouble(owner)
    assert len(allowed(judged(database, lease(database, channel="webhook")))) == 2
    hooks(owner, 5)
    assert len(allowed(judged(database, lease(database, channel="webhook")))) == 1


def test_what_is_for_a_paused_endpoint_waits_until_somebody_finds_out(
    owner: psycopg.Connection, database: Database
) -> None:
    hooks(owner, 3)
    until = now_of(owner, minutes=5)
    trouble(owner, failures=10, probe_at=until)
    verdicts = judged(database, lease(database, channel="webhook"))
    assert list(verdicts.values()) == [
        Defer(until=until, reason=ENDPOINT_PAUSED, blocked=True)
    ] * 3  # fmt: skip


def test_when_it_is_time_the_oldest_finds_out(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = hooks(owner, 3)
    trouble(owner, failures=10, probe_at=now_of(owner))
    assert allowed(judged(database, lease(database, channel="webhook"))) == [ids[0]]


def test_a_country_that_is_closed_leaves_the_others_alone(
    owner: psycopg.Connection, database: Database
) -> None:
    closed = texts(owner, 3, country="FR")
    others = [*texts(owner, 3, country="DE"), *texts(owner, 1, country=None)]
    until = now_of(owner, minutes=5)
    close_country(owner, probe_at=until)
    verdicts = judged(database, lease(database, channel="sms"))
    assert sorted(allowed(verdicts)) == sorted(others)
    assert {verdicts[id] for id in closed} == {
        Defer(until=until, reason=COUNTRY_BLOCKED, blocked=True)
    }


def test_when_it_is_time_one_for_the_country_finds_out(
    owner: psycopg.Connection, database: Database
) -> None:
    ids = texts(owner, 3, country="FR")
    close_country(owner, probe_at=now_of(owner))
    leased = lease(database, channel="sms")
    verdicts = judged(database, leased)
    assert allowed(verdicts) == [ids[0]]
    assert verdicts[ids[1]] == Defer(
        until=leased[0].now + timedelta(seconds=PROBE_SECONDS),
        reason=COUNTRY_BLOCKED,
        blocked=True,
    )


def test_a_country_that_one_of_two_providers_serves_is_open(
    owner: psycopg.Connection, database: Database
) -> None:
    owner.execute("UPDATE channels SET fallback_provider = 'http_keyless' WHERE name = 'sms'")
    texts(owner, 2, country="FR")
    later, sooner = now_of(owner, minutes=9), now_of(owner, minutes=2)
    close_country(owner, probe_at=later)
    leased = lease(database, channel="sms")
    assert len(allowed(judged(database, leased))) == 2
    close_country(owner, probe_at=sooner, provider="http_keyless")
    verdicts = judged(database, leased)
    assert {one.until for one in verdicts.values() if isinstance(one, Defer)} == {sooner}
