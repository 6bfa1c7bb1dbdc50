"""What a change of a notification means, in a sentence or two: its cause, and where that leads.

A cause is named by who changed it and why, as the transition stores both; ``.open`` is added where
the same reason tells of an attempt that was open, ``.told`` where it tells of a report. Places in
braces are filled from the evidence.
"""

from dataclasses import dataclass

from functions.core.evidence_words import UNMADE, meaning
from functions.core.history import Step
from functions.core.states import MAX_STARTS, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known around a change, each as a part of a sentence."""

    attempt: str = "The attempt"
    """What its attempt was answered."""
    number: str = "an attempt"
    """Its attempt alone."""
    wait: str = ""
    """How long the provider asked to wait."""
    scope: str | None = None
    """How far its answer reaches."""
    passed_on: str = ""
    """The provider it is due with, since this one provably did not take it."""
    instead: str = ""
    """The provider the next attempt was made with, if that is another one."""
    report: str = "The provider reported on it"
    operator: str = "An operator"
    consent: str = ""
    note: str = ""
    again: str = ""
    """When it is tried again, if that is still ahead."""
    until: str = ""
    """Until when it waits for evidence, if that is still ahead."""

    @property
    def is_unmade(self) -> bool:
        """Whether its attempt ended before any request, as its words tell."""
        return UNMADE in self.attempt


CAUSES: dict[str, str] = {
    "client": "It was cancelled before anything was sent.",
    "claim.not_dispatched": "It could not be handed to the queue; its lease was given back.",
    "claim.country_blocked": "Its country is blocked at the provider, so no attempt was opened.",
    "claim.endpoint_paused": "Its endpoint is paused, so no attempt was opened.",
    "claim.endpoint_busy": (
        "Its endpoint has failed, and as many calls to it as it gets at once were under way."
    ),
    "claim.sms_guard_failed": (
        "Whether its organization's SMS may go out could not be decided, so none did."
    ),
    "claim.retries_off": "Retries are off for its channel, and it was tried before.",
    "claim.lease_lost": "Somebody else had moved it by then.",
    "policy": "The policy decided against sending it now ({reason}).",
    "policy.country_not_allowed": "Its organization may not send SMS to its country.",
    "policy.mix_shifted": (
        "Messages to its country or its prefix are unlike what its organization usually sends."
    ),
    "policy.number_velocity": "Its number had as many messages as one gets in an hour.",
    "policy.prefix_velocity": (
        "The numbers of its prefix had as many messages as they get in an hour."
    ),
    "policy.sms_budget_spent": "Its organization's money for SMS was spent for the day (UTC).",
    "policy.sms_price_unknown": "There were no prices to keep its organization's SMS budget by.",
    "sender.paused": (
        "Its channel or its stream had been paused since the lease, so no attempt was opened."
    ),
    "sender.disabled": (
        "Its endpoint has asked never to be called again, so no attempt was opened."
    ),
    "sender.expired": "Its time to be sent had passed before an attempt was opened.",
    "sender.expired.open": "{attempt}; the next try would come after its time to be sent.",
    "sender.suppressed": (
        "The recipient is on the suppression list, which is read last before sending."
    ),
    "sender.key_window_over": (
        "An earlier attempt may have been accepted, and the provider remembers its key no longer: "
        "another attempt could send it twice."
    ),
    "sender.provider_changed": (
        "An earlier attempt may have been accepted, and the channel has another provider now, "
        "which does not know its key: another attempt could send it twice."
    ),
    "sender.crash_loop": (
        f"Senders began to work on it {MAX_STARTS} times and never finished, so something about "
        "it stops them."
    ),
    "sender.unreadable": "What is stored cannot be sent by its channel.",
    "sender.accepted": "{attempt}: it was accepted.",
    "sender.provider_gives_no_receipts": "{attempt}: it was accepted.",
    "sender.transient": "{attempt}: it was not accepted, for a passing reason.",
    "sender.throttled": "{attempt}: {means}{wait}; the attempt is not counted.",
    "sender.blocked": (
        "A breaker was open, or its endpoint paused, by then, so no attempt was opened."
    ),
    "sender.blocked.open": "{attempt}: {means}; the attempt is not counted.",
    "sender.unknown": "{attempt}, so it may have been accepted.",
    "sender.rejected": "{attempt}: the provider rejected it for good.",
    "sender.refused": "{attempt}: {means}.",
    "sender.budget_spent": "{attempt}: it was not accepted, and no attempt is left.",
    "sender.outcome_unknown": (
        "{attempt}. One of its attempts may have been accepted, and another could send it twice."
    ),
    "sender.waited_too_long": "{attempt}: the provider has asked to wait for too long by now.",
    "sweeper.lease_expired": (
        "Nothing was heard of the lease in time; no attempt was open under it, so nothing was sent."
    ),
    "sweeper.lease_expired.open": (
        "The sender was not heard of again while {number} was open, so it may have been accepted."
    ),
    "sweeper.expired": "Its time to be sent passed while it waited.",
    "reconcile.no_receipt_by_cutoff": (
        "The provider accepted it and did not report by the cutoff what became of it."
    ),
    "reconcile.outcome_unknown": (
        "No evidence came in the time it was waited for, and it may not be tried again by itself."
    ),
    "reconcile.expired": (
        "No evidence came in the time it was waited for, and its time to be sent has passed."
    ),
    "reconcile.never_accepted": "The provider was asked, and said that it never accepted it.",
    "reconcile.grace_over": "No evidence came in the time it was waited for.",
    "report": "{report}.",
    "operator.requeued": "{operator} requeued it{consent}; its attempts are counted anew.",
    "operator.discarded": "{operator} discarded it{note}.",
    "operator.settled_accepted": (
        "{operator} settled the doubt{note}: the provider did accept it."
    ),
    "operator.settled_delivered": "{operator} settled the doubt{note}: it did arrive.",
    "operator.settled_not_accepted": (
        "{operator} settled the doubt{note}: the provider did not accept it."
    ),
    "operator.settled_hold": "{operator} ended the wait for evidence{note}.",
    "operator.restored": (
        "{operator} marked it after the database was restored: it may have been sent in the time "
        "that was lost."
    ),
    "operator.hold_released": "{operator} released the hold it waited under.",
    "operator.hold_discarded": "{operator} discarded the hold it waited under.",
    "operator.replayed": "{operator} had the stored reports read again by the rules of today.",
    "operator.replayed.told": (
        "{operator} had the stored reports read again by the rules of today. {report}."
    ),
}

UNMADE_CAUSES: dict[str, str] = {
    "sender.rejected": "{attempt}: as it is, it can never be sent.",
    "sender.blocked.open": "{attempt}; the attempt is not counted.",
    "sender.waited_too_long": "{attempt}: it has waited for too long by now.",
}
"""In place of those, where no request was made: no provider answered."""

ENDS: dict[str, str] = {
    Status.PENDING: "It goes back to waiting{again}.",
    Status.LEASED: "It was taken up for sending.",
    Status.UNCERTAIN: "It waits for evidence{until}, if any can come, before it may be sent again.",
    Status.SUBMITTED: "Its delivery is not confirmed yet.",
    Status.DELIVERED: "It was delivered.",
    Status.FAILED: "It was accepted and could not be delivered.",
    Status.UNCONFIRMED: "One of its attempts may have been accepted: it is not sent again.",
    Status.SUPPRESSED: "It is not sent.",
    Status.CANCELLED: "",
    Status.EXPIRED: "It is not sent any more.",
    Status.DEAD: "It is held for a person to look at.",
}

_SAME_KEY = "It is tried again under the same key, which the provider recognises{again}."
_FOR_A_PERSON = "It is held for a person to decide."

OWN_ENDS: dict[tuple[str, str], str] = {
    ("sender.accepted", Status.DELIVERED): "At this provider to accept is to deliver.",
    ("sender.provider_gives_no_receipts", Status.UNCONFIRMED): (
        "The provider gives no reports of delivery, so nothing will confirm it."
    ),
    ("sender.unknown", Status.PENDING): _SAME_KEY,
    ("sender.unknown", Status.UNCERTAIN): (
        "The provider could not tell a repetition from a second message: it waits for "
        "evidence{until}, if any can come, before it may be sent again."
    ),
    ("sender.outcome_unknown", Status.DEAD): _FOR_A_PERSON,
    ("sender.key_window_over", Status.DEAD): _FOR_A_PERSON,
    ("sender.provider_changed", Status.DEAD): _FOR_A_PERSON,
    ("sweeper.lease_expired.open", Status.PENDING): _SAME_KEY,
    ("sweeper.lease_expired.open", Status.DEAD): (
        "No attempt is left, and another could send it twice: it is held for a person to decide."
    ),
    ("sweeper.lease_expired.open", Status.UNCONFIRMED): (
        "The next try would come after its time to be sent: it is not sent again."
    ),
    ("reconcile.no_receipt_by_cutoff", Status.UNCONFIRMED): "Waiting has ended.",
    ("reconcile.outcome_unknown", Status.DEAD): _FOR_A_PERSON,
    ("reconcile.grace_over", Status.PENDING): (
        "It is tried again, as its provider's keys or its channel's policy allow{again}."
    ),
    ("reconcile.grace_over", Status.DEAD): (
        "Its channel's policy is not to risk a second message: it is held for a person to decide."
    ),
    ("report", Status.SUPPRESSED): (
        "The provider's own suppression list forbids the address, which is suppressed here as well "
        "from now on."
    ),
    ("policy.mix_shifted", Status.PENDING): "It is on hold until a person has looked at them.",
    ("operator.requeued", Status.PENDING): "It waits to be sent{again}.",
    ("operator.hold_released", Status.PENDING): "It waits to be sent{again}.",
    ("operator.discarded", Status.DEAD): "It rests as it is; only evidence can still change it.",
    ("operator.settled_delivered", Status.DELIVERED): "It counts as delivered.",
    ("operator.settled_hold", Status.DEAD): _FOR_A_PERSON,
}

_PASSED_ON = "It is passed on to {passed_on} at once, without an attempt spent."
_INSTEAD = "The next attempt was made with {instead}."

AFTERWARDS: dict[tuple[str, str | None], str] = {
    (Status.PENDING, None): "It was waiting for another try, which is not made.",
    (Status.UNCERTAIN, None): "That settles the doubt.",
    (Status.DEAD, None): "It had been dead until then.",
    (Status.UNCONFIRMED, None): "It had ended unconfirmed before.",
    (Status.EXPIRED, None): "It had expired before, and proof of acceptance counts all the same.",
    (Status.DELIVERED, Status.FAILED): "That outweighs the earlier proof of delivery.",
    (Status.DELIVERED, Status.SUPPRESSED): "That outweighs the earlier proof of delivery.",
    (Status.FAILED, Status.SUPPRESSED): "That outweighs the failure that was reported before.",
    (Status.SUPPRESSED, Status.FAILED): (
        "It happened before the provider's own suppression list was asked, and so it decides."
    ),
    (Status.FAILED, Status.DELIVERED): "That outweighs the failure that was reported before.",
    (Status.FAILED, Status.SUBMITTED): "The failure that was reported before no longer counts.",
    (Status.DELIVERED, Status.SUBMITTED): "The earlier proof of delivery no longer counts.",
}
"""What proof means for where it was, by status before and, where it matters, after."""

_PROVES = frozenset(
    {
        "report",
        "sender.accepted",
        "sender.provider_gives_no_receipts",
        "operator.replayed",
        "operator.replayed.told",
    }
)


def cause_of(step: Step) -> str | None:
    """Return the name of the step's cause in ``CAUSES``; None for one without words of its own."""
    cause = f"{step.actor}.{step.reason}"
    if step.actor in ("client", "policy"):
        return cause if cause in CAUSES else step.actor
    if step.actor == "provider" or (step.receipt_id is not None and step.actor != "operator"):
        return "report"
    if step.attempt_id is not None and f"{cause}.open" in CAUSES:
        return f"{cause}.open"
    if step.receipt_id is not None and f"{cause}.told" in CAUSES:
        return f"{cause}.told"
    return cause if cause in CAUSES else None


