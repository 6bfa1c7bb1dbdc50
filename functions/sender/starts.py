"""Starts on notifications whose last handler may have failed: counted when they begin, taken back
when they end.

One that ended while the database was away is owed, and told at the next chance: an outage is no
crash loop.
"""

from collections.abc import Sequence
from uuid import UUID

from functions.core.errors import Unavailable
from functions.store.connection import Database
from functions.store.delivery import finish_starts, record_starts


def begin_starts(database: Database, ids: Sequence[UUID], started: list[UUID]) -> set[UUID]:
    """Count a start on each of ``ids``, and add to ``started`` what is to be taken back; return
    those that are held as a crash loop now.

    One that may have been counted is taken back too: rather one too many is tried than held.
    """
    ids = list(dict.fromkeys(ids))  # the same message may stand twice in a batch
    try:
        looping = record_starts(database, ids)
    except Unavailable as error:
        if error.maybe_done:
            started.extend(ids)
        raise
    started.extend(id for id in ids if id not in looping)
    return looping


def end_starts(database: Database, ended: list[UUID]) -> None:
    """Take back the starts in ``ended`` and empty it; while the database is away they stay."""
    ids = list(ended)
    ended.clear()
    try:
        if ids:
            finish_starts(database, ids)
    except Unavailable:
        ended.extend(ids)
