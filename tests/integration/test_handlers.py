"""Handlers in processes of their own: what they import, answer and write, and what never leaves."""

import base64
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from functions.core.login import Login
from functions.store.connection import Database
from infra.local.postgres import SUPERUSER
from tests.conftest import free_port
from tests.fakes import add_notifications, row_of
from tests.function_process import (
    CALLBACK_ARN,
    GATEWAY_ARN,
    HASH_ARN,
    WEBHOOK_ARN,
    Died,
    FunctionProcess,
    InvocationError,
    callbacks_environment,
    environment_of,
    function,
    reconcile_environment,
    sender_environment,
)
from tests.gateway import Asked, gateway, giving
from tests.reports import HASH_KEY, add_known, report, signed_event
from tests.secrets_manager import SecretsManager, secrets_manager
from tests.sending import body_of, queue_event, recorded
from tests.simulated import CALLBACK_SECRET
from tests.steps import lease
from tests.wire import Wire, answering, peer, sending

SENTINEL = "SENTINEL-8F3A"
RECIPIENT = "sentinel-8f3a@example.com"
GATEWAY_KEY = base64.b64encode(b"SENTINEL-KEY-of-the-gateway-0001").decode()
TOKEN = "SENTINEL-TOKEN"
SECRETS: dict[str, Any] = {
    GATEWAY_ARN: {"current": GATEWAY_KEY, "previous": "", "token": TOKEN},
    CALLBACK_ARN: {"current": CALLBACK_SECRET.removeprefix("whsec_"), "previous": ""},
    HASH_ARN: {"current": HASH_KEY.decode()},
    WEBHOOK_ARN: {"current": "A" * 44},
}
NEVER_SAID = (
    SENTINEL,
    RECIPIENT,
    "sentinel-8f3a",
    GATEWAY_KEY,
    TOKEN,
    SECRETS[CALLBACK_ARN]["current"],
    HASH_KEY.decode(),
    "example-of-a-secret-key",
    "example-of-a-session-token",
)


@pytest.fixture
def manager() -> Generator[SecretsManager]:
    with secrets_manager(SECRETS) as manager:
        yield manager


def says_nothing(process: FunctionProcess, *answers: Any) -> None:
    """Check that neither the log nor an answer holds an address, a content or a secret."""
    said = process.output + json.dumps(answers, ensure_ascii=False)
    assert [word for word in NEVER_SAID if word.lower() in said.lower()] == []


def queues(manager: SecretsManager) -> dict[str, str]:
    """Return what the claim needs besides a database."""
    urls = {f"{name}_QUEUE_URL": "https://queue/" for name in ("EMAIL", "SMS", "PUSH", "WEBHOOK")}
    region = manager.environment["AWS_REGION"]
    more = {"INGEST_FUNCTION": "ingest", "AWS_DEFAULT_REGION": region, "RUN_SECONDS": "0.5"}
    return manager.environment | urls | more


def test_what_a_function_never_needs_is_not_imported(
    login: Login, manager: SecretsManager, tmp_path: Path
) -> None:
    addresses = {"email_validator", "phonenumbers", "idna"}
    clients = {"boto3", "botocore.session", "botocore.client"}
    for name, environment, never in (
        ("sender", sender_environment(login, manager), clients),
        ("callbacks", callbacks_environment(login, manager), clients),
        ("reconcile", reconcile_environment(login, manager), clients),
        ("migrate", environment_of(login), set[str]()),
        ("claim", environment_of(login, **queues(manager)), set[str]()),
    ):
        with function(name, environment, tmp_path) as process:
            found = process.imported & (never | addresses | {"pydantic"})
            assert found == set(), name


def test_settings_that_are_missing_are_named_at_import(tmp_path: Path) -> None:
    with pytest.raises(Died, match="DATABASE_HOST") as raised, function("sender", {}, tmp_path):
        raise AssertionError("it was imported")
    for name in ("CHANNEL", "GATEWAY_SECRET_ARN"):
        assert name in str(raised.value)


