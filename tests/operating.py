"""An operator's work in a test: their log-in, their actions, and the rows that wait for them."""

import dataclasses
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import sql

from functions.core.declaration import Declaration
from functions.core.evidence import Rank, Receipt
from functions.core.login import Login
from functions.core.outcome import Rejected, Transient, Unknown
from functions.core.states import MAX_STARTS
from functions.providers.choice import DECLARATIONS
from functions.store.action import Action
from functions.store.begin import Opening
from functions.store.cancel import cancel_notification
from functions.store.check import check
from functions.store.connection import Database
from functions.store.delivery import record_starts
from functions.store.held import discard, requeue
from functions.store.receipt import Recorded, record
from functions.store.restore import Marked, mark_gap
from functions.store.sweep import sweep
from tests.fakes import FIRST_ORGANIZATION, add_notifications, row_of
from tests.steps import begun, channel_of, close_one, connected, now_of

ACTOR = "ada@laptop"
LONG_AGO = "2026-01-01T00:00:00Z"
SOMEDAY = "2100-01-01T00:00:00Z"

REASONS = ["rejected", "budget_spent", "crash_loop", "waited_too_long", "unreadable"]
"""Why a row is held, apart from an outcome that is unknown."""

KEYED = Declaration(name="keyed", keyed=True, key_window_seconds=3600, receipts=True)
"""A provider that remembers a key for an hour, and cannot be asked."""

ALL = (*DECLARATIONS, KEYED)


def operator_of(login: Login) -> Login:
    """Return how an operator's commands log in to the same database."""
    return dataclasses.replace(login, user="sendoff_operator")


@contextmanager
def operating(login: Login, name: str = "operator") -> Generator[Database]:
    """Yield the database as an operator's command sees it, by a connection with that name."""
    with connected(operator_of(login), name, kind=Database) as (database,):
        yield database


def action(command: str = "dead.requeue", **arguments: Any) -> Action:
    return Action(id=uuid4(), actor=ACTOR, command=command, arguments=arguments)


def actions_of(owner: psycopg.Connection) -> list[tuple[UUID, str, Any]]:
    """Return (id, command, result) of everything that operators did, in order."""
    statement = "SELECT id, command, result FROM operator_actions ORDER BY at, ctid"
    return owner.execute(statement).fetchall()


def arrange(owner: psycopg.Connection, id: UUID, **columns: Any) -> UUID:
    """Put a notification where a test needs it, column by column; return its id."""
    sets = sql.SQL(", ").join(
        sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in columns
    )
    statement = sql.SQL("UPDATE notifications SET {} WHERE id = %(which)s").format(sets)
    owner.execute(statement, {**columns, "which": id})
    return id


def requeued(
    operator: Database,
    *ids: UUID,
    may_send_twice: bool = False,
    asked: Action | None = None,
    declarations: Sequence[Declaration] = ALL,
    now: datetime | None = None,
) -> list[str]:
    """Requeue; return what came of each."""
    fates = requeue(
        operator,
        ids,
        may_send_twice=may_send_twice,
        declarations=declarations,
        action=asked or action(),
        now=now,
    )
    assert [one.id for one in fates] == list(dict.fromkeys(ids))
    return [one.fate for one in fates]


def discarded(
    operator: Database, *ids: UUID, asked: Action | None = None, now: datetime | None = None
) -> list[str]:
    """Discard; return what came of each."""
    fates = discard(operator, ids, action=asked or action("dead.discard"), now=now)
    assert [one.id for one in fates] == list(dict.fromkeys(ids))
    return [one.fate for one in fates]


def mark(
    operator: Database,
    since: datetime,
    *,
    after: UUID | None = None,
    limit: int = 500,
    asked: Action | None = None,
    now: datetime | None = None,
) -> Marked:
    """Mark one page."""
    return mark_gap(
        operator,
        since=since,
        declarations=ALL,
        after=after,
        limit=limit,
        action=asked or action("recover"),
        now=now,
    )


def marked(
    operator: Database, since: datetime, *, asked: Action | None = None, now: datetime | None = None
) -> int:
    """Mark one page that is the last; return how many rows it marked."""
    page = mark(operator, since, asked=asked, now=now)
    assert page.last_id is None
    return page.marked


