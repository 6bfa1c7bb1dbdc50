"""Accept a batch or a single notification: all of it or nothing, once per idempotency key."""

import hashlib
import json
from typing import Any

import orjson

from functions.core.problem import Refused
from functions.ingest import representation
from functions.ingest.admission import admit_batch, admit_single
from functions.ingest.answer import Answer
from functions.ingest.deployment import Deployment
from functions.ingest.request import Request
from functions.store import accept as store
from functions.store import idempotency
from functions.store.browse import History

BATCHES, SINGLE = "/v1/notifications/batches", "/v1/notifications"


def post_batch(request: Request, deployment: Deployment) -> Answer:
    """202 with the ids in input order; equal requests with the same key get the same answer."""
    request.parameters({})
    key, body = request.idempotency_key(), request.json_body()
    accepted = store.accept_batch(
        deployment.database,
        request=_recognised(request, BATCHES, key, body),
        notifications=admit_batch(body, door=deployment.door),
    )
    text = representation.write(representation.accepted_batch(accepted.batch))
    return _accepted(text, replayed=accepted.replayed)


def post_notification(request: Request, deployment: Deployment) -> Answer:
    """202 with the notification."""
    request.parameters({})
    key, body = request.idempotency_key(), request.json_body()
    single = store.accept_single(
        deployment.database,
        request=_recognised(request, SINGLE, key, body),
        notification=admit_single(body, door=deployment.door),
        render=_render,
    )
    return _accepted(single.response, replayed=single.replayed)


def post_dry_run(request: Request, deployment: Deployment) -> Answer:
    """Not supported yet; the route exists so that the answer can say so."""
    del request, deployment
    raise Refused("not_supported_yet", "A dry run is not supported yet.")


def _render(history: History) -> str:
    return representation.write(representation.notification_detail(history))


def _accepted(text: str, *, replayed: bool) -> Answer:
    headers = {"Idempotent-Replayed": "true"} if replayed else {}
    return Answer(status=202, body=text, headers=headers)


def _recognised(request: Request, route: str, key: str, body: Any) -> idempotency.Request:
    return idempotency.Request(
        organization_id=request.organization_id,
        route=route,
        key=key,
        request_sha256=hashlib.sha256(canonical(body)).digest(),
    )


def canonical(body: Any) -> bytes:
    """Return parsed JSON as bytes that are equal for equal requests: order and spacing are gone."""
    try:
        return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # integers beyond 64 bits
        return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
