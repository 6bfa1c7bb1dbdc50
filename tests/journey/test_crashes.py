"""What is promised at once when a part is killed; test_nothing_is_lost.py looks at the ends."""

from tests.journey import processes
from tests.journey.crashes import DatabaseCrash, EmulatorCrash
from tests.journey.deployment import NOTIFICATIONS, Service, wait_for


def test_a_killed_emulator_leaves_no_process_behind(
    service: Service, emulator_crash: EmulatorCrash
) -> None:
    assert emulator_crash.workers
    wait_for(
        lambda: not emulator_crash.workers & processes.workers(service.local),
        what="the end of its functions",
    )


def test_after_a_killed_emulator_the_claim_runs_again(
    service: Service, emulator_crash: EmulatorCrash
) -> None:
    batch = service.first.when_completed(emulator_crash.pending["batch_id"])
    assert batch["counts"] == {"delivered": batch["total_count"]}


def test_without_postgresql_everybody_is_asked_to_come_back(
    database_crash: DatabaseCrash,
) -> None:
    for reply in database_crash.refused:
        assert (reply.status, reply.code) == (503, "unavailable"), reply
        assert int(reply.headers["retry-after"]) > 0


def test_a_refused_post_leaves_its_key_free_and_the_next_one_works(
    service: Service, database_crash: DatabaseCrash
) -> None:
    accepted, client = database_crash.accepted, service.first
    assert "idempotent-replayed" not in accepted.headers
    again = client.post(NOTIFICATIONS, database_crash.item, key=database_crash.key)
    assert (again.status, again.text) == (202, accepted.text)
    assert again.headers["idempotent-replayed"] == "true"
    assert client.when_ended(accepted.json["id"])["status"] == "delivered"
    assert len(service.effects(database_crash.item["recipient"])) == 1
