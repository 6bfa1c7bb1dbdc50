"""Erase a recipient or an address: nothing is left that names it, and all that counts stays.

First goes what would be sent to; then notification by notification, in transactions of some hundred
rows each, what was sent or waits; at last what names the address and no notification. Each step may
be done again, so a crash or a slow database costs a repetition and nothing else. Keyed hashes stay:
a late report still finds its notification, and a suppression goes on suppressing.
"""

import re
import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import scalar_row

from functions.core.errors import Unavailable
from functions.store.connection import Database
from functions.store.erase_notifications import erase_notifications, erase_traces
from functions.store.erasure import (
    Erasure,
    count_erased,
    finish_erasure,
    open_for_address,
    open_for_recipient,
    take_left,
)
from functions.store.request import erase_waiting, forget_invalid_items

PAGE = 20_000
AT_ONCE = 200
"""With a parent and three more candidates each, a transaction has at most a thousand rows."""


def erase_recipient(
    database: Database,
    *,
    organization_id: UUID,
    recipient_id: str,
    reference_hash: bytes,
    ends_at: float,
    now: datetime | None = None,
) -> int:
    """Erase a recipient by reference and what was meant for them; return how many notifications.

    What was sent to a literal address that is theirs alone is erased too. Raises NotFound, and
    Unavailable when ``ends_at`` (of the monotonic clock) is reached: a repetition goes on.
    """
    erasure = open_for_recipient(
        database,
        organization_id=organization_id,
        recipient_id=recipient_id,
        reference_hash=reference_hash,
        now=now,
    )
    return _erase(database, erasure, ends_at=ends_at, now=now)


def erase_address(
    database: Database,
    *,
    organization_id: UUID,
    channel: str,
    address: str,
    address_hash: bytes,
    ends_at: float,
    now: datetime | None = None,
) -> int:
    """Erase a normalised address and what was sent there; return how many notifications.

    It is taken from the recipients who have it. Raises Unavailable as ``erase_recipient`` does.
    """
    erasure = open_for_address(
        database,
        organization_id=organization_id,
        channel=channel,
        address=address,
        address_hash=address_hash,
        now=now,
    )
    return _erase(database, erasure, ends_at=ends_at, now=now)


def continue_erasures(database: Database, *, ends_at: float, now: datetime | None = None) -> int:
    """Go on with what a crash or a lack of time left unfinished, and once more through what was
    finished a minute ago; return how many were."""
    finished = 0
    while time.monotonic() < ends_at and (left := take_left(database, now=now)):
        for erasure in left:
            try:
                _erase(database, erasure, ends_at=ends_at, now=now)
            except _OutOfTime:
                return finished
            finished += 1
    return finished


class _OutOfTime(Unavailable):
    """Not everything is erased yet. Repeat the request to go on."""


def _erase(database: Database, erasure: Erasure, *, ends_at: float, now: datetime | None) -> int:
    _remove_contact_points(database, erasure, ends_at, now)
    found = False
    while page := database.run(lambda connection: _find(connection, erasure)):
        found = True
        for first in range(0, len(page), AT_ONCE):
            _check_time(ends_at)
            some = page[first : first + AT_ONCE]
            database.run(partial(_erase_some, erasure=erasure, ids=some, now=now))
    while erasure.channel is not None and erase_traces(database, erasure, limit=AT_ONCE):
        _check_time(ends_at)
    names_more = found or not erasure.is_finished
    return database.run(partial(_finish, erasure=erasure, names_more=names_more, now=now))


def _check_time(ends_at: float) -> None:
    if time.monotonic() >= ends_at:
        raise _OutOfTime


# Recipients are locked before what is theirs changes, like by whoever writes a document. A document
# that came after the erasure began is meant as it is.
LOCK_HOLDERS = """
    SELECT recipient_id
      FROM recipients
     WHERE organization_id = %(organization_id)s AND updated_at <= %(started_at)s
       AND recipient_id = ANY(ARRAY(
               SELECT c.recipient_id
                 FROM contact_points c
                 JOIN recipients r USING (organization_id, recipient_id)
                WHERE c.organization_id = %(organization_id)s AND c.channel = %(channel)s
                  AND c.address_hash = ANY(%(addresses)b::bytea[])
                  AND r.updated_at <= %(started_at)s
                LIMIT %(limit)s))
     ORDER BY recipient_id
       FOR UPDATE
"""

# Another version: what was leased to go there is decided anew.
REMOVE_FROM_HOLDERS = """
    WITH removed AS (
        DELETE FROM contact_points
         WHERE organization_id = %(organization_id)s AND recipient_id = ANY(%(holders)b::text[])
           AND channel = %(channel)s AND address_hash = ANY(%(addresses)b::bytea[])
        RETURNING recipient_id
    )
    UPDATE recipients
       SET version = nextval('policy_versions'),
           updated_at = coalesce(%(now)s, clock_timestamp())
     WHERE organization_id = %(organization_id)s
       AND recipient_id = ANY(ARRAY(SELECT recipient_id FROM removed))
"""

# The hash stays: by it their notifications are found.
FORGET_FORMER = """
    UPDATE contact_hashes h
       SET address = NULL
     WHERE organization_id = %(organization_id)s AND channel = %(channel)s
       AND address_hash = ANY(%(addresses)b::bytea[]) AND address IS NOT NULL
       AND NOT EXISTS (SELECT FROM contact_points p
                        WHERE p.organization_id = h.organization_id
                          AND p.recipient_id = h.recipient_id
                          AND p.channel = h.channel AND p.address_hash = h.address_hash)
"""


