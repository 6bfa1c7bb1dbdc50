"""How notifications, batches and suppressions look in answers; times in UTC with a Z."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from functions.core.forecast import is_held, next_of, next_of_parent
from functions.core.states import FINAL, HELD
from functions.core.timeline import Entry, timeline
from functions.store.batch import AcceptedBatch, Batch
from functions.store.browse import Attempt, Child, History, Notification, Receipt
from functions.store.cancel import BatchCancelled
from functions.store.suppression import Suppression


def write(value: Any) -> str:
    """Return ``value`` as JSON text."""
    try:
        return orjson.dumps(value, option=orjson.OPT_UTC_Z).decode()
    except TypeError:  # an integer beyond 64 bits in somebody's content
        import json  # seldom

        return json.dumps(value, default=_plain, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> str:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case UUID():
            return str(value)
        case _:
            raise TypeError(f"{type(value).__name__} has no form in JSON.")


def accepted_batch(batch: AcceptedBatch) -> dict[str, Any]:
    duplicates = frozenset(batch.duplicate_indexes)
    return {
        "batch_id": batch.batch_id,
        "status": "accepted",
        "total_count": len(batch.notification_ids),
        "accepted_at": batch.accepted_at,
        "notifications": [
            {"index": index, "id": notification_id, "duplicate": index in duplicates}
            for index, notification_id in enumerate(batch.notification_ids)
        ],
    }


def batch_status(batch: Batch) -> dict[str, Any]:
    counts: dict[str, int] = {}
    by_channel: dict[str, dict[str, int]] = {}
    for count in batch.counts:
        counts[count.status] = counts.get(count.status, 0) + count.number
        by_channel.setdefault(count.channel, {})[count.status] = count.number
    completed_at = None
    if all(count.status in FINAL | HELD for count in batch.counts):
        status = "completed"
        completed_at = max((count.settled_at for count in batch.counts), default=batch.accepted_at)
    elif any(count.claimed for count in batch.counts):
        status = "processing"
    else:
        status = "accepted"
    return {
        "batch_id": batch.id,
        "status": status,
        "total_count": batch.total_count,
        "counts": counts,
        "counts_by_channel": by_channel,
        "accepted_at": batch.accepted_at,
        "completed_at": completed_at,
    }


def batch_cancelled(cancelled: BatchCancelled) -> dict[str, int]:
    return {
        "cancelled": cancelled.cancelled,
        "too_late": cancelled.too_late,
        "already_cancelled": cancelled.already_cancelled,
    }


def notification_summary(notification: Notification) -> dict[str, Any]:
    """Return the members that a list shows."""
    return {
        "id": notification.id,
        "batch_id": notification.batch_id,
        "index": notification.batch_index,
        "status": notification.status,
        "reason": notification.reason,
        "channel": notification.channel,
        "recipient": notification.recipient,
        "recipient_id": notification.recipient_id,
        "priority": notification.priority,
        "category": notification.category,
        "event_id": notification.event_id,
        "reference": notification.reference,
        "idempotency_key": _provider_key(notification),
        "metadata": notification.metadata,
        "send_at": notification.send_at,
        "expires_at": notification.expires_at,
        "available_at": notification.available_at,
        "attempts_spent": notification.attempts_spent,
        "max_attempts": notification.max_attempts,
        "created_at": notification.created_at,
        "updated_at": notification.updated_at,
        "final_at": notification.final_at,
        "complained": notification.complained,
        "held": is_held(notification),
        "hold_id": notification.hold_id,
        "parent_id": notification.parent_id,
        "next": _next(notification),
    }


def notification_detail(history: History) -> dict[str, Any]:
    """Return everything: what was asked, what was tried, what was reported, and the story."""
    notification = history.notification
    return {
        **notification_summary(notification),
        "content": None if notification.template_name else notification.content,
        "template": _template(notification),
        "children": [child.id for child in history.children],
        "attempts": [
            _attempt(number, attempt) for number, attempt in enumerate(history.attempts, start=1)
        ],
        "receipts": [_receipt(receipt) for receipt in history.receipts],
        "timeline": [_entry(entry) for entry in _timeline(history)],
    }


def _template(notification: Notification) -> dict[str, Any] | None:
    """Return the words by name, in the version that is sent; what is erased has no data."""
    if notification.template_name is None:
        return None
    asked: Any = notification.content
    return {
        "name": notification.template_name,
        "version": notification.template_version,
        "data": asked["data"] if isinstance(asked, dict) else None,
    }


def _provider_key(notification: Notification) -> str:
    epoch = notification.key_epoch
    return f"{notification.id}.{epoch}" if epoch else str(notification.id)


def _next(notification: Notification) -> dict[str, Any] | None:
    """Return what happens next by itself, and when; None when nothing will."""
    if notification.channels is None:
        after = next_of(notification)
    else:
        after = next_of_parent(notification, next_step_at=notification.next_step_at, shown=None)
    return None if after is None else {"action": after.action, "at": after.at}


def _attempt(number: int, attempt: Attempt) -> dict[str, Any]:
    return {
        "id": attempt.id,
        "number": number,
        "lease_number": attempt.lease_number,
        "provider": attempt.provider,
        "started_at": attempt.started_at,
        "finished_at": attempt.finished_at,
        "outcome": attempt.outcome,
        "reference": attempt.reference,
        "http_status": attempt.http_status,
        "code": attempt.code,
        "detail": attempt.detail,
        "retry_after_seconds": attempt.retry_after_seconds,
    }


def _receipt(receipt: Receipt) -> dict[str, Any]:
    return {
        "id": receipt.id,
        "received_at": receipt.received_at,
        "occurred_at": receipt.occurred_at,
        "type": receipt.type,
        "reference": receipt.reference,
        "reason": receipt.reason,
        "permanent": receipt.permanent,
        "applied": receipt.applied,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidates:
    """What a story of several channels is told by: nothing of what was decided."""

    place: int | None
    channels: Sequence[str] | None
    children: Sequence[Child]
    decision: None = None
    faults: Sequence[Mapping[str, str]] = ()


def _timeline(history: History) -> list[Entry]:
    """Return the story as its tenant may read it: operators have no name in it."""
    notification = history.notification
    return timeline(
        notification,
        attempts=history.attempts,
        receipts=history.receipts,
        transitions=history.transitions,
        decided=_Candidates(
            place=notification.place,
            channels=notification.channels,
            children=history.children,
        ),
        faults=history.faults,
        deliveries=history.deliveries,
    )


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "at": entry.at,
        "actor": entry.actor,
        "from": entry.from_status,
        "to": entry.to_status,
        "reason": entry.reason,
        "attempt_id": entry.attempt_id,
        "receipt_id": entry.receipt_id,
        "sentence": entry.sentence,
    }


def suppression(fact: Suppression) -> dict[str, Any]:
    return {
        "id": fact.id,
        "channel": fact.channel,
        "recipient": fact.recipient,
        "category": fact.category,
        "kind": fact.kind,
        "reason": fact.reason,
        "source": fact.source,
        "source_at": fact.source_at,
        "evidence": fact.evidence,
        "active": fact.active,
        "created_at": fact.created_at,
    }


def page(data: Sequence[Mapping[str, Any]], next_cursor: str | None) -> dict[str, Any]:
    return {"data": data, "next_cursor": next_cursor}
