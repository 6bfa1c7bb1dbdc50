"""The world of one random history: a database, a clock, a queue, senders at work, providers.

Every event goes through ``World.happen``: it runs the product's own function, reads everything
back, and compares each row with what the model allows and with the invariants. The clock is a
number that is handed to the product; nothing here waits.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TypeVar
from uuid import UUID

from functions.core.declaration import Declaration
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION, hash_of
from tests.proof.histories_connections import Connections
from tests.proof.histories_coverage import Event
from tests.proof.histories_gateway import BY_NAME, Call, Gateways
from tests.proof.histories_invariants import Broken, check_everything
from tests.proof.histories_model import Expected, same
from tests.proof.histories_proving import Evidence
from tests.proof.histories_rows import Attempt, Row, Snapshot, read_snapshot

T = TypeVar("T")

ORGANIZATIONS = (FIRST_ORGANIZATION, SECOND_ORGANIZATION)
RECIPIENTS = ("one", "two")
USUAL_PROVIDERS = {
    "email": "http",
    "sms": "http_keyless",
    "push": "http_keyless",
    "webhook": "webhook",
}
OTHER_PROVIDERS = {
    "email": "http_keyless",
    "sms": "http",
    "push": "silent",
    "webhook": "http",
}
"""What a channel may be switched to, and back."""

MAX_ATTEMPTS = 3
ARRANGE = """
    UPDATE channels SET max_attempts = %(max_attempts)s, provider = v.provider, paused_at = NULL
      FROM unnest(%(names)s::text[], %(providers)s::text[]) AS v (name, provider)
     WHERE v.name = channels.name
"""
EMPTY = """
    DELETE FROM notifications;
    DELETE FROM receipts;
    DELETE FROM suppressions;
    DELETE FROM batches;
    DELETE FROM idempotency_keys;
    DELETE FROM operator_actions;
    DELETE FROM polls;
"""
ORPHANS_WAIT = timedelta(days=8)
"""How long a report is tried to be matched."""

TIDY_EVERY = 100
"""Histories between two clean-ups of what the deleted rows leave behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A notification as its organization asked for it."""

    id: UUID
    organization_id: UUID
    channel: str
    recipient: str
    batch_id: UUID


@dataclass(slots=True, kw_only=True)
class Message:
    """A message on a queue: which lease of which notification, how often it was received."""

    id: UUID
    lease: int
    channel: str
    received: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A receipt as the world told it, the first time."""

    event_key: str
    rank: int
    at: datetime
    door: str
    key: str | None = None
    """Our key, where the report names one."""
    reference: str | None = None
    recipient_hash: bytes | None = None
    complaint: bool = False
    at_fault: bool = False
    received_at: datetime | None = None
    notification: UUID | None = None
    attempt: UUID | None = None

    def matched(self, notification: UUID, attempt: UUID | None) -> "Told":
        return replace(self, notification=notification, attempt=attempt)


FactKey = tuple[UUID, str, bytes, str | None, str]
"""Organization, channel, hash of the recipient, category, kind."""


