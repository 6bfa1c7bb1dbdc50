"""What would happen to a batch: judged, planned and written out as it would be; nothing is kept."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import UUID

from functions.core.abuse import UNKNOWN, Message, cost_of
from functions.core.content import encoded_bytes, read_content
from functions.core.errors import Fault, ValidationFailed
from functions.core.segment import Encoded, encoded
from functions.core.states import Channel
from functions.ingest.admission import admit_batch
from functions.ingest.answer import Answer, answer
from functions.ingest.deployment import Deployment
from functions.ingest.faults import below
from functions.ingest.plan import Plan, plan_of, questions_of
from functions.ingest.recognition import canonical
from functions.ingest.references import complete
from functions.ingest.request import Request
from functions.store.accept import IN_BATCH
from functions.store.dry_run import Facts, read_facts
from functions.store.intent import NewNotification
from functions.store.template import Key, documents_of
from functions.templates.budget import Budget
from functions.templates.choice import locale_of, words_of
from functions.templates.errors import Exhausted, Unrenderable

PATH = "/v1/batches/dry-run"

MAX_SHOWN_BYTES = 2 * 1024 * 1024
"""Of what is written out, in an answer: a function answers at most 6 MB, escaped once more."""

TOO_MUCH = "A dry run renders what it shows once more than sending does: give it fewer items."


def post_dry_run(request: Request, deployment: Deployment) -> Answer:
    """200 with what would become of each item now; refused as the same batch would be."""
    request.parameters({})
    organization_id = request.organization_id
    judged = admit_batch(request.json_body(), door=deployment.door)
    budget = Budget()
    notifications = complete(judged, deployment, organization_id, pointer=IN_BATCH, budget=budget)
    facts = read_facts(
        deployment.database,
        organization_id=organization_id,
        questions={question for one in notifications for question in questions_of(one)},
    )
    keys = {key for one in notifications if (key := _key_of(one, organization_id)) is not None}
    documents = documents_of(deployment.database, keys) if keys else {}
    writing = _Writing(organization_id=organization_id, documents=documents, budget=budget)
    shown: list[dict[str, Any]] = []
    for index, notification in enumerate(notifications):
        plan = plan_of(notification, facts)
        one = _unsent(index, plan)
        if plan.planned_at is not None:
            words = writing.words_of(notification, plan, index)
            one |= _shown(words, plan, facts) if words else {}
        shown.append(one)
    return answer(200, {"notifications": shown})


def _key_of(notification: NewNotification, organization_id: UUID) -> Key | None:
    by_reference = notification.by_reference
    if by_reference is None or by_reference.template_name is None:
        return None
    return organization_id, by_reference.template_name, by_reference.template_version or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """What would be said, every part of it, and how large that is."""

    parts: Any
    """None where there is no room for them."""
    size: int
    """In UTF-8: of a text as it is, of anything else as compact JSON."""
    shown_bytes: int
    """As JSON."""
    sms: Encoded | None


@dataclass(slots=True, kw_only=True)
class _Writing:
    """The words of a request: equal ones are rendered once, all of them within its budget, and
    kept as long as they are shown."""

    organization_id: UUID
    documents: Mapping[Key, Any]
    budget: Budget
    room: int = MAX_SHOWN_BYTES
    _rendered: dict[bytes, _Words] = field(default_factory=dict[bytes, _Words])

    def words_of(self, notification: NewNotification, plan: Plan, index: int) -> _Words | None:
        """Return what would be said; raise ValidationFailed where nothing can be.

        None of what was notified before and cannot be said any more.
        """
        by_reference = notification.by_reference
        if by_reference is not None and by_reference.is_repetition:
            return None
        key = _key_of(notification, self.organization_id)
        if key is None:
            return self._fitting(_read(notification.content, plan.channel))
        locale = locale_of(self.documents[key], plan.channel, plan.locale)
        data = notification.content["data"]
        same = canonical([key[1], key[2], plan.channel, locale, data])
        words = self._rendered.get(same)
        if words is None:
            words = _read(self._render(key, plan.channel, locale, data, index), plan.channel)
        self._rendered[same] = self._fitting(words)
        return self._rendered[same]

    def _fitting(self, words: _Words) -> _Words:
        """Return ``words`` as they are shown: all of them, or none where there is no more room."""
        self.room -= words.shown_bytes
        return words if self.room >= 0 else replace(words, parts=None)

    def _render(self, key: Key, channel: str, locale: str, data: Any, index: int) -> Any:
        from functions.templates.render import Values, render_words  # 280 ms that few need

        words = words_of(self.documents[key], channel, locale)
        try:
            return render_words(words, channel=channel, values=Values(data), budget=self.budget)
        except Exhausted:  # all of it together: by themselves they were found right
            raise ValidationFailed([Fault("/notifications", "too_many", TOO_MUCH)]) from None
        except Unrenderable as error:
            here = Fault("/template", error.item_code, error.detail)
            raise ValidationFailed(below(IN_BATCH.format(place=index), [here])) from None


def _read(content: Any, channel: str) -> _Words:
    parts: Any = content
    if channel != Channel.WEBHOOK:
        parts = asdict(read_content(channel, content))
    if channel == Channel.SMS:
        parts = parts["text"]
    shown_bytes = encoded_bytes(parts)
    return _Words(
        parts=parts,
        size=len(parts.encode()) if isinstance(parts, str) else shown_bytes,
        shown_bytes=shown_bytes,
        sms=encoded(str(parts)) if channel == Channel.SMS else None,
    )


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


def _shown(words: _Words, plan: Plan, facts: Facts) -> dict[str, Any]:
    """Return the words, and of an SMS as what it would travel and what it would cost."""
    shown = {"rendered": words.parts, "rendered_bytes": words.size}
    if words.sms is None:
        return shown
    message = Message(
        country=plan.country or UNKNOWN, prefix="", recipient_hash=b"", segments=words.sms.segments
    )
    cost = cost_of(message, facts.prices)
    return {
        **shown,
        "encoding": words.sms.encoding,
        "segments": words.sms.segments,
        "estimated_cost": None if cost is None else float(cost),
    }
