"""Sender: trigger a batch of its channel's queue; output the records that shall come again.

A failure before any attempt is open leaves the records on the queue; after that the lease and the
sweep recover, and a redelivery finds the attempt open and does nothing.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from functions.providers.choice import provider_for
from functions.providers.transport import Transport
from functions.runtime.credentials import Vault
from functions.runtime.observability import emit_metrics, logger_for
from functions.runtime.settings import load
from functions.sender.deliver import CONCURRENT_CALLS, Sender, read_records
from functions.sender.settings import Settings
from functions.store.channel import Channels
from functions.store.connection import Database, connector

settings = load(Settings, os.environ)
logger = logger_for(settings)
vault = Vault(os.environ)
database = Database(
    connector(lambda: vault.database_login(settings), application_name="sendoff-sender")
)
channels = Channels(database)
transport = Transport(connections=CONCURRENT_CALLS)
threads = ThreadPoolExecutor(CONCURRENT_CALLS, thread_name_prefix="call")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    ends_at = time.monotonic() + context.get_remaining_time_in_millis() / 1000
    records = read_records(event)
    channel = channels.get(settings.channel)
    provider = provider_for(
        channel.provider,
        url=channel.provider_url,
        transport=transport,
        gateway_secrets=vault.webhook_secrets(settings.gateway_secret_arn),
        gateway_token=vault.secret(settings.gateway_secret_arn).get("token", ""),
        local_origin=settings.local_webhook_origin,
    )
    sender = Sender(
        database=database, provider=provider, channel=channel, threads=threads, ends_at=ends_at
    )
    report = sender.deliver(records)
    emit_metrics(report.counts, channel=settings.channel)
    logger.info("Delivered", extra={"channel": settings.channel, **report.counts})
    return {"batchItemFailures": [{"itemIdentifier": failed} for failed in report.failed]}
