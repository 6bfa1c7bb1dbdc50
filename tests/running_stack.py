"""Processes that look like those of a running local stack, in a tree of the same shape.

A supervisor that holds the state folder; below it a postmaster and an emulator; below that one a
worker per name. They do nothing and end when their standard input does.
"""

import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.local.state import REPOSITORY, StateFolder

NOTHING = "import sys; sys.stdin.read()"

SUPERVISOR = """
import json, subprocess, sys
from pathlib import Path
from infra.local.state import StateFolder

idle, emulator, *names = sys.argv[2:]
folder = StateFolder(Path(sys.argv[1]))
folder.create()
with folder.held():
    postmaster = subprocess.Popen(
        ["/somewhere/bin/postgres", "-c", idle, "-D", str(folder.cluster)],
        executable=sys.executable,
    )
    launcher = subprocess.Popen(
        [sys.executable, "-c", emulator, "-m", "infra.local.launcher", str(folder.temporary),
         idle, *names],
        stdout=subprocess.PIPE,
    )
    workers = json.loads(launcher.stdout.readline())
    print(json.dumps({"postgres": postmaster.pid, "emulator": launcher.pid, **workers}), flush=True)
    sys.stdin.read()
"""

EMULATOR = """
import json, subprocess, sys

temporary, idle, *names = sys.argv[3:]
workers = {
    name: subprocess.Popen(
        [sys.executable, "-c", idle, f"{temporary}/ministack-lambda-sendoff-{name}/_worker.py"]
    ).pid
    for name in names
}
print(json.dumps(workers), flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningStack:
    """``pids`` by what runs: postgres, emulator, and the folder of each worker."""

    folder: StateFolder
    pids: dict[str, int]
    supervisor: subprocess.Popen[str]

    def end(self) -> None:
        """End the supervisor, and everything below it."""
        self.supervisor.communicate(timeout=120)


@contextmanager
def running_stack(path: Path, *, workers: Sequence[str] = ()) -> Generator[RunningStack]:
    """Give a stack in ``path`` whose emulator runs ``workers``, each ``<function>-<random>``."""
    folder = StateFolder(path)
    with subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(path), NOTHING, EMULATOR, *workers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    ) as supervisor:
        assert supervisor.stdout is not None
        pids = json.loads(supervisor.stdout.readline())
        yield RunningStack(folder=folder, pids=pids, supervisor=supervisor)
