"""What every use case of the API works with, and what it gives back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from functions.ingest.admission import Door
from functions.ingest.representation import write
from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The parts of this deployment that answers depend on."""

    database: Database
    door: Door
    cursor_key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A good answer; ``body`` is its text as sent."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content_type: str = "application/json"


def answer(status: int, value: Any) -> Answer:
    return Answer(status=status, body=write(value))
