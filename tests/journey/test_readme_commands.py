"""The commands of the README, run as they stand there, answer as it says."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from infra.local.state import DEFAULT_PORTS, REPOSITORY, StateFolder
from tests.journey.deployment import NOTIFICATIONS, Service, wait_for

BLOCK = re.compile(r"<!-- curl -->\n```sh\n(.*?)```", re.DOTALL)
STORY = re.compile(r"<!-- story -->\n```sh\n(.*?)```", re.DOTALL)

ENVIRONMENT = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}

FIRST_ORGANIZATION = "SELECT id FROM organizations ORDER BY id LIMIT 1"
WAITING = "SELECT FROM requests WHERE drained_at IS NULL"

# Prints the status after each answer. Where there is no curl, a stand-in for the options used.
REAL = "curl() { command curl --write-out '\\n%{http_code}\\n' \"$@\"; }\n"
STAND_IN = f'curl() {{ "{sys.executable}" -m tests.journey.curl "$@"; }}\n'


def block(mark: re.Pattern[str]) -> str:
    found = mark.search((REPOSITORY / "README.md").read_text(encoding="utf-8"))
    assert found, "the README has no commands between its marks"
    return found[1]


def commands(service: Service) -> str:
    """Return the README's commands for the addresses of this stack."""
    local_json = StateFolder(Path(service.local.state_dir)).path / "local.json"
    places = {
        f"http://127.0.0.1:{DEFAULT_PORTS.api}": service.local.api_url,
        f"http://127.0.0.1:{DEFAULT_PORTS.simulator}": service.local.simulator_url,
        ".sendoff/local.json": str(local_json),
        "+15550100000": "+15553003000",  # the first may be a recipient of a demo under way
    }
    text = block(BLOCK)
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
        env=ENVIRONMENT,
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


def elsewhere(service: Service) -> str:
    """Return what has `uv run sendoff …` speak to this stack."""
    place = shlex.quote(str(service.local.state_dir))
    return f'uv() {{ command uv run --no-sync "${{@:2}}" --state-dir {place}; }}\n'


def event(service: Service, receipt: str) -> dict[str, str]:
    """Return the event of the third way, as the README's command makes it."""
    ((organization_id,),) = service.query(FIRST_ORGANIZATION)
    detail = {
        "payment": "pay_2f6c1b",
        "organization_id": str(organization_id),
        "notifications": [json.loads(receipt)],
    }
    return {"Source": "billing", "DetailType": "PaymentSettled", "Detail": json.dumps(detail)}


def test_a_settled_payment_is_one_receipt_by_whichever_of_three_doors(service: Service) -> None:
    story = block(STORY)
    (receipt,) = re.findall(r"^receipt='(.*?)'$", story, re.DOTALL | re.MULTILINE)
    script = story.replace(f"http://127.0.0.1:{DEFAULT_PORTS.api}", service.local.api_url)
    script = script.replace(".sendoff/local.json", f"{service.local.state_dir}/local.json")
    start = (REAL if shutil.which("curl") else STAND_IN) + elsewhere(service)
    for _ in range(2):
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", start + script],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=REPOSITORY,
            env=ENVIRONMENT,
        )
        assert done.returncode == 0, done.stderr
        put = service.aws.event_bus().put_events(Entries=[event(service, receipt)])
        assert put["FailedEntryCount"] == 0
    wait_for(lambda: not service.query(WAITING), what="the drain of what was asked for by SQL")
    (parent,) = (
        one
        for one in service.first.read(NOTIFICATIONS, event_id="pay_2f6c1b")["data"]
        if one["parent_id"] is None
    )
    assert service.first.when_ended(parent["id"])["status"] == "delivered"
    (child,) = service.first.notification(parent["id"])["children"]
    (effect,) = (
        one for one in service.effects("ok+ada@example.com") if one["idempotency_key"] == child
    )
    assert effect["body"]["content"] == {
        "subject": "Beleg pay_2f6c1b",
        "text": "Danke, Ada: 12,00 EUR.",
    }
