"""One local stack for all journey tests of a test process: `sendoff up --detach`, then `down`."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import free_port

UP_TIMEOUT_SECONDS = 300
DOWN_TIMEOUT_SECONDS = 60


def sendoff(*arguments: str, timeout_seconds: float) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user would, without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "functions.cli.main", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout_seconds,
        check=False,
    )


def port_options() -> list[str]:
    """Return port options that no other stack of this machine uses."""
    options: list[str] = []
    for name in ("api", "simulator", "emulator", "database"):
        options += [f"--{name}-port", str(free_port())]
    return options


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What `.sendoff/local.json` says about a running stack on free ports."""
    folder: Path = tmp_path_factory.mktemp("journey") / "state folder"
    up = sendoff(
        "up", "--detach", "--state-dir", str(folder), *port_options(),
        timeout_seconds=UP_TIMEOUT_SECONDS,
    )  # fmt: skip
    try:
        assert up.returncode == 0, f"{up.stdout}\n{up.stderr}"
        yield json.loads((folder / "local.json").read_text(encoding="utf-8"))
    finally:
        sendoff("down", "--state-dir", str(folder), timeout_seconds=DOWN_TIMEOUT_SECONDS)
