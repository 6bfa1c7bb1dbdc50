"""What AWS End User Messaging SMS tells: events about what was sent, and messages that come in.

An event is the JSON that the service publishes by SNS, or the same as the ``detail`` of an
EventBridge event. It proves what its type says once it is final; before, only that the message was
accepted. What comes in may be a STOP: for a number whose opt-outs we manage ourselves nobody else
heeds it, and where the service does, it tells us nothing but this.
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

from functions.core.declaration import Declaration
from functions.core.errors import Unreadable
from functions.core.evidence import Rank, Receipt, StoredReceipt
from functions.core.states import Channel
from functions.core.strict_json import UNSTORABLE, MalformedJson
from functions.core.strict_json import parse as parse_json
from functions.core.suppression import Fact, SuppressionReason
from functions.providers.http_report import hash_of

DECLARATION = Declaration(name="sms", keyed=False, receipts=True)
"""Here, and not with the provider, for those who read it and send nothing: no boto3."""
EVENT = "sms:event"
INBOUND = "sms:inbound"
"""Say so where a number is suppressed by an event, or by its holder."""

MAX_TEXT_CHARACTERS = 512
MAX_KEYWORD_CHARACTERS = 30
"""The service's own limit of a keyword; a longer message is no keyword, and is not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a type of event proves.

    ``reason`` is of our own words, for they are what is counted. ``ends``: it is final if it does
    not say so. ``invalid``: no such number, so it is suppressed.
    """

    rank: Rank
    reason: str | None = None
    ends: bool = True
    invalid: bool = False


# PROVIDERS §2.3. A time that was over and an end that nobody knows are soft: a delivery that is
# reported all the same is the better evidence. TEXT_SENT is documented as not supported.
MEANINGS: Mapping[str, Meaning] = {
    "TEXT_QUEUED": Meaning(rank=Rank.ACCEPTED),
    "TEXT_PENDING": Meaning(rank=Rank.ACCEPTED),
    "TEXT_SENT": Meaning(rank=Rank.NONE),
    "TEXT_SUCCESSFUL": Meaning(rank=Rank.DELIVERED, ends=False),
    "TEXT_DELIVERED": Meaning(rank=Rank.DELIVERED),
    "TEXT_INVALID": Meaning(rank=Rank.HARD_FAILURE, reason="invalid_number", invalid=True),
    "TEXT_INVALID_MESSAGE": Meaning(rank=Rank.HARD_FAILURE, reason="invalid_message"),
    "TEXT_UNREACHABLE": Meaning(rank=Rank.SOFT_FAILURE, reason="unreachable"),
    "TEXT_CARRIER_UNREACHABLE": Meaning(rank=Rank.SOFT_FAILURE, reason="carrier_unreachable"),
    "TEXT_BLOCKED": Meaning(rank=Rank.HARD_FAILURE, reason="blocked"),
    "TEXT_CARRIER_BLOCKED": Meaning(rank=Rank.HARD_FAILURE, reason="carrier_blocked"),
    "TEXT_SPAM": Meaning(rank=Rank.HARD_FAILURE, reason="spam"),
    "TEXT_TTL_EXPIRED": Meaning(rank=Rank.SOFT_FAILURE, reason="lifetime_over"),
    "TEXT_PROTECT_BLOCKED": Meaning(rank=Rank.HARD_FAILURE, reason="protect_configuration"),
    "TEXT_UNKNOWN": Meaning(rank=Rank.SOFT_FAILURE, reason="unknown"),
}
UNFORESEEN = Meaning(rank=Rank.NONE)
OPTED_OUT = ("opted out", "opted_out")
"""In the status of a failure, or in its description: the service's list kept it from being sent. No
type of event is for that, and the number is not to be asked again."""


def parse(body: bytes | Mapping[str, Any], *, hash_key: bytes) -> list[Receipt]:
    """Return what an event proves; raise Unreadable for what is no event about a message."""
    event, raw = _read(body)
    event_type = _text(event, "eventType")
    reference = _text(event, "messageId")
    if event_type is None or reference is None:
        raise Unreadable("An event names its type and its message.")
    meaning = MEANINGS.get(event_type, UNFORESEEN)
    ends = event.get("isFinal")
    final = ends if isinstance(ends, bool) else meaning.ends
    fact = _fact_of(event, meaning) if final else None
    attempt_id, idempotency_key = _named_in(event.get("context"))
    rank = meaning.rank if final else min(meaning.rank, Rank.ACCEPTED)
    refused = fact is not None and fact.reason == SuppressionReason.RECIPIENT_CHOICE
    receipt = Receipt(
        provider=DECLARATION.name,
        event_key=f"{reference}:{event_type}:{_short(event.get('eventTimestamp'))}",
        type=event_type,
        rank=Rank.HARD_FAILURE if refused else rank,
        occurred_at=_time(event.get("eventTimestamp")),
        idempotency_key=idempotency_key,
        attempt_id=attempt_id,
        reference=reference,
        recipient_hash=_hash_of(event, hash_key=hash_key),
        reason="opted_out" if refused else meaning.reason,
        permanent=refused or rank == Rank.HARD_FAILURE,
        address_at_fault=fact is not None,
        refused=refused,
        fact=fact,
        unforeseen=meaning is UNFORESEEN,
        raw=raw,
    )
    return [receipt]


def read_again(stored: StoredReceipt, *, hash_key: bytes) -> Receipt | None:
    """Return what a kept event proves by the rules of today; None when they cannot read it."""
    try:
        receipts = parse(stored.raw, hash_key=hash_key)
    except Unreadable:
        return None
    return next((one for one in receipts if one.event_key == stored.event_key), None)


def _fact_of(event: Mapping[str, Any], meaning: Meaning) -> Fact | None:
    """Return what a final failure tells about the number itself, if it does."""
    if meaning.rank not in (Rank.SOFT_FAILURE, Rank.HARD_FAILURE):
        return None
    said = (_short(event.get(name)) for name in ("messageStatus", "messageStatusDescription"))
    opted_out = any(words in text.casefold() for text in said for words in OPTED_OUT)
    if not opted_out and not meaning.invalid:
        return None
    evidence = {
        "event_type": event.get("eventType"),
        "message_id": event.get("messageId"),
        "occurred_at": _short(event.get("eventTimestamp")),
    }
    reason = SuppressionReason.RECIPIENT_CHOICE if opted_out else SuppressionReason.INVALID
    return Fact(reason=reason, source=EVENT, evidence=evidence)


def _named_in(context: Any) -> tuple[UUID | None, str | None]:
    """Return the attempt that we named when we sent, and a key of ours that names it as well."""
    members: Mapping[str, Any] = (
        cast("Mapping[str, Any]", context) if isinstance(context, Mapping) else {}
    )
    notification_id, attempt_id = (
        _uuid(members.get(name)) for name in ("notification_id", "attempt_id")
    )
    if notification_id is None:
        return attempt_id, None
    return attempt_id, ".".join(str(id) for id in (notification_id, attempt_id) if id is not None)


def _hash_of(event: Mapping[str, Any], *, hash_key: bytes) -> bytes | None:
    number = _text(event, "destinationPhoneNumber")
    return hash_of(number, channel=Channel.SMS, hash_key=hash_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """A message that came in; its text is kept only where it is a keyword.

    number      who sent it, E.164 as the service tells it
    to          our own number that it was sent to
    keyword     the whole message in upper case, when it is short enough to be one; else empty
    registered  the keyword of ours that the service took it for
    at          when it came; the message itself does not tell
    answers     the service's id of the message that it answers, where it knows
    """

    number: str
    to: str | None
    keyword: str
    registered: str
    at: datetime | None
    message_id: str
    answers: str | None

    @property
    def fact(self) -> Fact:
        """What suppresses the number, when it opts out; it names our own number, and not theirs."""
        evidence = {
            "keyword": self.keyword or self.registered,
            "inbound_message_id": self.message_id,
            "origination_number": self.to,
        }
        return Fact(reason=SuppressionReason.RECIPIENT_CHOICE, source=INBOUND, evidence=evidence)


# What the service opts out by itself (keywords-required of its guide), and one that carriers add.
OPT_OUT_KEYWORDS = frozenset(
    {
        "ARRET",
        "CANCEL",
        "END",
        "OPT-OUT",
        "OPTOUT",
        "QUIT",
        "REMOVE",
        "STOP",
        "STOPALL",
        "TD",
        "UNSUBSCRIBE",
    }
)
OPT_IN_KEYWORDS = frozenset({"START", "UNSTOP"})
_AROUND = re.compile(r"^[\W_]+|[\W_]+$")


def parse_inbound(body: bytes | Mapping[str, Any], *, at: datetime | None = None) -> Inbound | None:
    """Return the message that came in; None for anything else that can be read.

    ``at`` is when it was published. Raises Unreadable.
    """
    message, _ = _read(body)
    number, message_id = _text(message, "originationNumber"), _text(message, "inboundMessageId")
    if number is None or message_id is None:
        return None
    return Inbound(
        number=number,
        to=_text(message, "destinationNumber"),
        keyword=_keyword(message.get("messageBody")),
        registered=_keyword(message.get("messageKeyword")),
        at=at,
        message_id=message_id,
        answers=_text(message, "previousPublishedMessageId"),
    )


def opts_out(inbound: Inbound) -> bool:
    """Whether it says nothing but STOP; or the service took it for that, and will heed it."""
    return not OPT_OUT_KEYWORDS.isdisjoint((inbound.keyword, inbound.registered))


def opts_in(inbound: Inbound) -> bool:
    return inbound.keyword in OPT_IN_KEYWORDS


def _keyword(text: Any) -> str:
    """Return ``text`` as a keyword: in upper case, without accents (ARRÊT) and what surrounds it
    (blanks, quotes, a full stop)."""
    if not isinstance(text, str) or len(text) > 2 * MAX_KEYWORD_CHARACTERS:
        return ""
    letters = "".join(
        letter
        for letter in unicodedata.normalize("NFKD", text)
        if not unicodedata.combining(letter) and unicodedata.category(letter) != "Cf"
    )
    word = _AROUND.sub("", UNSTORABLE.sub("", letters)).upper()
    return word if len(word) <= MAX_KEYWORD_CHARACTERS else ""


def _read(body: bytes | Mapping[str, Any]) -> tuple[Mapping[str, Any], bytes]:
    """Return the object in ``body``, or the detail of an EventBridge event, and its bytes. What
    could not be stored is in no text that we take out."""
    try:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        value, _ = parse_json(raw)
    except MalformedJson as error:
        raise Unreadable(error.detail) from None
    except (TypeError, ValueError, RecursionError):
        raise Unreadable("The event cannot be written as JSON.") from None
    if not isinstance(value, Mapping):
        raise Unreadable("The event is not an object.")
    event = cast("Mapping[str, Any]", value)
    detail = event.get("detail")
    if isinstance(detail, Mapping) and "detail-type" in event:
        return cast("Mapping[str, Any]", detail), raw
    return event, raw


def _text(members: Mapping[str, Any], name: str) -> str | None:
    """Return a member that is to be a text; None when it is absent, empty or null."""
    value = members.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > MAX_TEXT_CHARACTERS or UNSTORABLE.search(value):
        raise Unreadable(f"The member {name} is not a text of at most {MAX_TEXT_CHARACTERS}.")
    return value


def _short(value: Any) -> str:
    """Return a member for what it is only shown or compared in."""
    text = "" if value is None else str(value)[:MAX_TEXT_CHARACTERS]
    return UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def _time(milliseconds: Any) -> datetime | None:
    """Return the moment of Unix time in milliseconds, None for what is none."""
    if type(milliseconds) is not int:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _uuid(text: Any) -> UUID | None:
    try:
        return UUID(text) if isinstance(text, str) else None
    except ValueError:
        return None
