"""What every provider is to the rest: a declaration, a prepared call, and an outcome.

Rendering, signing and checking happen in ``prepare``, before the attempt is committed; ``submit``
only writes the request that was prepared and tells what came of it, as a value. It never raises.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar
from uuid import UUID

from functions.core.content import Content
from functions.core.declaration import Declaration
from functions.core.evidence import Receipt
from functions.core.outcome import Outcome
from functions.core.states import Stream
from functions.core.stream import SenderIdentity

C = TypeVar("C")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A notification as a provider sees it."""

    notification_id: UUID
    attempt_id: UUID
    organization_id: UUID
    idempotency_key: str
    channel: str
    recipient: str
    content: Content
    created_at: datetime
    expires_at: datetime | None = None
    category: str = "transactional"
    stream: str = Stream.TRANSACTIONAL
    sender: SenderIdentity = field(default_factory=SenderIdentity)
    unsubscribe_url: str | None = None
    """Where a one-click unsubscription goes; None where the category has none."""
    remaining_seconds: float | None = None
    """Until ``expires_at`` by the database's clock; None when it never expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """An HTTP request, ready to be written: bytes as they will be sent."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverAccepted:
    """The provider's word that nothing was accepted under a key."""


class Provider(Protocol[C]):
    """``C`` is what ``prepare`` makes for ``submit``: an HTTP request, or an AWS operation."""

    @property
    def declaration(self) -> Declaration: ...

    def prepare(self, submission: Submission) -> C:
        """Return the request for ``submission``; raise an error if there can be none."""
        ...

    def submit(self, call: C, *, deadline: float) -> Outcome:
        """Write the request once and return its outcome by ``deadline`` (``time.monotonic``)."""
        ...


class LooksUp(Protocol):
    """A provider whose declaration says that it can be asked."""

    def look_up(
        self, *, channel: str, idempotency_key: str, deadline: float
    ) -> Receipt | NeverAccepted | None:
        """Ask once what became of ``idempotency_key``; None when there is no usable answer."""
        ...
