"""The shapes of requests, as pydantic checks them and OpenAPI shows them."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict  # pydantic needs this one below Python 3.12

from functions.core.states import Channel, Status

STRICT = ConfigDict(extra="forbid", strict=True)

MAX_ITEMS = 1000
MAX_METADATA = 16

STATUSES = tuple(Status)
CHANNELS = tuple(Channel)
"""What a list can be narrowed to."""

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


@with_config(STRICT)
class Template(TypedDict):
    name: str
    version: NotRequired[int | None]
    data: dict[str, Any]


@with_config(
    ConfigDict(
        extra="forbid",
        strict=True,
        # Until the members that stand in for these are supported.
        json_schema_extra={"required": ["channel", "recipient", "content"]},
    )
)
class Item(TypedDict):
    """One notification to send. A member that is null counts as absent."""

    channel: NotRequired[Annotated[ChannelName | None, Field(description="Required.")]]
    recipient: NotRequired[
        Annotated[
            str | None,
            Field(
                description="Email address, telephone number in international form, device token "
                "or SNS endpoint ARN, or https URL.",
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
                "at most 256 KB.",
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
    metadata: NotRequired[
        Annotated[dict[MetadataKey, MetadataValue], Field(max_length=MAX_METADATA)] | None
    ]
    recipient_id: NotRequired[
        Annotated[str, Field(pattern=RECIPIENT_ID, description="Not supported yet.")] | None
    ]
    channels: NotRequired[
        Annotated[list[ChannelName], Field(min_length=1, description="Not supported yet.")] | None
    ]
    template: NotRequired[Annotated[Template, Field(description="Not supported yet.")] | None]


@with_config(STRICT)
class BatchRequest(TypedDict):
    notifications: Annotated[list[Item], Field(min_length=1, max_length=MAX_ITEMS)]


@with_config(STRICT)
class SuppressionRequest(TypedDict):
    """A fact: this recipient must not be contacted."""

    channel: ChannelName
    recipient: str
    reason: Literal["hard_bounce", "complaint", "invalid", "recipient_choice", "operator"]
    source: NotRequired[Annotated[str, Field(min_length=1, max_length=128)] | None]
    source_at: NotRequired[Time | None]
    category: NotRequired[Category | None]
    evidence: NotRequired[
        Annotated[Any, Field(description="Whatever proves it: JSON of at most 16 KB.")]
    ]


@with_config(STRICT)
class LiftRequest(TypedDict):
    """The fact that lifts a suppression of the same recipient and category."""

    channel: ChannelName
    recipient: str
    category: NotRequired[Category | None]
    reason: Annotated[str, Field(min_length=1, max_length=256)]
