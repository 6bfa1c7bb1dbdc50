"""Notifications asked for by an event of the domain, or by a schedule: a batch without an answer.

An event of EventBridge has the batch in its ``detail``, beside what else the event says, and is
recognised again by its id; the input of a schedule is the batch, with the id of the execution:

    {"organization_id": …, "notifications": [item, …]}
    {"organization_id": …, "notifications": […], "execution_id": "<aws.scheduler.execution-id>"}

Both are delivered at least once; each is taken in once.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from functions.core import strict_json
from functions.core.content import is_too_deep
from functions.core.errors import Fault, ValidationFailed
from functions.ingest.accept import accept_items
from functions.ingest.deployment import Deployment
from functions.ingest.faults import below
from functions.store.accept import BatchAnswer
from functions.store.organization import find_organization

EVENTS, SCHEDULES = "events", "schedules"
"""Routes of idempotency keys."""

NOT_REPLACED = "<aws.scheduler.execution-id>"
"""A scheduler that replaces no keywords, as a local one, gives each execution this id."""

_OF_OTHERS = frozenset({"drain", "requestContext", "organization_id", "notifications"})
"""Members of what else ingest is invoked with: beside a ``detail`` they have no meaning."""

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A batch, who asks for it, and what its repetition is recognised by."""

    organization_id: UUID
    route: str
    key: str
    body: dict[str, Any]


def is_event(event: Mapping[str, Any]) -> bool:
    """Whether ``event`` is one of an event bus; its own members are named like no batch's."""
    return "detail-type" in event


def take_in(event: Any, deployment: Deployment, *, invocation_id: str) -> BatchAnswer:
    """Store the batch of an event or a schedule, or find it stored.

    Raises ValidationFailed (EventIdConflict too) with pointers into the event,
    IdempotencyKeyReused, Unavailable; then nothing is stored.
    """
    if not isinstance(event, dict):
        raise ValidationFailed([Fault("", "wrong_type", "It is an object.")])
    return _take_in(cast("dict[str, Any]", event), deployment, invocation_id)


def _take_in(event: Mapping[str, Any], deployment: Deployment, invocation_id: str) -> BatchAnswer:
    where = "/detail" if is_event(event) else ""
    asked = _read_event(event) if is_event(event) else _read_schedule(event, invocation_id)
    if find_organization(deployment.database, id=asked.organization_id) is None:
        raise ValidationFailed(
            [Fault(f"{where}/organization_id", "not_allowed", "There is no such organization.")]
        )
    try:
        return accept_items(
            deployment,
            organization_id=asked.organization_id,
            route=asked.route,
            key=asked.key,
            body=asked.body,
        )
    except ValidationFailed as error:
        raise type(error)(below(where, error.faults)) from None


def _read_event(event: Mapping[str, Any]) -> Asked:
    detail = event.get("detail")
    if not isinstance(detail, dict):
        raise ValidationFailed([Fault("/detail", "wrong_type", "It is an object.")])
    found = [
        Fault(f"/{name}", "unknown_field", "No event of a bus has it.")
        for name in sorted(event.keys() & _OF_OTHERS)
    ]
    key = _key_of(event, "id", found)
    return _asked(cast("dict[str, Any]", detail), "/detail", EVENTS, key, found)


def _read_schedule(event: Mapping[str, Any], invocation_id: str) -> Asked:
    found = [
        Fault(f"/{strict_json.token(name)}", "unknown_field", "There is no such field.")
        for name in event.keys() - {"organization_id", "notifications", "execution_id"}
    ][: strict_json.MAX_FAULTS]
    key = _key_of(event, "execution_id", found)
    if key == NOT_REPLACED:
        key = invocation_id  # of each execution another, and of its repetition after a failure not
    elif key.startswith("<"):
        found.append(
            Fault("/execution_id", "not_allowed", f"The keyword is written {NOT_REPLACED}.")
        )
    return _asked(event, "", SCHEDULES, key, found)


def _asked(
    members: Mapping[str, Any], where: str, route: str, key: str, found: list[Fault]
) -> Asked:
    """Return the batch in ``members``; raise ValidationFailed with ``found`` and what it lacks."""
    organization_id = members.get("organization_id")
    if organization_id is None:
        found.append(Fault(f"{where}/organization_id", "required", "It is required."))
    elif not isinstance(organization_id, str) or _UUID.fullmatch(organization_id) is None:
        found.append(Fault(f"{where}/organization_id", "wrong_type", "It is a UUID."))
    notifications = members.get("notifications")
    # Lambda has parsed the event, and less strictly than a request is.
    if is_too_deep(notifications, most=strict_json.MAX_NESTING):
        here = Fault(f"{where}/notifications", "not_allowed", "It is nested too deeply.")
        raise ValidationFailed([*found, here])
    found += below(f"{where}/notifications", strict_json.unencodable(notifications))
    if found:
        raise ValidationFailed(found[: strict_json.MAX_FAULTS])
    return Asked(
        organization_id=UUID(cast("str", organization_id)),
        route=route,
        key=key,
        body={"notifications": notifications},
    )


def _key_of(event: Mapping[str, Any], name: str, found: list[Fault]) -> str:
    key = event.get(name)
    if isinstance(key, str) and _KEY.fullmatch(key):
        return key
    words = "It has 1 to 255 printable ASCII characters."
    found.append(Fault(f"/{name}", "required" if key is None else "not_allowed", words))
    return ""
