"""The shapes of answers, for the OpenAPI document; a test holds real answers against them."""

from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired
from uuid import UUID

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict  # pydantic needs this one below Python 3.12

from functions.core.outcome import OutcomeName
from functions.core.states import Channel, Priority, Status

EXACT = ConfigDict(extra="forbid")

Position = Annotated[int, Field(ge=0)]


@with_config(EXACT)
class AcceptedItem(TypedDict):
    index: Position
    id: UUID
    duplicate: Annotated[
        bool, Field(description="The same event was notified before; this is its first id.")
    ]


@with_config(EXACT)
class AcceptedBatch(TypedDict):
    batch_id: UUID
    status: Literal["accepted"]
    total_count: int
    accepted_at: datetime
    notifications: list[AcceptedItem]


Counts = Annotated[dict[Status, int], Field(description="Only non-zero counts.")]


@with_config(EXACT)
class Batch(TypedDict):
    batch_id: UUID
    status: Annotated[
        Literal["accepted", "processing", "completed"],
        Field(description="Nothing taken up yet; under way; every notification final or held."),
    ]
    total_count: int
    counts: Counts
    counts_by_channel: dict[Channel, Counts]
    accepted_at: datetime
    completed_at: datetime | None


@with_config(EXACT)
class BatchCancelled(TypedDict):
    cancelled: int
    too_late: int
    already_cancelled: int


@with_config(EXACT)
class Next(TypedDict):
    """What happens next by itself, and when."""

    action: Annotated[
        Literal["send", "expire", "recover", "check", "fallback", "decide"],
        Field(
            description="send: due. expire: its time will have passed. recover: the lease is taken "
            "back if nothing is heard until then. check: its delivery is looked into. "
            "fallback: the next of its channels is tried unless it was delivered by then. "
            "decide: a person has to."
        ),
    ]
    at: datetime | None


@with_config(EXACT)
class NotificationSummary(TypedDict):
    id: UUID
    batch_id: UUID | None
    index: Position | None
    status: Status
    reason: Annotated[
        str | None, Field(description="Why it has this status; a provider's code where it says.")
    ]
    channel: Annotated[
        Channel, Field(description="Of several: of the candidate that it shows the status of.")
    ]
    recipient: Annotated[
        str | None, Field(description="null when given by reference, invalid, or erased")
    ]
    recipient_id: str | None
    priority: Priority
    category: str
    event_id: Annotated[
        str | None,
        Field(description="Of an invalid request by SQL: as asked for, still free to be used."),
    ]
    reference: str | None
    idempotency_key: Annotated[str, Field(description="What the provider knows it by.")]
    metadata: dict[str, str]
    send_at: datetime | None
    expires_at: datetime | None
    available_at: datetime
    attempts_spent: int
    max_attempts: int
    created_at: datetime
    updated_at: datetime
    final_at: datetime | None
    complained: bool
    held: bool
    hold_id: UUID | None
    parent_id: UUID | None
    next: Next | None


@with_config(EXACT)
class Attempt(TypedDict):
    id: UUID
    number: Annotated[int, Field(ge=1)]
    lease_number: int
    provider: str
    started_at: datetime
    finished_at: datetime | None
    outcome: Annotated[OutcomeName | None, Field(description="null while it is open")]
    reference: str | None
    http_status: int | None
    code: str | None
    detail: str | None
    retry_after_seconds: int | None


@with_config(EXACT)
class Receipt(TypedDict):
    id: UUID
    received_at: datetime
    occurred_at: datetime
    type: str
    reference: str | None
    reason: str | None
    permanent: bool
    applied: bool


TimelineEntry = with_config(EXACT)(
    TypedDict(
        "TimelineEntry",
        {
            "at": datetime,
            "actor": str,
            "from": Status | None,
            "to": Status,
            "reason": str | None,
            "attempt_id": UUID | None,
            "receipt_id": UUID | None,
            "sentence": str,
        },
    )
)


@with_config(EXACT)
class UsedTemplate(TypedDict):
    name: str
    version: Annotated[int, Field(description="The one that is sent, as it was when accepted.")]
    data: Annotated[dict[str, Any] | None, Field(description="null when it was erased")]


@with_config(EXACT)
class Notification(NotificationSummary):
    content: Any
    template: UsedTemplate | None
    children: list[UUID]
    attempts: list[Attempt]
    receipts: list[Receipt]
    timeline: list[TimelineEntry]


@with_config(EXACT)
class NotificationPage(TypedDict):
    data: list[NotificationSummary]
    next_cursor: Annotated[str | None, Field(description="null at the end")]


@with_config(EXACT)
class Planned(TypedDict):
    """What would become of an item, as far as it does not depend on other traffic."""

    index: Position
    verdict: Literal["send", "defer", "suppress", "expired"]
    reason: Annotated[str | None, Field(description="Why it is deferred, or not sent.")]
    planned_at: Annotated[
        datetime | None,
        Field(
            description="When it would be due: `send_at` or now, or the very end of quiet hours or "
            "of what is outside of a send window, after which items are let go one by one."
        ),
    ]
    channel: Annotated[
        Channel,
        Field(description="Of several, the first by which it would be sent; else the last."),
    ]
    rendered: Annotated[
        Any,
        Field(
            description="What would be said: email subject, text and html; SMS a string; push "
            "title, body and data; webhook its content. null when it is not sent, and beyond 2 MB "
            "of an answer."
        ),
    ]
    rendered_bytes: Annotated[
        int | None,
        Field(description="In UTF-8, of anything but a string as compact JSON."),
    ]
    encoding: Literal["GSM-7", "UCS-2"] | None
    segments: Annotated[int | None, Field(description="Of an SMS: what it is billed as.")]
    estimated_cost: Annotated[
        float | None, Field(description="Of an SMS by the price list, where there is one.")
    ]


@with_config(EXACT)
class DryRun(TypedDict):
    notifications: list[Planned]


@with_config(EXACT)
class Suppression(TypedDict):
    id: UUID
    channel: Channel
    recipient: str | None
    category: Annotated[str | None, Field(description="null: every category")]
    kind: Literal["suppress", "lift"]
    reason: str
    source: str
    source_at: datetime
    evidence: Any
    active: Annotated[
        bool, Field(description="It forbids to send now: nothing newer stands in its place.")
    ]
    created_at: datetime


@with_config(EXACT)
class SuppressionPage(TypedDict):
    data: list[Suppression]
    next_cursor: Annotated[str | None, Field(description="null at the end")]


@with_config(EXACT)
class Health(TypedDict):
    status: Literal["ok"]
    database: Literal["ok"]


@with_config(EXACT)
class ProblemFault(TypedDict):
    pointer: Annotated[str, Field(description="RFC 6901, into the body that was sent")]
    code: str
    detail: str


@with_config(EXACT)
class Problem(TypedDict):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: NotRequired[Annotated[list[ProblemFault], Field(max_length=100)]]
    notification_status: NotRequired[
        Annotated[Status, Field(description="With too_late: what is in the way.")]
    ]
