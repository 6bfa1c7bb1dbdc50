"""Evidence: what a receipt proves about a notification.

The row keeps its strongest evidence as (rank, occurred_at, key). A higher rank wins; within a rank
the earlier one. So the final status is a function of the *set* of receipts, whatever their order.

rank  evidence                                                        status
0     none; open, click, non-final notes, unknown types               unchanged
1     accepted by the sender, delayed, queued, pending                submitted
2     soft or undetermined failure                                    failed (soft)
3     delivered; a complaint, which proves delivery                   delivered
4     hard bounce, invalid, reject, rendering failure                 failed (hard)
4     refused by the provider's own suppression list                  suppressed
"""

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from uuid import UUID

from functions.core.states import Status
from functions.core.suppression import Fact


class Rank(IntEnum):
    NONE = 0
    ACCEPTED = 1
    SOFT_FAILURE = 2
    DELIVERED = 3
    HARD_FAILURE = 4


STATUS_OF_RANK: dict[Rank, Status] = {
    Rank.ACCEPTED: Status.SUBMITTED,
    Rank.SOFT_FAILURE: Status.FAILED,
    Rank.DELIVERED: Status.DELIVERED,
    Rank.HARD_FAILURE: Status.FAILED,
}


_WORST_FIRST = (
    Rank.HARD_FAILURE,
    Rank.SOFT_FAILURE,
    Rank.NONE,
    Rank.ACCEPTED,
    Rank.DELIVERED,
)


def badness(rank: Rank) -> int:
    """Return how bad a part's end is, 0 the worst: one report about several parts or recipients
    proves what its worst part proves, and a delivery only when all of them were delivered."""
    return _WORST_FIRST.index(rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A provider's later report, as parsed; ``raw`` keeps the bytes received.

    Correlation is by the attempt first, then by our key, then by the provider's reference.
    ``recipient_hash`` is None when the report names nobody; one that names somebody else is kept
    and changes nothing.
    """

    provider: str
    event_key: str
    type: str
    rank: Rank
    occurred_at: datetime | None
    idempotency_key: str | None = None
    attempt_id: UUID | None = None
    """The attempt it is about, where the provider tells; our key may name it too."""
    reference: str | None = None
    recipient_hash: bytes | None = None
    reason: str | None = None
    permanent: bool = False
    complaint: bool = False
    address_at_fault: bool = False
    """The address itself is to blame (hard bounce, complaint): suppress it."""
    refused: bool = False
    """The provider's own suppression list kept it from being sent: suppressed, not failed."""
    fact: Fact | None = None
    """What suppresses the address that is at fault; None stands for the report itself."""
    unforeseen: bool = False
    """No table names the report: it is kept as a note, and counted."""
    raw: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReceipt:
    """A receipt as it was kept, to be read again by the rules of today."""

    id: UUID
    provider: str
    event_key: str
    raw: bytes
    received_at: datetime
    channel: str | None
    """Of the notification it is about, None while that is not known."""


def named_by(idempotency_key: str | None) -> tuple[UUID | None, UUID | None]:
    """Return the notification and the attempt that a key of ours names: ``<notification>``,
    ``<notification>.<epoch>`` or ``<notification>.<attempt>``; None for what it does not."""
    notification, _, attempt = (idempotency_key or "").partition(".")
    return _uuid(notification), _uuid(attempt)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
