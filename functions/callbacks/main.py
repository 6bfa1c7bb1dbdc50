"""Callbacks: trigger a provider's HTTP request, output 202 or a problem; or a batch of the events
queue, output the records that shall come again.

A failure keeps nothing and answers 503, or leaves the records on the queue: both come again, and a
repetition is recognised by its event.
"""

import os
from typing import Any

from functions.callbacks.intake import Intake, counts_of
from functions.callbacks.queue import records_in, take
from functions.callbacks.receive import Receiver
from functions.callbacks.settings import Settings
from functions.callbacks.sns import sns_door
from functions.core.metric import ServiceMetric
from functions.runtime.credentials import Vault
from functions.runtime.observability import emitter_for, failing_quietly, logger_for
from functions.runtime.settings import load
from functions.store.connection import Database, connector

settings = load(Settings, os.environ)
logger = logger_for(settings)
emit_metrics = emitter_for(settings)
vault = Vault(os.environ)
intake = Intake(
    database=Database(
        connector(lambda: vault.database_login(settings), application_name="sendoff-callbacks")
    ),
    hash_key=lambda: vault.secret(settings.hash_secret_arn)["current"].encode(),
)
receiver = Receiver(
    database=intake.database,
    secrets=lambda: vault.webhook_secrets(settings.callback_secret_arn),
    hash_key=intake.hash_key,
    sns=sns_door(intake, topics=settings.event_topics),
)


@failing_quietly(logger)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    records = records_in(event)
    if records is not None:
        kept = take(records, intake=intake)
        counts = {ServiceMetric.EVENT_AGAIN: len(kept.again), **counts_of(kept.recorded)}
        emit_metrics(counts)
        logger.info("Took events", extra={"records": len(records), **counts})
        return {"batchItemFailures": [{"itemIdentifier": id} for id in kept.again]}
    answer, recorded = receiver.receive(event)
    counts = {ServiceMetric.CALLBACK_REFUSED: 1} if recorded is None else counts_of(recorded)
    emit_metrics(counts)
    logger.info("Received a callback", extra={"status": answer["statusCode"], **counts})
    return answer