def cancel(database: Database, id: UUID) -> None:
    """Withdraw a notification of the first organization, as its client."""
    cancel_notification(database, organization_id=FIRST_ORGANIZATION, notification_id=id)


def report(id: UUID, rank: Rank = Rank.DELIVERED, **more: Any) -> Receipt:
    """Return a gateway's report about a notification; each call makes another."""
    members: dict[str, Any] = {
        "provider": "http",
        "event_key": f"{rank.name}:{uuid4()}",
        "type": rank.name.lower(),
        "rank": rank,
        "occurred_at": None,
        "idempotency_key": str(id),
        "raw": b"{}",
    }
    return Receipt(**members | more)


def tell(database: Database, *reports: Receipt, now: datetime | None = None) -> Recorded:
    """Let the gateway's reports come in."""
    return record(database, reports, provider="http", declarations=ALL, now=now)


def use(owner: psycopg.Connection, provider: str) -> None:
    """Let every channel use ``provider``."""
    owner.execute("UPDATE channels SET provider = %s", [provider])


ATTEMPTS = """
    SELECT lease_number, provider, outcome, code
      FROM attempts
     WHERE notification_id = %s
     ORDER BY lease_number
"""


def attempts_of(owner: psycopg.Connection, id: UUID) -> list[tuple[int, str, str, str]]:
    """Return (lease number, provider, outcome, code) of each attempt, in order."""
    return owner.execute(ATTEMPTS, [id]).fetchall()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How the rows that wait for an operator come to be; each is the only one due at its time."""

    owner: psycopg.Connection
    database: Database

    def rejected(self, **intent: Any) -> Opening:
        """Held: the provider refused it for good, and nothing of it is in doubt."""
        add_notifications(self.owner, **intent)
        opening = begun(self.database)
        assert close_one(self.database, opening, Rejected(code="400", http_status=400)) == "dead"
        return opening

    def spent(self) -> Opening:
        """Held: its budget is spent, and each attempt is known not to be accepted."""
        add_notifications(self.owner, max_attempts=1)
        opening = begun(self.database)
        assert close_one(self.database, opening, Transient(code="409", http_status=409)) == "dead"
        return opening

    def doubtful(self, *, hours_ago: float = 0.5) -> Opening:
        """Held: its budget is spent under a key, and the outcome of its attempt is unknown."""
        add_notifications(self.owner, max_attempts=1)
        opening = begun(self.database, now=now_of(self.owner, hours=-hours_ago))
        assert close_one(self.database, opening, Unknown(code="timeout")) == "dead"
        row = row_of(self.owner, opening.id)
        assert (row.reason, row.in_doubt) == ("outcome_unknown", 1)
        return opening

    def uncertain(self, **intent: Any) -> Opening:
        """Uncertain: the outcome is unknown, there is no key, and the grace is not over."""
        add_notifications(self.owner, **intent)
        opening = begun(self.database, provider="http_keyless")
        status = close_one(self.database, opening, Unknown(code="timeout"), keyed=False)
        assert status == "uncertain"
        return opening

    def undecided(self, **intent: Any) -> Opening:
        """Held: the outcome is unknown, there is no key, and the channel's policy is to hold."""
        opening = self.uncertain(**intent)
        check(self.database, declarations=ALL, now=now_of(self.owner, hours=1))
        row = row_of(self.owner, opening.id)
        assert (row.status, row.reason, row.in_doubt) == ("dead", "outcome_unknown", 1)
        return opening

    def crashed(self, *, provider: str = "http", swept: bool = True) -> Opening:
        """Held: it killed its senders. ``swept``: the attempt that one left open is in doubt."""
        add_notifications(self.owner)
        before = now_of(self.owner, minutes=-10)
        opening = begun(self.database, now=before, provider=provider)
        for _ in range(MAX_STARTS):
            record_starts(self.database, [opening.id])
        if swept:
            sweep(self.database, channel=channel_of(self.database), declarations=ALL)
        row = row_of(self.owner, opening.id)
        assert (row.status, row.reason, row.in_doubt) == ("dead", "crash_loop", int(swept))
        assert (row.attempt_id is None) is swept
        return opening
