"""The doors as processes: the claim has ingest drain, and neither says what it was given."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from functions.core.login import Login
from tests.api import HASH_KEY, recorded
from tests.doors import RECEIPT, add_organizations, enqueue, ids_of, payment_settled, requests_of
from tests.function_process import HASH_ARN, InvocationError, environment_of, function
from tests.secrets_manager import SecretsManager, secrets_manager
from tests.wire import Peer, Wire, peer

ADDRESS = "sentinel-8f3a@example.com"


@contextmanager
def platform(status: int = 202) -> Generator[Peer]:
    """Yield a server that takes every call of AWS, as the invocation of a function."""

    def serve(wire: Wire) -> None:
        while True:
            wire.read_request()
            wire.answer(status, b"")

    with peer(serve) as server:
        yield server


def environment_of_claim(login: Login, server: Peer) -> dict[str, str]:
    names = ("EMAIL", "SMS", "PUSH", "WEBHOOK")
    return environment_of(
        login,
        **{f"{name}_QUEUE_URL": "https://queue/" for name in names},
        INGEST_FUNCTION="sendoff-ingest",
        RUN_SECONDS="1.5",
        AWS_ENDPOINT_URL=server.url,
        AWS_DEFAULT_REGION="eu-central-1",
        AWS_ACCESS_KEY_ID="AKIDEXAMPLE",
        AWS_SECRET_ACCESS_KEY="example-of-a-secret-key",
    )


@pytest.fixture
def manager() -> Generator[SecretsManager]:
    with secrets_manager({HASH_ARN: {"current": HASH_KEY.decode()}}) as manager:
        yield manager


def test_the_claim_invokes_ingest_while_requests_wait(
    owner: psycopg.Connection, login: Login, tmp_path: Path
) -> None:
    add_organizations(owner)
    enqueue(owner, RECEIPT)
    with platform() as server:
        with function("claim", environment_of_claim(login, server), tmp_path) as process:
            assert "pydantic" not in process.imported
            process.invoke(recorded("claim.scheduled"))
        calls = server.requests
    assert 2 <= len(calls) <= 4, "at once, and each half second"
    assert {call.target for call in calls} == {"/2015-03-31/functions/sendoff-ingest/invocations"}
    assert {call.headers["x-amz-invocation-type"] for call in calls} == {"Event"}
    assert [json.loads(call.body) for call in calls] == [recorded("ingest.drain")] * len(calls)


def test_a_claim_that_reaches_nobody_goes_on_and_says_so_once(
    owner: psycopg.Connection, login: Login, tmp_path: Path
) -> None:
    add_organizations(owner)
    enqueue(owner, RECEIPT)
    with (
        platform(status=500) as server,
        function("claim", environment_of_claim(login, server), tmp_path) as process,
    ):
        told = process.invoke(recorded("claim.scheduled"))
        assert told["ended"] == "time"
        errors = [line["message"] for line in process.lines if line["level"] == "ERROR"]
    assert errors == ["Nobody can be told of requests that wait"]
    assert [request[1] for request in requests_of(owner)] == [True]


def test_ingest_takes_in_what_comes_by_every_door_and_names_nobody(
    owner: psycopg.Connection, login: Login, manager: SecretsManager, tmp_path: Path
) -> None:
    add_organizations(owner)
    item = RECEIPT | {"recipient": ADDRESS}
    enqueue(owner, item)
    enqueue(owner, item | {ADDRESS: 1})
    environment = environment_of(login, **manager.environment, HASH_SECRET_ARN=HASH_ARN)
    with function("ingest", environment, tmp_path) as process:
        answer = process.invoke(recorded("ingest.drain"))
        assert answer == {"drained": True, "stored": 1, "repeated": 0, "invalid": 1}
        assert process.invoke(payment_settled(item))["duplicates"] == 1
        assert process.invoke(recorded("ingest.scheduled_batch"))["total_count"] == 2
        assert process.invoke(recorded("ingest.health"))["statusCode"] == 200
        with pytest.raises(InvocationError, match="InvocationFailed"):
            process.invoke(payment_settled(item | {ADDRESS: 1}))
        assert process.metrics == {"RequestStored": 1, "RequestInvalid": 1}
        assert "sentinel-8f3a" not in process.output
    assert len(ids_of(owner)) == 4
