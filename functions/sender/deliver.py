"""Deliver a set of queue records: prepare, begin, call the provider, close.

A record is reported as failed exactly when its attempt is known not to be open: it cannot be read,
or the database could not be reached before anything was begun. Everything else is acknowledged;
recovery is the lease. Nothing is open across a provider call but the attempt, committed before it.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from functions.core.content import read_content
from functions.core.errors import Unavailable, Unreadable
from functions.core.message import LeaseMessage
from functions.core.outcome import Outcome, Unknown
from functions.providers.provider import PreparedCall, Provider, Submission
from functions.store.begin import Begun, Opening, begin
from functions.store.channel import ChannelRow
from functions.store.close import Closing, close
from functions.store.connection import Database
from functions.store.delivery import Delivery, hold_unreadable, load, record_start

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
    """What came of a set of records; ``counts`` by metric name."""

    failed: list[str] = field(default_factory=list[str])
    counts: Counter[str] = field(default_factory=Counter[str])


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """What one invocation works with; ``ends_at`` is its end by ``time.monotonic``."""

    database: Database
    provider: Provider
    channel: ChannelRow
    threads: ThreadPoolExecutor
    ends_at: float
    sleep: Callable[[float], None] = time.sleep

    def deliver(self, records: Sequence[Record]) -> Report:
        """Deliver ``records``. One that was received before goes alone and last: what killed its
        handler the first time shall not take its neighbours along again."""
        report = Report()
        first: list[tuple[str, LeaseMessage]] = []
        again: list[tuple[str, LeaseMessage]] = []
        for record in records:
            try:
                message = LeaseMessage.loads(record.body)
            except Unreadable:
                report.counts["UnreadableMessage"] += 1
                report.failed.append(record.message_id)
            else:
                (again if record.received > 1 else first).append((record.message_id, message))
        for group in (first, *([one] for one in again)):
            try:
                self._deliver_group([message for _, message in group], report, group is not first)
            except Unavailable as error:
                report.counts["DatabaseUnavailable"] += 1
                if not error.maybe_done:
                    report.failed.extend(message_id for message_id, _ in group)
        return report

    def _deliver_group(
        self, messages: Sequence[LeaseMessage], report: Report, redelivered: bool
    ) -> None:
        if redelivered and record_start(self.database, messages[0].id):
            report.counts["CrashLoop"] += 1
            return
        if not messages:
            return
        deliveries = load(self.database, [message.id for message in messages])
        calls = self._prepare(messages, deliveries, report)
        begun = self._begin(messages, deliveries, calls)
        report.counts["StaleDelivery"] += sum(
            message.id not in deliveries for message in messages
        ) + sum(answer.verdict == "stale" for answer in begun.values())
        sending = {id: calls[id] for id, answer in begun.items() if answer.send}
        outcomes = dict(zip(sending, self.threads.map(self._submit, sending.values()), strict=True))
        closings = [
            Closing(
                id=id,
                lease_number=begun[id].lease_number,
                token=deliveries[id].token,
                outcome=outcome,
                again_seconds=self.channel.backoff.delay_seconds(
                    begun[id].attempts_spent, retry_after_seconds=outcome.retry_after_seconds
                ),
            )
            for id, outcome in outcomes.items()
        ]
        self._close(closings, report)

    def _prepare(
        self,
        messages: Sequence[LeaseMessage],
        deliveries: Mapping[UUID, Delivery],
        report: Report,
    ) -> dict[UUID, PreparedCall]:
        """Return the call of each notification that one can be made of; hold the others."""
        calls: dict[UUID, PreparedCall] = {}
        for id, delivery in deliveries.items():
            try:
                calls[id] = self.provider.prepare(_submission_of(delivery))
            except Exception:  # whatever a row's content does to us, it does to itself alone
                report.counts["UnreadableContent"] += 1
        hold_unreadable(
            self.database,
            [
                (message.id, message.lease_number)
                for message in messages
                if message.id in deliveries and message.id not in calls
            ],
        )
        return calls

    def _begin(
        self,
        messages: Sequence[LeaseMessage],
        deliveries: Mapping[UUID, Delivery],
        calls: Mapping[UUID, PreparedCall],
    ) -> dict[UUID, Begun]:
        openings = [
            Opening(
                id=message.id,
                lease_number=message.lease_number,
                token=deliveries[message.id].token,
            )
            for message in messages
            if message.id in calls
        ]
        if not openings:
            return {}
        return begin(
            self.database,
            openings,
            provider=self.provider.declaration.name,
            remaining_seconds=self.ends_at - time.monotonic() + LEASE_MARGIN_SECONDS,
        )

    def _submit(self, call: PreparedCall) -> Outcome:
        limit = time.monotonic() + self.channel.provider_deadline_seconds
        try:
            return self.provider.submit(call, deadline=min(limit, self.ends_at - CLOSE_SECONDS))
        except Exception as error:  # the call may have begun: nothing less than unknown is true
            return Unknown(code="internal_error", detail=type(error).__name__)

    def _close(self, closings: Sequence[Closing], report: Report) -> None:
        """Record the outcomes, again and again until just before the end; then the sweep will."""
        if not closings:
            return
        for closing in closings:
            report.counts[f"Attempt{closing.outcome.name.capitalize()}"] += 1
        while True:
            try:
                closed = close(
                    self.database,
                    closings,
                    channel=self.channel,
                    keyed=self.provider.declaration.keyed,
                )
            except Unavailable:
                if time.monotonic() + CLOSE_PAUSE_SECONDS > self.ends_at - CLOSE_SECONDS:
                    report.counts["CloseGivenUp"] += len(closings)
                    return
                self.sleep(CLOSE_PAUSE_SECONDS)
            else:
                report.counts["FencedClose"] += sum(
                    answer.status is None for answer in closed.values()
                )
                return


def _submission_of(delivery: Delivery) -> Submission:
    if not delivery.recipient:
        raise Unreadable("The notification has no recipient.")
    return Submission(
        notification_id=delivery.id,
        attempt_id=delivery.token,
        idempotency_key=delivery.idempotency_key,
        channel=delivery.channel,
        recipient=delivery.recipient,
        content=read_content(delivery.channel, delivery.content),
        created_at=delivery.created_at,
    )
