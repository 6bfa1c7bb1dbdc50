"""The shapes of templates: what is sent to make one, and what is answered."""

from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict  # pydantic needs this one below Python 3.12

from functions.ingest.answers import EXACT
from functions.ingest.schemas import STRICT

Source = Annotated[str | None, Field(description="Liquid.")]
OneLine = Annotated[str | None, Field(description="Liquid. Line breaks become spaces.")]
Locale = Annotated[str, Field(description="A language tag.", examples=["en", "de-AT"])]
Number = Annotated[int, Field(ge=1)]


@with_config(STRICT)
class EmailWords(TypedDict):
    """A subject, and text or html or both. In html values are escaped."""

    subject: OneLine
    text: NotRequired[Source]
    html: NotRequired[Source]


@with_config(STRICT)
class SmsWords(TypedDict):
    text: OneLine


@with_config(STRICT)
class PushWords(TypedDict):
    """A title or a body or both."""

    title: NotRequired[OneLine]
    body: NotRequired[OneLine]


@with_config(STRICT)
class ChannelWords(TypedDict):
    """At least one channel; each has the default locale."""

    email: NotRequired[dict[Locale, EmailWords] | None]
    sms: NotRequired[dict[Locale, SmsWords] | None]
    push: NotRequired[dict[Locale, PushWords] | None]


@with_config(STRICT)
class VersionRequest(TypedDict):
    """One document over channels and locales, of at most 256 KB."""

    channels: ChannelWords
    default_locale: Annotated[
        Locale, Field(description="For recipients whose language has no words here.")
    ]


@with_config(STRICT)
class PreviewRequest(TypedDict):
    version: NotRequired[
        Annotated[int | None, Field(ge=1, description="The latest one where none is given.")]
    ]
    channel: Literal["email", "sms", "push"]
    locale: Annotated[str, Field(max_length=64, description="What the recipient reads.")]
    data: Annotated[dict[str, Any], Field(description="The values, of at most 64 KB as JSON.")]


@with_config(EXACT)
class AddedVersion(TypedDict):
    name: str
    version: Number


@with_config(EXACT)
class TemplateSummary(TypedDict):
    name: str
    latest_version: Number
    archived_at: Annotated[
        datetime | None, Field(description="Since then nothing new is accepted with it.")
    ]
    created_at: datetime
    updated_at: datetime


@with_config(EXACT)
class TemplatePage(TypedDict):
    data: list[TemplateSummary]
    next_cursor: Annotated[str | None, Field(description="null at the end")]


@with_config(EXACT)
class TemplateDetail(TemplateSummary):
    """With the words of the latest version."""

    channels: ChannelWords
    default_locale: str


@with_config(EXACT)
class TemplateVersion(TypedDict):
    name: str
    version: Number
    created_at: datetime
    channels: ChannelWords
    default_locale: str


@with_config(EXACT)
class Preview(TypedDict):
    name: str
    version: Number
    channel: Literal["email", "sms", "push"]
    locale: Annotated[str, Field(description="The one that the recipient would get.")]
    rendered: Annotated[
        Any,
        Field(description="As it is sent. Email: subject, text, html; SMS: a string; push: parts."),
    ]
    encoding: Annotated[Literal["GSM-7", "UCS-2"] | None, Field(description="Of an SMS.")]
    segments: Annotated[int | None, Field(description="Of an SMS: what it is billed as.")]
