"""The commands of the README, run as they stand there, answer as it says."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from infra.local.state import DEFAULT_PORTS, REPOSITORY, StateFolder
from tests.journey.deployment import Service

BLOCK = re.compile(r"<!-- curl -->\n```sh\n(.*?)```", re.DOTALL)

# Prints the status after each answer. Where there is no curl, a stand-in for the options used.
REAL = "curl() { command curl --write-out '\\n%{http_code}\\n' \"$@\"; }\n"
STAND_IN = f'curl() {{ "{sys.executable}" -m tests.journey.curl "$@"; }}\n'


def commands(service: Service) -> str:
    """Return the README's commands for the addresses of this stack."""
    found = BLOCK.search((REPOSITORY / "README.md").read_text(encoding="utf-8"))
    assert found, "the README has no commands between its marks"
    local_json = StateFolder(Path(service.local.state_dir)).path / "local.json"
    places = {
        f"http://127.0.0.1:{DEFAULT_PORTS.api}": service.local.api_url,
        f"http://127.0.0.1:{DEFAULT_PORTS.simulator}": service.local.simulator_url,
        ".sendoff/local.json": str(local_json),
        "+15550100000": "+15553003000",  # the first may be a recipient of a demo under way
    }
    text = found[1]
    for place, own in places.items():
        assert place in text
        text = text.replace(place, own)
    return text


def run(script: str) -> list[tuple[int, Any]]:
    """Return status and body of each answer."""
    start = REAL if shutil.which("curl") else STAND_IN
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", start + script],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=REPOSITORY,
        env={**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
        check=True,
    )
    lines = done.stdout.strip().splitlines()
    return [
        (int(status), json.loads(body))
        for body, status in zip(lines[::2], lines[1::2], strict=True)
    ]


def test_every_command_answers_as_the_readme_says(service: Service) -> None:
    health, batch, single, found, fact = run(commands(service))
    assert health == (200, {"status": "ok", "database": "ok"})
    assert batch[0] == 202
    assert batch[1]["total_count"] == 2
    assert single[0] == 202
    assert found[0] == 200
    assert [one["reference"] for one in found[1]["data"]] == ["order-7"]
    assert found[1]["next_cursor"] is None
    assert fact[0] == 201
    again = run(commands(service))
    assert again[1:3] == [batch, single]  # the same answer again for the same key
    assert again[4][0] == 200
    for id in (one["id"] for one in batch[1]["notifications"]):
        assert service.first.when_ended(id)["status"] == "delivered"
    assert service.first.when_ended(single[1]["id"])["status"] == "delivered"
    lift = {name: fact[1][name] for name in ("channel", "recipient")}
    lifted = service.first.call("POST", "/v1/suppressions/lift", {**lift, "reason": "operator"})
    assert lifted.status == 200
