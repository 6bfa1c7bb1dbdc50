"""The state machine: what may happen next in a random history, and its end.

A rule picks by number among what there is, so that a history shrinks well. Every history is drained
at its end: with honest providers and living senders every notification comes to rest.
"""

from collections import Counter
from typing import ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from functions.core.states import Finding
from tests.proof import histories_clients as clients
from tests.proof import histories_leasing as leasing
from tests.proof import histories_operator as operator
from tests.proof import histories_repair as repair
from tests.proof import histories_sending as sending
from tests.proof import histories_time as passing
from tests.proof.histories_coverage import Event
from tests.proof.histories_draining import drain
from tests.proof.histories_evidence import tell_again, tell_receipt
from tests.proof.histories_gateway import BEHAVIOURS, Call
from tests.proof.histories_leasing import Item
from tests.proof.histories_reports import Report, told_of
from tests.proof.histories_rows import Row
from tests.proof.histories_scenes import SCENES, play
from tests.proof.histories_world import (
    OTHER_PROVIDERS,
    USUAL_PROVIDERS,
    Connections,
    Message,
    World,
)

CHANNELS = st.sampled_from(sorted(USUAL_PROVIDERS))
PICK = st.integers(0, 47)
CATEGORIES = st.sampled_from([None, "transactional", "marketing"])
ITEMS = st.builds(
    Item,
    channel=CHANNELS,
    recipient=st.integers(0, 1),
    expires_in=st.sampled_from([None, None, None, 45.0, 100.0, 2000.0]),
    send_in=st.sampled_from([None, None, None, 30.0]),
)
STEPS = st.sampled_from([1.0, 20.0, 61.0, 300.0, 1000.0, 7200.0, 90_000.0, 263_000.0])
"""Seconds; the last three are beyond a lease, a key's window and the patience of a wait."""

STAGES = st.sampled_from(["claimed", "begun", "called", "closed", "closed"])
FATES_OF_A_CLAIM = ["queued", "queued", "queued", "refused", "deferred", "forbidden"]

CLIENT_STEPS = ["cancel", "cancel", "cancel as a stranger", "cancel its batch", "suppress", "lift"]
OPERATOR_STEPS = ["discard", "requeue", "requeue", "requeue twice", *Finding]
REPAIRS = ["replay", "replay", "replay", "recover", "pause", "switch"]

REPORTS = st.builds(
    Report,
    rank=st.sampled_from([0, 1, 1, 2, 3, 3, 4]),
    age=st.sampled_from([0, 5, 60, -60]),
    names=st.sampled_from(["key", "key", "attempt", "reference"]),
    recipient=st.sampled_from(["its own", "its own", "none", "another"]),
    complaint=st.booleans(),
    at_fault=st.booleans(),
)


