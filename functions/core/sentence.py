"""What a change of a notification means, in a sentence or two: its cause, and where that leads.

Places in braces are filled from the evidence.
"""

from dataclasses import dataclass

from functions.core.cause import CAUSES, PROVES, UNMADE_CAUSES, cause_of
from functions.core.evidence_words import UNMADE, meaning
from functions.core.history import Step
from functions.core.states import Status


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
    what: str = "its category on its channel"
    """What the recipient may have a say in."""
    channel: str = "its channel"
    deferral: str = ""
    """Why its time has not come, and when it will: a whole sentence, while that is ahead."""
    faults: str = ""
    """How much is wrong with what was asked for."""
    by: str = ""
    """By which channel a candidate goes."""
    earlier: str = "The candidate before"
    started: str = ""
    """Which candidate was started."""

    @property
    def is_unmade(self) -> bool:
        """Whether its attempt ended before any request, as its words tell."""
        return UNMADE in self.attempt


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
    ("accept.invalid", Status.DEAD): "As it is it can never be sent: it is held for a person.",
    ("client.erased", Status.SUPPRESSED): (
        "It is not sent, and neither its address nor its words are kept."
    ),
    ("fallback", Status.PENDING): "It waits to be sent.",
    ("fallback", Status.UNCERTAIN): "It may or may not have been accepted there.",
    ("fallback.fallback_delivered", Status.CANCELLED): "It was withdrawn.",
    ("fallback.fallback_started", Status.PENDING): "It waits to be sent there.",
    ("fallback.fallback_after", Status.PENDING): "It waits to be sent there.",
    ("policy.mix_shifted", Status.PENDING): "It is on hold until a person has looked at them.",
    ("policy.quiet_hours", Status.PENDING): "It waits until they are over{again}.",
    ("policy.outside_send_window", Status.PENDING): "It waits until that opens{again}.",
    ("sender.changed", Status.PENDING): "It is decided anew, by what is known now{again}.",
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


def sentence(step: Step, evidence: Evidence) -> str:
    """Return what a stored transition means."""
    cause = cause_of(step)
    end = OWN_ENDS.get((cause or "", step.to_status), ENDS[step.to_status])
    if cause is None:
        parts = [f"It changed from {step.from_status} to {step.to_status}{{because}}.", end]
    elif evidence.deferral:
        parts = ["{deferral}"]
    else:
        unmade = UNMADE_CAUSES.get(cause) if evidence.is_unmade else None
        parts = [unmade or CAUSES[cause], *_ahead(evidence, end)]
    if cause in PROVES and step.from_status != step.to_status:
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
        deferral=evidence.deferral,
        what=evidence.what,
        channel=evidence.channel,
        faults=evidence.faults,
        because=_because(step),
        by=evidence.by,
        earlier=evidence.earlier,
        started=evidence.started,
    )


def _because(step: Step) -> str:
    return f" ({step.reason})" if step.reason and step.reason != step.to_status else ""
