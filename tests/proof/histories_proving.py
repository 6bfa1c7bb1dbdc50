"""What DESIGN §2 says evidence does: the strongest decides, whoever brings it and whenever."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tests.proof.histories_model import ENDED_BY_US, LOOSE, Expected, changed, same
from tests.proof.histories_rows import Row

STATUS_OF_RANK = {1: "submitted", 2: "failed", 3: "delivered", 4: "failed"}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Evidence:
    """Stronger evidence sorts first: by rank, then the earlier, then the key."""

    weakness: int
    at: datetime
    key: str

    @property
    def rank(self) -> int:
        return -self.weakness


def evidence(rank: int, at: datetime, key: str) -> Evidence:
    return Evidence(weakness=-rank, at=at, key=key)


def strongest(all: Iterable[Evidence]) -> Evidence | None:
    """Return what decides; notes (rank 0) prove nothing."""
    return min((one for one in all if one.rank > 0), default=None)


def evidence_of(row: Row) -> Evidence | None:
    if row.evidence_rank == 0 or row.evidence_at is None or row.evidence_key is None:
        return None
    return evidence(row.evidence_rank, row.evidence_at, row.evidence_key)


def proven(
    row: Row,
    new: Evidence | None,
    *,
    reasons: Sequence[str | None],
    complained: bool = False,
    resolved: int = 0,
    status: str | None = None,
) -> list[Expected]:
    """Let evidence decide: the strongest, if it is better than what the row has.

    ``resolved`` attempts of unknown outcome were accepted, as the evidence names them.
    """
    now_known = replace(
        row, in_doubt=row.in_doubt - resolved, complained=row.complained or complained
    )
    old = evidence_of(row)
    if new is None or (old is not None and not new < old):
        return [same(row)] if now_known == row else [changed(now_known)]
    now_known = replace(now_known, evidence_rank=new.rank, evidence_at=new.at, evidence_key=new.key)
    if row.status in ENDED_BY_US:
        return [changed(now_known)]
    attempt_id = None if row.status == "uncertain" else row.attempt_id
    moved = replace(
        now_known,
        status=status or STATUS_OF_RANK[new.rank],
        attempt_id=attempt_id,
        lease_until=row.lease_until if attempt_id is not None else None,
        discarded_at=None,
        decide_at=None,
    )
    return [changed(moved, reason=reason) for reason in reasons]


def rejudged(row: Row, new: Evidence | None, *, resolved: int = 0) -> list[Expected]:
    """Recompute the row from all the evidence there is now, which may be less than before."""
    row = replace(row, in_doubt=row.in_doubt - resolved)
    if new == evidence_of(row):
        return [Expected(row=row, loose=LOOSE | {"reason"})]
    known = replace(
        row,
        evidence_rank=new.rank if new else 0,
        evidence_at=new.at if new else None,
        evidence_key=new.key if new else None,
    )
    if row.status in ENDED_BY_US:
        return [changed(known)]
    loose = LOOSE | {"reason", "discarded_at"}
    if new is not None and new.rank == row.evidence_rank:
        return [Expected(row=known, loose=loose)]
    attempt_id = None if row.status == "uncertain" else row.attempt_id
    moved = replace(
        known,
        status=STATUS_OF_RANK[new.rank] if new else "unconfirmed",
        attempt_id=attempt_id,
        lease_until=row.lease_until if attempt_id is not None else None,
        decide_at=None,
    )
    return [Expected(row=moved, loose=loose)]
