"""The eleven statuses of a notification, and who moves it out of each.

pending      eligible from ``available_at``; left by claim, cancel, expiry, suppression, evidence
leased       one lease may open one attempt; left by sender, sweeper, cancel, evidence
uncertain    an attempt was opened and its outcome is unknown; left by evidence, reconcile, operator
submitted    the provider accepted, delivery not confirmed; left by evidence, cutoff
delivered    confirmed by receipt, or accepted where acceptance is delivery; left by a hard failure
failed       accepted, then reported failed; a soft failure is left by delivered or a hard failure
unconfirmed  may have been accepted, and we stopped; never sent again; left by evidence
suppressed   forbidden by policy or suppression, or refused by the provider's own list; not left
cancelled    withdrawn in time; not left
expired      ``expires_at`` passed with nothing submitted; left by evidence
dead         held for a human; left by requeue, discard, evidence
"""

from enum import StrEnum


class Status(StrEnum):
    PENDING = "pending"
    LEASED = "leased"
    UNCERTAIN = "uncertain"
    SUBMITTED = "submitted"
    DELIVERED = "delivered"
    FAILED = "failed"
    UNCONFIRMED = "unconfirmed"
    SUPPRESSED = "suppressed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    DEAD = "dead"


class Channel(StrEnum):
    EMAIL = "email"
    SMS = "sms"
    PUSH = "push"
    WEBHOOK = "webhook"


class Stream(StrEnum):
    """What a sender identity is chosen by. Bulk is every category that the organization does not
    list as transactional."""

    TRANSACTIONAL = "transactional"
    BULK = "bulk"


class Priority(StrEnum):
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


HELD: frozenset[Status] = frozenset({Status.DEAD})
"""Waiting for a person. A discarded ``dead`` counts as final."""

FINAL: frozenset[Status] = frozenset(
    {
        Status.DELIVERED,
        Status.FAILED,
        Status.UNCONFIRMED,
        Status.SUPPRESSED,
        Status.CANCELLED,
        Status.EXPIRED,
    }
)
"""Ended, apart from evidence that may still correct it. A batch completes on FINAL or HELD."""


class Reason(StrEnum):
    """Why a row is where it is, when we decided it; a provider's own code stands beside these."""

    REJECTED = "rejected"
    BUDGET_SPENT = "budget_spent"
    OUTCOME_UNKNOWN = "outcome_unknown"
    CRASH_LOOP = "crash_loop"
    WAITED_TOO_LONG = "waited_too_long"
    UNREADABLE = "unreadable"
    INVALID = "invalid"
    NO_RECEIPT_BY_CUTOFF = "no_receipt_by_cutoff"
    PROVIDER_GIVES_NO_RECEIPTS = "provider_gives_no_receipts"
    EXPIRED = "expired"
    SUPPRESSED = "suppressed"
    REFUSED = "refused"
    ERASED = "erased"


class Finding(StrEnum):
    """What an operator found out about an attempt of unknown outcome."""

    ACCEPTED = "accepted"
    DELIVERED = "delivered"
    NOT_ACCEPTED = "not_accepted"
    HOLD = "hold"
    """Nothing can be found out: a person decides later."""


CATEGORY = r"^[a-z0-9_-]{1,64}$"
"""The name of a category, wherever one is given (API.md)."""

MAX_STARTS = 5
"""Handler starts on a notification that never finished, before it is held as a crash loop."""
