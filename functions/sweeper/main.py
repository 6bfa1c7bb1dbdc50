"""Sweeper: trigger a schedule each minute, output what was swept; publishes the gauges.

A failure leaves everything as it was; the next minute tries again, and a missing heartbeat alerts.
"""

import os
from typing import Any

from functions.core.metric import ChannelMetric, PriorityMetric, ServiceMetric
from functions.providers.choice import DECLARATIONS
from functions.runtime.credentials import Vault
from functions.runtime.observability import emitter_for, failing_quietly, logger_for
from functions.runtime.settings import load
from functions.store.connection import Database, connector
from functions.sweeper.settings import Settings
from functions.sweeper.sweeper import run_sweep

settings = load(Settings, os.environ)
logger = logger_for(settings)
emit_metrics = emitter_for(settings)
vault = Vault(os.environ)
database = Database(
    connector(lambda: vault.database_login(settings), application_name="sendoff-sweeper")
)


@failing_quietly(logger)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    report = run_sweep(database, declarations=DECLARATIONS)
    for gauge in report.ready:
        values = {
            PriorityMetric.READY_COUNT: gauge.ready,
            PriorityMetric.OLDEST_ELIGIBLE_AGE_SECONDS: gauge.oldest_eligible_age_seconds,
        }
        emit_metrics(values, channel=gauge.channel, priority=gauge.priority)
    for gauge in report.channels:
        values = {
            ChannelMetric.LEASED_COUNT: gauge.leased,
            ChannelMetric.WAITING_COUNT: gauge.waiting,
            ChannelMetric.UNCERTAIN_COUNT: gauge.uncertain,
            ChannelMetric.SUBMITTED_COUNT: gauge.submitted,
            ChannelMetric.DEAD_COUNT: gauge.dead,
            ChannelMetric.OPEN_BREAKER_COUNT: gauge.open_breakers,
        }
        emit_metrics(values | report.swept[gauge.channel], channel=gauge.channel)
    emit_metrics(
        {
            ServiceMetric.SWEEPER_HEARTBEAT: 1,
            ServiceMetric.EXPIRED_COUNT: report.expired,
            ServiceMetric.STOPPED_ENDPOINT_COUNT: report.stopped_endpoints,
        }
    )
    if report.oldest_request_seconds is not None:
        emit_metrics({ServiceMetric.OLDEST_REQUEST_AGE_SECONDS: report.oldest_request_seconds})
    answer = {"expired": report.expired, "swept": report.swept, "forgotten": report.forgotten}
    logger.info("Swept", extra=answer)
    return answer
