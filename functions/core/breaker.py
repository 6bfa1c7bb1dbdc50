"""When a breaker opens, how far apart its probes are, and what an answer says about it.

Blocked is not failed: an answer about our account, a sender identity or a country opens the breaker
on just that, and what it concerns waits without spending an attempt. One notification at a time
finds out whether it still has to; the first that gets through closes the breaker.
"""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from functions.core.outcome import (
    Accepted,
    Blocked,
    Outcome,
    Refused,
    Rejected,
    Scope,
    Throttled,
    Transient,
    Unknown,
)

PROBE_SECONDS = 10.0
"""From the opening to the first probe; it doubles with each probe in vain."""

MAX_PROBE_SECONDS = 600.0

WINDOW_SECONDS = 60.0
LEAST_FAILURES = 20
FAILURE_RATIO = 0.5
"""Of the first attempts within a window: so many failures, and such a share of them, open the
breaker of the provider. Retries are of what failed before, and would say nothing of the rest."""

FAILURE_CODE = "failure_ratio"

ENDPOINT_FAILURES = 10
ENDPOINT_FAILING_SECONDS = 600.0
"""An endpoint is paused after so many failures in a row, over at least so long."""

ENDPOINT_PROBE_SECONDS = 60.0
MAX_ENDPOINT_PROBE_SECONDS = 3600.0

BREAKER_SCOPES = frozenset({Scope.PROVIDER, Scope.SENDER_IDENTITY, Scope.COUNTRY})

_ABOUT_CONTENT = frozenset({400, 409, 413, 415, 422})
"""Refusals of what was sent, which say nothing about who refused it."""


class Word(StrEnum):
    """What an answer says about a breaker or an endpoint."""

    WORKS = "works"
    FAILS = "fails"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """An attempt's outcome, and what it may be about."""

    id: UUID
    organization_id: UUID
    provider: str
    stream: str
    country: str | None
    origin: str | None
    is_first: bool
    """The first attempt of its notification."""
    outcome: Outcome

    def key_of(self, scope: Scope) -> str | None:
        """Return which of a scope the attempt was about."""
        match scope:
            case Scope.PROVIDER:
                return self.provider
            case Scope.SENDER_IDENTITY:
                return self.stream
            case Scope.COUNTRY:
                return self.country
            case Scope.ENDPOINT:
                return self.origin
            case Scope.DESTINATION:
                return None


def blocked_scope(outcome: Outcome) -> Scope | None:
    """Return the scope whose breaker ``outcome`` opens, None for every other one."""
    if isinstance(outcome, Blocked) and outcome.scope in BREAKER_SCOPES:
        return outcome.scope
    return None


def is_through(outcome: Outcome) -> bool:
    """Whether the provider dealt with the notification itself, and so with whatever was blocked. A
    refusal without a status is our own: nobody was called."""
    match outcome:
        case Accepted():
            return True
        case Rejected(http_status=status) | Refused(http_status=status):
            return status is not None
        case _:
            return False


def is_failure(outcome: Outcome) -> bool:
    """Whether the provider failed, rather than the notification."""
    match outcome:
        case Transient(begun=begun):
            return begun
        case Unknown():
            return True
        case _:
            return False


def word_about_endpoint(outcome: Outcome) -> Word:
    """Return what a webhook's answer says about its receiver."""
    match outcome:
        case Accepted():
            return Word.WORKS
        case Rejected(http_status=status):
            return Word.NOTHING if status is None or status in _ABOUT_CONTENT else Word.FAILS
        case Transient(begun=begun):
            return Word.FAILS if begun else Word.NOTHING
        case Unknown() | Refused() | Blocked():
            return Word.FAILS
        case Throttled():
            return Word.NOTHING


def fails_over(outcome: Outcome) -> bool:
    """Whether another provider may be asked: this one provably did not take the message, for a
    reason that is the provider's own."""
    match outcome:
        case Transient(begun=begun):
            return begun
        case Throttled(scope=scope) | Blocked(scope=scope):
            return scope in BREAKER_SCOPES
        case _:
            return False
