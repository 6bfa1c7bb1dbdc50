"""`sendoff chaos` beside `sendoff demo`: what dies meanwhile changes no end, and it says so."""

import contextlib
import re
import subprocess
import sys

import pytest

from infra.local.deploy import start_loops
from tests.journey.deployment import Service

ITEMS = 300
CHAOS_SECONDS, KILL_SECONDS = 20, 1
DEMO_SECONDS = 280
SWEEP_SECONDS = 5.0
"""Between sweeps that are started by hand: the schedule's come once a minute."""


def begin(service: Service, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable, "-m", "functions.cli.main", *arguments,
            "--state-dir", service.local.state_dir,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip


def end_of(process: subprocess.Popen[str], service: Service) -> str:
    """Return what ``process`` says until its end; start the loops again and again meanwhile."""
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=SWEEP_SECONDS)[0]
        start_loops(service.aws)


@pytest.mark.soak
def test_a_demo_whose_senders_are_killed_ends_complete_and_says_so(service: Service) -> None:
    with (
        begin(
            service, "chaos", "--kill", "sender", "--every", str(KILL_SECONDS),
            "--for", str(CHAOS_SECONDS),
        ) as chaos,
        begin(
            service, "demo", "--items", str(ITEMS), "--timeout", str(DEMO_SECONDS)
        ) as demo,
    ):  # fmt: skip
        try:
            said = end_of(demo, service)
            killed, _ = chaos.communicate(timeout=CHAOS_SECONDS)
        finally:
            demo.kill()
            chaos.kill()
    assert (demo.returncode, chaos.returncode) == (0, 0), f"{said}\n{killed}"
    names = re.findall(r"killed (\S+) \(process \d+\)$", killed, re.MULTILINE)
    assert names
    assert {name.partition("-")[0] for name in names} == {"sender"}
    told = re.search(
        r"^Chaos ran beside it: (\d+) kills from .* \((.*)\), on record", said, re.MULTILINE
    )
    assert told, said
    assert 0 < int(told[1]) <= len(names)
    assert "Complete all the same: nothing lost, nothing doubled." in said
