"""Events of random histories before an attempt: accept, claim, queue, policy, crashes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from functions.core.policy import Defer, Suppress
from functions.store.accept import NewNotification, accept_batch
from functions.store.claim import NO_ORGANIZATION, Leased, lease_page, record_verdicts, release
from functions.store.delivery import finish_starts, hold_unreadable, record_starts
from functions.store.idempotency import Request
from functions.store.survey import promote
from tests.proof.histories_coverage import Event
from tests.proof.histories_invariants import Broken
from tests.proof.histories_model import (
    MAX_STARTS,
    changed,
    claimed,
    deferred,
    ended,
    given_back,
    held,
    same,
    started,
)
from tests.proof.histories_world import (
    ORGANIZATIONS,
    RECIPIENTS,
    Known,
    Message,
    World,
    address_of,
    hash_for,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What a client asks for; seconds from now."""

    channel: str
    recipient: int
    expires_in: float | None = None
    send_in: float | None = None


def accept(world: World, items: Sequence[Item], *, organization: int) -> list[UUID]:
    """Accept a batch: each of its rows is there, pending, in input order."""
    organization_id = ORGANIZATIONS[organization]
    request = Request(
        organization_id=organization_id,
        route="/v1/notifications/batches",
        key=f"key-{len(world.story)}",
        request_sha256=bytes(32),
    )
    new = [_new(world, item) for item in items]
    answer = world.happen(
        f"accept {len(items)}",
        lambda: (
            accept_batch(world.to.service, request=request, notifications=new, now=world.now).batch
        ),
        {},
        new_rows=len(items),
        promise="lost",
    )
    for id, item, asked in zip(answer.notification_ids, items, new, strict=True):
        row = world.seen.rows[id]
        due = world.now if asked.send_at is None else asked.send_at
        if (row.status, row.organization_id, row.available_at) != ("pending", organization_id, due):
            raise Broken("lost", f"accepted, and now {row}")
        world.known[id] = Known(
            id=id,
            organization_id=organization_id,
            channel=item.channel,
            recipient=RECIPIENTS[item.recipient],
            batch_id=answer.batch_id,
        )
    return answer.notification_ids


def _new(world: World, item: Item) -> NewNotification:
    recipient = RECIPIENTS[item.recipient]
    moments = [
        None if seconds is None else world.now + timedelta(seconds=seconds)
        for seconds in (item.send_in, item.expires_in)
    ]
    return NewNotification(
        channel=item.channel,
        recipient=address_of(item.channel, recipient),
        recipient_hash=hash_for(item.channel, recipient),
        content="Your receipt",
        priority="normal",
        category="transactional",
        event_id=None,
        reference=None,
        metadata={},
        send_at=moments[0],
        expires_at=moments[1],
    )


def claim(world: World, channel: str, *, page: int = 20) -> list[Leased]:
    """Claim a page; every row that is due is taken while the page lasts, and no other."""
    due = [
        row
        for row in world.rows()
        if (row.channel, row.status) == (channel, "pending") and row.available_at <= world.now
    ]
    lease_seconds = world.to.numbers[channel].lease
    takes = {row.id: claimed(row, now=world.now, lease_seconds=lease_seconds) for row in due}
    all_of_them = len(due) <= page

    def work() -> list[Leased]:
        promote(world.to.service, now=world.now)
        return lease_page(
            world.to.service,
            channel=channel,
            priority="normal",
            page=page,
            after=NO_ORGANIZATION,
            lease_seconds=lease_seconds,
            leased_by="claim",
            now=world.now,
        ).leased

    leased = world.happen(
        f"claim {page} of {channel}",
        work,
        {row.id: [takes[row.id]] if all_of_them else [takes[row.id], same(row)] for row in due},
    )
    if len(leased) != min(page, len(due)):
        raise Broken("bounded", f"{len(leased)} were claimed of {len(due)}")
    for one in leased:
        world.visit("pending", Event.CLAIM)
        world.queue.append(Message(id=one.id, lease=one.lease_number, channel=channel))
    return leased


def refuse(world: World, leased: Sequence[Leased]) -> None:
    """The queue refuses what was just claimed: the leases are given back, their messages gone."""
    rows = [world.seen.rows[one.id] for one in leased]
    _unqueue(world, leased)
    world.happen(
        f"the queue refuses {len(leased)}",
        lambda: release(
            world.to.service, [(one.id, one.lease_number) for one in leased], now=world.now
        ),
        {row.id: [given_back(row)] for row in rows},
    )
    for row in rows:
        world.visit(row.status, Event.GIVEN_BACK)


def decide_against(world: World, leased: Sequence[Leased], *, defer: bool) -> None:
    """Policy decides against what was just claimed: not now, or never."""
    until = world.now + timedelta(hours=1)
    verdict = Defer(until=until, reason="quiet_hours") if defer else Suppress(reason="suppressed")
    rows = [world.seen.rows[one.id] for one in leased]
    _unqueue(world, leased)
    expected = {
        row.id: [
            deferred(row, until=until, reason="quiet_hours")
            if defer
            else ended(row, "suppressed", "suppressed")
        ]
        for row in rows
    }
    world.happen(
        f"policy {verdict.name}s {len(leased)}",
        lambda: record_verdicts(
            world.to.service, [(one, verdict) for one in leased], now=world.now
        ),
        expected,
    )
    for row in rows:
        world.visit(row.status, Event.DEFERRED if defer else Event.FORBIDDEN)


def _unqueue(world: World, leased: Sequence[Leased]) -> None:
    gone = {(one.id, one.lease_number) for one in leased}
    world.queue = [message for message in world.queue if (message.id, message.lease) not in gone]


def start_again(world: World, message: Message, *, times: int = 1) -> bool:
    """Handlers die over a message before they finish: each start but the first is recorded."""
    for _ in range(times):
        row = world.seen.rows[message.id]
        looping = world.happen(
            "a start after one that did not finish",
            lambda row=row: record_starts(world.to.service, [row.id], now=world.now),
            {row.id: [started(row)]},
            promise="bounded",
        )
        world.visit(row.status, Event.UNFINISHED)
        is_last = row.status in ("pending", "leased") and row.starts + 1 >= MAX_STARTS
        if looping != ({row.id} if is_last else set()):
            raise Broken("bounded", f"crash loops {looping} at start {row.starts + 1}")
        if looping:
            return True
    return False


def finish(world: World, message: Message, *, times: int) -> None:
    """The handlers that were taken for dead come to their end after all."""
    row = world.seen.rows[message.id]
    counts = row.status in ("pending", "leased", "uncertain")
    after = changed(row, starts=max(row.starts - times, 0)) if counts else same(row)
    world.happen(
        f"{times} starts are finished",
        lambda: finish_starts(world.to.service, [row.id] * times),
        {row.id: [after]},
        promise="bounded",
    )
    world.visit(row.status, Event.FINISHED)


def find_unreadable(world: World, message: Message) -> None:
    """A sender finds content that no call can be made of."""
    row = world.seen.rows[message.id]
    concerned = (row.status, row.lease_number) == ("leased", message.lease) and not row.attempt_id
    world.happen(
        "unreadable content",
        lambda: hold_unreadable(world.to.service, [(row.id, message.lease)], now=world.now),
        {row.id: [held(row, "unreadable")]} if concerned else {},
    )
    world.visit(row.status, Event.UNREADABLE)
