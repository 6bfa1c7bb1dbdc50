"""Scenes of what becomes of a call: callback, reconcile and sweep."""

from datetime import UTC, datetime, timedelta
from typing import Any

from functions.core.evidence import Rank, Receipt
from functions.providers.choice import DECLARATIONS
from functions.store.receipt import record
from tests.proof.crash_ledger import DOOR
from tests.proof.crash_process import CHANNEL
from tests.proof.crash_rest import reconcile, send, sweep
from tests.proof.crash_scene import HOLD, KEYED, KEYLESS, RETRY, Scene, accept, half_sent, leased
from tests.proof.crash_world import DAY, HOUR, World
from tests.reports import receive, report, signed_event

# Callback: a provider reports; again, it reports the same once more.


def submitted(world: World) -> None:
    leased(world, "told_bounce")
    send(world)


def in_flight(world: World) -> None:
    (id,) = leased(world, "told")
    half_sent(world, id, is_taken=True)
    world.take()


def uncertain(world: World) -> None:
    in_flight(world)
    world.pass_time(HOUR)
    sweep(world)


def tell(world: World) -> dict[str, Any]:
    """Return the report of the only effect, signed now, as the gateway does each time."""
    (effect,) = world.memory.effects
    bounced = effect.call.kind == "told_bounce"
    data: dict[str, Any] = {
        "event_id": f"event-{effect.reference}",
        "message_id": effect.reference,
        "recipient": effect.call.recipient,
    }
    if not bounced:
        data["idempotency_key"] = effect.call.key
    status = "bounced" if bounced else "delivered"
    return signed_event(report(status, permanent=bounced, **data), webhook_id="msg-1")


def tell_again(world: World) -> None:
    answered = receive(world.clients, tell(world))
    assert answered.status == 202, answered


CALLBACK = [
    Scene(
        name=f"callback {name}",
        function="callback",
        prepare=prepare,
        event=tell,
        again=tell_again,
        declaration=KEYLESS if name == "uncertain" else KEYED,
    )
    for name, prepare in (
        ("of a bounce", submitted),
        ("in flight", in_flight),
        ("uncertain", uncertain),
    )
]


# Reconcile and sweep: again, the next run starts at once.


def waiting(world: World) -> None:
    """Submitted rows: past the cutoff, to be asked about, and one with a report nobody matched."""
    leased(world, "silent")
    send(world)
    world.pass_time(3 * DAY)
    leased(world, "asked", "late")
    send(world)
    report_first(world)
    world.pass_time(HOUR)


def report_first(world: World) -> None:
    """Let the report of a notification come before anybody knows the reference it names."""
    leased(world, "by_reference")
    receipt = Receipt(
        provider=DOOR,
        event_key="event-first",
        type="delivered",
        rank=Rank.DELIVERED,
        occurred_at=None,
        reference=f"m-{len(world.memory.effects) + 1}",
    )
    record(world.database, [receipt], provider=DOOR, declarations=DECLARATIONS)
    send(world)
    world.memory.effects[-1].is_reported = True


def undecided(world: World) -> None:
    """Uncertain rows whose grace is over: one was taken, one was not."""
    for id, is_taken in zip(leased(world, "late", "prompt"), (True, False), strict=True):
        half_sent(world, id, is_taken=is_taken)
    world.take()
    world.pass_time(HOUR)
    sweep(world)
    world.pass_time(HOUR)


RECONCILE = [
    Scene(
        name="reconcile submitted",
        function="reconcile",
        prepare=waiting,
        again=reconcile,
    ),
    Scene(
        name="reconcile uncertain hold",
        function="reconcile",
        declaration=KEYLESS,
        policy=HOLD,
        prepare=undecided,
        again=reconcile,
    ),
    Scene(
        name="reconcile uncertain retry",
        function="reconcile",
        declaration=KEYLESS,
        policy=RETRY,
        prepare=undecided,
        again=reconcile,
    ),
]


def lost_leases(world: World) -> None:
    """Leases that ran out: unbegun, begun and taken or not, with keys and without, begun and
    reported, begun as the last of the budget. One row expired before it was claimed."""
    spend_at_once(world, 1)
    (spent,) = leased(world, "late")
    spend_at_once(world, 5)
    half_sent(world, spent, is_taken=True)
    leased(world, "prompt")
    for kind, is_taken, declaration in (
        ("prompt", True, KEYED),
        ("prompt", False, KEYED),
        ("early", True, KEYED),
        ("late", True, KEYLESS),
        ("prompt", False, KEYLESS),
    ):
        (id,) = leased(world, kind)
        half_sent(world, id, is_taken=is_taken, declaration=declaration)
    world.take()
    soon = (datetime.now(UTC) + timedelta(seconds=HOUR / 2)).isoformat()
    accept(world, "expired", expires_at=soon)
    world.pass_time(HOUR)
    forget_soon(world)


def spend_at_once(world: World, max_attempts: int) -> None:
    world.owner.execute(
        "UPDATE channels SET max_attempts = %s WHERE name = %s", [max_attempts, CHANNEL]
    )


def forget_soon(world: World) -> None:
    """Let the keys of the requests so far have been used a day ago."""
    world.owner.execute("UPDATE idempotency_keys SET expires_at = clock_timestamp()")


SWEEP = [
    Scene(
        name="sweep",
        function="sweep",
        policy=RETRY,
        prepare=lost_leases,
        again=sweep,
    ),
]
