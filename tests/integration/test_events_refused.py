"""Refused by the provider's own list, as it reports: suppressed, not failed, and mirrored."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.evidence import Rank, Receipt
from functions.core.outcome import Accepted, Outcome, Refused, Rejected, Unknown
from functions.core.suppression import Fact, SuppressionReason
from functions.providers.choice import DECLARATIONS
from functions.store.connection import Database
from functions.store.receipt import Recorded, record
from functions.store.sweep import sweep
from tests.fakes import add_notifications, hash_of, moves_of, row_of
from tests.steps import begin_one, begun, channel_of, close_one, lease, now_of, opening_of

AT = datetime(2026, 1, 2, tzinfo=UTC)

MIRRORED = Fact(
    reason=SuppressionReason.HARD_BOUNCE,
    source="ses:account_list",
    evidence={"feedback_id": "f-1", "receipt_id": "a provider's own words do not replace ours"},
)

# Two lists refuse, one before the bounce of a server and one after it: the earliest of the three
# decides, whichever is told first.
KINDS: dict[str, dict[str, Any]] = {
    "accepted": {"rank": Rank.ACCEPTED, "minute": 1},
    "soft": {"rank": Rank.SOFT_FAILURE, "minute": 2},
    "delivered": {"rank": Rank.DELIVERED, "minute": 3},
    "refused": {"rank": Rank.HARD_FAILURE, "minute": 4, "refused": True, "fact": MIRRORED},
    "bounced": {"rank": Rank.HARD_FAILURE, "minute": 5, "address_at_fault": True},
    "later": {"rank": Rank.HARD_FAILURE, "minute": 6, "refused": True},
}
STATUSES = {
    "accepted": "submitted",
    "soft": "failed",
    "delivered": "delivered",
    "refused": "suppressed",
    "bounced": "failed",
    "later": "suppressed",
}
SOURCES = {"refused": "ses:account_list", "bounced": "http:event", "later": "http:event"}


def receipt(kind: str, id: UUID, **more: Any) -> Receipt:
    what = dict(KINDS[kind])
    members: dict[str, Any] = {
        "provider": "http",
        "event_key": f"{kind}:{id}",
        "type": kind,
        "occurred_at": AT + timedelta(minutes=what.pop("minute")),
        "idempotency_key": str(id),
        "recipient_hash": hash_of("ok@example.com"),
        "reason": f"{kind} by its provider",
        "raw": b"{}",
    }
    return Receipt(**members | what | more)


def tell(database: Database, *receipts: Receipt) -> Recorded:
    return record(database, receipts, provider="http", declarations=DECLARATIONS)


def facts_of(owner: psycopg.Connection, id: UUID) -> list[tuple[str, str]]:
    return owner.execute(
        "SELECT reason, source FROM suppressions WHERE evidence ->> 'notification_id' = %s"
        " ORDER BY source",
        [str(id)],
    ).fetchall()


def tell_by_turns(
    database: Database, sequences: Sequence[tuple[str, ...]], ids: Sequence[UUID]
) -> None:
    """Tell the n-th of every sequence together, each about a notification of its own."""
    for turn in range(max(map(len, sequences))):
        tell(
            database,
            *(
                receipt(order[turn], id)
                for order, id in zip(sequences, ids, strict=True)
                if turn < len(order)
            ),
        )


def test_every_order_of_every_subset_with_refusals_gives_one_end(
    owner: psycopg.Connection, database: Database
) -> None:
    sequences = [order for size in range(1, 7) for order in permutations(KINDS, size)]
    ids = add_notifications(owner, len(sequences))
    tell_by_turns(database, sequences, ids)
    found = owner.execute(
        "SELECT id, status, reason, split_part(evidence_key, ':', 1), final_at IS NULL"
        " FROM notifications"
    )
    ends = {row[0]: row[1:] for row in found.fetchall()}
    facts: dict[UUID, list[str]] = {id: [] for id in ids}
    for id, source in owner.execute(
        "SELECT (evidence ->> 'notification_id')::uuid, source FROM suppressions"
    ).fetchall():
        facts[id].append(source)
    for order, id in zip(sequences, ids, strict=True):
        best = max(order, key=lambda kind: (KINDS[kind]["rank"], -KINDS[kind]["minute"]))
        said = f"{best} by its provider" if KINDS[best]["rank"] in (2, 4) else None
        assert ends[id] == (STATUSES[best], said, best, best == "accepted"), order
        blamed = [SOURCES[kind] for kind in order if kind in SOURCES]
        assert sorted(facts[id]) == sorted(blamed), order


def test_told_all_at_once_a_refusal_decides_as_one_by_one(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    tell(database, *(receipt(kind, id) for kind in KINDS))
    assert row_of(owner, id).status == "suppressed"
    assert row_of(owner, id).reason == "refused by its provider"


@pytest.mark.parametrize("status", ["cancelled", "suppressed"])
@pytest.mark.parametrize("order", list(permutations(("refused", "bounced", "delivered"))))
def test_what_we_ended_ourselves_stays_so_whatever_the_lists_say(
    owner: psycopg.Connection, database: Database, status: str, order: tuple[str, ...]
) -> None:
    (id,) = add_notifications(owner)
    owner.execute(
        "UPDATE notifications SET status = %s, reason = 'ours', final_at = clock_timestamp()",
        [status],
    )
    for kind in order:
        tell(database, receipt(kind, id))
    row = row_of(owner, id)
    assert (row.status, row.reason, row.evidence_rank) == (status, "ours", Rank.HARD_FAILURE)
    assert moves_of(owner, id) == []


def test_a_refusal_at_submission_is_ours_and_a_report_of_one_is_the_providers(
    owner: psycopg.Connection, database: Database
) -> None:
    ours, theirs = add_notifications(owner, 2)
    openings = {one.id: opening_of(one) for one in lease(database)}
    for opening in openings.values():
        assert begin_one(database, opening).send
    assert close_one(database, openings[ours], Refused(code="410")) == "suppressed"
    close_one(database, openings[theirs], Accepted(reference="m-1"))
    tell(database, receipt("later", theirs))
    assert tell(database, receipt("bounced", ours)).after_zero_submissions == 1
    assert tell(database, receipt("bounced", theirs)).after_zero_submissions == 0
    assert (row_of(owner, ours).status, row_of(owner, theirs).status) == ("suppressed", "failed")
    assert [move[1:3] for move in moves_of(owner, theirs)][-2:] == [
        ("submitted", "suppressed"),
        ("suppressed", "failed"),
    ]


OUTCOMES: list[Outcome] = [
    Accepted(reference="m-1"),
    Accepted(reference="m-1", final=True),
    Rejected(code="400"),
    Unknown(),
]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_refusal_told_while_the_attempt_is_open_stands_and_its_close_frees_the_row(
    owner: psycopg.Connection, database: Database, outcome: Outcome
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    tell(database, receipt("refused", id))
    assert (row_of(owner, id).status, row_of(owner, id).attempt_id) == ("suppressed", opening.token)
    assert close_one(database, opening, outcome) == "suppressed"
    row = row_of(owner, id)
    assert (row.status, row.attempt_id, row.lease_until) == ("suppressed", None, None)


def test_the_sweep_frees_a_row_that_a_refusal_ended_while_its_sender_died(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    begun(database)
    tell(database, receipt("refused", id))
    later = now_of(owner, hours=1)
    channel = channel_of(database)
    assert sweep(database, channel=channel, declarations=DECLARATIONS, now=later).settled == 1
    row = row_of(owner, id)
    assert (row.status, row.attempt_id, row.lease_until) == ("suppressed", None, None)


def test_the_fact_that_mirrors_a_list_has_its_provenance(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    tell(database, receipt("refused", id))
    (fact,) = owner.execute(
        "SELECT kind, reason, source, source_at, category, recipient, evidence FROM suppressions"
    ).fetchall()
    ((receipt_id,),) = owner.execute("SELECT id::text FROM receipts").fetchall()
    assert fact == (
        "suppress",
        "hard_bounce",
        "ses:account_list",
        AT + timedelta(minutes=4),
        None,
        "ok@example.com",
        {
            "feedback_id": "f-1",
            "receipt_id": receipt_id,
            "notification_id": str(id),
            "type": "refused",
        },
    )


def test_a_fact_without_blame_suppresses_nothing(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    tell(database, receipt("soft", id, fact=MIRRORED))
    assert facts_of(owner, id) == []


def test_a_refusal_of_somebody_elses_copy_changes_nothing(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    tell(database, receipt("refused", id, recipient_hash=hash_of("archive@example.com")))
    assert (row_of(owner, id).status, facts_of(owner, id)) == ("pending", [])
