"""Which of its signing secrets an organization is at (core/webhook_key.py), and the next.

The secrets themselves are derived and stored nowhere. Going on needs the operators' role; under an
``action`` it may be repeated after an unknown COMMIT.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core.errors import NotFound
from functions.core.webhook_key import OVERLAP
from functions.store.action import Action, record_action, result_of
from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookKey:
    """The number of an organization's current secret, and since when it has it; None: ever."""

    number: int
    rotated_at: datetime | None


READ_WEBHOOK_KEY = """
    SELECT webhook_key_number AS number, webhook_key_rotated_at AS rotated_at
      FROM organizations
     WHERE id = %(id)s
"""


def _read(connection: psycopg.Connection, id: UUID) -> WebhookKey | None:
    with connection.cursor(row_factory=class_row(WebhookKey)) as cursor:
        return cursor.execute(READ_WEBHOOK_KEY, {"id": id}).fetchone()


def read_webhook_key(database: Database, *, id: UUID, action: Action | None = None) -> WebhookKey:
    """Return the organization's; one that is not known is at its first secret.

    Under an ``action`` it is kept that somebody looked, and at which.
    """

    def read(connection: psycopg.Connection) -> WebhookKey:
        key = _read(connection, id) or WebhookKey(number=1, rotated_at=None)
        if action is not None:
            record_action(connection, action, result={"number": key.number})
        return key

    return database.run(read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """``key`` is where the organization is now; ``done`` is whether it went on to get there."""

    key: WebhookKey
    done: bool


# The overlap is looked at in the row that is locked: of two at once the second one sees the first.
ROTATE_WEBHOOK_KEY = """
    UPDATE organizations
       SET webhook_key_number = webhook_key_number + 1,
           webhook_key_rotated_at = coalesce(%(now)s, clock_timestamp())
     WHERE id = %(id)s
       AND (%(at_once)s
            OR webhook_key_rotated_at IS NULL
            OR webhook_key_rotated_at + %(overlap)s <= coalesce(%(now)s, clock_timestamp()))
    RETURNING webhook_key_number AS number, webhook_key_rotated_at AS rotated_at
"""


def rotate_webhook_key(
    database: Database,
    *,
    id: UUID,
    action: Action,
    at_once: bool = False,
    now: datetime | None = None,
) -> Rotation:
    """Go on to the organization's next signing secret; raise NotFound.

    The one before signs too for the overlap of core/webhook_key.py. Within that nothing is done,
    unless ``at_once``: then the one before it signs no more.
    """
    parameters = {"id": id, "at_once": at_once, "overlap": OVERLAP, "now": now}

    def rotate(connection: psycopg.Connection) -> Rotation:
        done = result_of(connection, action) is not None
        if not done:
            with connection.cursor(row_factory=class_row(WebhookKey)) as cursor:
                rotated = cursor.execute(ROTATE_WEBHOOK_KEY, parameters).fetchone()
            if rotated is not None:
                record_action(connection, action, result={"number": rotated.number}, now=now)
                return Rotation(key=rotated, done=True)
        found = _read(connection, id)
        if found is None:
            raise NotFound("There is no such organization.")
        return Rotation(key=found, done=done)

    return database.run(rotate)
