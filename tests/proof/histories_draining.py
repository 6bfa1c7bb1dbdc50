"""The end of a random history: with honest providers and time everything comes to rest."""

from collections import Counter
from datetime import datetime, timedelta

from functions.store.batch import read_batch
from tests.proof import histories_repair as repair
from tests.proof.histories_invariants import Broken
from tests.proof.histories_leasing import claim
from tests.proof.histories_model import FINAL
from tests.proof.histories_rows import Row
from tests.proof.histories_sending import call, close_calls, deliver, lose
from tests.proof.histories_time import expire_rows, reconcile, sweep_channel
from tests.proof.histories_world import World

ROUNDS = 80
"""More than any history needs; one that goes on for ever is a broken promise."""


def drain(world: World) -> None:
    """Let every notification come to rest, and look at what is left."""
    if world.paused:
        repair.go_on(world)
    for one in list(world.calls):
        lose(world, one)
    for _ in range(ROUNDS):
        if not any(_moves(row) for row in world.rows()):
            break
        _step(world)
    _check_rest(world)
    check_batches(world)


def _moves(row: Row) -> bool:
    return row.status in ("pending", "leased", "uncertain", "submitted") or (
        row.lease_until is not None
    )


def _step(world: World) -> None:
    """Do what is due; when nothing is, let time pass until something is."""
    rows = [row for row in world.rows() if _moves(row)]
    deliverable = {row.id: row for row in rows if _is_free(world, row)}
    messages = [one for one in world.queue if one.id in deliverable]
    messages = [one for one in messages if one.lease == deliverable[one.id].lease_number]
    over = {row.channel for row in rows if row.lease_until and row.lease_until <= world.now}
    due = {row.channel for row in rows if row.status == "pending" and _is_due(world, row)}
    waits = [row for row in rows if row.status in ("submitted", "uncertain")]
    if messages:
        channel = messages[0].channel
        _send(world, channel)
    elif over:
        sweep_channel(world, min(over))
    elif any(row.expires_at and row.expires_at <= world.now for row in rows if _waits(row)):
        expire_rows(world)
    elif due:
        claim(world, min(due))
    elif any(row.next_check_at and row.next_check_at <= world.now for row in waits):
        reconcile(world)
    else:
        world.now = max(world.now, _next_time(world, rows))


def _waits(row: Row) -> bool:
    return row.status == "pending"


def _is_free(world: World, row: Row) -> bool:
    """Whether the row's lease is good for an attempt."""
    is_live = row.lease_until is not None and row.lease_until > world.now
    return row.status == "leased" and is_live and row.attempt_id is None


def _is_due(world: World, row: Row) -> bool:
    return row.available_at <= world.now


def _send(world: World, channel: str) -> None:
    messages = [one for one in world.queue if one.channel == channel]
    world.queue = [one for one in world.queue if one.channel != channel]
    calls = deliver(world, messages)
    for one in calls:
        call(world, one, "accepted")
    if calls:
        close_calls(world, calls)


def _next_time(world: World, rows: list[Row]) -> datetime:
    """Return the next moment at which something is due: for what is submitted, its cutoff."""
    moments = [row.available_at for row in rows if row.status == "pending"]
    moments += [row.lease_until for row in rows if row.lease_until is not None]
    if moments:
        return min(moments)
    for row in rows:
        cutoff = timedelta(seconds=world.to.numbers[row.channel].cutoff)
        end = row.decide_at if row.submitted_at is None else row.submitted_at + cutoff
        moments += [max(end or world.now, row.next_check_at or world.now)]
    return max(moments)


def _check_rest(world: World) -> None:
    """`lost`: FINAL or HELD with a reason, no lease, no open attempt; nothing forgotten."""
    for row in world.rows():
        if _moves(row) or row.attempt_id is not None:
            raise Broken("lost", f"{row.id} never comes to rest: {row}")
        if row.status not in FINAL and row.reason is None:
            raise Broken("lost", f"{row.id} is held, and nobody knows why")
        if any(one.outcome is None for one in world.seen.attempts.get(row.id, ())):
            raise Broken("lost", f"{row.id} has an open attempt at the end")


def check_batches(world: World) -> None:
    """A batch's counts sum to its rows, status by status."""
    for batch_id in {one.batch_id for one in world.known.values()}:
        members = [one for one in world.known.values() if one.batch_id == batch_id]
        batch = read_batch(
            world.to.service, organization_id=members[0].organization_id, batch_id=batch_id
        )
        counts = batch.counts if batch else ()
        found = {(one.channel, one.status): one.number for one in counts}
        rows = [world.seen.rows[one.id] for one in members]
        expected = Counter((row.channel, row.status) for row in rows)
        if found != expected:
            raise Broken("lost", f"the batch counts {found}, its rows are {expected}")
