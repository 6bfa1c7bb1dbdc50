"""The guard in front of SMS: which of the leased ones go out, counted and paid for before they do.

One short transaction, between the lease and the queue. Whoever decides for an organization holds
its lock, so that two claims never spend the same money, and a release never misses a message that
is just being held. What goes wrong here lets nothing out: it raises, and the claim gives the leases
back. Repeated after an unknown COMMIT it finds its own reservations and counts nothing twice.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from functions.core.abuse import (
    UNKNOWN,
    Account,
    Kind,
    Message,
    OnHold,
    Place,
    Ruling,
    prefix_of,
    segments_of,
)
from functions.core.policy import Allow, Defer, Hold, Verdict
from functions.core.states import Status
from functions.core.usual import surge_of
from functions.store.connection import Database
from functions.store.hold import put_on_hold
from functions.store.sms import lock_guards
from functions.store.sms_books import Books, read_books, write_books

LOOK_AGAIN = timedelta(minutes=1)
COUNTED_AT_MOST = 50_000
"""Of what waits, to tell what is about to follow: a look at it costs a tenth of a second."""

LEASE_LOST = "lease_lost"


class Candidate(Protocol):
    """A leased SMS."""

    @property
    def id(self) -> UUID: ...
    @property
    def organization_id(self) -> UUID: ...
    @property
    def lease_number(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A candidate as its row tells now."""

    id: UUID
    organization_id: UUID
    lease_number: int
    status: str
    reason: str | None
    hold_id: UUID | None
    country: str
    recipient: str | None
    address_hash: bytes
    content: Any
    segments: int | None
    is_reserved: bool

    @property
    def prefix(self) -> str:
        return prefix_of(self.recipient)

    @property
    def message(self) -> Message:
        return Message(
            country=self.country,
            prefix=self.prefix,
            recipient_hash=self.address_hash,
            segments=self.segments or segments_of(self.content),
            is_reserved=self.is_reserved,
        )


def guard(
    database: Database, rows: Sequence[Candidate], *, now: datetime | None = None
) -> list[Verdict]:
    """Return a verdict for each of ``rows``, in their order.

    Those that go out are counted and paid for. A hold is written on its rows already, and their
    leases are over. What is deferred or suppressed is for the caller to store.
    """

    def work(connection: psycopg.Connection) -> list[Verdict]:
        guards = lock_guards(connection, {row.organization_id for row in rows}, now=now)
        at = max(one.now for one in guards.values()).astimezone(UTC)
        found = _read(connection, rows, day=at.date())
        leased = [row for row in found.values() if row.status == Status.LEASED]
        books = read_books(
            connection,
            guards,
            prefixes={(row.organization_id, row.prefix) for row in leased},
            numbers={(row.organization_id, row.address_hash) for row in leased},
            now=at,
        )
        verdicts = _decide(connection, books, leased)
        return [verdicts.get(row.id) or _moved(found.get(row.id), at) for row in rows]

    return database.run(work) if rows else []


# is_reserved: it was let out today under an earlier lease (or this one, and the answer was lost),
#              and no attempt since then may have been accepted: nothing was paid for it yet.
# recipient:   where it stands behind a reference, the number that was chosen there. A sub-select: a
#              join might read all that there are.
# segments:    of words by template it is told how many parts they are at most.
READ_CANDIDATES = """
    SELECT n.id, n.organization_id, n.lease_number, n.status, n.reason, n.hold_id,
           coalesce(n.country, '') AS country,
           coalesce(n.recipient,
                    (SELECT c.address
                       FROM contact_points c
                      WHERE c.organization_id = n.organization_id
                        AND c.recipient_id = n.recipient_id AND c.channel = 'sms'
                        AND c.address_hash = n.contact_hash)) AS recipient,
           n.address_hash, n.content, n.segments,
           coalesce(r.day = %(day)s, false)
           AND NOT EXISTS (SELECT FROM attempts a
                            WHERE a.notification_id = n.id AND a.lease_number >= r.lease_number
                              AND (a.outcome IS NULL OR a.outcome IN ('unknown', 'accepted')))
           AS is_reserved
      FROM unnest(%(ids)b::uuid[], %(leases)b::int4[]) WITH ORDINALITY
           AS m (id, lease_number, place)
      JOIN notifications n ON n.id = m.id AND n.lease_number = m.lease_number
      LEFT JOIN sms_reservations r ON r.notification_id = n.id
     WHERE n.id = ANY(%(ids)b::uuid[])
     ORDER BY m.place
"""


def _read(
    connection: psycopg.Connection, rows: Sequence[Candidate], *, day: date
) -> dict[UUID, _Row]:
    parameters = {
        "ids": [row.id for row in rows],
        "leases": [row.lease_number for row in rows],
        "day": day,
    }
    with connection.cursor(row_factory=class_row(_Row)) as cursor:
        return {row.id: row for row in cursor.execute(READ_CANDIDATES, parameters)}


def _moved(row: _Row | None, at: datetime) -> Verdict:
    """Return the verdict for a row that is no longer leased: this very guard put it on hold and the
    answer was lost, or somebody else moved it and nothing is to be done."""
    if row is not None and row.status == Status.PENDING and row.hold_id is not None:
        return Hold(hold_id=row.hold_id, reason=row.reason or "")
    return Defer(until=at, reason=LEASE_LOST, blocked=True)