@dataclass(slots=True, kw_only=True)
class World:
    """One history; everything that the database does not know is here."""

    to: Connections
    visits: Counter[tuple[str, str]]
    now: datetime = field(default_factory=lambda: datetime.now(UTC) + timedelta(hours=1))
    """Past every time that the database itself put on a row."""
    known: dict[UUID, Known] = field(default_factory=dict[UUID, Known])
    queue: list[Message] = field(default_factory=list[Message])
    old: list[Message] = field(default_factory=list[Message])
    """Acknowledged or dropped; one may come back by a redrive."""
    calls: list[Call] = field(default_factory=list[Call])
    closed: list[Call] = field(default_factory=list[Call])
    gateways: Gateways = field(default_factory=Gateways)
    providers: dict[str, str] = field(default_factory=lambda: dict(USUAL_PROVIDERS))
    paused: set[str] = field(default_factory=set[str])
    proofs: dict[UUID, list[Evidence]] = field(default_factory=dict[UUID, list[Evidence]])
    """Everything that proves acceptance, by what the world told the product."""
    complained: set[UUID] = field(default_factory=set[UUID])
    told: dict[str, Told] = field(default_factory=dict[str, Told])
    facts: list[FactKey] = field(default_factory=list[FactKey])
    """What the product must know of addresses, in no order."""
    answers: list[tuple[datetime, Told | UUID]] = field(
        default_factory=list[tuple[datetime, Told | UUID]]
    )
    """To what a reconcile asked, and when: a report, or a notification that was never accepted."""
    excused: set[UUID] = field(default_factory=set[UUID])
    """Attempts in doubt that no longer stand against another: by policy, or a person's word."""
    concluded: set[UUID] = field(default_factory=set[UUID])
    """Attempts of which somebody said that they were not accepted; proof may say otherwise."""
    misled: set[UUID] = field(default_factory=set[UUID])
    """Notifications of which an operator said that they were not accepted, and was wrong."""
    restored: dict[UUID, datetime] = field(default_factory=dict[UUID, datetime])
    """When a row was last marked after a restore."""
    seen: Snapshot = field(init=False)
    calls_checked: int = 0
    is_broken: bool = False
    story: list[str] = field(default_factory=list[str])
    ids: Random = field(default_factory=lambda: Random(0))
    """Of two proofs of a moment the smaller key counts: drawn twice, a history must end alike."""

    def new_id(self) -> UUID:
        return UUID(int=self.ids.getrandbits(128), version=4)

    def __post_init__(self) -> None:
        values = {
            "max_attempts": MAX_ATTEMPTS,
            "names": list(self.providers),
            "providers": list(self.providers.values()),
        }
        self.to.owner.execute(EMPTY)
        if next(self.to.histories) % TIDY_EVERY == TIDY_EVERY - 1:
            self.to.owner.execute("VACUUM")
        self.to.owner.execute(ARRANGE, values)
        self.to.service.run(lambda connection: connection.execute("SELECT setseed(0.5)"))
        self.seen = read_snapshot(self.to.owner)

    def declaration(self, channel: str) -> Declaration:
        """Return what the provider promises that the channel uses now."""
        return BY_NAME[self.providers[channel]]

    def rows(self) -> list[Row]:
        return list(self.seen.rows.values())

    def attempt_of(self, told: Told) -> Attempt | None:
        """Return the first attempt that has the reference of a report, by a provider whose reports
        come by that door."""
        attempts = [
            one
            for all in self.seen.attempts.values()
            for one in all
            if told.reference is not None
            and one.reference == told.reference
            and BY_NAME[one.provider].door == told.door
        ]
        return min(attempts, key=lambda one: one.started_at, default=None)

    def placed(self, told: Told) -> Told:
        """Return the report with what it is about: by our key first, then by its reference."""
        told = replace(told, received_at=self.now)
        by_reference = self.attempt_of(told)
        notification, attempt = named(told.key)
        if notification is not None and notification in self.seen.rows:
            own = self.seen.attempt(notification, attempt) if attempt else by_reference
            is_own = own is not None and own.notification_id == notification
            return told.matched(notification, own.id if own and is_own else None)
        if by_reference is None or told.key is not None:
            return told
        return told.matched(by_reference.notification_id, by_reference.id)

    def has_vouched(self, id: UUID, token: UUID) -> bool:
        """Whether a report has told that this attempt was accepted."""
        hashes = (None, self.seen.rows[id].recipient_hash)
        return any(
            told.attempt == token and told.rank > 0 and told.recipient_hash in hashes
            for told in self.told.values()
        )

    def visit(self, status: str, event: Event) -> None:
        self.visits[status, event] += 1

    def happen(
        self,
        what: str,
        work: Callable[[], T],
        expected: Mapping[UUID, Sequence[Expected]],
        *,
        ledger: Mapping[UUID, str | None] | None = None,
        new_rows: int = 0,
        promise: str = "fenced",
    ) -> T:
        """Run an event and hold its effects against what may be.

        ``expected`` has the rows that it may change, ``ledger`` the attempts that it opens (None)
        or closes; all else stays as it was. ``promise`` names what is broken otherwise.
        """
        self.story.append(f"{self.now:%d %H:%M:%S} {what}")
        before = self.seen
        self.is_broken = True  # until everything has been found as it must be
        answer = work()
        after = self.seen = read_snapshot(self.to.owner)
        if len(after.rows) != len(before.rows) + new_rows:
            raise Broken("lost", f"{what}: there are {len(after.rows)} rows.")
        for id, row in before.rows.items():
            _compare(row, after.rows.get(id), expected.get(id) or [same(row)], what, promise)
        _compare_ledgers(before, after, {} if ledger is None else ledger, what)
        check_everything(self, before, after)
        self.is_broken = False
        return answer


def _compare(
    row: Row, found: Row | None, allowed: Sequence[Expected], what: str, promise: str
) -> None:
    if found is None:
        raise Broken("lost", f"{what}: the row {row.id} is gone.")
    differences = [one.differences(found) for one in allowed]
    if all(differences):
        text = " -- or -- ".join("; ".join(one) for one in differences)
        raise Broken(promise, f"{what}: {row.status} {row.id} became {found.status}: {text}")


def _compare_ledgers(
    before: Snapshot, after: Snapshot, expected: Mapping[UUID, str | None], what: str
) -> None:
    """Every attempt is as it was, but for what the event opened or closed."""
    old = {one.id: one for attempts in before.attempts.values() for one in attempts}
    new = {one.id: one for attempts in after.attempts.values() for one in attempts}
    for token in old.keys() | new.keys():
        was, now = old.get(token), new.get(token)
        if now is None:
            raise Broken("lost", f"{what}: the attempt {token} is gone.")
        due = expected.get(token, was.outcome if was else "none at all")
        if now.outcome != due:
            raise Broken("fenced", f"{what}: an attempt is {now.outcome} in the ledger, not {due}.")
        if was and was.finished_at not in (None, now.finished_at):
            raise Broken("fenced", f"{what}: an attempt finished twice.")


def address_of(channel: str, recipient: str) -> str:
    """Return the literal address; the same for both organizations."""
    return f"{recipient}-{channel}@example.com"


def hash_for(channel: str, recipient: str) -> bytes:
    return hash_of(address_of(channel, recipient))


def named(key: str | None) -> tuple[UUID | None, UUID | None]:
    """Return the notification and the attempt that a key names: ``<id>``, ``<id>.<epoch>`` or
    ``<id>.<attempt>``."""
    if key is None:
        return None, None
    notification, _, rest = key.partition(".")
    return UUID(notification), UUID(rest) if len(rest) > 30 else None
