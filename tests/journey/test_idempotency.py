"""Repeating a POST over the whole stack: one set of rows, and the first answer again."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.journey.deployment import (
    BATCHES,
    NOTIFICATIONS,
    Client,
    Service,
    email,
    fresh,
    push,
    sms,
    webhook,
)

TWINS = 20


def batch_of(service: Service) -> dict[str, Any]:
    return {"notifications": [email(), push(), webhook(service), sms("+15553001000")]}


def rows(client: Client, batch_id: str) -> list[str]:
    """Return the ids of a batch's notifications, in input order."""
    data = client.read(NOTIFICATIONS, batch_id=batch_id)["data"]
    return [one["id"] for one in sorted(data, key=lambda one: one["index"])]


def test_a_repeated_post_gets_the_first_answer_and_stores_nothing(service: Service) -> None:
    client, key, body = service.first, fresh(), batch_of(service)
    first = client.post(BATCHES, body, key=key)
    again = client.post(BATCHES, body, key=f'"{key}"')  # quoted or bare, it is one key
    assert (first.status, again.status) == (202, 202)
    assert again.text == first.text
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    ids = [one["id"] for one in first.json["notifications"]]
    assert rows(client, first.json["batch_id"]) == ids
    for item in body["notifications"][:3]:
        assert sum(one["recipient"] == item["recipient"] for one in newest(client)) == 1


def newest(client: Client) -> list[dict[str, Any]]:
    return client.read(NOTIFICATIONS, limit="100")["data"]


def test_another_body_under_the_same_key_is_refused(service: Service) -> None:
    client, key = service.first, fresh()
    assert client.post(NOTIFICATIONS, email(), key=key).status == 202
    other = email()
    refused = client.post(NOTIFICATIONS, other, key=key)
    assert (refused.status, refused.code) == (422, "idempotency_key_reused")
    assert other["recipient"] not in {one["recipient"] for one in newest(client)}


def test_twenty_at_once_are_accepted_as_one(service: Service) -> None:
    client, key, body = service.first, fresh(), batch_of(service)
    with ThreadPoolExecutor(TWINS) as threads:
        posts = [threads.submit(client.post, BATCHES, body, key=key) for _ in range(TWINS)]
    replies = [post.result() for post in posts]
    assert {reply.status for reply in replies} == {202}
    assert len({reply.text for reply in replies}) == 1
    assert sum("idempotent-replayed" not in reply.headers for reply in replies) == 1
    accepted = replies[0].json
    client.when_completed(accepted["batch_id"])
    for item in body["notifications"][:3]:
        assert sum(one["recipient"] == item["recipient"] for one in newest(client)) == 1
        assert len(service.effects(item["recipient"])) == 1


def test_two_organizations_may_use_the_same_key(service: Service) -> None:
    key, body = fresh(), batch_of(service)
    first = service.first.post(BATCHES, body, key=key)
    second = service.second.post(BATCHES, body, key=key)
    assert (first.status, second.status) == (202, 202)
    assert "idempotent-replayed" not in second.headers
    ids = [{one["id"] for one in reply.json["notifications"]} for reply in (first, second)]
    assert ids[0].isdisjoint(ids[1])
