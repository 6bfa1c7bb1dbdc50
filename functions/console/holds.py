"""Commands on holds: list what waits for a person's word, and give it."""

from collections.abc import Mapping
from uuid import UUID

from functions.console.arguments import PAGE, flag, identifier, optional, required, text
from functions.console.command import Command, Done, Equipment, page_of
from functions.store import hold
from functions.store.action import Action


def list_holds(
    equipment: Equipment, *, organization_id: UUID | None, after: UUID | None, limit: int
) -> Done:
    rows = hold.list_holds(
        equipment.database, organization_id=organization_id, after=after, limit=limit + 1
    )
    return page_of(rows, limit=limit)


def release(
    equipment: Equipment, *, id: UUID, discard: bool, note: str | None, action: Action
) -> Done:
    """Release a hold; where there is ``more``, the same command goes on with it."""
    del note  # for those who read the audit; it is one of the action's arguments
    done = hold.release_hold(equipment.database, id, discard=discard, action=action)
    return Done(
        result={
            "action_id": action.id,
            "id": id,
            "fate": done.fate,
            "discarded": done.discarded,
            "let_go": done.let_go,
            "more": done.more,
        },
        counts={done.fate: 1, "let_go": done.let_go},
    )


COMMANDS: Mapping[str, Command] = {
    "hold.list": Command(
        parameters={"organization_id": optional(identifier), **PAGE}, run=list_holds
    ),
    "hold.release": Command(
        parameters={
            "id": required(identifier),
            "discard": optional(flag, default=False),
            "note": optional(text),
        },
        run=release,
        audited=True,
    ),
}
