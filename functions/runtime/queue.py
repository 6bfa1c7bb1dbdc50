"""The queues as the claim sees them: messages go in, ten a call, and each one's fate is known."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

from functions.core.message import LeaseMessage

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

MAX_ENTRIES = 10
"""Entries per SendMessageBatch (SQS quota); ids only, so the byte limit is never near."""

PARALLEL_CALLS = 4


def client() -> "SQSClient":
    """Return an SQS client; a repeated send is harmless, since a lease opens one attempt."""
    return boto3.client(  # pyright: ignore[reportUnknownMemberType]  # services without stubs
        "sqs",
        config=Config(
            retries={"mode": "standard", "total_max_attempts": 3},
            connect_timeout=2,
            read_timeout=5,
            max_pool_connections=PARALLEL_CALLS,
        ),
    )


class Queues:
    """One queue per channel; ``urls`` maps a channel's name to its queue."""

    def __init__(self, sqs: "SQSClient", urls: Mapping[str, str]) -> None:
        self._sqs = sqs
        self._urls = urls
        self._threads = ThreadPoolExecutor(PARALLEL_CALLS, thread_name_prefix="dispatch")

    def send(self, channel: str, messages: Sequence[LeaseMessage]) -> list[LeaseMessage]:
        """Put ``messages`` on the queue of ``channel``; return those that may not be on it.

        Refused entries and those of a call that failed after its retries come back: their lease is
        released, and a copy that arrived after all is stale by then.
        """
        batches = [
            messages[start : start + MAX_ENTRIES] for start in range(0, len(messages), MAX_ENTRIES)
        ]
        failed = self._threads.map(self._send_batch, [channel] * len(batches), batches)
        return [message for batch in failed for message in batch]

    def _send_batch(self, channel: str, messages: Sequence[LeaseMessage]) -> Sequence[LeaseMessage]:
        entries: list[SendMessageBatchRequestEntryTypeDef] = [
            {"Id": str(number), "MessageBody": message.dumps()}
            for number, message in enumerate(messages)
        ]
        url = self._urls[channel]
        try:
            answer = self._sqs.send_message_batch(QueueUrl=url, Entries=entries)
        except Exception:  # botocore raises plain exceptions too; none of them tells what was taken
            return messages
        sent = {entry["Id"] for entry in answer.get("Successful", [])}
        return [message for number, message in enumerate(messages) if str(number) not in sent]
