"""What each event of SES means for a recipient that it names: its tables, as data (PROVIDERS §2.1).

A combination that no table names is recorded, marked and taken conservatively.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from functions.core.evidence import Rank
from functions.core.suppression import SuppressionReason

EVENT = "ses:event"
GLOBAL_LIST = "ses:global_list"
ACCOUNT_LIST = "ses:account_list"
TENANT_LIST = "ses:tenant_list"
CONTACT_LIST = "ses:contact_list"
VALIDATION = "ses:validation"
"""Say who suppresses an address: an event about it, or one of SES's own lists and checks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What an event proves of a recipient.

    reason      in our own words, for they are what is counted
    refused     SES's own list kept it from being sent
    suppress    why the address is suppressed, by ``source``; None: it is not
    unforeseen  no table names the event
    """

    rank: Rank
    reason: str | None = None
    refused: bool = False
    complaint: bool = False
    suppress: SuppressionReason | None = None
    source: str = EVENT
    unforeseen: bool = False


def _refused(source: str, suppress: SuppressionReason) -> Meaning:
    return Meaning(
        rank=Rank.HARD_FAILURE, reason="suppressed", refused=True, suppress=suppress, source=source
    )


NOTE = Meaning(rank=Rank.NONE)
_HARD_BOUNCE = Meaning(
    rank=Rank.HARD_FAILURE, reason="hard_bounce", suppress=SuppressionReason.HARD_BOUNCE
)
_SOFT_BOUNCE = Meaning(rank=Rank.SOFT_FAILURE, reason="soft_bounce")
_CONTENT = Meaning(rank=Rank.SOFT_FAILURE, reason="content")
_UNDETERMINED = Meaning(rank=Rank.SOFT_FAILURE, reason="undetermined")
_COMPLAINT = Meaning(rank=Rank.DELIVERED, complaint=True, suppress=SuppressionReason.COMPLAINT)

# By bounceType and bounceSubType; any other is taken for undetermined, and marked. Who unsubscribed
# did so on a list that SES keeps, which covers all that it sends to the address.
BOUNCES: Mapping[tuple[str, str], Meaning] = {
    ("Permanent", "General"): _HARD_BOUNCE,
    ("Permanent", "NoEmail"): _HARD_BOUNCE,
    ("Permanent", "Suppressed"): _refused(GLOBAL_LIST, SuppressionReason.HARD_BOUNCE),
    ("Permanent", "OnAccountSuppressionList"): _refused(
        ACCOUNT_LIST, SuppressionReason.HARD_BOUNCE
    ),
    ("Permanent", "OnTenantSuppressionList"): _refused(TENANT_LIST, SuppressionReason.HARD_BOUNCE),
    ("Permanent", "UnsubscribedRecipient"): _refused(
        CONTACT_LIST, SuppressionReason.RECIPIENT_CHOICE
    ),
    ("Permanent", "EmailValidationSuppressed"): _refused(VALIDATION, SuppressionReason.INVALID),
    ("Transient", "General"): _SOFT_BOUNCE,
    ("Transient", "MailboxFull"): _SOFT_BOUNCE,
    ("Transient", "CustomTimeoutExceeded"): _SOFT_BOUNCE,
    ("Transient", "MessageTooLarge"): _CONTENT,
    ("Transient", "ContentRejected"): _CONTENT,
    ("Transient", "AttachmentRejected"): _CONTENT,
    ("Undetermined", "Undetermined"): _UNDETERMINED,
}

# FAULTS F5. A general bounce that SES calls transient is an answer of somebody who is away, too: it
# is soft. But where the receiver's reply was a permanent one (5.x.x) this message will not arrive,
# even if it was reported as delivered before: a hard failure. It suppresses nothing: SES does not
# say that the address is at fault, and such replies are about policies as well.
DENIED = Meaning(rank=Rank.HARD_FAILURE, reason="denied_by_receiver")

# By complaintSubType: it never was sent. Any other is taken for undetermined, and marked.
COMPLAINTS_OF_LISTS: Mapping[str, Meaning] = {
    "OnAccountSuppressionList": _refused(ACCOUNT_LIST, SuppressionReason.COMPLAINT),
    "OnTenantSuppressionList": _refused(TENANT_LIST, SuppressionReason.COMPLAINT),
}

# By complaintFeedbackType. Who says that it is no spam does not complain, and a failed
# authentication is a matter of our domain. Any other is a complaint like "other", and marked.
COMPLAINTS: Mapping[str, Meaning] = {
    "": _COMPLAINT,
    "abuse": _COMPLAINT,
    "fraud": _COMPLAINT,
    "virus": _COMPLAINT,
    "other": _COMPLAINT,
    "auth-failure": NOTE,
    "not-spam": NOTE,
}

# By eventType, the two above apart; any other is a note, and marked. What somebody subscribes to is
# a preference, which an address has none of: kept, and read again by whoever keeps preferences.
EVENTS: Mapping[str, Meaning] = {
    "Send": Meaning(rank=Rank.ACCEPTED),
    "Delivery": Meaning(rank=Rank.DELIVERED),
    "DeliveryDelay": Meaning(rank=Rank.ACCEPTED),
    "Reject": Meaning(rank=Rank.HARD_FAILURE, reason="rejected"),
    "Rendering Failure": Meaning(rank=Rank.HARD_FAILURE, reason="template"),
    "Subscription": NOTE,
    "Open": NOTE,
    "Click": NOTE,
}

DELAYS = frozenset(
    {
        "BYOIPHostNameLookupUnavailable",
        "General",
        "InternalFailure",
        "IPFailure",
        "MailboxFull",
        "RecipientServerError",
        "SendingDeferral",
        "SpamDetected",
        "TransientCommunicationFailure",
        "Undetermined",
    }
)


def of_bounce(kind: str, sub_type: str, *, status: str) -> Meaning:
    """Return what a bounce means; ``status`` is the receiver's own (RFC 3463), where it is told."""
    if (kind, sub_type) == ("Transient", "General") and status.startswith("5."):
        return DENIED
    return BOUNCES.get((kind, sub_type)) or replace(_UNDETERMINED, unforeseen=True)


def of_complaint(sub_type: str, feedback_type: str) -> Meaning:
    if sub_type:
        return COMPLAINTS_OF_LISTS.get(sub_type) or replace(_UNDETERMINED, unforeseen=True)
    return COMPLAINTS.get(feedback_type) or replace(_COMPLAINT, unforeseen=True)


def of_event(kind: str, *, delay: str) -> Meaning:
    """Return what any other event means."""
    meaning = EVENTS.get(kind) or replace(NOTE, unforeseen=True)
    if kind == "DeliveryDelay" and delay not in DELAYS:
        return replace(meaning, unforeseen=True)
    return meaning
