"""Whether every notification of the demo ended as its recipient said, with as many effects."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from functions.cli.demo_expectation import Expectation, expected_end
from functions.core.states import Channel
from infra.local.simulator_behaviour import Kind, behaviour_of

UUID7 = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One notification that was accepted."""

    id: str
    channel: str
    recipient: str

    @property
    def expected(self) -> Expectation:
        return expected_end(self.channel, self.recipient)

    @property
    def kind(self) -> Kind:
        return behaviour_of(self.channel, self.recipient).kind

    @property
    def address(self) -> tuple[str, str]:
        return address_of(self.channel, self.recipient)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What became of one notification."""

    item: Item
    status: str
    reason: str | None
    effects: int
    is_suppressed: bool
    ended_at: datetime | None
    excuse: str | None = None
    """Why another end than expected is right all the same (demo_chaos)."""

    @property
    def faults(self) -> list[str]:
        """What is not as expected, in words; empty when all is, or when there is an excuse."""
        expected = self.item.expected
        faults: list[str] = []
        if self.excuse:
            return faults
        if self.status != expected.status:
            why = f" ({self.reason})" if self.reason else ""
            faults.append(f"expected {expected.status}, is {self.status}{why}")
        if self.effects != expected.effects:
            faults.append(f"expected {expected.effects} effects, saw {self.effects}")
        if self.is_suppressed != expected.is_suppressed:
            wanted = "is not" if expected.is_suppressed else "is"
            faults.append(f"the address {wanted} suppressed")
        return faults


def address_of(channel: str, recipient: str) -> tuple[str, str]:
    """Return what tells two recipients apart; email addresses without case."""
    return channel, recipient.lower() if channel == Channel.EMAIL else recipient


def judge(
    items: Sequence[Item],
    *,
    notifications: Iterable[Mapping[str, Any]],
    effects: Iterable[Mapping[str, Any]],
    suppressions: Iterable[Mapping[str, Any]],
) -> list[Seen]:
    """Return what became of each item; one that the API does not know is ``missing``."""
    found = {one["id"]: one for one in notifications}
    counts = count_effects(items, effects)
    suppressed = {
        address_of(one["channel"], one["recipient"])
        for one in suppressions
        if one["recipient"] is not None
    }
    return [
        Seen(
            item=item,
            status=found.get(item.id, {}).get("status", "missing"),
            reason=found.get(item.id, {}).get("reason"),
            effects=counts[item.id],
            is_suppressed=item.address in suppressed,
            ended_at=_ended_at(found.get(item.id, {})),
        )
        for item in items
    ]


def count_effects(items: Sequence[Item], effects: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Return effects by notification id, whatever key they came under.

    The simulator counts one effect per key, so a doubled delivery shows as a second key. An effect
    that reached one of our recipients and names none of our notifications is such a one, unless
    it belongs to a notification from before: a demo that was broken off may still be delivering.
    """
    ids = {item.id for item in items}
    at = {(item.channel, item.recipient): item.id for item in items}
    first = min(ids, default="")
    counts: Counter[str] = Counter()
    for effect in effects:
        owner = _owner(effect)
        if owner in ids:
            counts[owner] += 1
            continue
        same = at.get((effect["channel"], effect["recipient"]))
        if same is not None and not _is_older(owner, first):
            counts[same] += 1
    return counts


def _owner(effect: Mapping[str, Any]) -> str:
    """Return the id of the notification behind an effect: in a gateway's request, or in the key."""
    body = effect["body"]
    if isinstance(body, dict) and "notification_id" in body:
        return str(cast(dict[str, Any], body)["notification_id"])
    return (effect["idempotency_key"] or "").partition(".")[0]


def _is_older(owner: str, first: str) -> bool:
    """Whether ``owner`` is a notification accepted before ours: ids of version 7 grow with time."""
    try:
        return UUID(owner).version == UUID7 and UUID(owner) < UUID(first)
    except ValueError:
        return False


def _ended_at(notification: Mapping[str, Any]) -> datetime | None:
    """Return when a final notification became so; a held one has no such time but its last."""
    text = notification.get("final_at") or notification.get("updated_at")
    return datetime.fromisoformat(text) if text else None
