"""May this notification be sent now? One pure, versioned function; its verdict is stored.

The claim asks it for every row of a page, after the lease and before the queue, from facts read at
that moment: never from copies made when the notification was accepted.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

POLICY_VERSION = 1
"""Raised with every change of meaning, so that a stored verdict can be explained later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    name = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Defer:
    """Not now: due again at ``until``, without spending an attempt."""

    until: datetime
    reason: str
    blocked: bool = False
    """Something else than the policy is in its way: it is eligible all the same, and counts as
    waiting from when it was."""
    name = "defer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppress:
    """Never: ends the notification as suppressed."""

    reason: str
    name = "suppress"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Not before a person says so: it waits under the hold, which is written on it already."""

    hold_id: UUID
    reason: str
    name = "hold"


Verdict = Allow | Defer | Suppress | Hold


class Candidate(Protocol):
    """What the decision reads of a leased notification."""

    @property
    def channel(self) -> str: ...
    @property
    def category(self) -> str: ...
    @property
    def priority(self) -> str: ...


def decide(notification: Candidate, *, now: datetime) -> Verdict:
    """Return the verdict for a notification with a literal address.

    A literal address has no recipient record behind it, so there is no preference, zone or quiet
    hour to weigh: it is allowed. Suppressions and expiry are read once more when the attempt opens.
    """
    del notification, now
    return Allow()
