"""Callbacks: trigger a provider's signed HTTP request, output 202 or a problem.

A failure keeps nothing and answers 503, which the provider repeats; a repetition is recognised by
its event.
"""

import os
from typing import Any

from functions.callbacks.receive import Receiver
from functions.callbacks.settings import Settings
from functions.core.metric import ServiceMetric
from functions.runtime.credentials import Vault
from functions.runtime.observability import emitter_for, failing_quietly, logger_for
from functions.runtime.settings import load
from functions.store.connection import Database, connector

settings = load(Settings, os.environ)
logger = logger_for(settings)
emit_metrics = emitter_for(settings)
vault = Vault(os.environ)
receiver = Receiver(
    database=Database(
        connector(lambda: vault.database_login(settings), application_name="sendoff-callbacks")
    ),
    secrets=lambda: vault.webhook_secrets(settings.callback_secret_arn),
    hash_key=lambda: vault.secret(settings.hash_secret_arn)["current"].encode(),
)


@failing_quietly(logger)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    answer, recorded = receiver.receive(event)
    counts: dict[str, int] = {ServiceMetric.CALLBACK_REFUSED: 1}
    if recorded is not None:
        counts = {
            ServiceMetric.RECEIPT_STORED: recorded.stored,
            ServiceMetric.RECEIPT_APPLIED: recorded.applied,
            ServiceMetric.RECEIPT_ORPHANED: recorded.orphaned,
            ServiceMetric.EVIDENCE_AFTER_ZERO_SUBMISSIONS: recorded.after_zero_submissions,
        }
    emit_metrics(counts)
    logger.info("Received a callback", extra={"status": answer["statusCode"], **counts})
    return answer
