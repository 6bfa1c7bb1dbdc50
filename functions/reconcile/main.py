"""Reconcile: trigger a schedule each minute, output what was decided.

A failure leaves everything as it was; the next minute tries again.
"""

import dataclasses
import os
from typing import Any

from functions.reconcile.reconcile import run_reconcile
from functions.reconcile.settings import Settings
from functions.runtime.credentials import Vault
from functions.runtime.observability import emit_metrics, failing_quietly, logger_for
from functions.runtime.settings import load
from functions.store.connection import Database, connector

settings = load(Settings, os.environ)
logger = logger_for(settings)
vault = Vault(os.environ)
database = Database(
    connector(lambda: vault.database_login(settings), application_name="sendoff-reconcile")
)


@failing_quietly(logger)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    report = run_reconcile(database)
    emit_metrics(
        {
            "ReconcileHeartbeat": 1,
            "ReceiptsRematched": report.rematched,
            "Unconfirmed": report.unconfirmed,
            "UncertainRetried": report.retried,
            "UncertainHeld": report.held,
        }
    )
    answer = dataclasses.asdict(report)
    logger.info("Reconciled", extra=answer)
    return answer
