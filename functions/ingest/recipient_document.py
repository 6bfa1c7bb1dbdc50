"""Which document of a recipient may be stored: every fault of it, or all of it normalised."""

import re
from collections.abc import Iterator, Mapping
from datetime import time
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from functions.core.errors import Fault, ValidationFailed
from functions.core.locale import MAX_CHARACTERS, normalise_locale
from functions.core.recipient import (
    InvalidRecipient,
    country_of,
    normalise,
    origin_of,
    recipient_hash,
)
from functions.core.states import Channel
from functions.core.strict_json import token
from functions.ingest.faults import MAX_MEMBERS, faults_of, too_many_members
from functions.ingest.item import Door
from functions.ingest.recipient_schemas import (
    CLOCK,
    MAX_CONTACT_POINTS,
    MAX_PER_CHANNEL,
    MAX_PREFERENCES,
    RecipientDocument,
)
from functions.store.recipient import NewContactPoint, NewRecipient

_DOCUMENT: TypeAdapter[RecipientDocument] = TypeAdapter(RecipientDocument)
_CHANNELS = frozenset(Channel)


def read_document(body: Any, *, door: Door) -> NewRecipient:
    """Return the document, normalised; raise ValidationFailed with every fault, up to 100."""
    if excess := list(_excess(body)):
        raise ValidationFailed(excess)
    faults = _faults_of_shape(body)
    if not isinstance(body, dict):
        raise ValidationFailed(faults)
    members = cast("dict[str, Any]", body)
    points = _read_contact_points(members.get("contact_points"), faults, door)
    locale = _read_locale(members.get("locale"), faults)
    time_zone = _read_zone(members.get("time_zone"), faults)
    start, end = _read_quiet_hours(members, faults)
    if faults:
        raise ValidationFailed(faults)
    preferences: Mapping[str, Mapping[str, bool]] = members.get("preferences") or {}
    return NewRecipient(
        contact_points=points,
        locale=locale,
        time_zone=time_zone,
        quiet_start=start,
        quiet_end=end,
        preferences={name: by_channel for name, by_channel in preferences.items() if by_channel},
    )


def _faults_of_shape(body: Any) -> list[Fault]:
    try:
        _DOCUMENT.validate_python(body)
    except ValidationError as error:
        return faults_of(error)
    return []


def _excess(body: Any) -> Iterator[Fault]:
    """Yield a fault for what has too many members, before each of them is judged.

    A body of 4 MB holds a million of them, and a fault for each would need gigabytes.
    """
    if not isinstance(body, dict):
        return
    members = cast("dict[str, Any]", body)
    if len(members) > MAX_MEMBERS:
        yield too_many_members(MAX_MEMBERS)
        return
    points, quiet = members.get("contact_points"), members.get("quiet_hours")
    if isinstance(points, list):
        given = cast("list[Any]", points)
        if len(given) > MAX_CONTACT_POINTS:
            detail = f"There are at most {MAX_CONTACT_POINTS} contact points."
            yield Fault("/contact_points", "too_many", detail)
        else:
            for place, point in enumerate(given):
                yield from _too_many(point, MAX_MEMBERS, f"/contact_points/{place}")
    yield from _too_many(quiet, MAX_MEMBERS, "/quiet_hours")
    yield from _excess_of_preferences(members.get("preferences"))


def _excess_of_preferences(preferences: Any) -> Iterator[Fault]:
    if not isinstance(preferences, dict):
        return
    by_category = cast("dict[str, Any]", preferences)
    number = sum(
        len(cast("dict[str, Any]", by_channel))
        for by_channel in by_category.values()
        if isinstance(by_channel, dict)
    )
    if max(len(by_category), number) > MAX_PREFERENCES:
        yield Fault("/preferences", "too_many", f"There are at most {MAX_PREFERENCES} preferences.")
        return
    for category, by_channel in by_category.items():
        yield from _too_many(by_channel, MAX_MEMBERS, f"/preferences/{token(category)}")


def _too_many(value: Any, most: int, pointer: str) -> Iterator[Fault]:
    if isinstance(value, dict | list) and len(cast("list[Any]", value)) > most:
        yield too_many_members(most, pointer)


