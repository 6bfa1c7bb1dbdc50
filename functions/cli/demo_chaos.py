"""What a demo accepts more while `sendoff chaos` runs beside it, and why; nothing without it.

The kills are read from the record in the state folder. Of a kill that meets a notification, the
contract allows, and the local providers all keep keys, so a retry is safe:

killed                  what is lost, and what becomes of it
claim                   leases before their messages: swept, due again, nothing spent: no other end
sender, emulator,       an attempt that is open is swept as ``unknown`` (``lease_expired``) and is
PostgreSQL              spent. If nothing but such attempts and the failures of the recipient's own
                        behaviour fills the budget: dead, ``outcome_unknown``
sender, emulator        handler starts that never finish; with the fifth: dead, ``crash_loop``

So much may an end differ, when the notification's own attempts show it. The provider may have
accepted it at most once. A provider that then reports moves the row out of ``dead``, so of these
recipients none may have been reached. A late callback is waited for, not excused.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from functions.cli.chaos_record import Kill, Target
from functions.cli.demo_verdict import Item, Seen
from functions.core.states import MAX_STARTS, Channel, Reason, Status
from infra.local.simulator_behaviour import Kind, behaviour_of

ENDS_ATTEMPTS = frozenset({Target.SENDER, Target.POSTGRES, Target.EMULATOR})
ENDS_STARTS = frozenset({Target.SENDER, Target.EMULATOR})

LOST_OUTCOME, LOST_CODE = "unknown", "lease_expired"
"""What the sweep writes for an attempt that nobody closed."""
CALL_SECONDS = timedelta(seconds=5)
"""How long an attempt is open at most: the local timeout of a sender."""
SLACK = timedelta(seconds=1)
"""Between a kill and its record."""

_UNREPORTED = frozenset({Kind.SILENT, Kind.HANG, Kind.DROP})
"""Accepted and perhaps never reported; webhooks are not reported at all."""


def excuse(seen: Seen, detail: Mapping[str, Any], kills: Sequence[Kill]) -> str | None:
    """Return why the kills make this end right; None when they do not.

    ``detail`` is the notification as ``GET /v1/notifications/{id}`` shows it.
    """
    if seen.status != Status.DEAD or seen.is_suppressed or not _may_have(seen.effects, seen.item):
        return None
    match seen.reason:
        case Reason.OUTCOME_UNKNOWN if _spent_by_kills(seen.item, detail, kills):
            return "the kills spent its attempts"
        case Reason.CRASH_LOOP if _starts_ended(detail, kills) >= MAX_STARTS:
            return "the kills ended its starts"
        case _:
            return None


def _may_have(effects: int, item: Item) -> bool:
    """Whether a dead notification to this recipient may have taken effect so often."""
    is_unreported = item.channel == Channel.WEBHOOK or item.kind in _UNREPORTED
    return effects == 0 or (effects == 1 and is_unreported)


def _spent_by_kills(item: Item, detail: Mapping[str, Any], kills: Sequence[Kill]) -> bool:
    """Whether the budget lacks exactly what kills took: with it, an attempt would have passed."""
    lost = sum(_is_lost_by(kills, attempt) for attempt in detail["attempts"])
    return lost > 0 and lost + _failures_of(item) >= detail["max_attempts"]


def _failures_of(item: Item) -> int:
    """Return how many attempts the recipient's behaviour spends before one that passes."""
    behaviour = behaviour_of(item.channel, item.recipient)
    match behaviour.kind:
        case Kind.FLAKY:
            return behaviour.number
        case Kind.HANG | Kind.DROP:
            return 1
        case _:
            return 0


def _is_lost_by(kills: Sequence[Kill], attempt: Mapping[str, Any]) -> bool:
    """Whether nobody closed the attempt, and something was killed while it was open."""
    if attempt["outcome"] != LOST_OUTCOME or attempt["code"] != LOST_CODE:
        return False
    begun_at = datetime.fromisoformat(attempt["started_at"])
    return any(
        kill.target in ENDS_ATTEMPTS and begun_at - SLACK <= kill.at <= begun_at + CALL_SECONDS
        for kill in kills
    )


def _starts_ended(detail: Mapping[str, Any], kills: Sequence[Kill]) -> int:
    """Return how many kills may have ended a handler's start on this notification."""
    created_at = datetime.fromisoformat(detail["created_at"])
    return sum(kill.target in ENDS_STARTS and kill.at >= created_at for kill in kills)
