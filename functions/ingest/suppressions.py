"""Add, list and lift the facts that forbid to contact somebody."""

import re
from typing import Any, cast

from pydantic import TypeAdapter

from functions.core.content import MAX_DEPTH, encoded_bytes, is_too_deep
from functions.core.errors import Fault, ValidationFailed
from functions.core.recipient import InvalidRecipient, normalise, recipient_hash
from functions.core.states import CATEGORY
from functions.core.suppression import MAX_EVIDENCE_BYTES
from functions.core.times import DETAIL, InvalidTime, parse_time
from functions.ingest import representation
from functions.ingest.answer import Answer, answer
from functions.ingest.browse import read_after, read_choices, read_limit
from functions.ingest.cursor import write_cursor
from functions.ingest.deployment import Deployment
from functions.ingest.faults import validate
from functions.ingest.request import Request, invalid_parameter
from functions.ingest.schemas import CHANNELS, LiftRequest, SuppressionRequest
from functions.store import suppression as store

LIST_PARAMETERS = {
    "channel": False,
    "recipient": False,
    "category": False,
    "active": False,
    "limit": False,
    "cursor": False,
}
"""Query parameters of the list, and whether each may be repeated."""

_SUPPRESSION: TypeAdapter[SuppressionRequest] = TypeAdapter(SuppressionRequest)
_LIFT: TypeAdapter[LiftRequest] = TypeAdapter(LiftRequest)


def post_suppression(request: Request, deployment: Deployment) -> Answer:
    """201 with the fact; 200 when an equal one is live."""
    request.parameters({})
    asked: SuppressionRequest = validate(_SUPPRESSION, request.json_body())
    fact, is_new = store.add_suppression(
        deployment.database,
        organization_id=request.organization_id,
        fact=_fact(asked, deployment),
    )
    return answer(201 if is_new else 200, representation.suppression(fact))


def post_lift(request: Request, deployment: Deployment) -> Answer:
    """200 with the fact that lifts; 404 when nothing is to be lifted."""
    request.parameters({})
    asked: LiftRequest = validate(_LIFT, request.json_body())
    fact = store.lift_suppression(
        deployment.database,
        organization_id=request.organization_id,
        fact=_fact(asked, deployment),
    )
    return answer(200, representation.suppression(fact))


def list_suppressions(request: Request, deployment: Deployment) -> Answer:
    """200 with a page of facts, newest first, lifted and superseded ones too."""
    parameters = request.parameters(LIST_PARAMETERS)
    channels = read_choices(parameters, "channel", CHANNELS)
    active = read_choices(parameters, "active", ["true", "false"])
    limit = read_limit(parameters)
    category = _category(parameters)
    bound: dict[str, Any] = {
        "list": "suppressions",
        **{name: parameters.get(name) for name in ("channel", "recipient", "active")},
    }
    if category is not None:  # without it a list has the cursors that it always had
        bound["category"] = category
    rows = store.list_suppressions(
        deployment.database,
        organization_id=request.organization_id,
        channel=channels[0] if channels else None,
        recipient_hash=_recipient_hash(parameters, deployment),
        category=category,
        active=None if active is None else active == ["true"],
        after=read_after(parameters, request, deployment, bound),
        limit=limit + 1,
    )
    shown = rows[:limit]
    next_cursor = None
    if len(rows) > limit:
        next_cursor = write_cursor(
            deployment.cursor_key,
            organization_id=request.organization_id,
            filters=bound,
            last_id=shown[-1].id,
        )
    return answer(200, representation.page(map_facts(shown), next_cursor))


def map_facts(facts: list[store.Suppression]) -> list[dict[str, Any]]:
    return [representation.suppression(fact) for fact in facts]


def _fact(asked: SuppressionRequest | LiftRequest, deployment: Deployment) -> store.NewSuppression:
    """Return the fact, normalised; raise ValidationFailed with every fault."""
    members = cast("dict[str, Any]", asked)
    channel, faults = members["channel"], list[Fault]()
    recipient, source_at = "", None
    try:
        recipient = _normalise(channel, members["recipient"], deployment)
    except InvalidRecipient as error:
        faults.append(Fault("/recipient", error.item_code, error.detail))
    try:
        text = members.get("source_at")
        source_at = None if text is None else parse_time(text)
    except InvalidTime:
        faults.append(Fault("/source_at", "invalid_time", DETAIL))
    evidence = members.get("evidence")
    if is_too_deep(evidence):
        faults.append(
            Fault("/evidence", "not_encodable", f"It is nested deeper than {MAX_DEPTH} levels.")
        )
    elif encoded_bytes(evidence) > MAX_EVIDENCE_BYTES:
        faults.append(
            Fault("/evidence", "too_long", f"It has at most {MAX_EVIDENCE_BYTES} bytes as JSON.")
        )
    if faults:
        raise ValidationFailed(faults)
    return store.NewSuppression(
        channel=channel,
        recipient=recipient,
        recipient_hash=recipient_hash(deployment.door.hash_key, channel, recipient),
        category=members.get("category"),
        reason=members["reason"],
        source=members.get("source"),
        source_at=source_at,
        evidence=evidence,
    )


def _normalise(channel: str, recipient: str, deployment: Deployment) -> str:
    return normalise(channel, recipient, local_webhook_origin=deployment.door.local_webhook_origin)


def _category(parameters: dict[str, list[str]]) -> str | None:
    """Return the category the list is narrowed to; a fact about every category is not of it."""
    if "category" not in parameters:
        return None
    (category,) = parameters["category"]
    if re.fullmatch(CATEGORY, category) is None:
        raise invalid_parameter("category", f"It matches {CATEGORY}.")
    return category


def _recipient_hash(parameters: dict[str, list[str]], deployment: Deployment) -> bytes | None:
    if "recipient" not in parameters:
        return None
    if "channel" not in parameters:
        raise invalid_parameter("recipient", "It needs the channel beside it.")
    channel = parameters["channel"][0]
    try:
        recipient = _normalise(channel, parameters["recipient"][0], deployment)
    except InvalidRecipient as error:
        raise invalid_parameter("recipient", error.detail) from None
    return recipient_hash(deployment.door.hash_key, channel, recipient)
