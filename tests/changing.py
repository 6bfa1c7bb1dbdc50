"""A notification on its way to a recipient, and what may change at each step of that way."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from functions.core.declaration import Declaration
from functions.core.login import Login
from functions.core.outcome import Outcome
from functions.core.states import Stream
from functions.providers.http import HttpProvider
from functions.providers.provider import PreparedCall, Submission
from functions.sender.record import Report
from functions.store.claim import NO_ORGANIZATION, Leased, lease_page
from functions.store.connection import Database
from functions.store.lock import lock_notifications
from functions.store.survey import promote
from tests.by_reference import judged
from tests.fakes import HeldDatabase
from tests.gateway import Gateway, gateway, giving
from tests.sending import records_of, sender
from tests.steps import LEASE_SECONDS, connected, now_of, waiting

Change = Callable[[], object]


def nothing() -> None:
    pass


@dataclass(slots=True)
class Interrupting:
    """A provider before whose first call something happens: after the load, before begin."""

    provider: HttpProvider
    change: Change = nothing

    @property
    def declaration(self) -> Declaration:
        return self.provider.declaration

    def prepare(self, submission: Submission) -> PreparedCall:
        call = self.provider.prepare(submission)
        change, self.change = self.change, nothing
        change()
        return call

    def submit(self, call: PreparedCall, *, deadline: float) -> Outcome:
        return self.provider.submit(call, deadline=deadline)


@dataclass(slots=True)
class Way:
    """What is sent to a gateway; ``changes`` come from another connection."""

    owner: psycopg.Connection
    database: Database
    login: Login
    gateway: Gateway
    provider: Interrupting
    hours: float = 0

    @property
    def asked(self) -> list[str]:
        """Whom the gateway was asked to tell, in order."""
        return [one.recipient for one in self.gateway.asked]

    @property
    def contents(self) -> list[Any]:
        return [one.body["content"] for one in self.gateway.asked]

    def claim(self, *, channel: str = "email") -> list[Leased]:
        """Lease and decide what is ready, an hour later each time; return what may go on."""
        now = now_of(self.owner, hours=self.hours)
        self.hours += 1
        promote(self.database, now=now)
        pages = [
            lease_page(
                self.database,
                channel=channel,
                stream=stream,
                priority="normal",
                page=100,
                after=NO_ORGANIZATION,
                lease_seconds=LEASE_SECONDS,
                leased_by="test",
                now=now,
            )
            for stream in Stream
        ]
        leases = [row for page in pages for row in page.leased]
        verdicts = judged(self.database, leases, now=now)
        return [row for row, verdict in verdicts if verdict.name == "allow"]

    def deliver(self, leases: Sequence[Leased], *, channel: str = "email") -> Report:
        """Have a sender deliver ``leases``."""
        with sender(self.database, self.provider, channel=channel) as one:
            report = one.deliver(records_of(leases))
        assert (report.failed, report.errors) == ([], [])
        return report

    def deliver_waiting(self, leases: Sequence[Leased], change: Change) -> None:
        """Have a sender deliver ``leases``, and something change while its begin waits."""
        ids = [one.id for one in leases]
        with (
            connected(self.login, "sender", kind=Database) as (sending,),
            connected(self.login, "holder", kind=HeldDatabase) as (holding,),
            sender(sending, self.provider) as one,
        ):
            holding.run(lambda connection: lock_notifications(connection, ids))
            with waiting(self.owner, "sender", lambda: one.deliver(records_of(leases))) as report:
                change()
                holding.rollback()
            assert (report.result().failed, report.result().errors) == ([], [])

    def go_on(self, *, channel: str = "email") -> None:
        """Claim and deliver until nothing is left to be claimed: it must come to that."""
        for _ in range(3):
            leases = self.claim(channel=channel)
            if not leases:
                return
            self.deliver(leases, channel=channel)
        raise AssertionError("it goes round and round")


@contextmanager
def on_its_way(owner: psycopg.Connection, database: Database, login: Login) -> Generator[Way]:
    with gateway() as served:
        yield Way(
            owner=owner,
            database=database,
            login=login,
            gateway=served,
            provider=Interrupting(served.provider()),
        )


def after_the_claim(way: Way, to: str, change: Change) -> None:
    """It changes before the sender has read anything."""
    del to
    leases = way.claim()
    change()
    way.deliver(leases)


def after_the_load(way: Way, to: str, change: Change) -> None:
    """It changes when the sender has made the call, and not opened the attempt."""
    del to
    way.provider.change = change
    way.deliver(way.claim())
    assert way.provider.change is nothing


def at_the_lock(way: Way, to: str, change: Change) -> None:
    """It changes while begin waits for the row."""
    del to
    way.deliver_waiting(way.claim(), change)


def before_the_retry(way: Way, to: str, change: Change) -> None:
    """It changes after an attempt that was provably not accepted."""
    way.gateway.behaviour[to] = giving(409)
    assert way.deliver(way.claim()).counts["AttemptTransient"] == 1
    way.gateway.behaviour.clear()
    change()


STEPS: dict[str, Callable[[Way, str, Change], None]] = {
    "after the claim": after_the_claim,
    "after the load": after_the_load,
    "at the lock": at_the_lock,
    "before the retry": before_the_retry,
}
