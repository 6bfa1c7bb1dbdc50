"""Where a notification stands, why, and since when: one sentence."""

from datetime import datetime

from functions.core.abuse import Because
from functions.core.evidence_words import moment
from functions.core.states import Reason, Status

_STANDINGS: dict[str, str] = {
    Status.PENDING: "It waits to be sent, since {since}",
    Status.LEASED: "It is being sent, since {since}",
    Status.UNCERTAIN: "It may or may not have been accepted, since {since}",
    Status.SUBMITTED: "The provider accepted it, and since {since} its delivery is not confirmed",
    Status.DELIVERED: "It was delivered, as is known since {since}",
    Status.FAILED: "It was accepted and could not be delivered, as is known since {since}",
    Status.UNCONFIRMED: "It ended at {since}; it may have been accepted, and nothing confirms it",
    Status.SUPPRESSED: "It was stopped at {since}, because it must not be sent",
    Status.CANCELLED: "It was cancelled at {since}, before anything was sent",
    Status.EXPIRED: "It expired at {since}, before anything was sent",
    Status.DEAD: "It is held for a person, since {since}",
}

BECAUSE: dict[str, str] = {
    Reason.REJECTED: "the provider rejected it for good",
    Reason.BUDGET_SPENT: "every attempt it may have has failed",
    Reason.OUTCOME_UNKNOWN: "an attempt may have been accepted, and another could send it twice",
    Reason.CRASH_LOOP: "senders that worked on it kept failing",
    Reason.WAITED_TOO_LONG: "the provider asked to wait for too long",
    Reason.UNREADABLE: "what is stored cannot be sent by its channel",
    Reason.INVALID: "what was asked for is not valid",
    Reason.NO_RECEIPT_BY_CUTOFF: "the provider did not report by the cutoff what became of it",
    Reason.PROVIDER_GIVES_NO_RECEIPTS: "the provider gives no reports of delivery",
    Reason.EXPIRED: "its time to be sent passed",
    Reason.SUPPRESSED: "the recipient is on the suppression list",
    Reason.REFUSED: "the address was refused as opted out, no longer valid, or not to be called",
    Reason.ERASED: "the recipient was erased",
    "opted_out": "the recipient opted out of it",
    "no_consent": "the recipient never asked for its category, which is bulk",
    "no_contact_point": "the recipient has no contact point for its channel",
    "not_verified": "the recipient has no verified contact point, which a bulk category needs",
    "contact_point_changed": (
        "an attempt may have been accepted at an address that is the recipient's no longer"
    ),
    "no_send_time": "the recipient's quiet hours leave no moment of its category's send window",
    "quiet_hours": "the recipient's quiet hours are not over",
    "outside_send_window": "the send window of its category is not open",
    "unknown_time_zone": "the recipient's time zone is none that is known here",
    "fallback_delivered": "another candidate was delivered first",
    "changed": "what it was decided from was changed, so that it is decided anew",
    "country_blocked": "its country is blocked at the provider",
    "endpoint_paused": "its endpoint is paused",
    "endpoint_busy": "its endpoint has failed, and gets no more calls at once",
    "retries_off": "retries are off for its channel",
    "lease_lost": "somebody else had moved it",
    Because.COUNTRY_NOT_ALLOWED: "its organization may not send SMS to its country",
    Because.MIX_SHIFTED: "its country or its prefix is on hold",
    Because.NUMBER_VELOCITY: "its number had as many messages as one gets in an hour",
    Because.PREFIX_VELOCITY: "its prefix had as many messages as it gets in an hour",
    Because.BUDGET_SPENT: "its organization's money for SMS is spent for the day",
    Because.PRICE_UNKNOWN: "there are no prices to keep its organization's SMS budget by",
    "hold_discarded": "an operator discarded the hold it waited under",
}


def summary(
    status: str,
    *,
    reason: str | None,
    since: datetime,
    discarded_at: datetime | None,
    why: str | None = None,
) -> str:
    """Return where a notification stands, why, and since when; ``why`` is said for its reason,
    where more is known than the reason tells."""
    because = ""
    if reason is not None and status != Status.EXPIRED:
        because = f": {why or BECAUSE.get(reason, reason)}"
    if discarded_at is not None:
        return f"It was discarded at {moment(discarded_at)}, after it was held{because}."
    return f"{_STANDINGS[status].format(since=moment(since))}{because}."
