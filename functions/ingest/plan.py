"""What would become of an item, by the policy and the facts as they are now: nothing is stored.

The policy is asked as the claim asks it, at the moment when the item would be due. What depends on
other traffic is not foreseen: rates, holds, and what is left of a day's money.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from functions.core.abuse import UNKNOWN, Because
from functions.core.policy import Allow, Defer, Recipient, Suppress, decide
from functions.core.states import Channel
from functions.store.dry_run import Facts, Question
from functions.store.intent import NewNotification

SUPPRESSED = "suppressed"
EXPIRED = "expired"


NOBODY = UUID(int=0)


class Verdict(StrEnum):
    SEND = "send"
    DEFER = "defer"
    SUPPRESS = "suppress"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would become of an item on ``channel``; ``planned_at`` None when it is not sent."""

    verdict: Verdict
    channel: str
    reason: str | None = None
    planned_at: datetime | None = None
    locale: str | None = None
    country: str | None = None
    """Of a telephone number, where it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """An item as the policy sees it: nothing was tried yet."""

    priority: str
    recipient_id: str | None
    expires_at: datetime | None
    id: UUID = NOBODY
    in_doubt: int = 0
    contact_hash: bytes | None = None
    locale: str | None = None
    had_attempt: bool = False
    is_erased: bool = False


def questions_of(notification: NewNotification) -> Sequence[Question]:
    """Return what has to be known of each channel that it may be sent by."""
    by_reference = notification.by_reference
    return [
        Question(
            channel=channel,
            category=notification.category,
            recipient_id=by_reference and by_reference.recipient_id,
            address_hash=notification.recipient_hash,
        )
        for channel in notification.candidates
    ]


def plan_of(notification: NewNotification, facts: Facts) -> Plan:
    """Return the plan of the first channel that is not suppressed; of the last when all are."""
    plans = (_planned(notification, question, facts) for question in questions_of(notification))
    last: Plan | None = None
    for last in plans:
        if last.verdict is not Verdict.SUPPRESS:
            break
    assert last is not None  # there is a channel
    return last


def _planned(notification: NewNotification, question: Question, facts: Facts) -> Plan:
    channel, expires_at = question.channel, notification.expires_at
    due_at = max(notification.send_at or facts.now, facts.now)
    candidate = _Candidate(
        priority=notification.priority,
        recipient_id=question.recipient_id,
        expires_at=expires_at,
    )
    recipient = facts.recipients.get(question)
    ruling = decide(candidate, recipient, now=due_at)
    planned_at, then = due_at, ruling
    if isinstance(ruling, Defer):
        planned_at = _sharp_end(candidate, recipient, due_at, ruling)
        then = decide(candidate, recipient, now=planned_at)
    if expires_at is not None and expires_at <= planned_at:
        return Plan(verdict=Verdict.EXPIRED, channel=channel, reason=EXPIRED)
    if isinstance(then, Suppress):
        return Plan(verdict=Verdict.SUPPRESS, channel=channel, reason=then.reason)
    if question in facts.suppressed:
        return Plan(verdict=Verdict.SUPPRESS, channel=channel, reason=SUPPRESSED)
    country = notification.country
    if isinstance(then, Allow) and then.contact_point is not None:
        country = then.contact_point.country
    if _is_forbidden(channel, country, facts):
        reason = Because.COUNTRY_NOT_ALLOWED
        return Plan(verdict=Verdict.SUPPRESS, channel=channel, reason=reason)
    return Plan(
        verdict=Verdict.DEFER if isinstance(ruling, Defer) else Verdict.SEND,
        channel=channel,
        reason=ruling.reason if isinstance(ruling, Defer) else None,
        planned_at=planned_at,
        locale=then.locale if isinstance(then, Allow) else None,
        country=country,
    )


def _sharp_end(
    candidate: _Candidate, recipient: Recipient | None, due_at: datetime, ruling: Defer
) -> datetime:
    """Return the second at which the policy would begin to let it go, without the share of the
    spread that its id would have.

    The policy itself is asked, between then and when it says that one is let go: it has no other
    copy of what it knows about clocks.
    """
    second = timedelta(seconds=1)
    closed_at, open_at = due_at, ruling.until
    if isinstance(decide(candidate, recipient, now=open_at), Defer):
        return open_at  # in an unknown zone nothing is foreseen
    while open_at - closed_at > second:
        middle = closed_at + (open_at - closed_at) / 2
        if isinstance(decide(candidate, recipient, now=middle), Defer):
            closed_at = middle
        else:
            open_at = middle
    return open_at.replace(microsecond=0)


def _is_forbidden(channel: str, country: str | None, facts: Facts) -> bool:
    return (
        channel == Channel.SMS
        and facts.countries is not None
        and (country or UNKNOWN) not in facts.countries
    )
