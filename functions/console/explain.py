"""The command that explains one notification: its state, how it came about, and what comes next."""

from collections.abc import Mapping
from uuid import UUID

from functions.console.arguments import identifier, required
from functions.console.command import Command, Done, Equipment
from functions.core.declaration import names_of_keyed
from functions.core.errors import NotFound
from functions.core.explanation import explain
from functions.providers.choice import DECLARATIONS
from functions.store.dossier import read_dossier


def explain_notification(equipment: Equipment, *, id: UUID) -> Done:
    dossier = read_dossier(equipment.database, notification_id=id)
    if dossier is None:
        raise NotFound("There is no notification with this id.")
    return Done(
        result=explain(dossier, now=dossier.now, keyed_providers=names_of_keyed(DECLARATIONS))
    )


COMMANDS: Mapping[str, Command] = {
    "explain": Command(parameters={"id": required(identifier)}, run=explain_notification)
}
