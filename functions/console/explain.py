"""The command that explains one notification: its state, how it came about, and what comes next."""

from collections.abc import Mapping
from uuid import UUID

from functions.console.arguments import identifier, required
from functions.console.command import Command, Done, Equipment
from functions.core.declaration import names_of_keyed
from functions.core.errors import NotFound
from functions.core.explanation import explain
from functions.providers.choice import DECLARATIONS
from functions.store.decided import find_request
from functions.store.dossier import read_dossier

UNKNOWN = "There is no notification with this id."
NOT_TAKEN_IN = (
    "There is no notification with this id yet: it was asked for in a transaction of the database, "
    "and waits to be taken in. That takes a second, unless the claim or ingest stands still."
)


def explain_notification(equipment: Equipment, *, id: UUID) -> Done:
    """Explain a notification; where its request only repeats an event, the one that was first."""
    shown = id
    dossier = read_dossier(equipment.database, notification_id=id)
    if dossier is None:
        shown = first_of(equipment, id)
        dossier = read_dossier(equipment.database, notification_id=shown)
    if dossier is None:
        raise NotFound(UNKNOWN)
    told = explain(dossier, now=dossier.now, keyed_providers=names_of_keyed(DECLARATIONS))
    return Done(result={**told, "asked": id, "repeats": None if shown == id else shown})


def first_of(equipment: Equipment, id: UUID) -> UUID:
    """Return the notification whose event the request ``id`` repeats; raise NotFound."""
    request = find_request(equipment.database, id=id)
    if request is not None and request.is_waiting:
        raise NotFound(NOT_TAKEN_IN)
    if request is None or request.repeats is None:
        raise NotFound(UNKNOWN)
    return request.repeats


COMMANDS: Mapping[str, Command] = {
    "explain": Command(parameters={"id": required(identifier)}, run=explain_notification)
}
