"""Commands after a restore: stop every channel, mark what may have been sent, go on."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from functions.console.arguments import (
    MAX_PAGE,
    PAGE,
    list_of,
    moment,
    one_of,
    optional,
    page_size,
    required,
)
from functions.console.command import Command, Done, Equipment
from functions.core.states import Channel
from functions.providers.choice import DECLARATIONS
from functions.store import restore
from functions.store.action import Action


def pause(equipment: Equipment, *, action: Action) -> Done:
    """Pause every channel; the answer names those that were not paused before."""
    paused = restore.pause_all(equipment.database, action=action)
    return Done(result={"action_id": action.id, "paused": paused}, counts={"paused": len(paused)})


def recover(
    equipment: Equipment, *, since: datetime, after: UUID | None, limit: int, action: Action
) -> Done:
    """Mark one page of what may have been sent after ``since``, when the restored history ends."""
    marked = restore.mark_gap(
        equipment.database,
        since=since,
        declarations=DECLARATIONS,
        after=after,
        limit=limit,
        action=action,
    )
    return Done(
        result={"action_id": action.id, "marked": marked.marked, "next": marked.last_id},
        counts={"marked": marked.marked},
    )


def resume(equipment: Equipment, *, channels: Sequence[Channel], action: Action) -> Done:
    """Let ``channels`` go on."""
    resumed = restore.resume(equipment.database, channels, action=action)
    return Done(
        result={"action_id": action.id, "resumed": resumed}, counts={"resumed": len(resumed)}
    )


COMMANDS: Mapping[str, Command] = {
    "recover": Command(
        parameters={
            **PAGE,
            "since": required(moment),
            "limit": optional(page_size, default=MAX_PAGE),
        },
        run=recover,
        audited=True,
    ),
    "recover.pause": Command(parameters={}, run=pause, audited=True),
    "recover.resume": Command(
        parameters={"channels": required(list_of(one_of(Channel), most=len(Channel)))},
        run=resume,
        audited=True,
    ),
}
