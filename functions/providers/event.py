"""What a service of AWS tells by SNS, handed to whoever reads its kind: told by its shape alone.

ses   an event or a feedback notification about an email: it has a `mail`
sms   an event about a text message, or a message that came in from a telephone
push  an event of a platform application, or a line of its delivery log

What is none of these, or cannot be read, is kept as a note with its bytes: a rule that comes later
may read it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from functions.core.errors import Unreadable
from functions.core.evidence import Rank, Receipt, StoredReceipt
from functions.core.recipient import InvalidRecipient, normalise, recipient_hash
from functions.core.shared_fact import SharedFact
from functions.core.states import Channel
from functions.core.strict_json import MalformedJson, parse
from functions.providers import push_event, ses_event, sms_event
from functions.providers.http_report import NOBODY
from functions.providers.sns_envelope import NOTIFICATION, Envelope, envelope_in

NOTES = "events"
"""The door of what nobody's rules read."""
UNREADABLE = "unreadable"
MAX_KEPT_BYTES = 256 * 1024
MAX_TYPE_CHARACTERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one event tells: receipts, all of one door; and what are facts for everybody.

    ``unreadable``: it has not the shape it needs, and is kept as a note.
    """

    receipts: Sequence[Receipt]
    shared: Sequence[SharedFact] = ()
    unreadable: bool = False

    @property
    def door(self) -> str:
        return self.receipts[0].provider if self.receipts else NOTES


def read_delivery(body: bytes, *, sent_at: datetime | None, hash_key: bytes) -> Told:
    """Return what a message of our own queue tells: in SNS's envelope, or without it where the
    subscription delivers raw. ``sent_at`` is when it was put on the queue."""
    try:
        envelope = envelope_in(_object(body))
    except Unreadable:
        envelope = None
    if envelope is not None:
        return read_enveloped(envelope, raw=body, hash_key=hash_key)
    return read_event(body, at=sent_at, hash_key=hash_key)


def read_enveloped(envelope: Envelope, *, raw: bytes, hash_key: bytes) -> Told:
    """Return what the message in an envelope tells; that of a subscription is a note."""
    if envelope.type != NOTIFICATION:
        return Told(receipts=[_note(raw, envelope.type, at=envelope.published_at)])
    body = envelope.message.encode("utf-8", "surrogatepass")
    return read_event(body, at=envelope.published_at, hash_key=hash_key)


def read_event(body: bytes, *, at: datetime | None, hash_key: bytes) -> Told:
    """Return what the JSON of an event tells; ``at`` is when it was published. Never raises."""
    try:
        if body.startswith(ses_event.GREETING):  # which is no JSON
            return Told(receipts=ses_event.parse(body, hash_key=hash_key))
        return _read(_object(body), body, at=at, hash_key=hash_key)
    except Unreadable:
        return unreadable(body)


def _read(value: Mapping[str, Any], body: bytes, *, at: datetime | None, hash_key: bytes) -> Told:
    detail = value.get("detail")
    event = cast("Mapping[str, Any]", detail) if isinstance(detail, Mapping) else value
    kind = _type_of(event) or _type_of(value)
    if isinstance(event.get("mail"), Mapping) or kind in ses_event.GREETINGS:
        return Told(receipts=ses_event.parse(body, hash_key=hash_key))
    if "originationNumber" in event and "inboundMessageId" in event:
        return _inbound(body, at=at, hash_key=hash_key)
    if "eventType" in event and "messageId" in event:
        return Told(receipts=sms_event.parse(body, hash_key=hash_key))
    if "EventType" in event or isinstance(event.get("notification"), Mapping):
        return _push(body, hash_key=hash_key)
    return Told(receipts=[_note(body, kind or "unknown", at=at, unforeseen=True)])


def _type_of(members: Mapping[str, Any]) -> str | None:
    """Return what an event calls itself, as far as it can be kept."""
    for name in ("eventType", "notificationType", "detail-type"):
        kind = members.get(name)
        if isinstance(kind, str) and kind and kind.isprintable():
            return kind[:MAX_TYPE_CHARACTERS]
    return None


def _inbound(body: bytes, *, at: datetime | None, hash_key: bytes) -> Told:
    """Return the note of a message that came in, and the choice that it makes."""
    inbound = sms_event.parse_inbound(body, at=at)
    if inbound is None:
        raise Unreadable
    chooses = sms_event.opts_out(inbound) or sms_event.opts_in(inbound)
    number, hashed = _number_of(inbound.number, hash_key)
    receipt = Receipt(
        provider=sms_event.DECLARATION.name,
        event_key=f"{sms_event.INBOUND}:{inbound.message_id}",
        type="inbound",
        rank=Rank.NONE,
        occurred_at=inbound.at,
        reference=inbound.answers,
        recipient_hash=hashed,
        reason=(inbound.keyword or inbound.registered) if chooses else None,
        raw=body if chooses else b"",  # what people write to us is not ours to keep
    )
    if not chooses or number is None:
        return Told(receipts=[receipt])
    lifts = not sms_event.opts_out(inbound)
    shared = SharedFact(
        channel=Channel.SMS,
        recipient=number,
        recipient_hash=hashed,
        fact=inbound.fact,
        at=inbound.at,
        lifts=lifts,
    )
    return Told(receipts=[receipt], shared=[shared])


def _push(body: bytes, *, hash_key: bytes) -> Told:
    """Return what an event of a platform application proves, and the device that it says is gone,
    by each name that may have been sent to."""
    receipts = push_event.parse(body, hash_key=hash_key)
    dead = push_event.dead_token_of(body)
    if dead is None:
        return Told(receipts=receipts)
    shared: list[SharedFact] = []
    for name in dead.recipients:
        try:
            recipient = normalise(Channel.PUSH, name)
        except InvalidRecipient:
            continue
        shared.append(
            SharedFact(
                channel=Channel.PUSH,
                recipient=recipient,
                recipient_hash=recipient_hash(hash_key, Channel.PUSH, recipient),
                fact=dead.fact,
                at=dead.occurred_at,
            )
        )
    return Told(receipts=receipts, shared=shared)


def _number_of(text: str, hash_key: bytes) -> tuple[str | None, bytes]:
    """Return a number as accept would have stored it, and its hash; a short code is nobody's."""
    try:
        number = normalise(Channel.SMS, text)
    except InvalidRecipient:
        return None, recipient_hash(hash_key, NOBODY, text)
    return number, recipient_hash(hash_key, Channel.SMS, number)


def unreadable(body: bytes) -> Told:
    """Return the note of something without the shape it needs."""
    return Told(receipts=[_note(body, UNREADABLE, at=None)], unreadable=True)


def _note(body: bytes, name: str, *, at: datetime | None, unforeseen: bool = False) -> Receipt:
    return Receipt(
        provider=NOTES,
        event_key=hashlib.sha256(body).hexdigest(),
        type=name,
        rank=Rank.NONE,
        occurred_at=at,
        unforeseen=unforeseen,
        raw=body[:MAX_KEPT_BYTES],
    )


def read_again(stored: StoredReceipt, *, hash_key: bytes) -> Receipt | None:
    """Return what a note proves by the rules of today, None while none of them reads it."""
    told = read_delivery(stored.raw, sent_at=stored.received_at, hash_key=hash_key)
    if told.door == NOTES or len(told.receipts) != 1:
        return None
    return told.receipts[0]


def _object(body: bytes) -> Mapping[str, Any]:
    """Return the members of ``body``; whether they can be stored is for those who read them."""
    try:
        value, _ = parse(body)
    except MalformedJson as error:
        raise Unreadable(error.detail) from None
    if not isinstance(value, dict):
        raise Unreadable("It is not an object.")
    return cast("dict[str, Any]", value)
