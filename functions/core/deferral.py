"""A deferral by the policy, in words: what the recipient's clock shows, what keeps it from being
sent by that, and when it goes out, by that clock and by ours.
"""

from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Any

from functions.core.evidence_words import moment
from functions.core.local_time import UnknownZone, Window, zone_of
from functions.core.policy import SPREADS, Because

BY_THE_CLOCK = frozenset({Because.QUIET_HOURS, Because.OUTSIDE_SEND_WINDOW})
"""Reasons that the recipient's clock gives."""

_DAY = timedelta(days=1)

_KEPT: dict[tuple[bool, bool], str] = {
    (True, True): ", within the recipient's quiet hours {hours}",
    (True, False): ", and the recipient's quiet hours {hours} are over",
    (False, True): ", outside the send window {hours} of {category}",
    (False, False): ", and the send window {hours} of {category} is open",
}
"""By whether it is about quiet hours, and whether these, or the window, keep it: what waits for
one moment is let go one after the other."""

_OTHER = {
    True: ", and {category} is sent within {hours} only",
    False: ", and the recipient's quiet hours are {hours}",
}
"""What keeps it longer than that, by whether that is quiet hours."""


def deferral_words(
    decision: Mapping[str, Any] | None,
    *,
    reason: str | None,
    category: str,
    at: datetime,
    until: datetime,
    expires_at: datetime | None = None,
    was: bool = False,
) -> str | None:
    """Return a sentence about what the clock shows ``at`` that time, and when it goes out.

    ``decision`` is what the verdict was decided from. None where the reason is not the clock's, or
    nobody can tell what it shows. ``was``: tell of ``at`` as of the past, and of ``until`` by our
    clock as well.
    """
    is_quiet = reason == Because.QUIET_HOURS
    window = _window_of(decision, is_quiet=is_quiet)
    if decision is None or window is None or reason not in BY_THE_CLOCK:
        return None
    name: str | None = decision["time_zone"]
    try:
        zone = zone_of(name or "UTC")
        shows, out = at.astimezone(zone), until.astimezone(zone)
    except (UnknownZone, OverflowError):
        return None
    clock = f"It {'was' if was else 'is'} {shows:%H:%M} {f'in {name}' if name else 'UTC'}"
    is_kept = was or window.holds(shows.time()) is is_quiet
    kept = _KEPT[is_quiet, is_kept].format(hours=_hours(window), category=category)
    other = _window_of(decision, is_quiet=not is_quiet)
    if other is not None and _is_later(out, window.end if is_quiet else window.start):
        kept += _OTHER[is_quiet].format(hours=_hours(other), category=category)
    if until <= at:
        return f"{clock}{kept}; it goes out now."
    day = f" on {out:%Y-%m-%d}" if out - shows >= _DAY else ""
    ours = f" ({moment(until)})" if was else ""
    if expires_at is not None and expires_at <= until:
        return f"{clock}{kept}; about {out:%H:%M}{day}{ours} its time to be sent will have passed."
    return f"{clock}{kept}; it goes out about {out:%H:%M}{day}{ours}."


def _window_of(decision: Mapping[str, Any] | None, *, is_quiet: bool) -> Window | None:
    """Return the quiet hours, or the send window, that it was decided by."""
    window: Mapping[str, str] | None = (decision or {}).get("quiet_hours" if is_quiet else "window")
    if window is None:
        return None
    start, end = (time.fromisoformat(window[edge]) for edge in ("start", "end"))
    return Window(start=start, end=end)


def _hours(window: Window) -> str:
    return f"{window.start:%H:%M}–{window.end:%H:%M}"


def _is_later(out: datetime, end: time) -> bool:
    """Whether it goes out later than it would after ``end``, one after the other."""
    shown = timedelta(hours=out.hour, minutes=out.minute)
    ended = timedelta(hours=end.hour, minutes=end.minute)
    return (shown - ended) % _DAY > max(SPREADS.values())
