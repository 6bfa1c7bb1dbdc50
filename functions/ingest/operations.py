"""What the OpenAPI document says of each route, beyond the table of routes."""

from dataclasses import dataclass, field
from typing import Any

from functions.ingest import (
    accept,
    answers,
    browse,
    cancel,
    documents,
    dry_run,
    health,
    recipient_schemas,
    recipients,
    schemas,
    suppressions,
    template_schemas,
    templates,
    unsubscribe,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What the document says of a route beyond the table of routes."""

    name: str
    summary: str
    tag: str
    answers: dict[int, Any]
    """By status: the shape of the answer, the media type of one that is not JSON, or None for no
    body."""
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
    dry_run.post_dry_run: Operation(
        name="dryRun",
        summary="Say what would become of a batch now; nothing is stored or counted",
        tag="Sending",
        answers={200: answers.DryRun},
        body=schemas.BatchRequest,
        codes=_BODY_CODES,
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
    recipients.put_recipient: Operation(
        name="putRecipient",
        summary="Write all there is to know of a recipient; what is equal changes nothing",
        tag="Recipients",
        answers={200: recipient_schemas.Recipient, 201: recipient_schemas.Recipient},
        body=recipient_schemas.RecipientDocument,
        codes=("not_found", *_BODY_CODES),
    ),
    recipients.get_recipient: Operation(
        name="getRecipient",
        summary="Read a recipient",
        tag="Recipients",
        answers={200: recipient_schemas.Recipient},
        codes=("not_found",),
    ),
    recipients.delete_recipient: Operation(
        name="eraseRecipient",
        summary="Erase a recipient: what waits for them ends, and no address of theirs is left",
        tag="Recipients",
        answers={204: None},
        codes=("not_found", *_BODY_CODES),
    ),
    recipients.post_erase: Operation(
        name="eraseAddress",
        summary="Erase an address: what waits for it ends, and nothing is left that names it",
        tag="Recipients",
        answers={200: recipient_schemas.Erased},
        body=recipient_schemas.EraseRequest,
        codes=_BODY_CODES,
    ),
    templates.post_version: Operation(
        name="addTemplateVersion",
        summary="Make a version of a template; 200 with the latest one when it is equal",
        tag="Templates",
        answers={200: template_schemas.AddedVersion, 201: template_schemas.AddedVersion},
        body=template_schemas.VersionRequest,
        codes=_BODY_CODES,
    ),
    templates.list_templates: Operation(
        name="listTemplates",
        summary="List templates in the order of their names",
        tag="Templates",
        answers={200: template_schemas.TemplatePage},
        codes=_LIST_CODES,
        parameters=templates.LIST_PARAMETERS,
    ),
    templates.get_template: Operation(
        name="getTemplate",
        summary="Read a template with the words of its latest version",
        tag="Templates",
        answers={200: template_schemas.TemplateDetail},
        codes=("not_found",),
    ),
    templates.get_version: Operation(
        name="getTemplateVersion",
        summary="Read a version of a template, as it was made",
        tag="Templates",
        answers={200: template_schemas.TemplateVersion},
        codes=("not_found",),
    ),
    templates.post_preview: Operation(
        name="previewTemplate",
        summary="Show the words that a recipient would get; nothing is stored or sent",
        tag="Templates",
        answers={200: template_schemas.Preview},
        body=template_schemas.PreviewRequest,
        codes=("not_found", *_BODY_CODES),
    ),
    templates.post_archive: Operation(
        name="archiveTemplate",
        summary="Accept nothing new with a template; what was accepted is sent",
        tag="Templates",
        answers={200: template_schemas.TemplateSummary},
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
