"""Whether an organization's usual mix of SMS is known, for those who look: nothing is locked."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg

from functions.core.abuse import hour_of
from functions.core.usual import Slice, has_usual
from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """``messages`` were let out since ``first_at``, those of the last 24 hours left out; until the
    mix ``is_known`` nothing is unlike it."""

    is_known: bool
    first_at: datetime | None
    messages: int


READ_USUAL = """
    SELECT coalesce(%(now)s, clock_timestamp()),
           (SELECT first_at FROM sms_guards WHERE organization_id = %(organization_id)s),
           coalesce((SELECT jsonb_object_agg(key, jsonb_build_array(hour, hours, total))
                       FROM sms_slices
                      WHERE organization_id = %(organization_id)s AND kind = 'country'), '{}')
"""


def read_usual(database: Database, *, organization_id: UUID, now: datetime | None = None) -> Usual:
    """Return how much there is to compare an organization's SMS with."""
    parameters = {"organization_id": organization_id, "now": now}

    def read(connection: psycopg.Connection) -> Usual:
        ((at, first_at, found),) = connection.execute(READ_USUAL, parameters).fetchall()
        countries = {
            key: Slice(hour=hour, hours=tuple(hours), total=total).at(hour_of(at))
            for key, (hour, hours, total) in found.items()
        }
        return Usual(
            is_known=has_usual(countries, first_at=first_at, now=at),
            first_at=first_at,
            messages=sum(one.total - one.today for one in countries.values()),
        )

    return database.run(read)
