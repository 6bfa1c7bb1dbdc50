"""Outcomes of an attempt: what a provider's answer means, as values.

Accepted   the provider took it; ``final`` where acceptance is delivery
Rejected   permanent: the same request can never pass
Refused    permanent for this address: opted out or dead token; suppresses ``suppress`` scope
Transient  provably not accepted; due again after backoff
Throttled  asked to slow down; due again, no attempt spent
Blocked    our account, credentials or configuration; due again, no attempt spent
Unknown    the request may have been accepted: no usable answer came back
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from functions.core.evidence import Rank
from functions.core.suppression import SuppressionReason


class OutcomeName(StrEnum):
    """As stored in ``attempts.outcome``."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    REFUSED = "refused"
    TRANSIENT = "transient"
    THROTTLED = "throttled"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"


class Scope(StrEnum):
    """How far an answer reaches: beyond the one notification, a breaker opens on just so much.

    Only PROVIDER slows or stops the channel. The notification's own columns tell which identity
    (its stream's), country or endpoint it is.
    """

    DESTINATION = "destination"
    ENDPOINT = "endpoint"
    SENDER_IDENTITY = "sender_identity"
    COUNTRY = "country"
    PROVIDER = "provider"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What every outcome keeps of the provider's answer, for the ledger."""

    name: ClassVar[OutcomeName]
    code: str | None = None
    detail: str | None = None
    http_status: int | None = None
    retry_after_seconds: float | None = None
    unforeseen: bool = False
    """No table names the answer: it is taken conservatively, and counted."""

    @property
    def reach(self) -> "Scope | None":
        """How far it reaches, where it is about more than the notification."""
        return None

    @property
    def rank(self) -> Rank:
        """What the outcome proves: acceptance is evidence, every other outcome is none."""
        return Rank.NONE

    @property
    def spends(self) -> bool:
        """Whether the attempt counts against ``max_attempts``."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted(Answer):
    name = OutcomeName.ACCEPTED
    reference: str | None
    final: bool = False

    @property
    def rank(self) -> Rank:
        return Rank.DELIVERED if self.final else Rank.ACCEPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected(Answer):
    name = OutcomeName.REJECTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Answer):
    name = OutcomeName.REFUSED
    suppress: Scope = Scope.DESTINATION
    """ENDPOINT: the endpoint as well as the address."""
    reason: SuppressionReason = SuppressionReason.INVALID
    source: str = "provider"

    @property
    def reach(self) -> Scope:
        return self.suppress


@dataclass(frozen=True, slots=True, kw_only=True)
class Transient(Answer):
    name = OutcomeName.TRANSIENT
    begun: bool = True
    """False when nothing was tried: the attempt is given back."""

    @property
    def spends(self) -> bool:
        return self.begun


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttled(Answer):
    name = OutcomeName.THROTTLED
    scope: Scope = Scope.PROVIDER

    @property
    def reach(self) -> Scope:
        return self.scope

    @property
    def spends(self) -> bool:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked(Answer):
    name = OutcomeName.BLOCKED
    scope: Scope = Scope.PROVIDER

    @property
    def reach(self) -> Scope:
        return self.scope

    @property
    def spends(self) -> bool:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(Answer):
    name = OutcomeName.UNKNOWN


Outcome = Accepted | Rejected | Refused | Transient | Throttled | Blocked | Unknown