def sentence(step: Step, evidence: Evidence) -> str:
    """Return what a stored transition means."""
    cause = cause_of(step)
    end = OWN_ENDS.get((cause or "", step.to_status), ENDS[step.to_status])
    if cause is None:
        because = f" ({step.reason})" if step.reason and step.reason != step.to_status else ""
        parts = [f"It changed from {step.from_status} to {step.to_status}{because}.", end]
    else:
        unmade = UNMADE_CAUSES.get(cause) if evidence.is_unmade else None
        parts = [unmade or CAUSES[cause], *_ahead(evidence, end)]
    if cause in _PROVES and step.from_status != step.to_status:
        after = AFTERWARDS.get((step.from_status, step.to_status))
        parts.append(after or AFTERWARDS.get((step.from_status, None), ""))
    return " ".join(_filled(part, step, evidence) for part in parts if part)


def _ahead(evidence: Evidence, end: str) -> list[str]:
    """Return where the change leads, and to whom."""
    if evidence.passed_on:
        return [_PASSED_ON]
    return [end, _INSTEAD] if evidence.instead else [end]


def _filled(text: str, step: Step, evidence: Evidence) -> str:
    """Fill the places; what is filled in is not read for places again."""
    return text.format(
        reason=step.reason or "no reason given",
        attempt=evidence.attempt,
        number=evidence.number,
        wait=evidence.wait,
        means=meaning(step.reason, evidence.scope),
        passed_on=evidence.passed_on,
        instead=evidence.instead,
        report=evidence.report,
        operator=evidence.operator,
        consent=evidence.consent,
        note=evidence.note,
        again=evidence.again,
        until=evidence.until,
    )
