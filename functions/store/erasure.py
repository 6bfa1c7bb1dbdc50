"""What is being erased: opened with the first thing that goes, closed when nothing is left.

The record of a recipient is the first to go, so that nothing more is sent to them. From then on
only its erasure knows what else there is of them: whoever repeats the request, or the sweep, goes
on with it after a crash. A minute after its end it is gone through once more, for what was being
accepted when it began, and then forgotten.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core.errors import NotFound
from functions.core.spelling import spellings_of
from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What is to be erased.

    hashes      by which notifications are found: of a reference, and of addresses
    addresses   those of ``hashes`` that nobody else has: whatever names them is erased
    spellings   of these, as they may stand in free text of whomever
    own_spellings  of all that they had, as they may stand in what was theirs
    started_at  what was accepted later stays
    """

    organization_id: UUID
    key: str
    recipient_id: str | None
    """None: an address is erased, whoever has it, on ``channel``."""
    channel: str | None
    hashes: list[bytes]
    addresses: list[bytes]
    spellings: list[str]
    own_spellings: list[str]
    started_at: datetime
    is_finished: bool
    """It is only gone through once more."""


# What is left over of an earlier one is erased with it.
OPEN_ERASURE = """
    INSERT INTO erasures AS e (organization_id, key, recipient_id, channel, hashes, addresses,
                               spellings, own_spellings, started_at, continued_at)
    SELECT %(organization_id)s, %(key)s, %(recipient_id)s, %(channel)s, %(hashes)s::bytea[],
           %(addresses)s::bytea[], %(spellings)s::text[], %(own_spellings)s::text[], t.at, t.at
      FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
    ON CONFLICT (organization_id, key) DO UPDATE
       SET hashes = ARRAY(SELECT DISTINCT unnest(e.hashes || EXCLUDED.hashes)),
           addresses = ARRAY(SELECT DISTINCT unnest(e.addresses || EXCLUDED.addresses)),
           spellings = ARRAY(SELECT DISTINCT unnest(e.spellings || EXCLUDED.spellings)),
           own_spellings = ARRAY(SELECT DISTINCT unnest(e.own_spellings
                                                        || EXCLUDED.own_spellings)),
           started_at = EXCLUDED.started_at, continued_at = EXCLUDED.continued_at,
           finished_at = NULL,
           erased = CASE WHEN e.finished_at IS NULL THEN e.erased ELSE 0 END
    RETURNING organization_id, key, recipient_id, channel, hashes, addresses, spellings,
              own_spellings, started_at, finished_at IS NOT NULL AS is_finished
"""


def _open(connection: psycopg.Connection, parameters: dict[str, Any]) -> Erasure:
    with connection.cursor(row_factory=class_row(Erasure)) as cursor:
        (erasure,) = cursor.execute(OPEN_ERASURE, parameters).fetchall()
    return erasure


# Waits for whoever is accepting something for this recipient, and whoever writes the record.
LOCK_RECIPIENT = """
    SELECT FROM recipients
     WHERE organization_id = %(organization_id)s AND recipient_id = %(recipient_id)s
       FOR UPDATE
"""

# Also those that they had before. An address that another recipient has is theirs as well: it goes
# from what was sent to this one.
READ_ADDRESSES = """
    SELECT h.channel, h.address_hash, h.address,
           EXISTS (SELECT FROM contact_points other
                    WHERE other.organization_id = h.organization_id AND other.channel = h.channel
                      AND other.address_hash = h.address_hash
                      AND other.recipient_id <> h.recipient_id) AS is_shared
      FROM contact_hashes h
     WHERE h.organization_id = %(organization_id)s AND h.recipient_id = %(recipient_id)s
"""

# With contact points, hashes and preferences.
REMOVE_RECIPIENT = """
    DELETE FROM recipients
     WHERE organization_id = %(organization_id)s AND recipient_id = %(recipient_id)s
"""

FIND_ERASURE = """
    SELECT organization_id, key, recipient_id, channel, hashes, addresses, spellings,
           own_spellings, started_at, false AS is_finished
      FROM erasures
     WHERE organization_id = %(organization_id)s AND key = %(key)s AND finished_at IS NULL
"""


def open_for_recipient(
    database: Database,
    *,
    organization_id: UUID,
    recipient_id: str,
    reference_hash: bytes,
    now: datetime | None = None,
) -> Erasure:
    """Remove the record of a recipient and return what else is to be erased of them.

    Where the record is gone and its erasure was left unfinished, that one is returned; raises
    NotFound when there is neither.
    """
    parameters: dict[str, Any] = {
        "organization_id": organization_id,
        "key": f"id:{recipient_id}",
        "recipient_id": recipient_id,
        "channel": None,
        "now": now,
    }

    def work(connection: psycopg.Connection) -> Erasure:
        if connection.execute(LOCK_RECIPIENT, parameters).fetchone() is None:
            with connection.cursor(row_factory=class_row(Erasure)) as cursor:
                left = cursor.execute(FIND_ERASURE, parameters).fetchone()
            if left is None:
                raise NotFound
            return left
        rows = connection.execute(READ_ADDRESSES, parameters).fetchall()
        unshared = [row[:3] for row in rows if not row[3]]
        values = {
            "hashes": [reference_hash, *(hashed for _, hashed, *_ in rows)],
            "addresses": [hashed for _, hashed, _ in unshared],
            "spellings": _spellings(unshared, own=False),
            "own_spellings": _spellings([row[:3] for row in rows], own=True),
        }
        erasure = _open(connection, parameters | values)
        connection.execute(REMOVE_RECIPIENT, parameters)
        return erasure

    return database.run(work)


