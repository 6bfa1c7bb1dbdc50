"""Deliver a set of queue records: prepare, begin, call the provider, close.

A record is reported as failed exactly when its attempt is known not to be open: it cannot be read,
the database could not be reached before anything was begun, or no time was left. Everything else is
acknowledged; recovery is the lease. Nothing is open across a provider call but the attempt,
committed before it.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from functions.core.content import read_content
from functions.core.declaration import Declaration
from functions.core.errors import Unavailable, Unreadable
from functions.core.message import LeaseMessage
from functions.core.metric import ChannelMetric, ServiceMetric
from functions.core.outcome import Outcome, Unknown
from functions.core.states import Status
from functions.providers.provider import PreparedCall, Provider, Submission
from functions.sender.starts import begin_starts, end_starts
from functions.store.begin import Begun, Opening, begin
from functions.store.channel import ChannelRow
from functions.store.close import Closing, close
from functions.store.connection import Database, is_about_a_row
from functions.store.delivery import Delivery, hold_unreadable, load

LEASE_MARGIN_SECONDS = 5.0
"""How far the lease outlives the invocation, so that no sweep meets a call that still runs."""

CLOSE_SECONDS = 1.0
"""Kept of the invocation for the outcomes: calls end, and close gives up, this long before it."""

CLOSE_PAUSE_SECONDS = 0.2
CONCURRENT_CALLS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A queue record: its own id, what it says, and how often it was received."""

    message_id: str
    body: str
    received: int


