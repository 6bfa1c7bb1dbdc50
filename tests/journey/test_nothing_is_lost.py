"""Every acknowledged notification ends, whatever crashed on its way."""

from tests.journey.crashes import DatabaseCrash, EmulatorCrash, SenderCrash
from tests.journey.deployment import RECOVERY_SECONDS, Service


def test_a_sender_killed_after_the_acceptance_and_before_the_commit_has_one_effect(
    service: Service, sender_crash: SenderCrash
) -> None:
    assert [attempt["outcome"] for attempt in sender_crash.attempts] == [None]
    notification = service.first.when_ended(sender_crash.notification_id, seconds=RECOVERY_SECONDS)
    assert notification["status"] == "delivered"
    outcomes = [attempt["outcome"] for attempt in notification["attempts"]]
    assert outcomes == ["unknown", "accepted"]
    assert len(service.effects(sender_crash.recipient)) == 1
    keys = [one["idempotency_key"] for one in service.requests(sender_crash.recipient)]
    assert keys == [sender_crash.notification_id] * 2


def test_what_was_leased_when_the_emulator_was_killed_is_delivered_once(
    service: Service, emulator_crash: EmulatorCrash
) -> None:
    leased = emulator_crash.leased
    batch = service.first.when_completed(leased["batch_id"], seconds=RECOVERY_SECONDS)
    assert batch["counts"] == {"delivered": batch["total_count"]}
    assert_one_effect_each(service, leased["batch_id"])


def test_what_was_acknowledged_before_postgresql_was_killed_is_delivered_once(
    service: Service, database_crash: DatabaseCrash
) -> None:
    before = database_crash.before
    batch = service.first.when_completed(before["batch_id"], seconds=RECOVERY_SECONDS)
    assert batch["counts"] == {"delivered": before["total_count"]}
    assert_one_effect_each(service, before["batch_id"])


def assert_one_effect_each(service: Service, batch_id: str) -> None:
    page = service.first.read("/v1/notifications", batch_id=batch_id, limit="100")
    assert page["data"]
    for notification in page["data"]:
        effects = service.effects(notification["recipient"])
        keys = [one["idempotency_key"] for one in effects]
        assert keys.count(notification["idempotency_key"]) == 1, notification
