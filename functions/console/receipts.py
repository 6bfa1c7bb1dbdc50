"""Commands on receipts: read what providers reported once more, by the rules of today."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from functions.console.arguments import (
    MAX_PAGE,
    PAGE,
    identifier,
    moment,
    optional,
    page_size,
)
from functions.console.command import Command, Done, Equipment
from functions.providers.choice import reparse_for
from functions.store.action import Action
from functions.store.replay import replay


def replay_receipts(
    equipment: Equipment,
    *,
    since: datetime | None,
    notification_id: UUID | None,
    after: UUID | None,
    limit: int,
    action: Action,
) -> Done:
    """Read one page of the raw reports again, and let the evidence of today decide."""
    replayed = replay(
        equipment.database,
        reparse=reparse_for(equipment.hash_key()),
        since=since,
        notification_id=notification_id,
        after=after,
        limit=limit,
        action=action,
    )
    counts = {"read": replayed.read, "changed": replayed.changed, "moved": replayed.moved}
    return Done(result={"action_id": action.id, **counts, "next": replayed.last_id}, counts=counts)


COMMANDS: Mapping[str, Command] = {
    "receipts.replay": Command(
        parameters={
            **PAGE,
            "since": optional(moment),
            "notification_id": optional(identifier),
            "limit": optional(page_size, default=MAX_PAGE),
        },
        run=replay_receipts,
        audited=True,
    ),
}
