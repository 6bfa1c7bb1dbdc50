"""The dead-letter queues as an operator sees them: messages are looked at, and deleted or let go.

A received message is hidden from everybody else for a while. If this process dies it comes back by
itself; whoever decides about it again finds what has become of its row meanwhile.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

from functions.core.errors import Unavailable

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

MAX_ENTRIES = 10
"""Messages per call (SQS quota)."""

HIDDEN_SECONDS = 60
"""Longer than an invocation may last, so that no message comes twice in one."""

WAIT_SECONDS = 1
"""A wait of any length asks all of SQS's servers; without one, some of them."""


def client() -> "SQSClient":
    """Return an SQS client that gives up within the time an operator waits."""
    return boto3.client(  # pyright: ignore[reportUnknownMemberType]  # services without stubs
        "sqs",
        config=Config(
            retries={"mode": "standard", "total_max_attempts": 2},
            connect_timeout=2,
            read_timeout=WAIT_SECONDS + 3,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message of a dead-letter queue; ``handle`` belongs to this receipt of it."""

    message_id: str
    handle: str
    body: str


class DeadLetters:
    """One dead-letter queue per channel; ``urls`` maps a channel's name to its queue."""

    def __init__(
        self, sqs: "SQSClient", urls: Mapping[str, str], *, wait_seconds: int = WAIT_SECONDS
    ) -> None:
        self._sqs = sqs
        self._urls = urls
        self._wait_seconds = wait_seconds

    def count(self, channel: str) -> int:
        """Return about how many messages there are, hidden ones included; raise Unavailable."""
        try:
            answer = self._sqs.get_queue_attributes(
                QueueUrl=self._urls[channel],
                AttributeNames=[
                    "ApproximateNumberOfMessages",
                    "ApproximateNumberOfMessagesNotVisible",
                ],
            )
        except Exception as error:  # botocore raises plain exceptions too
            raise _unavailable(error) from None
        return sum(int(value) for value in answer.get("Attributes", {}).values())

    def receive(self, channel: str, most: int) -> list[DeadLetter]:
        """Return up to ``most`` messages, ten at best; none when the queue is empty.

        Raises Unavailable.
        """
        try:
            answer = self._sqs.receive_message(
                QueueUrl=self._urls[channel],
                MaxNumberOfMessages=min(most, MAX_ENTRIES),
                VisibilityTimeout=HIDDEN_SECONDS,
                WaitTimeSeconds=self._wait_seconds,
            )
        except Exception as error:  # botocore raises plain exceptions too
            raise _unavailable(error) from None
        return [_letter(message) for message in answer.get("Messages", [])]

    def delete(self, channel: str, letters: Sequence[DeadLetter]) -> set[str]:
        """Delete ``letters``; return the message ids of those that are gone for certain."""
        gone: set[str] = set()
        for batch in _batches(letters):
            with contextlib.suppress(Exception):
                answer = self._sqs.delete_message_batch(
                    QueueUrl=self._urls[channel],
                    Entries=[
                        {"Id": str(number), "ReceiptHandle": letter.handle}
                        for number, letter in enumerate(batch)
                    ],
                )
                gone |= {batch[int(e["Id"])].message_id for e in answer.get("Successful", [])}
        return gone

    def release(self, channel: str, letters: Sequence[DeadLetter]) -> None:
        """Let everybody see ``letters`` again; if that fails they come back by themselves."""
        for batch in _batches(letters):
            with contextlib.suppress(Exception):
                self._sqs.change_message_visibility_batch(
                    QueueUrl=self._urls[channel],
                    Entries=[
                        {
                            "Id": str(number),
                            "ReceiptHandle": letter.handle,
                            "VisibilityTimeout": 0,
                        }
                        for number, letter in enumerate(batch)
                    ],
                )


def _letter(message: "MessageTypeDef") -> DeadLetter:
    return DeadLetter(
        message_id=message.get("MessageId", ""),
        handle=message.get("ReceiptHandle", ""),
        body=message.get("Body", ""),
    )


def _batches(letters: Sequence[DeadLetter]) -> Iterator[Sequence[DeadLetter]]:
    return (letters[start : start + MAX_ENTRIES] for start in range(0, len(letters), MAX_ENTRIES))


def _unavailable(error: Exception) -> Unavailable:
    """Name the error without its text, which may quote what was received."""
    return Unavailable(f"The queue is not available ({type(error).__name__}).")
