"""Sendoff under the probes: its own sender delivers, its own claim leases, its own sweep rescues.

The job is the provider's call. What the queue between claim and sender does is done by hand: it
brings a message once more when its handler died.
"""

from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from functions.core.login import Login
from functions.core.metric import ChannelMetric
from functions.core.outcome import Accepted, Outcome, Rejected, Transient
from functions.providers.choice import DECLARATIONS
from functions.providers.http import DECLARATION
from functions.providers.provider import PreparedCall, Submission
from functions.sender.record import Report
from functions.store.begin import begin
from functions.store.claim import Leased
from functions.store.close import Closing, close
from functions.store.connection import Database
from functions.store.survey import promote
from functions.store.sweep import sweep
from tests.fakes import HeldDatabase, add_notifications
from tests.proof.rivals_probe import First, Met, State
from tests.proof.rivals_worker import Ending, Job, die, died
from tests.sending import records_of, sender
from tests.steps import channel_of, connected, lease, opening_of, waiting

REMAINING_SECONDS = 30.0
OUTCOMES: dict[Ending, Outcome] = {
    Ending.SUCCESS: Accepted(reference="m-1"),
    Ending.FAILURE: Rejected(code="400"),
    Ending.AGAIN: Transient(code="503"),
}
TOLD = (ChannelMetric.FENCED_CLOSE, ChannelMetric.STALE_DELIVERY, ChannelMetric.CRASH_LOOP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calling:
    """A gateway whose calls are a probe's job; ``prepare`` may be made its job instead."""

    submits: Job
    prepares: Callable[[], object] = bool
    declaration = DECLARATION

    def prepare(self, submission: Submission) -> PreparedCall:
        self.prepares()
        return PreparedCall(method="POST", url="", headers={}, body=submission.recipient.encode())

    def submit(self, call: PreparedCall, *, deadline: float) -> Outcome:
        return OUTCOMES[self.submits()]


class Sendoff:
    """A migrated database with one notification."""

    name = "Sendoff"
    refusal = "refused, counted"
    keeps = "attempts"

    def __init__(
        self, login: Login, owner: psycopg.Connection, *, dies_unopened: bool = False
    ) -> None:
        """``dies_unopened``: what kills the senders does so before their attempt is opened."""
        self._login = login
        self._owner = owner
        self._dies_unopened = dies_unopened
        self._messages: dict[str, Leased] = {}
        self._undone: tuple[Leased, int] | None = None
        """The message whose handler died, and how often it was received."""
        (self._id,) = add_notifications(owner)

    def work(self, name: str, job: Job) -> list[str]:
        with connected(self._login, name, kind=Database) as (database,):
            messages = lease(database)
            if not messages:
                return []
            (self._messages[name],) = messages
            with sender(database, Calling(submits=job)) as one:
                return _told(one.deliver(records_of(messages)))

    def crash(self) -> bool:
        """The message whose handler died comes again first; then what the claim leases."""
        with connected(self._login, "claim", kind=Database) as (database,):
            if self._undone is not None:
                message, received = self._undone
                if self._dies(message, received + 1):
                    return True
                self.lose()  # that was its end, and the lease stands until its own
                self.rescue()
            for leased in lease(database):
                if self._dies(leased, 1):
                    return True
        return False

    def _dies(self, message: Leased, received: int) -> bool:
        dies = died(_deliver_and_die, self._login, message, received, self._dies_unopened)
        self._undone = (message, received) if dies else None
        return dies

    def lose(self) -> None:
        """A lease outlives the first visibility timeout of its message, and not the second."""
        if self._undone is not None and self._undone[1] == 1:
            return
        self._owner.execute(
            "UPDATE notifications SET lease_until = now() - interval '1 hour'"
            " WHERE lease_until IS NOT NULL"
        )

    def rescue(self) -> None:
        with connected(self._login, "rescue", kind=Database) as (database,):
            sweep(database, channel=channel_of(database), declarations=DECLARATIONS)
            self._let_backoff_pass(database)

    def _let_backoff_pass(self, database: Database) -> None:
        self._owner.execute(
            "UPDATE notifications SET available_at = created_at WHERE status = 'pending'"
        )
        promote(database)

    def renew(self, name: str) -> list[str]:
        """There are no heartbeats: a lease is extended once, by the begin that opens its attempt.
        So the message of the old lease comes again."""
        with (
            connected(self._login, name, kind=Database) as (database,),
            sender(database, Calling(submits=die)) as one,
        ):
            return _told(one.deliver(records_of([self._messages[name]], received=2)))

    def meet(self, first: First, ending: Ending) -> Met:
        with (
            connected(self._login, "A", kind=Database) as (a,),
            connected(self._login, "held", kind=HeldDatabase) as (held,),
            connected(self._login, "rescue", kind=Database) as (rescue,),
        ):
            (self._messages["A"],) = lease(a)
            opening = opening_of(self._messages["A"])
            begin(
                a,
                [opening],
                declaration=DECLARATION,
                declarations=DECLARATIONS,
                remaining_seconds=REMAINING_SECONDS,
            )
            self.lose()
            channel = channel_of(a)
            closing = Closing(
                id=opening.id,
                lease_number=opening.lease_number,
                token=opening.token,
                outcome=OUTCOMES[ending],
                again_seconds=channel.backoff_base_seconds,
            )

            def complete(database: Database) -> str | None:
                answers = close(database, [closing], channel=channel, declaration=DECLARATION)
                return answers[closing.id].status

            if first is First.RESCUE:
                sweep(held, channel=channel, declarations=DECLARATIONS)
                with waiting(self._owner, "A", lambda: complete(a)) as completed:
                    held.commit()
                    status = completed.result()
            else:
                status = complete(held)
                sweep(
                    rescue, channel=channel, declarations=DECLARATIONS
                )  # passes a locked row over
                held.commit()
                sweep(rescue, channel=channel, declarations=DECLARATIONS)
            self._let_backoff_pass(rescue)
        return Met(told=[] if status else ["A: fenced"])

    def state(self) -> State:
        row = self._owner.execute(
            "SELECT status, reason, lease_number FROM notifications WHERE id = %s", [self._id]
        ).fetchone()
        attempts = self._owner.execute(
            "SELECT lease_number, coalesce(outcome, 'open') FROM attempts"
            " WHERE notification_id = %s ORDER BY lease_number",
            [self._id],
        ).fetchall()
        assert row is not None
        status, reason, number = row
        names = {leased.lease_number: name for name, leased in self._messages.items()}
        if status == "leased":
            status = f"leased by {names[number]}"
        return State(
            status=f"{status} ({reason})" if reason else status,
            history=tuple(f"{names.get(number, number)} {outcome}" for number, outcome in attempts),
        )


def _told(report: Report) -> list[str]:
    if report.errors:
        raise report.errors[0]
    return [f"{name} {report.counts[name]}" for name in TOLD if report.counts[name]]


def _deliver_and_die(login: Login, leased: Leased, received: int, unopened: bool) -> None:
    """Be a sender that the notification kills, before or after its attempt is opened."""
    provider = Calling(submits=die, prepares=die if unopened else bool)
    with (
        connected(login, "sender", kind=Database) as (database,),
        sender(database, provider) as one,
    ):
        one.deliver(records_of([leased], received=received))
