"""The launcher: one application on two ports, and nothing left when it ends."""

import asyncio
import io
import json
import signal
import zipfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from infra.local import dependent
from infra.local.emulator import ACCOUNT, Clients, Emulator, EmulatorFailed
from infra.local.launcher import HOST, Receive, Scope, Send, with_api_port
from tests.conftest import free_port
from tests.local import is_gone, kill, mentioning, until

API_PORT, AWS_PORT, API_ID = 8080, 4566, "5e4d0ff1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/any"
LOOPING = "import time\ndef handler(event, context):\n    time.sleep(600)\n"
ECHOING = (
    "import os\ndef handler(event, context):\n"
    "    return {'statusCode': 200, 'body': event['rawPath'], 'headers': "
    "{'environment': ' '.join(sorted(os.environ))}}\n"
)


async def no_message() -> None:
    return None


async def ignore(_message: Any) -> None:
    return None


def scope_after(scope: Scope) -> Scope:
    """Return what the emulator gets for a request with ``scope``."""
    got: list[Scope] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        del receive, send
        got.append(scope)

    routed = with_api_port(application, api_port=API_PORT, api_id=API_ID)
    asyncio.run(routed(scope, no_message, ignore))
    (scope,) = got
    return scope


def request(port: int, kind: str = "http") -> Scope:
    return {
        "type": kind,
        "server": (HOST, port),
        "path": "/v1/a b",
        "raw_path": b"/v1/a%20b",
        "query_string": b"status=dead",
        "headers": [(b"host", b"127.0.0.1")],
    }


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_request_on_the_api_port_gets_the_apis_path_and_nothing_else(kind: str) -> None:
    before = request(API_PORT, kind)
    after = scope_after(before)
    prefix = f"/_aws/execute-api/{API_ID}/$default"
    assert after == {
        **request(API_PORT, kind),
        "path": f"{prefix}/v1/a b",
        "raw_path": f"{prefix}/v1/a%20b".encode(),
    }
    assert before == request(API_PORT, kind)


def test_aws_calls_and_the_start_pass_unchanged() -> None:
    assert scope_after(request(AWS_PORT)) == request(AWS_PORT)
    assert scope_after({"type": "lifespan"}) == {"type": "lifespan"}


@pytest.fixture
def emulator(tmp_path: Path) -> Generator[Emulator]:
    """A running emulator in a folder whose name has a space."""
    emulator = Emulator(
        port=free_port(),
        api_port=free_port(),
        api_id=API_ID,
        log=tmp_path / "emulator.log",
        temporary=tmp_path / "temporary folder",
    )
    emulator.launch()
    try:
        emulator.wait()
        yield emulator
    finally:
        emulator.stop()


def create_function(clients: Clients, code: str) -> str:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("module.py", code)
    functions = clients.functions()
    made = functions.create_function(
        FunctionName="one",
        Runtime="python3.13",
        Role=ROLE,
        Handler="module.handler",
        Code={"ZipFile": archive.getvalue()},
        Timeout=900,
    )
    functions.close()
    return made["FunctionArn"]


def start_looping(emulator: Emulator) -> set[int]:
    """Start a function that does not end; return its processes."""
    clients = Clients(emulator.endpoint)
    create_function(clients, LOOPING)
    functions = clients.functions()
    functions.invoke(FunctionName="one", InvocationType="Event", Payload=b"{}")
    functions.close()
    process = emulator.process
    assert process is not None
    assert until(lambda: workers(emulator))
    return workers(emulator)


def workers(emulator: Emulator) -> set[int]:
    assert emulator.process is not None
    return mentioning(f"{emulator.temporary}/ministack-lambda-") - {emulator.process.pid}


def test_stopping_ends_a_function_in_a_loop_at_once(emulator: Emulator) -> None:
    running = start_looping(emulator)
    emulator.stop()
    assert all(is_gone(pid) for pid in running)
    emulator.clear()
    assert not emulator.temporary.exists()


def test_a_killed_emulator_is_noticed_and_its_functions_are_ended(emulator: Emulator) -> None:
    running = start_looping(emulator)
    assert emulator.process is not None
    kill(emulator.process.pid)
    assert until(lambda: not emulator.is_running)
    emulator.stop()
    assert until(lambda: all(is_gone(pid) for pid in running))


def test_a_polite_request_to_end_takes_the_functions_along(emulator: Emulator) -> None:
    running = start_looping(emulator)
    process = emulator.process
    assert process is not None
    process.send_signal(signal.SIGTERM)  # as the kernel does when the supervisor is killed
    assert process.wait(20) == -signal.SIGKILL
    assert until(lambda: all(is_gone(pid) for pid in running))


def test_the_api_port_reaches_the_api_and_functions_see_a_clean_environment(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = Clients(emulator.endpoint)
    arn = create_function(clients, ECHOING)
    api = create_api(emulator, arn)
    assert api == API_ID
    answer = urllib3.request("GET", f"http://{HOST}:{emulator.api_port}/v1/echo", retries=False)
    assert (answer.status, answer.data) == (200, b"/v1/echo")
    seen = set(answer.headers["environment"].split())
    assert not {name for name in seen if name.startswith(("PG", "VIRTUAL_ENV", "UV_", "PYTEST"))}


def create_api(emulator: Emulator, function: str) -> str:
    """Create an HTTP API with the id of the API port, all of whose requests go to ``function``."""

    def post(path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = urllib3.request(
            "POST", f"{emulator.endpoint}/v2/apis{path}", json=body, retries=False
        )
        assert answer.status == 201, answer.data
        return json.loads(answer.data)

    made = post("", {"name": "one", "protocolType": "HTTP", "tags": {"ms-custom-id": API_ID}})
    integration = post(
        f"/{API_ID}/integrations",
        {
            "integrationType": "AWS_PROXY",
            "integrationUri": function,
            "payloadFormatVersion": "2.0",
        },
    )
    target = f"integrations/{integration['integrationId']}"
    post(f"/{API_ID}/routes", {"routeKey": "$default", "target": target})
    post(f"/{API_ID}/stages", {"stageName": "$default", "autoDeploy": True})
    return made["apiId"]


def test_an_emulator_whose_port_is_taken_says_so(emulator: Emulator, tmp_path: Path) -> None:
    second = Emulator(
        port=emulator.port,
        api_port=free_port(),
        api_id=API_ID,
        log=tmp_path / "second.log",
        temporary=tmp_path / "second",
    )
    second.launch()
    process = second.process
    assert process is not None
    assert process.wait(30) != 0
    with pytest.raises(EmulatorFailed, match="cannot serve"):
        second.wait()
    dependent.kill_group(process)
