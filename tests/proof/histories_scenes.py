"""How random histories begin: with notifications in the middle of their lives.

A scene is a channel and a few events, each through the same door as all others. They make every
status as frequent at the start as any other, with an attempt open, in doubt, or neither.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from functions.core.states import Finding
from tests.proof.histories_clients import cancel, suppress
from tests.proof.histories_evidence import tell_receipt
from tests.proof.histories_gateway import Call
from tests.proof.histories_leasing import Item, accept, claim, start_again
from tests.proof.histories_model import MAX_STARTS
from tests.proof.histories_operator import discard_rows, requeue_rows, settle_row
from tests.proof.histories_repair import recover, switch_provider
from tests.proof.histories_reports import Report, told_of
from tests.proof.histories_rows import Row
from tests.proof.histories_sending import begin_again, call, close_calls, deliver
from tests.proof.histories_time import expire_rows, keep_answers, look, sweep_channel
from tests.proof.histories_world import OTHER_PROVIDERS, USUAL_PROVIDERS, Message, World

EXPIRES_IN = 2000.0

SCENES: Mapping[str, str] = {
    "new": "email",
    "new, of another kind": "webhook",
    "noted": "push report0",
    "leased": "sms claim",
    "leased again": "email claim begin transient close due claim",
    "leased in doubt": "email claim begin unknown_taken close due claim",
    "leased, an earlier sender late": "email claim begin call sweep due claim",
    "begun": "email claim begin",
    "begun, key-less": "push claim begin",
    "begun, an earlier sender late": "webhook claim begin call sweep due claim begin",
    "called": "email claim begin call",
    "called, key-less": "sms claim begin call",
    "waiting after an attempt": "webhook claim begin transient close",
    "waiting in doubt": "email claim begin unknown_taken close",
    "waiting in doubt, its sender late": "email claim begin call sweep",
    "waiting in doubt, reported too early": "email claim begin accepted orphan2 sweep",
    "waiting for patience": "sms claim begin throttled close",
    "uncertain": "sms claim begin unknown_taken close",
    "uncertain, to be retried": "push claim begin unknown_lost close",
    "uncertain, its sender late": "push claim begin call sweep",
    "uncertain, an earlier sender late": "push claim begin call sweep look claim begin call sweep",
    "uncertain after a restore": "email recover",
    "uncertain after a restore, called": "email claim begin call recover",
    "uncertain after a restore, looked up": "email claim begin accepted recover look",
    "uncertain, settled in part": (
        "email switch claim begin call sweep hold consent switch recover look answer"
    ),
    "uncertain, reported too early": "sms claim begin accepted orphan4 sweep",
    "submitted": "email claim begin accepted close",
    "submitted, not closed": "email claim begin report1",
    "submitted, swept": "push claim begin report1 sweep",
    "submitted, swept, keyed": "email claim begin report1 sweep",
    "submitted, its sender late": "sms claim begin call sweep report1",
    "submitted, reported too early": "sms claim begin accepted orphan3 close",
    "delivered": "webhook claim begin accepted close",
    "delivered, not closed": "push claim begin report3",
    "delivered, swept": "push claim begin report3 sweep",
    "delivered, its sender late": "email claim begin call sweep report3",
    "delivered, reported too early": "email claim begin accepted_final orphan4 close",
    "failed": "email claim begin accepted close report2",
    "failed, not closed": "sms claim begin report2",
    "failed for good, its sender late": "email claim begin call sweep report4",
    "failed, reported too early": "push claim begin accepted orphan1 close report2",
    "unconfirmed": "email claim begin accepted close cutoff",
    "unconfirmed, not closed": "email claim begin call report1 cutoff",
    "unconfirmed, swept": "sms claim begin report1 cutoff sweep",
    "unconfirmed in doubt": "push claim begin unknown_taken close expired look",
    "unconfirmed in doubt, its sender late": "push claim begin call sweep expired look",
    "unconfirmed, reported too early": "email claim begin accepted orphan2 close cutoff",
    "suppressed": "webhook claim begin refused close",
    "suppressed before it was sent": "sms suppress claim begin",
    "suppressed, its sender late": "sms claim begin call sweep conclude suppress claim begin",
    "suppressed, reported too early": (
        "push claim begin accepted orphan2 sweep conclude suppress claim begin"
    ),
    "cancelled": "sms cancel",
    "cancelled after an attempt": "sms claim begin transient close cancel",
    "cancelled, its sender late": "sms claim begin call sweep conclude cancel",
    "cancelled, reported too early": "sms claim begin accepted orphan3 sweep conclude cancel close",
    "expired": "push expired expire",
    "expired after an attempt": "email claim begin transient close expired expire",
    "expired, its sender late": "push claim begin call sweep conclude expired expire",
    "dead": "sms claim begin rejected close",
    "dead in doubt": "sms claim begin unknown_taken close hold",
    "dead in doubt, its sender late": "email claim begin call sweep crash",
    "dead, not closed": "email claim begin crash",
    "dead, not closed, key-less": "push claim begin call crash",
    "dead, swept": "email claim begin crash sweep",
    "dead, swept, key-less": "push claim begin crash sweep",
    "discarded": "push claim begin rejected close discard",
}
"""A word is an event; `call` lets the provider answer as drawn, `orphan` reports by a reference
that nobody knows yet, `due`, `expired` and `cutoff` let time pass."""

CHANCES: Mapping[str, int] = {
    "leased": 4,
    "leased in doubt": 3,
    "begun": 5,
    "begun, key-less": 4,
    "leased, an earlier sender late": 4,
    "begun, an earlier sender late": 3,
    "called": 3,
    "called, key-less": 3,
    "waiting in doubt, its sender late": 2,
    "uncertain": 8,
    "uncertain, to be retried": 2,
    "uncertain, its sender late": 7,
    "uncertain, an earlier sender late": 4,
    "uncertain after a restore, called": 4,
    "submitted, not closed": 10,
    "delivered, not closed": 10,
    "delivered, its sender late": 4,
    "failed, not closed": 10,
    "failed for good, its sender late": 4,
    "unconfirmed, not closed": 8,
    "unconfirmed in doubt, its sender late": 3,
    "suppressed": 2,
    "suppressed before it was sent": 2,
    "cancelled, its sender late": 2,
    "expired": 9,
    "expired after an attempt": 2,
    "expired, its sender late": 4,
    "dead in doubt, its sender late": 3,
    "dead, not closed": 6,
    "dead, not closed, key-less": 6,
}
"""Where the provider's answer makes the difference, ten times as many pairs hang on a scene; and
few ways lead to some statuses, or soon away from them."""

MOVES_CLOCK = frozenset({"sweep", "cutoff", "expired", "look", "due"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Casting:
    """A scene as drawn: how its provider answers, and its endings: a note about it comes in, the
    begin of what it has left open is repeated, and that is closed, however late."""

    scene: str
    behaviour: str
    endings: Sequence[str] = ()

    @property
    def words(self) -> list[str]:
        return SCENES[self.scene].split()

    @property
    def is_quick(self) -> bool:
        return not MOVES_CLOCK & set(self.words)


def play(world: World, castings: Sequence[Casting], *, organization: int) -> None:
    """Play scenes, those that take time first, so that the others' leases are still good."""
    for place, casting in enumerate(sorted(castings, key=lambda one: one.is_quick)):
        channel, *words = casting.words
        expires_in = EXPIRES_IN if "expired" in words else None
        item = Item(channel=channel, recipient=place % 2, expires_in=expires_in)
        (id,) = accept(world, [item], organization=(organization + place) % 2)
        actor = Actor(world=world, id=id, behaviour=casting.behaviour)
        for word in words:
            if not actor.act(word):
                break
        for word in casting.endings:
            actor.act(word)


