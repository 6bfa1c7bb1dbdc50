"""What SES reports: events of a configuration set and feedback of an identity, as evidence.

An event is correlated by the attempt in its tags first, then by SES's own id of the message. It
counts for whom it names and for nobody else (FAULTS E6): each recipient that it names is a receipt
of its own, and one that names nobody is a note.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parseaddr
from typing import Any, cast
from uuid import UUID

from functions.core.declaration import Declaration
from functions.core.errors import Unreadable
from functions.core.evidence import Rank, Receipt, StoredReceipt
from functions.core.states import Channel
from functions.core.strict_json import UNSTORABLE, MalformedJson
from functions.core.strict_json import parse as parse_json
from functions.core.suppression import Fact
from functions.providers.http_report import hash_of
from functions.providers.ses_meaning import NOTE, Meaning, of_bounce, of_complaint, of_event

DECLARATION = Declaration(name="ses", keyed=False, receipts=True)
"""Here, and not with the provider, for those who read what it tells and send nothing: no boto3."""

MAX_TEXT_CHARACTERS = 512
"""A longer text is cut: evidence is worth more than its wording."""

# What a topic gets when it is connected with SES: no event, and nothing wrong.
GREETING = b"Successfully validated SNS topic"
GREETINGS = frozenset({"AmazonSnsSubscriptionSucceeded"})

# By the type of an event: which object it has, and which list of that names its recipients. Without
# a list it is about the message, so about all that it was sent to.
DETAILS: Mapping[str, tuple[str, str | None]] = {
    "Bounce": ("bounce", "bouncedRecipients"),
    "Complaint": ("complaint", "complainedRecipients"),
    "Delivery": ("delivery", "recipients"),
    "DeliveryDelay": ("deliveryDelay", "delayedRecipients"),
    "Subscription": ("subscription", None),
    "Open": ("open", None),
    "Click": ("click", None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recipient:
    """Somebody an event names, and what their server answered."""

    address: str
    status: str | None = None
    diagnostic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """An event, after its outer members were read; ``detail`` is the object of its type."""

    type: str
    mail: Mapping[str, Any]
    detail: Mapping[str, Any]
    message_id: str
    raw: bytes

    def said(self, name: str) -> str | None:
        """Return a text of its object."""
        return _text(self.detail.get(name))

    @property
    def full_type(self) -> str:
        """Its type, with what SES says further of it."""
        names = ("bounceType", "bounceSubType", "complaintSubType", "complaintFeedbackType")
        further = "/".join(text for name in (*names, "delayType") if (text := self.said(name)))
        return f"{self.type} {further}" if further else self.type

    @property
    def key(self) -> str:
        """What tells it from others, as PROVIDERS §2 has it, but for the recipient."""
        timestamp = self.said("timestamp") or _text(self.mail.get("timestamp")) or ""
        return self.said("feedbackId") or f"{self.message_id}:{self.type}:{timestamp}"


def parse(body: bytes | Mapping[str, Any], *, hash_key: bytes) -> list[Receipt]:
    """Return what an event proves, nothing for the greeting of a topic; raise Unreadable.

    The event is as SES writes it, or the ``detail`` of an event of EventBridge.
    """
    raw = body if isinstance(body, bytes) else _dumped(body)
    if raw.startswith(GREETING):
        return []
    members = _read(raw)
    event_type = _text(members.get("eventType")) or _text(members.get("notificationType"))
    if event_type in GREETINGS:
        return []
    mail = _object(members.get("mail"))
    message_id = _text(mail.get("messageId"))
    if event_type is None or message_id is None:
        raise Unreadable("An event of SES has a type, and a mail with its id.")
    detail, listed = DETAILS.get(event_type, ("", None))
    event = _Event(
        type=event_type,
        mail=mail,
        detail=_object(members.get(detail)),
        message_id=message_id,
        raw=raw,
    )
    named = list(_recipients(event.detail.get(listed) if listed else mail.get("destination")))
    if not named:
        return [_receipt(event, None, key=event.key, recipient_hash=None)]
    receipts: dict[str, Receipt] = {}
    for one in named:
        hashed = hash_of(one.address, channel=Channel.EMAIL, hash_key=hash_key)
        key = event.key
        if hashed is not None and (len(named) > 1 or key != event.said("feedbackId")):
            key = f"{key}:{hashed.hex()[:16]}"  # no address in a key
        receipts[key] = _receipt(event, one, key=key, recipient_hash=hashed)
    return list(receipts.values())


def read_again(stored: StoredReceipt, *, hash_key: bytes) -> Receipt | None:
    """Return what a kept event proves by the rules of today; None when they cannot read it."""
    try:
        receipts = parse(stored.raw, hash_key=hash_key)
    except Unreadable:
        return None
    return next((one for one in receipts if one.event_key == stored.event_key), None)


def _receipt(
    event: _Event, recipient: _Recipient | None, *, key: str, recipient_hash: bytes | None
) -> Receipt:
    told = _meaning(event, recipient)
    meaning = told if recipient else NOTE
    attempt_id, idempotency_key = _named_in(event.mail)
    return Receipt(
        provider=DECLARATION.name,
        event_key=key,
        type=event.full_type,
        rank=meaning.rank,
        occurred_at=_time(event.detail.get("timestamp")) or _time(event.mail.get("timestamp")),
        idempotency_key=idempotency_key,
        attempt_id=attempt_id,
        reference=event.message_id,
        recipient_hash=recipient_hash,
        reason=meaning.reason,
        permanent=meaning.rank == Rank.HARD_FAILURE,
        complaint=meaning.complaint,
        address_at_fault=meaning.suppress is not None,
        refused=meaning.refused,
        fact=_fact(event, recipient, meaning),
        unforeseen=told.unforeseen,
        raw=event.raw,
    )


def _meaning(event: _Event, recipient: _Recipient | None) -> Meaning:
    match event.type:
        case "Bounce":
            return of_bounce(
                event.said("bounceType") or "",
                event.said("bounceSubType") or "",
                status=(recipient and recipient.status) or "",
            )
        case "Complaint":
            return of_complaint(
                event.said("complaintSubType") or "", event.said("complaintFeedbackType") or ""
            )
        case _:
            return of_event(event.type, delay=event.said("delayType") or "")


def _fact(event: _Event, recipient: _Recipient | None, meaning: Meaning) -> Fact | None:
    """Return why the address is suppressed, with SES's own words and without the address."""
    if meaning.suppress is None or recipient is None:
        return None
    names = ("feedbackId", "timestamp", "complaintFeedbackType", "userAgent", "arrivalDate")
    evidence = {
        "messageId": event.message_id,
        "subType": event.said("bounceSubType") or event.said("complaintSubType"),
        "status": recipient.status,
        "diagnosticCode": recipient.diagnostic,
        **{name: event.said(name) for name in names},
    }
    told = {name: _ADDRESS.sub("<address>", text) for name, text in evidence.items() if text}
    return Fact(reason=meaning.suppress, source=meaning.source, evidence=told)


