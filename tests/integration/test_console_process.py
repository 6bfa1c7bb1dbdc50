"""The console as the platform runs it: a process of its own, what it logs, what never leaves it."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from functions.core.login import Login
from tests.conftest import free_port
from tests.fakes import add_notifications
from tests.function_process import (
    HASH_ARN,
    Died,
    FunctionProcess,
    InvocationError,
    function,
)
from tests.operators import ACTOR, arrange, asked, console_environment
from tests.reports import HASH_KEY
from tests.secrets_manager import REGION, SecretsManager, secrets_manager
from tests.sending import recorded

SENTINEL = "SENTINEL-8F3A"
RECIPIENT = "sentinel-8f3a@example.com"
URLS = {name: f"https://queue/{name}" for name in ("email", "sms", "push", "webhook")}


@pytest.fixture
def manager() -> Generator[SecretsManager]:
    with secrets_manager({HASH_ARN: {"current": HASH_KEY.decode()}}) as manager:
        yield manager


def environment(login: Login, manager: SecretsManager, **more: str) -> dict[str, str]:
    region = {"AWS_DEFAULT_REGION": REGION}
    return {**manager.environment, **console_environment(login, URLS), **region, **more}


def says_nothing(process: FunctionProcess, *words: str) -> None:
    said = process.output.lower()
    assert [word for word in words if word.lower() in said] == []


def test_a_command_writes_one_line_with_who_asked_and_what_came_of_it(
    owner: psycopg.Connection, login: Login, manager: SecretsManager, tmp_path: Path
) -> None:
    (id,) = add_notifications(owner, recipient=RECIPIENT, content=SENTINEL)
    arrange(owner, id, status="dead", reason="rejected")
    with function("console", environment(login, manager), tmp_path) as process:
        for event in (
            asked("dead.list"),
            asked("dead.requeue", ids=[str(id), str(uuid4())]),
            asked("dead.requeue", ids=[SENTINEL]),
            recorded("console.unknown"),
            asked(f"sk_{SENTINEL}", actor="mallory@elsewhere"),
            asked("explain", id=str(uuid4())),
            asked("receipts.replay"),
        ):
            process.invoke(event)
        assert {line["message"] for line in process.lines} == {"Answered an operator"}
        assert [(line.get("command"), line.get("actor")) for line in process.lines] == [
            ("dead.list", ACTOR),
            ("dead.requeue", ACTOR),
            ("dead.requeue", ACTOR),
            ("dead.requeue", None),
            (None, "mallory@elsewhere"),
            ("explain", ACTOR),
            ("receipts.replay", ACTOR),
        ]
        listed, requeued, *refused, unknown, replayed = process.lines
        assert (listed["listed"], requeued["requeued"], requeued["not_found"]) == (1, 1, 1)
        assert [line["invalid"] for line in refused] == [1, 1, 1]
        assert (unknown["not_found"], replayed["read"]) == (1, 0)
        says_nothing(process, SENTINEL, str(id), HASH_KEY.decode())
        assert process.metrics == {}


def test_j3_the_text_of_a_key_is_in_its_answer_alone(
    owner: psycopg.Connection, login: Login, manager: SecretsManager, tmp_path: Path
) -> None:
    with function("console", environment(login, manager), tmp_path) as process:
        process.invoke(asked("tenant.create", name=SENTINEL))
        made = process.invoke(
            asked("keys.create", organization=SENTINEL, name="web", scopes=["send"])
        )
        key: str = made["result"]["key"]
        process.invoke(asked("keys.list", organization=SENTINEL))
        assert len(process.lines) == 3
        says_nothing(process, SENTINEL, key, key.rsplit("_", 1)[1])


def test_j3_what_nobody_expected_fails_the_invocation_and_says_nothing(
    owner: psycopg.Connection, login: Login, manager: SecretsManager, tmp_path: Path
) -> None:
    (id,) = add_notifications(owner, recipient=RECIPIENT, content=SENTINEL)
    arrange(owner, id, status="dead", reason="rejected")
    # The database's own words quote the row.
    owner.execute("ALTER TABLE notifications ADD CONSTRAINT c CHECK (status = 'dead')")
    with function("console", environment(login, manager), tmp_path) as process:
        with pytest.raises(InvocationError, match="InvocationFailed") as raised:
            process.invoke(asked("dead.requeue", ids=[str(id)]))
        (line,) = process.lines
        assert (line["error"], line["command"], line["actor"]) == (
            "CheckViolation",
            "dead.requeue",
            ACTOR,
        )
        says_nothing(process, SENTINEL, RECIPIENT, str(id))
        assert SENTINEL not in str(raised.value)
        assert owner.execute("SELECT FROM operator_actions").fetchone() is None
        answer = process.invoke(asked("dead.list"))
        assert answer["ok"], "the same process goes on"


def test_what_cannot_be_reached_is_told_to_the_operator(
    login: Login, manager: SecretsManager, tmp_path: Path
) -> None:
    gone: dict[str, Any] = {"DATABASE_PORT": str(free_port())}
    with function("console", environment(login, manager, **gone), tmp_path) as process:
        answer = process.invoke(asked("dead.list"))
        assert answer == {
            "ok": False,
            "code": "unavailable",
            "detail": "The database is not available (OperationalError).",
        }
        (line,) = process.lines
        assert (line["level"], line["unavailable"]) == ("INFO", 1)


def test_settings_that_are_missing_are_named_at_import(tmp_path: Path) -> None:
    with pytest.raises(Died) as raised, function("console", {}, tmp_path):
        raise AssertionError("it was imported")
    for name in ("DATABASE_HOST", "HASH_SECRET_ARN", "SMS_DEAD_LETTERS_URL"):
        assert name in str(raised.value)


def test_what_the_console_never_needs_is_not_imported(
    login: Login, manager: SecretsManager, tmp_path: Path
) -> None:
    with function("console", environment(login, manager), tmp_path) as process:
        never = {"pydantic", "email_validator", "phonenumbers", "idna"}
        assert process.imported & never == set()
        assert json.loads(json.dumps(process.invoke(asked("dead.list"))))["ok"]
