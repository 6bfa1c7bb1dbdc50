"""The demo's notifications, and the recorded event that holds the first thousand."""

import json
from collections import Counter

import pytest

from functions.cli import demo_batch
from functions.core.content import read_content
from functions.core.recipient import normalise
from functions.core.states import Channel, Priority
from infra.local.simulator_behaviour import Kind, behaviour_of

EVERYTHING = {(channel, kind) for channel in Channel for kind in Kind}


def kind_of(item: dict[str, str]) -> Kind:
    return behaviour_of(item["channel"], item["recipient"]).kind


def test_the_recorded_event_is_what_the_generator_makes() -> None:
    assert demo_batch.EVENT.read_text(encoding="utf-8") == demo_batch.event_text()


def test_the_recorded_event_is_an_http_api_event_with_a_thousand_items() -> None:
    event = json.loads(demo_batch.EVENT.read_text(encoding="utf-8"))
    assert event["version"] == "2.0"
    assert event["requestContext"]["http"]["method"] == "POST"
    assert event["rawPath"] == "/v1/notifications/batches"
    assert len(json.loads(event["body"])["notifications"]) == 1000
    assert demo_batch.recorded() == demo_batch.items(1000)


def test_all_channels_and_behaviours_occur_and_seven_in_ten_are_ok() -> None:
    items = demo_batch.recorded()
    assert {(item["channel"], kind_of(item)) for item in items} == EVERYTHING
    assert 0.65 < sum(kind_of(item) is Kind.OK for item in items) / len(items) < 0.8
    assert {item["priority"] for item in items} == set(Priority)
    assert not any("event_id" in item for item in items)


def test_late_is_at_most_twenty_seconds() -> None:
    behaviours = [
        behaviour_of(item["channel"], item["recipient"]) for item in demo_batch.items(5000)
    ]
    late = [behaviour.number for behaviour in behaviours if behaviour.kind is Kind.LATE]
    assert max(late) == 20


def test_a_short_demo_shows_every_channel_and_behaviour_too() -> None:
    assert {(item["channel"], kind_of(item)) for item in demo_batch.items(50)} == EVERYTHING


def test_recipients_are_distinct_however_many_there_are() -> None:
    items = demo_batch.items(7500)
    assert max(Counter((item["channel"], item["recipient"]) for item in items).values()) == 1


def test_a_shorter_sequence_is_the_beginning_of_a_longer_one() -> None:
    assert demo_batch.items(2100)[:1100] == demo_batch.items(1100)


@pytest.mark.parametrize("origin", [demo_batch.ORIGIN, "http://127.0.0.1:18081"])
def test_every_item_is_stored_as_it_is_written(origin: str) -> None:
    for item in demo_batch.items(3000, origin=origin):
        channel, recipient = item["channel"], item["recipient"]
        assert normalise(channel, recipient, local_webhook_origin=origin) == recipient
        read_content(channel, item["content"])
