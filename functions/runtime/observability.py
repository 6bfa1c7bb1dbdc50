"""Logs and metrics: one structured line per invocation, metrics by embedded metric format (EMF).

A log is a fixed sentence plus keys; never a recipient, a body or a secret. Metric names come from
the code, never from data, so their number stays bounded.
"""

from collections.abc import Mapping

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import (
    AmazonCloudWatchEMFProvider,
)

from functions.runtime.settings import Common

NAMESPACE = "Sendoff"


def logger_for(settings: Common) -> Logger:
    """Return the logger of this function."""
    return Logger(service=settings.service, level=settings.log_level, use_rfc3339=True, utc=True)


def emit_metrics(values: Mapping[str, float], **dimensions: str) -> None:
    """Write ``values`` as one EMF line with exactly ``dimensions``, so that alarms can name them.

    A name that ends in ``Seconds`` has that unit, every other is a count. Nothing to say, no line.
    """
    if not values:
        return
    provider = AmazonCloudWatchEMFProvider(namespace=NAMESPACE)
    for name, value in dimensions.items():
        provider.add_dimension(name=name, value=value)
    for name, value in values.items():
        unit = MetricUnit.Seconds if name.endswith("Seconds") else MetricUnit.Count
        provider.add_metric(name=name, unit=unit, value=value)
    provider.flush_metrics()
