"""What DESIGN §2 says becomes of one notification, event by event; written without the product.

Each function takes the row before the event and returns what the row may be afterwards. Most events
have one answer; where a random wait decides, there are several. Columns whose exact value is the
store's own affair are loose; every other one must be as said, and so must every row that an event
does not concern.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

from tests.proof.histories_rows import Row

FINAL = frozenset({"delivered", "failed", "unconfirmed", "suppressed", "cancelled", "expired"})
ENDED_BY_US = frozenset({"cancelled", "suppressed"})
MAX_STARTS = 5

LOOSE = frozenset({"ready", "final_at", "next_check_at", "submitted_at"})
"""Checked by what they lead to and by the invariants of every step."""

ROUNDING = timedelta(milliseconds=1)

Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A row as it may be; times ``within`` a span, ``loose`` columns as they like."""

    row: Row
    loose: frozenset[str] = LOOSE
    within: Mapping[str, Span] = field(default_factory=dict[str, Span])

    def differences(self, found: Row) -> list[str]:
        """Return what is other than expected, in words."""
        return [text for column in _COLUMNS if (text := self._difference(column, found))]

    def _difference(self, column: str, found: Row) -> str | None:
        value = getattr(found, column)
        if column in self.within:
            earliest, latest = self.within[column]
            if value is not None and earliest - ROUNDING <= value <= latest + ROUNDING:
                return None
            return f"{column} is {value}, not within {earliest} and {latest}"
        expected = getattr(self.row, column)
        if column in self.loose or value == expected or _about_equal(value, expected):
            return None
        return f"{column} is {value}, not {expected}"


_COLUMNS = [column.name for column in fields(Row)]


def _about_equal(one: Any, other: Any) -> bool:
    return (
        isinstance(one, datetime) and isinstance(other, datetime) and abs(one - other) <= ROUNDING
    )


def same(row: Row) -> Expected:
    """Nothing of the row may change; only that its time has come may be noted."""
    return Expected(row=row, loose=frozenset({"ready"}))


