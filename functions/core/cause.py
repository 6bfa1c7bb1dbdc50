"""Causes: what made a notification change, in words, by who changed it and why.

A cause is named by the actor and the reason, as a transition stores both; ``.open`` is added where
the same reason tells of an attempt that was open, ``.told`` where it tells of a report. Places in
braces are filled from the evidence. What another party may name as its reason has one cause for
all: a provider's report, and what a candidate brings to its parent.
"""

from functions.core.history import Step
from functions.core.states import MAX_STARTS

CAUSES: dict[str, str] = {
    "accept.invalid": "What was asked for is not valid{faults}.",
    "client": "It was cancelled before anything was sent.",
    "client.erased": "The recipient was erased, as the organization asked.",
    "claim.not_dispatched": "It could not be handed to the queue; its lease was given back.",
    "claim.country_blocked": "Its country is blocked at the provider, so no attempt was opened.",
    "claim.endpoint_paused": "Its endpoint is paused, so no attempt was opened.",
    "claim.endpoint_busy": (
        "Its endpoint has failed, and as many calls to it as it gets at once were under way."
    ),
    "claim.sms_guard_failed": (
        "Whether its organization's SMS may go out could not be decided, so none did."
    ),
    "claim.unknown_time_zone": (
        "The recipient's time zone is none that is known here: what their clock shows cannot be "
        "told."
    ),
    "claim.retries_off": "Retries are off for its channel, and it was tried before.",
    "claim.lease_lost": "Somebody else had moved it by then.",
    "policy.opted_out": "The recipient opted out of {what}.",
    "policy.no_consent": (
        "The recipient never asked for {what}, and a bulk category is sent to nobody unasked."
    ),
    "policy.no_contact_point": "The recipient has no contact point for {channel}.",
    "policy.not_verified": (
        "The recipient has no verified contact point for {channel}, and a bulk category is sent to "
        "no other."
    ),
    "policy.contact_point_changed": (
        "An earlier attempt may have been accepted, at an address that is the recipient's no "
        "longer: to any other it would be a second message."
    ),
    "policy.suppressed": (
        "Every contact point that the recipient has for {channel} is on the suppression list."
    ),
    "policy.no_send_time": (
        "The recipient's quiet hours leave no moment of the send window of its category."
    ),
    "policy.erased": "The recipient was erased before it was taken up.",
    "policy.quiet_hours": "It was within the recipient's quiet hours.",
    "policy.outside_send_window": "It was outside the send window of its category.",
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
    "sender.changed": (
        "What it was decided from was changed since, so no attempt was opened: what is known of "
        "the recipient, the rules of its category, or what is suppressed."
    ),
    "sender.erased": "The recipient was erased, so no attempt was opened.",
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
    "fallback": "It follows its candidate{by}{because}.",
    "fallback.fallback_started": "{earlier} came to nothing, so the next one was started{started}.",
    "fallback.fallback_after": (
        "{earlier} was not delivered in the time it had, so the next one was started{started}."
    ),
    "fallback.fallback_delivered": (
        "Another candidate was delivered before anything of this one was sent."
    ),
    "fallback.fallback_double": (
        "Another candidate{by} was delivered as well: the recipient was told twice."
    ),
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

PROVES = frozenset(
    {
        "report",
        "sender.accepted",
        "sender.provider_gives_no_receipts",
        "operator.replayed",
        "operator.replayed.told",
    }
)
"""Causes that are evidence of acceptance or delivery."""


def cause_of(step: Step) -> str | None:
    """Return the name of the step's cause in ``CAUSES``; None for one without words of its own."""
    cause = f"{step.actor}.{step.reason}"
    if step.actor in ("client", "fallback"):
        return cause if cause in CAUSES else step.actor
    if step.actor == "provider" or (step.receipt_id is not None and step.actor != "operator"):
        return "report"
    if step.attempt_id is not None and f"{cause}.open" in CAUSES:
        return f"{cause}.open"
    if step.receipt_id is not None and f"{cause}.told" in CAUSES:
        return f"{cause}.told"
    return cause if cause in CAUSES else None
