"""The shapes of requests, as pydantic checks them and OpenAPI shows them."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict  # pydantic needs this one below Python 3.12

from functions.core.states import CATEGORY, Channel, Status
from functions.core.suppression import MAX_SOURCE_CHARACTERS

STRICT = ConfigDict(extra="forbid", strict=True)

MAX_ITEMS = 1000
MAX_METADATA = 16
MAX_TEMPLATE = 3
MAX_VERSION = 2**31 - 1
MAX_FALLBACK_SECONDS = 30 * 24 * 3600

STATUSES = tuple(Status)
CHANNELS = tuple(Channel)
"""What a list can be narrowed to."""

ChannelName = Literal["email", "sms", "push", "webhook"]
DEFAULT_CATEGORY = "transactional"
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
    """Words by name, and what goes into them."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    version: NotRequired[
        Annotated[
            Annotated[int, Field(ge=1, le=MAX_VERSION)] | None,
            Field(description="The latest one is taken, and kept, where none is given."),
        ]
    ]
    data: Annotated[
        dict[str, Any],
        Field(
            description="The values of its variables, at most 64 KB. None is ever evaluated.",
            examples=[{"name": "Ada", "total": "12.50"}],
        ),
    ]


def _say_which_go_together(schema: dict[str, Any]) -> None:
    """Say what a TypedDict cannot: of each pair one is given, and null counts as absent."""
    absent, given = {"type": "null"}, {"not": {"type": "null"}}
    pairs = (("channel", "channels"), ("recipient", "recipient_id"), ("content", "template"))
    schema["allOf"] = [
        {
            "oneOf": [
                {"required": [literal], "properties": {reference: absent}},
                {"required": [reference], "properties": {reference: given, literal: absent}},
            ]
        }
        for literal, reference in pairs
    ]


@with_config(
    ConfigDict(extra="forbid", strict=True, json_schema_extra=_say_which_go_together),
)
class Item(TypedDict):
    """One notification to send. A member that is null counts as absent."""

    channel: NotRequired[Annotated[ChannelName | None, Field(description="Or `channels`.")]]
    recipient: NotRequired[
        Annotated[
            str | None,
            Field(
                description="Email address, telephone number in international form, device token "
                "or SNS endpoint ARN, or https URL. Or `recipient_id`.",
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
                "at most 256 KB. With `channels` it is good for each of them. Or `template`.",
                examples=[{"subject": "Hello", "text": "Your order is on its way."}],
            ),
        ]
    ]
    priority: NotRequired[
        Annotated[
            Literal["high", "normal", "low"] | None,
            Field(description="Which of what is due goes first. Default: normal."),
        ]
    ]
    category: NotRequired[
        Annotated[
            Category | None,
            Field(
                description="What kind of message it is: preferences, send windows and "
                "suppressions go by it. One that your organization does not call transactional is "
                "bulk: a `recipient_id` gets it only where their preferences say so. Default: "
                f"{DEFAULT_CATEGORY}.",
            ),
        ]
    ]
    event_id: NotRequired[
        Annotated[
            Annotated[str, Field(min_length=1, max_length=128)] | None,
            Field(
                description="What happened, so that it is told once: the same event for the same "
                "recipient on the same channel is one notification, for ever. Asked for again "
                "with equal content it is answered as a duplicate with the first id, with other "
                "content refused (`event_id_conflict`).",
                examples=["payment-4711-settled"],
            ),
        ]
    ]
    reference: NotRequired[
        Annotated[
            Annotated[str, Field(min_length=1, max_length=128)] | None,
            Field(description="Your own id, to find it by: it need not be the only one."),
        ]
    ]
    send_at: NotRequired[
        Annotated[
            Time | None,
            Field(description="It is not sent before; without it, and in the past: at once."),
        ]
    ]
    expires_at: NotRequired[
        Annotated[
            Time | None,
            Field(
                description="It is not sent from then on, and ends as expired. Later than "
                "`send_at`."
            ),
        ]
    ]
    metadata: NotRequired[
        Annotated[
            Annotated[dict[MetadataKey, MetadataValue], Field(max_length=MAX_METADATA)] | None,
            Field(description="Your own notes, shown in answers."),
        ]
    ]
    recipient_id: NotRequired[
        Annotated[
            Annotated[str, Field(pattern=RECIPIENT_ID)] | None,
            Field(
                description="A recipient that is known by reference: what they prefer, their quiet "
                "hours and their address are read when it is due.",
            ),
        ]
    ]
    channels: NotRequired[
        Annotated[
            Annotated[list[ChannelName], Field(min_length=1, max_length=len(Channel))] | None,
            Field(
                description="For a `recipient_id`, in order, each once: the next is tried when the "
                "one before cannot be sent or delivered, or nothing is heard of it for "
                "`fallback_after`.",
                json_schema_extra={"uniqueItems": True},
            ),
        ]
    ]
    fallback_after: NotRequired[
        Annotated[
            Annotated[float, Field(ge=1, le=MAX_FALLBACK_SECONDS)] | None,
            Field(description="Seconds, with `channels`. By default as its channel is set."),
        ]
    ]
    template: NotRequired[
        Annotated[Template | None, Field(description="Email, SMS and push. Or `content`.")]
    ]


@with_config(STRICT)
class BatchRequest(TypedDict):
    notifications: Annotated[list[Item], Field(min_length=1, max_length=MAX_ITEMS)]


@with_config(STRICT)
class SuppressionRequest(TypedDict):
    """A fact: this recipient must not be contacted."""

    channel: ChannelName
    recipient: str
    reason: Literal["hard_bounce", "complaint", "invalid", "recipient_choice", "operator"]
    source: NotRequired[
        Annotated[str, Field(min_length=1, max_length=MAX_SOURCE_CHARACTERS)] | None
    ]
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
