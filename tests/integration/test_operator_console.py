"""The command line and the console: who asks, what is asked once, what is said of no answer."""

import getpass
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functions.cli.console import READING, Console, Target
from functions.cli.console_error import Unreachable
from functions.console.console import COMMANDS
from tests.command_line import Operator, operator_at, run
from tests.conftest import free_port
from tests.fake_console import (
    ARN,
    FakeConsole,
    Trouble,
    aws_profile,
    fake_console,
    local_stack,
    no,
    own_environment,
)

ID = "0199aaaa-0000-7000-8000-000000000001"
PAGE: dict[str, Any] = {"data": [], "next": None}
DISCARDED = {"action_id": "a-1", "fates": [{"id": ID, "fate": "discarded"}]}


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    with operator_at(tmp_path / "state") as operator:
        yield operator


def test_what_is_asked_locally_is_asked_by_user_and_host(operator: Operator) -> None:
    operator.console.will("dead.list", PAGE)
    assert operator.run("dead", "list").status == 0
    (event,) = operator.console.events
    assert event == {
        "v": 1,
        "command": "dead.list",
        "arguments": {"limit": 100},
        "actor": f"{getpass.getuser()}@{socket.gethostname()}",
    }
    assert operator.console.functions == ["sendoff-console"]


@pytest.fixture
def account(tmp_path: Path) -> Iterator[FakeConsole]:
    with fake_console() as console, aws_profile(tmp_path, url=console.url):
        yield console


def test_a_profile_asks_the_console_of_its_account_by_its_own_name(account: FakeConsole) -> None:
    account.will("dead.list", PAGE)
    ended = run(
        "dead", "list", "--profile", "operator", "--prefix", "acme", "--region", "eu-west-1"
    )
    assert (ended.status, ended.out) == (0, "Nothing is held.\n")
    assert [event["actor"] for event in account.events] == [ARN]
    assert account.functions == ["acme-console"]


def test_a_profile_that_does_not_exist_is_unreachable(account: FakeConsole) -> None:
    ended = run("dead", "list", "--profile", "nobody")
    assert ended.status == 4
    assert "nobody" in ended.err
    assert account.events == []


