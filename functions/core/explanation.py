"""A notification explained to an operator: who changed what, when, on what evidence, what is next.

Plain values, fit for JSON: times in RFC 3339 with a Z, ids as strings. Neither the recipient nor
content is in it; what a provider or a client wrote is shown with the recipient struck out.
"""

import re
from collections.abc import Collection, Sequence, Set
from datetime import datetime
from typing import Any
from uuid import UUID

from functions.core.candidate_words import channel_words, shown_of
from functions.core.chain_told import Outcome, Standing, standing_of
from functions.core.decided_shown import (
    Strike,
    candidate_shown,
    decision_shown,
    faults_shown,
    template_shown,
)
from functions.core.evidence_words import suppression_words, why_unmade
from functions.core.forecast import is_held, next_of, next_of_parent, next_sentence
from functions.core.history import Attempt, Dossier, WeighedReceipt, WholeRow
from functions.core.remark import remarks, with_fates
from functions.core.states import Reason
from functions.core.summary import BECAUSE, summary
from functions.core.timeline import Entry, timeline
from functions.core.times import written

STRUCK_OUT = "[recipient]"
_OURS = frozenset({"claim", "policy", "sender"})
"""Actors whose sentences hold nobody else's words but a code."""
_COUNTRY = re.compile(r"\b[Ii]ts country\b")
_MAILBOX = r"[^\s<>\"'(),;:]+@[^\s<>\"'(),;:]+"
_NUMBER = r"\+[0-9]{7,15}\b"


def explain(
    dossier: Dossier, *, now: datetime, keyed_providers: Collection[str] = ()
) -> dict[str, Any]:
    """Return the whole story of a notification and what comes next, as of ``now``.

    ``keyed_providers`` are those that honour our key.
    """
    history, row = dossier.history, dossier.history.notification
    operators = frozenset(action.actor for action in dossier.operator_actions)
    decided = dossier.decided
    known = [one for one in (row.recipient, *decided.addresses) if one]
    strike = _striking_out(known, operators)
    steps = timeline(
        row,
        attempts=history.attempts,
        receipts=history.receipts,
        transitions=history.transitions,
        operator_actions=dossier.operator_actions,
        decide_at=row.decide_at,
        next_provider=dossier.way.next_provider,
        decided=decided,
        deliveries=dossier.deliveries,
    )
    standing = standing_of(dossier)
    waits = is_held(row) and (standing is None or standing.outcome is Outcome.OPEN)
    country = dossier.way.country
    entries = steps[:1] + sorted(steps[1:] + remarks(dossier, steps), key=lambda entry: entry.at)
    return {
        "notification": {
            **_notification(row, strike),
            "recipient_id": decided.recipient_id,
            "template": template_shown(dossier),
            "erased_at": written(decided.erased_at),
        },
        "summary": strike(
            _named(
                summary(
                    row.status,
                    reason=row.reason,
                    since=_since(row, steps),
                    discarded_at=row.discarded_at,
                    why=_why(dossier),
                ),
                country,
            )
        ),
        "decision": decision_shown(dossier),
        "parent": candidate_shown(decided.parent, strike),
        "children": [candidate_shown(one, strike, calls=is_held(row)) for one in decided.children],
        "chain": _chain(standing),
        "waits_for_person": waits,
        "faults": faults_shown(dossier, strike),
        "timeline": [_entry(entry, strike, country) for entry in with_fates(history, entries)],
        "attempts": [
            _attempt(number, attempt, strike)
            for number, attempt in enumerate(history.attempts, start=1)
        ],
        "receipts": [_receipt(receipt, strike) for receipt in history.receipts],
        "next": _next(dossier, now, keyed_providers),
    }


def _id(id: UUID | None) -> str | None:
    return None if id is None else str(id)


def _since(row: WholeRow, steps: list[Entry]) -> datetime:
    """Return when it came to the status it has."""
    times = [
        entry.at
        for entry in steps
        if entry.to_status == row.status and entry.from_status != entry.to_status
    ]
    return times[-1] if times else row.updated_at


def _named(text: str, country: str | None) -> str:
    """Return ``text`` with its country named wherever it speaks of it."""
    return _COUNTRY.sub(lambda found: f"{found[0]} ({country})", text) if country else text


def _chain(standing: Standing | None) -> dict[str, Any] | None:
    """Return what became of the notification that it is a candidate of."""
    if standing is None:
        return None
    return {
        "outcome": standing.outcome,
        "channel": standing.channel,
        "status": standing.status,
        "is_over": standing.is_over,
    }


def _why(dossier: Dossier) -> str | None:
    """Return what is known beyond the reason on its row; of a parent, of which candidate."""
    row = dossier.history.notification
    why = _of_itself(dossier)
    if not dossier.decided.channels or row.reason in (None, Reason.ERASED):
        return why
    by = channel_words(row.channel)
    why = why or BECAUSE.get(row.reason, row.reason)
    return f"{why.replace('its channel', by)} (its candidate by {by})"


