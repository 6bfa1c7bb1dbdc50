"""A replay gives what the reports would have given, had they always been read as today.

Rows come in pairs. To one its reports come by the rules of then, and are read again by those of
today; to the other they come by those of today. Which reports, which rules: by chance, seeded.
"""

import dataclasses
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.evidence import Rank, Receipt
from functions.core.login import Login
from functions.core.outcome import Accepted, Outcome, Unknown
from functions.store.begin import Opening
from functions.store.close import Closing, close
from functions.store.connection import Database
from tests.fakes import add_notifications, row_of
from tests.operating import operating
from tests.rereading import OURS, THEIRS, Desk
from tests.steps import begin_all, channel_of, declaration_of, lease, opening_of

AT = datetime(2026, 1, 2, tzinfo=UTC)
KINDS = [f"kind-{number}" for number in range(8)]
PAIRS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a kind of report says by some rules; ``names`` is nothing, the row, or its attempt."""

    rank: Rank
    names: str
    recipient_hash: bytes | None
    reason: str | None
    complaint: bool
    address_at_fault: bool
    refused: bool


def reading(chance: random.Random, *, names: Sequence[str]) -> Reading:
    rank = chance.choice(list(Rank))
    return Reading(
        rank=rank,
        names=chance.choice(names),
        recipient_hash=chance.choice([None, OURS, OURS, THEIRS]),
        reason=chance.choice([None, "full", "no such user"]),
        complaint=rank is Rank.DELIVERED and chance.random() < 0.3,
        address_at_fault=rank is Rank.HARD_FAILURE and chance.random() < 0.5,
        refused=rank is Rank.HARD_FAILURE and chance.random() < 0.5,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two rows with the same life, and the reports about each: kinds in order, with a minute."""

    openings: tuple[Opening, Opening]
    life: str
    reports: list[tuple[str, int]]
    """Each kind at most once: a repetition is the same event."""


def report_of(kind: str, minute: int, what: Reading, opening: Opening) -> Receipt:
    key = {"nothing": None, "row": str(opening.id), "attempt": f"{opening.id}.{opening.token}"}
    return Receipt(
        provider="http",
        event_key=f"{kind}:{opening.id}",
        type=kind,
        rank=what.rank,
        occurred_at=AT + timedelta(minutes=minute),
        idempotency_key=key[what.names],
        recipient_hash=what.recipient_hash,
        reason=what.reason,
        complaint=what.complaint,
        address_at_fault=what.address_at_fault,
        refused=what.refused,
        raw=b"{}",
    )


LIVES: dict[str, Outcome | None] = {
    "leased": None,
    "uncertain": Unknown(),
    "accepted": Accepted(reference=None),
    "delivered": Accepted(reference=None, final=True),
}


def pairs(desk: Desk, chance: random.Random) -> list[Pair]:
    """Return pairs of rows, each in one of its lives."""
    add_notifications(desk.owner, 2 * PAIRS)
    openings = [opening_of(leased) for leased in lease(desk.database, page=2 * PAIRS)]
    begin_all(desk.database, openings, provider="http_keyless")
    lives = [chance.choice(list(LIVES)) for _ in range(PAIRS)]
    closings = [
        Closing(
            id=opening.id,
            lease_number=1,
            token=opening.token,
            outcome=outcome,
            again_seconds=None,
        )
        for number, opening in enumerate(openings)
        if (outcome := LIVES[lives[number // 2]]) is not None
    ]
    channel, keyless = channel_of(desk.database), declaration_of("http_keyless")
    close(desk.database, closings, channel=channel, declaration=keyless, now=AT)
    return [
        Pair(
            openings=(openings[2 * number], openings[2 * number + 1]),
            life=life,
            reports=[
                (kind, chance.randrange(-5, 5))
                for kind in chance.sample(KINDS, chance.randrange(len(KINDS)))
            ],
        )
        for number, life in enumerate(lives)
    ]


@pytest.fixture
def desk(owner: psycopg.Connection, database: Database, login: Login) -> Iterator[Desk]:
    with operating(login) as operator:
        yield Desk(owner=owner, database=database, operator=operator)


FACTS = """
    SELECT DISTINCT reason
      FROM suppressions
     WHERE evidence ->> 'notification_id' = %s
"""


def facts_of(desk: Desk, id: UUID) -> set[str]:
    return {row[0] for row in desk.owner.execute(FACTS, [str(id)])}


def end_of(desk: Desk, opening: Opening) -> dict[str, Any]:
    """Return what evidence decides of a row; its key as the kind of report, or its attempt."""
    row = row_of(desk.owner, opening.id)
    key = row.evidence_key
    return {
        "status": row.status,
        "reason": row.reason,
        "rank": row.evidence_rank,
        "at": row.evidence_at,
        "key": "attempt" if key == str(opening.token) else key and key.split(":")[0],
        "complained": row.complained,
        "open": row.attempt_id is not None,
        "leased": row.lease_until is not None,
        "final": row.final_at is not None,
    }


@pytest.mark.parametrize("seed", range(6))
def test_reports_read_again_give_what_they_would_have_given_at_once(desk: Desk, seed: int) -> None:
    chance = random.Random(seed)
    then = {kind: reading(chance, names=["nothing", "row", "attempt"]) for kind in KINDS}
    today: dict[str, Reading] = {}
    for kind, was in then.items():
        names = {"nothing": ["row", "attempt"], "row": ["row", "attempt"]}.get(was.names)
        changes = chance.random() < 0.7 or was.names == "nothing"
        today[kind] = reading(chance, names=names or ["attempt"]) if changes else was
    made = pairs(desk, chance)
    desk.rules.changes = {}
    before: dict[UUID, dict[str, Any]] = {}
    for pair in made:
        again, _ = pair.openings
        desk.tell(*(report_of(kind, minute, then[kind], again) for kind, minute in pair.reports))
        before[again.id] = end_of(desk, again)
        for kind, minute in pair.reports:  # what the rules of today make of the same bytes
            receipt = report_of(kind, minute, today[kind], again)
            desk.rules.told[receipt.event_key] = receipt
    replayed = desk.replay(now=AT)
    assert replayed.read == sum(len(pair.reports) for pair in made)
    for pair in made:
        again, at_once = pair.openings
        reports = [report_of(kind, minute, today[kind], at_once) for kind, minute in pair.reports]
        chance.shuffle(reports)
        for one in reports:
            desk.tell(one)
        compare(desk, pair, before[again.id])
    assert desk.replay(now=AT).changed == 0
    for pair in made:  # and whatever comes then gives one end again
        last = dataclasses.replace(today[KINDS[0]], rank=Rank.HARD_FAILURE, recipient_hash=OURS)
        for opening in pair.openings:
            desk.tell(report_of("last", 9, last, opening))
        again, at_once = (end_of(desk, opening) for opening in pair.openings)
        assert again == at_once


def compare(desk: Desk, pair: Pair, before: dict[str, Any]) -> None:
    again, at_once = pair.openings
    found, expected = end_of(desk, again), end_of(desk, at_once)
    if expected["rank"] == 0 and before["rank"] > 0:  # it may have been accepted all the same
        expected |= {"status": "unconfirmed", "reason": "outcome_unknown", "final": True}
        expected["open"] = found["open"]
        expected["leased"] = found["open"]
    assert found == expected, pair
    doubts = [row_of(desk.owner, opening.id).in_doubt for opening in pair.openings]
    assert doubts[0] <= doubts[1]  # what was settled then stays settled
    assert facts_of(desk, at_once.id) <= facts_of(desk, again.id)  # a fact is never taken back
