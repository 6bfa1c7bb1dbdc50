"""Commands on what an organization declares of its categories: whether somebody waits for them, and
whether and when they may be sent.

What is impossible is refused by name: first each value by itself, then all of them together, as
they would be.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import time
from typing import Any
from uuid import UUID

from functions.console.arguments import Wrong, flag, optional, required
from functions.console.command import Command, Done, Equipment
from functions.console.tenants import id_or_name, organization_of
from functions.console.tuning import settings_of
from functions.core.errors import RequestRefused
from functions.core.states import CATEGORY
from functions.store import category_rule as store
from functions.store.action import Action
from functions.store.category_rule import CategoryRule, DeclaredCategory, window_of

NO_WINDOW = "none"

_WINDOW = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)

Window = tuple[time | None, time | None]


def list_categories(equipment: Equipment, *, organization: UUID | str) -> Done:
    """Return every category of which something is declared, and what."""
    id = organization_of(equipment, organization).id
    rows = store.list_categories(equipment.database, organization_id=id)
    return Done(
        result={"organization_id": id, "data": [_shown(one) for one in rows]},
        counts={"listed": len(rows)},
    )


def _shown(one: DeclaredCategory) -> dict[str, Any]:
    return {
        "category": one.category,
        "transactional": one.transactional,
        "mandatory": one.mandatory,
        "high_bypasses_quiet_hours": one.high_bypasses_quiet_hours,
        "window": window_of(one),
        "version": one.version,
        "updated_at": one.updated_at,
    }


def set_category(
    equipment: Equipment,
    *,
    organization: UUID | str,
    category: str,
    settings: Mapping[str, Any],
    action: Action,
) -> Done:
    """Declare what is named; what is not stays as it is."""
    if not settings:
        raise RequestRefused("There is nothing to change.")
    changes = dict(settings)
    if "window" in changes:
        changes["window_start"], changes["window_end"] = changes.pop("window")

    def change(before: CategoryRule) -> CategoryRule:
        after = replace(before, **changes)
        _check(after, category=category)
        return after

    id = organization_of(equipment, organization).id
    changed = store.declare_category(
        equipment.database, organization_id=id, category=category, change=change, action=action
    )
    return _done(action, changed, organization_id=id, category=category)


def unset_category(
    equipment: Equipment, *, organization: UUID | str, category: str, action: Action
) -> Done:
    """Let a category be as if nothing had been declared of it."""
    id = organization_of(equipment, organization).id
    changed = store.undeclare_category(
        equipment.database, organization_id=id, category=category, action=action
    )
    return _done(action, changed, organization_id=id, category=category)


def _check(rule: CategoryRule, *, category: str) -> None:
    """Raise RequestRefused where the values, each of them possible, do not go together."""
    if rule.transactional:
        return
    for name, is_so in (
        ("mandatory", rule.mandatory),
        ("high_bypasses_quiet_hours", rule.high_bypasses_quiet_hours),
    ):
        if is_so:
            raise RequestRefused(
                f"{name}: Only a transactional category can be so, and {category} would be bulk. "
                "Say that it is transactional, or that it is not so any more."
            )


def _done(action: Action, changed: Mapping[str, Any], **about: Any) -> Done:
    return Done(
        result={"action_id": action.id, **about, "changed": changed},
        counts={"changed": len(changed)},
    )


def category_name(value: Any) -> str:
    if not isinstance(value, str) or re.fullmatch(CATEGORY, value) is None:
        raise Wrong("It is a category: 1 to 64 of a-z, 0-9, _ and -.")
    return value


def window(value: Any) -> Window:
    """Read a send window, from its first minute to before its last; or that there is none."""
    if value == NO_WINDOW:
        return None, None
    found = _WINDOW.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise Wrong(
            "It is a window like 08:00-20:00, from 00:00 to 23:59, or none. One that ends at "
            "midnight ends at 00:00; one that begins in the evening goes on after midnight."
        )
    hours = [int(part) for part in found.groups()]
    start, end = time(hours[0], hours[1]), time(hours[2], hours[3])
    if start == end:
        raise Wrong("It begins and ends at one time, so it is no window; none is no limit.")
    return start, end


_OF = {"organization": required(id_or_name)}
_NAMED = {**_OF, "category": required(category_name)}

COMMANDS: Mapping[str, Command] = {
    "category.list": Command(parameters=_OF, run=list_categories),
    "category.set": Command(
        parameters={
            **_NAMED,
            "settings": optional(
                settings_of(
                    {
                        "transactional": flag,
                        "mandatory": flag,
                        "high_bypasses_quiet_hours": flag,
                        "window": window,
                    }
                ),
                {},
            ),
        },
        run=set_category,
        audited=True,
    ),
    "category.unset": Command(parameters=_NAMED, run=unset_category, audited=True),
}