@dataclass(slots=True, kw_only=True)
class Actor:
    """One notification on its way through a scene."""

    world: World
    id: UUID
    behaviour: str
    call: Call | None = None

    @property
    def row(self) -> Row:
        return self.world.seen.rows[self.id]

    def act(self, word: str) -> bool:
        """Do what ``word`` says; return whether the scene can go on."""
        if word in DOINGS:
            DOINGS[word](self)
        elif word.startswith(("report", "orphan")):
            names = "reference" if word.startswith("orphan") else "key"
            report = Report(rank=int(word[-1]), names=names)
            number = len(self.world.story)
            tell_receipt(self.world, told_of(self.world, self.row, report, number=number))
        elif self.call is not None:
            behaviour = self.behaviour if word == "call" else word.replace("_", " ")
            if behaviour != "not begun":
                call(self.world, self.call, behaviour)
        return word != "begin" or self.call is not None

    def message(self) -> Message:
        """Return the message of its newest lease."""
        messages = self.world.queue + self.world.old
        return max((one for one in messages if one.id == self.id), key=lambda one: one.lease)

    def begin(self) -> None:
        message = self.message()
        self.world.queue.remove(message)
        self.world.old.append(message)
        calls = deliver(self.world, [message])
        self.call = next((one for one in calls if one.id == self.id), None)

    def close(self) -> None:
        if self.call is not None:
            close_calls(self.world, [self.call])

    def left(self) -> list[Call]:
        """Return the oldest call that its sender has left open, if there is one."""
        return [one for one in self.world.calls if one.id == self.id][:1]

    def begin_again(self) -> None:
        for one in self.left():
            begin_again(self.world, one)

    def end(self) -> None:
        """Close what was left open; what is still on its way in time is the machine's."""
        for one in self.left():
            if (self.row.status, self.row.attempt_id) == ("leased", one.token):
                continue
            if one.outcome is None and self.behaviour != "not begun":
                call(self.world, one, self.behaviour)
            close_calls(self.world, [one])

    def sweep(self) -> None:
        self.pass_until(self.row.lease_until)
        sweep_channel(self.world, self.row.channel)

    def cut_off(self) -> None:
        cutoff = timedelta(seconds=self.world.to.numbers[self.row.channel].cutoff)
        self.pass_until((self.row.submitted_at or self.world.now) + cutoff)
        look(self.world)

    def switch(self) -> None:
        """Let the channel use its other provider, or the usual one again."""
        channel = self.row.channel
        usual = self.world.providers[channel] == USUAL_PROVIDERS[channel]
        providers = OTHER_PROVIDERS if usual else USUAL_PROVIDERS
        switch_provider(self.world, channel, providers[channel])

    def look(self) -> None:
        self.pass_until(self.row.decide_at)
        look(self.world)

    def pass_until(self, moment: datetime | None) -> None:
        self.world.now = max(self.world.now, moment or self.world.now)


