"""What was asked beyond one address and one text, what was decided of it, and the notifications
that belong together as candidates of one.

Protocols, because the rows are read by the store: this is what the telling needs of them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from functions.core.standing import Standing


class Member(Protocol):
    """A notification by one of several channels, as far as their story goes."""

    @property
    def place(self) -> int | None: ...
    @property
    def channel(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def created_at(self) -> datetime: ...


class Candidate(Member, Standing, Protocol):
    """A notification by one of several channels, or the one that has those; ``place`` is from 0."""

    @property
    def id(self) -> UUID: ...
    @property
    def reason(self) -> str | None: ...


class Told(Protocol):
    """What of a notification its story needs beyond its row."""

    @property
    def place(self) -> int | None: ...
    @property
    def channels(self) -> Sequence[str] | None: ...
    @property
    def children(self) -> Sequence[Member]: ...
    @property
    def decision(self) -> Mapping[str, Any] | None: ...
    @property
    def faults(self) -> Sequence[Mapping[str, str]]: ...


class Decided(Protocol):
    """A notification as far as it was asked for by reference, and decided."""

    @property
    def recipient_id(self) -> str | None: ...
    @property
    def template_name(self) -> str | None: ...
    @property
    def template_version(self) -> int | None: ...
    @property
    def erased_at(self) -> datetime | None: ...
    @property
    def verdict(self) -> str | None:
        """The last verdict: allow, defer, suppress or hold."""
        ...

    @property
    def policy_version(self) -> int | None: ...
    @property
    def decision(self) -> Mapping[str, Any] | None:
        """What it was decided from (core/decision.py); None of a literal address."""
        ...

    @property
    def locale(self) -> str | None:
        """In which it goes out, or went."""
        ...

    @property
    def has_contact_point(self) -> bool:
        """An address was chosen behind the reference."""
        ...

    @property
    def addresses(self) -> Sequence[str]:
        """What is behind the reference now, only so that it can be left out."""
        ...

    @property
    def place(self) -> int | None:
        """Of a candidate: which one it is, from 0. Of a parent: which one it shows."""
        ...

    @property
    def channels(self) -> Sequence[str] | None:
        """Of a parent: its candidates, in order."""
        ...

    @property
    def next_step_at(self) -> datetime | None:
        """Of a parent: when its next candidate is started, if nothing else is heard."""
        ...

    @property
    def parent(self) -> Candidate | None: ...
    @property
    def children(self) -> Sequence[Candidate]:
        """In the order they were started."""
        ...

    @property
    def faults(self) -> Sequence[Mapping[str, str]]:
        """What is wrong with what was asked for: pointer, code and detail."""
        ...