def test_a_sender_sends_writes_one_line_and_counts(
    owner: psycopg.Connection,
    database: Database,
    login: Login,
    manager: SecretsManager,
    tmp_path: Path,
) -> None:
    add_notifications(owner, 3)
    leases = lease(database)
    with (
        gateway() as served,
        function("sender", sender_environment(login, manager), tmp_path) as process,
    ):
        owner.execute("UPDATE channels SET provider_url = %s", [served.url])
        event = queue_event(*(body_of(leased) for leased in leases))
        assert process.invoke(event) == {"batchItemFailures": []}
        assert len(served.asked) == 3
        assert served.asked[0].received.headers["authorization"] == f"Bearer {TOKEN}"
        (line,) = process.lines
        assert (line["message"], line["channel"], line["service"]) == (
            "Delivered",
            "email",
            "sendoff",
        )
        assert (line["failed"], line["AttemptAccepted"]) == (0, 3)
        assert process.metrics["AttemptAccepted"] == 3
        assert process.invoke(recorded("sender.batch")) == {"batchItemFailures": []}
        assert len(process.lines) == 2
        assert process.metrics["StaleDelivery"] == 3
    assert manager.server is not None
    assert len(manager.server.requests) == 1, "a secret is read once"


def test_d2_the_handler_reports_what_shall_come_again(
    login: Login, manager: SecretsManager, tmp_path: Path
) -> None:
    with function("sender", sender_environment(login, manager), tmp_path) as process:
        event = recorded("sender.unreadable")
        assert process.invoke(event) == {
            "batchItemFailures": [{"itemIdentifier": event["Records"][1]["messageId"]}]
        }
        with pytest.raises(InvocationError, match="InvocationFailed"):
            process.invoke(recorded("reconcile.scheduled"))
        assert process.lines[-1]["detail"] == "The event is not one of a queue."
    environment = sender_environment(login, manager) | {"DATABASE_PORT": str(free_port())}
    with function("sender", environment, tmp_path) as process:
        event = recorded("sender.redelivered")
        assert process.invoke(event) == {
            "batchItemFailures": [
                {"itemIdentifier": record["messageId"]} for record in event["Records"]
            ]
        }
        assert process.metrics == {"DatabaseUnavailable": 1}
        assert len(process.lines) == 1


def test_a_bad_gateway_secret_kills_no_notification(
    owner: psycopg.Connection,
    database: Database,
    login: Login,
    manager: SecretsManager,
    tmp_path: Path,
) -> None:
    (id,) = add_notifications(owner)
    (leased,) = lease(database)
    manager.secrets[GATEWAY_ARN] = {"current": "not base64!"}
    with function("sender", sender_environment(login, manager), tmp_path) as process:
        event = queue_event(body_of(leased))
        (failed,) = process.invoke(event)["batchItemFailures"]
        assert failed["itemIdentifier"] == event["Records"][0]["messageId"]
        assert [line["error"] for line in process.lines if "error" in line] == ["Misconfigured"]
    assert (row_of(owner, id).status, row_of(owner, id).attempt_id) == ("leased", None)


