"""Every metric there is, by the dimensions it carries. A name is never made from data.

Each one is alarmed or shown by the monitoring stack; names that end in Seconds have that unit,
every other is a count.
"""

from enum import StrEnum


class ServiceMetric(StrEnum):
    """Without dimensions: about the service as a whole."""

    CLAIM_HEARTBEAT = "ClaimHeartbeat"
    SWEEPER_HEARTBEAT = "SweeperHeartbeat"
    RECONCILE_HEARTBEAT = "ReconcileHeartbeat"
    EXPIRED_COUNT = "ExpiredCount"
    RECEIPT_STORED = "ReceiptStored"
    RECEIPT_APPLIED = "ReceiptApplied"
    RECEIPT_ORPHANED = "ReceiptOrphaned"
    RECEIPTS_REMATCHED = "ReceiptsRematched"
    CALLBACK_REFUSED = "CallbackRefused"
    EVENT_UNFORESEEN = "EventUnforeseen"
    EVENT_UNREADABLE = "EventUnreadable"
    EVENT_AGAIN = "EventAgain"
    INBOUND_CHOICE = "InboundChoice"
    EVIDENCE_AFTER_ZERO_SUBMISSIONS = "EvidenceAfterZeroSubmissions"
    UNCONFIRMED = "Unconfirmed"
    UNCERTAIN_RETRIED = "UncertainRetried"
    UNCERTAIN_HELD = "UncertainHeld"
    LOOKED_UP = "LookedUp"
    LOOK_UP_ANSWERED = "LookUpAnswered"
    STOPPED_ENDPOINT_COUNT = "StoppedEndpointCount"
    FALLBACK_STARTED = "FallbackStarted"
    FALLBACK_DOUBLE = "FallbackDouble"
    REQUEST_STORED = "RequestStored"
    REQUEST_REPEATED = "RequestRepeated"
    REQUEST_INVALID = "RequestInvalid"
    OLDEST_REQUEST_AGE_SECONDS = "OldestRequestAgeSeconds"


class ChannelMetric(StrEnum):
    """With the dimension ``channel``."""

    CLAIMED_COUNT = "ClaimedCount"
    LEASED_COUNT = "LeasedCount"
    WAITING_COUNT = "WaitingCount"
    SUBMITTED_COUNT = "SubmittedCount"
    UNCERTAIN_COUNT = "UncertainCount"
    DEAD_COUNT = "DeadCount"
    OPEN_BREAKER_COUNT = "OpenBreakerCount"
    LEASE_RELEASED = "LeaseReleased"
    LEASE_IN_DOUBT = "LeaseInDoubt"
    LEASE_DEAD = "LeaseDead"
    LEASE_SETTLED = "LeaseSettled"
    ATTEMPT_ACCEPTED = "AttemptAccepted"
    ATTEMPT_REJECTED = "AttemptRejected"
    ATTEMPT_REFUSED = "AttemptRefused"
    ATTEMPT_TRANSIENT = "AttemptTransient"
    ATTEMPT_THROTTLED = "AttemptThrottled"
    ATTEMPT_BLOCKED = "AttemptBlocked"
    ATTEMPT_UNKNOWN = "AttemptUnknown"
    UNFORESEEN_ANSWER = "UnforeseenAnswer"
    STALE_DELIVERY = "StaleDelivery"
    BLOCKED_DELIVERY = "BlockedDelivery"
    FENCED_CLOSE = "FencedClose"
    CLOSE_GIVEN_UP = "CloseGivenUp"
    CRASH_LOOP = "CrashLoop"
    UNREADABLE_MESSAGE = "UnreadableMessage"
    UNREADABLE_CONTENT = "UnreadableContent"
    DATABASE_UNAVAILABLE = "DatabaseUnavailable"


class PriorityMetric(StrEnum):
    """With the dimensions ``channel`` and ``priority``."""

    READY_COUNT = "ReadyCount"
    OLDEST_ELIGIBLE_AGE_SECONDS = "OldestEligibleAgeSeconds"


Metric = ServiceMetric | ChannelMetric | PriorityMetric
