"""The shapes of recipients and of erasure: what is sent, and what is answered."""

from datetime import datetime
from typing import Annotated, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict  # pydantic needs this one below Python 3.12

from functions.core.states import Channel
from functions.ingest.answers import EXACT
from functions.ingest.schemas import STRICT, Category, ChannelName

MAX_PER_CHANNEL = 20
MAX_CONTACT_POINTS = MAX_PER_CHANNEL * len(Channel)
MAX_PREFERENCES = 1000
CLOCK = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"

ClockTime = Annotated[
    str,
    Field(
        description="Hours and minutes, from 00:00 to 23:59.",
        json_schema_extra={"pattern": CLOCK},
        examples=["22:00"],
    ),
]


@with_config(STRICT)
class GivenContactPoint(TypedDict):
    """An address of the recipient; of several on a channel the first is taken that may be."""

    channel: ChannelName
    address: Annotated[
        str, Field(description="As `recipient` of a notification.", examples=["ada@example.com"])
    ]
    verified: NotRequired[
        Annotated[
            bool,
            Field(description="Theirs beyond doubt: bulk is sent nowhere else. Default: false."),
        ]
    ]


@with_config(STRICT)
class GivenQuietHours(TypedDict):
    """From `start` to before `end` by the clock in the recipient's zone, over midnight too."""

    start: ClockTime
    end: ClockTime


@with_config(STRICT)
class RecipientDocument(TypedDict):
    """All there is to know of a recipient: what is left out is not known."""

    contact_points: Annotated[
        list[GivenContactPoint],
        Field(
            max_length=MAX_CONTACT_POINTS,
            description=f"In the order of preference, at most {MAX_PER_CHANNEL} on a channel.",
        ),
    ]
    locale: NotRequired[
        Annotated[str | None, Field(description="A language tag (BCP 47).", examples=["de-AT"])]
    ]
    time_zone: NotRequired[
        Annotated[str | None, Field(description="A zone (IANA).", examples=["Europe/Vienna"])]
    ]
    quiet_hours: NotRequired[
        Annotated[
            GivenQuietHours | None,
            Field(
                description="Within them nothing is sent but what is let through by the rule of "
                "its category: it waits until they are over. Needs a `time_zone`.",
            ),
        ]
    ]
    preferences: NotRequired[
        Annotated[
            dict[Category, dict[ChannelName, bool]] | None,
            Field(
                description="By category and channel: whether they want it. Bulk is sent only to "
                f"those who do. At most {MAX_PREFERENCES} in all.",
                examples=[{"newsletter": {"email": True, "sms": False}}],
            ),
        ]
    ]


@with_config(STRICT)
class EraseRequest(TypedDict):
    """An address that is to be forgotten, on the channel it belongs to: what waits for it ends, and
    what was sent to it no longer shows to whom or what. A suppression goes on, without naming it.
    What was sent by a `recipient_id` is erased with the recipient (DELETE)."""

    channel: Annotated[ChannelName, Field(description="Of the address: others are left.")]
    recipient: Annotated[
        str,
        Field(
            description="As `recipient` of a notification, in any spelling that means the same.",
            examples=["ada@example.com"],
        ),
    ]


@with_config(EXACT)
class ContactPoint(TypedDict):
    channel: Channel
    address: str
    verified: Annotated[bool, Field(description="Bulk is sent to no other.")]


@with_config(EXACT)
class QuietHours(TypedDict):
    start: str
    end: str


@with_config(EXACT)
class Recipient(TypedDict):
    recipient_id: str
    version: Annotated[
        int,
        Field(description="Greater after each change: it grows over all recipients, not by one."),
    ]
    contact_points: list[ContactPoint]
    locale: str | None
    time_zone: str | None
    quiet_hours: Annotated[
        QuietHours | None, Field(description="By the clock in `time_zone`; null: none.")
    ]
    preferences: Annotated[
        dict[str, dict[Channel, bool]],
        Field(description="By category and channel; what is missing they said nothing to."),
    ]
    created_at: datetime
    updated_at: datetime


@with_config(EXACT)
class Erased(TypedDict):
    erased: Annotated[int, Field(ge=0, description="How many notifications.")]
