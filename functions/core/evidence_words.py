"""Evidence in words: what an attempt came to, and what a provider reported. No address is in it."""

from datetime import UTC, datetime

from functions.core.history import Attempt, Receipt
from functions.core.outcome import Scope
from functions.core.suppression import SuppressionReason
from functions.core.way import Suppression

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
SOON_SECONDS = 5.0
"""Between a report and its effect: what takes longer is worth a word."""

_CLOSED_BY_US: dict[str, str] = {
    "lease_expired": "was never closed by its sender, which was not heard of again",
    "restored": "falls into the time that was lost when the database was restored",
}
_REFUSED_BY_US = frozenset({"rejected", "blocked"})
_UNANSWERED = _REFUSED_BY_US | {"transient"}
"""Outcomes without a status: no call was made, unless somebody settled them later."""

UNMADE = "made no request"
"""Stands in the words of an attempt that our own side refused, and of no other."""

_WHY_UNMADE: dict[str, str] = {
    "forbidden_address": "its URL leads to an address that may not be called",
    "forbidden_port": "its URL names a port that may not be called",
    "too_many_segments": "its text takes more segments than its stream allows",
    "payload_too_large": "its content is larger than a push may be",
    "invalid_parameters": "what is stored makes no valid request",
    "platform_not_supported": "its endpoint is of a platform that is not supported",
    "no_signing_secret": "there is no secret to sign it with",
    "not_configured": "our settings for the provider are not usable",
    "access_token_refused": "our account was given no access token",
    "no_access_token": "no access token could be had",
    "too_little_time": "a message could outlive what is left of its time to be sent",
    "deadline": "there was no time left to begin one",
}
_STREAM_NOT_CONFIGURED = "the sender identity of its stream, or its settings, are not usable"
_TELLING_DETAILS = frozenset(
    {
        "too_many_segments",
        "platform_not_supported",
        "not_configured",
        "access_token_refused",
        "no_access_token",
        "too_little_time",
    }
)
"""Codes whose detail, in our own words, tells more than they do: a setting, a number."""


