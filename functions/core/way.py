"""The way of a notification: where it goes next, and what is closed, paused or slow on it.

Protocols, because the rows are read by the store: this is what the telling needs of them.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID


class Breaker(Protocol):
    """A breaker that is open and that the notification would meet at ``provider``."""

    @property
    def provider(self) -> str: ...
    @property
    def scope(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def opened_at(self) -> datetime: ...
    @property
    def code(self) -> str | None: ...
    @property
    def probe_at(self) -> datetime: ...
    @property
    def is_probed_by_it(self) -> bool:
        """The notification itself is the one that finds out."""
        ...


class Endpoint(Protocol):
    """The origin of a webhook's URL, where it does not simply work."""

    @property
    def origin(self) -> str: ...
    @property
    def failures(self) -> int: ...
    @property
    def failing_since(self) -> datetime | None: ...
    @property
    def code(self) -> str | None: ...
    @property
    def paused_at(self) -> datetime | None: ...
    @property
    def disabled_at(self) -> datetime | None: ...
    @property
    def probe_at(self) -> datetime | None: ...
    @property
    def is_probed_by_it(self) -> bool: ...


class Hold(Protocol):
    """The hold it waits under: of a ``kind`` of slice (country or prefix), opened at ``today``
    messages in 24 hours where ``usual`` are usual."""

    @property
    def id(self) -> UUID: ...
    @property
    def kind(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def today(self) -> int: ...
    @property
    def usual(self) -> float: ...
    @property
    def opened_at(self) -> datetime: ...
    @property
    def released_at(self) -> datetime | None: ...
    @property
    def discarded(self) -> bool: ...


class Suppression(Protocol):
    """The newest fact that keeps its recipient from being written to; no category is all."""

    @property
    def reason(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def category(self) -> str | None: ...
    @property
    def created_at(self) -> datetime: ...


class SuppressedPoint(Suppression, Protocol):
    """The same of a contact point: the ``number`` of it, from 1, of the ``count`` that its
    recipient has on its ``channel``."""

    @property
    def channel(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def count(self) -> int: ...


class Way(Protocol):
    """Where it goes next; what is open or works is not in it."""

    @property
    def country(self) -> str | None:
        """The country of an SMS."""
        ...

    @property
    def stream(self) -> str: ...
    @property
    def stream_paused_at(self) -> datetime | None: ...
    @property
    def next_provider(self) -> str | None:
        """With whom it is due, where another provider provably did not take it."""
        ...

    @property
    def waiting_since(self) -> datetime | None:
        """The first of a run of throttled or blocked answers."""
        ...

    @property
    def breakers(self) -> Sequence[Breaker]: ...
    @property
    def endpoint(self) -> Endpoint | None: ...
    @property
    def hold(self) -> Hold | None: ...
    @property
    def suppression(self) -> Suppression | None: ...
    @property
    def suppressed_points(self) -> Sequence[SuppressedPoint]:
        """Of a recipient by reference; of a parent those by each of its channels."""
        ...
