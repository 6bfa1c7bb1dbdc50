"""What happens to a notification next by itself, when, and what that depends on."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions.core.candidate_words import parent_words
from functions.core.chain_told import Outcome, opening_words, over_words, standing_of
from functions.core.evidence_words import moment
from functions.core.history import Attempt, Dossier
from functions.core.standing import Standing
from functions.core.states import FINAL, HELD, Reason, Status
from functions.core.waiting import waiting_words

COPIES: Mapping[str, str] = {
    "push": "a copy replaces the first by its collapse id, unless its stream turns that off"
}
"""What a second message does, by provider: of those that neither know our key, nor report, nor
can be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """What happens next: ``action`` is send, expire, recover, check, fallback (the next candidate
    is started) or decide (a person's)."""

    action: str
    at: datetime | None


def is_held(notification: Standing) -> bool:
    """Whether it waits for a person."""
    return notification.status in HELD and notification.discarded_at is None


def next_of_parent(
    notification: Standing, *, next_step_at: datetime | None, shown: Standing | None
) -> Next | None:
    """Return what happens next of a notification by several channels: when its next candidate is
    started, else what happens to the one that is ``shown``."""
    if Status(notification.status) in FINAL or notification.discarded_at is not None:
        return None
    if is_held(notification):
        return Next(action="decide", at=None)
    if next_step_at is not None:
        return Next(action="fallback", at=next_step_at)
    return None if shown is None else next_of(shown)


def next_of(notification: Standing) -> Next | None:
    """Return what happens next; None when nothing will by itself, and nothing need be decided."""
    match Status(notification.status):
        case Status.PENDING:
            expires_at = notification.expires_at
            if expires_at is not None and expires_at <= notification.available_at:
                return Next(action="expire", at=expires_at)
            if notification.hold_id is not None:
                return Next(action="decide", at=None)
            return Next(action="send", at=notification.available_at)
        case Status.LEASED:
            return Next(action="recover", at=notification.lease_until)
        case Status.SUBMITTED | Status.UNCERTAIN:
            return Next(action="check", at=notification.next_check_at)
        case Status.DEAD if is_held(notification):
            return Next(action="decide", at=None)
        case _:
            return None


def next_sentence(
    dossier: Dossier, *, now: datetime, keyed_providers: Collection[str]
) -> str | None:
    """Return what happens next in words, with everything it depends on; None when nothing will.

    ``keyed_providers`` honour our key, so that an attempt in doubt is safe to repeat with them.
    """
    row = dossier.history.notification
    if dossier.decided.channels:
        return parent_words(dossier, now)
    match Status(row.status):
        case Status.PENDING:
            return waiting_words(dossier, now)
        case Status.LEASED:
            return _of_leased(dossier, now)
        case Status.UNCERTAIN:
            return _of_uncertain(dossier, now, is_keyed=row.provider in keyed_providers)
        case Status.SUBMITTED:
            return _of_submitted(dossier, now)
        case Status.DEAD if is_held(row):
            return _of_held(dossier, now)
        case _:
            return None


def open_attempt(dossier: Dossier) -> Attempt | None:
    """Return the attempt that is open under the current lease."""
    lease_number = dossier.history.notification.lease_number
    for attempt in dossier.history.attempts:
        if attempt.outcome is None and attempt.lease_number == lease_number:
            return attempt
    return None


def _of_leased(dossier: Dossier, now: datetime) -> str:
    until = dossier.history.notification.lease_until
    when = "within minutes"
    if until is not None:
        when = f"after {moment(until)}" if until > now else "with its next run"
    attempt = open_attempt(dossier)
    if attempt is None:
        return (
            "A sender opens an attempt within seconds. If none does, the sweep takes the lease "
            f"back {when}; nothing will have been sent."
        )
    return (
        f"An attempt at {attempt.provider} is open, and its answer is recorded within seconds. If "
        f"none is, the sweep closes it {when} as one that may have been accepted."
    )


def _of_uncertain(dossier: Dossier, now: datetime, *, is_keyed: bool) -> str:
    row = dossier.history.notification
    decide_at = row.decide_at or row.next_check_at
    is_ahead = decide_at is not None and decide_at > now
    copies = COPIES.get(row.provider or "")
    if row.attempts_spent >= row.max_attempts:
        then = "it is held for a person, for no attempt is left"
    elif not is_keyed and dossier.channel.unknown_policy == "hold":
        then = "it is held for a person, as its channel's policy is"
    elif row.expires_at is not None and decide_at is not None and row.expires_at <= decide_at:
        then = "it ends unconfirmed, for its time to be sent has passed"
    elif is_keyed:
        then = "it is tried again under its key, which the provider recognises"
    elif copies is not None:
        then = f"it is tried again, as its channel's policy is: {copies}"
    else:
        then = "it is tried again, as its channel's policy is, although that may send it twice"
    looked_at = ""
    if (
        row.next_check_at is not None
        and row.decide_at is not None
        and now < row.next_check_at < row.decide_at
    ):
        looked_at = f" It is looked at again at {moment(row.next_check_at)}."
    if copies is not None:
        when = f"at {moment(decide_at)}" if decide_at is not None and is_ahead else "now"
        return (
            "The provider gives no reports, so it cannot be found out whether it was accepted: "
            f"{when} {then}.{looked_at}"
        )
    when = f"by {moment(decide_at)}" if decide_at is not None and is_ahead else "by now"
    return f"A report of the provider settles it at once. Without one {when}, {then}.{looked_at}"


def _of_submitted(dossier: Dossier, now: datetime) -> str:
    row = dossier.history.notification
    words = "A report of the provider moves it at once."
    if row.submitted_at is not None:
        cutoff_at = row.submitted_at + timedelta(seconds=dossier.channel.cutoff_seconds)
        when = f"by {moment(cutoff_at)}" if cutoff_at > now else "by now"
        words += f" Without one {when} it ends as unconfirmed."
    if row.next_check_at is not None and row.next_check_at > now:
        words += f" It is looked at again at {moment(row.next_check_at)}."
    return words


def _of_held(dossier: Dossier, now: datetime) -> str:
    row, standing = dossier.history.notification, standing_of(dossier)
    if standing is not None and standing.is_over:
        return over_words(standing)
    words = opening_words(standing)
    if row.reason == Reason.INVALID:
        return f"{words}: discard it, for as it is it can never be sent. Ask for it anew instead."
    if open_attempt(dossier) is not None:
        return (
            f"{words}. An attempt is still open: the sweep closes it within minutes, and until "
            "then it cannot be requeued."
        )
    choices: list[str] = []
    if row.in_doubt > 0:
        choices.append("settle it once the provider's own records tell whether it was accepted")
    if row.expires_at is not None and row.expires_at <= now:
        return f"{words}: {', or '.join([*choices, 'discard it'])}. Its time to be sent has passed."
    harmless = "if a second message does no harm" if row.in_doubt > 0 else "once its cause is gone"
    if standing is not None and standing.outcome is Outcome.GOES_ON:
        harmless = "with --may-send-twice if a second message does no harm"
    choices.append(f"requeue it {harmless}")
    return f"{words}: {', '.join(choices)}, or discard it."
