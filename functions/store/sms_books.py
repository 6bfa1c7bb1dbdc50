"""What is kept of the SMS of organizations, read and written by whoever holds the lock of each."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
import psycopg

from functions.core.abuse import Account, Kind, Place, hour_of
from functions.core.pace import Bucket
from functions.core.usual import Slice
from functions.store.sms import Guarded, read_prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What is kept of the locked organizations, as of ``now``."""

    now: datetime
    guards: Mapping[UUID, Guarded]
    prices: Mapping[str, Decimal]
    spent: Mapping[UUID, Decimal]
    holds: Mapping[UUID, Mapping[Place, UUID]]
    slices: Mapping[UUID, Mapping[Place, Slice]]
    numbers: Mapping[UUID, Mapping[bytes, Bucket]]

    def account(self, organization_id: UUID, *, surge: float | None = None) -> Account:
        """Return an account of its own; ``surge`` is what a look at all that waits told."""
        guard = self.guards[organization_id]
        slices = self.slices.get(organization_id, {})
        return Account(
            rules=guard.rules,
            now=self.now,
            prices=self.prices,
            spent=self.spent.get(organization_id, Decimal(0)),
            first_at=guard.first_at,
            least_surge=guard.known_surge if surge is None else surge,
            countries={key: one for (kind, key), one in slices.items() if kind is Kind.COUNTRY},
            prefixes={key: one for (kind, key), one in slices.items() if kind is Kind.PREFIX},
            numbers=dict(self.numbers.get(organization_id, {})),
            holds=set(self.holds.get(organization_id, {})),
        )


def read_books(
    connection: psycopg.Connection,
    guards: Mapping[UUID, Guarded],
    *,
    prefixes: Collection[tuple[UUID, str]],
    numbers: Collection[tuple[UUID, bytes]],
    now: datetime,
) -> Books:
    """Return what is kept of the locked organizations, and of these prefixes and numbers."""
    organizations = list(guards)
    spending = {"organizations": organizations, "day": now.date()}
    return Books(
        now=now,
        guards=guards,
        prices={price.country: price.amount for price in read_prices(connection)},
        spent=dict(connection.execute(READ_SPEND, spending).fetchall()),
        holds=_holds(connection, organizations),
        slices=_slices(connection, organizations, prefixes, hour=hour_of(now)),
        numbers=_numbers(connection, numbers),
    )


READ_SPEND = """
    SELECT organization_id, amount
      FROM sms_spend
     WHERE organization_id = ANY(%(organizations)b::uuid[]) AND day = %(day)s
"""

READ_HOLDS = """
    SELECT organization_id, kind, key, id
      FROM holds
     WHERE organization_id = ANY(%(organizations)b::uuid[]) AND released_at IS NULL
"""


def _holds(
    connection: psycopg.Connection, organizations: Sequence[UUID]
) -> dict[UUID, dict[Place, UUID]]:
    found: dict[UUID, dict[Place, UUID]] = defaultdict(dict)
    for organization_id, kind, key, id in connection.execute(
        READ_HOLDS, {"organizations": organizations}
    ):
        found[organization_id][Kind(kind), key] = id
    return found


# Every country, for the mix is one of countries; of the prefixes only those of the messages.
READ_SLICES = """
    SELECT organization_id, kind, key, hour, hours, usual, total, trusted_until, full_at, place_at
      FROM sms_slices
     WHERE organization_id = ANY(%(organizations)b::uuid[]) AND kind = 'country'
    UNION ALL
    SELECT s.organization_id, s.kind, s.key, s.hour, s.hours, s.usual, s.total, s.trusted_until,
           s.full_at, s.place_at
      FROM unnest(%(owners)b::uuid[], %(prefixes)b::text[]) AS p (organization_id, key)
      JOIN sms_slices s
        ON s.organization_id = p.organization_id AND s.kind = 'prefix' AND s.key = p.key
"""


def _slices(
    connection: psycopg.Connection,
    organizations: Sequence[UUID],
    prefixes: Collection[tuple[UUID, str]],
    *,
    hour: int,
) -> dict[UUID, dict[Place, Slice]]:
    parameters = {
        "organizations": organizations,
        "owners": [owner for owner, _ in prefixes],
        "prefixes": [prefix for _, prefix in prefixes],
    }
    found: dict[UUID, dict[Place, Slice]] = defaultdict(dict)
    for row in connection.execute(READ_SLICES, parameters):
        organization_id, kind, key, last, hours, usual, total, trusted, full_at, place_at = row
        one = Slice(
            hour=last,
            hours=tuple(hours),
            usual=usual,
            total=total,
            trusted_until=trusted,
            bucket=Bucket(full_at=full_at, place_at=place_at),
        )
        found[organization_id][Kind(kind), key] = one.at(hour)
    return found


READ_NUMBERS = """
    SELECT n.organization_id, n.recipient_hash, n.full_at, n.place_at
      FROM unnest(%(owners)b::uuid[], %(hashes)b::bytea[]) AS m (organization_id, recipient_hash)
      JOIN sms_numbers n USING (organization_id, recipient_hash)
"""


def _numbers(
    connection: psycopg.Connection, numbers: Collection[tuple[UUID, bytes]]
) -> dict[UUID, dict[bytes, Bucket]]:
    parameters = {
        "owners": [owner for owner, _ in numbers],
        "hashes": [recipient_hash for _, recipient_hash in numbers],
    }
    found: dict[UUID, dict[bytes, Bucket]] = defaultdict(dict)
    for owner, recipient_hash, full_at, place_at in connection.execute(READ_NUMBERS, parameters):
        found[owner][recipient_hash] = Bucket(full_at=full_at, place_at=place_at)
    return found


