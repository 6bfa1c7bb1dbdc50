"""What every use case of the API works with, and what it gives back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from functions.ingest.admission import Door
from functions.ingest.cursor import cursor_key
from functions.ingest.representation import write
from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The parts of this deployment that answers depend on."""

    database: Database
    hash_key: Callable[[], bytes]
    """Read when it is first needed: a secret store that is out fails a request, not the start."""
    local_webhook_origin: str

    @property
    def door(self) -> Door:
        return Door(hash_key=self.hash_key(), local_webhook_origin=self.local_webhook_origin)

    @property
    def cursor_key(self) -> bytes:
        return cursor_key(self.hash_key())


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A good answer; ``body`` is its text as sent."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content_type: str = "application/json"
    compress: bool = False
    """Whether to compress it for a client that can read that."""


def answer(status: int, value: Any) -> Answer:
    return Answer(status=status, body=write(value))
