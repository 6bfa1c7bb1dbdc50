"""Times as people and programs write them: RFC 3339 with an offset."""

import re
from datetime import UTC, datetime

_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII
)
DETAIL = "It is a time as in RFC 3339, with its offset: 2030-01-31T08:00:00+01:00."


class InvalidTime(ValueError):
    """The text is not a time with an offset."""


def parse_time(text: str) -> datetime:
    """Return the moment ``text`` names, in UTC, to the microsecond; raise InvalidTime."""
    if _RFC3339.fullmatch(text) is None:
        raise InvalidTime
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidTime from None


def written(time: datetime | None) -> str | None:
    """Return a time as the contract writes it, in UTC with a Z."""
    return None if time is None else time.astimezone(UTC).isoformat().replace("+00:00", "Z")
