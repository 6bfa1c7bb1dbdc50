"""Events of random histories by which clients step in: cancels, and who must not be told."""

from functions.core.errors import NotFound, TooLate
from functions.store.cancel import BatchCancelled, cancel_batch, cancel_notification
from functions.store.suppression import NewSuppression, add_suppression, lift_suppression
from tests.proof.histories_coverage import Event
from tests.proof.histories_invariants import Broken
from tests.proof.histories_model import cancelled
from tests.proof.histories_rows import Row
from tests.proof.histories_world import ORGANIZATIONS, World, address_of


def cancel(world: World, row: Row) -> None:
    """Cancel: 200 and no call for good, or 409 and nothing changes."""
    allowed = cancelled(row)

    def work() -> bool:
        try:
            cancel_notification(
                world.to.service,
                organization_id=row.organization_id,
                notification_id=row.id,
                now=world.now,
            )
        except TooLate:
            return False
        return True

    done = world.happen(
        f"cancel {row.id}", work, {row.id: [allowed]} if allowed else {}, promise="cancel_is_true"
    )
    world.visit(row.status, Event.CANCEL)
    if done is not (allowed is not None):
        raise Broken("cancel_is_true", f"{row.status}: the answer is {done}")


def cancel_as_stranger(world: World, row: Row) -> None:
    """Another organization cancels: there is no such thing for it."""
    (stranger,) = (id for id in ORGANIZATIONS if id != row.organization_id)

    def work() -> None:
        try:
            cancel_notification(
                world.to.service, organization_id=stranger, notification_id=row.id, now=world.now
            )
        except NotFound:
            return
        raise Broken("isolated", "another organization may cancel")

    world.happen(f"a stranger cancels {row.id}", work, {}, promise="isolated")
    world.visit(row.status, Event.FOREIGN_CANCEL)


def cancel_its_batch(world: World, row: Row) -> None:
    """Cancel a whole batch: what can be withdrawn is, and the three counts tell."""
    batch_id = world.known[row.id].batch_id
    rows = [one for one in world.rows() if world.known[one.id].batch_id == batch_id]
    allowed = {one.id: cancelled(one) for one in rows}
    counted = world.happen(
        f"cancel the batch of {row.id}",
        lambda: cancel_batch(
            world.to.service,
            organization_id=row.organization_id,
            batch_id=batch_id,
            now=world.now,
        ),
        {id: [one] for id, one in allowed.items() if one is not None},
        promise="cancel_is_true",
    )
    before = sum(one.status == "cancelled" for one in rows)
    late = sum(one is None for one in allowed.values())
    expected = BatchCancelled(
        cancelled=len(rows) - before - late, too_late=late, already_cancelled=before
    )
    if counted != expected:
        raise Broken("cancel_is_true", f"counted {counted}, not {expected}")
    for one in rows:
        world.visit(one.status, Event.CANCEL)


def suppress(world: World, row: Row, *, category: str | None, lift: bool = False) -> None:
    """State that the row's address is suppressed, or no longer; no row moves by that alone."""
    recipient = world.known[row.id].recipient
    fact = NewSuppression(
        channel=row.channel,
        recipient=address_of(row.channel, recipient),
        recipient_hash=row.recipient_hash,
        category=category,
        reason="operator",
        source=None,
        source_at=None,
        evidence=None,
    )
    key = (row.organization_id, row.channel, row.recipient_hash, category)
    kinds = [
        one.kind
        for one in world.seen.facts
        if (one.organization_id, one.channel, one.recipient_hash, one.category) == key
    ]
    is_live = kinds[-1:] == ["suppress"]

    def work() -> None:
        if lift:
            if is_live:
                lift_suppression(
                    world.to.service, organization_id=row.organization_id, fact=fact, now=world.now
                )
                world.facts.append((*key, "lift"))
            return
        _, is_new = add_suppression(
            world.to.service, organization_id=row.organization_id, fact=fact, now=world.now
        )
        if is_new:  # an equal one may be live, and an equal one only
            world.facts.append((*key, "suppress"))
        elif not is_live:
            raise Broken("suppression_last", "a suppression was not kept")

    world.happen(f"{'lift' if lift else 'suppress'} {category}", work, {}, promise="isolated")
    for one in world.rows():
        if (one.organization_id, one.channel, one.recipient_hash) == key[:3]:
            world.visit(one.status, Event.LIFTING if lift else Event.SUPPRESSION)
