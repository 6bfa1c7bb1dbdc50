"""A good answer, before it has the form that API Gateway takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from functions.ingest.representation import write


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
