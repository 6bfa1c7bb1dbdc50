"""Every route and every refusal of the API once, over HTTP and through the deployed gateway."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.journey.deployment import BATCHES, NOTIFICATIONS, Client, Service, email, fresh, wait_for

MAX_BODY_BYTES = 4 * 1024 * 1024
PREFIXES = ("/v1", "/api/v1")


def later() -> str:
    return (datetime.now(UTC) + timedelta(days=1)).isoformat()


@pytest.fixture
def visitor(service: Service) -> Client:
    """Somebody without a key."""
    return service.client(None)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_health_and_documents_need_no_key(visitor: Client, prefix: str) -> None:
    health = visitor.call("GET", f"{prefix}/health")
    assert (health.status, health.json) == (200, {"status": "ok", "database": "ok"})
    document = visitor.call("GET", f"{prefix}/openapi.json")
    assert document.status == 200
    assert BATCHES in document.json["paths"]
    page = visitor.call("GET", f"{prefix}/docs")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    compressed = visitor.call("GET", f"{prefix}/docs", headers={"accept-encoding": "gzip"})
    assert compressed.headers["content-encoding"] == "gzip"
    assert compressed.text == page.text


@pytest.mark.parametrize("key", [None, "sk_nobody", f"sk_{UUID(int=7)}_{'a' * 43}"])
def test_without_a_valid_key_the_answer_is_401(service: Service, key: str | None) -> None:
    for method, path in (("GET", NOTIFICATIONS), ("POST", BATCHES), ("GET", "/v1/suppressions")):
        reply = service.client(key).call(method, path)
        assert (reply.status, reply.code) == (401, "unauthenticated")
        assert reply.headers["www-authenticate"].startswith("Bearer")


def test_a_key_without_the_scope_gets_403(service: Service) -> None:
    fact = {"channel": "email", "recipient": "a@example.com", "reason": "operator"}
    reply = service.second.call("POST", "/v1/suppressions", fact)
    assert (reply.status, reply.code) == (403, "insufficient_scope")
    admin = service.client(service.local.admin_api_key)
    assert admin.call("GET", NOTIFICATIONS).status == 200  # admin includes the others


@pytest.mark.parametrize("path", ["/", "/v1", "/v2/health", "/v1/nothing", "/nothing/v1/health"])
def test_an_unknown_path_is_a_problem_404(service: Service, path: str) -> None:
    reply = service.first.call("GET", path)
    assert (reply.status, reply.code) == (404, "not_found")


@pytest.mark.parametrize("id", ["abc", str(UUID(int=7))])
def test_a_malformed_and_an_absent_id_are_both_404(service: Service, id: str) -> None:
    for path in (f"{NOTIFICATIONS}/{id}", f"/v1/batches/{id}"):
        reply = service.first.call("GET", path)
        assert (reply.status, reply.code) == (404, "not_found")


def test_a_method_that_a_path_does_not_have_is_405(service: Service) -> None:
    for method in ("PUT", "DELETE", "PATCH"):
        reply = service.first.call(method, NOTIFICATIONS)
        assert (reply.status, reply.code) == (405, "method_not_allowed")
        assert reply.headers["allow"] == "GET, POST"


def test_more_than_four_megabytes_are_413(service: Service) -> None:
    body = b'{"notifications": ["' + b"a" * MAX_BODY_BYTES + b'"]}'
    reply = service.first.call("POST", BATCHES, body=body, headers={"idempotency-key": fresh()})
    assert (reply.status, reply.code) == (413, "too_large")


def test_another_media_type_is_415(service: Service) -> None:
    headers = {"content-type": "text/plain", "idempotency-key": fresh()}
    reply = service.first.call("POST", BATCHES, body=b"{}", headers=headers)
    assert (reply.status, reply.code) == (415, "unsupported_media_type")


def test_malformed_json_is_400_and_a_missing_key_too(service: Service) -> None:
    malformed = service.first.call(
        "POST", BATCHES, body=b'{"notifications": [', headers={"idempotency-key": fresh()}
    )
    assert (malformed.status, malformed.code) == (400, "malformed_json")
    missing = service.first.call("POST", BATCHES, {"notifications": [email()]})
    assert (missing.status, missing.code) == (400, "idempotency_key_missing")


def test_one_bad_item_refuses_the_batch_and_is_named(service: Service) -> None:
    good = email()
    reply = service.first.post(BATCHES, {"notifications": [good, {**email(), "colour": "red"}]})
    assert (reply.status, reply.code) == (422, "validation_failed")
    faults = [(fault["pointer"], fault["code"]) for fault in reply.json["errors"]]
    assert faults == [("/notifications/1/colour", "unknown_field")]
    newest = service.first.read(NOTIFICATIONS)["data"]
    assert good["recipient"] not in {one["recipient"] for one in newest}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_is_not_due_is_cancelled_once_and_for_good(service: Service, prefix: str) -> None:
    item = {**email(), "send_at": later()}
    id = service.first.send_one(item)["id"]
    for _ in range(2):
        reply = service.first.call("POST", f"{prefix}/notifications/{id}/cancel")
        assert (reply.status, reply.json["status"]) == (200, "cancelled")
    assert service.effects(item["recipient"]) == []


def test_what_was_sent_is_too_late_to_cancel(service: Service) -> None:
    id = service.first.send_one(email())["id"]
    assert service.first.when_ended(id)["status"] == "delivered"
    reply = service.first.call("POST", f"{NOTIFICATIONS}/{id}/cancel")
    assert (reply.status, reply.code) == (409, "too_late")


def test_a_batch_is_cancelled_as_far_as_it_is_not_too_late(service: Service) -> None:
    batch = service.first.send([email(), {**email(), "send_at": later()}])
    service.first.when_ended(batch["notifications"][0]["id"])
    path = f"/v1/batches/{batch['batch_id']}/cancel"
    first, again = (service.first.call("POST", path) for _ in range(2))
    assert first.json == {"cancelled": 1, "too_late": 1, "already_cancelled": 0}
    assert again.json == {"cancelled": 0, "too_late": 1, "already_cancelled": 1}


def test_a_suppressed_address_gets_nothing_until_it_is_lifted(service: Service) -> None:
    client, item = service.first, email()
    address = {"channel": "email", "recipient": item["recipient"]}
    fact = {**address, "reason": "recipient_choice"}
    added, again = (client.call("POST", "/v1/suppressions", fact) for _ in range(2))
    assert (added.status, again.status) == (201, 200)
    assert active(client, address)
    assert client.when_ended(client.send_one(item)["id"])["status"] == "suppressed"
    assert service.requests(item["recipient"]) == []
    lift = {**address, "reason": "operator"}
    lifted, nothing = (client.call("POST", "/v1/suppressions/lift", lift) for _ in range(2))
    assert (lifted.status, nothing.status) == (200, 404)
    assert active(client, address) == []
    assert client.when_ended(client.send_one(item)["id"])["status"] == "delivered"


def active(client: Client, address: dict[str, str]) -> list[dict[str, Any]]:
    return client.read("/v1/suppressions", active="true", **address)["data"]


def test_a_bounce_suppresses_its_address(service: Service) -> None:
    client, item = service.first, email("bounce")
    address = {"channel": "email", "recipient": item["recipient"]}
    assert client.when_ended(client.send_one(item)["id"])["status"] == "failed"
    assert wait_for(lambda: active(client, address), what="the suppression")
    client.call("POST", "/v1/suppressions/lift", {**address, "reason": "operator"})


def test_a_notification_explains_itself(service: Service) -> None:
    reference = fresh()
    sent = service.first.send_one({**email(), "reference": reference, "metadata": {"order": "7"}})
    service.first.when_ended(sent["id"])
    (listed,) = service.first.read(NOTIFICATIONS, reference=reference)["data"]
    whole = service.first.notification(sent["id"])
    assert listed.items() <= whole.items()
    assert [one["outcome"] for one in whole["attempts"]] == ["accepted"]
    assert [one["type"] for one in whole["receipts"]] == ["delivered"]
    assert whole["timeline"][-1]["to"] == "delivered"
    assert all(entry["sentence"] for entry in whole["timeline"])


def test_pages_follow_their_cursor_to_the_end(service: Service) -> None:
    batch = service.first.send([{**email(), "send_at": later()} for _ in range(5)])
    seen: list[str] = []
    query = {"batch_id": batch["batch_id"], "limit": "2"}
    cursor: str | None = ""
    while cursor is not None:
        page = service.first.read(NOTIFICATIONS, **query, **({"cursor": cursor} if cursor else {}))
        seen += [one["id"] for one in page["data"]]
        cursor = page["next_cursor"]
    assert seen == [one["id"] for one in reversed(batch["notifications"])]
    service.first.call("POST", f"/v1/batches/{batch['batch_id']}/cancel")
    bad = service.first.call("GET", NOTIFICATIONS, query={"cursor": "tampered"})
    assert (bad.status, bad.code) == (400, "invalid_cursor")


def test_another_organization_sees_nothing_of_it(service: Service) -> None:
    batch = service.first.send([{**email(), "send_at": later()}])
    id = batch["notifications"][0]["id"]
    paths = (
        ("GET", f"/v1/batches/{batch['batch_id']}"),
        ("GET", f"{NOTIFICATIONS}/{id}"),
        ("POST", f"{NOTIFICATIONS}/{id}/cancel"),
        ("POST", f"/v1/batches/{batch['batch_id']}/cancel"),
    )
    for method, path in paths:
        reply = service.second.call(method, path)
        assert (reply.status, reply.code) == (404, "not_found"), path
    assert service.second.read(NOTIFICATIONS, batch_id=batch["batch_id"])["data"] == []
    assert service.first.call("POST", f"{NOTIFICATIONS}/{id}/cancel").status == 200