def _of_itself(dossier: Dossier) -> str | None:
    attempts, way = dossier.history.attempts, dossier.way
    match dossier.history.notification.reason:
        case Reason.SUPPRESSED if points := _points(dossier):
            return "; ".join(points)
        case Reason.SUPPRESSED if way.suppression is not None:
            return suppression_words(way.suppression)
        case Reason.REJECTED if attempts and (why := why_unmade(attempts[-1])):
            return f"no request was made, because {why}"
        case Reason.WAITED_TOO_LONG if attempts and (why := why_unmade(attempts[-1])):
            return f"it waited for too long, and no request was made, because {why}"
        case _:
            return None


def _points(dossier: Dossier) -> list[str]:
    """Return which of the recipient's contact points are suppressed, since when, and why."""
    channel = dossier.history.notification.channel
    return [
        suppression_words(
            one,
            whom=f"contact point {one.number} of the recipient"
            if one.count > 1
            else "the contact point of the recipient",
        )
        for one in dossier.way.suppressed_points
        if one.channel == channel
    ]


def _striking_out(recipients: Sequence[str], operators: Set[str]) -> Strike:
    """Return what takes the recipient, and whatever looks like a mailbox or a telephone number, out
    of a text: behind a reference there may have been another address.

    The names of ``operators`` may look like one too, and are what an explanation is read for.
    """
    hidden = {form for one in recipients for form in (one, one.removeprefix("+"))}
    spelt = [re.escape(one) for one in sorted(hidden, key=len, reverse=True)]
    pattern = re.compile("|".join([*spelt, _MAILBOX, _NUMBER]), re.IGNORECASE)

    def struck(found: re.Match[str]) -> str:
        is_operator = any(found[0] in operator for operator in operators)
        return found[0] if is_operator else STRUCK_OUT

    return lambda text: None if text is None else pattern.sub(struck, text)


def _notification(row: WholeRow, strike: Strike) -> dict[str, Any]:
    key = f"{row.id}.{row.key_epoch}" if row.key_epoch else str(row.id)
    return {
        "id": str(row.id),
        "organization_id": str(row.organization_id),
        "batch_id": _id(row.batch_id),
        "status": row.status,
        "reason": strike(row.reason),
        "channel": row.channel,
        "priority": row.priority,
        "category": row.category,
        "event_id": strike(row.event_id),
        "reference": strike(row.reference),
        "idempotency_key": key,
        "send_at": written(row.send_at),
        "expires_at": written(row.expires_at),
        "available_at": written(row.available_at),
        "attempts_spent": row.attempts_spent,
        "max_attempts": row.max_attempts,
        "in_doubt": row.in_doubt,
        "created_at": written(row.created_at),
        "updated_at": written(row.updated_at),
        "final_at": written(row.final_at),
        "discarded_at": written(row.discarded_at),
        "complained": row.complained,
        "held": is_held(row),
        "hold_id": _id(row.hold_id),
        "parent_id": _id(row.parent_id),
    }


def _entry(entry: Entry, strike: Strike, country: str | None) -> dict[str, Any]:
    sentence = _named(entry.sentence, country) if entry.actor in _OURS else entry.sentence
    return {
        "at": written(entry.at),
        "actor": entry.actor,
        "by": entry.by,
        "from": entry.from_status,
        "to": entry.to_status,
        "reason": strike(entry.reason),
        "attempt_id": _id(entry.attempt_id),
        "receipt_id": _id(entry.receipt_id),
        "sentence": strike(sentence),
    }


def _attempt(number: int, attempt: Attempt, strike: Strike) -> dict[str, Any]:
    return {
        "id": str(attempt.id),
        "number": number,
        "lease_number": attempt.lease_number,
        "provider": attempt.provider,
        "started_at": written(attempt.started_at),
        "finished_at": written(attempt.finished_at),
        "outcome": attempt.outcome,
        "reference": strike(attempt.reference),
        "http_status": attempt.http_status,
        "code": strike(attempt.code),
        "detail": strike(attempt.detail),
        "retry_after_seconds": attempt.retry_after_seconds,
        "scope": attempt.scope,
    }


def _receipt(receipt: WeighedReceipt, strike: Strike) -> dict[str, Any]:
    return {
        "id": str(receipt.id),
        "received_at": written(receipt.received_at),
        "occurred_at": written(receipt.occurred_at),
        "type": strike(receipt.type),
        "reference": strike(receipt.reference),
        "reason": strike(receipt.reason),
        "permanent": receipt.permanent,
        "complaint": receipt.complaint,
        "evidence_rank": receipt.evidence_rank,
        "applied": receipt.applied,
    }


def _next(
    dossier: Dossier, now: datetime, keyed_providers: Collection[str]
) -> dict[str, Any] | None:
    row, decided = dossier.history.notification, dossier.decided
    after = next_of(row)
    if decided.channels:
        after = next_of_parent(row, next_step_at=decided.next_step_at, shown=shown_of(decided))
    if after is None:
        return None
    return {
        "action": after.action,
        "at": written(after.at),
        "sentence": next_sentence(dossier, now=now, keyed_providers=keyed_providers),
    }
