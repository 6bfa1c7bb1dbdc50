"""Judge requests made by SQL, each as the same item by HTTP would be, and settle them together.

They are judged before the transaction that settles them begins: what takes long holds no row. In it
each is still in the hands of whoever took it, or it is passed over.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from functions.core import strict_json
from functions.core.errors import Fault, ValidationFailed
from functions.core.states import CATEGORY, Channel, Priority
from functions.ingest.deployment import Deployment
from functions.ingest.references import admit_each
from functions.ingest.schemas import DEFAULT_CATEGORY
from functions.store.accept import NewNotification, Taken, accept_requests, event_conflict
from functions.store.connection import is_about_a_row
from functions.store.drain import MAX_STARTS, Waiting, hold
from functions.store.drained import (
    Meant,
    Unsent,
    find_erased,
    forget_stored,
    keep_repeats,
    keep_unsent,
)
from functions.store.reference import hold_recipients, unknown_recipient
from functions.templates.budget import Budget

if TYPE_CHECKING:
    import psycopg

UNFORESEEN = Fault("", "internal_error", "The service made a mistake.")
GIVEN_UP = Fault(
    "", "internal_error", f"It stopped whoever took it in, {MAX_STARTS} times. Nothing was sent."
)
MAX_REFERENCE = 128


@dataclass(slots=True, kw_only=True)
class Drained:
    """What came of requests, and the mistakes that were made over them."""

    stored: int = 0
    repeated: int = 0
    invalid: int = 0
    mistakes: list[Exception] = field(default_factory=list[Exception])

    def add(self, other: "Drained") -> None:
        self.stored += other.stored
        self.repeated += other.repeated
        self.invalid += other.invalid
        self.mistakes += other.mistakes


def take_in(
    requests: Sequence[Waiting], deployment: Deployment, *, budget: Budget | None = None
) -> tuple[Drained, int]:
    """Judge and settle requests, by organizations; return what came of them, and how many were
    judged: within ``budget`` only the first ones."""
    judged = [
        one
        for _, group in groupby(requests, key=lambda request: request.organization_id)
        for one in _judged(list(group), deployment, budget)
    ]
    return (_settled(judged, deployment) if judged else Drained()), len(judged)


def _judged(
    requests: Sequence[Waiting], deployment: Deployment, budget: Budget | None
) -> list["_Judged"]:
    """Judge the requests together, or each on its own where that cannot be."""
    try:
        return _judge([_read(one) for one in requests], deployment, budget)
    except Exception as error:
        if not is_about_a_row(error):
            raise
        if len(requests) == 1:
            return [_Judged(waiting=requests[0], faults=[UNFORESEEN], mistake=error)]
    return [judged for one in requests for judged in _judged([one], deployment, None)]


def _settled(judged: Sequence["_Judged"], deployment: Deployment) -> Drained:
    """Settle the requests together, or each on its own where that cannot be."""
    try:
        return deployment.database.run(lambda connection: _settle(connection, judged))
    except Exception as error:
        if not is_about_a_row(error):
            raise
        if len(judged) == 1:
            one = replace(judged[0], notification=None, faults=[UNFORESEEN], mistake=error)
            return deployment.database.run(lambda connection: _settle(connection, [one]))
    total = Drained()
    for one in judged:
        total.add(_settled([one], deployment))
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A request, read: its item, and what of it cannot be kept."""

    waiting: Waiting
    item: Any
    faults: Sequence[Fault]

    @property
    def is_judged(self) -> bool:
        return bool(self.faults) or self.waiting.is_erased


