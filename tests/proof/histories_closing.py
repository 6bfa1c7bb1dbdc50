"""What DESIGN §2 says an attempt's outcome does to its notification, in time and late."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from tests.proof.histories_model import Expected, Numbers, changed, held, same, stopped
from tests.proof.histories_proving import Evidence, evidence, evidence_of, proven
from tests.proof.histories_rows import Attempt, Row

RANK_OF_OUTCOME = {"accepted": 1, "accepted final": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What a sender says its attempt came to."""

    token: UUID
    outcome: str
    """As an attempt's; ``accepted final`` where acceptance is delivery, ``not begun`` for an
    attempt given back before anything was written."""
    keyed: bool
    receipts: bool
    again_seconds: float
    vouched: bool = False
    """A report has told already that the attempt was accepted."""
    alone: bool = True
    """No attempt of another provider is in doubt."""

    @property
    def stored(self) -> str:
        """The outcome as the ledger has it; what a report has told of is not unknown."""
        if self.outcome == "unknown" and self.vouched:
            return "accepted"
        return {"accepted final": "accepted", "not begun": "transient"}.get(
            self.outcome, self.outcome
        )

    @property
    def spends(self) -> bool:
        return self.outcome not in ("throttled", "blocked", "not begun")

    @property
    def waits(self) -> bool:
        return self.outcome in ("throttled", "blocked")

    @property
    def rank(self) -> int:
        return RANK_OF_OUTCOME.get(self.outcome, 0)

    def evidence(self, at: datetime) -> Evidence | None:
        return evidence(self.rank, at, str(self.token)) if self.rank else None


def is_news(attempt: Attempt | None, word: Word) -> bool:
    """Whether the ledger takes the word: the first, a known outcome after an unknown one, and proof
    of acceptance after whatever had been concluded."""
    if attempt is None:
        return False
    if attempt.outcome == "unknown":
        return word.stored != "unknown"
    return attempt.outcome is None or word.rank > attempt.evidence_rank


def closed(
    row: Row, attempt: Attempt | None, word: Word, *, now: datetime, numbers: Numbers
) -> list[Expected]:
    """Return what the row may be after ``word`` about one of its attempts."""
    if attempt is None or not is_news(attempt, word):
        return [same(row)]
    doubt = (word.stored == "unknown") - (attempt.outcome == "unknown")
    known = replace(row, in_doubt=row.in_doubt + doubt)
    mine = row.attempt_id == word.token
    undecided = row.evidence_rank == 0 and row.status in ("leased", "uncertain")
    if mine:
        kept = undecided and word.stored == "unknown" and not word.keyed
        known = replace(
            known,
            attempt_id=row.attempt_id if kept else None,
            lease_until=None,
            attempts_spent=row.attempts_spent - (not word.spends),
            starts=0,
            waiting_since=(row.waiting_since or now) if word.waits else None,
        )
    new = word.evidence(attempt.finished_at or now)
    old = evidence_of(row)
    if new is not None and (old is None or new < old):
        return _accepted(known, new, word)
    if not mine and row.status == "uncertain" and known.in_doubt == 0:
        return not_accepted(known, now=now)
    if not mine or not undecided:
        return [same(row)] if known == row else [changed(known)]
    return _decided(known, word, now=now, numbers=numbers)


def _accepted(row: Row, new: Evidence, word: Word) -> list[Expected]:
    """Acceptance is evidence, whoever brings it; without receipts there is nothing to wait for."""
    if new.rank == 1 and not word.receipts:
        return proven(row, new, reasons=["provider_gives_no_receipts"], status="unconfirmed")
    return proven(row, new, reasons=[None])


def _decided(row: Row, word: Word, *, now: datetime, numbers: Numbers) -> list[Expected]:
    """The row waits for this very outcome, and no evidence stands against it."""
    doubtful = row.in_doubt > 0
    match word.stored:
        case "refused":
            status = "unconfirmed" if doubtful else "suppressed"
            return [changed(row, status=status, reason="refused", decide_at=None)]
        case "unknown" if not word.keyed:
            grace = now + timedelta(seconds=numbers.grace)
            return [changed(row, status="uncertain", reason=None, decide_at=grace)]
        case "rejected":
            refuted = word.keyed and word.alone  # a key's refusal speaks for its earlier attempts
            reason = "rejected" if refuted or not doubtful else "outcome_unknown"
            return [_without_grace(held(row, reason))]
        case _:
            return _again(row, word, now=now, numbers=numbers, doubtful=doubtful)


def _again(
    row: Row, word: Word, *, now: datetime, numbers: Numbers, doubtful: bool
) -> list[Expected]:
    """Due again after a wait, unless the budget, the patience or the time is at its end."""
    row = replace(row, decide_at=None)
    if word.spends and row.attempts_spent >= row.max_attempts:
        return [held(row, "outcome_unknown" if doubtful else "budget_spent")]
    waited = now - row.waiting_since if row.waiting_since else timedelta()
    if word.waits and waited >= timedelta(seconds=numbers.waiting_limit):
        return [held(row, "waited_too_long")]
    longest = min(waited.total_seconds(), numbers.cap) if word.waits else 0.0
    wait = max(word.again_seconds, longest / 2), max(word.again_seconds, longest)
    return stopped(row, now=now, delay=wait, doubtful=doubtful)


def _without_grace(expected: Expected) -> Expected:
    return replace(expected, row=replace(expected.row, decide_at=None))


def not_accepted(row: Row, *, now: datetime, left: int = 0) -> list[Expected]:
    """Return the row once it is known that nothing of it was accepted: due again, while budget
    and time last. ``left`` attempts are in doubt all the same: another provider's."""
    free = replace(row, attempt_id=None, decide_at=None, in_doubt=left)
    if left:
        return [changed(free, decide_at=row.decide_at)]
    if row.status == "dead" and row.reason != "outcome_unknown":
        return [changed(free)]  # held for another reason, which stays
    if row.attempts_spent >= row.max_attempts:
        return [changed(free, status="dead", reason="budget_spent")]
    return stopped(free, now=now, delay=(0.0, 0.0), doubtful=False)
