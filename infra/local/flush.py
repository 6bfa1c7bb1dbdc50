"""Emptying a running stack: rows, queues, ledger; organizations, keys and channels stay."""

import psycopg
import urllib3

from infra.local.emulator import Clients
from infra.local.state import Local

# Waits for statements under way, and gives way to them rather than hold them up.
LOCK_TIMEOUT = "SET LOCAL lock_timeout = '10s'"
FORGET = """
    TRUNCATE notifications, attempts, transitions, receipts, batches, idempotency_keys, suppressions
"""


def forget_everything(local: Local) -> None:
    """Delete every notification and what came of it, the messages, and the simulator's ledger."""
    with psycopg.connect(local.database_url, sslmode="disable") as connection:
        connection.execute(LOCK_TIMEOUT)
        connection.execute(FORGET)
    sqs = Clients(local.aws_endpoint_url).sqs()
    for url in set(local.queues.values()):
        sqs.purge_queue(QueueUrl=url)
    urllib3.request("DELETE", f"{local.simulator_url}/ledger", timeout=10.0)
