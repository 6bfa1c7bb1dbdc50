"""Every number of the deployment, for AWS and for the local stack, and the relations between them.

Related numbers are computed from one another where they can be, and checked where they cannot:
``faults`` names each broken relation, and no template is written while it finds one.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from functions.core.states import Channel, Priority

DAY_SECONDS = 86_400
DEFAULT_PREFIX = "sendoff"

VISIBILITY_FACTOR = 6
"""Visibility per sender timeout: what AWS asks for, as the clock starts before the batch does."""

RECOGNISED_SECONDS = DAY_SECONDS
"""For so long a batch is recognised when it comes again (idempotency keys)."""

DEPLOY_OVERLAP = 2
"""A deploy replaces every environment while the old, frozen ones still hold their connection."""

UNRESERVED_CONCURRENCY = 100
"""What Lambda insists on keeping unreserved of an account's concurrency."""

ACCOUNT_CONCURRENCY = 1000
"""The default quota of concurrent executions in an account and region."""

RDS_BYTES_PER_CONNECTION = 9_531_392
"""RDS's default is max_connections = memory / this; beyond it the memory does not suffice."""


def assets_bucket(prefix: str) -> str:
    """Return the bucket of the local target's assets; the emulator knows no bootstrap."""
    return f"{prefix}-assets"


def api_id(prefix: str) -> str:
    """Return the id that the emulator gives the HTTP API, read from a tag; AWS chooses its own."""
    return hashlib.sha256(f"{prefix}-api".encode()).hexdigest()[:8]


API_ID_TAG = "ms-custom-id"


def metric_namespace(prefix: str) -> str:
    """Return where the functions of ``prefix`` publish: two installations do not mix."""
    return f"Sendoff/{prefix}"


class Target(StrEnum):
    """Where the stacks are deployed: the same definition, but for differences.py."""

    AWS = "aws"
    LOCAL = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionNumbers:
    """One function. Each environment keeps one database connection, so concurrency is a budget."""

    timeout_seconds: int
    memory_megabytes: int
    reserved_concurrency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderNumbers:
    """The chain provider deadline < timeout < visibility < lease, of every channel."""

    timeout_seconds: int
    provider_deadline_seconds: int
    lease_margin_seconds: int
    window_seconds: int = 0
    batch_size: int = 10
    maximum_concurrency: int = 20
    reserved_concurrency: int = 20
    memory_megabytes: int = 512

    @property
    def visibility_seconds(self) -> int:
        return VISIBILITY_FACTOR * self.timeout_seconds + self.window_seconds

    @property
    def lease_seconds(self) -> int:
        return self.visibility_seconds + self.lease_margin_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNumbers:
    """Receives are generous: one that was throttled counts although no handler ran."""

    receives: int = 5
    retention_seconds: int = 4 * DAY_SECONDS
    dead_letter_retention_seconds: int = 14 * DAY_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class EventNumbers:
    """The events queue. What the database cannot take comes again until it can: an outage must not
    turn evidence into dead letters, so its receives are many."""

    receives: int = 100
    batch_size: int = 10
    maximum_concurrency: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorNumbers:
    """What comes to ingest asynchronously: from its being due until it is kept as a dead letter."""

    delivery_age_seconds: int = 6 * 3600
    delivery_retries: int = 185
    event_age_seconds: int = 6 * 3600
    retries: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopNumbers:
    """The claim loop: it outlives its schedule, so that no minute has a hole."""

    run_seconds: int = 150
    idle_seconds: float = 0.2
    schedule_minutes: int = 1
    event_age_seconds: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseNumbers:
    """The RDS instance. ``max_connections`` is set, not left to the class: an exact budget."""

    instance_class: str = "m7g.large"
    memory_gibibytes: int = 8
    max_connections: int = 600
    operator_connections: int = 20
    storage_gibibytes: int = 100
    storage_limit_gibibytes: int = 1000
    backup_days: int = 14
    idle_session_seconds: int = 900

    @property
    def connection_budget(self) -> int:
        """What the functions may hold; the rest is for operators and the server's own."""
        return self.max_connections - self.operator_connections


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkNumbers:
    """A NAT gateway per zone: losing one zone must not stop the senders of the other."""

    availability_zones: int = 2
    nat_gateways: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmNumbers:
    """When people are woken: a stall is an age well past the priority's objective, for minutes."""

    heartbeat_minutes: int = 5
    oldest_eligible_age_seconds: Mapping[Priority, int] = field(
        default_factory=lambda: {Priority.HIGH: 60, Priority.NORMAL: 900, Priority.LOW: 7200}
    )
    oldest_eligible_age_minutes: int = 5
    oldest_request_age_seconds: int = 60
    oldest_request_minutes: int = 3
    breaker_minutes: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """All numbers of one deployment."""

    sender: SenderNumbers
    functions: Mapping[str, FunctionNumbers]
    channel: Mapping[str, float] = field(default_factory=dict[str, float])
    queue: QueueNumbers = QueueNumbers()
    events: EventNumbers = EventNumbers()
    doors: DoorNumbers = DoorNumbers()
    loop: LoopNumbers = LoopNumbers()
    database: DatabaseNumbers = DatabaseNumbers()
    network: NetworkNumbers = NetworkNumbers()
    alarm: AlarmNumbers = field(default_factory=AlarmNumbers)
    log_retention: str = "ONE_MONTH"  # a name of logs.RetentionDays

    @property
    def reserved_concurrency(self) -> int:
        """Environments, and so connections, that can be busy at once."""
        own = sum(function.reserved_concurrency for function in self.functions.values())
        return own + len(Channel) * self.sender.reserved_concurrency

    @property
    def event_visibility_seconds(self) -> int:
        return VISIBILITY_FACTOR * self.functions["callbacks"].timeout_seconds


