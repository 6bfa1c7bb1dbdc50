"""Accept a batch or a single notification: all of it or nothing, once per idempotency key.

The items of every door end in ``accept_items``, or one by one in references.py: the same rules, and
the same rows.
"""

from typing import Any
from uuid import UUID

from functions.core.errors import ValidationFailed
from functions.ingest import representation
from functions.ingest.admission import admit_batch, admit_single
from functions.ingest.answer import Answer
from functions.ingest.deployment import Deployment
from functions.ingest.recognition import recognised
from functions.ingest.references import complete
from functions.ingest.request import Request
from functions.store import accept as store
from functions.store.browse import History
from functions.store.intent import NewNotification

BATCHES, SINGLE = "/v1/notifications/batches", "/v1/notifications"


def post_batch(request: Request, deployment: Deployment) -> Answer:
    """202 with the ids in input order; equal requests with the same key get the same answer."""
    request.parameters({})
    accepted = accept_items(
        deployment,
        organization_id=request.organization_id,
        route=BATCHES,
        key=request.idempotency_key(),
        body=request.json_body(),
    )
    text = representation.write(representation.accepted_batch(accepted.batch))
    return _accepted(text, replayed=accepted.replayed)


def accept_items(
    deployment: Deployment, *, organization_id: UUID, route: str, key: str, body: Any
) -> store.BatchAnswer:
    """Store the batch in ``body``, or return what an equal request with the same key stored before.

    What was accepted once is never refused when it is repeated, whatever became of the templates
    and recipients that it refers to. Raises ValidationFailed with every fault, EventIdConflict,
    IdempotencyKeyReused, Unavailable.
    """
    judged = admit_batch(body, door=deployment.door)
    request = recognised(organization_id, route=route, key=key, body=body)
    try:
        notifications = complete(judged, deployment, organization_id, pointer=store.IN_BATCH)
    except ValidationFailed:
        if not all(isinstance(one, NewNotification) for one in judged):
            raise  # it was never accepted
        first = store.replay_batch(deployment.database, request=request)
        if first is None:
            raise
        return first
    return store.accept_batch(deployment.database, request=request, notifications=notifications)


def post_notification(request: Request, deployment: Deployment) -> Answer:
    """202 with the notification."""
    request.parameters({})
    key, body = request.idempotency_key(), request.json_body()
    admitted = admit_single(body, door=deployment.door)
    what = recognised(request.organization_id, route=SINGLE, key=key, body=body)
    try:
        (notification,) = complete(
            [admitted], deployment, request.organization_id, pointer=store.ALONE
        )
    except ValidationFailed:
        first = store.replay_single(deployment.database, request=what, render=_render)
        if first is None:
            raise
        return _accepted(first.response, replayed=True)
    single = store.accept_single(
        deployment.database, request=what, notification=notification, render=_render
    )
    return _accepted(single.response, replayed=single.replayed)


def _render(history: History) -> str:
    return representation.write(representation.notification_detail(history))


def _accepted(text: str, *, replayed: bool) -> Answer:
    headers = {"Idempotent-Replayed": "true"} if replayed else {}
    return Answer(status=202, body=text, headers=headers)
