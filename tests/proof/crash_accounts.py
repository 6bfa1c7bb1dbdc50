"""The accounts of a case: what the database says, held against the provider's ledger.

lost = 0         what was acknowledged is there, FINAL or HELD with a reason, and whoever could be
                 reached was
unexpected = 0   nothing took effect for what was withdrawn, ended by ourselves, or never accepted
doubled = 0      one effect per notification; without keys each further one belongs to an attempt
                 recorded as unknown, under the policy to try again
explained        no attempt is open and no lease is left; doubts are counted; each transition starts
                 where the one before it ended
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from psycopg.rows import class_row

from functions.core.states import FINAL, HELD
from tests.proof.crash_ledger import kind_of
from tests.proof.crash_scene import RETRY, Scene
from tests.proof.crash_world import World

REACHED = "delivered"

ENDS: dict[str, frozenset[str]] = {
    "silent": frozenset({"unconfirmed"}),
    "bounce": frozenset({"failed"}),
    "reject": frozenset({"dead"}),
    "refuse": frozenset({"suppressed", "unconfirmed"}),
    "cancelled": frozenset({"cancelled", REACHED}),
    "suppressed": frozenset({"suppressed", "unconfirmed", REACHED}),
    "expired": frozenset({"expired"}),
    # who told us may have told nobody in the end
    "told": frozenset({"unconfirmed", REACHED}),
    "told_bounce": frozenset({"unconfirmed", "failed"}),
}
"""Where a notification of each kind may end; all others are to be delivered. Without keys and with
the policy to hold, any of them may also be held, its outcome unknown."""

WITHOUT_EFFECT = frozenset({"cancelled", "expired", "suppressed"})

INTERFERED = frozenset({"cancelled", "suppressed"})

MAY_HAVE_NO_REASON = frozenset({"delivered", "cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A notification as the database has it in the end."""

    id: UUID
    recipient: str
    status: str
    reason: str | None
    provider: str | None
    leased: bool
    attempt_id: UUID | None
    in_doubt: int
    unknown: int
    open: int
    once_unknown: list[UUID]
    """Attempts that are, or were, recorded as unknown."""
    moves: list[str]
    """Transitions as ``from>to``, in order."""

    @property
    def kind(self) -> str:
        return kind_of(self.recipient)

    @property
    def end(self) -> str:
        return f"{self.status}:{self.reason}" if self.status in HELD else self.status


ROWS = """
    SELECT n.id, n.recipient, n.status, n.reason, n.provider, n.lease_until IS NOT NULL AS leased,
           n.attempt_id, n.in_doubt,
           (SELECT count(*) FROM attempts a
             WHERE a.notification_id = n.id AND a.outcome = 'unknown')::int AS unknown,
           (SELECT count(*) FROM attempts a
             WHERE a.notification_id = n.id AND a.outcome IS NULL)::int AS open,
           ARRAY(SELECT a.id FROM attempts a
                  WHERE a.notification_id = n.id AND a.outcome = 'unknown'
                 UNION
                 SELECT t.attempt_id FROM transitions t
                  WHERE t.notification_id = n.id AND t.to_status = 'uncertain'
                    AND t.attempt_id IS NOT NULL) AS once_unknown,
           ARRAY(SELECT t.from_status || '>' || t.to_status FROM transitions t
                  WHERE t.notification_id = n.id ORDER BY t.id) AS moves
      FROM notifications n
     ORDER BY n.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a case came to: per row its kind and end, effects, and everything that is wrong."""

    ends: Counter[tuple[str, str]]
    effects: int
    extra: int
    """Effects beyond the first of a notification, each of them declared."""
    calls: int
    wrong: list[str] = field(default_factory=list[str])


def account(world: World, scene: Scene) -> Account:
    """Close the accounts of a case that has come to its end."""
    with world.owner.cursor(row_factory=class_row(Row)) as cursor:
        rows = cursor.execute(ROWS).fetchall()
    per_notification = world.ledger.per_notification
    wrong = [*world.memory.complaints, *_of_the_whole(world, scene, rows)]
    for row in rows:
        effects = per_notification[row.id]
        wrong += [
            f"{row.kind}: {text}" for text in (*_of_row(row), *_of_end(world, scene, row, effects))
        ]
        wrong += [f"{row.kind}: {text}" for text in _of_effects(world, scene, row)]
    return Account(
        ends=Counter((row.kind, row.end) for row in rows),
        effects=sum(per_notification.values()),
        extra=sum(count - 1 for count in per_notification.values()),
        calls=len(world.memory.calls),
        wrong=wrong,
    )


BOUNCE_FACTS = "SELECT count(*) FROM suppressions WHERE reason = 'hard_bounce'"


