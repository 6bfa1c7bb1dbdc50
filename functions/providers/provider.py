"""What every provider is to the rest: a declaration, a prepared call, and an outcome.

Rendering, signing and checking happen in ``prepare``, before the attempt is committed; ``submit``
only writes the request that was prepared and tells what came of it, as a value. It never raises.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from functions.core.content import Content
from functions.core.declaration import Declaration
from functions.core.evidence import Receipt
from functions.core.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A notification as a provider sees it."""

    notification_id: UUID
    attempt_id: UUID
    idempotency_key: str
    channel: str
    recipient: str
    content: Content
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """A request, ready to be written: bytes as they will be sent."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverAccepted:
    """The provider's word that nothing was accepted under a key."""


class Provider(Protocol):
    @property
    def declaration(self) -> Declaration: ...

    def prepare(self, submission: Submission) -> PreparedCall:
        """Return the request for ``submission``; raise an error if there can be none."""
        ...

    def submit(self, call: PreparedCall, *, deadline: float) -> Outcome:
        """Write the request once and return its outcome by ``deadline`` (``time.monotonic``)."""
        ...


class LooksUp(Protocol):
    """A provider whose declaration says that it can be asked."""

    def look_up(
        self, *, channel: str, idempotency_key: str, deadline: float
    ) -> Receipt | NeverAccepted | None:
        """Ask once what became of ``idempotency_key``; None when there is no usable answer."""
        ...
