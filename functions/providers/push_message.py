"""What a push says on each platform, in the bytes that it may have.

A platform payload has at most 4096 bytes as JSON in UTF-8, all of it counted: envelope, token, data
and text. Text that is too long for the room that the data leaves is cut between two characters as
people see them, and ends in a mark: a title keeps up to 256 bytes, the body gets the rest. Data is
never cut.

The idempotency key is the collapse id everywhere, so that a duplicate replaces the first one. On
Android FCM stores at most four collapse keys per offline device: a stream of data messages whose
every one counts sets ``collapse`` to false, and its duplicates stay apart.
"""

import json
import time
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from functions.core.content import PushContent
from functions.core.errors import Unreadable
from functions.providers.provider import Submission

MAX_PAYLOAD_BYTES = 4096
MAX_TITLE_BYTES = 256
"""What a title keeps when there is not room for all: no screen shows more of one."""
MARK = "…"
_MARK_BYTES = len(MARK.encode())
_FARTHEST = 64
"""How far back the end of a character is looked for: longer ones are nobody's writing."""

MAX_TTL_SECONDS = 28 * 24 * 3600
"""Four weeks: FCM's limit, and what SNS does where nothing is said."""
DEFAULT_TTL_SECONDS = 24 * 3600
"""Of a notification that never expires: as long as a push is waited for at all."""


class PayloadTooLarge(Exception):
    """The data, or the token, leaves no room for any text."""


class BadSetting(Exception):
    """A setting of the stream or of the surroundings, by name, that cannot be."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True, slots=True, kw_only=True)
class PushMessage:
    """A push before it has the form of a platform; ``title`` and ``body`` are None when absent."""

    title: str | None
    body: str | None
    data: Mapping[str, Any]
    collapse_id: str
    collapse: bool
    """Whether Android's collapse key is set; the other collapse ids always are."""
    ttl_seconds: int
    expires_at_epoch: int

    @property
    def is_shown(self) -> bool:
        """Whether there is anything to show; otherwise the data is for the application alone."""
        return self.title is not None or self.body is not None


def message_of(submission: Submission) -> PushMessage:
    """Return what ``submission`` says; raise Unreadable or BadSetting."""
    content = submission.content
    if not isinstance(content, PushContent):
        raise Unreadable("The content is not a push's.")
    collapse = submission.sender.settings.get("collapse", True)
    if not isinstance(collapse, bool):
        raise BadSetting("collapse")
    ttl_seconds = _ttl_seconds_of(submission)
    return PushMessage(
        title=content.title or None,
        body=content.body or None,
        data=content.data,
        collapse_id=submission.idempotency_key,
        collapse=collapse,
        ttl_seconds=ttl_seconds,
        expires_at_epoch=int(time.time()) + ttl_seconds,
    )


def _ttl_seconds_of(submission: Submission) -> int:
    seconds: Any = submission.sender.settings.get("ttl_seconds", DEFAULT_TTL_SECONDS)
    if type(seconds) is not int or seconds < 1:
        raise BadSetting("ttl_seconds")
    if submission.remaining_seconds is not None:
        seconds = int(submission.remaining_seconds)
    return min(MAX_TTL_SECONDS, max(1, seconds))


def fcm_message(message: PushMessage) -> dict[str, Any]:
    """Return FCM's ``message`` but for whom it is for. Its data knows texts only: other values go
    as JSON."""
    android: dict[str, Any] = {"ttl": f"{message.ttl_seconds}s"}
    if message.collapse:
        android["collapse_key"] = message.collapse_id
    apns: dict[str, Any] = {
        "headers": {
            "apns-collapse-id": message.collapse_id,
            "apns-expiration": str(message.expires_at_epoch),
        },
        "payload": {"aps": {"sound": "default"}},
    }
    webpush: dict[str, Any] = {"headers": {"TTL": str(message.ttl_seconds)}}
    form: dict[str, Any] = {"android": android, "apns": apns, "webpush": webpush}
    if message.data:
        form["data"] = {name: _as_text(value) for name, value in message.data.items()}
    if message.is_shown:
        form["notification"] = _shown(message)
        android["notification"] = {"tag": message.collapse_id}
        webpush["notification"] = {"tag": message.collapse_id}
    else:
        apns["headers"]["apns-priority"] = "5"  # what Apple demands of a silent one
        apns["payload"] = {"aps": {"content-available": 1}}
    return form