def _spellings(known: Sequence[tuple[str, bytes, str | None]], *, own: bool) -> list[str]:
    return [
        spelling
        for channel, _, address in known
        if address is not None
        for spelling in spellings_of(channel, address, own=own)
    ]


def open_for_address(
    database: Database,
    *,
    organization_id: UUID,
    channel: str,
    address: str,
    address_hash: bytes,
    now: datetime | None = None,
) -> Erasure:
    """Return what is to be erased of an address."""
    parameters: dict[str, Any] = {
        "organization_id": organization_id,
        "key": f"{channel}:{address_hash.hex()}",
        "recipient_id": None,
        "channel": channel,
        "hashes": [address_hash],
        "addresses": [address_hash],
        "spellings": spellings_of(channel, address),
        "own_spellings": spellings_of(channel, address, own=True),
        "now": now,
    }
    return database.run(lambda connection: _open(connection, parameters))


IS_BEING_ERASED = """
    SELECT EXISTS (SELECT FROM erasures
                    WHERE organization_id = %(organization_id)s AND finished_at IS NULL
                      AND key = concat('id:', %(recipient_id)s::text))
"""


def is_being_erased(
    connection: psycopg.Connection, *, organization_id: UUID, recipient_id: str
) -> bool:
    """Whether something is left of whom this reference stood for before."""
    parameters = {"organization_id": organization_id, "recipient_id": recipient_id}
    row = connection.execute(IS_BEING_ERASED, parameters).fetchone()
    return row is not None and row[0]


COUNT_ERASED = """
    UPDATE erasures
       SET erased = erased + %(number)s, continued_at = coalesce(%(now)s, clock_timestamp())
     WHERE organization_id = %(organization_id)s AND key = %(key)s AND finished_at IS NULL
"""


def count_erased(
    connection: psycopg.Connection, erasure: Erasure, number: int, *, now: datetime | None
) -> None:
    """Remember how many notifications were erased, and that somebody is at it."""
    connection.execute(COUNT_ERASED, {**_named(erasure), "number": number, "now": now})


# One that was opened anew in the meantime is somebody else's to finish.
FINISH_ERASURE = """
    UPDATE erasures
       SET finished_at = t.at, continued_at = t.at, spellings = '{}',
           own_spellings = '{}'
      FROM (SELECT coalesce(%(now)s, clock_timestamp()) AS at) t
     WHERE organization_id = %(organization_id)s AND key = %(key)s AND started_at = %(started_at)s
       AND finished_at IS NULL
    RETURNING erased
"""

FORGET_ERASURE = """
    DELETE FROM erasures
     WHERE organization_id = %(organization_id)s AND key = %(key)s AND started_at = %(started_at)s
       AND finished_at IS NOT NULL AND continued_at > finished_at
"""


def finish_erasure(
    connection: psycopg.Connection, erasure: Erasure, *, now: datetime | None
) -> int:
    """Say that nothing is left, as part of the transaction that erases the last of it; return how
    many notifications were erased, 0 when somebody else has told it or will.

    What was gone through once more is forgotten.
    """
    parameters = {**_named(erasure), "now": now}
    row = connection.execute(FINISH_ERASURE, parameters).fetchone()
    if row is None:
        connection.execute(FORGET_ERASURE, parameters)
    return row[0] if row else 0


def _named(erasure: Erasure) -> dict[str, Any]:
    return {
        "organization_id": erasure.organization_id,
        "key": erasure.key,
        "started_at": erasure.started_at,
    }


LEFT_SECONDS = 60.0
"""Nobody has gone on with an erasure for so long: nobody is at it. And whatever was being accepted
when it began has been, or never will be."""

# Told as taken, so that two sweeps go on with different ones.
TAKE_LEFT = """
    UPDATE erasures
       SET continued_at = coalesce(%(now)s, clock_timestamp())
     WHERE (organization_id, key) IN (
           SELECT organization_id, key
             FROM erasures
            WHERE continued_at <= coalesce(%(now)s, clock_timestamp())
                                  - %(left_seconds)s * interval '1 second'
            ORDER BY continued_at
            LIMIT 1
              FOR UPDATE SKIP LOCKED)
    RETURNING organization_id, key, recipient_id, channel, hashes, addresses, spellings,
              own_spellings, started_at, finished_at IS NOT NULL AS is_finished
"""


def take_left(database: Database, *, now: datetime | None = None) -> Sequence[Erasure]:
    """Return an erasure that was left unfinished, or is to be gone through once more."""
    parameters = {"left_seconds": LEFT_SECONDS, "now": now}

    def work(connection: psycopg.Connection) -> list[Erasure]:
        with connection.cursor(row_factory=class_row(Erasure)) as cursor:
            return cursor.execute(TAKE_LEFT, parameters).fetchall()

    return database.run(work)
