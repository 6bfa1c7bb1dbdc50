"""The command that asks the policy again: what it said of a notification, and what it says now."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from functions.console.arguments import identifier, moment, optional, required
from functions.console.command import Command, Done, Equipment
from functions.console.explain import UNKNOWN, first_of
from functions.core.decision import inputs_of
from functions.core.errors import NotFound
from functions.core.policy import (
    POLICY_VERSION,
    Allow,
    Because,
    ContactPoint,
    Defer,
    Recipient,
    Suppress,
    decide,
)
from functions.core.policy_words import (
    Stored,
    changes_between,
    difference_words,
    stored_of,
    verdict_words,
)
from functions.store.verdict import Judged, read_judged

ERASED = "The recipient was erased: nothing is left that it could be sent to."
NEVER_ITSELF = "It is never sent itself: its candidates are decided, each when it is due."


def replay_policy(equipment: Equipment, *, id: UUID, at: datetime | None) -> Done:
    """Tell the stored verdict and today's, by today's policy and what is known today.

    ``at`` asks for another moment than now, with the facts of now. Nothing is changed.
    """
    judged = read_judged(equipment.database, notification_id=id)
    if judged is None:
        judged = read_judged(equipment.database, notification_id=first_of(equipment, id))
    if judged is None:
        raise NotFound(UNKNOWN)
    subject = judged.subject
    stored = stored_of(judged.decided, at=judged.at, reason=judged.reason)
    verdicts = [
        _today(judged, recipient, channel=channel, stored=stored, now=at or judged.now)
        for channel, recipient in judged.recipients.items()
    ]
    return Done(
        result={
            "id": subject.id,
            "status": subject.status,
            "is_over": subject.is_over,
            "recipient_id": subject.recipient_id,
            "category": subject.category,
            "stream": subject.stream,
            "priority": subject.priority,
            "is_parent": subject.channels is not None,
            "at": at or judged.now,
            "stored": _shown(stored, judged),
            "today": verdicts,
        },
        counts={"asked": len(verdicts)},
    )


def _shown(stored: Stored | None, judged: Judged) -> dict[str, Any] | None:
    if stored is None:
        return None
    return {
        "channel": judged.subject.channel,
        "verdict": stored.verdict,
        "reason": stored.reason,
        "policy_version": stored.policy_version,
        "at": stored.at,
        "inputs": stored.inputs or None,
    }


def _today(
    judged: Judged,
    recipient: Recipient | None,
    *,
    channel: str,
    stored: Stored | None,
    now: datetime,
) -> dict[str, Any]:
    """Return what the policy says of it by ``channel``, and how that differs from what was."""
    subject = judged.subject
    verdict = decide(subject, recipient, now=now)
    point = verdict.contact_point if isinstance(verdict, Allow) else None
    inputs = {} if subject.recipient_id is None else inputs_of(recipient, point, now=now)
    changes = changes_between(stored, inputs, is_allowed=isinstance(verdict, Allow))
    return {
        "channel": channel,
        "verdict": verdict.name,
        "reason": None if isinstance(verdict, Allow) else verdict.reason,
        "policy_version": POLICY_VERSION,
        "until": verdict.until if isinstance(verdict, Defer) else None,
        "locale": verdict.locale if isinstance(verdict, Allow) else None,
        "inputs": inputs or None,
        "contact_points": [
            {
                "verified": one.verified,
                "suppressed": one.is_suppressed,
                "suppression": _suppression(judged, one, channel=channel),
                "chosen": one is point,
            }
            for one in (recipient.contact_points if recipient else ())
        ],
        "changed": {name: {"was": was, "is": now} for name, (was, now) in changes.items()},
        "sentence": ERASED
        if isinstance(verdict, Suppress) and verdict.reason == Because.ERASED
        else verdict_words(verdict, subject, channel=channel, inputs=inputs, now=now),
        "difference": NEVER_ITSELF
        if subject.channels
        else difference_words(stored, verdict, changes),
    }


def _suppression(judged: Judged, point: ContactPoint, *, channel: str) -> dict[str, Any] | None:
    """Return why ``point`` is suppressed, and since when."""
    for one in judged.suppressed_points:
        if (one.channel, one.address_hash) == (channel, point.address_hash):
            return {
                "reason": one.reason,
                "source": one.source,
                "category": one.category,
                "created_at": one.created_at,
            }
    return None


COMMANDS: Mapping[str, Command] = {
    "policy": Command(
        parameters={"id": required(identifier), "at": optional(moment)}, run=replay_policy
    )
}