def changed(row: Row, *, within: Mapping[str, Span] | None = None, **columns: Any) -> Expected:
    """Return the row with ``columns`` changed; when it is due says nothing once it has rested."""
    after = replace(row, **columns)
    loose = LOOSE if after.status in ("pending", "leased") else LOOSE | {"available_at"}
    return Expected(row=after, loose=loose, within=within or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What a channel declares; seconds."""

    lease: float
    base: float
    cap: float
    waiting_limit: float
    cutoff: float
    grace: float
    policy: str

    def backoff(self, spent: int) -> tuple[float, float]:
        """Return the shortest and the longest wait after ``spent`` attempts."""
        d = min(self.base * 2 ** (max(spent, 1) - 1), self.cap)
        return d / 2, d


# Policy's own ends, which leave no lease behind.


def ended(row: Row, status: str, reason: str | None) -> Expected:
    """End the row by ``expired`` or ``suppressed``: while in doubt that is unconfirmed."""
    status = "unconfirmed" if row.in_doubt else status
    return changed(row, status=status, reason=reason, lease_until=None, decide_at=None)


def claimed(row: Row, *, now: datetime, lease_seconds: float) -> Expected:
    return changed(
        row,
        status="leased",
        reason=None,
        lease_number=row.lease_number + 1,
        lease_until=now + timedelta(seconds=lease_seconds),
    )


def given_back(row: Row) -> Expected:
    return changed(row, status="pending", lease_until=None)


def deferred(row: Row, *, until: datetime, reason: str) -> Expected:
    return changed(row, status="pending", reason=reason, lease_until=None, available_at=until)


def held(row: Row, reason: str) -> Expected:
    """Hold the row for a person; an open attempt keeps its lease, so that the sweep closes it."""
    lease_until = row.lease_until if row.attempt_id is not None else None
    return changed(row, status="dead", reason=reason, lease_until=lease_until)


def started(row: Row) -> Expected:
    """Count a start that an earlier one did not finish; the fifth is a crash loop."""
    if row.status not in ("pending", "leased"):
        return same(row)
    again = replace(row, starts=row.starts + 1)
    if again.starts >= MAX_STARTS:
        return held(again, "crash_loop")
    return changed(again)


def cancelled(row: Row) -> Expected | None:
    """Return the cancelled row; None where it is too late (409)."""
    if row.status == "cancelled":
        return same(row)
    may = row.status in ("pending", "leased") and row.attempt_id is None
    if not may or row.in_doubt or row.evidence_rank:
        return None
    return changed(row, status="cancelled", reason=None, lease_until=None)


def begun(row: Row, *, token: Any, provider: str, now: datetime, remaining: float) -> Expected:
    until = now + timedelta(seconds=remaining)
    return changed(
        row,
        attempt_id=token,
        attempts_spent=row.attempts_spent + 1,
        provider=provider,
        key_first_used_at=row.key_first_used_at or now,
        lease_until=max(row.lease_until or until, until),
    )


def opening_verdict(
    row: Row, *, lease: int, token: Any, now: datetime, suppressed: bool, paused: bool, unsafe: bool
) -> str:
    """Return what an opening must come to; ``unsafe``: a doubt that the provider's key does not
    (or no longer) make harmless."""
    live = row.status == "leased" and row.lease_until is not None and row.lease_until > now
    if live and row.attempt_id is not None and row.attempt_id == token:
        return "mine"
    if not live or row.lease_number != lease or row.attempt_id is not None:
        return "stale"
    if row.expires_at is not None and row.expires_at <= now:
        return "expired"
    if suppressed:
        return "suppressed"
    if paused:
        return "paused"
    return "held" if unsafe else "go"


def after_opening(row: Row, verdict: str) -> Expected:
    """Return the row after an opening that opens nothing."""
    match verdict:
        case "expired" | "suppressed":
            return ended(row, verdict, verdict)
        case "paused":
            return changed(row, status="pending", reason=None, lease_until=None)
        case "held":
            return held(row, "outcome_unknown")
        case _:
            return same(row)


def stopped(
    row: Row, *, now: datetime, delay: tuple[float, float], doubtful: bool
) -> list[Expected]:
    """Return the row due again after a wait, or ended where that is past its expiry."""
    earliest, latest = (now + timedelta(seconds=seconds) for seconds in delay)
    answers: list[Expected] = []
    if row.expires_at is None or earliest < row.expires_at:
        answers.append(
            changed(row, status="pending", reason=None, within={"available_at": (earliest, latest)})
        )
    if row.expires_at is not None and latest >= row.expires_at:
        status = "unconfirmed" if doubtful else "expired"
        answers.append(changed(row, status=status, reason="expired"))
    return answers


def swept(
    row: Row, *, opened: bool, vouched: bool, keyed: bool, now: datetime, numbers: Numbers
) -> list[Expected]:
    """Take back a lease that ran out; ``opened``: its attempt is open, and unknown from now on,
    unless a report has ``vouched`` for it."""
    doubt = opened and not vouched
    free = replace(row, lease_until=None, attempt_id=None, in_doubt=row.in_doubt + doubt)
    if row.status != "leased":
        return [changed(free)]
    if not opened:
        return [changed(free, status="pending", reason=None)]
    if not keyed:
        grace = now + timedelta(seconds=numbers.grace)
        kept = replace(free, attempt_id=row.attempt_id)
        return [changed(kept, status="uncertain", reason=None, decide_at=grace)]
    if row.attempts_spent >= row.max_attempts:
        return [changed(free, status="dead", reason="outcome_unknown")]
    return stopped(free, now=now, delay=numbers.backoff(row.attempts_spent), doubtful=True)


def reconciled(
    row: Row, *, now: datetime, numbers: Numbers, keyed: bool, asked: bool
) -> list[Expected]:
    """Look at a row whose check is due: its cutoff, or the end of its grace. One whose provider is
    being ``asked`` waits for the answer."""
    if row.status == "submitted":
        cutoff = (row.submitted_at or now) + timedelta(seconds=numbers.cutoff)
        if cutoff <= now:
            return [changed(row, status="unconfirmed", reason="no_receipt_by_cutoff")]
        return [changed(row)]
    if asked or row.decide_at is None or row.decide_at > now:
        return [changed(row)]
    free = replace(row, attempt_id=None, decide_at=None)
    over = row.expires_at is not None and row.expires_at <= now
    ended_in_doubt = changed(free, status="unconfirmed", reason="expired")
    if (numbers.policy == "hold" and not keyed) or row.attempts_spent >= row.max_attempts:
        answers = [changed(free, status="dead", reason="outcome_unknown")]
        return [*answers, ended_in_doubt] if over else answers
    if over:
        return [ended_in_doubt]
    return [changed(free, status="pending", reason=None, available_at=now)]