_ADDRESS = re.compile(r"[^\s<>\[\](),:;\"']+@[^\s<>\[\](),:;\"']+")


def _named_in(mail: Mapping[str, Any]) -> tuple[UUID | None, str | None]:
    """Return the attempt that we tagged the message with, and a key of ours that names it too."""
    tags = _object(mail.get("tags"))
    notification_id, attempt_id = (
        _uuid(tags.get(name)) for name in ("notification_id", "attempt_id")
    )
    if notification_id is None:
        return attempt_id, None
    return attempt_id, ".".join(str(id) for id in (notification_id, attempt_id) if id is not None)


def _recipients(listed: Any) -> Iterator[_Recipient]:
    """Yield whom a list names: addresses, or objects with one and what its server answered."""
    for member in cast("list[Any]", listed) if isinstance(listed, list) else []:
        about = _object(member)
        address = _text(about.get("emailAddress") if about else member)
        if address is not None:
            yield _Recipient(
                address=parseaddr(address)[1] or address,
                status=_text(about.get("status")),
                diagnostic=_text(about.get("diagnosticCode")),
            )


def _read(raw: bytes) -> Mapping[str, Any]:
    """Return the event in ``raw``. What could not be stored is in no text that we take out."""
    try:
        value, _ = parse_json(raw)
    except MalformedJson as error:
        raise Unreadable(error.detail) from None
    members = _object(value)
    return _object(members.get("detail")) if "detail-type" in members else members


def _dumped(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body).encode()
    except (TypeError, ValueError, RecursionError):
        raise Unreadable("The event cannot be written as JSON.") from None


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    """Return a text, without what PostgreSQL cannot store; None for what is none, or empty."""
    if not isinstance(value, str):
        return None
    return UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", value)[:MAX_TEXT_CHARACTERS] or None


def _time(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (TypeError, ValueError, OverflowError):
        return None


def _uuid(tag: Any) -> UUID | None:
    """Return the id in a tag, whose value is a list."""
    values = cast("list[Any]", tag) if isinstance(tag, list) else [tag]
    try:
        return UUID(values[0]) if values and isinstance(values[0], str) else None
    except ValueError:
        return None
