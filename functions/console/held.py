"""Commands on held notifications: list them, send them once more, let them rest."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from functions.console.arguments import (
    PAGE,
    flag,
    identifier,
    list_of,
    one_of,
    optional,
    required,
    text,
)
from functions.console.command import Command, Done, Equipment, counts_of, page_of
from functions.core.states import Channel, Reason
from functions.providers.choice import DECLARATIONS
from functions.store import held
from functions.store.action import Action
from functions.store.held_list import list_held as read_held


def list_held(
    equipment: Equipment,
    *,
    channel: Channel | None,
    reason: Reason | None,
    organization_id: UUID | None,
    ids: Sequence[UUID] | None,
    needless: bool,
    after: UUID | None,
    limit: int,
) -> Done:
    rows = read_held(
        equipment.database,
        channel=channel,
        reason=reason,
        organization_id=organization_id,
        ids=ids,
        needless=needless,
        after=after,
        limit=limit + 1,
    )
    return page_of(rows, limit=limit)


def requeue(
    equipment: Equipment, *, ids: Sequence[UUID], may_send_twice: bool, action: Action
) -> Done:
    fates = held.requeue(
        equipment.database,
        ids,
        may_send_twice=may_send_twice,
        declarations=DECLARATIONS,
        action=action,
    )
    return Done(result={"action_id": action.id, "fates": fates}, counts=counts_of(fates))


def discard(equipment: Equipment, *, ids: Sequence[UUID], note: str | None, action: Action) -> Done:
    del note  # for those who read the audit; it is one of the action's arguments
    fates = held.discard(equipment.database, ids, action=action)
    return Done(result={"action_id": action.id, "fates": fates}, counts=counts_of(fates))


COMMANDS: Mapping[str, Command] = {
    "dead.list": Command(
        parameters={
            "channel": optional(one_of(Channel)),
            "reason": optional(one_of(Reason)),
            "organization_id": optional(identifier),
            "ids": optional(list_of(identifier)),
            "needless": optional(flag, default=False),
            **PAGE,
        },
        run=list_held,
    ),
    "dead.requeue": Command(
        parameters={
            "ids": required(list_of(identifier)),
            "may_send_twice": optional(flag, default=False),
        },
        run=requeue,
        audited=True,
    ),
    "dead.discard": Command(
        parameters={"ids": required(list_of(identifier)), "note": optional(text)},
        run=discard,
        audited=True,
    ),
}