def _decide(
    connection: psycopg.Connection, books: Books, rows: Sequence[_Row]
) -> dict[UUID, Verdict]:
    """Rule on the rows, keep what comes of it, and return the verdicts."""
    pages: dict[UUID, list[_Row]] = defaultdict(list)
    for row in rows:
        pages[row.organization_id].append(row)
    accounts: dict[UUID, Account] = {}
    rulings: dict[UUID, Ruling] = {}
    surges: dict[UUID, float] = {}
    for organization_id, page in pages.items():
        account, ruled = _rule(books, page)
        if (account.shifts or account.was_paced) and _may_look(books, organization_id):
            waiting = _waiting(connection, page, now=books.now)
            surge = surge_of(books.account(organization_id).countries, waiting)
            account, ruled = _rule(books, page, surge=surge)
            surges[organization_id] = surge
        accounts[organization_id] = account
        rulings |= ruled
    paid = [row for row in rows if isinstance(rulings[row.id], Allow) and not row.is_reserved]
    let_out = Counter(row.organization_id for row in paid)
    write_books(connection, books, accounts, let_out=let_out, surges=surges)
    _reserve(connection, paid, now=books.now)
    holds = _open_holds(connection, books, accounts)
    held: list[tuple[Candidate, Hold]] = []
    verdicts: dict[UUID, Verdict] = {}
    for row in rows:
        ruling = rulings[row.id]
        if isinstance(ruling, OnHold):
            hold_id = holds[row.organization_id, ruling.place]
            ruling = Hold(hold_id=hold_id, reason=ruling.reason)
            held.append((row, ruling))
        verdicts[row.id] = ruling
    put_on_hold(connection, held, now=books.now)
    return verdicts


def _rule(
    books: Books, page: Sequence[_Row], *, surge: float | None = None
) -> tuple[Account, dict[UUID, Ruling]]:
    """Rule on messages of one organization, one after the other."""
    account = books.account(page[0].organization_id, surge=surge)
    return account, {row.id: account.rule(row.message) for row in page}


def _may_look(books: Books, organization_id: UUID) -> bool:
    last = books.guards[organization_id].surge_at
    return last is None or books.now >= last + LOOK_AGAIN


# What is ready, and what is due and not promoted yet, whose index knows no organization.
WAITING = """
    SELECT w.country, count(*)::int
      FROM (SELECT country
              FROM (SELECT country
                      FROM notifications
                     WHERE channel = 'sms' AND stream = ANY('{transactional,bulk}')
                       AND priority = ANY('{high,normal,low}') AND status = 'pending' AND ready
                       AND organization_id = %(organization_id)s
                     LIMIT %(limit)s) ready
            UNION ALL
            SELECT country
              FROM (SELECT country, channel, organization_id
                      FROM notifications
                     WHERE status = 'pending' AND NOT ready AND available_at <= %(now)s
                     ORDER BY available_at
                     LIMIT %(limit)s) due
             WHERE channel = 'sms' AND organization_id = %(organization_id)s) w
     GROUP BY w.country
"""


def _waiting(
    connection: psycopg.Connection, page: Sequence[_Row], *, now: datetime
) -> Counter[str]:
    """Return by country how many messages follow, those of ``page`` among them."""
    parameters = {
        "organization_id": page[0].organization_id,
        "now": now,
        "limit": COUNTED_AT_MOST,
    }
    waiting = Counter(row.country for row in page)
    for country, count in connection.execute(WAITING, parameters):
        waiting[country or UNKNOWN] += count
    return waiting


RESERVE = """
    INSERT INTO sms_reservations (notification_id, lease_number, day)
    SELECT m.id, m.lease_number, %(day)s
      FROM unnest(%(ids)b::uuid[], %(leases)b::int4[]) AS m (id, lease_number)
     ORDER BY m.id
    ON CONFLICT (notification_id) DO UPDATE
       SET lease_number = EXCLUDED.lease_number, day = EXCLUDED.day
"""


def _reserve(connection: psycopg.Connection, rows: Sequence[_Row], *, now: datetime) -> None:
    if rows:
        parameters = {
            "ids": [row.id for row in rows],
            "leases": [row.lease_number for row in rows],
            "day": now.date(),
        }
        connection.execute(RESERVE, parameters)


OPEN_HOLDS = """
    INSERT INTO holds (organization_id, kind, key, reason, today, usual, opened_at)
    SELECT h.organization_id, h.kind, h.key, 'mix_shifted', h.today, h.usual, %(now)s
      FROM unnest(%(organizations)b::uuid[], %(kinds)b::text[], %(keys)b::text[],
                  %(todays)b::int4[], %(usuals)b::float8[])
           AS h (organization_id, kind, key, today, usual)
    RETURNING organization_id, kind, key, id
"""


def _open_holds(
    connection: psycopg.Connection, books: Books, accounts: Mapping[UUID, Account]
) -> dict[tuple[UUID, Place], UUID]:
    """Open the holds that the accounts ask for; return every open one."""
    found = {
        (organization_id, place): id
        for organization_id, held in books.holds.items()
        for place, id in held.items()
    }
    shifts = [(id, shift) for id, account in accounts.items() for shift in account.shifts]
    if not shifts:
        return found
    parameters = {
        "organizations": [id for id, _ in shifts],
        "kinds": [shift.place[0] for _, shift in shifts],
        "keys": [shift.place[1] for _, shift in shifts],
        "todays": [shift.today for _, shift in shifts],
        "usuals": [shift.usual for _, shift in shifts],
        "now": books.now,
    }
    for organization_id, kind, key, id in connection.execute(OPEN_HOLDS, parameters):
        found[organization_id, (Kind(kind), key)] = id
    return found