@dataclass(slots=True, kw_only=True)
class Report:
    """What came of a set of records: ``counts`` of the channel, ``signals`` of the service."""

    failed: list[str] = field(default_factory=list[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    signals: Counter[str] = field(default_factory=Counter[str])
    errors: list[Exception] = field(default_factory=list[Exception])

    def note(self, error: Exception) -> None:
        if isinstance(error, Unavailable):
            self.counts[ChannelMetric.DATABASE_UNAVAILABLE] += 1
        else:
            self.errors.append(error)


def read_records(event: Mapping[str, Any]) -> list[Record]:
    """Return the records of an SQS event; an event of another kind is an error, not a success."""
    if "Records" not in event:
        raise Unreadable("The event is not one of a queue.")
    return [
        Record(
            message_id=record["messageId"],
            body=record["body"],
            received=int(record["attributes"]["ApproximateReceiveCount"]),
        )
        for record in event["Records"]
    ]


def deliver(records: Sequence[Record], *, sender: Callable[[], "Sender"]) -> Report:
    """Deliver ``records``; when what a ``sender`` needs cannot be reached, nothing was begun."""
    try:
        ready = sender()
    except Unavailable as error:
        report = Report(failed=[record.message_id for record in records])
        report.note(error)
        return report
    return ready.deliver(records)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Queued:
    """A record that could be read."""

    record: Record
    message: LeaseMessage

    @property
    def may_have_failed(self) -> bool:
        """Whether an earlier handler began on it and was not heard of again: its start is counted.

        The first of the first lease is not, which is nearly all of them, and costs them nothing.
        """
        return self.record.received > 1 or self.message.lease_number > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """An attempt that is open, and the call it is open for."""

    delivery: Delivery
    call: PreparedCall
    attempts_spent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """What one invocation works with; ``ends_at`` is its end by ``time.monotonic``."""

    database: Database
    provider: Provider
    channel: ChannelRow
    declarations: Sequence[Declaration]
    """Of every provider there is: an earlier attempt may have been another's."""
    threads: ThreadPoolExecutor
    ends_at: float
    sleep: Callable[[float], None] = time.sleep
    finished: list[UUID] = field(default_factory=list[UUID])
    """Starts that ended, until the database is told so: an outage is no crash loop. An environment
    keeps them from one invocation to the next."""

    def deliver(self, records: Sequence[Record]) -> Report:
        """Deliver ``records``; whatever happens to one group of them, the others go on."""
        report = Report()
        self._end_starts(report)
        for group in self._groups(records, report):
            self._deliver(group, report)
            self._end_starts(report)  # at once: a later record may be the end of the process
        return report

    def _deliver(self, group: Sequence[_Queued], report: Report) -> None:
        started: list[UUID] = []
        attempts: list[_Attempt] | None = None
        try:
            if self._has_time():
                attempts = self._open(group, report, started)
                self._finish(attempts, report)
        except Exception as error:  # once attempts are open, the sweep will find them
            report.note(error)
            if len(group) == 1 and is_about_a_row(error):
                started.clear()  # what fails like that each time must come to an end, too
        if attempts is None:  # nothing was begun, so the queue may bring it again
            report.failed.extend(queued.record.message_id for queued in group)
        self.finished.extend(started)

    def _end_starts(self, report: Report) -> None:
        try:
            if self._has_time():
                end_starts(self.database, self.finished)
        except Exception as error:  # told or not, no record is any worse for it
            report.note(error)

    def _groups(self, records: Sequence[Record], report: Report) -> Iterator[list[_Queued]]:
        """Read ``records``. One that was received before goes alone and last: what killed its
        handler the first time shall not take its neighbours along again."""
        first: list[_Queued] = []
        again: list[_Queued] = []
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
                queue.append(_Queued(record=record, message=message))
        if first:
            yield first
        yield from ([queued] for queued in again)

    def _has_time(self) -> bool:
        return time.monotonic() < self.ends_at - CLOSE_SECONDS

    def _open(
        self, group: Sequence[_Queued], report: Report, started: list[UUID]
    ) -> list[_Attempt]:
        """Open an attempt for each notification of ``group`` that may have one; note in ``started``
        which of them had its start counted."""
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
        calls = self._prepare(due, report)
        begun = self._begin([due[id] for id in calls])
        report.counts[ChannelMetric.STALE_DELIVERY] += sum(
            answer.verdict == "stale" for answer in begun.values()
        )
        return [
            _Attempt(delivery=due[id], call=calls[id], attempts_spent=answer.attempts_spent)
            for id, answer in begun.items()
            if answer.send
        ]

    def _is_due(self, delivery: Delivery, lease_number: int) -> bool:
        """Whether the lease still stands, of our channel: the row decides, not the message. One
        that does not, as read after it was given, never will."""
        return (
            delivery.status == Status.LEASED
            and delivery.lease_number == lease_number
            and delivery.channel == self.channel.name
        )

    def _prepare(self, due: Mapping[UUID, Delivery], report: Report) -> dict[UUID, PreparedCall]:
        """Return the call of each notification that one can be made of; hold the others."""
        calls: dict[UUID, PreparedCall] = {}
        for id, delivery in due.items():
            try:
                calls[id] = self.provider.prepare(_submission_of(delivery))
            except Exception:  # whatever a row's content does to us, it does to itself alone
                report.counts[ChannelMetric.UNREADABLE_CONTENT] += 1
        hold_unreadable(
            self.database,
            [(id, delivery.lease_number) for id, delivery in due.items() if id not in calls],
        )
        return calls

    def _begin(self, deliveries: Sequence[Delivery]) -> dict[UUID, Begun]:
        if not deliveries:
            return {}
        try:
            return begin(
                self.database,
                [
                    Opening(
                        id=delivery.id, lease_number=delivery.lease_number, token=delivery.token
                    )
                    for delivery in deliveries
                ],
                declaration=self.provider.declaration,
                declarations=self.declarations,
                remaining_seconds=self.ends_at - time.monotonic() + LEASE_MARGIN_SECONDS,
            )
        except Unavailable as error:
            if error.maybe_done:
                return {}  # perhaps open, and nothing was called: the sweep will find out
            raise

    def _finish(self, attempts: Sequence[_Attempt], report: Report) -> None:
        """Call the provider for every attempt at once, and close them together."""
        ended = list(self.threads.map(self._submit, [attempt.call for attempt in attempts]))
        report.counts.update(_metric_of(outcome) for outcome, _ in ended)
        now = time.monotonic()
        self._close(
            [
                Closing(
                    id=attempt.delivery.id,
                    lease_number=attempt.delivery.lease_number,
                    token=attempt.delivery.token,
                    outcome=outcome,
                    again_seconds=self.channel.backoff.delay_seconds(
                        attempt.attempts_spent, retry_after_seconds=outcome.retry_after_seconds
                    ),
                    ago_seconds=now - ended_at,
                )
                for attempt, (outcome, ended_at) in zip(attempts, ended, strict=True)
            ],
            report,
        )

    def _submit(self, call: PreparedCall) -> tuple[Outcome, float]:
        limit = time.monotonic() + self.channel.provider_deadline_seconds
        try:
            outcome = self.provider.submit(call, deadline=min(limit, self.ends_at - CLOSE_SECONDS))
        except Exception as error:  # the call may have begun: nothing less than unknown is true
            outcome = Unknown(code="internal_error", detail=type(error).__name__)
        return outcome, time.monotonic()

    def _close(self, closings: Sequence[Closing], report: Report) -> None:
        """Record the outcomes, again and again until just before the end; then the sweep will."""
        if not closings:
            return
        declaration = self.provider.declaration
        while True:
            try:
                closed = close(
                    self.database, closings, channel=self.channel, declaration=declaration
                )
            except Unavailable:
                if time.monotonic() + CLOSE_PAUSE_SECONDS > self.ends_at - CLOSE_SECONDS:
                    report.counts[ChannelMetric.CLOSE_GIVEN_UP] += len(closings)
                    return
                self.sleep(CLOSE_PAUSE_SECONDS)
            else:
                report.counts[ChannelMetric.FENCED_CLOSE] += sum(
                    answer.status is None for answer in closed.values()
                )
                report.signals[ServiceMetric.EVIDENCE_AFTER_ZERO_SUBMISSIONS] += sum(
                    answer.after_zero_submissions for answer in closed.values()
                )
                return


def _metric_of(outcome: Outcome) -> ChannelMetric:
    return ChannelMetric(f"Attempt{outcome.name.capitalize()}")


def _submission_of(delivery: Delivery) -> Submission:
    if not delivery.recipient:
        raise Unreadable("The notification has no recipient.")
    return Submission(
        notification_id=delivery.id,
        attempt_id=delivery.token,
        idempotency_key=delivery.idempotency_key,
        channel=delivery.channel,
        recipient=delivery.recipient,
        content=read_content(delivery.channel, json.loads(delivery.content)),
        created_at=delivery.created_at,
    )
