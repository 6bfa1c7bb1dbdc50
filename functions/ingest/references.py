"""What stands behind the references of items: looked up for all at once, and pinned.

A recipient has to be there; a template has a version, which is kept, and data that every one of its
languages can be written with, on every channel that the item may be sent by. Equal words are tried
once per request.
"""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

from functions.core.errors import Fault, ValidationFailed
from functions.core.states import Channel
from functions.core.strict_json import MAX_FAULTS
from functions.ingest.admission import admit_single
from functions.ingest.deployment import Deployment
from functions.ingest.faults import below
from functions.ingest.recognition import canonical
from functions.store.intent import NewNotification
from functions.store.reference import References, read_references, unknown_recipient
from functions.store.template import Pinned, Wanted

if TYPE_CHECKING:
    from functions.templates.budget import Budget

MAX_TEMPLATES = 100
"""Of one request: each may have 256 KB."""

Completed = NewNotification | list[Fault]
"""A notification that can be stored, or what is wrong with it."""


def complete(
    admitted: Sequence[NewNotification],
    deployment: Deployment,
    organization_id: UUID,
    *,
    pointer: str,
) -> Sequence[NewNotification]:
    """Return the notifications with their versions; raise ValidationFailed with every fault, up to
    100. ``pointer`` leads to an item by its ``{place}``."""
    faults: list[Fault] = []
    complete: list[NewNotification] = []
    for place, one in enumerate(_each(admitted, deployment, organization_id)):
        if isinstance(one, list):
            faults += below(pointer.format(place=place), one)
        else:
            complete.append(one)
        if len(faults) >= MAX_FAULTS:
            break
    if faults:
        raise ValidationFailed(faults)
    return complete


def admit_each(
    items: Sequence[Any], deployment: Deployment, organization_id: UUID
) -> list[NewNotification | ValidationFailed]:
    """Return of each item what is to be stored, or its faults by pointers relative to it.

    May be called within a transaction of the deployment's database.
    """
    judged = [_admit(item, deployment) for item in items]
    good = [one for one in judged if isinstance(one, NewNotification)]
    completed = iter(_each(good, deployment, organization_id))
    return [
        one if isinstance(one, ValidationFailed) else _verdict(next(completed)) for one in judged
    ]


def admit_and_complete_one(
    item: Any, deployment: Deployment, organization_id: UUID
) -> NewNotification:
    """Return what is to be stored of one item; raise ValidationFailed with pointers relative to
    it."""
    (judged,) = admit_each([item], deployment, organization_id)
    if isinstance(judged, ValidationFailed):
        raise judged
    return judged


def _admit(item: Any, deployment: Deployment) -> NewNotification | ValidationFailed:
    try:
        return admit_single(item, door=deployment.door)
    except ValidationFailed as error:
        return error


def _verdict(one: Completed) -> NewNotification | ValidationFailed:
    return ValidationFailed(one[:MAX_FAULTS]) if isinstance(one, list) else one


def _each(
    admitted: Sequence[NewNotification], deployment: Deployment, organization_id: UUID
) -> Iterator[Completed]:
    """Yield each complete, or its faults; where none refers to anything, nothing is looked up."""
    referring = [one for one in admitted if one.by_reference is not None]
    if not referring:
        return iter(admitted)
    wanted = dict.fromkeys(one for item in referring if (one := _wanted(item)) is not None)
    found = read_references(
        deployment.database,
        organization_id=organization_id,
        recipient_ids={id for one in referring if (id := _recipient_id(one)) is not None},
        templates=list(islice(wanted, MAX_TEMPLATES)),
    )
    trial = _Trial(found=found, beyond=frozenset(islice(wanted, MAX_TEMPLATES, None)))
    return map(trial.of, admitted)


def _recipient_id(notification: NewNotification) -> str | None:
    return notification.by_reference and notification.by_reference.recipient_id


def _wanted(notification: NewNotification) -> Wanted | None:
    """Return the name and the version that are asked for; None without a template."""
    by_reference = notification.by_reference
    if by_reference is None or by_reference.template_name is None:
        return None
    return by_reference.template_name, notification.content["version"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """What came of the use of a template: what is wrong with it, or how many parts it has."""

    faults: Sequence[Fault]
    segments: int | None = None


@dataclass(slots=True, kw_only=True)
class _Trial:
    """The items of one request, tried against what was found."""

    found: References
    beyond: Collection[Wanted]
    """Templates that were not looked up, for there are too many."""
    _uses: dict[bytes, _Use] = field(default_factory=dict[bytes, _Use])
    _budget: "Budget | None" = None

    def of(self, notification: NewNotification) -> Completed:
        by_reference = notification.by_reference
        if by_reference is None:
            return notification
        faults: list[Fault] = []
        recipient_id = by_reference.recipient_id
        if recipient_id is not None and recipient_id not in self.found.recipients:
            faults.append(unknown_recipient())
        wanted = _wanted(notification)
        if wanted is None:
            return faults or notification
        pinned = self.found.templates.get(wanted)
        if pinned is None or pinned.is_archived:
            return [*faults, self._unusable(wanted, pinned)]
        use = self._use(pinned, notification)
        if faults or use.faults:
            return [*faults, *below("/template", use.faults)]
        return dataclasses.replace(
            notification,
            by_reference=dataclasses.replace(
                by_reference, template_version=pinned.version, segments=use.segments
            ),
        )

    def _unusable(self, wanted: Wanted, pinned: Pinned | None) -> Fault:
        name, _ = wanted
        if wanted in self.beyond:
            words = f"A request names at most {MAX_TEMPLATES} templates."
            return Fault("/template/name", "too_many", words)
        if pinned is not None:
            return Fault("/template/name", "unknown_template", "The template is archived.")
        if name in self.found.names:
            return Fault("/template/version", "unknown_template", "There is no such version.")
        return Fault("/template/name", "unknown_template", "There is no such template.")

    def _use(self, pinned: Pinned, notification: NewNotification) -> _Use:
        """Try the words on every channel; the same ones once."""
        channels, data = sorted(notification.candidates), notification.content["data"]
        key = canonical([pinned.name, pinned.version, channels, data])
        if key not in self._uses:
            self._uses[key] = self._tried(pinned.document, channels, data)
        return self._uses[key]

    def _tried(self, document: Mapping[str, Any], channels: Sequence[str], data: Any) -> _Use:
        from functions.templates.budget import Budget
        from functions.templates.use import check_use, most_segments  # 280 ms that few need

        self._budget = self._budget or Budget()
        faults = check_use(document, channels=channels, data=data, budget=self._budget)
        if faults or Channel.SMS not in channels:
            return _Use(faults=faults)
        return _Use(faults=(), segments=most_segments(document, data=data))