def _remove_contact_points(
    database: Database, erasure: Erasure, ends_at: float, now: datetime | None
) -> None:
    """Take an erased address from the recipients who have it, or had it."""
    parameters = {
        "organization_id": erasure.organization_id,
        "channel": erasure.channel,
        "addresses": erasure.addresses,
        "started_at": erasure.started_at,
        "limit": AT_ONCE,
        "now": now,
    }

    def work(connection: psycopg.Connection) -> bool:
        with connection.cursor(row_factory=scalar_row) as cursor:
            holders = cursor.execute(LOCK_HOLDERS, parameters).fetchall()
        if holders:
            connection.execute(REMOVE_FROM_HOLDERS, {**parameters, "holders": holders})
        return bool(holders)

    while erasure.channel is not None and database.run(work):
        _check_time(ends_at)
    if erasure.channel is not None:
        database.run(lambda connection: connection.execute(FORGET_FORMER, parameters))


# A recipient's own are found by their reference and by every address they ever had; those by a
# literal address only where nobody else has it. What was accepted after the erasure began stays;
# a candidate is as old as its parent.
FIND = """
    SELECT n.id
      FROM notifications n
      LEFT JOIN notifications p ON p.id = n.parent_id
     WHERE n.organization_id = %(organization_id)s
       AND coalesce(n.contact_hash, n.recipient_hash) = ANY(%(hashes)b::bytea[])
       AND n.erased_at IS NULL
       AND coalesce(p.created_at, n.created_at) <= %(started_at)s
       AND (n.recipient_id = %(recipient_id)s
            OR coalesce(n.contact_hash, n.recipient_hash) = ANY(%(addresses)b::bytea[])
               AND (%(recipient_id)s::text IS NULL OR n.recipient_id IS NULL))
     LIMIT %(limit)s
"""


def _find(connection: psycopg.Connection, erasure: Erasure) -> list[UUID]:
    """Return a page of what is left, by id."""
    parameters = {
        "organization_id": erasure.organization_id,
        "recipient_id": erasure.recipient_id,
        "hashes": erasure.hashes,
        "addresses": erasure.addresses,
        "started_at": erasure.started_at,
        "limit": PAGE,
    }
    with connection.cursor(row_factory=scalar_row) as cursor:
        return sorted(cursor.execute(FIND, parameters, prepare=False).fetchall())


def _erase_some(
    connection: psycopg.Connection, *, erasure: Erasure, ids: Sequence[UUID], now: datetime | None
) -> None:
    erased = erase_notifications(connection, ids, spellings=erasure.own_spellings, now=now)
    count_erased(connection, erasure, erased, now=now)


# A request that was not valid is a notification to nobody, but has its reference.
FIND_INVALID = """
    SELECT id
      FROM notifications
     WHERE organization_id = %(organization_id)s
       AND coalesce(contact_hash, recipient_hash) = decode(repeat('00', 32), 'hex')
       AND erased_at IS NULL AND is_named(reference, %(spellings)b::text[])
     LIMIT %(limit)s
"""

ERASE_FACTS = """
    SELECT erase_facts(%(organization_id)s, %(addresses)b::bytea[], %(own_spellings)b::text[])
"""

ERASE_ORPHANS = "SELECT erase_orphans(%(addresses)b::bytea[], %(unmistakable)b::text[])"

ERASE_NOTES = """
    SELECT erase_notes(%(organization_id)s, s.spelling)
      FROM unnest(%(spellings)b::text[]) AS s (spelling)
"""

# Keys are digests; one in clear is of before they were. It goes on being recognised.
DIGEST_KEYS = """
    UPDATE idempotency_keys
       SET key = as_digest(key)
     WHERE organization_id = %(organization_id)s AND NOT starts_with(key, 'sha256:')
       AND is_spelt(key, %(own_spellings)b::text[])
"""


def _finish(
    connection: psycopg.Connection, *, erasure: Erasure, names_more: bool, now: datetime | None
) -> int:
    """Erase what names the address and is about no notification, where there may be more of that;
    return how many notifications were erased in all."""
    parameters: dict[str, Any] = {
        "organization_id": erasure.organization_id,
        "addresses": erasure.addresses,
        "spellings": erasure.spellings,
        "own_spellings": erasure.own_spellings,
        "unmistakable": [one for one in erasure.spellings if _UNMISTAKABLE.search(one)],
        "limit": PAGE,
    }
    # First: whoever settles requests holds them before notifications as well.
    erase_waiting(
        connection,
        organization_id=erasure.organization_id,
        recipient_id=erasure.recipient_id,
        channel=erasure.channel,
        spellings=erasure.spellings,
        started_at=erasure.started_at,
        now=now,
    )
    if names_more:
        with connection.cursor(row_factory=scalar_row) as cursor:
            invalid = cursor.execute(FIND_INVALID, parameters).fetchall()
        erase_notifications(connection, invalid, spellings=erasure.spellings, now=now)
        connection.execute(ERASE_ORPHANS, parameters)
        connection.execute(ERASE_FACTS, parameters)
        connection.execute(ERASE_NOTES, parameters)
        connection.execute(DIGEST_KEYS, parameters)
        forget_invalid_items(
            connection, organization_id=erasure.organization_id, spellings=erasure.spellings
        )
    return finish_erasure(connection, erasure, now=now)


_UNMISTAKABLE = re.compile(r"@|%40|\A[0-9]+\Z|\A[a-z0-9_:-]{32,}\Z")
"""What is no organization's own is searched for these alone: a token may be any text, and so a way
to erase what others left there."""
