"""What each injection comes to with each provider, by the design: data, and nothing else.

A provider is keyed (http, webhook: it recognises its key, so an attempt in doubt is repeated under
it), reports (http, http_keyless, ses, sms: what it accepted waits for its report), or collapses
(push: a duplicate replaces the first, and nothing ever confirms it).
"""

from dataclasses import dataclass
from enum import StrEnum

from tests.proof.injections_services import (
    FCM,
    HTTP,
    HTTP_KEYLESS,
    SERVICES,
    SES,
    SMS,
    SNS,
    WEBHOOK,
    Service,
)


class Injection(StrEnum):
    """What goes wrong. Whatever may follow by itself follows, but nobody reports anything; with
    TOLD the provider does, before anything else is decided."""

    DROPPED = "callback dropped"
    DELAYED = "acceptance delayed"
    DELAYED_TOLD = "acceptance delayed, reported"
    EXPIRED = "lease expired"
    """After the acceptance: the process that sent it died before it could say so."""
    EXPIRED_TOLD = "lease expired, reported"
    SUPPRESSED = "suppression inserted"
    """Between claim and send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Where a notification ends up, by which ``path`` of statuses, what was sent, what took effect,
    and what ``explain`` says of it, its times left out."""

    status: str
    reason: str | None
    path: tuple[str, ...]
    sends: int
    effects: int
    says: str


DELIVERED = "It was delivered, as is known since …."
SUBMITTED = (
    "The provider accepted it, and since … its delivery is not confirmed. A report of the provider "
    "moves it at once. Without one by … it ends as unconfirmed. It is looked at again at …."
)
NO_RECEIPTS = (
    "It ended at …; it may have been accepted, and nothing confirms it: the provider gives no "
    "reports of delivery."
)
NO_REPORT = (
    "It ended at …; it may have been accepted, and nothing confirms it: the provider did not "
    "report by the cutoff what became of it."
)
IN_DOUBT = (
    "It is held for a person, since …: an attempt may have been accepted, and another could send "
    "it twice. Nothing before a person decides: settle it once the provider's own records tell "
    "whether it was accepted, requeue it if a second message does no harm, or discard it."
)
STOPPED = (
    "It was stopped at …, because it must not be sent: the recipient is on the suppression list "
    "since …, because an operator said so (source test)."
)

UNREPORTED = End(
    status="unconfirmed",
    reason="no_receipt_by_cutoff",
    path=("submitted", "unconfirmed"),
    sends=1,
    effects=1,
    says=NO_REPORT,
)
AT_ONCE = End(
    status="unconfirmed",
    reason="provider_gives_no_receipts",
    path=("unconfirmed",),
    sends=1,
    effects=1,
    says=NO_RECEIPTS,
)
ARRIVED = End(
    status="delivered", reason=None, path=("delivered",), sends=1, effects=1, says=DELIVERED
)
SAME_KEY = End(
    status="submitted",
    reason=None,
    path=("pending", "submitted"),
    sends=2,
    effects=1,
    says=SUBMITTED,
)
SAME_KEY_ARRIVED = End(
    status="delivered",
    reason=None,
    path=("pending", "delivered"),
    sends=2,
    effects=1,
    says=DELIVERED,
)
FOR_A_PERSON = End(
    status="dead",
    reason="outcome_unknown",
    path=("uncertain", "dead"),
    sends=1,
    effects=1,
    says=IN_DOUBT,
)
REPLACED = End(
    status="unconfirmed",
    reason="provider_gives_no_receipts",
    path=("uncertain", "pending", "unconfirmed"),
    sends=2,
    effects=1,
    says=NO_RECEIPTS,
)
TOLD = End(
    status="submitted",
    reason=None,
    path=("uncertain", "submitted"),
    sends=1,
    effects=1,
    says=SUBMITTED,
)
TOLD_BEFORE_RETRY = End(
    status="submitted",
    reason=None,
    path=("pending", "submitted"),
    sends=1,
    effects=1,
    says=SUBMITTED,
)
NOT_SENT = End(
    status="suppressed",
    reason="suppressed",
    path=("suppressed",),
    sends=0,
    effects=0,
    says=STOPPED,
)

_D, _L = Injection.DELAYED, Injection.EXPIRED
_DT, _LT = Injection.DELAYED_TOLD, Injection.EXPIRED_TOLD

_KEYED = {_D: SAME_KEY, _L: SAME_KEY, _DT: TOLD_BEFORE_RETRY, _LT: TOLD_BEFORE_RETRY}
_REPORTING = {_D: FOR_A_PERSON, _L: FOR_A_PERSON, _DT: TOLD, _LT: TOLD}
_COLLAPSING = {_D: REPLACED, _L: REPLACED}
_BY_SERVICE: dict[str, dict[Injection, End]] = {
    HTTP.name: {Injection.DROPPED: UNREPORTED, **_KEYED},
    HTTP_KEYLESS.name: {Injection.DROPPED: UNREPORTED, **_REPORTING},
    SES.name: {Injection.DROPPED: UNREPORTED, **_REPORTING},
    SMS.name: {Injection.DROPPED: UNREPORTED, **_REPORTING},
    SNS.name: {Injection.DROPPED: AT_ONCE, **_COLLAPSING},
    FCM.name: {Injection.DROPPED: AT_ONCE, **_COLLAPSING},
    WEBHOOK.name: {Injection.DROPPED: ARRIVED, _D: SAME_KEY_ARRIVED, _L: SAME_KEY_ARRIVED},
}

EXPECTED: dict[tuple[str, Injection], End] = {
    (service.name, injection): (_BY_SERVICE[service.name] | {Injection.SUPPRESSED: NOT_SENT})[
        injection
    ]
    for service in SERVICES
    for injection in Injection
    if injection is Injection.SUPPRESSED or injection in _BY_SERVICE[service.name]
}


def cases() -> list[tuple[Service, Injection]]:
    """Return every case there is, provider by provider."""
    return [
        (service, injection)
        for service in SERVICES
        for injection in Injection
        if (service.name, injection) in EXPECTED
    ]