def test_j3_a_sender_says_nothing_of_what_it_sends(
    owner: psycopg.Connection,
    database: Database,
    login: Login,
    manager: SecretsManager,
    tmp_path: Path,
) -> None:
    def echo(wire: Wire, asked: Asked) -> None:
        wire.answer(400, asked.received.body, {"X-Echo": asked.recipient})

    def accept_with_echo(wire: Wire, asked: Asked) -> None:
        del asked
        wire.answer(200, json.dumps({"message_id": f"m\n{SENTINEL}"}).encode())

    def hang_up(wire: Wire, asked: Asked) -> None:
        del asked
        wire.reset()

    answers: list[Any] = []
    with (
        gateway() as served,
        function("sender", sender_environment(login, manager), tmp_path) as process,
    ):
        owner.execute(
            "UPDATE channels SET provider_url = %s, provider_deadline_seconds = 1", [served.url]
        )
        behaviours = [None, echo, accept_with_echo, hang_up, giving(503), giving(429), giving(401)]
        for behaviour in behaviours:
            add_notifications(owner, recipient=RECIPIENT, content=f"Your code is {SENTINEL}.")
            served.behaviour = {RECIPIENT: behaviour} if behaviour else {}
            answers.append(process.invoke(queue_event(body_of(lease(database)[0]))))
        owner.execute("DELETE FROM breakers")  # the last answer opened one
        add_notifications(owner, recipient=RECIPIENT, content={SENTINEL: RECIPIENT})
        answers.append(process.invoke(queue_event(body_of(lease(database)[0]), SENTINEL)))
        # The database's own words quote the row.
        owner.execute(
            "ALTER TABLE notifications ADD CONSTRAINT c CHECK (attempt_id IS NULL) NOT VALID"
        )
        add_notifications(owner, recipient=RECIPIENT, content=SENTINEL)
        answers.append(process.invoke(queue_event(body_of(lease(database)[0]))))
        assert process.lines[-2]["error"] == "CheckViolation"
        assert len(served.asked) == len(behaviours)
        with pytest.raises(InvocationError) as raised:
            process.invoke({"Records": [{"messageId": SENTINEL, "body": RECIPIENT}]})
        says_nothing(process, *answers, str(raised.value))
        kept = owner.execute("SELECT code, detail FROM attempts").fetchall()
        assert not any(SENTINEL in str(row) for row in kept)


def test_j3_a_webhooks_address_is_not_said_either(
    owner: psycopg.Connection,
    database: Database,
    login: Login,
    manager: SecretsManager,
    tmp_path: Path,
) -> None:
    moved = f"HTTP/1.1 302 Found\r\nLocation: http://{SENTINEL}/\r\nContent-Length: 0\r\n\r\n"
    odd = b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n{}"  # the HTTP library warns, with the URL
    scripts = [sending(moved.encode()), sending(odd), sending()]
    with peer(answering()) as server:
        environment = sender_environment(
            login, manager, CHANNEL="webhook", LOCAL_WEBHOOK_ORIGIN=server.url
        )
        with function("sender", environment, tmp_path) as process:
            for script in scripts:
                server.script = script
                add_notifications(
                    owner,
                    channel="webhook",
                    recipient=f"{server.url}/{SENTINEL}?key={TOKEN}",
                    content={"a": SENTINEL},
                )
                leases = lease(database, channel="webhook")
                answer = process.invoke(queue_event(*(body_of(leased) for leased in leases)))
                assert answer == {"batchItemFailures": []}
            assert len(server.requests) == len(scripts)
            says_nothing(process)
    assert manager.server is not None
    asked = {json.loads(request.body)["SecretId"] for request in manager.server.requests}
    assert asked == {WEBHOOK_ARN}, "a webhook needs no gateway's secret"


