"""What a gateway reports: its callback, read from the bytes that were signed, and what it proves.

Used when a callback comes in, when a look-up is answered, and when receipts are read again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from functions.core.errors import Fault, RequestRefused, ValidationFailed
from functions.core.evidence import Rank, Receipt, StoredReceipt, badness
from functions.core.recipient import (
    MAX_TOKEN_CHARACTERS,
    InvalidRecipient,
    normalise,
    recipient_hash,
)
from functions.core.states import Channel
from functions.core.strict_json import MalformedJson, parse

PROVIDER = "http"
LOOKED_UP = "look-up:"
"""Begins the event key of what we asked for; a gateway's own are its own affair."""

MAX_TEXT_CHARACTERS = 512
MAX_REASON_CHARACTERS = 512
"""A longer reason is cut: evidence is worth more than its wording."""

NOBODY = "nobody"
"""Stands for the channel of what is no address: the hash matches nothing, the report is a note."""

LIKELY = (Channel.WEBHOOK, Channel.SMS, Channel.EMAIL, Channel.PUSH)
"""A report names no channel: it is that of the notification. While that is not known it is the
first whose address this could be, which is wrong only for a push token of another's shape."""


# API.md, callbacks: what each status of a gateway's report proves.
RANKS: Mapping[str, Rank] = {
    "accepted": Rank.ACCEPTED,
    "delivered": Rank.DELIVERED,
    "failed": Rank.SOFT_FAILURE,
    "bounced": Rank.SOFT_FAILURE,
    "complained": Rank.DELIVERED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a report says of the whole message, or of one part of it."""

    status: str
    permanent: bool
    reason: str | None

    @property
    def is_permanent(self) -> bool:
        return self.permanent and self.status in ("failed", "bounced")

    @property
    def rank(self) -> Rank:
        return Rank.HARD_FAILURE if self.is_permanent else RANKS.get(self.status, Rank.NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A gateway's callback, after its members were checked."""

    event_id: str
    message_id: str | None
    idempotency_key: str | None
    recipient: str | None
    whole: Part
    occurred_at: datetime | None
    parts: tuple[Part, ...] = ()
    """Of a message that was sent in several; the worst of them counts."""

    @property
    def worst(self) -> Part:
        return min((self.whole, *self.parts), key=lambda part: badness(part.rank))


def receipt_of(report: Report, *, raw: bytes, recipient_hash: bytes | None) -> Receipt:
    """Return what ``report`` proves; a permanent bounce or a complaint is the address's fault."""
    worst = report.worst
    complaint = any(part.status == "complained" for part in (report.whole, *report.parts))
    return Receipt(
        provider=PROVIDER,
        event_key=report.event_id,
        type=worst.status,
        rank=worst.rank,
        occurred_at=report.occurred_at,
        idempotency_key=report.idempotency_key,
        reference=report.message_id,
        recipient_hash=recipient_hash,
        reason=worst.reason,
        permanent=worst.is_permanent,
        complaint=complaint,
        address_at_fault=complaint or (worst.is_permanent and worst.status == "bounced"),
        raw=raw,
    )


def read_report(body: bytes, *, webhook_id: str) -> Report:
    """Return the report in ``body``; raise MalformedJson or UnreadableReport with every fault.

    Unknown members and unknown statuses are kept as they are: a gateway may tell more than we ask.
    """
    value, faults = parse(body)
    members: Any = cast("dict[str, Any]", value).get("data") if isinstance(value, dict) else None
    if faults or not isinstance(members, dict):
        raise MalformedJson("The callback is not an object with an object named data.")
    data = cast("dict[str, Any]", members)
    whole = _part(data, "/data", faults)
    message_id = _text(data, "message_id", faults)
    idempotency_key = _text(data, "idempotency_key", faults)
    if message_id is None and idempotency_key is None:
        faults.append(Fault("/data", "required", "A report names a message or its key."))
    report = Report(
        event_id=_event_key(_text(data, "event_id", faults) or webhook_id),
        message_id=message_id,
        idempotency_key=idempotency_key,
        recipient=_text(data, "recipient", faults, longest=MAX_TOKEN_CHARACTERS),
        whole=whole,
        occurred_at=_time(cast("dict[str, Any]", value).get("timestamp"), faults),
        parts=_parts(data.get("parts"), faults),
    )
    if faults:
        raise UnreadableReport(faults)
    return report


class UnreadableReport(ValidationFailed):
    """The callback does not have the members of a report."""

    code = "malformed_json"


def _event_key(event_id: str) -> str:
    """Return the key of a gateway's own event: never one of our look-ups', whatever it is named."""
    return f"said:{event_id}" if event_id.startswith((LOOKED_UP, "said:")) else event_id


def _parts(value: Any, faults: list[Fault]) -> tuple[Part, ...]:
    """Return what a report says of the parts of its message, none when it says nothing."""
    if value is None:
        return ()
    if not isinstance(value, list):
        faults.append(Fault("/data/parts", "wrong_type", "It is a list of objects."))
        return ()
    parts: list[Part] = []
    for index, member in enumerate(cast("list[Any]", value)):
        if isinstance(member, dict):
            part = _part(cast("dict[str, Any]", member), f"/data/parts/{index}", faults)
            parts.append(part)
        else:
            faults.append(Fault(f"/data/parts/{index}", "wrong_type", "It is an object."))
    return tuple(parts)


def _part(data: Mapping[str, Any], pointer: str, faults: list[Fault]) -> Part:
    status = _text(data, "status", faults, pointer=pointer)
    if status is None:
        faults.append(Fault(f"{pointer}/status", "required", "A report names a status."))
    permanent = data.get("permanent")
    if not isinstance(permanent, bool | None):
        faults.append(Fault(f"{pointer}/permanent", "wrong_type", "It is true or false."))
    reason = _text(data, "reason", faults, pointer=pointer, longest=None) or ""
    return Part(
        status=status or "",
        permanent=permanent is True,
        reason=reason[:MAX_REASON_CHARACTERS] or None,
    )


def _text(
    data: Mapping[str, Any],
    name: str,
    faults: list[Fault],
    *,
    pointer: str = "/data",
    longest: int | None = MAX_TEXT_CHARACTERS,
) -> str | None:
    """Return a member of the report, None when it is absent, null or empty."""
    value = data.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        faults.append(Fault(f"{pointer}/{name}", "wrong_type", "It is a string."))
    elif longest is not None and len(value) > longest:
        detail = f"It has at most {longest} characters."
        faults.append(Fault(f"{pointer}/{name}", "too_long", detail))
    else:
        return value
    return None


def _time(value: Any, faults: list[Fault]) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError
        return moment.astimezone(UTC)  # beyond the years 1 to 9999 nobody could read it again
    except (TypeError, ValueError, OverflowError):
        faults.append(Fault("/timestamp", "invalid_time", "It is a time with an offset."))
        return None


def looked_up(body: bytes, *, idempotency_key: str) -> Receipt | None:
    """Return what the answer to a look-up proves, None when it cannot be read.

    The same answer to a later look-up is the same receipt; another status is another.
    """
    try:
        value, faults = parse(body)
    except MalformedJson:
        return None
    members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    status = _text(members, "status", faults)
    message_id = _text(members, "message_id", faults)
    if faults or status is None:
        return None
    report = Report(
        event_id=f"{LOOKED_UP}{idempotency_key}:{status}",
        message_id=message_id,
        idempotency_key=idempotency_key,
        recipient=None,
        whole=Part(status=status, permanent=members.get("permanent") is True, reason=None),
        occurred_at=None,
    )
    return receipt_of(report, raw=body, recipient_hash=None)


def read_again(stored: StoredReceipt, *, hash_key: bytes) -> Receipt | None:
    """Return what a kept report proves by the rules of today; None when they cannot read it."""
    if stored.event_key.startswith(LOOKED_UP):
        key = stored.event_key.removeprefix(LOOKED_UP).partition(":")[0]
        return looked_up(stored.raw, idempotency_key=key)
    try:
        report = read_report(stored.raw, webhook_id=stored.event_key)
    except RequestRefused:
        return None
    hashed = hash_of(report.recipient, channel=stored.channel, hash_key=hash_key)
    return receipt_of(report, raw=stored.raw, recipient_hash=hashed)


def hash_of(recipient: str | None, *, channel: str | None, hash_key: bytes) -> bytes | None:
    """Return the hash of the recipient a report names, as accept would have stored it."""
    if recipient is None:
        return None
    for candidate in (channel,) if channel else LIKELY:
        try:
            address = normalise(candidate, recipient, local_webhook_origin=_origin_of(recipient))
        except InvalidRecipient:
            continue
        return recipient_hash(hash_key, candidate, address)
    return recipient_hash(hash_key, NOBODY, recipient)


def _origin_of(recipient: str) -> str:
    """Return the origin of a URL that we accepted once: the https rule is the door's, not ours."""
    return "/".join(recipient.split("/", 3)[:3]) if recipient.startswith("http://") else ""
