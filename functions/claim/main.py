"""Claim: trigger a schedule each minute, output a summary; one loop that outlives the minute.

A failure ends this run; the next minute's starts over, and what was leased but not queued is taken
back by the sweep. Deployment and ``sendoff up`` start the first run at once.
"""

import os
from collections import Counter
from typing import Any

from functions.claim.guarded import guarded_claimer
from functions.claim.loop import run_loop
from functions.claim.settings import Settings
from functions.claim.watch import watch_for
from functions.core.metric import ChannelMetric, ServiceMetric
from functions.runtime.credentials import Vault
from functions.runtime.observability import describe, emitter_for, failing_quietly, logger_for
from functions.runtime.queue import Queues, client
from functions.runtime.settings import load
from functions.store.connection import Database, connector

END_SECONDS = 5.0
"""Kept of the invocation, so that a run ends by itself and says so."""

settings = load(Settings, os.environ)
logger = logger_for(settings)
emit_metrics = emitter_for(settings)
vault = Vault(os.environ)
database = Database(
    connector(lambda: vault.database_login(settings), application_name="sendoff-claim")
)
queues = Queues(client(), settings.queue_urls)
watch = watch_for(settings.ingest_function, database=database, logger=logger)


def report(claimed: Counter[str]) -> None:
    emit_metrics({ServiceMetric.CLAIM_HEARTBEAT: 1})
    for channel, count in claimed.items():
        emit_metrics({ChannelMetric.CLAIMED_COUNT: count}, channel=channel)


def report_fallback(counts: Counter[ServiceMetric]) -> None:
    emit_metrics(+counts)


def trouble(channel: str, error: Exception) -> None:
    logger.error(
        "A channel, or the chains of fallback, cannot be worked on as a whole",
        extra={"channel": channel, **describe(error)},
    )


@failing_quietly(logger)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    summary = run_loop(
        guarded_claimer(
            database=database, queues=queues, leased_by=context.aws_request_id, trouble=trouble
        ),
        seconds=min(
            settings.run_seconds, context.get_remaining_time_in_millis() / 1000 - END_SECONDS
        ),
        idle_seconds=settings.idle_seconds,
        report=report,
        report_fallback=report_fallback,
        watch=watch.look,
    )
    watch.rest()
    answer = summary.told()
    logger.info("Claimed", extra=answer)
    return answer
