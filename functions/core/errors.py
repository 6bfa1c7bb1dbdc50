"""Exceptions: a caller's mistake, or broken surroundings. Expected answers are values (outcome.py).

SendoffError                    code
├── RequestRefused              a caller's mistake; nothing was stored
│   ├── ValidationFailed        validation_failed, with every fault
│   ├── EventIdConflict         event_id_conflict, with every fault
│   ├── IdempotencyKeyReused    idempotency_key_reused
│   ├── NotFound                not_found
│   └── TooLate                 too_late, with the status that is in the way
├── Unavailable                 unavailable: the database cannot be reached or is locked; try again
├── Unreadable                  unreadable: a message, a row or a report without the shape it needs
└── Misconfigured               misconfigured: names of settings that are missing or malformed
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a request: where (RFC 6901 pointer), which kind, and in words."""

    pointer: str
    code: str
    detail: str


class SendoffError(Exception):
    """Something went wrong in Sendoff."""

    code: ClassVar[str] = "error"

    def __init__(self, detail: str | None = None) -> None:
        self.detail = detail or (self.__doc__ or "").strip()
        super().__init__(self.detail)


class RequestRefused(SendoffError):
    """The request was refused; nothing was stored."""


class ValidationFailed(RequestRefused):
    """The request does not have the shape it needs."""

    code = "validation_failed"

    def __init__(self, faults: Sequence[Fault], detail: str | None = None) -> None:
        super().__init__(detail)
        self.faults = tuple(faults)


class EventIdConflict(ValidationFailed):
    """An event id was used before for the same channel and recipient with other content."""

    code = "event_id_conflict"


class IdempotencyKeyReused(RequestRefused):
    """The idempotency key was used before with another request."""

    code = "idempotency_key_reused"


class NotFound(RequestRefused):
    """There is no such thing here."""

    code = "not_found"


class TooLate(RequestRefused):
    """The notification may already have been sent; it cannot be cancelled."""

    code = "too_late"

    def __init__(self, status: str) -> None:
        super().__init__(_UNSENT.get(status))
        self.status = status


_UNSENT = {
    "suppressed": "The notification has ended already; it cannot be cancelled.",
    "expired": "The notification has ended already; it cannot be cancelled.",
    "dead": "The notification was set aside for an operator; it cannot be cancelled.",
}
"""Where it is too late for another reason than that it may have been sent."""


class Unavailable(SendoffError):
    """The database cannot be reached, or a lock was not granted in time. Try again."""

    code = "unavailable"

    def __init__(self, detail: str | None = None, *, maybe_done: bool = False) -> None:
        super().__init__(detail)
        self.maybe_done = maybe_done
        """The connection was lost after the work had been sent: it may have been committed."""


class Unreadable(SendoffError):
    """What was found does not have the shape it needs."""

    code = "unreadable"


class Misconfigured(SendoffError):
    """Settings are missing or malformed."""

    code = "misconfigured"
