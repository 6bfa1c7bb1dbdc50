"""Reconcile: trigger a schedule each minute, output what was decided.

A failure leaves everything as it was; the next minute tries again.
"""

import dataclasses
import os
from typing import Any

from functions.core.metric import ServiceMetric
from functions.reconcile.reconcile import run_reconcile
from functions.reconcile.settings import Settings
from functions.runtime.credentials import Vault
from functions.runtime.observability import emitter_for, failing_quietly, logger_for
from functions.runtime.settings import load
from functions.store.connection import Database, connector

settings = load(Settings, os.environ)
logger = logger_for(settings)
emit_metrics = emitter_for(settings)
vault = Vault(os.environ)
database = Database(
    connector(lambda: vault.database_login(settings), application_name="sendoff-reconcile")
)


@failing_quietly(logger)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    report = run_reconcile(database)
    emit_metrics(
        {
            ServiceMetric.RECONCILE_HEARTBEAT: 1,
            ServiceMetric.RECEIPTS_REMATCHED: report.rematched,
            ServiceMetric.UNCONFIRMED: report.unconfirmed,
            ServiceMetric.UNCERTAIN_RETRIED: report.retried,
            ServiceMetric.UNCERTAIN_HELD: report.held,
        }
    )
    answer = dataclasses.asdict(report)
    logger.info("Reconciled", extra=answer)
    return answer
