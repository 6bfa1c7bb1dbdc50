"""Which door an event came by: the API, an event bus, a schedule, or the wish to drain requests.

The API answers whatever happens. What comes asynchronously has nobody to answer: what it cannot
take in it refuses by failing, after a log line that says why without a value, so that the platform
repeats it and keeps it in the end. A drain alone never fails: it is wished for again as long as
something waits.
"""

from typing import Any, cast

from aws_lambda_powertools import Logger

from functions.core.errors import Fault, RequestRefused, ValidationFailed
from functions.core.metric import ServiceMetric
from functions.ingest.api import Handler
from functions.ingest.deployment import Deployment
from functions.ingest.drain import drain
from functions.ingest.event import take_in
from functions.ingest.schemas import Item
from functions.ingest.settle import Drained
from functions.runtime.observability import Emit, InvocationFailed, describe

DRAIN = "drain"
"""The one member of the event that wishes for a drain (the claim sends it: claim/watch.py)."""

_OF_BATCHES = frozenset(
    {DRAIN, "detail", "detail-type", "organization_id", "notifications", "execution_id"}
)
"""No request of the API has such a member: what has one is not served, whomever it names."""

_OURS = {
    "", "detail", "organization_id", "notifications", "execution_id", "id", *Item.__annotations__,
    DRAIN, "requestContext", "subject", "text", "html", "title", "body", "name", "version", "data",
}  # fmt: skip


def dispatching(
    api: Handler, *, deployment: Deployment, logger: Logger, emit_metrics: Emit
) -> Handler:
    """Return a handler of everything that reaches this function."""

    def handle(event: Any, context: Any) -> dict[str, Any]:
        if _is_of_the_api(event):
            return api(event, context)
        if isinstance(event, dict) and event.keys() == {DRAIN} and event[DRAIN] is True:
            return _drain(deployment, logger=logger, emit_metrics=emit_metrics)
        return _take_in(event, deployment, invocation_id=context.aws_request_id, logger=logger)

    return handle


def _is_of_the_api(event: Any) -> bool:
    """Whether ``event`` has the form of a request (HTTP API, payload 2.0)."""
    if not isinstance(event, dict):
        return False
    members = cast("dict[str, Any]", event)
    context = members.get("requestContext")
    return (
        members.get("version") == "2.0"
        and isinstance(members.get("routeKey"), str)
        and isinstance(context, dict)
        and isinstance(cast("dict[str, Any]", context).get("http"), dict)
        and not members.keys() & _OF_BATCHES
    )


def _drain(deployment: Deployment, *, logger: Logger, emit_metrics: Emit) -> dict[str, Any]:
    try:
        drained = drain(deployment)
    except Exception as error:
        logger.error("The requests could not be drained.", extra=describe(error))
        return {"drained": False}
    counts = {
        ServiceMetric.REQUEST_STORED: drained.stored,
        ServiceMetric.REQUEST_REPEATED: drained.repeated,
        ServiceMetric.REQUEST_INVALID: drained.invalid,
    }
    for mistake in drained.mistakes:
        logger.error("A request could not be taken in.", extra=describe(mistake))
    emit_metrics({name: count for name, count in counts.items() if count})
    logger.info("The requests were drained.", extra=_told(drained))
    return {"drained": True, **_told(drained)}


def _told(drained: Drained) -> dict[str, int]:
    return {
        "stored": drained.stored,
        "repeated": drained.repeated,
        "invalid": drained.invalid,
    }


def _take_in(
    event: Any, deployment: Deployment, *, invocation_id: str, logger: Logger
) -> dict[str, Any]:
    try:
        taken = take_in(event, deployment, invocation_id=invocation_id)
    except RequestRefused as error:
        faults = (
            error.faults if isinstance(error, ValidationFailed) else [Fault("", error.code, "")]
        )
        logger.error("An event was refused.", extra={"faults": [_named(one) for one in faults]})
    except Exception as error:
        logger.error("An event could not be taken in.", extra=describe(error))
    else:
        told = {
            "batch_id": str(taken.batch.batch_id),
            "total_count": len(taken.batch.notification_ids),
            "duplicates": len(taken.batch.duplicate_indexes),
            "replayed": taken.replayed,
        }
        logger.info("An event was taken in.", extra=told)
        return told
    raise InvocationFailed


def _named(fault: Fault) -> dict[str, str]:
    """Return where a fault is and of which kind. A member that is none of ours may be named like an
    address, so its name is left out."""
    parts = (part if part in _OURS or part.isdigit() else "*" for part in fault.pointer.split("/"))
    return {"pointer": "/".join(parts), "code": fault.code}
