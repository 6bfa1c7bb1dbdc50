"""Commands on webhook endpoints: list those that do not simply work, let one be called again."""

from collections.abc import Mapping
from uuid import UUID

from functions.console.arguments import PAGE, flag, identifier, optional, required
from functions.console.command import Command, Done, Equipment, counts_of, page_of
from functions.store import endpoint
from functions.store.action import Action


def list_endpoints(
    equipment: Equipment,
    *,
    organization_id: UUID | None,
    stopped: bool,
    after: UUID | None,
    limit: int,
) -> Done:
    rows = endpoint.list_endpoints(
        equipment.database,
        organization_id=organization_id,
        stopped=stopped,
        after=after,
        limit=limit + 1,
    )
    return page_of(rows, limit=limit)


def resume_endpoint(equipment: Equipment, *, id: UUID, action: Action) -> Done:
    fate = endpoint.resume_endpoint(equipment.database, id, action=action)
    return Done(
        result={"action_id": action.id, "id": id, "fate": fate.fate}, counts=counts_of([fate])
    )


COMMANDS: Mapping[str, Command] = {
    "endpoints.list": Command(
        parameters={
            "organization_id": optional(identifier),
            "stopped": optional(flag, default=False),
            **PAGE,
        },
        run=list_endpoints,
    ),
    "endpoints.resume": Command(
        parameters={"id": required(identifier)}, run=resume_endpoint, audited=True
    ),
}
