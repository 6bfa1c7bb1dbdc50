"""The outward half of the state machine: what may happen to a message, a sender, an attempt.

A rule picks by number among what there is, so that a history shrinks well. First a kind of row is
picked, then a row of that kind: rare ones are met as often as others.
"""

from collections import Counter
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.proof import histories_leasing as leasing
from tests.proof import histories_sending as sending
from tests.proof.histories_connections import Connections
from tests.proof.histories_coverage import Event
from tests.proof.histories_gateway import BEHAVIOURS, Call
from tests.proof.histories_leasing import Item
from tests.proof.histories_rows import Row
from tests.proof.histories_scenes import CHANCES, SCENES, Casting, play
from tests.proof.histories_world import USUAL_PROVIDERS, Message, World

CHANNELS = st.sampled_from(sorted(USUAL_PROVIDERS))
PICK = st.integers(0, 47)
ITEMS = st.builds(
    Item,
    channel=CHANNELS,
    recipient=st.integers(0, 1),
    expires_in=st.sampled_from([None, None, None, 45.0, 100.0, 2000.0]),
    send_in=st.sampled_from([None, None, None, 30.0]),
)
STAGES = st.sampled_from(["claimed", "begun", "called", "closed", "closed"])
FATES_OF_A_CLAIM = st.sampled_from(["queued", "queued", "refused", "deferred", "forbidden"])
FATES_OF_A_MESSAGE = st.sampled_from(
    [
        "dropped",
        "redriven",
        "redriven",
        "unreadable",
        "unreadable",
        "crash",
        "finished",
        "crash loop",
    ]
)
FATES_OF_A_CALL = st.sampled_from(["close", "close", "close", "keep", "die", "begin again"])
CASTINGS = st.builds(
    Casting,
    scene=st.sampled_from([name for name in sorted(SCENES) for _ in range(CHANCES.get(name, 1))]),
    behaviour=st.sampled_from((*BEHAVIOURS, "not begun")),
    endings=st.sampled_from([[], ["report0"], *4 * [["report0", "end"], ["begin again", "end"]]]),
)


