"""The migrate function as a custom resource: what it does, and that CloudFormation is told once."""

import json
from collections.abc import Generator, Sequence
from typing import Any

import psycopg
import pytest

from functions.core.errors import SendoffError
from functions.migrate.deployment import answer_to
from functions.store.connection import Connect
from infra.local.postgres import Postgres
from tests.conftest import owner_connection
from tests.sending import recorded
from tests.wire import Peer, answering, peer

STREAM = "2026/01/02/[$LATEST]0123"


@pytest.fixture
def cloudformation() -> Generator[Peer]:
    """Where answers go: a presigned URL, as far as the function can tell."""
    with peer(answering(200, b"")) as server:
        yield server


def never(names: Sequence[str]) -> None:
    raise AssertionError(f"started {names} for a migration")


@pytest.fixture
def connect(postgres: Postgres, database_name: str) -> Connect:
    return lambda: owner_connection(postgres, database_name)


def event(name: str, server: Peer, **properties: Any) -> dict[str, Any]:
    """Return a recorded event whose answer comes here."""
    found = recorded(name)
    found["ResponseURL"] = f"{server.url}/answer?X-Amz-Signature=example"
    found["ResourceProperties"] |= properties
    return found


def told(server: Peer) -> dict[str, Any]:
    """Return the only answer that CloudFormation got."""
    (request,) = server.requests
    assert (request.method, request.target) == ("PUT", "/answer?X-Amz-Signature=example")
    assert request.headers["content-type"] == "", "the URL was signed without one"
    return json.loads(request.body)


def numbers(owner: psycopg.Connection, channel: str) -> tuple[Any, ...]:
    (row,) = owner.execute(
        "SELECT provider_url, lease_seconds, rate, burst FROM channels WHERE name = %s", [channel]
    ).fetchall()
    return row


def test_create_migrates_configures_and_says_so(postgres: Postgres, cloudformation: Peer) -> None:
    with owner_connection(postgres, "postgres") as admin:
        admin.execute("CREATE DATABASE fresh")
    try:
        done = answer_to(
            event("migrate.create", cloudformation),
            connect=lambda: owner_connection(postgres, "fresh"),
            start=never,
            log_stream=STREAM,
        )
        assert done["applied"][0].startswith("0001_")
        answer = told(cloudformation)
        assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", "schema")
        asked = recorded("migrate.create")
        for name in ("StackId", "RequestId", "LogicalResourceId"):
            assert answer[name] == asked[name]
        with owner_connection(postgres, "fresh") as owner:
            assert numbers(owner, "email") == (
                "https://gateway.example.com/v1/messages",
                240,
                100,
                100,
            )
            assert numbers(owner, "sms")[2:] == (20, 40)
    finally:
        with owner_connection(postgres, "postgres") as admin:
            admin.execute("DROP DATABASE fresh WITH (FORCE)")


def test_update_changes_the_named_columns_only(
    owner: psycopg.Connection, connect: Connect, cloudformation: Peer
) -> None:
    owner.execute("UPDATE channels SET provider_url = 'https://kept.example/', rate = 7")
    done = answer_to(
        event("migrate.update", cloudformation), connect=connect, start=never, log_stream=STREAM
    )
    assert done == {"applied": []}
    assert told(cloudformation)["Status"] == "SUCCESS"
    assert numbers(owner, "email") == ("https://kept.example/", 240, 50, 50)
    assert numbers(owner, "push")[2] == 7


def test_delete_leaves_the_schema_alone_and_asks_no_database(cloudformation: Peer) -> None:
    def no_database() -> psycopg.Connection:
        raise AssertionError("deleting connects to nothing")

    done = answer_to(
        event("migrate.delete", cloudformation), connect=no_database, start=never, log_stream=STREAM
    )
    assert done == {"applied": []}
    assert told(cloudformation)["Status"] == "SUCCESS"


