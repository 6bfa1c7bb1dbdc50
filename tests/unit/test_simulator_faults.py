"""Faults that are switched on for everybody."""

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


def test_faults_change_what_they_name_and_reset_together(client: Client) -> None:
    quiet = client.call("GET", "/behaviour")
    assert quiet["outage"] == "none"
    changed = client.call("POST", "/behaviour", {"latency_seconds": 0.5, "callbacks": False})
    assert changed == {**quiet, "latency_seconds": 0.5, "callbacks": False}
    assert client.call("POST", "/behaviour", {"error_rate": 1})["latency_seconds"] == 0.5
    assert client.call("DELETE", "/behaviour") == quiet


@pytest.mark.parametrize(
    "wanted",
    [
        [1],
        {"speed": 1},
        {"outage": "now"},
        {"error_rate": 1.5},
        {"error_rate": True},
        {"latency_seconds": -1},
        {"latency_seconds": "1"},
        {"callbacks": 0},
        {"channels": ["pigeon"]},
    ],
)
def test_an_impossible_fault_is_refused_and_changes_nothing(client: Client, wanted: object) -> None:
    answer = client.http.request("POST", f"{client.url}/behaviour", json=wanted)
    assert answer.status == 400
    assert answer.json()["detail"]
    assert client.call("GET", "/behaviour")["outage"] == "none"


def test_an_outage_accepts_nothing_and_ends(client: Client) -> None:
    client.call("POST", "/behaviour", {"outage": "503"})
    assert client.send("ok@example.com", key="k-1").status == 503
    assert client.http.request("GET", f"{client.url}/gateway/k-1").status == 503
    for outage in ("refuse", "hang"):
        client.call("POST", "/behaviour", {"outage": outage})
        with pytest.raises(NO_ANSWER):
            client.send("ok@example.com", key="k-1", timeout=0.3)
        with pytest.raises(NO_ANSWER):
            client.hook("ok", key="k-2") if outage == "refuse" else client.send(
                "ok@example.com", key="k-2", timeout=0.3
            )
    client.call("DELETE", "/behaviour")
    assert client.effects() == []
    assert client.send("ok@example.com", key="k-1").status == 200


def test_an_outage_of_one_channel_leaves_the_others_alone(client: Client) -> None:
    client.call("POST", "/behaviour", {"outage": "503", "channels": ["sms"]})
    assert client.send("+15550100001", key="k-1", channel="sms").status == 503
    assert client.send("ok@example.com", key="k-2").status == 200


def test_every_request_fails_at_an_error_rate_of_one(client: Client) -> None:
    client.call("POST", "/behaviour", {"error_rate": 1})
    assert client.send("ok@example.com", key="k-1").status == 500
    assert client.hook("ok", key="k-2").status == 500
    assert client.effects() == []


def test_latency_delays_the_answer_not_the_acceptance(client: Client) -> None:
    client.call("POST", "/behaviour", {"latency_seconds": 30})
    with pytest.raises(NO_ANSWER):
        client.send("ok@example.com", key="k-1", timeout=0.3)
    assert eventually(lambda: len(client.effects()) == 1)
    client.call("POST", "/behaviour", {"latency_seconds": 0.05})
    assert client.send("ok@example.com", key="k-1").status == 200
    assert len(client.effects()) == 1
