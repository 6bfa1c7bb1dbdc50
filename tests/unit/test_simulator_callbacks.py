"""The simulator's callbacks are posted until the API takes them."""

import socket
from collections.abc import Generator

import pytest
import urllib3

from tests.simulated import (
    CallbackApi,
    Client,
    callback_api,
    eventually,
    simulator,
)

NO_ANSWER = (urllib3.exceptions.ReadTimeoutError, urllib3.exceptions.ProtocolError)


@pytest.fixture
def api() -> Generator[CallbackApi]:
    with callback_api() as api:
        yield api


@pytest.fixture
def client(api: CallbackApi) -> Generator[Client]:
    with simulator(callback_url=api.url) as client:
        yield client


def test_a_callback_is_retried_until_the_api_takes_it(client: Client, api: CallbackApi) -> None:
    api.answers[:] = [503, 502]
    client.send("ok@example.com", key="k-1")
    first, second, third = api.wait(3)
    assert first.body == second.body == third.body
    assert eventually(lambda: client.call("GET", "/activity")["callbacks"].get("delivered") == 1)
    assert client.call("GET", "/activity")["callbacks"]["retried"] == 2


def test_a_callback_outlives_a_deployment_during_which_the_gateway_knows_no_api(
    client: Client, api: CallbackApi
) -> None:
    api.answers[:], api.content_type = [404], "application/json"
    client.send("ok@example.com", key="k-1")
    api.wait(2)
    assert eventually(lambda: client.call("GET", "/activity")["callbacks"].get("delivered") == 1)


def test_a_callback_survives_an_api_that_is_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with simulator(callback_url=f"http://127.0.0.1:{port}/v1/callbacks/http") as client:
        client.send("ok@example.com", key="k-1")
        assert eventually(
            lambda: client.call("GET", "/activity")["callbacks"].get("retried", 0) > 0
        )
        assert client.call("GET", "/activity")["callbacks"]["pending"] == 1


def test_a_refused_callback_is_not_repeated(client: Client, api: CallbackApi) -> None:
    api.answers[:] = [401]
    client.send("ok@example.com", key="k-1")
    assert eventually(lambda: client.call("GET", "/activity")["callbacks"].get("refused") == 1)
    assert len(api.callbacks) == 1


def test_an_early_answer_does_not_wait_for_ever_for_its_callback(
    client: Client, api: CallbackApi
) -> None:
    api.answers[:] = [503] * 20
    assert client.send("early@example.com", key="k-1").status == 200


def test_withheld_callbacks_are_counted_and_a_look_up_still_tells(
    client: Client, api: CallbackApi
) -> None:
    client.call("POST", "/behaviour", {"callbacks": False})
    client.send("ok@example.com", key="k-1")
    assert eventually(lambda: client.call("GET", "/gateway/k-1")["status"] == "delivered")
    assert client.call("GET", "/activity")["callbacks"]["withheld"] == 1
    assert api.callbacks == []
