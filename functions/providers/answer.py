"""What is common to all providers that answer in HTTP: Retry-After, and classes of status codes.

The classes are PROVIDERS §1.5, one table per provider; what a table does not name falls to its
class (2xx, 3xx, 4xx, 5xx).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum

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
from functions.core.retry import clamp_retry_after
from functions.providers.transport import Lost, Response


class Class(StrEnum):
    REJECTED = "rejected"
    REFUSED = "refused"
    TRANSIENT = "transient"
    THROTTLED = "throttled"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"


def retry_after_seconds(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Return Retry-After in seconds from delta-seconds or an HTTP date (RFC 9110 §10.2.3).

    None when absent or unparsable; a time in the past is 0, and nothing is more than an hour. A
    date counts from the answer's own Date: both are by the clock of who wrote them, whatever ours
    says. ``now`` stands in for an answer without one.
    """
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return clamp_retry_after(float(text))
    moment = _date(text)
    if moment is None:
        return None
    written_at = _date(headers.get("Date", "")) or now or datetime.now(UTC)
    return clamp_retry_after((moment - written_at).total_seconds())


def _date(text: str) -> datetime | None:
    """Return the moment that an HTTP date names, None for what is no date."""
    try:
        moment = parsedate_to_datetime(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        return moment.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):  # what its parser does to nonsense
        return None


def outcome_of_status(
    response: Response, classes: Mapping[int, Class], *, server_error: Class, scope: Scope
) -> Outcome:
    """Return what a status other than 2xx means, by table first and by its class then."""
    status, code = response.status, str(response.status)
    wait = retry_after_seconds(response.headers)
    match classes.get(status, server_error if status >= 500 else Class.REJECTED):
        case Class.REJECTED:
            return Rejected(code=code, http_status=status)
        case Class.REFUSED:
            return Refused(code=code, http_status=status)
        case Class.TRANSIENT:
            return Transient(code=code, http_status=status, retry_after_seconds=wait)
        case Class.THROTTLED:
            return Throttled(code=code, http_status=status, retry_after_seconds=wait, scope=scope)
        case Class.BLOCKED:
            return Blocked(code=code, http_status=status, retry_after_seconds=wait, scope=scope)
        case Class.UNKNOWN:
            return Unknown(code=code, http_status=status, retry_after_seconds=wait)


def outcome_of_loss(lost: Lost) -> Outcome:
    """Return what no answer means: not sent for sure, or unknown."""
    if lost.begun:
        return Unknown(code=lost.code, detail=lost.detail)
    return Transient(code=lost.code, detail=lost.detail, begun=lost.code != "deadline")
