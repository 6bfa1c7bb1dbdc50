"""Every route of the API: the one table that routing, access and the OpenAPI document read."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from functions.core.api_key import Scope
from functions.ingest import (
    accept,
    browse,
    cancel,
    documents,
    dry_run,
    health,
    recipients,
    suppressions,
    templates,
    unsubscribe,
)
from functions.ingest.answer import Answer
from functions.ingest.deployment import Deployment
from functions.ingest.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """``path`` as Powertools writes it; ``scope`` None needs no key at all."""

    method: str
    path: str
    scope: Scope | None
    serve: Callable[[Request, Deployment], Answer]

    def matches(self, path: str) -> bool:
        return re.fullmatch(re.sub(r"<\w+>", "[^/]+", self.path), path) is not None


ROUTES = (
    Route(
        method="POST",
        path=accept.BATCHES,
        scope=Scope.SEND,
        serve=accept.post_batch,
    ),
    Route(method="POST", path=accept.SINGLE, scope=Scope.SEND, serve=accept.post_notification),
    Route(method="GET", path=accept.SINGLE, scope=Scope.READ, serve=browse.list_notifications),
    Route(
        method="GET",
        path="/v1/notifications/<notification_id>",
        scope=Scope.READ,
        serve=browse.get_notification,
    ),
    Route(
        method="POST",
        path="/v1/notifications/<notification_id>/cancel",
        scope=Scope.SEND,
        serve=cancel.post_cancel,
    ),
    Route(method="POST", path=dry_run.PATH, scope=Scope.SEND, serve=dry_run.post_dry_run),
    Route(method="GET", path="/v1/batches/<batch_id>", scope=Scope.READ, serve=browse.get_batch),
    Route(
        method="POST",
        path="/v1/batches/<batch_id>/cancel",
        scope=Scope.SEND,
        serve=cancel.post_batch_cancel,
    ),
    Route(
        method="POST",
        path="/v1/suppressions",
        scope=Scope.ADMIN,
        serve=suppressions.post_suppression,
    ),
    Route(
        method="GET",
        path="/v1/suppressions",
        scope=Scope.READ,
        serve=suppressions.list_suppressions,
    ),
    Route(
        method="POST",
        path="/v1/suppressions/lift",
        scope=Scope.ADMIN,
        serve=suppressions.post_lift,
    ),
    Route(
        method="PUT",
        path=recipients.RECIPIENT,
        scope=Scope.ADMIN,
        serve=recipients.put_recipient,
    ),
    Route(
        method="GET",
        path=recipients.RECIPIENT,
        scope=Scope.READ,
        serve=recipients.get_recipient,
    ),
    Route(
        method="DELETE",
        path=recipients.RECIPIENT,
        scope=Scope.ADMIN,
        serve=recipients.delete_recipient,
    ),
    Route(method="POST", path=recipients.ERASE, scope=Scope.ADMIN, serve=recipients.post_erase),
    Route(
        method="POST",
        path=templates.VERSIONS,
        scope=Scope.ADMIN,
        serve=templates.post_version,
    ),
    Route(method="GET", path=templates.LIST, scope=Scope.READ, serve=templates.list_templates),
    Route(method="GET", path=templates.TEMPLATE, scope=Scope.READ, serve=templates.get_template),
    Route(method="GET", path=templates.VERSION, scope=Scope.READ, serve=templates.get_version),
    Route(method="POST", path=templates.PREVIEW, scope=Scope.ADMIN, serve=templates.post_preview),
    Route(method="POST", path=templates.ARCHIVE, scope=Scope.ADMIN, serve=templates.post_archive),
    Route(method="GET", path=unsubscribe.PATH, scope=None, serve=unsubscribe.get_unsubscribe),
    Route(method="HEAD", path=unsubscribe.PATH, scope=None, serve=unsubscribe.head_unsubscribe),
    Route(method="POST", path=unsubscribe.PATH, scope=None, serve=unsubscribe.post_unsubscribe),
    Route(method="GET", path="/v1/health", scope=None, serve=health.get_health),
    Route(method="GET", path="/v1/openapi.json", scope=None, serve=documents.get_openapi),
    Route(method="GET", path="/v1/docs", scope=None, serve=documents.get_docs),
)


CALLBACK = "/v1/callbacks/http"
"""Another function's route; every method but its own comes here."""


def methods_at(path: str) -> list[str]:
    """Return the methods that some route has at ``path``."""
    if path == CALLBACK:
        return ["POST"]
    return sorted({route.method for route in ROUTES if route.matches(path)})