def _read_contact_points(
    points: Any, faults: list[Fault], door: Door
) -> tuple[NewContactPoint, ...]:
    """Return the contact points that are good, each address once."""
    read: list[NewContactPoint] = []
    first: dict[bytes, int] = {}
    for place, point in enumerate(cast("list[Any]", points) if isinstance(points, list) else ()):
        one = _read_contact_point(point, f"/contact_points/{place}/address", faults, door)
        if one is None:
            continue
        if (known := first.setdefault(one.address_hash, place)) != place:
            detail = f"It is the same address as /contact_points/{known}."
            faults.append(Fault(f"/contact_points/{place}/address", "not_allowed", detail))
        read.append(one)
    for channel in Channel:
        if sum(one.channel == channel for one in read) > MAX_PER_CHANNEL:
            detail = f"There are at most {MAX_PER_CHANNEL} on a channel, more of {channel}."
            faults.append(Fault("/contact_points", "too_many", detail))
    return tuple(read)


def _read_contact_point(
    point: Any, pointer: str, faults: list[Fault], door: Door
) -> NewContactPoint | None:
    members = cast("dict[str, Any]", point) if isinstance(point, dict) else {}
    channel, address = members.get("channel"), members.get("address")
    if not (isinstance(channel, str) and channel in _CHANNELS and isinstance(address, str)):
        return None  # as its shape tells
    try:
        address = normalise(channel, address, local_webhook_origin=door.local_webhook_origin)
    except InvalidRecipient as error:
        faults.append(Fault(pointer, error.item_code, error.detail))
        return None
    return NewContactPoint(
        channel=channel,
        address=address,
        address_hash=recipient_hash(door.hash_key, channel, address),
        verified=members.get("verified") is True,
        country=country_of(address) if channel == Channel.SMS else None,
        origin=origin_of(address) if channel == Channel.WEBHOOK else None,
    )


def _read_locale(text: Any, faults: list[Fault]) -> str | None:
    if not isinstance(text, str):
        return None
    locale = normalise_locale(text)
    if len(text) > MAX_CHARACTERS:
        faults.append(Fault("/locale", "too_long", f"It has at most {MAX_CHARACTERS} characters."))
    elif locale is None:
        detail = "It is not a language tag (BCP 47), like de, de-AT or zh-Hant-TW."
        faults.append(Fault("/locale", "not_allowed", detail))
    return locale


def _read_zone(name: Any, faults: list[Fault]) -> str | None:
    from functions.core.local_time import is_zone  # reads the list of zones, seldom needed

    if not isinstance(name, str):
        return None
    if not is_zone(name):
        detail = "It is no time zone of the IANA database, such as Europe/Vienna or UTC."
        faults.append(Fault("/time_zone", "not_allowed", detail))
    return name


def _read_quiet_hours(
    members: Mapping[str, Any], faults: list[Fault]
) -> tuple[time | None, time | None]:
    """Return when the quiet hours start and end."""
    quiet = members.get("quiet_hours")
    if not isinstance(quiet, dict):
        return None, None
    window = cast("dict[str, Any]", quiet)
    start, end = (_read_clock(window, name, faults) for name in ("start", "end"))
    if start is not None and start == end:
        detail = "It is another time than start: hours that are always or never quiet are none."
        faults.append(Fault("/quiet_hours/end", "not_allowed", detail))
    if members.get("time_zone") is None:
        detail = "It is required with quiet hours, for they are by its clock."
        faults.append(Fault("/time_zone", "required", detail))
    return start, end


def _read_clock(window: Mapping[str, Any], name: str, faults: list[Fault]) -> time | None:
    text = window.get(name)
    if not isinstance(text, str):
        return None
    if re.fullmatch(CLOCK.strip("^$"), text, re.ASCII) is None:
        detail = "It is a time of day in hours and minutes, from 00:00 to 23:59: 07:30."
        faults.append(Fault(f"/quiet_hours/{name}", "invalid_time", detail))
        return None
    return time.fromisoformat(text)
