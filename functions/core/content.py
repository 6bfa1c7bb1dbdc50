"""What is to be said, per channel: one strict reader, used at the door and again by the senders.

email    a string (text with an empty subject), or {"subject", "text", "html"} with text or html
sms      a string of at most 1600 characters
push     a string (the body), or {"title", "body", "data"} with at least one of them
webhook  any JSON of at most 256 KB
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from functions.core.errors import Fault, Unreadable
from functions.core.states import Channel

MAX_SMS_CHARACTERS = 1600
MAX_TEXT_CHARACTERS = 500_000
"""Of an email or a push in all: escaped twice over, an answer that shows it stays below the 6 MB
that a function may answer."""

MAX_NAMED_CHARACTERS = 100
"""Of a member name in a pointer: an answer names what is wrong, it does not send it back."""
MAX_WEBHOOK_BYTES = 256 * 1024
MAX_UNKNOWN = 100
"""Unknown members that are named; an answer shows no more faults."""
MAX_DEPTH = 100
"""Nesting of free JSON: far below what PostgreSQL, and every JSON library we meet, can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailContent:
    subject: str
    text: str | None
    html: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SmsContent:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PushContent:
    title: str | None
    body: str | None
    data: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookContent:
    data: Any


Content = EmailContent | SmsContent | PushContent | WebhookContent


class UnreadableContent(Unreadable):
    """The content does not have the shape its channel needs."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = tuple(faults)
        """What is wrong, by pointers relative to the content."""
        named = "; ".join(f"{fault.pointer or 'content'}: {fault.code}" for fault in faults)
        super().__init__(f"The content cannot be read ({named}).")


def read_content(channel: str, value: Any) -> Content:
    """Return ``value`` as the content of ``channel``; raise UnreadableContent with every fault.

    A member that is null counts as absent. ``channel`` is one of the four; any other is unreadable.
    """
    reader = _READERS.get(channel)
    if reader is None:
        raise UnreadableContent([Fault("", "not_allowed", "The channel is not known.")])
    return reader(value)


def _read_email(value: Any) -> EmailContent:
    if type(value) is str:
        if not value:
            raise UnreadableContent([_EMPTY])
        if faults := _length(value):
            raise UnreadableContent(faults)
        return EmailContent(subject="", text=value, html=None)
    members, faults = _members(value, ("subject", "text", "html"))
    subject, text, html = (_string(members, name, faults) for name in ("subject", "text", "html"))
    if subject and subject.splitlines() != [subject]:
        # A line break would let the subject add headers of its own (FAULTS G3).
        faults.append(Fault("/subject", "not_allowed", "A subject is a single line."))
    if not faults and not text and not html:
        faults.append(Fault("", "required", "An email needs a text or an html part."))
    faults += _length(subject, text, html)
    if faults:
        raise UnreadableContent(faults)
    return EmailContent(subject=subject or "", text=text, html=html)


def _read_sms(value: Any) -> SmsContent:
    if type(value) is not str:
        raise UnreadableContent([Fault("", "wrong_type", "The content of an SMS is a string.")])
    if not value:
        raise UnreadableContent([_EMPTY])
    if len(value) > MAX_SMS_CHARACTERS:
        detail = f"An SMS has at most {MAX_SMS_CHARACTERS} characters."
        raise UnreadableContent([Fault("", "too_long", detail)])
    return SmsContent(text=value)


def _read_push(value: Any) -> PushContent:
    if type(value) is str:
        if not value:
            raise UnreadableContent([_EMPTY])
        if faults := _length(value):
            raise UnreadableContent(faults)
        return PushContent(title=None, body=value, data={})
    members, faults = _members(value, ("title", "body", "data"))
    title, body = (_string(members, name, faults) for name in ("title", "body"))
    data: Any = members.get("data")
    if data is not None and not isinstance(data, dict):
        faults.append(Fault("/data", "wrong_type", "The data of a push is an object."))
    elif is_too_deep(data):
        faults.append(Fault("/data", "not_encodable", _TOO_DEEP))
    faults += _length(title, body)
    if not faults and data and encoded_bytes(data) > MAX_WEBHOOK_BYTES:
        detail = f"The data of a push has at most {MAX_WEBHOOK_BYTES} bytes as JSON."
        faults.append(Fault("/data", "too_long", detail))
    if not faults and not title and not body and not data:
        faults.append(Fault("", "required", "A push needs a title, a body or data."))
    if faults:
        raise UnreadableContent(faults)
    return PushContent(title=title, body=body, data=cast("dict[str, Any]", data or {}))


def _read_webhook(value: Any) -> WebhookContent:
    if is_too_deep(value):
        raise UnreadableContent([Fault("", "not_encodable", _TOO_DEEP)])
    if encoded_bytes(value) > MAX_WEBHOOK_BYTES:
        detail = f"The content of a webhook has at most {MAX_WEBHOOK_BYTES} bytes as JSON."
        raise UnreadableContent([Fault("", "too_long", detail)])
    return WebhookContent(data=value)


_READERS: dict[str, Callable[[Any], Content]] = {
    Channel.EMAIL: _read_email,
    Channel.SMS: _read_sms,
    Channel.PUSH: _read_push,
    Channel.WEBHOOK: _read_webhook,
}
_EMPTY = Fault("", "required", "The content is empty.")
_TOO_DEEP = f"It is nested deeper than {MAX_DEPTH} levels."


def _members(value: Any, known: tuple[str, ...]) -> tuple[dict[str, Any], list[Fault]]:
    """Return the members of an object and a fault for each that is not ``known``."""
    if type(value) is not dict:
        raise UnreadableContent([Fault("", "wrong_type", "The content is a string or an object.")])
    members = cast("dict[str, Any]", value)
    unknown = islice((name for name in members if name not in known), MAX_UNKNOWN)
    return members, [
        Fault(f"/{pointer_token(name)}", "unknown_field", "There is no such field.")
        for name in unknown
    ]


def _string(members: dict[str, Any], name: str, faults: list[Fault]) -> str | None:
    value = members.get(name)
    if value is None or type(value) is str:
        return value
    faults.append(Fault(f"/{name}", "wrong_type", "It is a string."))
    return None


def _length(*texts: str | None) -> list[Fault]:
    if sum(len(text) for text in texts if text) <= MAX_TEXT_CHARACTERS:
        return []
    return [Fault("", "too_long", f"It has at most {MAX_TEXT_CHARACTERS} characters in all.")]


def pointer_token(name: str) -> str:
    """Return a member name as it stands in a JSON pointer (RFC 6901); a very long one is cut."""
    if len(name) > MAX_NAMED_CHARACTERS:
        name = name[:MAX_NAMED_CHARACTERS] + "…"
    return name.replace("~", "~0").replace("/", "~1")


def encoded_bytes(value: Any) -> int:
    """Return the size of ``value`` as compact JSON in UTF-8."""
    return len(_COMPACT.encode(value).encode())


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def is_too_deep(value: Any, *, most: int = MAX_DEPTH) -> bool:
    """Whether ``value`` nests deeper than ``most``; level by level, so depth costs no stack."""
    level: list[Any] = [value]
    for _ in range(most + 1):
        level = [item for item in level if isinstance(item, dict | list)]
        if not level:
            return False
        level = [child for container in level for child in _children(container)]
    return True


def _children(container: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container