def test_a_profile_without_credentials_is_unreachable(account: FakeConsole, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("")
    ended = run("dead", "list", "--profile", "operator")
    assert ended.status == 4
    assert "credentials" in ended.err.lower()
    assert account.events == []


@pytest.mark.parametrize("option", ["--region", "--prefix"])
def test_an_option_that_nobody_would_read_is_refused(operator: Operator, option: str) -> None:
    ended = operator.run("dead", "list", option, "eu-west-1")
    assert ended.status == 2
    assert "--profile" in ended.err


def test_without_a_stack_it_is_said_how_to_reach_one(tmp_path: Path) -> None:
    ended = run("explain", ID, "--state-dir", str(tmp_path / "none"))
    assert ended.status == 4
    assert ended.out == ""
    assert ended.err == (
        f"No stack is ready in {tmp_path / 'none'}. Start one with `sendoff up`, or name the AWS "
        "profile of a deployment with --profile.\n"
    )


def test_a_stack_that_does_not_answer_is_unreachable_and_nothing_was_begun(tmp_path: Path) -> None:
    with local_stack(tmp_path / "state", aws_endpoint_url=f"http://127.0.0.1:{free_port()}"):
        ended = run("dead", "discard", ID, "--state-dir", str(tmp_path / "state"))
    assert ended.status == 4
    assert "may have been done" not in ended.err


@pytest.mark.parametrize("code", ["invalid", "not_found", "refused"])
def test_what_the_console_refuses_ends_with_its_words(operator: Operator, code: str) -> None:
    operator.console.will("dead.discard", no(code, "It cannot be."))
    ended = operator.run("dead", "discard", ID)
    assert (ended.status, ended.out, ended.err) == (3, "", "It cannot be.\n")
    ended = operator.run("dead", "discard", ID, "--json")
    assert ended.status == 3
    assert ended.document == {
        "code": code,
        "detail": "It cannot be.",
        "action_ids": [],
        "fates": [],
    }


def test_a_database_that_is_away_is_unreachable(operator: Operator) -> None:
    operator.console.will("explain", no("unavailable", "The database is away."))
    ended = operator.run("explain", ID, "--json")
    assert ended.status == 4
    assert ended.document == {"code": "unavailable", "detail": "The database is away."}


LOST = [
    Trouble(closes=True),
    Trouble(function_error=True, body=b'{"errorMessage":"Task timed out"}'),
    Trouble(body=b"not json"),
    Trouble(body=b"[]"),
    Trouble(body=b'{"ok":true}'),
    Trouble(status=500, error="ServiceException"),
]


@pytest.mark.parametrize("trouble", LOST, ids=lambda one: str(LOST.index(one)))
def test_a_change_whose_answer_is_lost_is_asked_once_and_said_to_be_possibly_done(
    operator: Operator, trouble: Trouble
) -> None:
    operator.console.will("dead.discard", trouble)
    ended = operator.run("dead", "discard", ID)
    assert ended.status == 4
    assert "It may have been done all the same." in ended.err
    assert "errorMessage" not in ended.err
    assert len(operator.console.events) == 1


@pytest.mark.parametrize("trouble", LOST, ids=lambda one: str(LOST.index(one)))
def test_a_look_without_an_answer_has_done_nothing(operator: Operator, trouble: Trouble) -> None:
    operator.console.will("dead.list", trouble)
    ended = operator.run("dead", "list")
    assert ended.status == 4
    assert "may have been done" not in ended.err


def test_a_look_is_tried_again(operator: Operator) -> None:
    operator.console.will("dead.list", Trouble(closes=True), PAGE)
    assert operator.run("dead", "list").status == 0
    assert len(operator.console.events) == 2


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (404, "ResourceNotFoundException", "There is no function sendoff-console"),
        (403, "AccessDeniedException", "may not invoke sendoff-console"),
        (400, "ExpiredTokenException", "have expired"),
        (400, "KMSAccessDeniedException", "AWS answered KMSAccessDeniedException."),
    ],
)
def test_what_aws_refuses_is_said_in_words_and_was_not_begun(
    operator: Operator, status: int, error: str, words: str
) -> None:
    operator.console.will("dead.discard", Trouble(status=status, error=error))
    ended = operator.run("dead", "discard", ID)
    assert ended.status == 4
    assert words in ended.err
    assert "may have been done" not in ended.err
    assert len(operator.console.events) == 1


def impatient(path: Path) -> tuple[Console, list[float]]:
    """Return the console of the stack in ``path``, and how long it would have waited each time."""
    waits: list[float] = []
    console = Target(state_dir=path).connect()
    console.sleep = waits.append
    return console, waits


def test_a_change_that_was_turned_away_is_asked_again_for_it_was_not_begun(
    operator: Operator,
) -> None:
    busy = Trouble(status=429, error="TooManyRequestsException")
    operator.console.will("dead.discard", busy, busy, DISCARDED)
    with own_environment():
        console, waits = impatient(operator.state_dir)
        assert console.call("dead.discard", ids=[ID]) == DISCARDED
    assert waits == [0.5, 1.0]


def test_a_console_that_stays_busy_is_given_up(operator: Operator) -> None:
    operator.console.will("recover.pause", Trouble(status=429, error="TooManyRequestsException"))
    with own_environment():
        console, waits = impatient(operator.state_dir)
        with pytest.raises(Unreachable, match="busy") as raised:
            console.call("recover.pause")
    assert len(waits) == 4
    assert not raised.value.maybe_done


def test_what_only_reads_is_what_the_console_does_not_audit() -> None:
    assert {name for name, command in COMMANDS.items() if not command.audited} == READING
