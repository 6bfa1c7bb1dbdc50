"""What an AWS answer means: each provider's table of rules first, then what all services share.

A rule matches by code, and where a code says too little by the reason, the text or the field that
comes with it. What no rule names is taken conservatively and marked: a 5xx may have been done, a
4xx was not and would not be.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from botocore.exceptions import (
    CredentialRetrievalError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
)
from urllib3 import HTTPHeaderDict

from functions.core.outcome import (
    Blocked,
    Outcome,
    Refused,
    Rejected,
    Scope,
    Throttled,
    Transient,
    Unknown,
)
from functions.core.suppression import SuppressionReason
from functions.providers.answer import Class, outcome_of_loss, retry_after_seconds
from functions.providers.aws import Declined, Misread, NotMade
from functions.providers.transport import Lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """An error by its ``code``, and by what else must come with it; empty matches everything.

    ``text`` is looked for in the message, whatever its case. ``wait_seconds`` is the least wait
    before the next attempt. ``suppress`` is why a refused address is suppressed. ``unforeseen``
    marks what is left over of a code whose cases are known.
    """

    code: str
    fate: Class
    text: str = ""
    reason: str = ""
    field: str = ""
    scope: Scope = Scope.PROVIDER
    wait_seconds: float | None = None
    suppress: SuppressionReason = SuppressionReason.INVALID
    source: str = "provider"
    unforeseen: bool = False

    def matches(self, declined: Declined) -> bool:
        return (
            self.code == declined.code
            and (not self.reason or self.reason == declined.reason)
            and (not self.field or self.field in declined.fields)
            and self.text.casefold() in declined.message.casefold()
        )


# Credentials, permissions and throttling answer alike from every service (PROVIDERS §1.1).
COMMON_RULES: Sequence[Rule] = (
    *(
        Rule(code=code, fate=Class.BLOCKED)
        for code in (
            "401",  # of a proxy on the way, in no words of the service's
            "403",
            "407",
            "AccessDenied",
            "AccessDeniedException",
            "ExpiredToken",
            "ExpiredTokenException",
            "IncompleteSignature",
            "InvalidClientTokenId",
            "MissingAuthenticationToken",
            "NotAuthorized",
            "OptInRequired",
            "RequestExpired",
            "SignatureDoesNotMatch",
            "UnrecognizedClientException",
        )
    ),
    *(
        Rule(code=code, fate=Class.THROTTLED)
        for code in (
            "RequestThrottled",
            "RequestThrottledException",
            "Throttled",
            "ThrottledException",
            "Throttling",
            "ThrottlingException",
            "TooManyRequestsException",
        )
    ),
)


def outcome_of_failure(
    failure: Declined | NotMade | Misread | Lost, rules: Sequence[Rule]
) -> Outcome:
    """Return what anything but a 2xx means by ``rules`` (the first that matches)."""
    match failure:
        case Lost():
            return outcome_of_loss(failure)
        case Misread():
            return Unknown(code="unreadable_answer", detail=type(failure.error).__name__)
        case NotMade():
            return _of_our_own(failure.error)
        case Declined():
            return _of_error(failure, rules)


def _of_our_own(error: Exception) -> Outcome:
    name = type(error).__name__
    match error:
        case ParamValidationError():
            return Rejected(code="invalid_parameters", detail=name)
        case NoCredentialsError() | CredentialRetrievalError() | NoRegionError():
            return Blocked(code="not_configured", detail=name)
        case _:
            return Transient(code="not_callable", detail=name)


def _of_error(declined: Declined, rules: Sequence[Rule]) -> Outcome:
    for rule in (*rules, *COMMON_RULES):
        if rule.matches(declined):
            return replace(_by(rule, declined), unforeseen=rule.unforeseen)
    code, status = declined.code, declined.http_status
    if status >= 500:
        return Unknown(code=code, http_status=status, unforeseen=not code.isdigit())
    if status == 429:
        return Throttled(code=code, http_status=status, unforeseen=True)
    return Rejected(code=code, http_status=status, detail=declined.reason or None, unforeseen=True)


def _by(rule: Rule, declined: Declined) -> Outcome:
    code, status = declined.code, declined.http_status
    detail = declined.reason or None  # never the message: it may quote an address
    told = retry_after_seconds(HTTPHeaderDict(declined.headers))
    wait = max(told or 0.0, rule.wait_seconds or 0.0) or told
    match rule.fate:
        case Class.REJECTED:
            return Rejected(code=code, http_status=status, detail=detail)
        case Class.REFUSED:
            return Refused(
                code=code,
                http_status=status,
                detail=detail,
                reason=rule.suppress,
                source=rule.source,
            )
        case Class.TRANSIENT:
            return Transient(code=code, http_status=status, detail=detail, retry_after_seconds=wait)
        case Class.THROTTLED:
            return Throttled(
                code=code,
                http_status=status,
                detail=detail,
                retry_after_seconds=wait,
                scope=rule.scope,
            )
        case Class.BLOCKED:
            return Blocked(
                code=code,
                http_status=status,
                detail=detail,
                retry_after_seconds=wait,
                scope=rule.scope,
            )
        case Class.UNKNOWN:
            return Unknown(code=code, http_status=status, detail=detail, retry_after_seconds=wait)