def test_j3_callbacks_say_nothing_of_what_they_are_told(
    owner: psycopg.Connection, login: Login, manager: SecretsManager, tmp_path: Path
) -> None:
    (id,) = add_known(owner, recipient=RECIPIENT)
    about: dict[str, Any] = {"idempotency_key": id, "recipient": RECIPIENT, "reason": SENTINEL}
    good = signed_event(report("bounced", permanent=True, **about))
    with function("callbacks", callbacks_environment(login, manager), tmp_path) as process:
        statuses: list[int] = []
        answers: list[Any] = []
        forged = signed_event(report(**about), secrets=["whsec_AAAA"])
        for event in (
            good,
            good,
            forged,
            recorded("callbacks.unsigned"),
            signed_event(f'{{"{SENTINEL}": {RECIPIENT}'),
            signed_event({"data": {"status": 7, "recipient": [RECIPIENT], SENTINEL: 1}}),
            signed_event(report(SENTINEL, **about)),
            signed_event(report(**about) | {"more": SENTINEL * 30_000}),
        ):
            answers.append(process.invoke(event))
            statuses.append(answers[-1]["statusCode"])
        assert statuses == [202, 202, 401, 401, 400, 400, 202, 413]
        assert len(process.lines) == len(statuses), "one line per invocation"
        assert process.metrics["ReceiptApplied"] == 2
        assert process.metrics["CallbackRefused"] == 5
        # The database's own words quote the row.
        owner.execute("ALTER TABLE receipts ADD CONSTRAINT c CHECK (type = 'x') NOT VALID")
        with pytest.raises(InvocationError, match="InvocationFailed") as raised:
            process.invoke(signed_event(report(**about)))
        assert process.lines[-1]["error"] == "CheckViolation"
        says_nothing(process, *answers, str(raised.value))
    environment = callbacks_environment(login, manager) | {"DATABASE_PORT": str(free_port())}
    with function("callbacks", environment, tmp_path) as process:
        answer = process.invoke(signed_event(report(**about)))
        assert (answer["statusCode"], "Retry-After" in answer["headers"]) == (503, True)
        says_nothing(process, answer)


@pytest.mark.parametrize(
    ("event", "heartbeat"),
    [
        ("claim.scheduled", "ClaimHeartbeat"),
        ("sweeper.scheduled", "SweeperHeartbeat"),
        ("reconcile.scheduled", "ReconcileHeartbeat"),
    ],
)
def test_a_schedule_starts_a_run_that_beats_and_writes_one_line(
    owner: psycopg.Connection,
    login: Login,
    manager: SecretsManager,
    tmp_path: Path,
    event: str,
    heartbeat: str,
) -> None:
    add_notifications(owner, recipient=RECIPIENT, content=SENTINEL, delay_seconds=3600)
    environment = reconcile_environment(login, manager) | queues(manager)
    with function(event.partition(".")[0], environment, tmp_path) as process:
        answer = process.invoke(recorded(event))
        assert isinstance(answer, dict)
        assert process.metrics[heartbeat] >= 1
        assert len(process.lines) == 1
        says_nothing(process, answer)


def test_a_reconciliation_that_cannot_reach_its_database_fails_and_says_so(
    login: Login, manager: SecretsManager, tmp_path: Path
) -> None:
    environment = reconcile_environment(login, manager) | {"DATABASE_PORT": str(free_port())}
    with function("reconcile", environment, tmp_path) as process:
        with pytest.raises(InvocationError, match="InvocationFailed"):
            process.invoke(recorded("reconcile.scheduled"))
        assert process.lines[-1]["error"] == "Unavailable"
        assert process.metrics == {}


def test_a_deployment_is_answered_and_logged(
    owner: psycopg.Connection, login: Login, tmp_path: Path
) -> None:
    environment = environment_of(login) | {"DATABASE_USER": SUPERUSER}
    with (
        peer(answering(200, b"")) as cloudformation,
        function("migrate", environment, tmp_path) as process,
    ):
        for name in ("migrate.create", "migrate.update", "migrate.delete"):
            event = recorded(name) | {"ResponseURL": cloudformation.url}
            assert process.invoke(event) == {"applied": []}
            assert json.loads(cloudformation.requests[-1].body)["Status"] == "SUCCESS"
        owner.execute("DROP TABLE channels CASCADE")
        event = recorded("migrate.update") | {"ResponseURL": cloudformation.url}
        assert "UndefinedTable" in process.invoke(event)["failed"]
        assert json.loads(cloudformation.requests[-1].body)["Status"] == "FAILED"
        assert len(cloudformation.requests) == 4
        assert [line["level"] for line in process.lines] == ["INFO"] * 3 + ["ERROR"]
