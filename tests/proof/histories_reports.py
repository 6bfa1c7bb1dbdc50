"""What a provider may report in a random history: about which attempt, by which name, how late."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from tests.proof.histories_gateway import BY_NAME
from tests.proof.histories_rows import Row
from tests.proof.histories_world import RECIPIENTS, Told, World, hash_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """As drawn: ``age`` is how long ago it happened, in seconds; a clock may be ahead of ours."""

    rank: int
    age: int = 0
    names: str = "key"
    recipient: str = "its own"
    complaint: bool = False
    at_fault: bool = False


def told_of(world: World, row: Row, report: Report, *, number: int) -> Told:
    """Return the report about ``row``, as its provider makes it: of an attempt, if there is one."""
    made = [one for one in world.gateways.made if one.id == row.id]
    provider = made[-1].provider if made else world.providers[row.channel]
    reference = made[-1].reference if made and report.names == "reference" else None
    key = None if reference else _key_of(world, row, report, provider)
    return Told(
        event_key=f"event-{number:03}",
        rank=report.rank,
        at=world.now - timedelta(seconds=report.age),
        door=BY_NAME[provider].door,
        key=key,
        reference=reference,
        recipient_hash=_recipient_of(world, row, report),
        complaint=report.complaint and report.rank == 3,
        at_fault=report.at_fault and (report.rank == 4 or (report.complaint and report.rank == 3)),
    )


def _key_of(world: World, row: Row, report: Report, provider: str) -> str:
    attempts = world.seen.doubts(row.id) or list(world.seen.attempts.get(row.id, ()))
    if attempts and (report.names == "attempt" or not BY_NAME[provider].keyed):
        return f"{row.id}.{attempts[-1].id}"
    return f"{row.id}.{row.key_epoch}" if row.key_epoch else str(row.id)


def _recipient_of(world: World, row: Row, report: Report) -> bytes | None:
    match report.recipient:
        case "its own":
            return row.recipient_hash
        case "another":
            own = world.known[row.id].recipient
            (other,) = (one for one in RECIPIENTS if one != own)
            return hash_for(row.channel, other)
        case _:
            return None


def last_word_of(world: World, id: UUID) -> Told | None:
    """Return the newest report about a notification, to be told again."""
    return next((one for one in reversed(world.told.values()) if one.notification == id), None)
