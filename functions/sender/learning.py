"""What answers say beyond their own notification: to the pace, the breakers and the endpoints."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from functions.core.breaker import (
    WINDOW_SECONDS,
    Answering,
    Word,
    blocked_scope,
    is_failure,
    is_through,
    word_about_endpoint,
)
from functions.core.outcome import Outcome, Scope, Throttled
from functions.store.breaker import record_answers
from functions.store.bucket import slow
from functions.store.connection import Database
from functions.store.delivery import Delivery
from functions.store.endpoint import record_endpoints


@dataclass(slots=True)
class Tally:
    """First attempts at a provider, since ``since``, that the breakers have not been told of."""

    provider: str = ""
    calls: int = 0
    since: float = 0.0

    def count(self, provider: str, calls: int, *, told: bool) -> int:
        """Add ``calls`` and return what there is of this window; begin anew once ``told``."""
        now = time.monotonic()
        if self.provider != provider or now - self.since > WINDOW_SECONDS:
            self.provider, self.calls, self.since = provider, 0, now
        self.calls += calls
        counted = self.calls
        if told:
            self.calls = 0
        return counted


def answering_of(delivery: Delivery, outcome: Outcome) -> Answering:
    """Return what the answer to an attempt may be about."""
    return Answering(
        id=delivery.id,
        organization_id=delivery.organization_id,
        provider=delivery.provider,
        stream=delivery.stream,
        country=delivery.country,
        origin=delivery.origin,
        is_first=delivery.is_first,
        outcome=outcome,
    )


def learn(
    database: Database,
    answers: Sequence[Answering],
    *,
    channel: str,
    tally: Tally,
    probing: bool,
    troubled: bool,
) -> None:
    """Write down what is to be known to everybody; nothing while all goes well.

    ``probing``: one of them may have been a probe. ``troubled``: the endpoint of one of them was
    known to fail. All ``answers`` are of one provider.
    """
    if any(
        isinstance(answer.outcome, Throttled) and answer.outcome.scope is Scope.PROVIDER
        for answer in answers
    ):
        slow(database, channel=channel)
    # An endpoint that fails is not its provider that fails.
    first = [answer for answer in answers if answer.is_first and answer.origin is None]
    failures = sum(is_failure(answer.outcome) for answer in first)
    calls = tally.count(answers[0].provider, len(first), told=failures > 0)
    blocked = any(blocked_scope(answer.outcome) for answer in answers)
    found_out = probing and any(
        is_through(answer.outcome) or is_failure(answer.outcome) for answer in answers
    )
    if failures or blocked or found_out:
        record_answers(database, answers, channel=channel, calls=calls, failures=failures)
    words = {word_about_endpoint(answer.outcome) for answer in answers if answer.origin}
    if Word.FAILS in words or (troubled and Word.WORKS in words):
        record_endpoints(database, answers)
