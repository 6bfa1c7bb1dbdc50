"""The state machine whole: evidence, time and people meet what is on its way out; and its end.

Every history is drained at its end: with honest providers and living senders every notification
comes to rest.
"""

from collections import Counter
from datetime import timedelta

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from functions.core.states import Finding
from tests.proof import histories_clients as clients
from tests.proof import histories_leasing as leasing
from tests.proof import histories_operator as operator
from tests.proof import histories_repair as repair
from tests.proof import histories_time as passing
from tests.proof.histories_connections import Connections
from tests.proof.histories_draining import drain
from tests.proof.histories_evidence import tell_again, tell_receipt
from tests.proof.histories_invariants import Broken
from tests.proof.histories_outward import CHANNELS, PICK, Outward, picked
from tests.proof.histories_reports import Report, told_of
from tests.proof.histories_world import OTHER_PROVIDERS, USUAL_PROVIDERS

CATEGORIES = st.sampled_from([None, "transactional", "marketing"])
STEPS = [1.0, 20.0, 61.0, 300.0, 1000.0, 7200.0, 90_000.0, 263_000.0]
"""Seconds; the last three are beyond a lease, a key's window and the patience of a wait."""

WAITS = st.sampled_from([*STEPS, "due", "due", "almost due", "almost due", "next"])
CLIENT_STEPS = [
    "cancel",
    "cancel in time",
    "cancel as a stranger",
    "cancel its batch",
    "suppress",
    "suppress",
    "lift",
]
OPERATOR_STEPS = ["discard", "requeue", "requeue", "requeue twice", *Finding]
AIMS = st.sampled_from(["any", "held", "all"])
REPAIRS = ["replay", "replay", "replay", "recover", "pause", "pause", "switch"]
REPORTS = st.builds(
    Report,
    rank=st.sampled_from([0, 1, 1, 2, 3, 3, 4]),
    age=st.sampled_from([0, 5, 60, -60]),
    names=st.sampled_from(["key", "attempt", "attempt", "reference"]),
    recipient=st.sampled_from(["its own", "its own", "its own", "none", "another"]),
    complaint=st.booleans(),
    at_fault=st.booleans(),
)


class Histories(Outward):
    """One history."""

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

    @precondition(lambda self: any(one.notification for one in self.world.told.values()))
    @rule(pick=PICK, rank=st.integers(0, 4), replay=st.booleans())
    def report_again(self, pick: int, rank: int, replay: bool) -> None:
        """A report comes once more; or what is kept of it is read again, by other rules."""
        rows = self.world.seen.rows
        told = [one for one in self.world.told.values() if one.door != "operator"]
        about = dict.fromkeys(one.notification for one in told if one.notification)
        if not about:
            return
        row = picked([rows[id] for id in about], pick)
        if replay:
            repair.replay_row(self.world, row, rank=rank)
        else:
            ones = [one for one in told if one.notification == row.id]
            tell_again(self.world, ones[pick % len(ones)])

    @rule(pick=st.integers(0, 2), how_long=WAITS)
    def wait(self, pick: int, how_long: float | str) -> None:
        """Wait some seconds, or until something is due, or until just before that."""
        moments = passing.times_ahead(self.world)
        if isinstance(how_long, float):
            passing.step_clock(self.world, how_long)
        elif moments:
            moment = moments[min(pick, len(moments) - 1)]
            seconds = (moment - self.world.now).total_seconds()
            passing.step_clock(self.world, seconds - (how_long == "almost due") / 2)

    @precondition(lambda self: any(row.lease_until for row in self.world.rows()))
    @rule(pick=PICK, when=st.sampled_from(["now", "over", "almost over"]))
    def sweep(self, pick: int, when: str) -> None:
        """Sweep a channel that has leases; now, or once one of them is over, or almost."""
        row = picked([row for row in self.world.rows() if row.lease_until], pick)
        if when != "now" and row.lease_until is not None:
            almost = timedelta(seconds=0.5 if when == "almost over" else 0)
            self.world.now = max(self.world.now, row.lease_until - almost)
        passing.sweep_channel(self.world, row.channel)

    @precondition(lambda self: any(row.expires_at for row in self.world.rows()))
    @rule(late=st.booleans())
    def expire(self, late: bool) -> None:
        """End what is past its expiry; ``late``: once that of a waiting row is over."""
        ends = [
            row.expires_at
            for row in self.world.rows()
            if row.status == "pending" and row.expires_at and row.expires_at > self.world.now
        ]
        if late and ends:
            self.world.now = min(ends)
        passing.expire_rows(self.world)

    @precondition(
        lambda self: (
            self.world.told
            or any(row.status in ("submitted", "uncertain") for row in self.world.rows())
        )
    )
    @rule(pick=PICK, late=st.booleans(), answers=st.booleans())
    def reconcile(self, pick: int, late: bool, answers: bool) -> None:
        """Reconcile; ``late``: once a row that waits is due for it. Whom it asks answers at once,
        or a little later."""
        rows = [row for row in self.world.rows() if row.status in ("submitted", "uncertain")]
        if rows and late:
            row = picked(rows, pick)
            due = row.next_check_at if pick % 2 else row.decide_at or row.next_check_at
            self.world.now = max(self.world.now, due or self.world.now)
        passing.match(self.world)
        passing.look(self.world)
        if answers:
            passing.keep_answers(self.world)

    @precondition(lambda self: self.world.answers)
    @rule()
    def answer(self) -> None:
        passing.keep_answers(self.world)

    @rule(pick=PICK, what=st.sampled_from(CLIENT_STEPS), category=CATEGORIES)
    def client(self, pick: int, what: str, category: str | None) -> None:
        world, row = self.world, self.row(pick)
        match what:
            case "cancel":
                clients.cancel(world, row)
            case "cancel in time":
                clients.cancel(world, self.row(pick, "pending", "leased"))
            case "cancel as a stranger":
                clients.cancel_as_stranger(world, row)
            case "cancel its batch":
                clients.cancel_its_batch(world, row)
            case _:
                clients.suppress(world, row, category=category, lift=what == "lift")

    @rule(pick=PICK, what=st.sampled_from(OPERATOR_STEPS), aim=AIMS)
    def operate(self, pick: int, what: str, aim: str) -> None:
        """An operator steps in, mostly where somebody has to."""
        world = self.world
        row = self.row(pick) if aim == "any" else self.row(pick, "uncertain", "dead")
        match what:
            case "discard":
                operator.discard_rows(world, [row])
            case "requeue" | "requeue twice":
                rows = world.rows() if aim == "all" else [row]
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
        """Pause every channel; a message that was on its way still arrives; go on."""
        rows = self.claimable()
        if rows and not self.live_messages():
            leasing.claim(self.world, rows[pick % len(rows)].channel)
        messages = self.live_messages()
        repair.pause(self.world)
        if messages:
            self.take([messages[pick % len(messages)]], keep=False)
        repair.go_on(self.world)

    def teardown(self) -> None:
        is_broken = self.world.is_broken
        try:
            if not is_broken:
                drain(self.world)
        except Broken:
            is_broken = True
            raise
        finally:
            if is_broken:
                note("\n".join(self.world.story))


def histories_of(to: Connections, visits: Counter[tuple[str, str]]) -> type[Histories]:
    """Return the machine on these connections, counting into ``visits``."""
    return type("HistoriesOnADatabase", (Histories,), {"to": to, "visits": visits})
