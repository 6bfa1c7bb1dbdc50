"""What SNS tells of mobile push: application events, and the log of what was delivered.

A platform application publishes to a topic of ours what becomes of its endpoints
(EventEndpointCreated, -Updated, -Deleted) and which delivery failed for good
(EventDeliveryFailure); the log of successes comes where somebody hands it on. An accepted push is
unconfirmed at once, for nothing of this is promised: but what is told all the same is evidence.

Only the id of the published message leads back to a notification. What names none is still a fact
about an endpoint, for everybody who sends to it: ``dead_token_of``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from functions.core.errors import Unreadable
from functions.core.evidence import Rank, Receipt, StoredReceipt
from functions.core.states import Channel
from functions.core.strict_json import UNSTORABLE, MalformedJson
from functions.core.strict_json import parse as parse_json
from functions.core.suppression import Fact, SuppressionReason
from functions.providers.http_report import hash_of
from functions.providers.push_declaration import DECLARATION

EVENT = "sns:event"
MAX_TEXT_CHARACTERS = 2048
MAX_REASON_CHARACTERS = 64

_DELIVERY_FAILURE = "DeliveryFailure"
_ENDPOINT_UPDATED = "EndpointUpdated"
_NOTES = frozenset({"EndpointCreated", "EndpointDeleted", _ENDPOINT_UPDATED})
"""They end nothing. A deleted endpoint refuses the next message by itself, and a token that we were
given may get another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a type of failure proves; ``dead``: the endpoint's token, too."""

    rank: Rank
    dead: bool = False


# PROVIDERS §2.4. The list of types is not published: another one failed all the same, as far as we
# know for now only.
FAILURES: Mapping[str, Meaning] = {
    "InvalidPlatformToken": Meaning(rank=Rank.HARD_FAILURE, dead=True),
    "EndpointNotFound": Meaning(rank=Rank.HARD_FAILURE, dead=True),
    "EndpointDisabled": Meaning(rank=Rank.HARD_FAILURE, dead=True),
    "InvalidNotification": Meaning(rank=Rank.HARD_FAILURE),
    "DeliveryFailedPerm": Meaning(rank=Rank.HARD_FAILURE),
}
UNFORESEEN = Meaning(rank=Rank.SOFT_FAILURE)

# Taken by the push service: more nobody ever learns. A failure is decided by its event.
LOGGED: Mapping[str, Rank] = {"SUCCESS": Rank.DELIVERED, "FAILURE": Rank.NONE}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadToken:
    """That nothing reaches a device any more, by every name that the event knows it by.

    ``recipients`` are the endpoint's ARN and, where it is told, its token.
    """

    recipients: tuple[str, ...]
    fact: Fact
    occurred_at: datetime | None


def parse(body: bytes | Mapping[str, Any], *, hash_key: bytes) -> list[Receipt]:
    """Return what an event (the message inside of SNS's envelope) or a line of the log proves.

    Raises Unreadable for what is neither.
    """
    event, raw = _read(body)
    if isinstance(event.get("notification"), Mapping):
        return [_logged(event, raw)]
    event_type = _text(event, "EventType")
    if event_type is None:
        raise Unreadable("An event names its type.")
    dead = _dead_token_in(event)
    endpoint, reference = _text(event, "EndpointArn"), _text(event, "MessageId")
    failed = event_type == _DELIVERY_FAILURE
    failure = _text(event, "FailureType") or ""
    meaning = FAILURES.get(failure, UNFORESEEN) if failed else Meaning(rank=Rank.NONE)
    time = _text(event, "Time")
    receipt = Receipt(
        provider=DECLARATION.name,
        event_key=_key(event_type, reference, endpoint, time),
        type=event_type,
        rank=meaning.rank,
        occurred_at=_time(time),
        reference=reference,
        # By its message the event is about our notification, whose recipient may be the token. Only
        # without is the endpoint all that it names.
        recipient_hash=None if reference else _hash_of(endpoint, hash_key=hash_key),
        reason=failure[:MAX_REASON_CHARACTERS] or None,
        permanent=meaning.rank == Rank.HARD_FAILURE,
        address_at_fault=dead is not None,
        fact=dead.fact if dead else None,
        unforeseen=failure not in FAILURES if failed else event_type not in _NOTES,
        raw=raw,
    )
    return [receipt]


