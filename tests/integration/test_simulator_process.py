"""The simulator as the process that the local stack starts."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest
import urllib3

from tests.conftest import free_port
from tests.simulated import CALLBACK_SECRET, GATEWAY_SECRET, Client, eventually

COMMAND = (sys.executable, "-m", "infra.local.simulator")


@contextmanager
def process(port: int, **environment: str) -> Generator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        [*COMMAND, "--port", str(port)],
        env=os.environ | environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


@contextmanager
def client_of(port: int) -> Generator[Client]:
    with urllib3.PoolManager(maxsize=64, retries=False) as http:
        client = Client(f"http://127.0.0.1:{port}", http)
        assert eventually(lambda: answers(client))
        yield client


def answers(client: Client) -> bool:
    try:
        return client.call("GET", "/health") == {"status": "ok"}
    except urllib3.exceptions.HTTPError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_while_calls_hang_and_callbacks_wait(number: signal.Signals) -> None:
    port = free_port()
    away = f"http://127.0.0.1:{free_port()}/v1/callbacks/http"
    secrets = {"CALLBACK_URL": away, "CALLBACK_SECRET": CALLBACK_SECRET}
    with process(port, **secrets) as started, client_of(port) as client:
        client.send("late.60@example.com", key="k-1")
        client.send("ok@example.com", key="k-2")
        with ThreadPoolExecutor() as threads:
            hanging = threads.submit(client.send, "hang@example.com", key="k-3", timeout=30)
            assert eventually(lambda: len(client.effects()) == 3)
            started.send_signal(number)
            assert started.wait(10) == 0
            with pytest.raises(urllib3.exceptions.ProtocolError):
                hanging.result()
        assert started.stderr is not None
        assert "Traceback" not in started.stderr.read()


def test_secrets_come_by_the_environment_so_that_ps_does_not_show_them() -> None:
    port = free_port()
    with process(port, GATEWAY_SECRET=GATEWAY_SECRET) as started, client_of(port) as client:
        assert client.send("ok@example.com", key="k-1").status == 401
        assert client.send("ok@example.com", key="k-1", secret=GATEWAY_SECRET).status == 200
        with open(f"/proc/{started.pid}/cmdline", encoding="utf-8") as command:
            assert "whsec_" not in command.read()


def test_a_burst_of_simultaneous_connections_is_answered_whole() -> None:
    port = free_port()

    def send(number: int) -> int:
        with urllib3.PoolManager(retries=False) as http:
            one = Client(f"http://127.0.0.1:{port}", http)
            return one.send(f"ok+{number}@example.com", key=f"k-{number}").status

    with process(port), client_of(port) as client:
        with ThreadPoolExecutor(200) as threads:
            statuses = list(threads.map(send, range(1000)))
        assert set(statuses) == {200}
        assert len(client.effects()) == 1000


def test_many_hanging_calls_cost_no_threads_and_leave_none() -> None:
    port = free_port()

    def threads_of(pid: int) -> int:
        return len(os.listdir(f"/proc/{pid}/task"))

    with process(port) as started, client_of(port) as client:
        before = threads_of(started.pid)
        with ThreadPoolExecutor(50) as threads:
            calls = [
                threads.submit(client.send, "hang@example.com", key=f"k-{number}", timeout=1.0)
                for number in range(50)
            ]
            assert eventually(lambda: len(client.effects()) == 50)
            assert threads_of(started.pid) == before
        assert all(call.exception() is not None for call in calls)
        assert eventually(lambda: sockets_of(started.pid) < 20)


def sockets_of(pid: int) -> int:
    folder = f"/proc/{pid}/fd"
    number = 0
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):  # closed since it was listed
            number += os.readlink(f"{folder}/{name}").startswith("socket:")
    return number


def test_a_taken_port_is_named_in_one_sentence() -> None:
    port = free_port()
    with process(port), client_of(port):
        second = subprocess.run(
            [*COMMAND, "--port", str(port)], capture_output=True, text=True, timeout=120
        )
    assert second.returncode == 1
    assert second.stderr.strip().endswith(f"cannot listen on port {port}: Address already in use.")
    assert "Traceback" not in second.stderr


def test_callbacks_without_a_secret_are_refused_at_the_start() -> None:
    command = [*COMMAND, "--callback-url", "http://127.0.0.1:1/"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "CALLBACK_SECRET" in done.stderr
