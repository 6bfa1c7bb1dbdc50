"""Take events from the queue behind our topics, whose policy lets nobody in but them.

A record shall come again exactly when the database could not take it. What cannot be read is
counted, kept as a note and done with: to receive it again would not make it readable.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from functions.callbacks.intake import Event, Intake, Kept
from functions.providers.event import read_delivery


def records_in(event: Mapping[str, Any]) -> Sequence[Mapping[str, Any]] | None:
    """Return the records of a batch, None for an event of another kind."""
    records: Any = event.get("Records")
    if not isinstance(records, list) or event.get("requestContext") is not None:
        return None
    return cast("list[Mapping[str, Any]]", records)


def take(records: Sequence[Mapping[str, Any]], *, intake: Intake) -> Kept:
    """Keep what the records tell; return what to count, and which of them shall come again."""
    hash_key = intake.hash_key()
    return intake.keep([_event_of(record, hash_key) for record in records])


def _event_of(record: Mapping[str, Any], hash_key: bytes) -> Event:
    body = str(record.get("body") or "").encode("utf-8", "surrogatepass")
    told = read_delivery(body, sent_at=_sent_at(record), hash_key=hash_key)
    return Event(id=record["messageId"], body=body, told=told)


def _sent_at(record: Mapping[str, Any]) -> datetime | None:
    """Return when a record was put on the queue: whoever publishes raw tells no other time."""
    attributes: Any = record.get("attributes")
    try:
        return datetime.fromtimestamp(int(attributes["SentTimestamp"]) / 1000, UTC)
    except (TypeError, KeyError, ValueError, OverflowError, OSError):
        return None
