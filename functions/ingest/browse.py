"""Read batches and notifications."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from functions.core.errors import NotFound
from functions.core.times import InvalidTime, parse_time
from functions.ingest import representation
from functions.ingest.answer import Answer, answer
from functions.ingest.cursor import read_cursor, write_cursor
from functions.ingest.deployment import Deployment
from functions.ingest.request import Request, invalid_parameter
from functions.ingest.schemas import CHANNELS, STATUSES
from functions.store import notification_list as store
from functions.store.batch import read_batch
from functions.store.browse import read_history

DEFAULT_LIMIT, MAX_LIMIT = 50, 100
MAX_TEXT = 128

LIST_PARAMETERS = {
    "status": True,
    "channel": True,
    "batch_id": False,
    "event_id": False,
    "recipient_id": False,
    "reference": False,
    "start_date": False,
    "end_date": False,
    "limit": False,
    "cursor": False,
}
"""Query parameters of the list, and whether each may be repeated."""


def get_batch(request: Request, deployment: Deployment) -> Answer:
    """200 with the counts by status."""
    request.parameters({})
    batch = read_batch(
        deployment.database,
        organization_id=request.organization_id,
        batch_id=request.path_id("batch_id"),
    )
    if batch is None:
        raise NotFound
    return answer(200, representation.batch_status(batch))


def get_notification(request: Request, deployment: Deployment) -> Answer:
    """200 with the notification and its whole history."""
    request.parameters({})
    history = read_history(
        deployment.database,
        organization_id=request.organization_id,
        notification_id=request.path_id("notification_id"),
    )
    if history is None:
        raise NotFound
    return answer(200, representation.notification_detail(history))


def list_notifications(request: Request, deployment: Deployment) -> Answer:
    """200 with a page of notifications, newest first, and where the next page begins."""
    parameters = request.parameters(LIST_PARAMETERS)
    filters = _filters(parameters)
    limit = read_limit(parameters)
    bound = {"list": "notifications", **_bound(parameters)}
    after = read_after(parameters, request, deployment, bound)
    rows = store.list_notifications(
        deployment.database,
        organization_id=request.organization_id,
        filters=filters,
        after=after,
        limit=limit + 1,
    )
    shown = rows[:limit]
    next_cursor = None
    if len(rows) > limit:
        next_cursor = write_cursor(
            deployment.cursor_key,
            organization_id=request.organization_id,
            filters=bound,
            last_id=shown[-1].id,
        )
    data = [representation.notification_summary(row) for row in shown]
    return answer(200, representation.page(data, next_cursor))


def read_limit(parameters: dict[str, list[str]]) -> int:
    text = parameters.get("limit", [str(DEFAULT_LIMIT)])[0]
    if not re.fullmatch(r"[0-9]{1,3}", text, re.ASCII) or not 1 <= int(text) <= MAX_LIMIT:
        raise invalid_parameter("limit", f"It is a number from 1 to {MAX_LIMIT}.")
    return int(text)


def read_after(
    parameters: dict[str, list[str]],
    request: Request,
    deployment: Deployment,
    bound: dict[str, Any],
) -> UUID | None:
    """Return the id the list goes on after; None at its start."""
    if "cursor" not in parameters:
        return None
    return read_cursor(
        deployment.cursor_key,
        parameters["cursor"][0],
        organization_id=request.organization_id,
        filters=bound,
    )


def read_choices(
    parameters: dict[str, list[str]], name: str, choices: Sequence[str]
) -> list[str] | None:
    """Return the chosen values of ``name``; None when it is not given."""
    values = parameters.get(name)
    if values is not None and not set(values) <= set(choices):
        raise invalid_parameter(name, f"It is one of {', '.join(choices)}.")
    return values


def _bound(parameters: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return what a cursor is bound to: the filters, however they were ordered."""
    return {
        name: sorted(set(values))
        for name, values in parameters.items()
        if name not in ("cursor", "limit")
    }


def _filters(parameters: dict[str, list[str]]) -> store.Filters:
    return store.Filters(
        status=read_choices(parameters, "status", STATUSES),
        channel=read_choices(parameters, "channel", CHANNELS),
        batch_id=_id(parameters, "batch_id"),
        event_id=_text(parameters, "event_id"),
        recipient_id=_text(parameters, "recipient_id"),
        reference=_text(parameters, "reference"),
        first_id=_id_at(parameters, "start_date"),
        end_id=_id_at(parameters, "end_date"),
    )


def _text(parameters: dict[str, list[str]], name: str) -> str | None:
    if name not in parameters:
        return None
    (text,) = parameters[name]
    if not 1 <= len(text) <= MAX_TEXT:
        raise invalid_parameter(name, f"It has 1 to {MAX_TEXT} characters.")
    return text


def _id(parameters: dict[str, list[str]], name: str) -> UUID | None:
    if name not in parameters:
        return None
    try:
        return UUID(parameters[name][0])
    except ValueError:
        raise invalid_parameter(name, "It is an id, as in an answer.") from None


_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
# In a query an offset's + means a space, unless it was escaped; nobody else puts a space there.
_UNESCAPED_OFFSET = re.compile(r" (?=\d\d:\d\d$)", re.ASCII)


def _id_at(parameters: dict[str, list[str]], name: str) -> UUID | None:
    """Return the least id of the moment: ids begin with the millisecond, so they order by time."""
    if name not in parameters:
        return None
    text = parameters[name][0]
    if _DAY.fullmatch(text):
        text = f"{text}T00:00:00Z"
    try:
        moment = parse_time(_UNESCAPED_OFFSET.sub("+", text))
    except InvalidTime:
        detail = "It is a day, or a time as in RFC 3339 with its offset."
        raise invalid_parameter(name, detail) from None
    return least_id_at(moment)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def least_id_at(moment: datetime) -> UUID:
    """Return a bound: UUIDv7s of ``moment`` and later are not below it, earlier ones are."""
    milliseconds = -((_EPOCH - moment) // timedelta(milliseconds=1))  # rounded up
    return UUID(int=max(milliseconds, 0) << 80)
