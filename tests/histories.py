"""Histories of notifications, made up: rows, attempts, reports and changes as a test wants them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

START = datetime(2030, 1, 1, tzinfo=UTC)
ID = UUID("0199aaaa-0000-7000-8000-000000000001")
ORGANIZATION = UUID("0199aaaa-0000-7000-8000-0000000000aa")
RECIPIENT = "grace@example.com"


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


ATTEMPT, REPORT, COMMAND, HOLD = UUID(int=1), UUID(int=21), UUID(int=31), UUID(int=41)
CANDIDATE, LINK = UUID(int=51), UUID(int=52)
OPENED_AT, CLOSED_AT, REPORTED_AT, COMMANDED_AT = map(after, (2, 4, 10, 100))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A pending notification, unless told otherwise."""

    id: UUID = ID
    organization_id: UUID = ORGANIZATION
    batch_id: UUID | None = None
    status: str = "pending"
    reason: str | None = None
    channel: str = "email"
    recipient: str | None = RECIPIENT
    content: str = "the content"
    priority: str = "normal"
    category: str = "transactional"
    event_id: str | None = None
    reference: str | None = None
    send_at: datetime | None = None
    expires_at: datetime | None = None
    available_at: datetime = START
    attempts_spent: int = 0
    max_attempts: int = 5
    lease_number: int = 0
    lease_until: datetime | None = None
    key_epoch: int = 0
    provider: str | None = "http"
    in_doubt: int = 0
    created_at: datetime = START
    updated_at: datetime = START
    final_at: datetime | None = None
    discarded_at: datetime | None = None
    submitted_at: datetime | None = None
    next_check_at: datetime | None = None
    decide_at: datetime | None = None
    complained: bool = False
    hold_id: UUID | None = None
    parent_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An attempt of two seconds, unless told otherwise."""

    id: UUID = ATTEMPT
    lease_number: int = 1
    provider: str = "http"
    started_at: datetime = OPENED_AT
    finished_at: datetime | None = CLOSED_AT
    outcome: str | None = "accepted"
    reference: str | None = None
    http_status: int | None = None
    code: str | None = None
    detail: str | None = None
    retry_after_seconds: int | None = None
    scope: str | None = None
    settled: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    id: UUID = REPORT
    received_at: datetime = REPORTED_AT
    occurred_at: datetime = REPORTED_AT
    type: str = "delivered"
    reference: str | None = None
    reason: str | None = None
    permanent: bool = False
    applied: bool = True
    evidence_rank: int = 3
    complaint: bool = False
    address_at_fault: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A transition as stored."""

    at: datetime = CLOSED_AT
    actor: str = "sender"
    from_status: str = "leased"
    to_status: str = "pending"
    reason: str | None = None
    lease_number: int | None = None
    attempt_id: UUID | None = None
    receipt_id: UUID | None = None
    operator_action_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What an operator did."""

    id: UUID = COMMAND
    at: datetime = COMMANDED_AT
    actor: str = "ada@host"
    command: str = "dead.requeue"
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    unknown_policy: str = "hold"
    cutoff_seconds: float = 3600.0
    paused_at: datetime | None = None
    provider: str = "http"
    fallback_provider: str | None = None
    retries: bool = True
    waiting_limit_seconds: float = 259200.0
    endpoint_concurrency: int = 10
    share_of_rate: float = 1.0
    slowed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBreaker:
    """A breaker of a whole provider, unless told otherwise; somebody finds out in its time."""

    provider: str = "http"
    scope: str = "provider"
    key: str = "http"
    opened_at: datetime = OPENED_AT
    code: str | None = "401"
    probe_at: datetime = COMMANDED_AT
    is_probed_by_it: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingEndpoint:
    origin: str = "https://hooks.example"
    failures: int = 3
    failing_since: datetime | None = OPENED_AT
    code: str | None = "503"
    paused_at: datetime | None = None
    disabled_at: datetime | None = None
    probe_at: datetime | None = None
    is_probed_by_it: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenHold:
    id: UUID = HOLD
    kind: str = "country"
    key: str = "MV"
    today: int = 21
    usual: float = 0.5
    opened_at: datetime = OPENED_AT
    released_at: datetime | None = None
    discarded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppressed:
    reason: str = "hard_bounce"
    source: str = "ses:event"
    category: str | None = None
    created_at: datetime = OPENED_AT


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressedPoint(Suppressed):
    """The only contact point by email, unless told otherwise."""

    channel: str = "email"
    number: int = 1
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way with nothing on it, unless told otherwise."""

    country: str | None = None
    stream: str = "transactional"
    stream_paused_at: datetime | None = None
    next_provider: str | None = None
    waiting_since: datetime | None = None
    breakers: list[OpenBreaker] = field(default_factory=list[OpenBreaker])
    endpoint: FailingEndpoint | None = None
    hold: OpenHold | None = None
    suppression: Suppressed | None = None
    suppressed_points: list[SuppressedPoint] = field(default_factory=list[SuppressedPoint])


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A candidate by push that waits, unless told otherwise."""

    id: UUID = CANDIDATE
    place: int | None = 0
    channel: str = "push"
    status: str = "pending"
    reason: str | None = None
    created_at: datetime = START
    available_at: datetime = START
    expires_at: datetime | None = None
    lease_until: datetime | None = None
    next_check_at: datetime | None = None
    discarded_at: datetime | None = None
    hold_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Of one address and one text, and not decided yet, unless told otherwise."""

    recipient_id: str | None = None
    template_name: str | None = None
    template_version: int | None = None
    erased_at: datetime | None = None
    verdict: str | None = None
    policy_version: int | None = None
    decision: Mapping[str, Any] | None = None
    locale: str | None = None
    has_contact_point: bool = False
    addresses: list[str] = field(default_factory=list[str])
    place: int | None = None
    channels: list[str] | None = None
    next_step_at: datetime | None = None
    parent: Candidate | None = None
    children: list[Candidate] = field(default_factory=list[Candidate])
    faults: list[dict[str, str]] = field(default_factory=list[dict[str, str]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A notification with its attempts, reports and changes."""

    notification: Row = field(default_factory=Row)
    attempts: list[Call] = field(default_factory=list[Call])
    receipts: list[Report] = field(default_factory=list[Report])
    transitions: list[Change] = field(default_factory=list[Change])


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A candidate by SMS that waits, unless told otherwise."""

    id: UUID = LINK
    place: int = 1
    channel: str = "sms"
    status: str = "pending"
    in_doubt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    channel: str
    at: datetime
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    history: Story = field(default_factory=Story)
    operator_actions: list[Command] = field(default_factory=list[Command])
    channel: Policy = field(default_factory=Policy)
    way: Way = field(default_factory=Way)
    decided: Decided = field(default_factory=Decided)
    links: list[Link] = field(default_factory=list[Link])
    deliveries: list[Delivery] = field(default_factory=list[Delivery])


def told_of(
    row: Row,
    *,
    channel: Policy | None = None,
    attempts: list[Call] | None = None,
    way: Way | None = None,
    decided: Decided | None = None,
) -> Dossier:
    """Return the dossier of ``row``, of which nothing else is known."""
    return Dossier(
        history=Story(notification=row, attempts=attempts or []),
        channel=channel or Policy(),
        way=way or Way(),
        decided=decided or Decided(),
    )
