"""Write, read and erase recipients by reference; erase an address."""

import re
import time
from typing import Any
from urllib.parse import unquote

from pydantic import TypeAdapter

from functions.core.errors import Fault, NotFound, ValidationFailed
from functions.core.recipient import InvalidRecipient, normalise, recipient_hash, reference_hash
from functions.core.spelling import references_of
from functions.ingest.answer import Answer, answer
from functions.ingest.deployment import Deployment
from functions.ingest.faults import validate
from functions.ingest.recipient_document import read_document
from functions.ingest.recipient_schemas import EraseRequest
from functions.ingest.request import Request
from functions.ingest.schemas import RECIPIENT_ID
from functions.store import recipient as store

RECIPIENT, ERASE = "/v1/recipients/<recipient_id>", "/v1/erase"

ERASING_SECONDS = 15.0
"""What is left then is erased by a repetition: a function has 25 s, and its last statement some."""

_ERASE: TypeAdapter[EraseRequest] = TypeAdapter(EraseRequest)


def put_recipient(request: Request, deployment: Deployment) -> Answer:
    """201 with a new recipient, 200 with the one that was there, as it is now."""
    request.parameters({})
    recipient_id = _recipient_id(request)
    document = read_document(request.json_body(), door=deployment.door)

    def put() -> tuple[store.StoredRecipient, bool]:
        return store.put_recipient(
            deployment.database,
            organization_id=request.organization_id,
            recipient_id=recipient_id,
            document=document,
        )

    try:
        stored, is_new = put()
    except store.BeingErased:  # first what an erasure left, as it was not meant for this one
        _erase(request, deployment, recipient_id, time.monotonic() + ERASING_SECONDS)
        stored, is_new = put()
    return answer(201 if is_new else 200, _shown(stored))


def get_recipient(request: Request, deployment: Deployment) -> Answer:
    """200 with the recipient."""
    request.parameters({})
    stored = store.get_recipient(
        deployment.database,
        organization_id=request.organization_id,
        recipient_id=_recipient_id(request),
    )
    return answer(200, _shown(stored))


def delete_recipient(request: Request, deployment: Deployment) -> Answer:
    """204 when nothing is left of the recipient; 404 when there is none."""
    request.parameters({})
    request.no_body()
    recipient_id = _recipient_id(request)
    if _erase(request, deployment, recipient_id, time.monotonic() + ERASING_SECONDS) is None:
        raise NotFound
    return Answer(status=204, body="", content_type="")


def _erase(
    request: Request, deployment: Deployment, recipient_id: str, ends_at: float
) -> int | None:
    """Erase a recipient, or go on with it; return how many notifications, None where there is no
    such recipient."""
    from functions.store.erase import erase_recipient  # seldom needed

    try:
        return erase_recipient(
            deployment.database,
            organization_id=request.organization_id,
            recipient_id=recipient_id,
            reference_hash=reference_hash(deployment.door.hash_key, recipient_id),
            ends_at=ends_at,
        )
    except NotFound:
        return None


def post_erase(request: Request, deployment: Deployment) -> Answer:
    """200 with how many notifications were erased, when nothing is left of the address.

    A recipient whose id is the address itself is named by it: they are erased as well.
    """
    from functions.store.erase import erase_address  # seldom needed

    request.parameters({})
    asked: EraseRequest = validate(_ERASE, request.json_body())
    channel, door = asked["channel"], deployment.door
    try:
        address = normalise(
            channel, asked["recipient"], local_webhook_origin=door.local_webhook_origin
        )
    except InvalidRecipient as error:
        raise ValidationFailed([Fault("/recipient", error.item_code, error.detail)]) from None
    ends_at = time.monotonic() + ERASING_SECONDS
    named = [
        _erase(request, deployment, recipient_id, ends_at)
        for recipient_id in references_of(channel, address)
    ]
    erased = erase_address(
        deployment.database,
        organization_id=request.organization_id,
        channel=channel,
        address=address,
        address_hash=recipient_hash(door.hash_key, channel, address),
        ends_at=ends_at,
    )
    return answer(200, {"erased": erased + sum(number or 0 for number in named)})


def _recipient_id(request: Request) -> str:
    """Return the id in the path, which may be percent-encoded; a malformed one is not found."""
    recipient_id = unquote(request.path_parameters.get("recipient_id", ""))
    if re.fullmatch(RECIPIENT_ID.strip("^$"), recipient_id) is None:
        raise NotFound
    return recipient_id


def _shown(recipient: store.StoredRecipient) -> dict[str, Any]:
    quiet_hours = None
    if recipient.quiet_start is not None and recipient.quiet_end is not None:
        quiet_hours = {
            "start": recipient.quiet_start.isoformat("minutes"),
            "end": recipient.quiet_end.isoformat("minutes"),
        }
    return {
        "recipient_id": recipient.recipient_id,
        "version": recipient.version,
        "contact_points": [
            {"channel": channel, "address": address, "verified": verified}
            for channel, address, verified in recipient.contact_points
        ],
        "locale": recipient.locale,
        "time_zone": recipient.time_zone,
        "quiet_hours": quiet_hours,
        "preferences": recipient.preferences,
        "created_at": recipient.created_at,
        "updated_at": recipient.updated_at,
    }
