"""Commands on notifications whose outcome is unknown: list them, settle one."""

from collections.abc import Mapping
from uuid import UUID

from functions.console.arguments import PAGE, identifier, one_of, optional, required, text
from functions.console.command import Command, Done, Equipment, counts_of, page_of
from functions.core.states import Channel, Finding
from functions.store import uncertain
from functions.store.action import Action


def list_uncertain(
    equipment: Equipment,
    *,
    channel: Channel | None,
    organization_id: UUID | None,
    after: UUID | None,
    limit: int,
) -> Done:
    rows = uncertain.list_uncertain(
        equipment.database,
        channel=channel,
        organization_id=organization_id,
        after=after,
        limit=limit + 1,
    )
    return page_of(rows, limit=limit)


def settle(
    equipment: Equipment, *, id: UUID, finding: Finding, note: str | None, action: Action
) -> Done:
    del note  # for those who read the audit; it is one of the action's arguments
    fate = uncertain.settle(equipment.database, id, finding=finding, action=action)
    return Done(result={"action_id": action.id, "fate": fate.fate}, counts=counts_of([fate]))


COMMANDS: Mapping[str, Command] = {
    "uncertain.list": Command(
        parameters={
            "channel": optional(one_of(Channel)),
            "organization_id": optional(identifier),
            **PAGE,
        },
        run=list_uncertain,
    ),
    "uncertain.settle": Command(
        parameters={
            "id": required(identifier),
            "finding": required(one_of(Finding)),
            "note": optional(text),
        },
        run=settle,
        audited=True,
    ),
}
