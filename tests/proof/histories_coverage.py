"""The pairs of DESIGN §2: which status a row had when which event met it; and which cannot be.

An event *meets* a row when it is about it: a cancel, a report, a message, a command names it; a
claim, a sweep, a look finds it due. What then happens is the model's affair.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
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

WAITING = frozenset({"submitted", "uncertain"})
WITH_AN_ATTEMPT = frozenset({"leased", "submitted", "delivered", "failed", "unconfirmed", "dead"})
"""Rows that may have an attempt open: under their lease, or still, after evidence or a crash loop
has moved them."""

NEVER_SENT = frozenset({"suppressed", "cancelled", "expired"})
EVERY = frozenset(STATUSES)

OPENS = "an attempt opens under the lease of a leased row; for every other a message is stale"
CLAIMS = "a claim takes pending rows; what it took is leased when the queue or policy refuses it"
CLOSES = "a row of this status has no attempt open, nor one in doubt that its lease still holds"
SETTLED = "no attempt of a row of this status is in doubt"

POSSIBLE: Mapping[Event, tuple[frozenset[str], str]] = {
    Event.CLAIM: (frozenset({"pending"}), CLAIMS),
    Event.GIVEN_BACK: (frozenset({"leased"}), CLAIMS),
    Event.DEFERRED: (frozenset({"leased"}), CLAIMS),
    Event.FORBIDDEN: (frozenset({"leased"}), CLAIMS),
    Event.BEGIN_GO: (frozenset({"leased"}), OPENS),
    Event.BEGIN_EXPIRED: (frozenset({"leased"}), OPENS),
    Event.BEGIN_SUPPRESSED: (frozenset({"leased"}), OPENS),
    Event.BEGIN_PAUSED: (frozenset({"leased"}), OPENS),
    Event.BEGIN_HELD: (frozenset({"leased"}), OPENS),
    **{
        Event(f"close: {outcome}"): (WITH_AN_ATTEMPT | {"uncertain"}, CLOSES)
        for outcome in (
            "accepted",
            "accepted final",
            "rejected",
            "refused",
            "transient",
            "not begun",
            "throttled",
            "blocked",
        )
    },
    Event.CLOSE_UNKNOWN: (
        WITH_AN_ATTEMPT,
        "a row of this status has no attempt open; an uncertain row's is unknown already",
    ),
    Event.LATE_OTHER: (EVERY - NEVER_SENT, SETTLED),
    Event.SWEEP_FREE: (frozenset({"leased"}), "only a leased row has a lease without an attempt"),
    Event.SWEEP_KEYED: (WITH_AN_ATTEMPT, CLOSES),
    Event.SWEEP_KEYLESS: (WITH_AN_ATTEMPT, CLOSES),
    Event.EXPIRY: (
        frozenset({"pending"}),
        "expiry ends pending rows; begin looks at a leased one's, reconcile at an uncertain one's",
    ),
    Event.LOOK: (WAITING, "reconcile looks at submitted and uncertain rows"),
    Event.DECISION: (WAITING, "reconcile looks at submitted and uncertain rows"),
    Event.LOOKED_UP: (WAITING, "reconcile asks about submitted and uncertain rows"),
    Event.NEVER_ACCEPTED: (WAITING, "reconcile asks about submitted and uncertain rows"),
    Event.BY_ATTEMPT: (EVERY - NEVER_SENT, SETTLED),
    Event.ORPHAN: (
        frozenset({"submitted", "delivered", "failed", "unconfirmed", "suppressed", "cancelled"}),
        "only an accepted attempt's reference is known, and acceptance moves a row out of this",
    ),
    Event.RECOVER: (
        frozenset({"pending", "leased"}),
        "only what was to be sent may have been sent in the lost part of history",
    ),
}
"""Statuses that an event can meet, and why no others."""

IMPOSSIBLE: Mapping[tuple[str, Event], str] = {
    (status, event): reason
    for event, (possible, reason) in POSSIBLE.items()
    for status in STATUSES
    if status not in possible
}

Visits = Counter[tuple[str, str]]

ENOUGH, OF = 50, 10_000
"""Visits that each possible pair needs in this many histories."""


def together(parts: Iterable[Visits]) -> Visits:
    """Return the visits of all workers."""
    return sum(parts, Counter[tuple[str, str]]())


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
    return "\n".join([*lines, "", "- cannot be:", *_reasons()])


def _reasons() -> list[str]:
    """Return why each dash stands where it does, a line per event."""
    return [
        f"{event}: {', '.join(status for status in STATUSES if status not in possible)}: {reason}"
        for event, (possible, reason) in POSSIBLE.items()
    ]
