"""Finish open attempts: call the provider, record the outcomes, and learn from the answers.

No transaction is open across a call; the attempts were committed before it.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from functions.core.breaker import fails_over
from functions.core.declaration import Declaration
from functions.core.errors import Unavailable
from functions.core.metric import ChannelMetric, ServiceMetric
from functions.core.outcome import Outcome, Unknown
from functions.providers.provider import Provider
from functions.sender.learning import Tally, answering_of, learn
from functions.sender.record import Report
from functions.store.channel import ChannelRow
from functions.store.close import Closing, close
from functions.store.connection import Database
from functions.store.delivery import Delivery

CLOSE_SECONDS = 1.0
"""Kept of the invocation for the outcomes: calls end, and close gives up, this long before it."""

CLOSE_PAUSE_SECONDS = 0.2

WAVE_SECONDS = 1.0
"""So long an answer may wait for those of its set, to be recorded together with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt that is open, and the call it is open for."""

    delivery: Delivery
    provider: Provider[Any]
    call: Any
    attempts_spent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a call came to, and when (``time.monotonic``)."""

    attempt: Attempt
    outcome: Outcome
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finisher:
    """What one invocation finishes attempts with; ``ends_at`` is its end by ``time.monotonic``."""

    database: Database
    channel: ChannelRow
    threads: ThreadPoolExecutor
    ends_at: float
    sleep: Callable[[float], None]
    tally: Tally

    def finish(self, attempts: Sequence[Attempt], report: Report) -> None:
        """Make every call at once, and close together what ends together: one that hangs holds
        nobody's answer back."""
        pending = {self.threads.submit(self._submit, attempt) for attempt in attempts}
        while pending:
            done, pending = wait(pending, timeout=WAVE_SECONDS)
            if done:
                self._settle([call.result() for call in done], report)

    def _submit(self, attempt: Attempt) -> Ended:
        limit = time.monotonic() + self.channel.provider_deadline_seconds
        deadline = min(limit, self.ends_at - CLOSE_SECONDS)
        try:
            outcome = attempt.provider.submit(attempt.call, deadline=deadline)
        except Exception as error:  # the call may have begun: nothing less than unknown is true
            outcome = Unknown(code="internal_error", detail=type(error).__name__)
        return Ended(attempt=attempt, outcome=outcome, at=time.monotonic())

    def _settle(self, ended: Sequence[Ended], report: Report) -> None:
        """Record what came of some calls: of their notifications first, of all else then."""
        for one in ended:
            report.counts[_metric_of(one.outcome)] += 1
            if one.outcome.unforeseen:
                report.counts[ChannelMetric.UNFORESEEN_ANSWER] += 1
        for name in sorted({one.attempt.delivery.provider for one in ended}):
            of_one = [one for one in ended if one.attempt.delivery.provider == name]
            declaration = of_one[0].attempt.provider.declaration
            if self._close([self._closing_of(one) for one in of_one], declaration, report):
                self._learn(of_one, report)

    def _closing_of(self, ended: Ended) -> Closing:
        delivery, outcome = ended.attempt.delivery, ended.outcome
        other = (
            self.channel.other_than(delivery.provider)
            if delivery.may_pass_on and fails_over(outcome)
            else None
        )
        return Closing(
            id=delivery.id,
            lease_number=delivery.lease_number,
            token=delivery.token,
            outcome=outcome,
            again_seconds=self.channel.backoff.delay_seconds(
                ended.attempt.attempts_spent, retry_after_seconds=outcome.retry_after_seconds
            ),
            ago_seconds=time.monotonic() - ended.at,
            next_provider=other,
        )

    def _close(self, closings: Sequence[Closing], declaration: Declaration, report: Report) -> bool:
        """Record the outcomes, again and again until just before the end; then the sweep will.
        Return whether they are recorded."""
        while True:
            try:
                closed = close(
                    self.database, closings, channel=self.channel, declaration=declaration
                )
            except Unavailable:
                if time.monotonic() + CLOSE_PAUSE_SECONDS > self.ends_at - CLOSE_SECONDS:
                    report.counts[ChannelMetric.CLOSE_GIVEN_UP] += len(closings)
                    return False
                self.sleep(CLOSE_PAUSE_SECONDS)
            else:
                report.counts[ChannelMetric.FENCED_CLOSE] += sum(
                    answer.status is None for answer in closed.values()
                )
                report.signals[ServiceMetric.EVIDENCE_AFTER_ZERO_SUBMISSIONS] += sum(
                    answer.after_zero_submissions for answer in closed.values()
                )
                return True

    def _learn(self, ended: Sequence[Ended], report: Report) -> None:
        """Tell pace, breakers and endpoints what the answers said. It is advice: lost, it costs a
        few more answers of the kind."""
        try:
            learn(
                self.database,
                [answering_of(one.attempt.delivery, one.outcome) for one in ended],
                channel=self.channel.name,
                tally=self.tally,
                probing=any(one.attempt.delivery.may_probe for one in ended),
                troubled=any(one.attempt.delivery.endpoint_fails for one in ended),
            )
        except Exception as error:
            report.note(error)


def _metric_of(outcome: Outcome) -> ChannelMetric:
    return ChannelMetric(f"Attempt{outcome.name.capitalize()}")