class Outward(RuleBasedStateMachine):
    """One history; the connections are lent to it."""

    to: ClassVar[Connections]
    visits: ClassVar[Counter[tuple[str, str]]]

    def __init__(self) -> None:
        super().__init__()
        self.world = World(to=self.to, visits=self.visits)

    def row(self, pick: int, *statuses: str) -> Row:
        """Return a picked row; of ``statuses``, where there are such."""
        rows = self.world.rows()
        return picked([row for row in rows if row.status in statuses] or rows, pick)

    @initialize(castings=st.lists(CASTINGS, min_size=2, max_size=3), organization=st.integers(0, 1))
    def begin_with(self, castings: list[Casting], organization: int) -> None:
        """Begin with notifications in the middle of their lives."""
        play(self.world, castings, organization=organization)

    @precondition(lambda self: len(self.world.known) < 6)
    @rule(items=st.lists(ITEMS, min_size=1, max_size=2), organization=st.integers(0, 1))
    def accept(self, items: list[Item], organization: int) -> None:
        leasing.accept(self.world, items, organization=organization)

    def claimable(self) -> list[Row]:
        world = self.world
        return [
            row
            for row in world.rows()
            if row.status == "pending"
            and row.available_at <= world.now
            and row.channel not in world.paused
        ]

    @precondition(lambda self: self.claimable())
    @rule(pick=PICK, stage=STAGES, behaviour=st.sampled_from(BEHAVIOURS))
    def carry(self, pick: int, stage: str, behaviour: str) -> None:
        """Take one row as far as ``stage``, as if nothing came in between."""
        rows = self.claimable()
        row = rows[pick % len(rows)]
        leasing.claim(self.world, row.channel)
        if stage == "claimed":
            return
        (message,) = (one for one in self.live_messages() if one.id == row.id)
        calls = self.take([message], keep=False)
        if stage == "begun" or not calls:
            return
        sending.call(self.world, calls[0], behaviour)
        if stage == "closed":
            sending.close_calls(self.world, calls)

    def live_messages(self) -> list[Message]:
        """Return the messages of leases that may still open an attempt."""
        rows, now = self.world.seen.rows, self.world.now
        return [
            one
            for one in self.world.queue
            if (row := rows[one.id]).status == "leased"
            and (row.lease_number, row.attempt_id) == (one.lease, None)
            and row.lease_until is not None
            and row.lease_until > now
        ]

    @precondition(lambda self: self.claimable())
    @rule(pick=PICK, page=st.sampled_from([1, 20]), then=FATES_OF_A_CLAIM)
    def claim(self, pick: int, page: int, then: str) -> None:
        rows = self.claimable()
        leased = leasing.claim(self.world, rows[pick % len(rows)].channel, page=page)
        match then:
            case "refused":
                leasing.refuse(self.world, leased)
            case "deferred" | "forbidden":
                leasing.decide_against(self.world, leased, defer=then == "deferred")
            case _:
                pass

    @precondition(lambda self: self.world.queue)
    @rule(pick=PICK, number=st.integers(1, 3), twice=st.booleans(), keep=st.booleans())
    def deliver(self, pick: int, number: int, twice: bool, keep: bool) -> None:
        """Deliver messages of one channel, from anywhere in the queue; one of them perhaps twice,
        all of them perhaps again later."""
        queue = self.world.queue
        first = queue[pick % len(queue)]
        others = [one for one in queue if one.channel == first.channel and one is not first]
        messages = [first, *others[: number - 1]]
        self.take(messages + messages[:1] if twice else messages, keep=keep)

    def take(self, messages: list[Message], *, keep: bool) -> list[Call]:
        world = self.world
        if not keep:
            world.old += [one for one in messages if one not in world.old]
            world.queue = [one for one in world.queue if one not in messages]
        return sending.deliver(world, messages)

    @precondition(lambda self: self.world.queue or self.world.old)
    @rule(pick=PICK, fate=FATES_OF_A_MESSAGE)
    def trouble(self, pick: int, fate: str) -> None:
        """What else may come of a message, however old: it is dropped or comes back, cannot be
        made a call of, kills its handlers, or only seems to."""
        world, rows = self.world, self.world.seen.rows
        statuses = {one.id: rows[one.id].status for one in world.queue + world.old}
        row = picked([rows[id] for id in statuses], pick)
        messages = [one for one in world.queue + world.old if one.id == row.id]
        message = messages[pick % len(messages)]
        match fate:
            case "dropped":
                world.queue = [one for one in world.queue if one is not message]
                world.old += [message] if message not in world.old else []
            case "redriven":
                world.visit(row.status, Event.REDRIVE)
                sending.deliver(world, [message])
            case "unreadable":
                leasing.find_unreadable(world, message)
            case "crash loop":
                leasing.start_again(world, message, times=leasing.MAX_STARTS)
            case _:
                leasing.start_again(world, message)
                if fate == "finished":
                    leasing.finish(world, message, times=1)

    def call_of(self, pick: int) -> Call:
        """Return a picked call: first a row is picked, then a call for it."""
        rows = self.world.seen.rows
        row = picked([rows[id] for id in dict.fromkeys(one.id for one in self.world.calls)], pick)
        calls = [one for one in self.world.calls if one.id == row.id]
        return calls[pick % len(calls)]

    @precondition(lambda self: self.world.calls)
    @rule(pick=PICK, behaviour=st.sampled_from(BEHAVIOURS), fate=FATES_OF_A_CALL)
    def call(self, pick: int, behaviour: str, fate: str) -> None:
        """A sender calls, if it has not yet; then it closes its attempt, now or later or never."""
        one = self.call_of(pick)
        if fate == "begin again":
            sending.begin_again(self.world, one)
            return
        if one.outcome is None:
            sending.call(self.world, one, behaviour)
        if fate == "close":
            sending.close_calls(self.world, [one])
        if fate == "die":
            sending.lose(self.world, one)

    @precondition(lambda self: self.world.calls)
    @rule(pick=PICK)
    def close_together(self, pick: int) -> None:
        """A sender closes its attempts; those that it has not called for yet it gives back."""
        first = self.call_of(pick)
        kind = (first.channel, first.declaration)
        calls = [one for one in self.world.calls if (one.channel, one.declaration) == kind]
        sending.close_calls(self.world, list({one.id: one for one in calls}.values()))

    @precondition(lambda self: self.world.closed)
    @rule(pick=PICK)
    def close_again(self, pick: int) -> None:
        rows = self.world.seen.rows
        row = picked([rows[id] for id in dict.fromkeys(one.id for one in self.world.closed)], pick)
        closed = [one for one in self.world.closed if one.id == row.id]
        sending.close_calls(self.world, [closed[pick % len(closed)]])


def picked(rows: list[Row], pick: int) -> Row:
    """Return one of ``rows``: first one of the kinds that there are, then a row of it."""
    present = sorted({_kind_of(row) for row in rows})
    kind = present[pick % len(present)]
    rows = [row for row in rows if _kind_of(row) == kind]
    return rows[pick // len(present) % len(rows)]


def _kind_of(row: Row) -> tuple[str, bool, bool]:
    """Return what makes a difference: the status, whether an attempt is open, whether in doubt."""
    return row.status, row.attempt_id is not None, row.in_doubt > 0
