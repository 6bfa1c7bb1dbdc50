"""What would happen to a batch: judged, planned and written out as it would be; nothing is kept."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

from functions.core.abuse import UNKNOWN, Message, cost_of
from functions.core.content import encoded_bytes, read_content
from functions.core.errors import Fault, ValidationFailed
from functions.core.segment import encoded
from functions.core.states import Channel
from functions.ingest.admission import admit_batch
from functions.ingest.answer import Answer, answer
from functions.ingest.deployment import Deployment
from functions.ingest.faults import below
from functions.ingest.plan import Plan, plan_of, questions_of
from functions.ingest.references import complete
from functions.ingest.request import Request
from functions.store.accept import IN_BATCH
from functions.store.dry_run import Facts, read_facts
from functions.store.intent import NewNotification
from functions.store.template import Key, documents_of

PATH = "/v1/batches/dry-run"

MAX_SHOWN_BYTES = 2 * 1024 * 1024
"""Of what is written out, in an answer: a function answers at most 6 MB, escaped once more."""


def post_dry_run(request: Request, deployment: Deployment) -> Answer:
    """200 with what would become of each item now; refused as the same batch would be."""
    request.parameters({})
    organization_id = request.organization_id
    admitted = admit_batch(request.json_body(), door=deployment.door)
    notifications = complete(admitted, deployment, organization_id, pointer=IN_BATCH)
    facts = read_facts(
        deployment.database,
        organization_id=organization_id,
        questions={question for one in notifications for question in questions_of(one)},
    )
    documents = _documents(deployment, organization_id, notifications)
    shown: list[dict[str, Any]] = []
    room = MAX_SHOWN_BYTES
    for index, notification in enumerate(notifications):
        plan = plan_of(notification, facts)
        one = _unsent(index, plan)
        if plan.planned_at is not None:
            words = _words(notification, plan, organization_id, documents, index)
            one |= _bill(words, plan, facts) if plan.channel == Channel.SMS else {}
            one["rendered_bytes"] = _bytes_of(words)
            room -= encoded_bytes(words)
            one["rendered"] = words if room >= 0 else None
        shown.append(one)
    return answer(200, {"notifications": shown})


def _documents(
    deployment: Deployment, organization_id: UUID, notifications: Sequence[NewNotification]
) -> Mapping[Key, Any]:
    """Return the templates of the notifications."""
    keys = {key for one in notifications if (key := _key_of(one, organization_id)) is not None}
    return documents_of(deployment.database, keys) if keys else {}


def _key_of(notification: NewNotification, organization_id: UUID) -> Key | None:
    by_reference = notification.by_reference
    if by_reference is None or by_reference.template_name is None:
        return None
    return organization_id, by_reference.template_name, by_reference.template_version or 0


def _words(
    notification: NewNotification,
    plan: Plan,
    organization_id: UUID,
    documents: Mapping[Key, Any],
    index: int,
) -> Any:
    """Return what would be said, every part of it; raise ValidationFailed where nothing can be."""
    content, key = notification.content, _key_of(notification, organization_id)
    if key is not None:
        from functions.templates.choice import locale_of
        from functions.templates.errors import Unrenderable
        from functions.templates.render import render  # 280 ms that few need

        document, data = documents[key], content["data"]
        locale = locale_of(document, plan.channel, plan.locale)
        try:
            content = render(document, channel=plan.channel, locale=locale, data=data)
        except Unrenderable as error:
            here = Fault("/template", "not_allowed", error.detail)
            raise ValidationFailed(below(IN_BATCH.format(place=index), [here])) from None
    if plan.channel == Channel.WEBHOOK:
        return content
    parts = asdict(read_content(plan.channel, content))
    return parts["text"] if plan.channel == Channel.SMS else parts


def _unsent(index: int, plan: Plan) -> dict[str, Any]:
    """Return what is shown of an item of which nothing is said."""
    return {
        "index": index,
        "verdict": plan.verdict,
        "reason": plan.reason,
        "planned_at": plan.planned_at,
        "channel": plan.channel,
        "rendered": None,
        "rendered_bytes": None,
        "encoding": None,
        "segments": None,
        "estimated_cost": None,
    }


def _bill(text: str, plan: Plan, facts: Facts) -> dict[str, Any]:
    """Return as what an SMS would travel, and what it would cost."""
    sms = encoded(text)
    message = Message(
        country=plan.country or UNKNOWN, prefix="", recipient_hash=b"", segments=sms.segments
    )
    cost = cost_of(message, facts.prices)
    return {
        "encoding": sms.encoding,
        "segments": sms.segments,
        "estimated_cost": None if cost is None else float(cost),
    }


def _bytes_of(words: Any) -> int:
    """Return the size in UTF-8: of a text as it is, of anything else as compact JSON."""
    return len(words.encode()) if isinstance(words, str) else encoded_bytes(words)
