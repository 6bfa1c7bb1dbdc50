"""Commands on organizations (tenants) and their API keys."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from functions.console.arguments import (
    PAGE,
    Wrong,
    identifier,
    list_of,
    one_of,
    required,
    text,
)
from functions.console.command import Command, Done, Equipment, counts_of, page_of
from functions.core.api_key import Scope
from functions.core.errors import NotFound
from functions.store import organization as store
from functions.store.action import Action
from functions.store.organization import Organization

NO_TENANT = "There is no tenant with this id or name. `sendoff tenant list` shows all."


def create_organization(equipment: Equipment, *, name: str, action: Action) -> Done:
    """Create an organization; the one of this name, where there is one, is told instead."""
    organization = store.create_organization(equipment.database, name=name, action=action)
    return Done(
        result={
            "action_id": action.id,
            "id": organization.id,
            "name": organization.name,
            "created_at": organization.created_at,
        }
    )


def list_organizations(equipment: Equipment, *, after: UUID | None, limit: int) -> Done:
    rows = store.list_organizations(equipment.database, after=after, limit=limit + 1)
    return page_of(rows, limit=limit)


def create_key(
    equipment: Equipment,
    *,
    organization: UUID | str,
    name: str,
    scopes: Sequence[Scope],
    action: Action,
) -> Done:
    """Create a key. Its text is in this answer and nowhere else, ever."""
    made = store.create_api_key(
        equipment.database,
        organization_id=organization_of(equipment, organization).id,
        name=name,
        scopes=scopes,
        action=action,
    )
    return Done(result={"action_id": action.id, "id": made.id, "key": made.key})


def list_keys(
    equipment: Equipment, *, organization: UUID | str, after: UUID | None, limit: int
) -> Done:
    rows = store.list_api_keys(
        equipment.database,
        organization_id=organization_of(equipment, organization).id,
        after=after,
        limit=limit + 1,
    )
    return page_of(rows, limit=limit)


def revoke_key(equipment: Equipment, *, id: UUID, action: Action) -> Done:
    fate = store.revoke_api_key(equipment.database, key_id=id, action=action)
    return Done(
        result={"action_id": action.id, "id": id, "fate": fate.fate}, counts=counts_of([fate])
    )


def organization_of(equipment: Equipment, named: UUID | str) -> Organization:
    """Return the organization by its id or its name; raise NotFound."""
    found = store.find_organization(
        equipment.database,
        id=named if isinstance(named, UUID) else None,
        name=named if isinstance(named, str) else None,
    )
    if found is None:
        raise NotFound(NO_TENANT)
    return found


def new_name(value: Any) -> str:
    """Read the name of an organization: no text that could be taken for an id."""
    name = text(value)
    if isinstance(id_or_name(name), UUID):
        raise Wrong("It is a name; this has the form of an id.")
    return name


def id_or_name(value: Any) -> UUID | str:
    """Read what tells an organization from the others; whatever has the form of an id is one."""
    try:
        return identifier(value)
    except Wrong:
        return text(value)


COMMANDS: Mapping[str, Command] = {
    "tenant.create": Command(
        parameters={"name": required(new_name)}, run=create_organization, audited=True
    ),
    "tenant.list": Command(parameters=PAGE, run=list_organizations),
    "keys.create": Command(
        parameters={
            "organization": required(id_or_name),
            "name": required(text),
            "scopes": required(list_of(one_of(Scope), most=len(Scope))),
        },
        run=create_key,
        audited=True,
    ),
    "keys.list": Command(parameters={"organization": required(id_or_name), **PAGE}, run=list_keys),
    "keys.revoke": Command(parameters={"id": required(identifier)}, run=revoke_key, audited=True),
}
