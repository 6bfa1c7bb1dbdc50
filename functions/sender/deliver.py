"""Deliver a set of queue records: prepare, begin, call the provider, close.

A record is reported as failed exactly when its attempt is known not to be open: it cannot be read,
the database could not be reached before anything was begun, or no time was left. Everything else is
acknowledged; recovery is the lease. Nothing is open across a provider call but the attempt,
committed before it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from functions.core.declaration import Declaration
from functions.core.errors import Unavailable, Unreadable
from functions.core.message import LeaseMessage
from functions.core.metric import ChannelMetric
from functions.core.states import Status
from functions.providers.provider import Provider
from functions.sender.finish import CLOSE_SECONDS, Attempt, Finisher
from functions.sender.learning import Tally
from functions.sender.prepare import LinkOf, Preparer, ProviderOf, Ready
from functions.sender.record import Queued, Record, Report
from functions.sender.starts import begin_starts, end_starts
from functions.sender.words import Documents
from functions.store.begin import Begun, Opening, begin
from functions.store.channel import ChannelRow
from functions.store.connection import Database, is_about_a_row
from functions.store.delivery import Delivery, load

LEASE_MARGIN_SECONDS = 5.0
"""How far the lease outlives the invocation, so that no sweep meets a call that still runs."""

CONCURRENT_CALLS = 10

_METRIC_OF_VERDICT = {
    "stale": ChannelMetric.STALE_DELIVERY,
    "blocked": ChannelMetric.BLOCKED_DELIVERY,
}


def deliver(records: Sequence[Record], *, sender: Callable[[], "Sender"]) -> Report:
    """Deliver ``records``; when what a ``sender`` needs cannot be reached, nothing was begun."""
    try:
        ready = sender()
    except Unavailable as error:
        report = Report(failed=[record.message_id for record in records])
        report.note(error)
        return report
    return ready.deliver(records)


def _no_link(delivery: Delivery) -> str | None:
    del delivery
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """What one invocation works with; ``ends_at`` is its end by ``time.monotonic``."""

    database: Database
    provider_of: ProviderOf
    channel: ChannelRow
    declarations: Sequence[Declaration]
    """Of every provider there is: an earlier attempt may have been another's."""
    threads: ThreadPoolExecutor
    ends_at: float
    sleep: Callable[[float], None] = time.sleep
    unsubscribe_url: LinkOf = _no_link
    finished: list[UUID] = field(default_factory=list[UUID])
    """Starts that ended, until the database is told so: an outage is no crash loop. An environment
    keeps them from one invocation to the next."""
    tally: Tally = field(default_factory=Tally)
    """First attempts, until the breakers are told of them; an environment's, too."""
    documents: Documents = field(default_factory=Documents)
    """Templates that were read; an environment's, too."""

    def deliver(self, records: Sequence[Record]) -> Report:
        """Deliver ``records``; whatever happens to one group of them, the others go on."""
        report = Report()
        self._end_starts(report)
        for group in self._groups(records, report):
            self._deliver(group, report)
            self._end_starts(report)  # at once: a later record may be the end of the process
        return report

    def _deliver(self, group: Sequence[Queued], report: Report) -> None:
        started: list[UUID] = []
        unopened = {queued.message.id for queued in group}
        try:
            if self._has_time():
                ready = self._ready(group, report, started)
                unopened = set(ready)
                attempts = self._open_all(list(ready.values()), unopened, report)
                self._finisher().finish(attempts, report)
        except Exception as error:  # once attempts are open, the sweep will find them
            report.note(error)
            if len(group) == 1 and is_about_a_row(error):
                started.clear()  # what fails like that each time must come to an end, too
        # Nothing was begun for these, so the queue may bring them again.
        report.failed.extend(
            queued.record.message_id for queued in group if queued.message.id in unopened
        )
        self.finished.extend(started)

    def _end_starts(self, report: Report) -> None:
        try:
            if self._has_time():
                end_starts(self.database, self.finished)
        except Exception as error:  # told or not, no record is any worse for it
            report.note(error)

    def _groups(self, records: Sequence[Record], report: Report) -> Iterator[list[Queued]]:
        """Read ``records``. One that was received before goes alone and last: what killed its
        handler the first time shall not take its neighbours along again."""
        first: list[Queued] = []
        again: list[Queued] = []
        for record in records:
            try:
                message = LeaseMessage.loads(record.body)
                if message.channel != self.channel.name:
                    raise Unreadable("The message is of another channel.")
            except Unreadable:
                report.counts[ChannelMetric.UNREADABLE_MESSAGE] += 1
                report.failed.append(record.message_id)
            else:
                queue = again if record.received > 1 else first
                queue.append(Queued(record=record, message=message))
        if first:
            yield first
        yield from ([queued] for queued in again)

    def _has_time(self) -> bool:
        return time.monotonic() < self.ends_at - CLOSE_SECONDS

    def _finisher(self) -> Finisher:
        return Finisher(
            database=self.database,
            channel=self.channel,
            threads=self.threads,
            ends_at=self.ends_at,
            sleep=self.sleep,
            tally=self.tally,
        )

    def _preparer(self) -> Preparer:
        return Preparer(
            database=self.database,
            provider_of=self.provider_of,
            documents=self.documents,
            unsubscribe_url=self.unsubscribe_url,
        )

    def _ready(
        self, group: Sequence[Queued], report: Report, started: list[UUID]
    ) -> dict[UUID, Ready]:
        """Return each notification of ``group`` that an attempt may be opened for; note in
        ``started`` which of them had its start counted."""
        messages = [queued.message for queued in group]
        again = [queued.message.id for queued in group if queued.may_have_failed]
        looping = begin_starts(self.database, again, started)
        report.counts[ChannelMetric.CRASH_LOOP] += len(looping)
        messages = [message for message in messages if message.id not in looping]
        loaded = load(self.database, [message.id for message in messages])
        due = {
            message.id: loaded[message.id]
            for message in messages
            if message.id in loaded and self._is_due(loaded[message.id], message.lease_number)
        }
        report.counts[ChannelMetric.STALE_DELIVERY] += len(messages) - len(due)
        return self._preparer().prepare(list(due.values()), report)

    def _is_due(self, delivery: Delivery, lease_number: int) -> bool:
        """Whether the lease still stands, of our channel: the row decides, not the message. One
        that does not, as read after it was given, never will."""
        return (
            delivery.status == Status.LEASED
            and delivery.lease_number == lease_number
            and delivery.channel == self.channel.name
        )

    def _open_all(
        self, ready: Sequence[Ready], unopened: set[UUID], report: Report
    ) -> list[Attempt]:
        """Open an attempt for each that may have one, provider by provider; take from ``unopened``
        those of whom an answer came."""
        attempts: list[Attempt] = []
        for name in sorted({one.delivery.provider for one in ready}):
            of_one = [one for one in ready if one.delivery.provider == name]
            try:
                attempts += self._open(of_one, report)
            except Unavailable as error:
                if not attempts and len(of_one) == len(ready):
                    raise
                report.note(error)  # what is open by now has to be finished all the same
            else:
                unopened -= {one.delivery.id for one in of_one}
        return attempts

    def _open(self, ready: Sequence[Ready], report: Report) -> list[Attempt]:
        begun = self._begin(ready, ready[0].provider)
        report.counts.update(
            _METRIC_OF_VERDICT[answer.verdict]
            for answer in begun.values()
            if answer.verdict in _METRIC_OF_VERDICT
        )
        return [
            Attempt(
                delivery=one.delivery,
                provider=one.provider,
                call=one.call,
                attempts_spent=begun[one.delivery.id].attempts_spent,
            )
            for one in ready
            if one.delivery.id in begun and begun[one.delivery.id].send
        ]

    def _begin(self, ready: Sequence[Ready], provider: Provider[Any]) -> dict[UUID, Begun]:
        try:
            return begin(
                self.database,
                [
                    Opening(
                        id=one.delivery.id,
                        lease_number=one.delivery.lease_number,
                        token=one.delivery.token,
                        has_address=one.has_call,
                    )
                    for one in ready
                ],
                declaration=provider.declaration,
                declarations=self.declarations,
                remaining_seconds=self.ends_at - time.monotonic() + LEASE_MARGIN_SECONDS,
                probe=any(one.delivery.may_probe for one in ready),
            )
        except Unavailable as error:
            if error.maybe_done:
                return {}  # perhaps open, and nothing was called: the sweep will find out
            raise
