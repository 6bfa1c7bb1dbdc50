"""Withdraw a notification or a batch."""

from functions.ingest import representation
from functions.ingest.answer import Answer, answer
from functions.ingest.deployment import Deployment
from functions.ingest.request import Request
from functions.store import cancel as store


def post_cancel(request: Request, deployment: Deployment) -> Answer:
    """200 with the notification, again too; 409 when it may have been sent."""
    request.parameters({})
    request.no_body()
    history = store.cancel_notification(
        deployment.database,
        organization_id=request.organization_id,
        notification_id=request.path_id("notification_id"),
    )
    return answer(200, representation.notification_detail(history))


def post_batch_cancel(request: Request, deployment: Deployment) -> Answer:
    """200 with how many were withdrawn, were too late, or had been withdrawn before."""
    request.parameters({})
    request.no_body()
    cancelled = store.cancel_batch(
        deployment.database,
        organization_id=request.organization_id,
        batch_id=request.path_id("batch_id"),
    )
    return answer(200, representation.batch_cancelled(cancelled))