def apns_payload(message: PushMessage) -> dict[str, Any]:
    """Return what Apple's devices get: the data beside ``aps``, which is ours."""
    if "aps" in message.data:
        raise Unreadable("The data has a member named aps, which Apple keeps to itself.")
    if message.is_shown:
        return {"aps": {"alert": _shown(message), "sound": "default"}, **message.data}
    return {"aps": {"content-available": 1}, **message.data}


def _shown(message: PushMessage) -> dict[str, str]:
    texts = {"title": message.title, "body": message.body}
    return {name: text for name, text in texts.items() if text is not None}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)


def compact(value: Any) -> str:
    """Return ``value`` as the JSON that is sent: no blanks, no needless escapes."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def fitted(message: PushMessage, form: Callable[[PushMessage], Any]) -> str:
    """Return ``message`` in its ``form``, as JSON of at most MAX_PAYLOAD_BYTES.

    Raises PayloadTooLarge when no cut of the text would do.
    """
    whole = compact(form(message))
    if len(whole.encode()) <= MAX_PAYLOAD_BYTES:
        return whole
    title, body = message.title, message.body
    bare = replace(message, title=title and "", body=body and "")
    room = MAX_PAYLOAD_BYTES - len(compact(form(bare)).encode())
    if title is not None:
        rest = room if body is None else max(MAX_TITLE_BYTES, room - _bytes_in(body))
        title = cut(title, min(rest, room if body is None else room - _MARK_BYTES))
        room -= _bytes_in(title)
    if body is not None:
        body = cut(body, room)
    elif title is None:
        raise PayloadTooLarge
    return compact(form(replace(message, title=title, body=body)))


def cut(text: str, room: int) -> str:
    """Return ``text`` in at most ``room`` bytes of JSON: as it is, or cut and marked.

    Raises PayloadTooLarge when not even the mark has room.
    """
    if _bytes_in(text) <= room:
        return text
    if room < _MARK_BYTES:
        raise PayloadTooLarge
    # Every character has a byte at least, and each more of them makes the JSON longer.
    lengths = range(min(len(text), room) + 1)
    most = bisect_right(lengths, room - _MARK_BYTES, key=lambda length: _bytes_in(text[:length]))
    return text[: _character_end(text, most - 1)].rstrip() + MARK


def _bytes_in(text: str) -> int:
    return len(compact(text).encode()) - 2  # without the quotes


def _character_end(text: str, length: int) -> int:
    """Return the last place, at ``length`` or before, where what people take for one character
    ends: not before an accent or a skin tone, in a joined emoji or between the halves of a flag."""
    for candidate in range(length, max(0, length - _FARTHEST), -1):
        if not _joins(text, candidate):
            return candidate
    return 0 if length <= _FARTHEST else length


def _joins(text: str, place: int) -> bool:
    """Whether the characters before and after ``place`` belong together."""
    before, after = text[place - 1], text[place]
    return (
        unicodedata.category(after) in ("Mn", "Mc", "Me")
        or _JOINER in (before, after)
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= after <= "\U000e007f"  # the rest of a regional flag
        or (_is_half_flag(after) and _half_flags_before(text, place) % 2 == 1)
    )


_JOINER = "\u200d"


def _is_half_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _half_flags_before(text: str, place: int) -> int:
    start = place
    while start > 0 and _is_half_flag(text[start - 1]):
        start -= 1
    return place - start
