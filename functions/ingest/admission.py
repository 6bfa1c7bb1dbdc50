"""Which items may enter: every fault of every item, or every item normalised and complete.

Nothing here depends on the time of day or on the database: what was valid once is valid when it is
repeated, so a replay never fails at the door.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, cast

from pydantic import FailFast, TypeAdapter, ValidationError

from functions.core.content import UnreadableContent, read_content
from functions.core.errors import Fault, ValidationFailed
from functions.core.recipient import (
    InvalidRecipient,
    country_of,
    normalise,
    origin_of,
    recipient_hash,
)
from functions.core.states import Channel, Priority
from functions.core.strict_json import MAX_FAULTS
from functions.core.times import DETAIL, InvalidTime, parse_time
from functions.ingest.faults import MAX_MEMBERS, below, faults_of, too_many_members
from functions.ingest.request import unknown_fields
from functions.ingest.schemas import MAX_ITEMS, MAX_METADATA, Item
from functions.store.accept import NewNotification

DEFAULT_CATEGORY = "transactional"
_MOST = {"metadata": MAX_METADATA, "channels": len(Channel), "template": 3}

_ITEM: TypeAdapter[Item] = TypeAdapter(Item)
_ITEMS: TypeAdapter[list[Item]] = TypeAdapter(Annotated[list[Item], FailFast()])
_CHANNELS = frozenset(Channel)
# What the next stages of the service bring, and what each stands in for.
_NOT_YET = {"channels": "channel", "recipient_id": "recipient", "template": "content"}
_PARTS = frozenset(_NOT_YET.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """What admission needs to know of this deployment."""

    hash_key: bytes
    local_webhook_origin: str


def admit_batch(body: Any, *, door: Door) -> list[NewNotification]:
    """Return the items of a batch request; raise ValidationFailed with every fault, up to 100."""
    items = _items_of(body)
    are_shaped = _are_shaped(items)
    faults: list[Fault] = []
    admitted: list[NewNotification] = []
    for index, item in enumerate(items):
        here = f"/notifications/{index}"
        if not are_shaped:
            faults += below(here, _faults_of_shape(item))
        if isinstance(item, dict):
            notification = _read_item(cast("Item", item), here, faults, door)
            if notification is not None:
                admitted.append(notification)
        if len(faults) >= MAX_FAULTS:
            break
    if faults:
        raise ValidationFailed(faults)
    return admitted


def admit_single(body: Any, *, door: Door) -> NewNotification:
    """Return the one item of a request; raise ValidationFailed with every fault."""
    faults = _faults_of_shape(body)
    item = _read_item(cast("Item", body), "", faults, door) if isinstance(body, dict) else None
    if faults or item is None:
        raise ValidationFailed(faults)
    return item


def _are_shaped(items: list[Any]) -> bool:
    """Whether every item has its shape: one call for all, which ends at the first that has not."""
    if any(isinstance(item, dict) and _excess(cast("Item", item)) for item in items):
        return False
    try:
        _ITEMS.validate_python(items)
    except ValidationError:
        return False
    return True


def _faults_of_shape(item: Any) -> list[Fault]:
    if isinstance(item, dict) and (excess := _excess(cast("Item", item))):
        return excess
    try:
        _ITEM.validate_python(item)
    except ValidationError as error:
        return faults_of(error)
    return []


def _excess(item: Item) -> list[Fault]:
    """Return a fault for what has too many members, before each of them is judged.

    A body of 4 MB holds a million of them, and a fault for each would need gigabytes.
    """
    if len(item) > MAX_MEMBERS:
        return [too_many_members(MAX_MEMBERS)]
    return [
        too_many_members(most, f"/{name}")
        for name, most in _MOST.items()
        if isinstance(value := item.get(name), dict | list) and len(cast("list[Any]", value)) > most
    ]


def _items_of(body: Any) -> list[Any]:
    """Return the list in ``body``; its length is judged before anything in it is."""
    if not isinstance(body, dict):
        raise ValidationFailed([Fault("", "wrong_type", "The body is an object.")])
    members = cast("dict[str, Any]", body)
    faults = unknown_fields(name for name in members if name != "notifications")
    items = members.get("notifications")
    here = "/notifications"
    if items is None:
        faults.append(Fault(here, "required", "It is required."))
    elif not isinstance(items, list):
        faults.append(Fault(here, "wrong_type", "It is a list."))
    elif not items:
        faults.append(Fault(here, "required", "There is at least one notification."))
    elif len(cast("list[Any]", items)) > MAX_ITEMS:
        faults.append(Fault(here, "too_many", f"There are at most {MAX_ITEMS} notifications."))
    if faults:
        raise ValidationFailed(faults)
    return cast("list[Any]", items)


def _read_item(item: Item, here: str, faults: list[Fault], door: Door) -> NewNotification | None:
    """Return the item, normalised; or None, and add to ``faults`` what its shape does not tell."""
    found = _missing(item)
    channel = item.get("channel")
    recipient: str | None = None
    if isinstance(channel, str) and channel in _CHANNELS:
        recipient = _read_recipient(item, channel, found, door)
        if _has(item, "content"):
            try:
                read_content(channel, item.get("content"))
            except UnreadableContent as error:
                found += below("/content", error.faults)
    send_at, expires_at = _read_time(item, "send_at", found), _read_time(item, "expires_at", found)
    if send_at and expires_at and expires_at <= send_at:
        found.append(Fault("/expires_at", "invalid_time", "It is later than send_at."))
    if found:
        faults += below(here, found)
    if found or recipient is None or channel is None:
        return None
    return NewNotification(
        channel=channel,
        recipient=recipient,
        recipient_hash=recipient_hash(door.hash_key, channel, recipient),
        content=item.get("content"),
        priority=item.get("priority") or Priority.NORMAL,
        category=item.get("category") or DEFAULT_CATEGORY,
        event_id=item.get("event_id"),
        reference=item.get("reference"),
        metadata=item.get("metadata") or {},
        send_at=send_at,
        expires_at=expires_at,
        country=country_of(recipient) if channel == Channel.SMS else None,
        origin=origin_of(recipient) if channel == Channel.WEBHOOK else None,
    )


def _missing(item: Item) -> list[Fault]:
    """Return a fault for each part that is missing, doubly given, or not supported yet."""
    found: list[Fault] = []
    if item.keys() >= _PARTS and not item.keys() & _NOT_YET.keys() and None not in item.values():
        return found  # nearly always
    for later, now in _NOT_YET.items():
        has_later, has_now = item.get(later) is not None, _has(item, now)
        if has_later and has_now:
            found.append(Fault(f"/{later}", "not_allowed", f"Give {now} or {later}, not both."))
        elif has_later:
            found.append(Fault(f"/{later}", "not_supported_yet", f"Give {now} for now."))
        elif not has_now:
            found.append(Fault(f"/{now}", "required", "It is required."))
    return found


def _has(item: Item, name: str) -> bool:
    """Whether the item has ``name``; for a webhook null is content like any other JSON."""
    if item.get(name) is not None:
        return True
    return name == "content" and name in item and item.get("channel") == Channel.WEBHOOK


def _read_recipient(item: Item, channel: str, found: list[Fault], door: Door) -> str | None:
    recipient = item.get("recipient")
    if not isinstance(recipient, str):
        return None
    try:
        return normalise(channel, recipient, local_webhook_origin=door.local_webhook_origin)
    except InvalidRecipient as error:
        found.append(Fault("/recipient", error.item_code, error.detail))
        return None


def _read_time(item: Item, name: str, found: list[Fault]) -> datetime | None:
    text = item.get(name)
    if not isinstance(text, str):
        return None
    try:
        return parse_time(text)
    except InvalidTime:
        found.append(Fault(f"/{name}", "invalid_time", DETAIL))
        return None
