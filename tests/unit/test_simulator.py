"""Every behaviour of the simulator, over real sockets."""

from collections.abc import Generator

import pytest
import urllib3

from tests.simulated import (
    GATEWAY_SECRET,
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


def test_ok_is_accepted_and_reported_delivered(client: Client, api: CallbackApi) -> None:
    answer = client.send("ok+1@example.com", key="k-1")
    assert answer.status == 200
    assert answer.json()["status"] == "accepted"
    (callback,) = api.wait(1)
    assert callback.is_signed
    assert callback.headers["webhook-id"] == callback.data["event_id"]
    assert callback.data | {"event_id": "", "reason": None} == {
        "event_id": "",
        "message_id": answer.json()["message_id"],
        "idempotency_key": "k-1",
        "recipient": "ok+1@example.com",
        "status": "delivered",
        "permanent": False,
        "reason": None,
    }


def test_the_ledger_keeps_what_was_received(client: Client) -> None:
    client.send("ok+1@example.com", key="k-1")
    (request,) = client.requests()
    (effect,) = client.effects()
    assert request == effect
    assert request["idempotency_key"] == "k-1"
    assert request["channel"] == "email"
    assert request["recipient"] == "ok+1@example.com"
    assert request["body"]["content"] == {"subject": "Your receipt", "text": "Thank you."}
    assert request["headers"]["idempotency-key"] == '"k-1"'
    assert request["answer"] == 200
    assert request["at"].endswith("Z")


def test_a_key_that_was_accepted_gets_the_first_id_and_no_second_effect(
    client: Client, api: CallbackApi
) -> None:
    first = client.send("ok+1@example.com", key="k-1")
    again = client.send("ok+1@example.com", key="k-1")
    assert again.status == 200
    assert again.json()["message_id"] == first.json()["message_id"]
    assert len(client.requests()) == 2
    assert len(client.effects()) == 1
    api.wait(1)
    assert eventually(lambda: client.call("GET", "/activity")["callbacks"]["pending"] == 0)
    assert len(api.callbacks) == 1


def test_twice_delivers_one_event_two_times(client: Client, api: CallbackApi) -> None:
    client.send("twice@example.com", key="k-1")
    first, second = api.wait(2)
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert second.is_signed
    assert len(client.effects()) == 1


def test_distinct_events_have_distinct_ids(client: Client, api: CallbackApi) -> None:
    for number in range(5):
        client.send("ok@example.com", key=f"k-{number}")
    assert len({callback.data["event_id"] for callback in api.wait(5)}) == 5


def test_early_is_reported_before_the_answer(client: Client, api: CallbackApi) -> None:
    answer = client.send("early@example.com", key="k-1")
    assert len(api.callbacks) == 1
    assert api.callbacks[0].data["message_id"] == answer.json()["message_id"]
    assert api.callbacks[0].data["status"] == "delivered"


def test_late_is_reported_after_its_seconds(client: Client, api: CallbackApi) -> None:
    client.send("late.1@example.com", key="late")
    client.send("ok@example.com", key="ok")
    soon, late = api.wait(2)
    assert soon.data["idempotency_key"] == "ok"
    assert late.data["idempotency_key"] == "late"
    assert late.arrived_at - soon.arrived_at > 0.8


def test_silent_is_accepted_and_never_reported(client: Client, api: CallbackApi) -> None:
    assert client.send("silent@example.com", key="k-1").status == 200
    client.send("ok@example.com", key="k-2")
    assert [callback.data["idempotency_key"] for callback in api.wait(1)] == ["k-2"]
    assert client.call("GET", "/gateway/k-1")["status"] == "accepted"


def test_bounce_is_accepted_and_reported_bounced_for_good(client: Client, api: CallbackApi) -> None:
    assert client.send("+15550102001", key="k-1", channel="sms").status == 200
    (callback,) = api.wait(1)
    assert callback.data["status"] == "bounced"
    assert callback.data["permanent"] is True
    assert callback.data["reason"]
    assert client.call("GET", "/gateway/k-1")["status"] == "bounced"


def test_reject_is_refused_each_time_without_effect(client: Client) -> None:
    for _ in range(2):
        assert client.send("sim-reject-1", key="k-1", channel="push").status == 400
    assert client.effects() == []
    assert [request["answer"] for request in client.requests()] == [400, 400]


def test_flaky_is_refused_so_many_times_per_key_and_then_accepted(client: Client) -> None:
    statuses = [client.send("flaky.2@example.com", key="k-1").status for _ in range(4)]
    assert statuses == [503, 503, 200, 200]
    assert client.send("flaky.2@example.com", key="k-2").status == 503
    assert [effect["idempotency_key"] for effect in client.effects()] == ["k-1"]


def test_throttle_asks_once_per_key_to_wait(client: Client) -> None:
    refused = client.send("throttle.7@example.com", key="k-1")
    assert refused.status == 429
    assert refused.headers["retry-after"] == "7"
    assert client.send("throttle.7@example.com", key="k-1").status == 200
    assert client.send("throttle.7@example.com", key="k-2").status == 429
    assert len(client.effects()) == 1


@pytest.mark.parametrize("behaviour", ["hang", "drop"])
def test_an_unanswered_acceptance_counts_and_the_same_key_learns_of_it(
    client: Client, api: CallbackApi, behaviour: str
) -> None:
    with pytest.raises(NO_ANSWER):
        client.send(f"{behaviour}@example.com", key="k-1", timeout=0.3)
    assert api.callbacks == []
    assert eventually(lambda: len(client.effects()) == 1)
    (effect,) = client.effects()
    again = client.send(f"{behaviour}@example.com", key="k-1")
    assert again.status == 200
    assert again.json()["message_id"] == effect["message_id"]
    (callback,) = api.wait(1)
    assert callback.data["status"] == "delivered"
    client.send(f"{behaviour}@example.com", key="k-1")
    assert [request["answer"] for request in client.requests()] == [None, 200, 200]
    assert len(client.effects()) == 1


def test_a_look_up_finds_acceptances_only(client: Client) -> None:
    client.send("reject@example.com", key="refused")
    accepted = client.send("silent@example.com", key="taken").json()
    found = client.http.request("GET", f"{client.url}/gateway/taken")
    assert found.status == 200
    assert found.json() == accepted
    for key in ("refused", "unknown"):
        assert client.http.request("GET", f"{client.url}/gateway/{key}").status == 404


@pytest.mark.parametrize(
    "path", ["ok/1", "silent", "bounce/2", "twice", "early", "late.5/orders?a=b"]
)
def test_a_hook_accepts_and_sends_no_callback(client: Client, api: CallbackApi, path: str) -> None:
    assert client.hook(path, key="k-1").status == 200
    client.send("ok@example.com", key="k-2")
    assert [callback.data["idempotency_key"] for callback in api.wait(1)] == ["k-2"]
    (effect,) = client.effects(recipient=f"{client.url}/hooks/{path}")
    assert effect["channel"] == "webhook"
    assert effect["idempotency_key"] == "k-1"
    assert effect["body"] == {"data": 1}
    assert client.call("GET", "/gateway/k-1")["status"] == "delivered"


def test_a_hook_refuses_by_its_path_and_honours_the_webhook_id(client: Client) -> None:
    assert client.hook("reject", key="k-1").status == 400
    assert [client.hook("flaky.1/x", key="k-2").status for _ in range(3)] == [503, 200, 200]
    assert [client.hook("throttle.1", key="k-3").status for _ in range(2)] == [429, 200]
    with pytest.raises(NO_ANSWER):
        client.hook("drop", key="k-4")
    assert client.hook("drop", key="k-4").status == 200
    assert [effect["idempotency_key"] for effect in client.effects()] == ["k-2", "k-3", "k-4"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_a_hook_takes_any_method(client: Client, method: str) -> None:
    assert client.hook("ok", key="k-1", method=method).status == 200


def test_the_ledger_is_filtered_by_recipient_and_time_and_can_be_cleared(client: Client) -> None:
    client.send("ok+1@example.com", key="k-1")
    client.send("ok+2@example.com", key="k-2")
    (second,) = client.requests(recipient="ok+2@example.com")
    assert second["idempotency_key"] == "k-2"
    plain = client.http.request("GET", f"{client.url}/ledger?recipient=ok+2@example.com").json()
    assert plain["requests"] == [second]
    assert client.requests(since=second["at"]) == [second]
    assert client.http.request("GET", f"{client.url}/ledger?since=today").status == 400
    client.call("DELETE", "/ledger")
    assert client.requests() == client.effects() == []
    assert client.call("GET", "/activity")["counts"] == []


def test_a_gateway_with_a_secret_wants_a_signature() -> None:
    with simulator(gateway_secret=GATEWAY_SECRET) as client:
        other = "whsec_b3RoZXItc2VjcmV0LW9mLXRoZS10ZXN0cw=="
        assert client.send("ok@example.com", key="k-1").status == 401
        assert client.send("ok@example.com", key="k-1", secret=other).status == 401
        assert client.send("ok@example.com", key="k-1", secret=GATEWAY_SECRET).status == 200
        assert [request["answer"] for request in client.requests()] == [401, 401, 200]
        assert len(client.effects()) == 1


def test_an_unreadable_gateway_request_is_refused_and_kept(client: Client) -> None:
    url = f"{client.url}/gateway"
    for body in (b"not json", b"[]", b'{"recipient": 1, "channel": "email"}'):
        answer = client.http.request("POST", url, body=body, headers={"idempotency-key": "k"})
        assert answer.status == 400
    keyless = client.http.request(
        "POST", url, json={"recipient": "a@b.example", "channel": "email"}
    )
    assert keyless.status == 400
    assert [request["answer"] for request in client.requests()] == [400] * 4
    assert client.requests()[0]["body"] == "not json"
