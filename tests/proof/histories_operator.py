"""Events of random histories by which operators step in: requeue, discard, settle."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from functions.core.evidence import Rank
from functions.core.states import Finding
from functions.store.action import Action
from functions.store.held import discard, requeue
from functions.store.uncertain import settle
from tests.proof.histories_closing import not_accepted
from tests.proof.histories_coverage import Event
from tests.proof.histories_evidence import expect_proofs
from tests.proof.histories_gateway import ALL
from tests.proof.histories_invariants import Broken
from tests.proof.histories_model import Expected, changed, held
from tests.proof.histories_rows import Row
from tests.proof.histories_sending import is_unsafe
from tests.proof.histories_time import conclude
from tests.proof.histories_world import Told, World


def action(world: World, command: str) -> Action:
    return Action(id=world.new_id(), actor="operator@example.com", command=command, arguments={})


def requeue_rows(world: World, rows: Sequence[Row], *, may_send_twice: bool) -> None:
    """Requeue what is held; every other row has its fate told and is left alone."""
    fates = {row.id: _fate(world, row, may_send_twice=may_send_twice) for row in rows}
    expected = {row.id: [_requeued(row)] for row in rows if fates[row.id] == "requeued"}
    for id in expected:
        if may_send_twice:
            world.excused |= {one.id for one in world.seen.doubts(id)}
    answers = world.happen(
        f"requeue {len(rows)}, twice: {may_send_twice}",
        lambda: requeue(
            world.to.operator,
            [row.id for row in rows],
            may_send_twice=may_send_twice,
            declarations=ALL,
            action=action(world, "dead.requeue"),
            now=world.now,
        ),
        expected,
        promise="no_blind_resend",
    )
    told = {one.id: one.fate for one in answers}
    if told != fates:
        raise Broken("no_blind_resend", f"the fates are {told}, not {fates}")
    for row in rows:
        world.visit(row.status, Event.CONSENT if may_send_twice else Event.REQUEUE)


def _fate(world: World, row: Row, *, may_send_twice: bool) -> str:
    match row.status:
        case "pending" | "leased":
            return "already_scheduled"
        case "uncertain":
            return "awaiting_evidence"
        case "dead":
            pass
        case status:
            return status
    if row.discarded_at is not None:
        return "discarded"
    if row.attempt_id is not None:
        return "attempt_open"
    if row.expires_at is not None and row.expires_at <= world.now:
        return "expired"
    forgotten = row.in_doubt > 0 and row.provider is None  # by an earlier consent
    unsafe = forgotten or is_unsafe(world, row, excused=frozenset())
    doubtful = row.reason == "outcome_unknown" or unsafe
    return "needs_consent" if doubtful and not may_send_twice else "requeued"


def _requeued(row: Row) -> Expected:
    """A new budget; a new key only where a known refusal spent the old one."""
    refused = row.reason == "rejected" and row.in_doubt == 0
    again = changed(
        row,
        status="pending",
        reason=None,
        attempts_spent=0,
        starts=0,
        waiting_since=None,
        key_epoch=row.key_epoch + refused,
    )
    return replace(again, loose=again.loose | {"available_at", "key_first_used_at", "provider"})


def discard_rows(world: World, rows: Sequence[Row]) -> None:
    """Let what is held rest; its reason stays."""
    expected = {
        row.id: [changed(row, discarded_at=world.now)]
        for row in rows
        if row.status == "dead" and row.discarded_at is None
    }
    answers = world.happen(
        f"discard {len(rows)}",
        lambda: discard(
            world.to.operator,
            [row.id for row in rows],
            action=action(world, "dead.discard"),
            now=world.now,
        ),
        expected,
    )
    for row, answer in zip(rows, answers, strict=True):
        rests = "already_discarded" if row.discarded_at else "discarded"
        if answer.fate != (rests if row.status == "dead" else row.status):
            raise Broken("lost", f"discard of {row.status} says {answer.fate}")
        world.visit(row.status, Event.DISCARD)


Effects = tuple[Mapping[UUID, Sequence[Expected]], Mapping[UUID, str | None]]
NOTHING: Effects = ({}, {})


def settle_row(world: World, row: Row, finding: Finding) -> None:
    """An operator found out what became of an attempt in doubt."""
    held_in_doubt = row.status == "dead" and row.in_doubt > 0 and row.attempt_id is None
    concerned = row.status == "uncertain" or (
        held_in_doubt and row.discarded_at is None and finding is not Finding.HOLD
    )
    command = action(world, "uncertain.settle")
    expected, ledger = _settled(world, row, finding, command) if concerned else NOTHING
    fate = world.happen(
        f"settle {row.id}: {finding}",
        lambda: (
            settle(world.to.operator, row.id, finding=finding, action=command, now=world.now).fate
        ),
        expected,
        ledger=ledger,
        promise="no_blind_resend",
    )
    world.visit(row.status, Event(f"settle: {finding.replace('_', ' ')}"))
    if (fate == "settled") is not concerned:
        raise Broken("no_blind_resend", f"settle of {row.status} says {fate}")


def _settled(world: World, row: Row, finding: Finding, command: Action) -> Effects:
    """Return what the finding makes of the row and of its attempts in doubt."""
    doubts = world.seen.doubts(row.id)
    match finding:
        case Finding.NOT_ACCEPTED:
            if world.gateways.effects(row.id):
                world.misled.add(row.id)
            return {row.id: not_accepted(row, now=world.now)}, conclude(world, doubts)
        case Finding.HOLD:
            free = held(replace(row, attempt_id=None, decide_at=None), "outcome_unknown").row
            return {row.id: [changed(free)]}, {}
        case Finding.ACCEPTED | Finding.DELIVERED:
            told = Told(  # it is evidence like any other
                event_key=str(command.id),
                rank=Rank.ACCEPTED if finding is Finding.ACCEPTED else Rank.DELIVERED,
                at=world.now,
                door="operator",
                notification=row.id,
                attempt=doubts[-1].id if doubts else None,
            )
            world.told[told.event_key] = told
            return expect_proofs(world, [told])