WRITE_SLICES = """
    INSERT INTO sms_slices
           (organization_id, kind, key, hour, hours, usual, total, full_at, place_at)
    SELECT s.*
      FROM jsonb_to_recordset(%(slices)s::jsonb) AS s (
               organization_id uuid, kind text, key text, hour integer, hours integer[],
               usual double precision, total bigint, full_at timestamptz, place_at timestamptz
           )
     ORDER BY s.organization_id, s.kind, s.key
    ON CONFLICT (organization_id, kind, key) DO UPDATE
       SET hour = EXCLUDED.hour, hours = EXCLUDED.hours, usual = EXCLUDED.usual,
           total = EXCLUDED.total, full_at = EXCLUDED.full_at, place_at = EXCLUDED.place_at
"""

# A place given away before anything was let out: its bucket is full.
WRITE_NUMBERS = """
    INSERT INTO sms_numbers (organization_id, recipient_hash, full_at, place_at)
    SELECT n.organization_id, n.recipient_hash, n.full_at, n.place_at
      FROM unnest(%(owners)b::uuid[], %(hashes)b::bytea[], %(full)b::timestamptz[],
                  %(places)b::timestamptz[])
           AS n (organization_id, recipient_hash, full_at, place_at)
     ORDER BY n.organization_id, n.recipient_hash
    ON CONFLICT (organization_id, recipient_hash) DO UPDATE
       SET full_at = EXCLUDED.full_at, place_at = EXCLUDED.place_at
"""

WRITE_SPEND = """
    INSERT INTO sms_spend AS s (organization_id, day, amount, messages)
    SELECT o.organization_id, %(day)s, o.amount, o.messages
      FROM unnest(%(organizations)b::uuid[], %(amounts)s::numeric[], %(messages)b::int4[])
           AS o (organization_id, amount, messages)
     ORDER BY o.organization_id
    ON CONFLICT (organization_id, day) DO UPDATE
       SET amount = s.amount + EXCLUDED.amount,
           messages = least(s.messages::bigint + EXCLUDED.messages, 2147483647)
"""

WRITE_GUARDS = """
    UPDATE sms_guards g
       SET first_at = o.first_at, surge = coalesce(o.surge, g.surge),
           surge_at = CASE WHEN o.surge IS NULL THEN g.surge_at ELSE %(now)s END
      FROM unnest(%(organizations)b::uuid[], %(first)b::timestamptz[], %(surges)b::float8[])
           AS o (organization_id, first_at, surge)
     WHERE g.organization_id = o.organization_id
       AND g.organization_id = ANY(%(organizations)b::uuid[])
"""


def write_books(
    connection: psycopg.Connection,
    books: Books,
    accounts: Mapping[UUID, Account],
    *,
    let_out: Mapping[UUID, int],
    surges: Mapping[UUID, float],
) -> None:
    """Keep what the accounts came to; ``let_out`` counts the messages of each."""
    changed = [row for id, account in accounts.items() for row in _changed(books, id, account)]
    if changed:
        slices = orjson.dumps(changed).decode()
        connection.execute(WRITE_SLICES, {"slices": slices})
    numbers = [one for id, account in accounts.items() for one in _paced(books, id, account)]
    if numbers:
        connection.execute(
            WRITE_NUMBERS,
            {
                "owners": [owner for owner, _, _ in numbers],
                "hashes": [recipient_hash for _, recipient_hash, _ in numbers],
                "full": [bucket.full_at or books.now for _, _, bucket in numbers],
                "places": [bucket.place_at for _, _, bucket in numbers],
            },
        )
    spending = [id for id in accounts if let_out.get(id)]
    if spending:
        amounts = [accounts[id].spent - books.spent.get(id, Decimal(0)) for id in spending]
        messages = [let_out[id] for id in spending]
        values = {"organizations": spending, "amounts": amounts, "messages": messages}
        connection.execute(WRITE_SPEND, {**values, "day": books.now.date()})
    news = [
        id
        for id, account in accounts.items()
        if id in surges or account.first_at != books.guards[id].first_at
    ]
    if news:
        values = {
            "organizations": news,
            "first": [accounts[id].first_at for id in news],
            "surges": [surges.get(id) for id in news],
        }
        connection.execute(WRITE_GUARDS, {**values, "now": books.now})


def _changed(books: Books, id: UUID, account: Account) -> Iterable[dict[str, Any]]:
    """Return the slices of an account that are not as they were read, as JSON takes them."""
    before = books.slices.get(id, {})
    now = {(Kind.COUNTRY, key): one for key, one in account.countries.items()} | {
        (Kind.PREFIX, key): one for key, one in account.prefixes.items()
    }
    for place, one in now.items():
        if before.get(place) is not one:
            yield {
                "organization_id": id,
                "kind": place[0],
                "key": place[1],
                "hour": one.hour,
                "hours": one.hours,
                "usual": one.usual,
                "total": one.total,
                "full_at": one.bucket.full_at,
                "place_at": one.bucket.place_at,
            }


def _paced(books: Books, id: UUID, account: Account) -> Iterable[tuple[UUID, bytes, Bucket]]:
    """Return the numbers of an account whose buckets are not as they were read."""
    before = books.numbers.get(id, {})
    for recipient_hash, bucket in account.numbers.items():
        if before.get(recipient_hash) is not bucket:
            yield id, recipient_hash, bucket
