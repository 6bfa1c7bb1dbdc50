"""What a verdict was decided from, as it is stored with it: versions and values, never an address.

It lets somebody who asks later see what the policy saw, and the policy be asked again.
"""

from datetime import datetime, time
from functools import lru_cache
from typing import Any

from functions.core.local_time import UnknownZone, Window, zone_of
from functions.core.policy import ContactPoint, Recipient


def inputs_of(
    recipient: Recipient | None, contact_point: ContactPoint | None, *, now: datetime
) -> dict[str, Any]:
    """Return what was known of ``recipient`` (None: nothing was left of them) at ``now``."""
    if recipient is None:
        return {"recipient_version": None}
    return {
        "recipient_version": recipient.version,
        "rules_version": recipient.rules.version,
        "transactional": recipient.rules.transactional,
        "locale": recipient.locale,
        "time_zone": recipient.time_zone,
        "quiet_hours": _written(recipient.quiet_hours),
        "window": _written(recipient.rules.window),
        "preference": recipient.preference,
        "contact_verified": None if contact_point is None else contact_point.verified,
        "local_time": _local_time(recipient.time_zone, now),
    }


@lru_cache(maxsize=4096)
def _written(window: Window | None) -> dict[str, str] | None:
    """Return a window as the API writes it; there are few, and each is of many."""
    if window is None:
        return None
    return {"start": _clock(window.start), "end": _clock(window.end)}


def _clock(wall: time) -> str:
    return wall.isoformat("auto" if wall.second or wall.microsecond else "minutes")


def _local_time(zone: str | None, now: datetime) -> str | None:
    """Return what the recipient's clock shows (UTC where they have no zone), None where nobody can
    tell."""
    try:
        return now.astimezone(zone_of(zone or "UTC")).isoformat(timespec="seconds")
    except (UnknownZone, OverflowError):
        return None
