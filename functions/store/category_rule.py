"""What organizations declare of their categories: shown to operators, changed by them, and audited.

Changing needs the operators' role. A change is checked against the locked organization as it would
become, and gives the category a version that no rule ever had: a stored verdict names the one it
was decided by.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime, time
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core.errors import NotFound
from functions.store.action import Action, record_action, result_of
from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryRule:
    """What may be declared of a category; the window is local to the recipient, or there is none.

    Without a declaration it is bulk, and has neither rule nor window; only ``transactional`` is
    transactional by itself.
    """

    transactional: bool
    mandatory: bool
    high_bypasses_quiet_hours: bool
    window_start: time | None
    window_end: time | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredCategory(CategoryRule):
    """A category that is not, or was not always, as every other; ``version`` and ``updated_at``
    are None where nothing but the list of transactional ones names it."""

    category: str
    version: int | None
    updated_at: datetime | None


UNDECLARED = "transactional"
"""The category that is transactional without a declaration."""

LIST_CATEGORIES = """
    SELECT c.category, c.category = ANY(o.transactional_categories) AS transactional,
           coalesce(r.mandatory, false) AS mandatory,
           coalesce(r.high_bypasses_quiet_hours, false) AS high_bypasses_quiet_hours,
           r.window_start, r.window_end, r.version, r.updated_at
      FROM organizations o
     CROSS JOIN LATERAL (
           SELECT unnest(o.transactional_categories) AS category
           UNION
           SELECT category FROM category_rules WHERE organization_id = o.id) c
      LEFT JOIN category_rules r ON r.organization_id = o.id AND r.category = c.category
     WHERE o.id = %(organization_id)s
     ORDER BY c.category COLLATE "C"
"""


def list_categories(database: Database, *, organization_id: UUID) -> list[DeclaredCategory]:
    """Return every category that the organization has declared, by name."""

    def read(connection: psycopg.Connection) -> list[DeclaredCategory]:
        with connection.cursor(row_factory=class_row(DeclaredCategory)) as cursor:
            return cursor.execute(LIST_CATEGORIES, {"organization_id": organization_id}).fetchall()

    return database.run(read)


# Whoever declares anything of the organization comes one after the other. What only refers to the
# organization does not wait.
LOCK_ORGANIZATION = """
    SELECT id
      FROM organizations
     WHERE id = %(organization_id)s
       FOR NO KEY UPDATE
"""

# After the lock: the statement that waited for it would see the rules of before.
READ_CATEGORY = """
    SELECT %(category)s = ANY(o.transactional_categories) AS transactional,
           coalesce(r.mandatory, false) AS mandatory,
           coalesce(r.high_bypasses_quiet_hours, false) AS high_bypasses_quiet_hours,
           r.window_start, r.window_end
      FROM organizations o
      LEFT JOIN category_rules r ON r.organization_id = o.id AND r.category = %(category)s
     WHERE o.id = %(organization_id)s
"""

DECLARE = """
    UPDATE organizations
       SET transactional_categories =
               array_remove(transactional_categories, %(category)s)
               || CASE WHEN %(transactional)s THEN ARRAY[%(category)s] ELSE '{}'::text[] END
     WHERE id = %(organization_id)s
"""

WRITE_RULE = """
    INSERT INTO category_rules
           (organization_id, category, mandatory, high_bypasses_quiet_hours, window_start,
            window_end)
    VALUES (%(organization_id)s, %(category)s, %(mandatory)s, %(high_bypasses_quiet_hours)s,
            %(window_start)s, %(window_end)s)
    ON CONFLICT (organization_id, category) DO UPDATE
       SET version = nextval('policy_versions'), mandatory = EXCLUDED.mandatory,
           high_bypasses_quiet_hours = EXCLUDED.high_bypasses_quiet_hours,
           window_start = EXCLUDED.window_start, window_end = EXCLUDED.window_end,
           updated_at = clock_timestamp()
"""

REMOVE_RULE = """
    DELETE FROM category_rules
     WHERE organization_id = %(organization_id)s AND category = %(category)s
"""

Changed = dict[str, Any]
"""By name what it was and what it is now; only what changed."""


def declare_category(
    database: Database,
    *,
    organization_id: UUID,
    category: str,
    change: Callable[[CategoryRule], CategoryRule],
    action: Action,
) -> Changed:
    """Store what ``change`` makes of the category; return what that changed.

    ``change`` may refuse by raising, and then nothing is stored. Raises NotFound.
    """
    key = {"organization_id": organization_id, "category": category}

    def work(connection: psycopg.Connection) -> Changed:
        if (done := result_of(connection, action)) is not None:
            return done["changed"]
        before = _locked(connection, key)
        after = change(before)
        changed = _difference(before, after)
        if changed:
            values = {**key, **_columns_of(after)}
            connection.execute(DECLARE, values)
            connection.execute(WRITE_RULE, values)
        record_action(connection, action, result={"changed": changed})
        return changed

    return database.run(work)


def undeclare_category(
    database: Database, *, organization_id: UUID, category: str, action: Action
) -> Changed:
    """Let the category be as if nothing had been declared of it; return what that changed.

    Raises NotFound.
    """
    key = {"organization_id": organization_id, "category": category}
    nothing = CategoryRule(
        transactional=category == UNDECLARED,
        mandatory=False,
        high_bypasses_quiet_hours=False,
        window_start=None,
        window_end=None,
    )

    def work(connection: psycopg.Connection) -> Changed:
        if (done := result_of(connection, action)) is not None:
            return done["changed"]
        changed = _difference(_locked(connection, key), nothing)
        connection.execute(DECLARE, {**key, **_columns_of(nothing)})
        connection.execute(REMOVE_RULE, key)
        record_action(connection, action, result={"changed": changed})
        return changed

    return database.run(work)


def _locked(connection: psycopg.Connection, key: dict[str, Any]) -> CategoryRule:
    """Return the category as it is, with its organization locked; raise NotFound."""
    if connection.execute(LOCK_ORGANIZATION, key).fetchone() is None:
        raise NotFound("There is no such organization.")
    with connection.cursor(row_factory=class_row(CategoryRule)) as cursor:
        (rule,) = cursor.execute(READ_CATEGORY, key).fetchall()
        return rule


def _columns_of(rule: CategoryRule) -> dict[str, Any]:
    return {field.name: getattr(rule, field.name) for field in fields(CategoryRule)}


def _difference(before: CategoryRule, after: CategoryRule) -> Changed:
    was, now = _told(before), _told(after)
    return {name: {"was": was[name], "is": now[name]} for name in was if was[name] != now[name]}


def _told(rule: CategoryRule) -> dict[str, Any]:
    """Return a rule as people name it."""
    return {
        "transactional": rule.transactional,
        "mandatory": rule.mandatory,
        "high_bypasses_quiet_hours": rule.high_bypasses_quiet_hours,
        "window": window_of(rule),
    }


def window_of(rule: CategoryRule) -> str | None:
    """Return the send window as it is written; None when there is none."""
    if rule.window_start is None or rule.window_end is None:
        return None
    return f"{rule.window_start:%H:%M}-{rule.window_end:%H:%M}"
