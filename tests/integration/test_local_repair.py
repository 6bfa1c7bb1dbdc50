"""What the supervision does about a process that ends again and again: by a kill, or by itself."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.local.postgres import Identity, Postgres, ServerKilled, identity
from infra.local.stack import MAX_RESTARTS, Stack, StackFailed
from infra.local.state import Ports, StateFolder
from tests.conftest import free_port

ENDS_BY_ITSELF = "import sys; sys.exit(3)"
IS_KILLED = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
GOES_ON = "import sys; sys.stdin.read()"
ENOUGH_REPAIRS = MAX_RESTARTS + 2


class Unheard:
    """A report that nobody listens to."""

    def begin(self, step: str) -> None: ...

    def note(self, text: str) -> None: ...

    def finish(self) -> None: ...


class Ending(Stack):
    """A stack whose emulator ends after each start as its ``code`` has it; all else goes on."""

    code: str = GOES_ON
    repairs: int = 0

    def launch(self) -> None:
        self.postgres.process = start(GOES_ON)
        self.simulator.process = start(GOES_ON)
        self.emulator.process = start(self.code)
        self._is_deployed = True

    def repair(self) -> None:
        assert self.emulator.process is not None
        self.emulator.process.communicate()
        self.repairs += 1
        if self.repairs == ENOUGH_REPAIRS:
            raise KeyboardInterrupt
        self.emulator.process = start(self.code)

    def end(self) -> None:
        for part in (self.postgres, self.simulator, self.emulator):
            if part.process is not None:
                part.process.kill()
                part.process.communicate()


def start(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", code], stdin=subprocess.PIPE)


@contextmanager
def ending(path: Path, code: str) -> Generator[Ending]:
    stack = Ending(folder=StateFolder(path), ports=Ports(), environment={}, report=Unheard())
    stack.code = code
    stack.launch()
    try:
        yield stack
    finally:
        stack.end()


def test_what_is_killed_is_started_again_however_often(tmp_path: Path) -> None:
    with ending(tmp_path, IS_KILLED) as stack, pytest.raises(KeyboardInterrupt):
        stack.watch()
    assert stack.repairs == ENOUGH_REPAIRS


def test_what_ends_by_itself_again_and_again_is_given_up(tmp_path: Path) -> None:
    with (
        ending(tmp_path, ENDS_BY_ITSELF) as stack,
        pytest.raises(StackFailed, match="Processes keep ending"),
    ):
        stack.watch()
    assert stack.repairs == MAX_RESTARTS


def killed_at_first(mark: Path) -> tuple[str, ...]:
    """Return the start of a command that is killed until ``mark`` is there, and leaves it."""
    script = f"[ -e '{mark}' ] && exec \"$@\"; >'{mark}'; kill -9 $$"
    return ("sh", "-c", script, "sh")


@pytest.fixture
def server(tmp_path: Path) -> Generator[Postgres]:
    """A server whose cluster is there and that was stopped."""
    server = Postgres(tmp_path / "cluster", free_port(), tmp_path / "postgres.log")
    server.start()
    server.stop()
    try:
        yield server
    finally:
        server.stop()


def be_killed_at_first(server: Postgres, mark: Path) -> None:
    who = identity()
    server.identity = Identity(prefix=(*killed_at_first(mark), *who.prefix), owner=who.owner)


def test_a_server_that_is_killed_while_it_starts_is_started_again(
    server: Postgres, tmp_path: Path
) -> None:
    be_killed_at_first(server, tmp_path / "mark")
    server.start(patience_seconds=10)
    assert (tmp_path / "mark").exists()
    assert server.is_running


def test_without_patience_it_says_that_it_was_killed(server: Postgres, tmp_path: Path) -> None:
    be_killed_at_first(server, tmp_path / "mark")
    with pytest.raises(ServerKilled, match="was killed while it started"):
        server.start()
