"""Logs and metrics: one structured line per invocation, metrics by embedded metric format (EMF).

A log is a fixed sentence plus keys; never a recipient, a body or a secret. Metric names come from
the code, never from data, so their number stays bounded.
"""

import functools
import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import (
    AmazonCloudWatchEMFProvider,
)

from functions.core.errors import SendoffError
from functions.runtime.settings import Common

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]


def logger_for(settings: Common) -> Logger:
    """Return the logger of this function."""
    # Its warnings quote URLs: a recipient's webhook, a presigned answer address.
    logging.getLogger("urllib3").setLevel(logging.CRITICAL)
    return Logger(service=settings.service, level=settings.log_level, use_rfc3339=True, utc=True)


class InvocationFailed(SendoffError):
    """The invocation failed; the log line before this one says how and where."""

    code = "invocation_failed"


def failing_quietly(logger: Logger) -> Callable[[Handler], Handler]:
    """Return a decorator that keeps the texts of exceptions out of the log.

    The platform logs what a handler raises, and a database error quotes the row it was about. So
    kind and places are logged instead, and the invocation fails as InvocationFailed.
    """

    def decorate(handler: Handler) -> Handler:
        @functools.wraps(handler)
        def guarded(event: dict[str, Any], context: Any) -> dict[str, Any]:
            try:
                return handler(event, context)
            except Exception as error:
                logger.error("The invocation failed.", extra=describe(error))
            raise InvocationFailed

        return guarded

    return decorate


def describe(error: BaseException) -> dict[str, Any]:
    """Return what may be logged of an exception: its kind, and its text only if it is our own."""
    said = {"detail": error.detail} if isinstance(error, SendoffError) else {}
    places = [
        f"{place.filename}:{place.lineno}" for place in traceback.extract_tb(error.__traceback__)
    ]
    return {"error": type(error).__name__, **said, "places": places}


class Emit(Protocol):
    """Writes ``values`` as one EMF line with exactly ``dimensions``, so that alarms can name them.

    A name that ends in ``Seconds`` has that unit, every other is a count. Nothing to say, no line.
    """

    def __call__(self, values: Mapping[Any, float], **dimensions: str) -> None: ...


def emitter_for(settings: Common) -> Emit:
    """Return what publishes metrics under ``Sendoff/<prefix>``: two installations do not mix."""
    return functools.partial(_emit, f"Sendoff/{settings.service}")


def _emit(namespace: str, values: Mapping[Any, float], **dimensions: str) -> None:
    if not values:
        return
    # An empty service: the environment's would become one more dimension.
    provider = AmazonCloudWatchEMFProvider(namespace=namespace, service="")
    for name, value in dimensions.items():
        provider.add_dimension(name=name, value=value)
    for name, value in values.items():
        unit = MetricUnit.Seconds if name.endswith("Seconds") else MetricUnit.Count
        provider.add_metric(name=name, unit=unit, value=value)
    provider.flush_metrics()
