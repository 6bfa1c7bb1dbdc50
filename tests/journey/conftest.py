"""One local stack for all journey tests of a test process: `sendoff up --detach`, then `down`."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from infra.local.state import Local
from tests.conftest import free_port
from tests.journey.crashes import (
    DatabaseCrash,
    EmulatorCrash,
    SenderCrash,
    crash_a_sender,
    crash_the_database,
    crash_the_emulator,
)
from tests.journey.deployment import Service
from tests.journey.main_job import demo_under_way

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


@pytest.fixture(scope="session")
def service(stack: dict[str, Any]) -> Iterator[Service]:
    """The running stack, to ask and to look into."""
    with urllib3.PoolManager(maxsize=20) as http:
        yield Service(local=Local(**stack), http=http)


@pytest.fixture(scope="session")
def emulator_crash(service: Service) -> EmulatorCrash:
    return crash_the_emulator(service)


@pytest.fixture(scope="session")
def sender_crash(service: Service, emulator_crash: EmulatorCrash) -> SenderCrash:
    """After the emulator's, which would take the queue along."""
    del emulator_crash
    return crash_a_sender(service)


@pytest.fixture(scope="session")
def database_crash(service: Service, sender_crash: SenderCrash) -> DatabaseCrash:
    """After the sender's, so that both recover at the same time."""
    del sender_crash
    return crash_the_database(service)


@pytest.fixture(scope="session")
def demo(service: Service) -> Iterator[subprocess.Popen[str]]:
    """The demo, when it has sent everything and only waits."""
    with demo_under_way(service) as demo:
        yield demo
