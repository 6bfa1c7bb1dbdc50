"""One item of a request, normalised: what its shape does not tell, by itself.

Who is told, by what and with which words is given literally, or by reference: a recipient by its
id, several channels in order, a template with its data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from functions.core.content import UnreadableContent, read_content
from functions.core.errors import Fault
from functions.core.recipient import (
    InvalidRecipient,
    country_of,
    normalise,
    origin_of,
    recipient_hash,
    reference_hash,
)
from functions.core.states import Channel, Priority
from functions.core.times import DETAIL, InvalidTime, parse_time
from functions.ingest.faults import below
from functions.ingest.schemas import DEFAULT_CATEGORY, Item, Template
from functions.store.intent import ByReference, NewNotification

_ALONE: Mapping[str, Sequence[str]] = {channel: (channel,) for channel in Channel}
# What each stands for: exactly one of the two is given.
_STANDS_FOR = {"channels": "channel", "recipient_id": "recipient", "template": "content"}
_LITERAL = frozenset(_STANDS_FOR.values())
_BY_REFERENCE = frozenset({*_STANDS_FOR, "fallback_after"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """What admission needs to know of this deployment."""

    hash_key: bytes
    local_webhook_origin: str


def read_item(item: Item, door: Door) -> tuple[NewNotification | None, list[Fault]]:
    """Return the item, normalised, or None; and every fault that its shape does not tell.

    What stands behind its references is not looked at: a template has no version yet.
    """
    found: list[Fault] = []
    candidates, is_literal = _candidates(item), _is_literal(item)
    if not is_literal:
        _read_parts(item, candidates, found)
    recipient: str | None = None
    if len(candidates) == 1:
        recipient = _read_recipient(item, candidates[0], found, door)
    if is_literal or _has(item, "content", candidates):
        _read_content(item.get("content"), candidates, found)
    send_at = _read_time(item, "send_at", found) if "send_at" in item else None
    expires_at = _read_time(item, "expires_at", found) if "expires_at" in item else None
    if send_at and expires_at and expires_at <= send_at:
        found.append(Fault("/expires_at", "invalid_time", "It is later than send_at."))
    if found or not candidates:
        return None, found
    channel = candidates[0]
    if recipient is not None:
        hashed = recipient_hash(door.hash_key, channel, recipient)
    elif isinstance(recipient_id := cast("Any", item.get("recipient_id")), str):
        hashed = reference_hash(door.hash_key, recipient_id)
    else:
        return None, found
    template: Any = item.get("template")
    return NewNotification(
        channel=channel,
        recipient=recipient,
        recipient_hash=hashed,
        content=_asked(template) if isinstance(template, dict) else item.get("content"),
        priority=item.get("priority") or Priority.NORMAL,
        category=item.get("category") or DEFAULT_CATEGORY,
        event_id=item.get("event_id"),
        reference=item.get("reference"),
        metadata=item.get("metadata") or {},
        send_at=send_at,
        expires_at=expires_at,
        country=country_of(recipient) if recipient and channel == Channel.SMS else None,
        origin=origin_of(recipient) if recipient and channel == Channel.WEBHOOK else None,
        by_reference=None if is_literal else _by_reference(item),
    ), found


def _is_literal(item: Item) -> bool:
    """Whether every part is there as it is, and nothing by reference: nearly always."""
    names = item.keys()
    return names >= _LITERAL and names.isdisjoint(_BY_REFERENCE) and None not in item.values()


def _candidates(item: Item) -> Sequence[str]:
    """Return the channels that the item names, those that there are."""
    channels, channel = cast("Any", item.get("channels")), cast("Any", item.get("channel"))
    if isinstance(channels, list):
        return [name for name in _named(channels) if isinstance(name, str) and name in _ALONE]
    return _ALONE.get(channel, ()) if isinstance(channel, str) else ()


def _named(channels: Any) -> list[Any]:
    """Return what a list of channels names, as many as there can be: it may hold a million."""
    return cast("list[Any]", channels)[: len(_ALONE)]


def _read_parts(item: Item, candidates: Sequence[str], found: list[Fault]) -> None:
    """Find each part that is missing, given twice, or given where it cannot be."""
    channels = item.get("channels")
    for reference, literal in _STANDS_FOR.items():
        has_reference = item.get(reference) is not None
        has_literal = _has(item, literal, candidates)
        if has_reference and has_literal:
            words = f"Give {literal} or {reference}, not both."
            found.append(Fault(f"/{reference}", "not_allowed", words))
        elif has_literal and literal == "recipient" and channels is not None:
            words = "With channels, give recipient_id instead."
            found.append(Fault("/recipient", "not_allowed", words))
        elif not has_literal and not has_reference:
            name = reference if literal == "recipient" and channels is not None else literal
            found.append(Fault(f"/{name}", "required", "It is required."))
    if item.get("fallback_after") is not None and channels is None:
        found.append(Fault("/fallback_after", "not_allowed", "It goes with channels."))
    if isinstance(cast("Any", channels), list):
        _read_channels(_named(channels), found)
    if item.get("template") is not None and Channel.WEBHOOK in candidates:
        words = "A webhook takes no template: give content, or other channels."
        found.append(Fault("/template", "not_allowed", words))


def _read_channels(channels: list[Any], found: list[Fault]) -> None:
    for place, channel in enumerate(channels):
        if isinstance(channel, str) and channel in channels[:place]:
            found.append(Fault(f"/channels/{place}", "not_allowed", "It is named before."))


def _has(item: Item, name: str, candidates: Sequence[str]) -> bool:
    """Whether the item has ``name``; for a webhook null is content like any other JSON."""
    if item.get(name) is not None:
        return True
    return name == "content" and name in item and set(candidates) == {Channel.WEBHOOK}


def _read_recipient(item: Item, channel: str, found: list[Fault], door: Door) -> str | None:
    recipient = item.get("recipient")
    if not isinstance(recipient, str):
        return None
    try:
        return normalise(channel, recipient, local_webhook_origin=door.local_webhook_origin)
    except InvalidRecipient as error:
        found.append(Fault("/recipient", error.item_code, error.detail))
        return None


def _read_content(content: Any, candidates: Sequence[str], found: list[Fault]) -> None:
    """Find what keeps ``content`` from being sent by any of the candidates."""
    for channel in candidates:
        try:
            read_content(channel, content)
        except UnreadableContent as error:
            faults = below("/content", error.faults)
            found += [fault for fault in faults if fault not in found]


def _read_time(item: Item, name: str, found: list[Fault]) -> datetime | None:
    text = item.get(name)
    if not isinstance(text, str):
        return None
    try:
        return parse_time(text)
    except InvalidTime:
        found.append(Fault(f"/{name}", "invalid_time", DETAIL))
        return None


def _asked(template: Any) -> dict[str, Any]:
    """Return the words as they were asked for: an event is repeated by the same ones, whichever
    version is the latest by then."""
    members = cast("Template", template)
    return {"version": members.get("version"), "data": members.get("data")}


def _by_reference(item: Item) -> ByReference | None:
    recipient_id, template = item.get("recipient_id"), cast("Any", item.get("template"))
    if recipient_id is None and template is None:
        return None
    is_shaped = isinstance(template, dict)
    return ByReference(
        recipient_id=recipient_id,
        template_name=cast("Template", template).get("name") if is_shaped else None,
        channels=item.get("channels"),
        fallback_after_seconds=item.get("fallback_after"),
    )
