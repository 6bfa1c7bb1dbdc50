"""The invariants of DESIGN §2, held against everything there is after each step of a history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.proof.histories_model import ENDED_BY_US, FINAL, MAX_STARTS, ROUNDING
from tests.proof.histories_proving import STATUS_OF_RANK, evidence_of, strongest

if TYPE_CHECKING:
    from tests.proof.histories_rows import Move, Row, Snapshot
    from tests.proof.histories_world import World

STATUSES = FINAL | {"pending", "leased", "uncertain", "submitted", "dead"}


class Broken(AssertionError):
    """A promise was broken."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


def check_everything(world: World, before: Snapshot, after: Snapshot) -> None:
    for row in after.rows.values():
        old = before.rows.get(row.id)
        _check_evidence(world, row)
        if old != row or before.attempts.get(row.id) != after.attempts.get(row.id):
            _check_shape(row)
            _check_attempts(world, row, after)
            _check_effects(world, row, after)
            _check_moves(world, row, after.moves.get(row.id, ()))
        elif before.moves.get(row.id) != after.moves.get(row.id):
            _check_moves(world, row, after.moves.get(row.id, ()))
    _check_calls(world, after)
    _check_receipts(world, after)
    _check_facts(world, after)


def _need(truth: object, invariant: str, text: str) -> None:
    if not truth:
        raise Broken(invariant, text)


def _check_shape(row: Row) -> None:
    """`lost`: in a legal state, with a reason where it rests, and never beyond its bounds."""
    _need(row.status in STATUSES, "lost", f"the status {row.status} does not exist")
    named = row.status in ("unconfirmed", "suppressed", "expired", "dead")
    _need(row.reason or not named, "lost", f"{row.status} without a reason")
    is_final = row.status in FINAL or row.discarded_at is not None
    _need((row.final_at is not None) == is_final, "lost", f"{row.status}, final {row.final_at}")
    _need(row.attempts_spent <= row.max_attempts, "bounded", f"{row.attempts_spent} attempts spent")
    _need(row.starts <= MAX_STARTS, "bounded", f"{row.starts} starts")
    _need(row.attempts_spent >= 0 and row.in_doubt >= 0, "bounded", "a counter below zero")
    if row.status == "leased":
        _need(row.lease_until, "lost", "leased without an end")
    elif row.lease_until is not None:
        _need(row.attempt_id, "lost", f"{row.status} with a lease and no attempt")
    if row.status == "pending":
        _need(row.attempt_id is None, "lost", "pending with an attempt: no begin would open one")
    if row.status == "uncertain":
        _need(row.decide_at and row.next_check_at, "lost", "uncertain, and nobody will look")
        _need(row.in_doubt > 0, "no_blind_resend", "uncertain without a doubt")
    if row.status == "submitted":
        _need(row.next_check_at and row.submitted_at, "lost", "submitted, and nobody will look")


def _check_attempts(world: World, row: Row, after: Snapshot) -> None:
    attempts = after.attempts.get(row.id, ())
    leases = [one.lease_number for one in attempts]
    _need(len(leases) == len(set(leases)), "one_attempt_per_lease", f"leases {leases}")
    _need(max(leases, default=0) <= row.lease_number, "one_attempt_per_lease", "of no lease yet")
    open_ones = [one.id for one in attempts if one.outcome is None]
    held = [row.attempt_id] if row.attempt_id and row.status != "uncertain" else []
    _need(open_ones == held, "fenced", f"open are {open_ones}, the row of {row.status} has {held}")
    doubts = len(after.doubts(row.id))
    _need(row.in_doubt == doubts, "no_blind_resend", f"in doubt {row.in_doubt}, not {doubts}")
    if open_ones:
        _need(row.lease_until, "lost", "an open attempt that no sweep will find")
    if row.status in ("expired", *ENDED_BY_US):
        _need(not open_ones, "cancel_is_true", f"{row.status} with an attempt open")
        _need(doubts == 0 or row.evidence_rank, "cancel_is_true", f"{row.status} while in doubt")


def _check_effects(world: World, row: Row, after: Snapshot) -> None:
    """What reached its recipient is known to have, or is in doubt, or is still being tried."""
    effects = world.gateways.effects(row.id)
    known = row.evidence_rank or row.in_doubt or row.attempt_id or row.status == "unconfirmed"
    accounted = known or row.id in world.misled
    _need(accounted or not effects, "lost", f"{row.status}, and it was accepted all the same")


def _check_evidence(world: World, row: Row) -> None:
    """`order_free`: the row's evidence is a function of the set of all there is."""
    best = strongest(world.proofs.get(row.id, ()))
    _need(
        evidence_of(row) == best, "order_free", f"{row.status} has {evidence_of(row)}, not {best}"
    )
    _need(row.complained == (row.id in world.complained), "order_free", "the complaint is wrong")
    if best is None or row.status in ENDED_BY_US:
        return
    proven = STATUS_OF_RANK[best.rank]
    gave_up = row.status == "unconfirmed" and best.rank == 1
    _need(row.status == proven or gave_up, "order_free", f"{row.status} with rank {best.rank}")


def _check_moves(world: World, row: Row, moves: Sequence[Move]) -> None:
    """The transitions form a chain from pending to here; a claim's own is not stored."""
    at = "pending"
    for move in moves:
        is_claim = at == "pending" and move.from_status == "leased"
        _need(move.from_status == at or is_claim, "explained", f"a move from {move}, after {at}")
        at = move.to_status
    is_claimed = at == "pending" and row.status == "leased"
    _need(row.status == at or is_claimed, "explained", f"the moves end at {at}, not {row.status}")


def _check_calls(world: World, after: Snapshot) -> None:
    """`attempt_before_submit` and `same_key`, of the last call made."""
    if len(world.gateways.made) == world.calls_checked:
        return
    for made in world.gateways.made[world.calls_checked :]:
        attempt = after.attempt(made.id, made.token)
        _need(attempt, "attempt_before_submit", "a call without an attempt")
        if attempt is not None:
            _need(
                attempt.started_at <= made.at + ROUNDING, "attempt_before_submit", "called before"
            )
    world.calls_checked = len(world.gateways.made)


def _check_receipts(world: World, after: Snapshot) -> None:
    """Each report is kept once, and stands with what it is about."""
    kept = {
        one.event_key: (one.notification_id, one.evidence_rank)
        for all in (*after.receipts.values(), after.orphans)
        for one in all
    }
    told = {key: (one.notification, one.rank) for key, one in world.told.items()}
    _need(kept == told, "order_free", f"kept are {kept}, told were {told}")


def _check_facts(world: World, after: Snapshot) -> None:
    found = [
        (one.organization_id, one.channel, one.recipient_hash, one.category, one.kind)
        for one in after.facts
    ]
    same = Counter(found) == Counter(world.facts)
    _need(same, "suppression_last", f"facts are {found}, not {world.facts}")
