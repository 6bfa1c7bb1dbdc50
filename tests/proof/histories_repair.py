"""Events of random histories that repair: replay, recover, pause, another provider."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from functions.core.evidence import Receipt, StoredReceipt
from functions.store.replay import replay
from functions.store.restore import mark_gap, pause_all, resume
from tests.proof.histories_coverage import Event
from tests.proof.histories_evidence import receipt_of, settled_by
from tests.proof.histories_gateway import ALL, BY_NAME
from tests.proof.histories_model import Expected, changed
from tests.proof.histories_operator import action
from tests.proof.histories_proving import evidence, rejudged, strongest
from tests.proof.histories_rows import Row
from tests.proof.histories_world import World


def replay_row(world: World, row: Row, *, rank: int) -> None:
    """Read a row's reports again by rules under which the last of them says something else."""
    about = [one for one in world.told.values() if one.notification == row.id and one.key]
    if not about:
        return
    if about[-1].rank == rank:
        return
    again = replace(about[-1], rank=rank)
    concerned = again.recipient_hash in (None, row.recipient_hash)
    proofs = [one for one in world.proofs.get(row.id, ()) if one.key != again.event_key]
    if rank and concerned:
        proofs.append(evidence(rank, again.at, again.event_key))
    if concerned:
        world.proofs[row.id] = proofs
    world.told[again.event_key] = again

    resolved, ledger = settled_by(world, [again] if concerned else [])

    def reparse(stored: StoredReceipt) -> Receipt | None:
        told = world.told[stored.event_key]
        return receipt_of(told) if told.key else None

    world.happen(
        f"replay {row.id}: {again.event_key} is {rank}",
        lambda: replay(
            world.to.operator,
            reparse=reparse,
            notification_id=row.id,
            action=action(world, "receipts.replay"),
            now=world.now,
        ),
        {row.id: rejudged(row, strongest(proofs), resolved=resolved)},
        ledger=ledger,
        promise="order_free",
    )
    world.visit(row.status, Event.REPLAY)


RESTORED = """
    SELECT notification_id, id FROM attempts WHERE code = 'restored' AND outcome = 'unknown'
"""


def recover(world: World) -> None:
    """After a restore: what may have been sent meanwhile is in doubt. No sender is at work."""
    world.calls = [one for one in world.calls if one.outcome is not None]
    since = world.now - timedelta(seconds=1)
    rows = [
        row
        for row in world.rows()
        if row.status in ("pending", "leased")
        and (row.in_doubt == 0 or row.provider is None or not BY_NAME[row.provider].keyed)
        and row.available_at <= world.now
        and world.restored.get(row.id, since) <= since
    ]
    expected: dict[UUID, Sequence[Expected]] = {}
    ledger: dict[UUID, str | None] = {}

    def work() -> None:
        mark_gap(
            world.to.operator,
            since=since,
            declarations=ALL,
            action=action(world, "recover"),
            now=world.now,
        )
        tokens = dict(world.to.owner.execute(RESTORED).fetchall())
        for row in rows:
            token = row.attempt_id or tokens.get(row.id)
            if token is not None:
                ledger[token] = "unknown"
            expected[row.id] = [_restored(world, row, token, since)]

    world.happen(f"recover {len(rows)}", work, expected, ledger=ledger, promise="no_blind_resend")
    for row in rows:
        world.restored[row.id] = world.now  # to repeat it marks nothing twice
        world.visit(row.status, Event.RECOVER)


def _restored(world: World, row: Row, token: UUID | None, since: datetime) -> Expected:
    provider = row.provider or world.providers[row.channel]
    grace = 0.0 if BY_NAME[provider].keyed else world.to.numbers[row.channel].grace
    return changed(
        row,
        status="uncertain",
        reason=None,
        in_doubt=row.in_doubt + 1,
        attempt_id=token,
        lease_number=row.lease_number + (row.attempt_id is None),
        lease_until=None,
        provider=provider,
        key_first_used_at=row.key_first_used_at or since,
        decide_at=world.now + timedelta(seconds=grace),
    )


def pause(world: World) -> None:
    world.happen("pause", lambda: pause_all(world.to.operator, action=action(world, "pause")), {})
    world.paused = set(world.providers)


def go_on(world: World) -> None:
    names = sorted(world.paused)
    world.happen(
        "go on", lambda: resume(world.to.operator, names, action=action(world, "resume")), {}
    )
    world.paused = set()


SWITCH = "UPDATE channels SET provider = %s WHERE name = %s"


def switch_provider(world: World, channel: str, provider: str) -> None:
    """The channel uses another provider from now on."""
    world.providers[channel] = provider
    world.happen(
        f"{channel} uses {provider}",
        lambda: world.to.owner.execute(SWITCH, [provider, channel]),
        {},
    )