def _of_the_whole(world: World, scene: Scene, rows: list[Row]) -> Iterator[str]:
    ids = {row.id for row in rows}
    if missing := set(world.memory.acknowledged) - ids:
        yield f"lost: {len(missing)} acknowledged and not there"
    if unknown := set(world.ledger.per_notification) - ids:
        yield f"unexpected: effects for {len(unknown)} that are not there"
    bounced = sum(row.kind == "told_bounce" and row.status == "failed" for row in rows)
    row = world.owner.execute(BOUNCE_FACTS).fetchone()
    if row != (bounced,):
        yield f"{bounced} bounced, and there are {row} suppressions for it"
    if scene.function == "ingest":
        if len(set(world.memory.answers)) > 1:
            yield "one request was answered in different ways"
        acknowledged = set(world.memory.acknowledged)
        if acknowledged and acknowledged != ids:
            yield f"a request of {len(acknowledged)} left {len(ids)} rows"
        if world.deliveries > 1 and not acknowledged:
            yield "a repeated request was never accepted"


def _of_row(row: Row) -> Iterator[str]:
    """Yield what no row may be in the end, whatever became of it."""
    if row.status not in FINAL | HELD:
        yield f"lost: it is still {row.status}"
    if row.reason is None and row.status not in MAY_HAVE_NO_REASON:
        yield f"{row.status} without a reason"
    if row.leased or row.attempt_id is not None:
        yield f"{row.status} with a lease or the token of an attempt"
    if row.open:
        yield f"{row.open} open attempts"
    if row.in_doubt != row.unknown:
        yield f"{row.in_doubt} in doubt, {row.unknown} attempts unknown"
    before = "pending"
    for move in row.moves:
        origin, _, target = move.partition(">")
        # A claim's own transition is derivable, and not stored.
        if origin != before and (before, origin) != ("pending", "leased"):
            yield f"a transition from {origin} after one to {before}"
        before = target
    if row.status != before:
        yield f"{row.status}, and its last transition went to {before}"


def _of_end(world: World, scene: Scene, row: Row, effects: int) -> Iterator[str]:
    allowed = ENDS.get(row.kind, frozenset({REACHED}))
    is_held = row.end == "dead:outcome_unknown" and not scene.declaration.keyed
    may_be_held = scene.policy != RETRY or row.kind == "reject"
    if row.status not in allowed and not (is_held and may_be_held):
        yield f"lost: it ended {row.end} after {effects} effects"
    if row.status == REACHED and not effects:
        yield "delivered without an effect"
    if row.status in WITHOUT_EFFECT and effects:
        yield f"unexpected: {row.status} after {effects} effects"
    if row.kind == "reject" and effects:
        yield "unexpected: an effect of what was refused"
    if row.id in world.memory.withdrawn and row.status != "cancelled":
        yield f"its cancellation was granted, and it is {row.status}"
    if row.status == "cancelled" and row.id not in world.memory.withdrawn:
        yield "cancelled by nobody"
    suppressed_at = world.memory.attempts_when_suppressed.get(row.id)
    if suppressed_at is not None and world.attempts_of(row.id) > suppressed_at:
        yield "unexpected: an attempt after its suppression"


def _of_effects(world: World, scene: Scene, row: Row) -> Iterator[str]:
    """Yield the effects beyond the first that nothing declared."""
    effects = [
        effect.call for effect in world.memory.effects if effect.call.notification_id == row.id
    ]
    if any(count > 1 for count in Counter(call.key for call in effects).values()):
        yield "doubled: one key took effect twice"
    declared = [
        call
        for call in effects
        if scene.policy == RETRY and not call.is_keyed and call.attempt_id in row.once_unknown
    ]
    if len(effects) - len(declared) > 1:
        yield f"doubled: {len(effects)} effects, {len(declared)} of them declared"


class Outcome(StrEnum):
    """How a case ended, beside the same scene without a fault; the gravest counts.

    What clients withdrew or suppressed because of the fault is left out.
    """

    WRONG = "x"
    AGAIN = "2"
    HELD = "h"
    UNCONFIRMED = "u"
    NOTHING = "-"
    SAME = "="

    @property
    def meaning(self) -> str:
        return MEANINGS[self]


MEANINGS: dict[Outcome, str] = {
    Outcome.SAME: "the same ends as without a fault",
    Outcome.NOTHING: "nothing was accepted, and nobody was told that it was",
    Outcome.UNCONFIRMED: "something is unconfirmed: its only report did not come through",
    Outcome.HELD: "something is held for a person, its outcome unknown",
    Outcome.AGAIN: "something took effect once more, as its policy declares",
    Outcome.WRONG: "the accounts are wrong",
}


def outcome_of(now: Account, undisturbed: Account) -> Outcome:
    """Compare the ends of a case with those of its scene without a fault."""
    if now.wrong:
        return Outcome.WRONG
    if now.extra > undisturbed.extra:
        return Outcome.AGAIN
    if not now.ends and undisturbed.ends:
        return Outcome.NOTHING
    new = {end for kind, end in now.ends - undisturbed.ends if kind not in INTERFERED}
    if "dead:outcome_unknown" in new:
        return Outcome.HELD
    return Outcome.UNCONFIRMED if "unconfirmed" in new else Outcome.SAME
