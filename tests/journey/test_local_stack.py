"""The local stack as its user meets it: started, found, read, emptied, ended, killed."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import psycopg
import pytest
import urllib3

from infra.local.state import REPOSITORY, Local, StateFolder
from tests.journey.conftest import port_options, sendoff
from tests.local import first_line, kill, mentioning, python, until

START_SECONDS = 300.0
COMMAND_SECONDS = 60.0
FUNCTIONS = {
    "ingest", "authorizer", "claim", "sender-email", "sender-sms", "sender-push",
    "sender-webhook", "callbacks", "reconcile", "sweeper", "migrate",
    "console",
}  # fmt: skip
QUEUES = {
    f"{name}{kind}"
    for name in ("email", "sms", "push", "webhook", "events")
    for kind in ("", "-dlq")
} | {"ingest-dlq"}
EMAIL = {
    "channel": "email",
    "recipient": "ok+local@example.com",
    "content": {"subject": "Hello", "text": "It works."},
}


def send(local: Local, key: str, idempotency_key: str) -> urllib3.BaseHTTPResponse:
    return urllib3.request(
        "POST",
        f"{local.api_url}/v1/notifications",
        json=EMAIL,
        headers={"Authorization": f"Bearer {key}", "Idempotency-Key": idempotency_key},
        retries=False,
    )


@pytest.fixture(scope="session")
def local(stack: dict[str, Any]) -> Local:
    return Local(**stack)


def test_local_json_tells_other_programs_everything(stack: dict[str, Any]) -> None:
    assert list(stack) == [field.name for field in fields(Local)]
    assert stack["callback_secret"].startswith("whsec_")
    assert stack["webhook_secret"].startswith("whsec_")
    assert stack["database_url"].endswith("/sendoff")
    assert json.loads(Path(stack["state_dir"], "local.json").read_text()) == stack


def test_functions_and_queues_are_named_with_the_prefix_and_without(local: Local) -> None:
    assert set(local.functions) == FUNCTIONS | {f"sendoff-{name}" for name in FUNCTIONS}
    assert set(local.queues) == QUEUES | {f"sendoff-{name}" for name in QUEUES}
    assert local.functions["claim"] == local.functions["sendoff-claim"]
    assert local.functions["claim"].endswith(":function:sendoff-claim")
    assert local.queues["email"].endswith("/sendoff-email")


def test_the_keys_may_do_what_they_are_for(local: Local) -> None:
    def statuses(method: str, path: str, body: object = None) -> list[int]:
        keys = (local.api_key, local.admin_api_key, local.second_tenant_api_key)
        return [
            urllib3.request(
                method,
                f"{local.api_url}{path}",
                json=body,
                headers={"Authorization": f"Bearer {key}"},
                retries=False,
            ).status
            for key in keys
        ]

    nobody = {"channel": "email", "recipient": "nobody@example.com", "reason": "operator"}
    assert statuses("GET", "/v1/notifications") == [200, 200, 200]  # admin includes the others
    assert statuses("POST", "/v1/suppressions/lift", nobody) == [404, 404, 403]


def test_the_command_on_the_screen_can_be_copied(local: Local) -> None:
    up = sendoff("up", "--state-dir", local.state_dir, timeout_seconds=COMMAND_SECONDS)
    shown = re.search(r"^curl .*?'$(?=\n\n)", up.stdout, re.DOTALL | re.MULTILINE)
    assert shown, up.stdout
    if shutil.which("curl") is None:
        return
    done = subprocess.run(
        ["sh", "-c", shown[0]],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
        check=True,
    )
    assert json.loads(done.stdout)["recipient"] == "ok+you@example.com"


@pytest.mark.parametrize("detach", [(), ("--detach",)])
def test_a_second_up_finds_the_first_and_says_so(local: Local, detach: tuple[str, ...]) -> None:
    up = sendoff("up", *detach, "--state-dir", local.state_dir, timeout_seconds=COMMAND_SECONDS)
    assert up.returncode == 0, up.stderr
    assert up.stdout.startswith(f"A stack already runs in {local.state_dir}.")
    assert local.api_url in up.stdout
    assert local.api_key in up.stdout


@pytest.mark.parametrize("detach", [(), ("--detach",)])
def test_a_port_of_another_stack_is_named_and_nothing_is_started(
    local: Local, tmp_path: Path, detach: tuple[str, ...]
) -> None:
    port = local.api_url.rpartition(":")[2]
    folder = tmp_path / "second"
    up = sendoff(
        "up", *detach, "--state-dir", str(folder), *port_options(), "--api-port", port,
        timeout_seconds=COMMAND_SECONDS,
    )  # fmt: skip
    assert up.returncode == 1
    assert up.stderr == (
        f"Port {port}, for the API, is taken by another program. Choose another with --api-port.\n"
    )
    assert not mentioning(str(folder))
    assert StateFolder(folder).holder() is None


def test_logs_show_what_a_function_wrote(local: Local) -> None:
    assert send(local, local.api_key, "logs-1").status == 202

    def ingest_lines() -> list[str]:
        done = sendoff(
            "logs", "ingest", "--state-dir", local.state_dir, timeout_seconds=COMMAND_SECONDS
        )
        assert done.returncode == 0, done.stderr
        return [line for line in done.stdout.splitlines() if '"service":"sendoff"' in line]

    lines = until(ingest_lines)
    assert lines
    assert all(re.match(r"\d\d:\d\d:\d\d\.\d{3} ingest +\{", line) for line in lines)
    assert not any(str(EMAIL["recipient"]) in line for line in lines)


def test_psql_gets_its_arguments_and_the_database(local: Local) -> None:
    done = sendoff(
        "psql", "--state-dir", local.state_dir, "-At", "-c", "SELECT count(*) FROM organizations",
        timeout_seconds=COMMAND_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2\n"


@dataclass(slots=True)
class Own:
    """A stack of one test, in the foreground, that may be killed."""

    folder: StateFolder
    ports: list[str]

    @contextlib.contextmanager
    def up(self) -> Generator[subprocess.Popen[str]]:
        """Start it as from a shell, which may have told its children to ignore SIGINT."""
        process = subprocess.Popen(
            [
                sys.executable, "-m", "functions.cli.main", "up",
                "--state-dir", str(self.folder.path), *self.ports,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=REPOSITORY,
            start_new_session=True,
        )  # fmt: skip
        try:
            ready = until(
                lambda: self.folder.local() or process.poll() is not None, seconds=START_SECONDS
            )
            assert isinstance(ready, Local), process.communicate()[0]
            yield process
        finally:
            process.kill()
            process.communicate()
            assert until(lambda: not self.left())

    def local(self) -> Local:
        local = self.folder.local()
        assert local is not None
        return local

    def left(self) -> set[int]:
        """Return the processes that have to do with this stack."""
        return mentioning(str(self.folder.path)) | mentioning(f"--port\0{self.ports[3]}\0")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, local: Local) -> Own:
    """A stack that is not started yet; it has the assembly of the other one."""
    folder = StateFolder(tmp_path_factory.mktemp("own") / "state folder")
    folder.create()
    shutil.copytree(StateFolder(Path(local.state_dir)).synth, folder.synth)
    return Own(folder, port_options())


def test_two_stacks_side_by_side_and_ctrl_c_leaves_nothing_but_the_state(
    own: Own, local: Local
) -> None:
    with own.up() as process:
        mine = own.local()
        assert send(mine, mine.api_key, "side-1").status == 202
        assert send(local, mine.api_key, "side-1").status == 401  # the other one knows no such key
        assert until(lambda: count_notifications(mine, status="delivered") == 1)
        assert len(own.left()) > 4
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=COMMAND_SECONDS)
        assert process.returncode == 0, output
        assert "Sendoff runs." in output
        assert output.rstrip().endswith(
            "Everything has ended. The state is kept; `sendoff reset` deletes it."
        )
        assert until(lambda: not own.left())
        assert not (own.folder.path / "local.json").exists()


def test_another_start_keeps_keys_and_rows_flush_forgets_rows_and_down_ends_it(own: Own) -> None:
    keys = own.folder.secrets()
    with own.up():
        mine = own.local()
        assert own.folder.secrets() == keys
        assert count_notifications(mine, status="delivered") == 1
        done = sendoff("flush", "--state-dir", mine.state_dir, timeout_seconds=COMMAND_SECONDS)
        assert done.returncode == 0, done.stderr
        assert count_notifications(mine) == 0
        ledger = urllib3.request("GET", f"{mine.simulator_url}/ledger").json()
        assert ledger == {"requests": [], "effects": []}
        assert send(mine, mine.api_key, "side-1").status == 202  # the key is free again
        assert until(lambda: count_notifications(mine, status="delivered") == 1)
        down = sendoff("down", "--state-dir", mine.state_dir, timeout_seconds=COMMAND_SECONDS)
        assert down.stdout == f"The stack in {mine.state_dir} has ended.\n"
        assert not own.left()


def count_notifications(local: Local, *, status: str | None = None) -> int:
    with psycopg.connect(local.database_url, autocommit=True) as connection:
        ((count,),) = connection.execute(
            "SELECT count(*) FROM notifications WHERE status = coalesce(%(status)s, status)",
            {"status": status},
        ).fetchall()
        return count


def test_killing_the_supervisor_by_minus_nine_leaves_no_process(own: Own) -> None:
    with own.up() as process:
        before = own.left()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert until(lambda: not own.left())
        assert len(before) > 4
        assert (own.folder.path / "local.json").exists()
        assert own.folder.local() is None  # it says so of nobody


BRINGS_ITS_OWN = """
import sys, time
from pathlib import Path
from functions.cli.progress import InLines
from functions.cli.supervise import running_or_own
from infra.local.state import Ports, StateFolder
ports = Ports(**dict(zip(("api", "simulator", "emulator", "database"), map(int, sys.argv[2:]))))
with running_or_own(StateFolder(Path(sys.argv[1])), ports, report=InLines(sys.stderr)) as local:
    print(local.api_url, flush=True)
    time.sleep(600)
"""


def test_a_command_that_brought_its_own_stack_takes_it_along_even_when_killed(own: Own) -> None:
    with python(BRINGS_ITS_OWN, str(own.folder.path), *own.ports[1::2]) as process:
        assert first_line(process) == own.local().api_url  # right after a crash it has recovered
        assert send(own.local(), own.local().api_key, "own-1").status == 202
        kill(process.pid)
        process.wait()
        assert until(lambda: not own.left())


def test_reset_deletes_the_state(own: Own) -> None:
    path = str(own.folder.path)
    reset = sendoff("reset", "--state-dir", path, timeout_seconds=COMMAND_SECONDS)
    assert (reset.returncode, reset.stdout) == (0, f"The state in {path} is deleted.\n")
    assert not own.folder.path.exists()
