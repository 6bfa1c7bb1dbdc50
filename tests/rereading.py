"""Reports that come in and are read again by other rules, in a test."""

import dataclasses
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg

from functions.core.evidence import Rank, Receipt, StoredReceipt
from functions.store.action import Action
from functions.store.connection import Database
from functions.store.replay import Replayed, replay
from tests.fakes import hash_of
from tests.operating import action, report, tell

OURS, THEIRS = hash_of("ok@example.com"), hash_of("archive@example.com")


@dataclass(slots=True)
class Rules:
    """How reports are read today: as they were at first, but for ``changes`` by their type."""

    changes: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    unreadable: set[str] = field(default_factory=set[str])
    read: list[StoredReceipt] = field(default_factory=list[StoredReceipt])
    told: dict[str, Receipt] = field(default_factory=dict[str, Receipt])

    def __call__(self, stored: StoredReceipt) -> Receipt | None:
        self.read.append(stored)
        receipt = self.told.get(stored.event_key)
        if receipt is None or receipt.type in self.unreadable:
            return None
        return dataclasses.replace(receipt, **self.changes.get(receipt.type, {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Where reports come in, and where they are read again."""

    owner: psycopg.Connection
    database: Database
    operator: Database
    rules: Rules = field(default_factory=Rules)

    def tell(self, *reports: Receipt) -> None:
        self.rules.told |= {one.event_key: one for one in reports}
        tell(self.database, *reports)

    def replay(
        self,
        *,
        operator: Database | None = None,
        since: datetime | None = None,
        notification_id: UUID | None = None,
        after: UUID | None = None,
        limit: int = 500,
        asked: Action | None = None,
        now: datetime | None = None,
    ) -> Replayed:
        return replay(
            operator or self.operator,
            reparse=self.rules,
            since=since,
            notification_id=notification_id,
            after=after,
            limit=limit,
            action=asked or action("receipts.replay"),
            now=now,
        )

    def suppressions(self) -> list[tuple[str, str]]:
        """Return (reason, source) of each fact, in order."""
        return self.owner.execute("SELECT reason, source FROM suppressions ORDER BY id").fetchall()


NOW_DELIVERED = {"note": {"rank": Rank.DELIVERED}}


def note(id: UUID, **more: Any) -> Receipt:
    """Return a report that proves nothing as it is read at first."""
    return report(id, Rank.NONE, **{"type": "note", "recipient_hash": OURS, **more})