def moment(time: datetime) -> str:
    """Return a time as sentences name it: UTC, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: float) -> str:
    """Return a length of time in the unit a person would use."""
    seconds = max(seconds, 0.0)
    for unit, length in (("days", _DAY), ("h", _HOUR), ("min", _MINUTE)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    if seconds >= 10:
        return f"{seconds:.0f} s"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def why_unmade(attempt: Attempt) -> str | None:
    """Return why our own side made no request, as a clause; None where one may have been made."""
    code, outcome = attempt.code, attempt.outcome
    if not code or attempt.http_status is not None or attempt.settled is not None:
        return None
    if outcome not in _UNANSWERED:
        return None
    if code == "not_configured" and attempt.scope in (Scope.SENDER_IDENTITY, Scope.DESTINATION):
        why = _STREAM_NOT_CONFIGURED
    elif code in _WHY_UNMADE:
        why = _WHY_UNMADE[code]
    elif outcome in _REFUSED_BY_US:
        why = "our own side refused to make one"
    else:
        return None
    tells = code in _TELLING_DETAILS and attempt.detail
    return f"{why} ({code}: {attempt.detail})" if tells else f"{why} ({code})"


def attempt_words(number: int, attempt: Attempt) -> str:
    """Return the begin of a sentence: which attempt, where, what it was answered, after how long.

    From the facts of the answer alone: a report may have settled the outcome since.
    """
    head = f"Attempt {number} at {attempt.provider}"
    if attempt.outcome is None:
        return f"{head} is open"
    if attempt.code in _CLOSED_BY_US:
        return f"{head} {_CLOSED_BY_US[attempt.code]}"
    took = ""
    if attempt.finished_at is not None:
        took = f" after {duration((attempt.finished_at - attempt.started_at).total_seconds())}"
    status, code = attempt.http_status, attempt.code
    named = f" ({code})" if code and code != str(status) else ""
    if status is not None:
        known_as = f" and the id {attempt.reference}" if attempt.reference else ""
        return f"{head} was answered with HTTP status {status}{known_as}{named}{took}"
    if why := why_unmade(attempt):
        return f"{head} {UNMADE}, because {why}"
    if attempt.outcome in _UNANSWERED and attempt.settled is None and code:
        return f"{head} could not be made{named}"
    if code:
        return f"{head} got no usable answer{named}{took}"
    return f"{head} came to an end{took}"


_ABOUT: dict[str, str] = {
    Scope.SENDER_IDENTITY: "the sender identity of its stream",
    Scope.COUNTRY: "its country",
    Scope.ENDPOINT: "its endpoint",
    Scope.DESTINATION: "its address",
    Scope.PROVIDER: "the provider as a whole",
}


def scope_words(scope: str | None) -> str:
    """Return what an answer is about, to stand after it; nothing for one about the attempt."""
    about = _ABOUT.get(scope or "")
    return f", about {about}" if about else ""


_MEANINGS: dict[tuple[str, str | None], str] = {
    ("throttled", None): "the provider asked to slow down",
    ("throttled", Scope.SENDER_IDENTITY): (
        "the provider asked to slow down with the sender identity of its stream"
    ),
    ("throttled", Scope.COUNTRY): "the provider asked to slow down with its country",
    ("throttled", Scope.ENDPOINT): "its endpoint asked to slow down",
    ("throttled", Scope.DESTINATION): "the provider asked to slow down with this address",
    ("blocked", None): "our account at the provider is blocked or misconfigured",
    ("blocked", Scope.SENDER_IDENTITY): (
        "the sender identity of its stream is blocked or misconfigured at the provider"
    ),
    ("blocked", Scope.COUNTRY): "its country is blocked or not set up at the provider",
    ("refused", None): (
        "the provider refused the address as opted out or no longer valid, and it is suppressed "
        "from now on"
    ),
    ("refused", Scope.ENDPOINT): (
        "its endpoint asked never to be called again: it is disabled, and the address suppressed "
        "from now on"
    ),
}
"""What an answer means, by the outcome and how far it reaches; None where the table has no more."""


def meaning(outcome: str | None, scope: str | None) -> str:
    """Return what an answer that reaches beyond its attempt means, as a clause."""
    name = outcome or ""
    return _MEANINGS.get((name, scope)) or _MEANINGS.get((name, None), "")


_FACTS: dict[str, str] = {
    SuppressionReason.HARD_BOUNCE: "a message to it bounced",
    SuppressionReason.COMPLAINT: "it complained",
    SuppressionReason.INVALID: "its address is not valid",
    SuppressionReason.RECIPIENT_CHOICE: "it opted out",
    SuppressionReason.OPERATOR: "an operator said so",
}
_CHOICES: dict[str, str] = {
    "unsubscribe": "it unsubscribed",
    "sms:inbound": "it answered STOP",
}
"""How a recipient made its choice known, by the source of the fact."""


def suppression_words(fact: Suppression, *, whom: str = "the recipient") -> str:
    """Return a clause that tells since when ``whom`` is suppressed, why, and who says so."""
    why = _FACTS.get(fact.reason, fact.reason)
    if fact.reason == SuppressionReason.RECIPIENT_CHOICE:
        why = _CHOICES.get(fact.source, why)
    of = f" for {fact.category}" if fact.category else ""
    return (
        f"{whom} is on the suppression list{of} since {moment(fact.created_at)}, because "
        f"{why} (source {fact.source})"
    )


def receipt_words(receipt: Receipt, *, at: datetime, opened: int | None) -> str:
    """Return a clause without its end: what was reported, when it occurred, when we were told.

    ``at`` is when it was weighed; ``opened`` the number of the attempt that was open when it came.
    """
    told, occurred = receipt.received_at, receipt.occurred_at
    particulars = [
        one for one in (receipt.reason, "permanent" if receipt.permanent else None) if one
    ]
    words = f'The provider reported "{receipt.type}"'
    if particulars:
        words += f" ({', '.join(particulars)})"
    if abs((told - occurred).total_seconds()) >= 1:
        words += f", which occurred at {moment(occurred)} and was told at {moment(told)}"
    else:
        words += f" at {moment(told)}"
    if (at - told).total_seconds() > SOON_SECONDS:
        return f"{words} and was kept until the notification it names was known"
    if opened is not None:
        return f"{words}, while attempt {opened} was still open"
    return words
