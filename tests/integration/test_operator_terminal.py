"""Operators' commands at a terminal: they ask before they change much, and never cut an id."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from functions.core.explanation import explain
from tests.command_line import Operator, operator_at
from tests.fake_console import Trouble
from tests.histories import Dossier, Row, Story, after

COLUMNS = 60
END_SECONDS = 300.0
"""Within which a command ends, however busy the machine is."""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ID = "0199aaaa-0000-7000-8000-000000000001"
TENANT = "0199aaaa-0000-7000-8000-0000000000aa"
HELD = {
    "id": ID,
    "organization_id": TENANT,
    "channel": "email",
    "reason": "outcome_unknown",
    "attempts_spent": 2,
    "max_attempts": 5,
    "in_doubt": 1,
    "needed": True,
    "held_at": "2030-01-01T00:00:00Z",
    "last_code": "timeout",
    "last_http_status": None,
}


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    with operator_at(tmp_path / "state") as operator:
        yield operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    status: int
    lines: list[str]
    styled: bool

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def at_terminal(operator: Operator, *arguments: str, typed: str = "") -> Session:
    """Run a command at a narrow terminal, with ``typed`` on its keyboard."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    environment = {name: text for name, text in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-m", "functions.cli.main", *arguments]
    process = subprocess.Popen(
        [*command, "--state-dir", str(operator.state_dir)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm"},
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    shown = b""
    with contextlib.suppress(OSError):  # how a terminal says that nobody is left
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    status = process.wait(timeout=END_SECONDS)
    text = shown.decode()
    lines = [line.rstrip() for line in ESCAPES.sub("", text).splitlines()]
    return Session(status=status, lines=lines, styled="\x1b[" in text)


def test_an_id_is_whole_at_a_terminal_that_is_too_narrow(operator: Operator) -> None:
    operator.console.will("dead.list", {"data": [HELD], "next": None})
    session = at_terminal(operator, "dead", "list")
    assert session.status == 1
    assert session.styled
    (row,) = [line for line in session.lines if line.startswith(ID)]
    assert row.split() == [
        ID, "email", "outcome_unknown", "2", "of", "5", "1", "timeout", "2030-01-01T00:00:00Z",
        TENANT,
    ]  # fmt: skip


def test_a_story_folds_at_a_terminal_and_its_commands_do_not(operator: Operator) -> None:
    row = Row(status="dead", reason="outcome_unknown", in_doubt=1)
    told: dict[str, Any] = explain(Dossier(history=Story(notification=row)), now=after(1))
    operator.console.will("explain", told)
    session = at_terminal(operator, "explain", ID)
    assert session.status == 1
    begin = session.lines.index("2030-01-01T00:00:00Z  client  The request was accepted and")
    assert session.lines[begin + 1] == " " * 30 + "stored; it is to be sent at"
    assert "Next: Nothing before a person decides: settle it once the" in session.lines
    command = f"  sendoff dead requeue {ID} --may-send-twice --state-dir {operator.state_dir}"
    assert command in session.lines


@pytest.mark.parametrize(("command", "fate"), [("requeue", "requeued"), ("discard", "discarded")])
def test_a_choice_is_shown_and_carried_out_when_it_is_confirmed(
    operator: Operator, command: str, fate: str
) -> None:
    operator.console.will("dead.list", {"data": [HELD, HELD], "next": None})
    operator.console.will(
        f"dead.{command}", {"action_id": "a", "fates": [{"id": ID, "fate": fate}]}
    )
    session = at_terminal(operator, "dead", command, "--all", typed="y\n")
    assert session.status == 0
    assert "2 held notifications: 2 outcome_unknown." in session.text
    assert f"{command.capitalize()} all of them? [y/N]" in session.text
    assert len(operator.console.asked(f"dead.{command}")) == 1


@pytest.mark.parametrize("typed", ["n\n", "\n"])
def test_a_choice_that_is_not_confirmed_changes_nothing(operator: Operator, typed: str) -> None:
    operator.console.will("dead.list", {"data": [HELD], "next": None})
    session = at_terminal(operator, "dead", "discard", "--all", typed=typed)
    assert session.status == 3
    assert "Nothing was changed." in session.text
    assert operator.console.asked("dead.discard") == []


def test_recover_that_is_interrupted_says_how_to_go_on(operator: Operator) -> None:
    operator.console.will("recover.pause", {"action_id": "a", "paused": ["email"]})

    def interrupt(arguments: dict[str, Any]) -> Any:
        """Let nothing but the signal end it: the connection stays until it is gone."""
        os.killpg(started[0].pid, signal.SIGINT)
        started[0].wait(timeout=END_SECONDS)
        return Trouble(closes=True)

    started: list[subprocess.Popen[str]] = []
    operator.console.will("recover", interrupt)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "functions.cli.main",
            "recover",
            "--since",
            "2020-01-01T00:00:00Z",
            "--yes",
            "--state-dir",
            str(operator.state_dir),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    started.append(process)
    out, err = process.communicate(timeout=END_SECONDS)
    assert process.returncode == 130
    assert out == ""
    assert "Interrupted. The channels email stay paused. To go on, run" in err
    assert "--resume email --yes" in err
