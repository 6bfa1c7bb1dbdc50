"""Sender: trigger a batch of its channel's queue; output the records that shall come again.

A failure before any attempt is open leaves the records on the queue; after that the lease and the
sweep recover, and a redelivery finds the attempt open and does nothing.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

from functions.providers.choice import DECLARATIONS, provider_for
from functions.providers.transport import Transport
from functions.runtime.credentials import Vault
from functions.runtime.observability import (
    describe,
    emitter_for,
    failing_quietly,
    logger_for,
)
from functions.runtime.settings import load
from functions.sender.deliver import CONCURRENT_CALLS, Sender, deliver, read_records
from functions.sender.settings import Settings
from functions.store.channel import Channels
from functions.store.connection import Database, connector

settings = load(Settings, os.environ)
logger = logger_for(settings)
emit_metrics = emitter_for(settings)
vault = Vault(os.environ)
database = Database(
    connector(lambda: vault.database_login(settings), application_name="sendoff-sender")
)
channels = Channels(database)
transport = Transport(connections=CONCURRENT_CALLS)
threads = ThreadPoolExecutor(CONCURRENT_CALLS, thread_name_prefix="call")
finished_starts: list[UUID] = []


def sender(ends_at: float) -> Sender:
    channel = channels.get(settings.channel)
    provider = provider_for(
        channel.provider,
        url=channel.provider_url,
        transport=transport,
        gateway_credentials=lambda: vault.gateway_credentials(settings.gateway_secret_arn),
        local_origin=settings.local_webhook_origin,
    )
    return Sender(
        database=database,
        provider=provider,
        channel=channel,
        declarations=DECLARATIONS,
        threads=threads,
        ends_at=ends_at,
        finished=finished_starts,
    )


@failing_quietly(logger)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    ends_at = time.monotonic() + context.get_remaining_time_in_millis() / 1000
    report = deliver(read_records(event), sender=lambda: sender(ends_at))
    for error in report.errors:
        logger.error("A delivery failed", extra=describe(error))
    emit_metrics(report.counts, channel=settings.channel)
    emit_metrics(+report.signals)
    line = {"channel": settings.channel, "failed": len(report.failed), **report.counts}
    logger.info("Delivered", extra=line)
    return {"batchItemFailures": [{"itemIdentifier": failed} for failed in report.failed]}
