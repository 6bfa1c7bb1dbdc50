"""Which effects count for which notification."""

from typing import Any

from functions.cli.demo_verdict import Item, count_effects, judge

ITEM = Item(
    id="0199aaaa-0000-7000-8000-000000000001", channel="email", recipient="ok+1@example.com"
)
HOOK = Item(
    id="0199aaaa-0000-7000-8000-000000000002",
    channel="webhook",
    recipient="http://127.0.0.1:8081/hooks/ok/1",
)
OLDER = "0199a000-0000-7000-8000-000000000001"
NEWER = "0199bbbb-0000-7000-8000-000000000001"


def effect(item: Item, *, key: str, notification_id: str | None = None) -> dict[str, Any]:
    body = {"notification_id": notification_id} if notification_id else {"data": 1}
    return {
        "channel": item.channel,
        "recipient": item.recipient,
        "idempotency_key": key,
        "body": body,
    }


def test_an_effect_under_the_id_counts_once() -> None:
    effects = [
        effect(ITEM, key=ITEM.id, notification_id=ITEM.id),
        effect(HOOK, key=HOOK.id),
    ]
    assert count_effects([ITEM, HOOK], effects) == {ITEM.id: 1, HOOK.id: 1}


def test_a_second_key_for_the_same_notification_counts_twice() -> None:
    effects = [
        effect(ITEM, key=ITEM.id, notification_id=ITEM.id),
        effect(ITEM, key=f"{ITEM.id}.1", notification_id=ITEM.id),
        effect(HOOK, key=HOOK.id),
        effect(HOOK, key=f"{HOOK.id}.1"),
        effect(HOOK, key="some other key"),
    ]
    assert count_effects([ITEM, HOOK], effects) == {ITEM.id: 2, HOOK.id: 3}


def test_an_earlier_notification_to_the_same_recipient_does_not_count() -> None:
    effects = [
        effect(ITEM, key=OLDER, notification_id=OLDER),
        effect(HOOK, key=f"{OLDER}.2"),
    ]
    assert not count_effects([ITEM, HOOK], effects)


def test_a_later_stranger_to_the_same_recipient_counts() -> None:
    assert count_effects([HOOK], [effect(HOOK, key=NEWER)]) == {HOOK.id: 1}


def test_what_the_api_does_not_know_is_missing() -> None:
    (seen,) = judge([ITEM], notifications=[], effects=[], suppressions=[])
    assert seen.status == "missing"
    assert seen.ended_at is None
    assert seen.faults == ["expected delivered, is missing", "expected 1 effects, saw 0"]
