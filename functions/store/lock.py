"""The lock that every writer of a set of notifications takes first, in id order.

Its own statement: the next one has a snapshot younger than the locks. In one statement READ
COMMITTED would re-check only the locked row after a wait and keep the old snapshot for all the rest
(a suppression committed meanwhile would be missed). Order: notifications by id, then attempts and
receipts by key, then suppressions, then channels. Claim and sweep skip locked rows and never wait.
"""

from collections.abc import Sequence
from uuid import UUID

import psycopg

LOCK_NOTIFICATIONS = """
    SELECT FROM notifications WHERE id = ANY(%(ids)b::uuid[]) ORDER BY id FOR UPDATE
"""


def lock_notifications(connection: psycopg.Connection, ids: Sequence[UUID]) -> None:
    """Hold the rows ``ids`` until the transaction ends; wait for those that others hold."""
    connection.execute(LOCK_NOTIFICATIONS, {"ids": list(ids)})
