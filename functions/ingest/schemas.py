"""The shapes of requests, as pydantic checks them and OpenAPI shows them."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict  # pydantic needs this one below Python 3.12

STRICT = ConfigDict(extra="forbid", strict=True)

MAX_ITEMS = 1000

ChannelName = Literal["email", "sms", "push", "webhook"]
CATEGORY = r"^[a-z0-9_-]{1,64}$"
RECIPIENT_ID = r"^[A-Za-z0-9._:-]{1,128}$"

Category = Annotated[str, Field(pattern=CATEGORY)]
Time = Annotated[
    str,
    Field(
        description="RFC 3339 with an offset.",
        json_schema_extra={"format": "date-time"},
        examples=["2030-01-31T08:00:00+01:00"],
    ),
]
MetadataKey = Annotated[str, Field(min_length=1, max_length=64)]
MetadataValue = Annotated[str, Field(max_length=256)]


class Template(TypedDict):
    __pydantic_config__ = STRICT

    name: str
    version: NotRequired[int | None]
    data: dict[str, Any]


class Item(TypedDict):
    """One notification to send. A member that is null counts as absent."""

    __pydantic_config__ = STRICT

    channel: NotRequired[Annotated[ChannelName | None, Field(description="Required for now.")]]
    recipient: NotRequired[
        Annotated[
            str | None,
            Field(
                description="Email address, telephone number in international form, device token "
                "or SNS endpoint ARN, or https URL. Required for now.",
                examples=["ada@example.com"],
            ),
        ]
    ]
    content: NotRequired[
        Annotated[
            Any,
            Field(
                description="Email: a string, or subject, text and html. SMS: a string of at most "
                "1600 characters. Push: a string, or title, body and data. Webhook: any JSON of "
                "at most 256 KB. Required for now.",
                examples=[{"subject": "Hello", "text": "Your order is on its way."}],
            ),
        ]
    ]
    priority: NotRequired[Literal["high", "normal", "low"] | None]
    category: NotRequired[Category | None]
    event_id: NotRequired[Annotated[str, Field(min_length=1, max_length=128)] | None]
    reference: NotRequired[Annotated[str, Field(min_length=1, max_length=128)] | None]
    send_at: NotRequired[Time | None]
    expires_at: NotRequired[Time | None]
    metadata: NotRequired[Annotated[dict[MetadataKey, MetadataValue], Field(max_length=16)] | None]
    recipient_id: NotRequired[
        Annotated[str, Field(pattern=RECIPIENT_ID, description="Not supported yet.")] | None
    ]
    channels: NotRequired[
        Annotated[list[ChannelName], Field(min_length=1, description="Not supported yet.")] | None
    ]
    template: NotRequired[Annotated[Template, Field(description="Not supported yet.")] | None]


class BatchRequest(TypedDict):
    __pydantic_config__ = STRICT

    notifications: Annotated[list[Item], Field(min_length=1, max_length=MAX_ITEMS)]


class SuppressionRequest(TypedDict):
    """A fact: this recipient must not be contacted."""

    __pydantic_config__ = STRICT

    channel: ChannelName
    recipient: str
    reason: Literal["hard_bounce", "complaint", "invalid", "recipient_choice", "operator"]
    source: NotRequired[Annotated[str, Field(min_length=1, max_length=128)] | None]
    source_at: NotRequired[Time | None]
    category: NotRequired[Category | None]
    evidence: NotRequired[
        Annotated[Any, Field(description="Whatever proves it: JSON of at most 16 KB.")]
    ]


class LiftRequest(TypedDict):
    """The fact that lifts a suppression of the same recipient and category."""

    __pydantic_config__ = STRICT

    channel: ChannelName
    recipient: str
    category: NotRequired[Category | None]
    reason: Annotated[str, Field(min_length=1, max_length=256)]