class Histories(RuleBasedStateMachine):
    """One history; the connections are lent to it by ``histories_of``."""

    to: ClassVar[Connections]
    visits: ClassVar[Counter[tuple[str, str]]]

    def __init__(self) -> None:
        super().__init__()
        self.world = World(to=self.to, visits=self.visits)

    def row(self, pick: int, *statuses: str) -> Row:
        """Return a row: first its status is picked, so that rare ones are met as often as others;
        of ``statuses``, where there are such."""
        rows = self.world.rows()
        rows = [row for row in rows if row.status in statuses] or rows
        present = sorted({row.status for row in rows})
        status = present[pick % len(present)]
        rows = [row for row in rows if row.status == status]
        return rows[pick // len(present) % len(rows)]

    def has(self, *statuses: str) -> bool:
        return any(row.status in statuses for row in self.world.rows())

    @initialize(
        scenes=st.lists(st.sampled_from(sorted(SCENES)), min_size=2, max_size=3),
        behaviours=st.lists(st.sampled_from(BEHAVIOURS), min_size=3, max_size=3),
        organization=st.integers(0, 1),
    )
    def begin_with(self, scenes: list[str], behaviours: list[str], organization: int) -> None:
        """Begin with notifications in the middle of their lives."""
        play(self.world, scenes, behaviours=behaviours, organization=organization)

    @precondition(lambda self: len(self.world.known) < 6)
    @rule(items=st.lists(ITEMS, min_size=1, max_size=2), organization=st.integers(0, 1))
    def accept(self, items: list[Item], organization: int) -> None:
        leasing.accept(self.world, items, organization=organization)

    # On the way out.

    @precondition(lambda self: self.claimable())
    @rule(pick=PICK, stage=STAGES, behaviour=st.sampled_from(BEHAVIOURS))
    def carry(self, pick: int, stage: str, behaviour: str) -> None:
        """Take one row as far as ``stage``, as if nothing came in between."""
        rows = self.claimable()
        row = rows[pick % len(rows)]
        leasing.claim(self.world, row.channel)
        if stage == "claimed":
            return
        (message,) = (one for one in self.world.queue if one.id == row.id and self.is_live(one))
        calls = self.take([message], keep=False)
        if stage == "begun" or not calls:
            return
        sending.call(self.world, calls[0], behaviour)
        if stage == "closed":
            sending.close_calls(self.world, calls)

    def claimable(self) -> list[Row]:
        world = self.world
        return [
            row
            for row in world.rows()
            if row.status == "pending"
            and row.available_at <= world.now
            and row.channel not in world.paused
        ]

    def is_live(self, message: Message) -> bool:
        return self.world.seen.rows[message.id].lease_number == message.lease

    @precondition(lambda self: self.claimable())
    @rule(pick=PICK, page=st.sampled_from([1, 20]), then=st.sampled_from(FATES_OF_A_CLAIM))
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
        messages = [one for one in queue if one.channel == first.channel][:number]
        self.take(messages + messages[:1] if twice else messages, keep=keep)

    def take(self, messages: list[Message], *, keep: bool) -> list[Call]:
        world = self.world
        if keep:
            for one in messages:
                one.received = 1
        else:
            world.old += [one for one in messages if one not in world.old]
            world.queue = [one for one in world.queue if one not in messages]
        return sending.deliver(world, messages)

    @precondition(lambda self: self.world.queue)
    @rule(pick=PICK)
    def drop(self, pick: int) -> None:
        queue = self.world.queue
        self.world.old.append(queue.pop(pick % len(queue)))

    @precondition(lambda self: self.world.old)
    @rule(pick=PICK)
    def redrive(self, pick: int) -> None:
        """A message comes back, however old."""
        old = self.world.old
        message = old[pick % len(old)]
        self.world.visit(self.world.seen.rows[message.id].status, Event.REDRIVE)
        sending.deliver(self.world, [message])

    @precondition(lambda self: self.world.queue or self.world.old)
    @rule(pick=PICK, times=st.sampled_from([1, 1, 5]), finish=st.booleans())
    def crash(self, pick: int, times: int, finish: bool) -> None:
        """A message kills its handlers, or they only seem to be dead."""
        messages = self.world.queue + self.world.old
        message = messages[pick % len(messages)]
        leasing.start_again(self.world, message, times=times)
        if finish:
            leasing.finish(self.world, message, times=times)

    @precondition(lambda self: self.world.queue or self.world.old)
    @rule(pick=PICK)
    def find_unreadable(self, pick: int) -> None:
        messages = self.world.queue + self.world.old
        leasing.find_unreadable(self.world, messages[pick % len(messages)])

    @precondition(lambda self: self.world.calls)
    @rule(pick=PICK)
    def begin_again(self, pick: int) -> None:
        sending.begin_again(self.world, self.pick_call(pick))

    def pick_call(self, pick: int) -> Call:
        """Return a call whose row has a picked status, as ``row`` does."""
        calls, rows = self.world.calls, self.world.seen.rows
        present = sorted({rows[one.id].status for one in calls})
        status = present[pick % len(present)]
        calls = [one for one in calls if rows[one.id].status == status]
        return calls[pick // len(present) % len(calls)]

    @precondition(lambda self: self.world.calls)
    @rule(pick=PICK, behaviour=st.sampled_from(BEHAVIOURS), close=st.booleans())
    def call(self, pick: int, behaviour: str, close: bool) -> None:
        """A sender calls, if it has not yet; and closes its attempt now, or later."""
        one = self.pick_call(pick)
        if one.outcome is None:
            sending.call(self.world, one, behaviour)
        if close:
            sending.close_calls(self.world, [one])

    @precondition(lambda self: self.world.calls)
    @rule(pick=PICK)
    def close_together(self, pick: int) -> None:
        """A sender closes its attempts; those that it has not called for yet it gives back."""
        first = self.pick_call(pick)
        kind = (first.channel, first.declaration)
        calls = [one for one in self.world.calls if (one.channel, one.declaration) == kind]
        sending.close_calls(self.world, list({one.id: one for one in calls}.values()))

    @precondition(lambda self: self.world.closed)
    @rule(pick=PICK)
    def close_again(self, pick: int) -> None:
        closed = self.world.closed
        sending.close_calls(self.world, [closed[pick % len(closed)]])

    @precondition(lambda self: self.world.calls)
    @rule(pick=PICK)
    def lose(self, pick: int) -> None:
        sending.lose(self.world, self.pick_call(pick))

    # Evidence.

    @rule(pick=PICK, report=REPORTS)
    def report(self, pick: int, report: Report) -> None:
        row = self.row(pick)
        tell_receipt(self.world, told_of(self.world, row, report, number=len(self.world.story)))

    @rule(pick=PICK, one=REPORTS, other=REPORTS)
    def report_two(self, pick: int, one: Report, other: Report) -> None:
        """Two reports of one door come together."""
        row = self.row(pick)
        number = len(self.world.story)
        told = [told_of(self.world, row, one, number=number)]
        told.append(told_of(self.world, row, other, number=number + 500))
        tell_receipt(self.world, *told)

    @precondition(lambda self: self.world.told)
    @rule(pick=PICK)
    def report_again(self, pick: int) -> None:
        told = [one for one in self.world.told.values() if one.door != "operator"]
        if told:
            tell_again(self.world, told[pick % len(told)])

    # Time.

    @rule(seconds=STEPS)
    def wait(self, seconds: float) -> None:
        passing.step_clock(self.world, seconds)

    @rule(pick=st.integers(0, 2), early=st.booleans())
    def wait_until(self, pick: int, early: bool) -> None:
        """Wait until just when, or just before, something is due."""
        moments = passing.times_ahead(self.world)
        if moments:
            moment = moments[min(pick, len(moments) - 1)]
            passing.step_clock(
                self.world, (moment - self.world.now).total_seconds() - (0.5 if early else 0)
            )

    @precondition(lambda self: any(row.lease_until for row in self.world.rows()))
    @rule(pick=PICK, late=st.booleans())
    def sweep(self, pick: int, late: bool) -> None:
        """Sweep a channel that has leases; ``late``: once the next of them is over."""
        leased = [row for row in self.world.rows() if row.lease_until]
        row = leased[pick % len(leased)]
        if late and row.lease_until and row.lease_until > self.world.now:
            self.world.now = row.lease_until
        passing.sweep_channel(self.world, row.channel)

    @rule(late=st.booleans())
    def expire(self, late: bool) -> None:
        ends = [
            row.expires_at
            for row in self.world.rows()
            if row.status == "pending" and row.expires_at and row.expires_at > self.world.now
        ]
        if late and ends:
            self.world.now = min(ends)
        passing.expire_rows(self.world)

    @precondition(lambda self: self.has("submitted", "uncertain") or self.world.told)
    @rule(pick=PICK, late=st.booleans(), answers=st.booleans())
    def reconcile(self, pick: int, late: bool, answers: bool) -> None:
        """Reconcile; ``late``: once a row that waits is due for it. Whom it asks answers at once,
        or a little later."""
        rows = [row for row in self.world.rows() if row.status in ("submitted", "uncertain")]
        if rows and late:
            row = rows[pick % len(rows)]
            self.world.now = max(
                self.world.now, row.decide_at or row.next_check_at or self.world.now
            )
        passing.reconcile(self.world)

    # People.

    @rule(pick=PICK, what=st.sampled_from(CLIENT_STEPS), category=CATEGORIES)
    def client(self, pick: int, what: str, category: str | None) -> None:
        world, row = self.world, self.row(pick)
        match what:
            case "cancel":
                clients.cancel(world, row)
            case "cancel as a stranger":
                clients.cancel_as_stranger(world, row)
            case "cancel its batch":
                clients.cancel_its_batch(world, row)
            case _:
                clients.suppress(world, row, category=category, lift=what == "lift")

    @rule(pick=PICK, what=st.sampled_from(OPERATOR_STEPS), all_of_them=st.booleans())
    def operate(self, pick: int, what: str, all_of_them: bool) -> None:
        world, row = self.world, self.row(pick)
        match what:
            case "discard":
                operator.discard_rows(world, [row])
            case "requeue" | "requeue twice":
                rows = world.rows() if all_of_them else [row]
                operator.requeue_rows(world, rows, may_send_twice=what == "requeue twice")
            case finding:
                operator.settle_row(world, row, Finding(finding))

    @rule(pick=PICK, what=st.sampled_from(REPAIRS), rank=st.integers(0, 4), channel=CHANNELS)
    def repair(self, pick: int, what: str, rank: int, channel: str) -> None:
        match what:
            case "replay":
                repair.replay_row(self.world, self.row(pick), rank=rank)
            case "recover":
                repair.recover(self.world)
            case "pause":
                self.pause(pick)
            case _:
                usual = self.world.providers[channel] == USUAL_PROVIDERS[channel]
                providers = OTHER_PROVIDERS if usual else USUAL_PROVIDERS
                repair.switch_provider(self.world, channel, providers[channel])

    def pause(self, pick: int) -> None:
        """Pause every channel; a message still arrives; go on."""
        repair.pause(self.world)
        if self.world.queue:
            queue = self.world.queue
            self.take([queue[pick % len(queue)]], keep=False)
        repair.go_on(self.world)

    def teardown(self) -> None:
        try:
            if not self.world.is_broken:
                drain(self.world)
        finally:
            if self.world.is_broken:
                note("\n".join(self.world.story))


def histories_of(to: Connections, visits: Counter[tuple[str, str]]) -> type[Histories]:
    """Return the machine on these connections, counting into ``visits``."""
    return type("HistoriesOnADatabase", (Histories,), {"to": to, "visits": visits})