def _read(waiting: Waiting) -> _Asked:
    if waiting.is_given_up:
        return _Asked(waiting=waiting, item=None, faults=[GIVEN_UP])  # not even looked at
    try:
        item, faults = strict_json.parse(waiting.text.encode())
    except strict_json.MalformedJson as error:  # nested too deeply, or a number beyond reading
        item, faults = None, [Fault("", error.code, error.detail)]
    return _Asked(waiting=waiting, item=item, faults=faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """A request and what it is: a notification, invalid, or, with neither, for nobody any more."""

    waiting: Waiting
    item: Any = None
    notification: NewNotification | None = None
    faults: Sequence[Fault] = ()
    mistake: Exception | None = None

    @property
    def recipient_id(self) -> str | None:
        """Whom it goes to, unless it repeats what went to them."""
        by_reference = self.notification and self.notification.by_reference
        if by_reference is None or by_reference.is_repetition:
            return None
        return by_reference.recipient_id

    @property
    def meant(self) -> Meant | None:
        """To whom it was to go, if that can be told."""
        if self.notification is not None:
            by_reference = self.notification.by_reference
            recipient_id = by_reference and by_reference.recipient_id
            hashed = None if recipient_id else self.notification.recipient_hash
        elif unknown_recipient() in self.faults:
            recipient_id, hashed = self.item["recipient_id"], None
        else:
            return None
        return Meant(
            id=self.waiting.id,
            organization_id=self.waiting.organization_id,
            recipient_id=recipient_id,
            recipient_hash=hashed,
        )


def _judge(asked: Sequence[_Asked], deployment: Deployment, budget: Budget | None) -> list[_Judged]:
    items = [one.item for one in asked if not one.is_judged]
    organization_id = asked[0].waiting.organization_id
    verdicts = iter(admit_each(items, deployment, organization_id, budget=budget))
    judged: list[_Judged] = []
    for one in asked:
        notification, faults = None, one.faults
        if not one.is_judged:
            verdict = next(verdicts, None)
            if verdict is None:
                break
            if isinstance(verdict, ValidationFailed):
                faults = verdict.faults
            else:
                notification = verdict
        judged.append(
            _Judged(waiting=one.waiting, item=one.item, notification=notification, faults=faults)
        )
    return judged


def _settle(connection: "psycopg.Connection", judged: Sequence[_Judged]) -> Drained:
    held = hold(connection, [one.waiting for one in judged])
    mine = [one for one in judged if one.waiting.id in held]
    gone = _gone(connection, mine)
    meant = [found for one in mine if (found := one.meant) is not None]
    erased = find_erased(connection, meant) if meant else ()
    good: dict[UUID, _Judged] = {}
    unsent: list[Unsent] = []
    for one in mine:
        id = one.waiting.id
        if id in erased or one.waiting.is_erased:
            unsent.append(_shown(one, None))
        elif id in gone:
            unsent.append(_shown(one, [unknown_recipient()]))
        elif one.notification is None:
            unsent.append(_shown(one, one.faults))
        else:
            good[id] = one
    taken = _accept(connection, list(good.values()))
    unsent += [_shown(good[one.id], [event_conflict()]) for one in taken if one.is_conflict]
    repeats = [(one.id, one.duplicate_of) for one in taken if one.duplicate_of is not None]
    stored = [one.id for one in taken if one.duplicate_of is None and not one.is_conflict]
    if stored:
        forget_stored(connection, stored)
    if repeats:
        keep_repeats(connection, repeats)
    if unsent:
        keep_unsent(connection, unsent)
    invalid = sum(one.faults is not None for one in unsent)
    return Drained(
        stored=len(stored) + len(unsent) - invalid,  # there is one for nobody any more, too
        repeated=len(repeats),
        invalid=invalid,
        mistakes=[one.mistake for one in mine if one.mistake is not None],
    )


def _by_organization(judged: Iterable[_Judged]) -> Iterator[tuple[UUID, list[_Judged]]]:
    """Yield the requests of each organization, in one order for everybody: twins wait."""
    ordered = sorted(judged, key=lambda one: (one.waiting.organization_id, one.waiting.id))
    for organization_id, group in groupby(ordered, key=lambda one: one.waiting.organization_id):
        yield organization_id, list(group)


def _gone(connection: "psycopg.Connection", judged: Sequence[_Judged]) -> set[UUID]:
    """Return those whose recipient was erased since they were judged; keep the other recipients
    from being erased before they are settled."""
    gone: set[UUID] = set()
    referring = [one for one in judged if one.recipient_id is not None]
    for organization_id, group in _by_organization(referring):
        asked = {one.waiting.id: one.recipient_id or "" for one in group}
        present = hold_recipients(connection, set(asked.values()), organization_id=organization_id)
        gone |= {id for id, recipient_id in asked.items() if recipient_id not in present}
    return gone


def _accept(connection: "psycopg.Connection", judged: Sequence[_Judged]) -> list[Taken]:
    taken: list[Taken] = []
    for organization_id, group in _by_organization(judged):
        requests = [
            (one.waiting.id, one.notification) for one in group if one.notification is not None
        ]
        taken += accept_requests(connection, organization_id=organization_id, requests=requests)
    return taken


def _shown(judged: _Judged, faults: Sequence[Fault] | None) -> Unsent:
    """Return what a notification shows of which nothing is sent: what its item has of that."""
    item = cast("dict[str, Any]", judged.item) if isinstance(judged.item, dict) else {}
    priority, category, reference = (
        value if isinstance(value := item.get(name), str) else ""
        for name in ("priority", "category", "reference")
    )
    is_erased = faults is None
    return Unsent(
        id=judged.waiting.id,
        organization_id=judged.waiting.organization_id,
        faults=faults and faults[: strict_json.MAX_FAULTS],
        channel=_channel_of(item),
        priority=priority if priority in set(Priority) else Priority.NORMAL,
        category=category if re.fullmatch(CATEGORY, category) else DEFAULT_CATEGORY,
        reference=reference if not is_erased and 0 < len(reference) <= MAX_REFERENCE else None,
    )


def _channel_of(item: dict[str, Any]) -> str:
    """Return the channel of an item, or its first of several; email where it has none."""
    channels = item.get("channels")
    several = cast("list[Any]", channels) if isinstance(channels, list) else []
    known = set(Channel)
    named = (name for name in (item.get("channel"), *several) if isinstance(name, str))
    return next((name for name in named if name in known), Channel.EMAIL)
