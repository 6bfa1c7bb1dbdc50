"""The provider's own ledger: every call, what took effect under which key, and what it reports.

What a recipient does is its local part (``prompt@example.com``):

prompt        accepted; the report comes soon
early         accepted; the report comes before the answer does
late          accepted; the report comes when everything else is over
by_reference  accepted; a prompt report that names the provider's id and not our key
silent        accepted; no report ever comes
asked         accepted; no report ever comes, but who asks is told that it was delivered
bounce        accepted; a prompt report of a permanent bounce
transient     turned away the first time, then prompt
throttled     asked to slow down the first time, then prompt
lost          accepted, but the first answer says nothing; then prompt
vanished      the first call gets no answer and was not accepted; then prompt
reject        refused for good
refuse        refused for good: the address opted out
cancelled     prompt; and its client withdraws it as soon as something went wrong
suppressed    prompt; and its organization suppresses it as soon as something went wrong
expired       prompt; but its time is over before it is claimed
told          accepted; its report is what the function is called with
told_bounce   the same, with a report of a permanent bounce
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from functions.core.evidence import Rank, Receipt
from functions.core.outcome import (
    Accepted,
    Outcome,
    Refused,
    Rejected,
    Throttled,
    Transient,
    Unknown,
)
from functions.providers.http_report import PROVIDER, RANKS
from functions.providers.provider import NeverAccepted

DOOR = PROVIDER
"""The provider under whose name the reports of both providers come."""

NEVER_ACCEPTED = frozenset({"reject", "refuse"})
UNREPORTED = frozenset({"silent", "asked", "told", "told_bounce"})


def kind_of(recipient: str) -> str:
    return recipient.partition("@")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request as the provider got it."""

    key: str
    notification_id: UUID
    attempt_id: UUID
    recipient: str

    @property
    def kind(self) -> str:
        return kind_of(self.recipient)

    @property
    def is_keyed(self) -> bool:
        """Whether the key is the notification's, and no name of the attempt alone."""
        return self.key == str(self.notification_id)


@dataclass(slots=True, kw_only=True)
class Effect:
    """Something somebody received; ``at`` is by the clock of the world (unix seconds)."""

    call: Call
    reference: str
    at: float
    is_reported: bool = False


@dataclass(slots=True, kw_only=True)
class Ledger:
    """``check`` is told of each call before it is taken, ``soon`` of effects to report at once."""

    clock: Callable[[], float]
    check: Callable[[Call], None]
    soon: Callable[[Effect], None]
    calls: list[Call] = field(default_factory=list[Call])
    effects: list[Effect] = field(default_factory=list[Effect])

    def submit(self, call: Call) -> Outcome:
        """Take a call as a provider does, with a memory for keys if it has promised one."""
        self.check(call)
        is_first = all(before.notification_id != call.notification_id for before in self.calls)
        self.calls.append(call)
        match call.kind:
            case "reject":
                return Rejected(code="400", http_status=400)
            case "refuse":
                return Refused(code="410", http_status=410)
            case "transient" if is_first:
                return Transient(code="408", http_status=408)
            case "throttled" if is_first:
                return Throttled(code="429", http_status=429, retry_after_seconds=60)
            case "vanished" if is_first:
                return Unknown(code="timeout")
            case "lost" if is_first:
                self._take(call)
                return Unknown(code="timeout")
            case _:
                return Accepted(reference=self._take(call).reference, http_status=200)

    def _take(self, call: Call) -> Effect:
        known = [effect for effect in self.effects if effect.call.key == call.key]
        if call.is_keyed and known:
            return known[0]
        effect = Effect(call=call, reference=f"m-{len(self.effects) + 1}", at=self.clock())
        self.effects.append(effect)
        if call.kind == "early":
            self.soon(effect)
        return effect

    def look_up(self, key: str) -> Receipt | NeverAccepted:
        """Say what became of a key."""
        known = [effect for effect in self.effects if effect.call.key == key]
        if not known:
            return NeverAccepted()
        status = "delivered" if known[0].call.kind == "asked" else "accepted"
        return Receipt(
            provider=DOOR,
            event_key=f"look-up:{key}:{status}",
            type=status,
            rank=RANKS[status],
            occurred_at=None,
            idempotency_key=key,
            reference=known[0].reference,
        )

    def unreported(self, *, is_late: bool) -> list[Effect]:
        """Return the effects whose report is still to come: the prompt ones, or the late ones."""
        return [
            effect
            for effect in self.effects
            if not effect.is_reported
            and effect.call.kind not in UNREPORTED
            and (effect.call.kind == "late") == is_late
        ]

    @property
    def per_notification(self) -> Counter[UUID]:
        """How often each notification took effect."""
        return Counter(effect.call.notification_id for effect in self.effects)


def receipt_of(effect: Effect, *, occurred_at: datetime) -> Receipt:
    """Return what the provider reports about an effect."""
    kind = effect.call.kind
    bounced = kind == "bounce"
    return Receipt(
        provider=DOOR,
        event_key=f"event-{effect.reference}",
        type="bounced" if bounced else "delivered",
        rank=Rank.HARD_FAILURE if bounced else Rank.DELIVERED,
        occurred_at=occurred_at,
        idempotency_key=None if kind == "by_reference" else effect.call.key,
        reference=effect.reference,
        permanent=bounced,
        address_at_fault=bounced,
    )