FUNCTIONS: Mapping[str, FunctionNumbers] = {
    "ingest": FunctionNumbers(timeout_seconds=25, memory_megabytes=1024, reserved_concurrency=50),
    "authorizer": FunctionNumbers(timeout_seconds=8, memory_megabytes=512, reserved_concurrency=50),
    "claim": FunctionNumbers(timeout_seconds=180, memory_megabytes=512, reserved_concurrency=2),
    "callbacks": FunctionNumbers(timeout_seconds=15, memory_megabytes=512, reserved_concurrency=20),
    "reconcile": FunctionNumbers(timeout_seconds=50, memory_megabytes=512, reserved_concurrency=2),
    "sweeper": FunctionNumbers(timeout_seconds=50, memory_megabytes=512, reserved_concurrency=2),
    "migrate": FunctionNumbers(timeout_seconds=600, memory_megabytes=512, reserved_concurrency=2),
    "console": FunctionNumbers(timeout_seconds=30, memory_megabytes=512, reserved_concurrency=2),
}

AWS = Numbers(
    sender=SenderNumbers(timeout_seconds=30, provider_deadline_seconds=10, lease_margin_seconds=60),
    functions=FUNCTIONS,
)

# Short enough to watch: a retry within seconds, a silent recipient settled within half a minute.
LOCAL = Numbers(
    sender=SenderNumbers(timeout_seconds=5, provider_deadline_seconds=3, lease_margin_seconds=10),
    functions=FUNCTIONS,
    channel={"backoff_base_seconds": 1, "backoff_cap_seconds": 8, "cutoff_seconds": 30},
)


NUMBERS: Mapping[Target, Numbers] = {Target.AWS: AWS, Target.LOCAL: LOCAL}


def channels(numbers: Numbers, *, gateway_url: str) -> dict[str, dict[str, Any]]:
    """Return what ``migrate`` writes into the table ``channels``: {channel: {column: value}}."""
    shared: dict[str, Any] = {
        "lease_seconds": numbers.sender.lease_seconds,
        "provider_deadline_seconds": numbers.sender.provider_deadline_seconds,
        **numbers.channel,
    }
    gateway = {"provider": "http", "provider_url": gateway_url}
    direct = {"provider": "webhook", "provider_url": None}
    return {
        str(channel): {**(direct if channel is Channel.WEBHOOK else gateway), **shared}
        for channel in Channel
    }


def faults(numbers: Numbers) -> list[str]:
    """Return every relation between the numbers that does not hold, one sentence each."""
    sender, queue, loop = numbers.sender, numbers.queue, numbers.loop
    database, functions = numbers.database, numbers.functions
    busy = DEPLOY_OVERLAP * numbers.reserved_concurrency
    supported = database.memory_gibibytes * 2**30 // RDS_BYTES_PER_CONNECTION
    relations = {
        "The provider deadline is shorter than the sender timeout.": (
            0 < sender.provider_deadline_seconds < sender.timeout_seconds
        ),
        "The lease outlives the visibility timeout.": sender.lease_margin_seconds > 0,
        "The queue allows at least five receives.": queue.receives >= 5,
        "A dead letter is kept longer than the message before it.": (
            queue.dead_letter_retention_seconds > queue.retention_seconds
        ),
        "The event source may use no more than the sender's reserved concurrency.": (
            2 <= sender.maximum_concurrency <= sender.reserved_concurrency
        ),
        "An event comes again for longer than an hour's outage of the database lasts.": (
            numbers.events.receives * numbers.event_visibility_seconds > 3600
        ),
        "The events leave a part of callbacks to what comes over HTTP.": (
            1 < numbers.events.maximum_concurrency < functions["callbacks"].reserved_concurrency
        ),
        "An event comes again for less long than it is recognised.": (
            numbers.doors.delivery_age_seconds + numbers.doors.event_age_seconds
            < RECOGNISED_SECONDS
        ),
        "A run of the claim loop outlives its schedule and ends before its timeout.": (
            60 * loop.schedule_minutes
            < loop.run_seconds
            < numbers.functions["claim"].timeout_seconds
        ),
        "Two runs of the claim loop may overlap, and no more.": (
            numbers.functions["claim"].reserved_concurrency == 2
        ),
        "All environments, twice during a deploy, fit into the connection budget.": (
            busy <= database.connection_budget
        ),
        "The instance class has the memory for its connections.": (
            database.max_connections <= supported
        ),
        "The reserved concurrency fits into an account.": (
            numbers.reserved_concurrency <= ACCOUNT_CONCURRENCY - UNRESERVED_CONCURRENCY
        ),
    }
    return [sentence for sentence, holds in relations.items() if not holds]


class Inconsistent(ValueError):
    """The numbers of a deployment contradict each other."""


def check(numbers: Numbers) -> Numbers:
    """Return ``numbers``; raise Inconsistent with every relation that does not hold."""
    if broken := faults(numbers):
        raise Inconsistent("These must hold and do not: " + " ".join(broken))
    return numbers
