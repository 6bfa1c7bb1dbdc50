"""The pairs of DESIGN §2: which status a row had when which event met it; and which cannot be.

An event *meets* a row when it is about it: a cancel, a report, a message, a command names it; a
claim, a sweep, a look finds it due. What then happens is the model's affair.
"""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

STATUSES = (
    "pending",
    "leased",
    "uncertain",
    "submitted",
    "delivered",
    "failed",
    "unconfirmed",
    "suppressed",
    "cancelled",
    "expired",
    "dead",
)


class Event(StrEnum):
    """What can meet a notification."""

    CLAIM = "claim"
    GIVEN_BACK = "queue refuses: lease given back"
    DEFERRED = "policy defers"
    FORBIDDEN = "policy suppresses"
    UNREADABLE = "unreadable content"
    UNFINISHED = "start that did not finish"
    FINISHED = "start that finished after all"
    BEGIN_GO = "begin: go"
    BEGIN_MINE = "begin: again, its answer was lost"
    BEGIN_STALE = "begin: stale"
    BEGIN_EXPIRED = "begin: expired"
    BEGIN_SUPPRESSED = "begin: suppressed"
    BEGIN_PAUSED = "begin: paused"
    BEGIN_HELD = "begin: held"
    REDRIVE = "raw redrive of an old message"
    CLOSE_ACCEPTED = "close: accepted"
    CLOSE_FINAL = "close: accepted final"
    CLOSE_REJECTED = "close: rejected"
    CLOSE_REFUSED = "close: refused"
    CLOSE_TRANSIENT = "close: transient"
    CLOSE_NOT_BEGUN = "close: not begun"
    CLOSE_THROTTLED = "close: throttled"
    CLOSE_BLOCKED = "close: blocked"
    CLOSE_UNKNOWN = "close: unknown"
    LATE_ACCEPTED = "late close: accepted"
    LATE_OTHER = "late close: not accepted"
    CLOSE_AGAIN = "close: again, known already"
    SWEEP_FREE = "sweep: lease over, no attempt"
    SWEEP_KEYED = "sweep: lease over, attempt open, keyed"
    SWEEP_KEYLESS = "sweep: lease over, attempt open, key-less"
    EXPIRY = "expiry"
    LOOK = "reconcile: a look"
    DECISION = "reconcile: cutoff or grace over"
    LOOKED_UP = "look-up: accepted"
    NEVER_ACCEPTED = "look-up: never accepted"
    NOTE = "receipt: rank 0"
    ACCEPTANCE = "receipt: rank 1, accepted"
    SOFT_FAILURE = "receipt: rank 2, soft failure"
    DELIVERY = "receipt: rank 3, delivered"
    COMPLAINT = "receipt: rank 3, complaint"
    HARD_FAILURE = "receipt: rank 4, hard failure"
    BY_ATTEMPT = "receipt: names an attempt in doubt"
    REPEATED = "receipt: again"
    OTHER_RECIPIENT = "receipt: of another recipient"
    ORPHAN = "receipt: orphan, matched"
    CANCEL = "cancel"
    FOREIGN_CANCEL = "cancel by another organization"
    SUPPRESSION = "suppression of its address"
    LIFTING = "lifting of a suppression"
    REQUEUE = "requeue"
    CONSENT = "requeue, may send twice"
    DISCARD = "discard"
    SETTLE_ACCEPTED = "settle: accepted"
    SETTLE_DELIVERED = "settle: delivered"
    SETTLE_NOT_ACCEPTED = "settle: not accepted"
    SETTLE_HOLD = "settle: hold"
    REPLAY = "receipts replay"
    RECOVER = "recover after a restore"


RANK_EVENTS = {
    0: Event.NOTE,
    1: Event.ACCEPTANCE,
    2: Event.SOFT_FAILURE,
    3: Event.DELIVERY,
    4: Event.HARD_FAILURE,
}

IMPOSSIBLE: Mapping[tuple[str, Event], str] = {}

Visits = Counter[tuple[str, str]]

ENOUGH, OF = 50, 10_000
"""Visits that each possible pair needs in this many histories."""


def complaints(visits: Visits, *, examples: int) -> list[str]:
    """Return what is wrong with the visits: possible pairs met too seldom, impossible ones met."""
    least = ENOUGH * examples // OF
    wrong: list[str] = []
    for event in Event:
        for status in STATUSES:
            number = visits[status, event]
            if (status, event) in IMPOSSIBLE:
                if number:
                    wrong.append(f"met {number} times, though impossible: {status}, {event}")
            elif number < least:
                wrong.append(f"met {number} times, not {least}: {status}, {event}")
    return wrong


def table(visits: Visits) -> str:
    """Return the visits as a table of events by statuses; a dash stands for what cannot be."""
    width = max(len(event) for event in Event)
    lines = [f"{'':{width}} " + " ".join(f"{status:>11}" for status in STATUSES)]
    for event in Event:
        cells = [
            "-"
            if (status, event) in IMPOSSIBLE and not visits[status, event]
            else str(visits[status, event])
            for status in STATUSES
        ]
        lines.append(f"{event:{width}} " + " ".join(f"{cell:>11}" for cell in cells))
    return "\n".join(lines)
