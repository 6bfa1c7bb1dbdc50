"""What the rest of the service does about a crash: meanwhile, and until everything is over."""

from collections.abc import Callable
from dataclasses import dataclass

from psycopg.rows import class_row

from tests.proof.crash_boundary import Fault
from tests.proof.crash_rest import claim, reconcile, send, sweep
from tests.proof.crash_sessions import end_idle_transactions
from tests.proof.crash_world import CUTOFF, HOUR, World

NEXT_LOOK = 8 * HOUR
"""Longer than the longest distance between two looks at a submitted notification."""

MAX_STEPS = 14
"""A notification has five attempts, and each takes a step to be taken back and one to be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """How many notifications are where they do not stay, and reports that name none."""

    pending: int
    leased: int
    uncertain: int
    submitted: int
    orphans: int

    @property
    def moving(self) -> int:
        return self.pending + self.leased + self.uncertain


LEFT = """
    SELECT count(*) FILTER (WHERE n.status = 'pending')::int AS pending,
           count(*) FILTER (WHERE n.lease_until IS NOT NULL OR n.status = 'leased')::int AS leased,
           count(*) FILTER (WHERE n.status = 'uncertain')::int AS uncertain,
           count(*) FILTER (WHERE n.status = 'submitted')::int AS submitted,
           (SELECT count(*) FROM receipts WHERE notification_id IS NULL)::int AS orphans
      FROM notifications n
"""


def left(world: World) -> Left:
    with world.owner.cursor(row_factory=class_row(Left)) as cursor:
        row = cursor.execute(LEFT).fetchone()
    assert row is not None
    return row


def step(world: World) -> None:
    """Let the service do once what it does all the time, where there is anything to do."""
    before = left(world)
    if before.leased or before.pending:
        sweep(world)
    if before.leased or before.uncertain or before.submitted or before.orphans:
        reconcile(world)
    if before.leased or before.pending or before.uncertain:
        claim(world)
    send(world)
    world.report(world.ledger.unreported(is_late=False))


def repair(world: World, fault: Fault, *, again: Callable[[World], None]) -> None:
    """Let the service work on while the process stands still; ``again`` delivers to another what
    this one was given, if that is to be."""
    end_idle_transactions(world.owner)
    world.interfere()
    again(world)
    send(world)
    world.pass_time(HOUR)
    sweep(world)
    world.interfere()
    if fault is Fault.FREEZE:
        drain(world)
    else:
        step(world)
        world.pass_time(HOUR)
        step(world)


def drain(world: World) -> None:
    """Let the service work on until nothing moves any more, or complain that it does not end."""
    asks = True
    send(world)
    world.report(world.ledger.unreported(is_late=False))
    for _ in range(MAX_STEPS):
        now = left(world)
        if not now.moving:
            if late := world.ledger.unreported(is_late=True):
                world.report(late)
                continue
            if not now.submitted:
                return
        world.pass_time(HOUR if now.moving else NEXT_LOOK if asks else CUTOFF)
        asks = bool(now.moving)
        step(world)
    world.memory.complaints.append(f"it never comes to an end: {left(world)}")