DOINGS: Mapping[str, Callable[[Actor], object]] = {
    "claim": lambda actor: claim(actor.world, actor.row.channel),
    "begin": Actor.begin,
    "close": Actor.close,
    "end": Actor.end,
    "begin again": Actor.begin_again,
    "sweep": Actor.sweep,
    "cutoff": Actor.cut_off,
    "look": Actor.look,
    "due": lambda actor: actor.pass_until(actor.row.available_at),
    "expired": lambda actor: actor.pass_until(actor.row.expires_at),
    "expire": lambda actor: expire_rows(actor.world),
    "cancel": lambda actor: cancel(actor.world, actor.row),
    "suppress": lambda actor: suppress(actor.world, actor.row, category=None),
    "hold": lambda actor: settle_row(actor.world, actor.row, Finding.HOLD),
    "conclude": lambda actor: settle_row(actor.world, actor.row, Finding.NOT_ACCEPTED),
    "answer": lambda actor: keep_answers(actor.world),
    "switch": Actor.switch,
    "consent": lambda actor: requeue_rows(actor.world, [actor.row], may_send_twice=True),
    "recover": lambda actor: recover(actor.world),
    "crash": lambda actor: start_again(actor.world, actor.message(), times=MAX_STARTS),
    "discard": lambda actor: discard_rows(actor.world, [actor.row]),
}
