"""What the OpenAPI document says of each route, beyond the table of routes."""

from dataclasses import dataclass, field
from typing import Any

from functions.ingest import (
    accept,
    answers,
    browse,
    cancel,
    documents,
    health,
    schemas,
    suppressions,
    unsubscribe,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What the document says of a route beyond the table of routes."""

    name: str
    summary: str
    tag: str
    answers: dict[int, Any]
    """By status: the shape of the answer, or the media type of one that is not JSON."""
    body: Any = None
    form: dict[str, str] = field(default_factory=dict[str, str])
    """The fields of a body that may also be left out, with their values."""
    codes: tuple[str, ...] = ()
    """Problems beyond those that every route has."""
    parameters: dict[str, bool] = field(default_factory=dict[str, bool])
    has_key: bool = False


_BODY_CODES = ("malformed_json", "too_large", "unsupported_media_type", "validation_failed")
_KEY_CODES = (
    *_BODY_CODES,
    "idempotency_key_missing",
    "idempotency_key_invalid",
    "idempotency_key_reused",
    "event_id_conflict",
    "not_supported_yet",
)
_LIST_CODES = ("invalid_parameter", "invalid_cursor", "use_cursor")

OPERATIONS: dict[Any, Operation] = {
    accept.post_batch: Operation(
        name="sendBatch",
        summary="Send a batch of 1 to 1000 notifications: all of them are accepted, or none",
        tag="Sending",
        answers={202: answers.AcceptedBatch},
        body=schemas.BatchRequest,
        codes=_KEY_CODES,
        has_key=True,
    ),
    accept.post_notification: Operation(
        name="sendNotification",
        summary="Send one notification",
        tag="Sending",
        answers={202: answers.Notification},
        body=schemas.Item,
        codes=_KEY_CODES,
        has_key=True,
    ),
    accept.post_dry_run: Operation(
        name="dryRun",
        summary="Not supported yet: what would happen to a batch",
        tag="Sending",
        answers={},
        codes=("not_supported_yet",),
    ),
    browse.list_notifications: Operation(
        name="listNotifications",
        summary="List notifications, newest first",
        tag="Reading",
        answers={200: answers.NotificationPage},
        codes=_LIST_CODES,
        parameters=browse.LIST_PARAMETERS,
    ),
    browse.get_notification: Operation(
        name="getNotification",
        summary="Read a notification with its attempts, receipts and timeline",
        tag="Reading",
        answers={200: answers.Notification},
        codes=("not_found",),
    ),
    browse.get_batch: Operation(
        name="getBatch",
        summary="Read what became of a batch",
        tag="Reading",
        answers={200: answers.Batch},
        codes=("not_found",),
    ),
    cancel.post_cancel: Operation(
        name="cancelNotification",
        summary="Cancel a notification, unless it may have been sent",
        tag="Stopping",
        answers={200: answers.Notification},
        codes=("not_found", "too_late", *_BODY_CODES),
    ),
    cancel.post_batch_cancel: Operation(
        name="cancelBatch",
        summary="Cancel whatever of a batch can still be cancelled",
        tag="Stopping",
        answers={200: answers.BatchCancelled},
        codes=("not_found", *_BODY_CODES),
    ),
    suppressions.post_suppression: Operation(
        name="suppress",
        summary="Forbid to contact a recipient",
        tag="Suppressions",
        answers={200: answers.Suppression, 201: answers.Suppression},
        body=schemas.SuppressionRequest,
        codes=_BODY_CODES,
    ),
    suppressions.list_suppressions: Operation(
        name="listSuppressions",
        summary="List suppression facts, newest first",
        tag="Suppressions",
        answers={200: answers.SuppressionPage},
        codes=_LIST_CODES,
        parameters=suppressions.LIST_PARAMETERS,
    ),
    suppressions.post_lift: Operation(
        name="liftSuppression",
        summary="Allow to contact a recipient again",
        tag="Suppressions",
        answers={200: answers.Suppression},
        body=schemas.LiftRequest,
        codes=("not_found", *_BODY_CODES),
    ),
    unsubscribe.get_unsubscribe: Operation(
        name="showUnsubscribe",
        summary="Show what an unsubscribe link stops; changes nothing",
        tag="Suppressions",
        answers={200: "text/html"},
        codes=("not_found", "unavailable"),
    ),
    unsubscribe.head_unsubscribe: Operation(
        name="headUnsubscribe",
        summary="Say whether an unsubscribe link works; changes nothing",
        tag="Suppressions",
        answers={200: "text/html"},
        codes=("not_found", "unavailable"),
    ),
    unsubscribe.post_unsubscribe: Operation(
        name="unsubscribe",
        summary="Stop the category of an unsubscribe link, by its form or by one click (RFC 8058)",
        tag="Suppressions",
        answers={200: "text/html"},
        form={"List-Unsubscribe": "One-Click"},
        codes=("not_found", "malformed_json", "too_large", "unavailable"),
    ),
    health.get_health: Operation(
        name="health",
        summary="Say whether the service and its database work",
        tag="About",
        answers={200: answers.Health},
    ),
    documents.get_openapi: Operation(
        name="openapi", summary="This document", tag="About", answers={200: dict[str, Any]}
    ),
    documents.get_docs: Operation(
        name="docs", summary="A page that shows it", tag="About", answers={200: "text/html"}
    ),
}
"""By the function that serves the route."""
