"""Take in what was requested by SQL: each becomes a notification, repeats one, or is told invalid.

A page is one transaction: its requests are held, judged as if they had come over HTTP, and go with
the notifications that come of them. One that nobody can read keeps none of the others waiting.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from functions.core import strict_json
from functions.core.errors import EventIdConflict, Fault, ValidationFailed
from functions.core.states import Channel, Priority
from functions.ingest.deployment import Deployment
from functions.ingest.references import admit_each
from functions.ingest.schemas import CATEGORY, DEFAULT_CATEGORY
from functions.store.accept import NewNotification, Taken, accept_requests
from functions.store.connection import is_about_a_row
from functions.store.drain import (
    FIRST,
    MOST_AT_ONCE,
    Invalid,
    Waiting,
    forget_stored,
    keep_invalid,
    keep_repeats,
    take,
)

if TYPE_CHECKING:
    import psycopg

SECONDS = 2.0
"""A drain's life. While something is left whoever saw it starts another: so many are never at it
that they would be in the way of the API."""

UNFORESEEN = Fault("", "internal_error", "The service made a mistake.")
CONFLICT = Fault(
    "/event_id",
    EventIdConflict.code,
    "This event was notified before, to the same recipient, with other content.",
)
MAX_REFERENCE = 128


@dataclass(slots=True, kw_only=True)
class Drained:
    """What came of the requests, and the mistakes that were made over them."""

    stored: int = 0
    repeated: int = 0
    invalid: int = 0
    mistakes: list[Exception] = field(default_factory=list[Exception])

    def add(self, other: "Drained") -> None:
        self.stored += other.stored
        self.repeated += other.repeated
        self.invalid += other.invalid
        self.mistakes += other.mistakes


def drain(
    deployment: Deployment,
    *,
    seconds: float = SECONDS,
    most: int = MOST_AT_ONCE,
    clock: Callable[[], float] = time.monotonic,
) -> Drained:
    """Take in what waits, page by page, until nothing does that is free, or ``seconds`` are over.

    Raises Unavailable; what was not taken in then waits as before.
    """
    deployment.hash_key()  # without it nothing can be judged, and nothing is to blame for that
    total, after, ends_at = Drained(), FIRST, clock() + seconds
    while True:
        page = deployment.database.run(
            lambda connection, after=after: _take_in(connection, deployment, after=after, most=most)
        )
        total.add(page.drained)
        if (page.last is None and after == FIRST) or clock() >= ends_at:
            return total
        after = page.last or FIRST


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    drained: Drained
    last: UUID | None
    """The organization it ended with; None where it was empty."""


def _take_in(
    connection: "psycopg.Connection", deployment: Deployment, *, after: UUID, most: int
) -> _Page:
    page = take(connection, after=after, most=most)
    drained = Drained()
    for organization_id, group in groupby(page, key=lambda waiting: waiting.organization_id):
        asked = [_read(waiting) for waiting in group]
        drained.add(_Group(connection, deployment, organization_id).take_in(asked))
    return _Page(drained=drained, last=page[-1].organization_id if page else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A request, read: its item, and what of it cannot be kept."""

    id: UUID
    item: Any
    faults: Sequence[Fault]


def _read(waiting: Waiting) -> _Asked:
    try:
        item, faults = strict_json.parse(waiting.text.encode())
    except strict_json.MalformedJson as error:  # nested too deeply, or a number beyond reading
        item, faults = None, [Fault("", error.code, error.detail)]
    return _Asked(id=waiting.id, item=item, faults=faults)


@dataclass(frozen=True, slots=True)
class _Group:
    """The requests of one organization, within the transaction of their page."""

    connection: "psycopg.Connection"
    deployment: Deployment
    organization_id: UUID

    def take_in(self, asked: Sequence[_Asked]) -> Drained:
        """Take in what was ``asked`` together, or each on its own where that cannot be."""
        try:
            with self.connection.transaction():
                return self._settle(asked)
        except Exception as error:
            if not is_about_a_row(error):
                raise
            if len(asked) == 1:
                self._keep_invalid([(asked[0], [UNFORESEEN])])
                return Drained(invalid=1, mistakes=[error])
        drained = Drained()
        for one in asked:
            drained.add(self.take_in([one]))
        return drained

    def _settle(self, asked: Sequence[_Asked]) -> Drained:
        readable = [one for one in asked if not one.faults]
        judged = admit_each([one.item for one in readable], self.deployment, self.organization_id)
        bad = [(one, one.faults) for one in asked if one.faults]
        good: dict[UUID, tuple[_Asked, NewNotification]] = {}
        for one, verdict in zip(readable, judged, strict=True):
            if isinstance(verdict, ValidationFailed):
                bad.append((one, verdict.faults))
            else:
                good[one.id] = (one, verdict)
        taken = self._accept([(id, notification) for id, (_, notification) in good.items()])
        bad += [(good[one.id][0], [CONFLICT]) for one in taken if one.is_conflict]
        repeats = [(one.id, one.duplicate_of) for one in taken if one.duplicate_of is not None]
        stored = [one.id for one in taken if one.duplicate_of is None and not one.is_conflict]
        if stored:
            forget_stored(self.connection, stored)
        if repeats:
            keep_repeats(self.connection, repeats)
        self._keep_invalid(bad)
        return Drained(stored=len(stored), repeated=len(repeats), invalid=len(bad))

    def _accept(self, good: Sequence[tuple[UUID, NewNotification]]) -> Sequence[Taken]:
        if not good:
            return ()
        return accept_requests(self.connection, organization_id=self.organization_id, requests=good)

    def _keep_invalid(self, bad: Sequence[tuple[_Asked, Sequence[Fault]]]) -> None:
        invalid = [self._shown(asked, faults) for asked, faults in bad]
        if invalid:
            keep_invalid(self.connection, invalid)

    def _shown(self, asked: _Asked, faults: Sequence[Fault]) -> Invalid:
        """Return what the dead notification shows: what can be made out of the item."""
        item = cast("dict[str, Any]", asked.item) if isinstance(asked.item, dict) else {}
        priority, category, reference = (
            value if isinstance(value := item.get(name), str) else ""
            for name in ("priority", "category", "reference")
        )
        return Invalid(
            id=asked.id,
            organization_id=self.organization_id,
            faults=faults[: strict_json.MAX_FAULTS],
            channel=_channel_of(item),
            priority=priority if priority in set(Priority) else Priority.NORMAL,
            category=category if re.fullmatch(CATEGORY, category) else DEFAULT_CATEGORY,
            reference=reference if 0 < len(reference) <= MAX_REFERENCE else None,
        )


def _channel_of(item: dict[str, Any]) -> str:
    """Return the channel of an invalid item, or its first of several; email where it has none."""
    channels = item.get("channels")
    several = cast("list[Any]", channels) if isinstance(channels, list) else []
    known = set(Channel)
    named = (name for name in (item.get("channel"), *several) if isinstance(name, str))
    return next((name for name in named if name in known), Channel.EMAIL)
