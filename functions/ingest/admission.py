"""Which items may enter: of each either its faults, or the item normalised.

Nothing here depends on the time of day or on the database: what was valid once is valid when it is
repeated. What stands behind a reference is looked up afterwards (references.py).
"""

from typing import Annotated, Any, cast

from pydantic import FailFast, TypeAdapter, ValidationError

from functions.core.errors import Fault, ValidationFailed
from functions.core.states import Channel
from functions.core.strict_json import MAX_FAULTS
from functions.ingest.faults import MAX_MEMBERS, faults_of, too_many_members
from functions.ingest.item import Door, read_item
from functions.ingest.request import unknown_fields
from functions.ingest.schemas import MAX_ITEMS, MAX_METADATA, MAX_TEMPLATE, Item
from functions.store.intent import NewNotification

Judged = NewNotification | list[Fault]
"""An item, normalised, or what is wrong with it, by pointers relative to it."""

_MOST = {"metadata": MAX_METADATA, "channels": len(Channel), "template": MAX_TEMPLATE}

_ITEM: TypeAdapter[Item] = TypeAdapter(Item)
_ITEMS: TypeAdapter[list[Item]] = TypeAdapter(Annotated[list[Item], FailFast()])


def admit_batch(body: Any, *, door: Door) -> list[Judged]:
    """Return of each item of a batch request what it is, or its faults.

    It ends with the item that makes 100 faults of it: an answer shows no more. Raises
    ValidationFailed when the body is no batch.
    """
    items = _items_of(body)
    are_shaped = _are_shaped(items)
    count = 0
    judged: list[Judged] = []
    for item in items:
        faults = [] if are_shaped else _faults_of_shape(item)
        notification = None
        if isinstance(item, dict):
            notification, found = read_item(cast("Item", item), door)
            faults += found
        judged.append(notification if notification is not None and not faults else faults)
        count += len(faults)
        if count >= MAX_FAULTS:
            break
    return judged


def admit_single(body: Any, *, door: Door) -> NewNotification:
    """Return one item; raise ValidationFailed with every fault, by pointers relative to it."""
    faults = _faults_of_shape(body)
    notification = None
    if isinstance(body, dict):
        notification, found = read_item(cast("Item", body), door)
        faults += found
    if faults or notification is None:
        raise ValidationFailed(faults)
    return notification


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
