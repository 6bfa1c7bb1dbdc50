"""Sender: trigger a batch of its channel's queue; output the records that shall come again.

A failure before any attempt is open leaves the records on the queue; after that the lease and the
sweep recover, and a redelivery finds the attempt open and does nothing.
"""

import os
import time
from typing import Any

from functions.runtime.credentials import Vault
from functions.runtime.observability import (
    describe,
    emitter_for,
    failing_quietly,
    logger_for,
)
from functions.runtime.settings import load
from functions.sender.deliver import deliver
from functions.sender.environment import Environment
from functions.sender.record import read_records
from functions.sender.settings import Settings

settings = load(Settings, os.environ)
logger = logger_for(settings)
emit_metrics = emitter_for(settings)
environment = Environment(settings, Vault(os.environ))


@failing_quietly(logger)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    ends_at = time.monotonic() + context.get_remaining_time_in_millis() / 1000
    report = deliver(read_records(event), sender=lambda: environment.sender(ends_at))
    for error in report.errors:
        logger.error("A delivery failed", extra=describe(error))
    emit_metrics(report.counts, channel=settings.channel)
    emit_metrics(+report.signals)
    line = {"channel": settings.channel, "failed": len(report.failed), **report.counts}
    logger.info("Delivered", extra=line)
    return {"batchItemFailures": [{"itemIdentifier": failed} for failed in report.failed]}
