"""Several channels in order, in words: how a candidate was started, what moved the one that it is a
candidate of, and what comes next of that.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from functions.core.decided import Candidate, Decided, Member, Told
from functions.core.evidence_words import moment
from functions.core.history import Dossier, Row, Step
from functions.core.states import HELD, Status

_STARTS = frozenset({"fallback_started", "fallback_after"})
_DOUBLE = "fallback_double"
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


def started_words(notification: Row, decided: Told | None, *, when: str) -> str:
    """Return how a candidate began."""
    place = None if decided is None else decided.place
    which = "a candidate" if place is None else f"candidate {place + 1}"
    return (
        f"It was started as {which} of notification {notification.parent_id}, by "
        f"{channel_words(notification.channel)}; it is to be sent {when}."
    )


def moved_by(step: Step, decided: Told | None) -> dict[str, str]:
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
    alike = [one for one in known if _standing(one) == step.to_status]
    if not alike and len(known) > 1 and step.to_status == Status.PENDING:
        return {}  # one that was sent again; which one is not known any more
    is_double = step.reason == _DOUBLE
    moving = [one for one in alike if (one.place == decided.place) != is_double]
    return {"by": f" by {channel_words((moving or alike or known)[-1].channel)}"}


def _standing(candidate: Member) -> str:
    """Return where a candidate is in the eyes of its parent, which a lease does not concern."""
    return Status.PENDING if candidate.status == Status.LEASED else candidate.status


def shown_of(decided: Decided) -> Candidate | None:
    """Return the candidate that a parent shows: the newest, unless an earlier one outlived it."""
    shown = [one for one in decided.children if one.place == decided.place]
    return (shown or decided.children)[-1] if decided.children else None


def parent_words(dossier: Dossier, now: datetime) -> str | None:
    """Return what comes next of a notification by several channels; None when nothing will."""
    row, decided = dossier.history.notification, dossier.decided
    shown = shown_of(decided)
    if shown is None or row.final_at is not None or row.discarded_at is not None:
        return None
    reason = f" ({shown.reason})" if shown.reason and shown.reason != shown.status else ""
    by = channel_words(shown.channel)
    stands = _STANDS.get(shown.status, f"is {shown.status}")
    words = f"Its candidate by {by}, {shown.id}, {stands}{reason}."
    further = (decided.channels or ())[len(decided.children) :]
    if row.status in HELD:
        return f"{words} Nothing before a person decides there."
    is_newest = shown is decided.children[-1]
    if not is_newest and decided.next_step_at is None:
        return f"{words} It outlived the later ones: if it is delivered, so is this notification."
    if not further:
        return f"{words} It is the last one: what becomes of it becomes of this notification."
    following = channel_words(further[0])
    if decided.next_step_at is None:
        return f"{words} No other one is started."
    if decided.next_step_at <= now:
        return f"{words} Its time is over: the next one is started at once, by {following}."
    at_once = "; at once, if it comes to nothing before" if is_newest else ""
    return (
        f"{words} Unless {'it' if is_newest else 'one'} is delivered by "
        f"{moment(decided.next_step_at)}, the next one is started then, by {following}{at_once}."
    )
