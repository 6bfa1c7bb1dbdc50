"""Processes that end with the one that started them, whatever ends it."""

import os
import shutil
import signal
import sys
from pathlib import Path

from infra.local import dependent
from infra.local.state import REPOSITORY
from tests.local import first_line, is_gone, kill, python, until

STARTS_ONE_AND_WAITS = """
import os, signal, sys, time
from infra.local import dependent
process = dependent.start(
    [sys.executable, "-c", "import time; time.sleep(600)"],
    signal_at_death=signal.SIGTERM, output=sys.stderr.buffer, environment=os.environ,
)
print(process.pid, flush=True)
time.sleep(600)
"""

# Its child takes no part in anything, as a function in a loop.
STARTS_A_CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1] + ".new", "w").write(str(child.pid))
import os
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""

ENDS_WITH_UV = """
import time
from functions.cli.supervise import end_with_uv
end_with_uv()
print("ready", flush=True)
time.sleep(600)
"""


def test_a_process_ends_when_the_one_that_started_it_is_killed() -> None:
    with python(STARTS_ONE_AND_WAITS) as parent:
        child = int(first_line(parent))
        assert not is_gone(child)
        kill(parent.pid)
        assert until(lambda: is_gone(child))


def test_stopping_a_process_ends_its_children_even_when_it_was_killed_before(
    tmp_path: Path,
) -> None:
    note = tmp_path / "child"
    with (tmp_path / "log").open("wb") as log:
        process = dependent.start(
            [sys.executable, "-c", STARTS_A_CHILD, str(note)],
            signal_at_death=signal.SIGTERM,
            output=log,
            environment=os.environ,
        )
    assert until(note.exists)
    child = int(note.read_text())
    kill(process.pid)
    assert process.wait() == -signal.SIGKILL
    assert not is_gone(child)
    dependent.stop(process, by=signal.SIGTERM)
    assert until(lambda: is_gone(child))


def test_a_process_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print(1, flush=True); time.sleep(600)"
    )
    path = tmp_path / "log"
    with path.open("wb") as log:
        process = dependent.start(
            [sys.executable, "-c", code],
            signal_at_death=signal.SIGKILL,
            output=log,
            environment=os.environ,
        )
    assert until(lambda: path.read_text().strip())
    dependent.stop(process, by=signal.SIGTERM, timeout_seconds=0.1)
    assert process.returncode == -signal.SIGKILL


def test_a_command_that_does_not_exist_ends_with_a_failure(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        process = dependent.start(
            ["/nowhere/at all"],
            signal_at_death=signal.SIGKILL,
            output=log,
            environment=os.environ,
        )
    assert process.wait() != 0


def test_a_command_ends_with_the_uv_that_runs_it(tmp_path: Path) -> None:
    shell = shutil.which("sh")
    assert shell is not None
    uv = tmp_path / "uv"  # what the kernel calls a process is the name of its file
    uv.symlink_to(shell)
    script = f'"{sys.executable}" -c "$0" & echo $!; wait'
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with python(script, ENDS_WITH_UV, executable=str(uv), environment=environment) as parent:
        child = int(first_line(parent))
        assert first_line(parent) == "ready"
        kill(parent.pid)
        assert until(lambda: is_gone(child))
