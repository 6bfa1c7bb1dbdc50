"""Events of random histories by which evidence comes: receipts, in every order."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from functions.core.evidence import Rank, Receipt
from functions.store.receipt import record
from tests.proof.histories_coverage import RANK_EVENTS, Event
from tests.proof.histories_gateway import ALL
from tests.proof.histories_model import Expected
from tests.proof.histories_proving import evidence, proven, strongest
from tests.proof.histories_rows import Row
from tests.proof.histories_world import Told, World

SAID = {0: "opened", 1: "accepted", 2: "mailbox full", 3: "delivered", 4: "no such user"}


def tell_receipt(world: World, *all: Told) -> None:
    """Hand receipts of one door to the product, in one set; each counts once."""
    new: list[Told] = []
    for told in all:
        if told.event_key not in world.told and told.event_key not in {
            one.event_key for one in new
        }:
            new.append(world.placed(told))
    for told in new:
        world.told[told.event_key] = told
    _visit(world, new)
    expected, ledger = expect_proofs(world, new)
    world.happen(
        f"tell {[f'{one.event_key} rank {one.rank}' for one in all]}",
        lambda: record(
            world.to.service,
            [receipt_of(told) for told in all],
            provider=all[0].door,
            declarations=ALL,
            now=world.now,
        ),
        expected,
        ledger=ledger,
        promise="order_free",
    )


def _visit(world: World, all: Sequence[Told]) -> None:
    for told in all:
        row = world.seen.rows.get(told.notification) if told.notification else None
        if row is None:
            continue
        if told.recipient_hash not in (None, row.recipient_hash):
            world.visit(row.status, Event.OTHER_RECIPIENT)
            continue
        event = Event.COMPLAINT if told.complaint else RANK_EVENTS[told.rank]
        world.visit(row.status, event)
        if told.attempt in {one.id for one in world.seen.doubts(row.id)}:
            world.visit(row.status, Event.BY_ATTEMPT)


def tell_again(world: World, told: Told) -> None:
    """Hand a receipt to the product that it has had already: nothing comes of it."""
    tell_receipt(world, told)
    if told.notification is not None:
        world.visit(world.seen.rows[told.notification].status, Event.REPEATED)


def receipt_of(told: Told) -> Receipt:
    return Receipt(
        provider=told.door,
        event_key=told.event_key,
        type=SAID[told.rank],
        rank=Rank(told.rank),
        occurred_at=told.at,
        idempotency_key=told.key,
        reference=told.reference,
        recipient_hash=told.recipient_hash,
        reason=SAID[told.rank],
        permanent=told.rank == Rank.HARD_FAILURE,
        complaint=told.complaint,
        address_at_fault=told.at_fault,
        raw=b"{}",
    )


def expect_proofs(
    world: World, told: Sequence[Told]
) -> tuple[Mapping[UUID, Sequence[Expected]], Mapping[UUID, str | None]]:
    """Let ``told`` prove what they prove; return what rows and attempts may then be."""
    about: dict[UUID, list[Told]] = {}
    for one in told:
        row = world.seen.rows.get(one.notification) if one.notification else None
        if row is not None and one.recipient_hash in (None, row.recipient_hash):
            about.setdefault(row.id, []).append(one)
    expected: dict[UUID, Sequence[Expected]] = {}
    ledger: dict[UUID, str | None] = {}
    for id, ones in about.items():
        row = world.seen.rows[id]
        resolved, accepted = settled_by(world, ones)
        ledger |= accepted
        expected[id] = _expect(world, row, ones, resolved=resolved)
    return expected, ledger


def settled_by(world: World, told: Sequence[Told]) -> tuple[int, dict[UUID, str | None]]:
    """Return how many doubts ``told`` end, and the attempts that are known as accepted by them: of
    unknown outcome until now, or concluded not to be."""
    named = {one.attempt for one in told if one.rank and one.attempt is not None}
    doubts = {
        attempt.id
        for one in told
        if one.notification is not None
        for attempt in world.seen.doubts(one.notification)
    }
    accepted = named & (doubts | world.concluded)
    world.concluded -= named
    return len(named & doubts), dict.fromkeys(accepted, "accepted")


def _expect(world: World, row: Row, told: Sequence[Told], *, resolved: int) -> Sequence[Expected]:
    proofs = [evidence(one.rank, one.at, one.event_key) for one in told if one.rank]
    world.proofs.setdefault(row.id, []).extend(proofs)
    complained = any(one.complaint for one in told)
    if complained:
        world.complained.add(row.id)
    for one in told:
        if one.at_fault:
            fact = (row.organization_id, row.channel, row.recipient_hash, None, "suppress")
            world.facts.append(fact)
    best = strongest(proofs)
    reason = SAID[best.rank] if best is not None and best.rank in (2, 4) else None
    return proven(row, best, reasons=[reason], complained=complained, resolved=resolved)
