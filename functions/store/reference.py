"""What items refer to: which recipients there are, and which version a template has now."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

import psycopg
from psycopg.rows import scalar_row

from functions.core.errors import Fault
from functions.store.connection import Database
from functions.store.template import Pinned, Wanted, read_pinned


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """What there is of what was asked for; whatever is missing there is not."""

    recipients: Collection[str]
    templates: Mapping[Wanted, Pinned]
    names: Collection[str]
    """Of the templates that there are, whether or not in the version that was asked for."""


# Held until the transaction ends: whoever erases one waits for what is being accepted for it.
HOLD_RECIPIENTS = """
    SELECT recipient_id
      FROM recipients
     WHERE organization_id = %(organization_id)s
       AND recipient_id = ANY(%(recipient_ids)b::text[])
     ORDER BY recipient_id
       FOR KEY SHARE
"""


def hold_recipients(
    connection: psycopg.Connection, recipient_ids: Collection[str], *, organization_id: UUID
) -> frozenset[str]:
    """Return which of the recipients there are; none of them is erased before the caller's
    transaction ends."""
    if not recipient_ids:
        return frozenset()
    parameters = {"organization_id": organization_id, "recipient_ids": list(recipient_ids)}
    with connection.cursor(row_factory=scalar_row) as cursor:
        return frozenset(cursor.execute(HOLD_RECIPIENTS, parameters).fetchall())


FIND_NAMES = """
    SELECT name
      FROM templates
     WHERE organization_id = %(organization_id)s
       AND name = ANY(%(names)b::text[])
"""


def unknown_recipient(pointer: str = "") -> Fault:
    """Return the fault of the item at ``pointer``."""
    return Fault(f"{pointer}/recipient_id", "unknown_recipient", "There is no such recipient.")


def read_references(
    database: Database,
    *,
    organization_id: UUID,
    recipient_ids: Collection[str],
    templates: Collection[Wanted],
) -> References:
    """Return which of the recipients and of the templates there are, those read at once."""

    def work(connection: psycopg.Connection) -> References:
        recipients = hold_recipients(connection, recipient_ids, organization_id=organization_id)
        pinned: Mapping[Wanted, Pinned] = {}
        if templates:
            pinned = read_pinned(connection, organization_id=organization_id, wanted=templates)
        names = {name for name, _ in pinned}
        if missing := [name for name, _ in templates if name not in names]:
            parameters = {"organization_id": organization_id, "names": missing}
            with connection.cursor(row_factory=scalar_row) as cursor:
                names |= set(cursor.execute(FIND_NAMES, parameters).fetchall())
        return References(recipients=recipients, templates=pinned, names=names)

    return database.run(work)