def test_an_unreachable_database_is_told_once_and_not_raised_as_well(
    cloudformation: Peer,
) -> None:
    def unreachable() -> psycopg.Connection:
        raise psycopg.OperationalError("password SENTINEL is wrong")

    done = answer_to(
        event("migrate.create", cloudformation), connect=unreachable, start=never, log_stream=STREAM
    )
    answer = told(cloudformation)
    assert answer["Status"] == "FAILED"
    assert answer["Reason"] == done["failed"] == f"OperationalError (log stream {STREAM})"
    assert "SENTINEL" not in json.dumps([answer, done])


@pytest.mark.parametrize(
    "channels", ["not json", '{"email": {"rate": -1}}', '{"email": {"rate": "x"}}']
)
def test_channel_numbers_that_cannot_be_are_a_failure_that_names_the_fault(
    owner: psycopg.Connection, connect: Connect, cloudformation: Peer, channels: str
) -> None:
    before = numbers(owner, "email")
    done = answer_to(
        event("migrate.update", cloudformation, Channels=channels),
        connect=connect,
        start=never,
        log_stream=STREAM,
    )
    assert told(cloudformation)["Status"] == "FAILED"
    assert done["failed"].endswith(f"(log stream {STREAM})")
    assert numbers(owner, "email") == before


def test_a_changed_migration_is_a_failure_in_words(
    owner: psycopg.Connection, connect: Connect, cloudformation: Peer
) -> None:
    owner.execute("UPDATE schema_migrations SET sha256 = 'another' WHERE number = 1")
    done = answer_to(
        event("migrate.update", cloudformation), connect=connect, start=never, log_stream=STREAM
    )
    assert "was changed after it had been applied" in told(cloudformation)["Reason"]
    assert "failed" in done


def test_a_refused_answer_is_an_error(connect: Connect) -> None:
    with peer(answering(403)) as expired, pytest.raises(SendoffError, match="403"):
        answer_to(event("migrate.delete", expired), connect=connect, start=never, log_stream=STREAM)


def test_by_hand_it_answers_nobody_and_raises(owner: psycopg.Connection, connect: Connect) -> None:
    assert answer_to({}, connect=connect, start=never, log_stream=STREAM) == {"applied": []}
    by_hand = {"ResourceProperties": {"Channels": '{"email": {"rate": 9}}'}}
    answer_to(by_hand, connect=connect, start=never, log_stream=STREAM)
    assert numbers(owner, "email")[2] == 9
    with pytest.raises(json.JSONDecodeError):
        answer_to(
            {"ResourceProperties": {"Channels": "not json"}},
            connect=connect,
            start=never,
            log_stream=STREAM,
        )


def unreachable() -> psycopg.Connection:
    raise AssertionError("a start needs no database")


def test_a_start_starts_the_loops_and_says_so(cloudformation: Peer) -> None:
    started: list[str] = []
    done = answer_to(
        event("migrate.start", cloudformation),
        connect=unreachable,
        start=started.extend,
        log_stream=STREAM,
    )
    assert started == done["started"] == ["sendoff-claim", "sendoff-sweeper", "sendoff-reconcile"]
    assert told(cloudformation)["Status"] == "SUCCESS"
    assert told(cloudformation)["PhysicalResourceId"] == "loops"


def test_a_start_that_fails_fails_the_deployment(cloudformation: Peer) -> None:
    def refused(names: Sequence[str]) -> None:
        raise ConnectionError(names[0])

    answer_to(
        event("migrate.start", cloudformation),
        connect=unreachable,
        start=refused,
        log_stream=STREAM,
    )
    assert told(cloudformation)["Status"] == "FAILED"
    assert "ConnectionError" in told(cloudformation)["Reason"]


def test_deleting_a_start_starts_nothing(cloudformation: Peer) -> None:
    deleted = event("migrate.start", cloudformation) | {"RequestType": "Delete"}
    answer_to(deleted, connect=unreachable, start=never, log_stream=STREAM)
    assert told(cloudformation)["Status"] == "SUCCESS"
