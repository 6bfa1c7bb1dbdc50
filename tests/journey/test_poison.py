"""A queue record that nobody can read fails alone and ends in the dead-letter queue."""

import json
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from functions.core.metric import ChannelMetric
from infra.config import DEFAULT_PREFIX, LOCAL
from tests.journey.deployment import Service, email, fresh, wait_for

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

RECEIVES = LOCAL.queue.receives
VISIBILITY_SECONDS = 1
"""Between two receives of a record that failed; the deployed value would take minutes."""


def test_a_record_that_cannot_be_read_fails_alone_and_reaches_the_dead_letter_queue(
    service: Service,
) -> None:
    poison = f"not json {fresh()}"
    queue, dead = service.local.queues["email"], service.local.queues["email-dlq"]
    with closing(service.aws.sqs()) as sqs, visibility(sqs, queue):
        sqs.send_message(QueueUrl=queue, MessageBody=poison)
        neighbours = service.first.send([email() for _ in range(20)])
        batch = service.first.when_completed(neighbours["batch_id"])
        assert batch["counts"] == {"delivered": 20}
        wait_for(lambda: taken(sqs, dead, poison), what="the record in the dead-letter queue")
    assert failed_receives(service) == RECEIVES


@contextmanager
def visibility(sqs: "SQSClient", queue: str) -> Generator[None]:
    """Shorten the queue's visibility timeout."""
    kept = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["VisibilityTimeout"])
    sqs.set_queue_attributes(
        QueueUrl=queue, Attributes={"VisibilityTimeout": str(VISIBILITY_SECONDS)}
    )
    try:
        yield
    finally:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes=kept["Attributes"])


def taken(sqs: "SQSClient", queue: str, body: str) -> bool:
    """Take the next message off ``queue``; return whether it is the one with ``body``."""
    for message in sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=1).get("Messages", []):
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message.get("ReceiptHandle", ""))
        return message.get("Body") == body
    return False


def failed_receives(service: Service) -> int:
    """Return how often the email sender said in its log that a record is unreadable."""
    with closing(service.aws.logs()) as logs:
        pages = logs.get_paginator("filter_log_events").paginate(
            logGroupName=f"/aws/lambda/{DEFAULT_PREFIX}-sender-email"
        )
        messages = [event.get("message", "") for page in pages for event in page["events"]]
    lines = [json.loads(message) for message in messages if message.startswith("{")]
    return sum(
        line.get(ChannelMetric.UNREADABLE_MESSAGE, 0)
        for line in lines
        if line.get("message") == "Delivered"
    )
