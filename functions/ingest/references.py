"""What stands behind the references of items: looked up for all at once, and pinned.

A recipient has to be there; a template has a version, which is kept, and data that every one of its
languages can be written with, on every channel that the item may be sent by. Equal words are tried
once per request. What was accepted once is a repetition, whatever became of its references: an
item that would be refused is first looked for by its event.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from uuid import UUID

from functions.core.errors import EventIdConflict, Fault, ValidationFailed
from functions.core.states import Channel
from functions.core.strict_json import MAX_FAULTS
from functions.ingest.admission import Judged, admit_single
from functions.ingest.deployment import Deployment
from functions.ingest.faults import below
from functions.ingest.recognition import canonical
from functions.store.accept import event_conflict
from functions.store.intent import NewNotification
from functions.store.known import Known, find_known
from functions.store.reference import References, read_references, unknown_recipient
from functions.store.template import Pinned, Wanted
from functions.templates.budget import Budget
from functions.templates.errors import Exhausted

MAX_TEMPLATES = 100
"""Of one request: each may have 256 KB."""


def complete(
    judged: Sequence[Judged],
    deployment: Deployment,
    organization_id: UUID,
    *,
    pointer: str,
    budget: Budget | None = None,
) -> Sequence[NewNotification]:
    """Return the notifications with their versions; raise ValidationFailed with every fault of
    every item in order, up to 100, EventIdConflict when nothing else is wrong.

    ``pointer`` leads to an item by its ``{place}``; ``budget`` is what the request may render.
    """
    faults: list[Fault] = []
    complete: list[NewNotification] = []
    for place, one in enumerate(_each(judged, deployment, organization_id, budget or Budget())):
        if isinstance(one, list):
            faults += below(pointer.format(place=place), one)
        else:
            complete.append(one)
        if len(faults) >= MAX_FAULTS:
            break
    if faults or len(complete) < len(judged):
        only_conflicts = {fault.code for fault in faults} == {EventIdConflict.code}
        raise (EventIdConflict if only_conflicts else ValidationFailed)(faults[:MAX_FAULTS])
    return complete


def admit_each(
    items: Sequence[Any],
    deployment: Deployment,
    organization_id: UUID,
    *,
    budget: Budget | None = None,
) -> list[NewNotification | ValidationFailed]:
    """Return of each item what is to be stored, or its faults by pointers relative to it.

    No item is refused for what another one takes to render. Within a ``budget`` for all of them,
    only those before the one that used it up are judged.
    """
    judged = [_admit(item, deployment) for item in items]
    return [
        ValidationFailed(one[:MAX_FAULTS]) if isinstance(one, list) else one
        for one in _each(judged, deployment, organization_id, budget, ends_with_budget=True)
    ]


def _admit(item: Any, deployment: Deployment) -> Judged:
    try:
        return admit_single(item, door=deployment.door)
    except ValidationFailed as error:
        return list(error.faults)


def _each(
    judged: Sequence[Judged],
    deployment: Deployment,
    organization_id: UUID,
    budget: Budget | None,
    *,
    ends_with_budget: bool = False,
) -> Sequence[Judged]:
    """Return each complete, or its faults; where none refers to anything, nothing is looked up."""
    admitted = [one for one in judged if isinstance(one, NewNotification)]
    referring = [one for one in admitted if one.by_reference is not None]
    if not referring:
        return judged
    wanted = dict.fromkeys(one for item in referring if (one := _wanted(item)) is not None)
    found = read_references(
        deployment.database,
        organization_id=organization_id,
        recipient_ids={id for one in referring if (id := _recipient_id(one)) is not None},
        templates=list(islice(wanted, MAX_TEMPLATES)),
    )
    trial = _Trial(
        found=found, beyond=frozenset(islice(wanted, MAX_TEMPLATES, None)), budget=budget
    )
    tried: list[Judged] = []
    for one in judged:
        verdict = one if isinstance(one, list) else trial.of(one)
        if ends_with_budget and budget is not None and budget.left <= 0:
            break
        tried.append(verdict)
    refused = {
        place: asked
        for place, (asked, one) in enumerate(zip(judged, tried, strict=False))
        if isinstance(one, list) and not isinstance(asked, list) and asked.event_id is not None
    }
    if refused:
        for place, known in _known(refused, deployment, organization_id).items():
            tried[place] = _repetition(refused[place], known)
    return tried


def _known(
    notifications: Mapping[int, NewNotification], deployment: Deployment, organization_id: UUID
) -> Mapping[int, Known]:
    return deployment.database.run(
        lambda connection: find_known(connection, notifications, organization_id=organization_id)
    )


def _repetition(notification: NewNotification, known: Known) -> Judged:
    """Return what is refused by itself as the repetition of an event, or as another one.

    It is stored like any other, and found to be known: should the first one go meanwhile, the same
    words are sent, or, to who is gone, nothing.
    """
    by_reference = notification.by_reference
    if by_reference is None or not known.is_equal:
        return [event_conflict()]
    version = None if by_reference.template_name is None else known.template_version or 1
    return dataclasses.replace(
        notification,
        by_reference=dataclasses.replace(
            by_reference, template_version=version, is_repetition=True
        ),
    )


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
    budget: Budget | None
    """What all of it may take; None: what each may take by itself."""
    _uses: dict[bytes, _Use] = field(default_factory=dict[bytes, _Use])

    def of(self, notification: NewNotification) -> Judged:
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
        from functions.templates.use import check_use, most_segments  # 280 ms that few need

        budget = self.budget or Budget()
        faults = check_use(document, channels=channels, data=data, budget=budget)
        if faults or Channel.SMS not in channels:
            return _Use(faults=faults)
        try:
            return _Use(faults=(), segments=most_segments(document, data=data, budget=budget))
        except Exhausted as error:
            return _Use(faults=[Fault("", error.item_code, error.detail)])
