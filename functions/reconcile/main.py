"""Reconcile: trigger a schedule each minute, output what was decided.

A failure leaves everything as it was; the next minute tries again.
"""

import dataclasses
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from functions.core.metric import ServiceMetric
from functions.providers.choice import DECLARATIONS
from functions.providers.transport import Transport
from functions.reconcile.inquiry import asking
from functions.reconcile.reconcile import CONCURRENT_QUESTIONS, Reconciler
from functions.reconcile.settings import Settings
from functions.runtime.credentials import Vault
from functions.runtime.observability import emitter_for, failing_quietly, logger_for
from functions.runtime.settings import load
from functions.store.channel import Channels
from functions.store.connection import Database, connector

settings = load(Settings, os.environ)
logger = logger_for(settings)
emit_metrics = emitter_for(settings)
vault = Vault(os.environ)
database = Database(
    connector(lambda: vault.database_login(settings), application_name="sendoff-reconcile")
)
channels = Channels(database)
transport = Transport(connections=CONCURRENT_QUESTIONS)
threads = ThreadPoolExecutor(CONCURRENT_QUESTIONS, thread_name_prefix="ask")


@failing_quietly(logger)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    report = Reconciler(
        database=database,
        declarations=DECLARATIONS,
        ask=asking(
            channels,
            transport=transport,
            gateway_credentials=lambda: vault.gateway_credentials(settings.gateway_secret_arn),
        ),
        threads=threads,
        ends_at=time.monotonic() + context.get_remaining_time_in_millis() / 1000,
    ).run()
    emit_metrics(
        {
            ServiceMetric.RECONCILE_HEARTBEAT: 1,
            ServiceMetric.RECEIPTS_REMATCHED: report.rematched,
            ServiceMetric.UNCONFIRMED: report.unconfirmed,
            ServiceMetric.UNCERTAIN_RETRIED: report.retried + report.never_accepted,
            ServiceMetric.UNCERTAIN_HELD: report.held,
            ServiceMetric.LOOKED_UP: report.asked,
            ServiceMetric.LOOK_UP_ANSWERED: report.answered + report.never_accepted,
        }
    )
    answer = dataclasses.asdict(report)
    logger.info("Reconciled", extra=answer)
    return answer