def dead_token_of(body: bytes | Mapping[str, Any]) -> DeadToken | None:
    """Return the device that an event says is gone, None where it says no such thing.

    Raises Unreadable.
    """
    return _dead_token_in(_read(body)[0])


def read_again(stored: StoredReceipt, *, hash_key: bytes) -> Receipt | None:
    """Return what a kept event proves by the rules of today; None when they cannot read it."""
    try:
        receipts = parse(stored.raw, hash_key=hash_key)
    except Unreadable:
        return None
    return next((one for one in receipts if one.event_key == stored.event_key), None)


def _dead_token_in(event: Mapping[str, Any]) -> DeadToken | None:
    endpoint = _text(event, "EndpointArn")
    match _text(event, "EventType"):
        case "DeliveryFailure":
            reason = _text(event, "FailureType") or ""
            is_dead = FAILURES.get(reason, UNFORESEEN).dead
        case "EndpointUpdated":
            reason = "disabled"
            is_dead = str(_attribute(event, "Enabled")).casefold() == "false"
        case _:
            return None
    if not is_dead or endpoint is None:
        return None
    token = _attribute(event, "Token")
    recipients = (endpoint, token) if isinstance(token, str) and token else (endpoint,)
    time = _text(event, "Time")
    evidence = {
        "event_type": event.get("EventType"),
        "reason": reason,
        "message_id": _text(event, "MessageId"),
        "occurred_at": time,
    }
    fact = Fact(reason=SuppressionReason.INVALID, source=EVENT, evidence=evidence)
    return DeadToken(recipients=recipients, fact=fact, occurred_at=_time(time))


def _attribute(event: Mapping[str, Any], name: str) -> Any:
    """Return an attribute of the endpoint as it is now. Where an update has them is not published:
    they are looked for beside the other members and in ``Attributes``, whatever goes before it."""
    if name in event:
        return event[name]
    for member in ("Attributes", "NewAttributes", "EndpointAttributes"):
        attributes = event.get(member)
        if isinstance(attributes, Mapping) and name in attributes:
            return cast("Mapping[str, Any]", attributes)[name]
    return None


def _logged(line: Mapping[str, Any], raw: bytes) -> Receipt:
    notification = cast("Mapping[str, Any]", line["notification"])
    status, reference = _text(line, "status"), _text(notification, "messageId")
    if status is None or reference is None:
        raise Unreadable("A line of the log names its message and its status.")
    time = _text(notification, "timestamp")
    return Receipt(
        provider=DECLARATION.name,
        event_key=_key(f"log_{status}", reference, None, time),
        type=f"log_{status}",
        rank=LOGGED.get(status, Rank.NONE),
        occurred_at=_time(time),
        reference=reference,
        unforeseen=status not in LOGGED,
        raw=raw,
    )


def _key(event_type: str, reference: str | None, endpoint: str | None, time: str | None) -> str:
    """Return what a repeated event has in common with the first, and nothing else has."""
    about = reference or (endpoint or "").rpartition("/")[2]
    return f"{event_type}:{about}:{time or ''}"[:MAX_TEXT_CHARACTERS]


def _hash_of(endpoint: str | None, *, hash_key: bytes) -> bytes | None:
    return hash_of(endpoint, channel=Channel.PUSH, hash_key=hash_key)


def _read(body: bytes | Mapping[str, Any]) -> tuple[Mapping[str, Any], bytes]:
    """Return the object in ``body``, and its bytes. What could not be stored is in no text that we
    take out."""
    try:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        value, _ = parse_json(raw)
    except MalformedJson as error:
        raise Unreadable(error.detail) from None
    except (TypeError, ValueError, RecursionError):
        raise Unreadable("The event cannot be written as JSON.") from None
    if not isinstance(value, Mapping):
        raise Unreadable("The event is not an object.")
    return cast("Mapping[str, Any]", value), raw


def _text(members: Mapping[str, Any], name: str) -> str | None:
    """Return a member that is to be a text; None when it is absent, empty or null."""
    value = members.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > MAX_TEXT_CHARACTERS or UNSTORABLE.search(value):
        raise Unreadable(f"The member {name} is not a text of at most {MAX_TEXT_CHARACTERS}.")
    return value


def _time(text: str | None) -> datetime | None:
    """Return the moment that an event names, in UTC where it names no zone; None for none."""
    try:
        moment = datetime.fromisoformat(text or "")
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
