"""Several channels in order, as it is told to whom has to decide: whether one candidate that is
held is of any use still, and which one was delivered when.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from functions.core.candidate_words import channel_words
from functions.core.history import Delivery, Dossier, Step
from functions.core.states import FINAL, Status

_GOES_ON = frozenset({Status.PENDING, Status.LEASED, Status.SUBMITTED, Status.UNCONFIRMED})


class Outcome(StrEnum):
    """What became of the notification that a candidate is one of."""

    OPEN = "open"
    """Nothing yet: where the candidate is held, so is it, or will be."""
    GOES_ON = "goes_on"
    """A later candidate may be delivered."""
    ENDED = "ended"
    """It ended without it."""
    DELIVERED = "delivered"
    """Another candidate was delivered."""
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where the notification is, in the eyes of one of its candidates.

    ``channel`` is that of the other candidate which decides, ``status`` where that one is, or the
    notification itself.
    """

    outcome: Outcome
    channel: str | None = None
    status: str | None = None

    @property
    def is_over(self) -> bool:
        """Nothing of it is sent any more, whoever asks for it."""
        return self.outcome in (Outcome.DELIVERED, Outcome.CANCELLED)


def standing_of(dossier: Dossier) -> Standing | None:
    """Return where the notification is that this one is a candidate of; None when it is none."""
    row, parent = dossier.history.notification, dossier.decided.parent
    if row.parent_id is None:
        return None
    if parent is not None and parent.status == Status.CANCELLED:
        return Standing(outcome=Outcome.CANCELLED, status=parent.status)
    others = [one for one in dossier.links if one.id != row.id]
    for one in others:
        if one.status == Status.DELIVERED:
            return Standing(outcome=Outcome.DELIVERED, channel=one.channel, status=one.status)
    place = dossier.decided.place or 0
    later = [
        one for one in others if one.place > place and (one.in_doubt or one.status in _GOES_ON)
    ]
    if later:
        newest = later[-1]
        return Standing(outcome=Outcome.GOES_ON, channel=newest.channel, status=newest.status)
    if parent is not None and (parent.discarded_at is not None or parent.status in FINAL):
        return Standing(outcome=Outcome.ENDED, status=parent.status)
    return Standing(outcome=Outcome.OPEN)


def over_words(standing: Standing) -> str:
    """Return why a candidate is of no use any more, and what is left to do with it."""
    was = "cancelled"
    if standing.outcome is Outcome.DELIVERED:
        was = f"delivered by {channel_words(standing.channel or '')}"
    return f"Its notification was {was}: nothing of it is sent any more; discard it."


def opening_words(standing: Standing | None) -> str:
    """Return the begin of what can be decided of what is held."""
    if standing is not None and standing.outcome is Outcome.GOES_ON:
        by = channel_words(standing.channel or "")
        return f"Its notification goes on by {by} ({standing.status}), without this one"
    if standing is not None and standing.outcome is Outcome.ENDED:
        return f"Its notification has ended ({standing.status}), without this one"
    return "Nothing before a person decides"


def delivered_by(step: Step, deliveries: Sequence[Delivery]) -> dict[str, str]:
    """Return by which candidate a parent was delivered in this ``step``, or once more; nothing
    where that is not known."""
    if step.actor != "fallback" or step.to_status != Status.DELIVERED:
        return {}
    known = [one for one in deliveries if _stands(one, step.at)]
    if not known:
        return {}
    moving = known[-1] if step.reason == "fallback_double" else known[0]
    return {"by": f" by {channel_words(moving.channel)}"}


def _stands(delivery: Delivery, at: datetime) -> bool:
    return delivery.at <= at and (delivery.until is None or delivery.until > at)
