"""Several channels in order, in words: how a candidate was started, what moved the one that it is a
candidate of, and what comes next of that.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from functions.core.decided import Decided
from functions.core.evidence_words import moment
from functions.core.history import Dossier, Row, Step
from functions.core.states import HELD, Status

_STARTS = frozenset({"fallback_started", "fallback_after"})
_SAME_MOMENT = timedelta(seconds=1)
"""Between a transition and the candidate that its statement started."""

_WRITTEN = {"sms": "SMS"}
_STANDS: dict[str, str] = {Status.FAILED: "has failed", Status.EXPIRED: "has expired"}


def channel_words(channel: str) -> str:
    """Return a channel as it stands in a sentence."""
    return _WRITTEN.get(channel, channel)


def in_order(channels: Sequence[str]) -> str:
    """Return "push, SMS, then email"."""
    *first, last = [channel_words(one) for one in channels]
    return f"{', '.join(first)}, then {last}" if first else last


def started_words(notification: Row, decided: Decided | None, *, when: str) -> str:
    """Return how a candidate began."""
    place = None if decided is None else decided.place
    which = "a candidate" if place is None else f"candidate {place + 1}"
    return (
        f"It was started as {which} of notification {notification.parent_id}, by "
        f"{channel_words(notification.channel)}; it is to be sent {when}."
    )


def moved_by(step: Step, decided: Decided | None) -> dict[str, str]:
    """Return by which candidate a parent was moved, each as a part of a sentence."""
    if step.actor != "fallback" or decided is None or not decided.children:
        return {}
    known = [one for one in decided.children if one.created_at <= step.at + _SAME_MOMENT]
    if not known:
        return {}
    newest = known[-1]
    if step.reason in _STARTS:
        words = {"started": f", by {channel_words(newest.channel)}"}
        if len(known) > 1:
            words["earlier"] = f"The candidate by {channel_words(known[-2].channel)}"
        return words
    delivered = [one for one in known if one.status == Status.DELIVERED]
    moving = delivered[-1] if delivered and step.to_status == Status.DELIVERED else newest
    return {"by": f" by {channel_words(moving.channel)}"}


def parent_words(dossier: Dossier, now: datetime) -> str | None:
    """Return what comes next of a notification by several channels; None when nothing will."""
    row, decided = dossier.history.notification, dossier.decided
    if not decided.children or row.final_at is not None or row.discarded_at is not None:
        return None
    newest = decided.children[-1]
    reason = f" ({newest.reason})" if newest.reason and newest.reason != newest.status else ""
    by = channel_words(newest.channel)
    stands = _STANDS.get(newest.status, f"is {newest.status}")
    words = f"Its candidate by {by}, {newest.id}, {stands}{reason}."
    further = (decided.channels or ())[len(decided.children) :]
    if row.status in HELD:
        return f"{words} Nothing before a person decides there."
    if not further:
        return f"{words} It is the last one: what becomes of it becomes of this notification."
    following = channel_words(further[0])
    if decided.next_step_at is None:
        return f"{words} No other one is started."
    if decided.next_step_at <= now:
        return f"{words} Its time is over: the next one is started at once, by {following}."
    return (
        f"{words} Unless it is delivered by {moment(decided.next_step_at)}, the next one is "
        f"started then, by {following}; at once, if it comes to nothing before."
    )
