"""Queue records as a sender reads them, and the report of what came of them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from functions.core.errors import Unavailable, Unreadable
from functions.core.message import LeaseMessage
from functions.core.metric import ChannelMetric


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A queue record: its own id, what it says, and how often it was received."""

    message_id: str
    body: str
    received: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """A record that could be read."""

    record: Record
    message: LeaseMessage

    @property
    def may_have_failed(self) -> bool:
        """Whether an earlier handler began on it and was not heard of again: its start is counted.

        The first of the first lease is not, which is nearly all of them, and costs them nothing.
        """
        return self.record.received > 1 or self.message.lease_number > 1


@dataclass(slots=True, kw_only=True)
class Report:
    """What came of a set of records: ``counts`` of the channel, ``signals`` of the service."""

    failed: list[str] = field(default_factory=list[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    signals: Counter[str] = field(default_factory=Counter[str])
    errors: list[Exception] = field(default_factory=list[Exception])

    def note(self, error: Exception) -> None:
        if isinstance(error, Unavailable):
            self.counts[ChannelMetric.DATABASE_UNAVAILABLE] += 1
        else:
            self.errors.append(error)


def read_records(event: Mapping[str, Any]) -> list[Record]:
    """Return the records of an SQS event; an event of another kind is an error, not a success."""
    if "Records" not in event:
        raise Unreadable("The event is not one of a queue.")
    return [
        Record(
            message_id=record["messageId"],
            body=record["body"],
            received=int(record["attributes"]["ApproximateReceiveCount"]),
        )
        for record in event["Records"]
    ]
