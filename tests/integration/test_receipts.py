"""Receipts against every kind of row: the strongest evidence decides, in whatever order."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations, permutations
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.core.evidence import STATUS_OF_RANK, Rank, Receipt
from functions.core.login import Login
from functions.core.outcome import Accepted, Outcome, Rejected, Transient, Unknown
from functions.providers.choice import DECLARATIONS
from functions.store.begin import Opening
from functions.store.close import Closing, close
from functions.store.connection import Database
from functions.store.receipt import Recorded, match_orphans, record
from functions.store.sweep import sweep
from tests.fakes import HeldDatabase, add_notifications, hash_of, moves_of, row_of
from tests.steps import (
    begin_one,
    begun,
    channel_of,
    close_one,
    connected,
    declaration_of,
    lease,
    now_of,
    opening_of,
    waiting,
)

AT = datetime(2026, 1, 2, tzinfo=UTC)

# What a gateway may say about one notification, and when it says that it happened.
KINDS: dict[str, dict[str, Any]] = {
    "accepted": {"rank": Rank.ACCEPTED, "minute": 1},
    "soft": {"rank": Rank.SOFT_FAILURE, "minute": 2, "reason": "mailbox full"},
    "delivered": {"rank": Rank.DELIVERED, "minute": 3},
    "complaint": {"rank": Rank.DELIVERED, "minute": 4, "complaint": True, "fault": True},
    "hard": {"rank": Rank.HARD_FAILURE, "minute": 5, "reason": "no such user", "fault": True},
    "again": {"rank": Rank.HARD_FAILURE, "minute": 5, "reason": "no such user", "fault": True},
}
"""``again`` is the same event as ``hard``: a repetition."""


def receipt(kind: str, id: UUID, **more: Any) -> Receipt:
    what = KINDS[kind]
    name = "hard" if kind == "again" else kind
    members: dict[str, Any] = {
        "provider": "http",
        "event_key": f"{name}:{id}",
        "type": name,
        "rank": what["rank"],
        "occurred_at": AT + timedelta(minutes=what["minute"]),
        "idempotency_key": str(id),
        "recipient_hash": hash_of("ok@example.com"),
        "reason": what.get("reason"),
        "complaint": what.get("complaint", False),
        "address_at_fault": what.get("fault", False),
        "raw": b"{}",
    }
    return Receipt(**members | more)


def tell(database: Database, *receipts: Receipt, **more: Any) -> Recorded:
    return record(database, receipts, provider="http", declarations=DECLARATIONS, **more)


def orders() -> list[tuple[str, ...]]:
    """Return every order of every subset of the six."""
    return [order for size in range(1, 7) for order in permutations(KINDS, size)]


END = """
    SELECT n.status, n.reason, n.evidence_rank, n.evidence_at, n.complained, n.attempt_id,
           n.lease_until, n.in_doubt, split_part(n.evidence_key, ':', 1),
           (SELECT array_agg(DISTINCT r.type ORDER BY r.type) FROM receipts r
             WHERE r.notification_id = n.id),
           (SELECT array_agg(s.reason ORDER BY s.reason) FROM suppressions s
             WHERE s.evidence ->> 'notification_id' = n.id::text)
      FROM notifications n
     WHERE n.id = ANY(%s)
     ORDER BY array_position(%s, n.id)
"""


def ends_of(owner: psycopg.Connection, ids: Sequence[UUID]) -> list[tuple[Any, ...]]:
    return owner.execute(END, [list(ids), list(ids)]).fetchall()


def one_end_per_subset(
    found: Sequence[tuple[Any, ...]], sequences: Sequence[tuple[str, ...]]
) -> dict[frozenset[str], tuple[Any, ...]]:
    """Check that the order of a subset does not matter; return the end of each subset."""
    ends: dict[frozenset[str], tuple[Any, ...]] = {}
    for order, end in zip(sequences, found, strict=True):
        assert ends.setdefault(frozenset(order), end) == end, order
    return ends


def test_every_order_of_every_subset_of_six_receipts_gives_one_end(
    owner: psycopg.Connection, database: Database
) -> None:
    """Told one by one; the n-th of all orders together, each about a notification of its own."""
    sequences = orders()
    ids = add_notifications(owner, len(sequences))
    for turn in range(6):
        tell(
            database,
            *(
                receipt(order[turn], id)
                for order, id in zip(sequences, ids, strict=True)
                if turn < len(order)
            ),
        )
    ends = one_end_per_subset(ends_of(owner, ids), sequences)
    assert len(ends) == 63
    for subset, (status, reason, rank, at, complained, *_, best, kinds, facts) in ends.items():
        strongest = max(subset, key=lambda kind: (KINDS[kind]["rank"], -KINDS[kind]["minute"]))
        strongest = "hard" if strongest == "again" else strongest
        assert (status, rank) == (STATUS_OF_RANK[Rank(rank)], KINDS[strongest]["rank"])
        assert (reason, best) == (KINDS[strongest].get("reason"), strongest)
        assert at == AT + timedelta(minutes=KINDS[strongest]["minute"])
        assert complained == ("complaint" in subset)
        assert set(kinds) == {kind.replace("again", "hard") for kind in subset}
        blamed = {"complaint": "complaint"} if complained else {}
        blamed |= {"hard": "hard_bounce"} if subset & {"hard", "again"} else {}
        assert sorted(facts or []) == sorted(blamed.values())


def test_told_all_at_once_they_give_the_same_end_as_one_by_one(
    owner: psycopg.Connection, database: Database
) -> None:
    sequences = [order for order in orders() if list(order) == sorted(order)]
    one_by_one = add_notifications(owner, len(sequences))
    at_once = add_notifications(owner, len(sequences))
    for order, slow, quick in zip(sequences, one_by_one, at_once, strict=True):
        for kind in order:
            tell(database, receipt(kind, slow))
        different = {one.event_key: one for one in (receipt(kind, quick) for kind in order)}
        tell(database, *different.values())
    assert ends_of(owner, one_by_one) == ends_of(owner, at_once)


OUTCOMES: list[Outcome] = [
    Accepted(reference=None),
    Rejected(code="400"),
    Unknown(),
    Transient(),
]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_close_at_any_place_among_them_changes_nothing_of_their_end(
    owner: psycopg.Connection, database: Database, outcome: Outcome
) -> None:
    told = ("soft", "delivered", "hard")
    sequences = [
        order
        for size in (1, 2, 3)
        for subset in combinations(told, size)
        for order in permutations((*subset, "close"))
    ]
    ids = add_notifications(owner, len(sequences))
    openings = dict(zip(ids, _open_all(database, ids), strict=True))
    for turn in range(4):
        steps = [
            (order[turn], id) for order, id in zip(sequences, ids, strict=True) if turn < len(order)
        ]
        tell(database, *(receipt(kind, id) for kind, id in steps if kind != "close"))
        _close_all(database, [openings[id] for kind, id in steps if kind == "close"], outcome)
    for order, id in zip(sequences, ids, strict=True):
        strongest = max(KINDS[kind]["rank"] for kind in order if kind != "close")
        row = row_of(owner, id)
        assert (row.status, row.evidence_rank) == (STATUS_OF_RANK[strongest], strongest), order
        assert (row.attempt_id, row.lease_until) == (None, None), order


def _open_all(database: Database, ids: Sequence[UUID]) -> list[Opening]:
    leases = {leased.id: leased for leased in lease(database, page=len(ids))}
    openings = [opening_of(leases[id]) for id in ids]
    for opening in openings:
        assert begin_one(database, opening).send
    return openings


def _close_all(database: Database, openings: Sequence[Opening], outcome: Outcome) -> None:
    if openings:
        close(
            database,
            [
                Closing(
                    id=opening.id,
                    lease_number=opening.lease_number,
                    token=opening.token,
                    outcome=outcome,
                    again_seconds=60.0,
                )
                for opening in openings
            ],
            channel=channel_of(database),
            declaration=declaration_of("http"),
        )


def test_within_a_rank_the_earlier_wins_and_then_the_key(
    owner: psycopg.Connection, database: Database
) -> None:
    first, second = add_notifications(owner, 2)
    for id, hours in ((first, (2, 1)), (second, (1, 2))):
        for hour in hours:
            tell(
                database,
                receipt(
                    "soft",
                    id,
                    event_key=f"{hour}:{id}",
                    reason=f"reason {hour}",
                    occurred_at=AT + timedelta(hours=hour),
                ),
            )
    assert [row_of(owner, id).reason for id in (first, second)] == ["reason 1"] * 2
    third, fourth = add_notifications(owner, 2)
    for id, keys in ((third, "ba"), (fourth, "ab")):
        for key in keys:
            tell(database, receipt("soft", id, event_key=f"{key}:{id}", reason=key))
    assert [row_of(owner, id).reason for id in (third, fourth)] == ["a", "a"]


def put(owner: psycopg.Connection, id: UUID, status: str) -> None:
    """Put a notification into a state that no receipt was needed for."""
    owner.execute(
        "UPDATE notifications SET status = %(status)s, reason = 'rejected', attempt_id = %(token)s,"
        " in_doubt = CASE WHEN %(status)s = 'uncertain' THEN 1 ELSE 0 END,"
        " lease_until = CASE %(status)s WHEN 'leased' THEN clock_timestamp() + interval '1 h' END,"
        " final_at = CASE WHEN %(status)s = ANY(%(final)s) THEN clock_timestamp() END"
        " WHERE id = %(id)s",
        {
            "id": id,
            "status": status,
            "token": uuid4() if status == "uncertain" else None,
            "final": ["expired", "unconfirmed", "cancelled", "suppressed"],
        },
    )


@pytest.mark.parametrize("kind", ["accepted", "soft", "delivered", "hard"])
def test_evidence_moves_a_row_of_every_other_status(
    owner: psycopg.Connection, database: Database, kind: str
) -> None:
    proven = STATUS_OF_RANK[KINDS[kind]["rank"]]
    for status in ("pending", "leased", "uncertain", "expired", "unconfirmed", "dead"):
        (id,) = add_notifications(owner)
        put(owner, id, status)
        assert tell(database, receipt(kind, id)) == Recorded(
            stored=1, orphaned=0, applied=1, after_zero_submissions=0
        )
        row = row_of(owner, id)
        assert (row.status, row.evidence_rank) == (proven, KINDS[kind]["rank"]), status
        assert (row.attempt_id, row.lease_until) == (None, None)
        assert row.reason == KINDS[kind].get("reason")
        assert (row.final_at is None) == (row.next_check_at is not None) == (kind == "accepted")
        assert [move[:3] for move in moves_of(owner, id)] == [("provider", status, proven)]


@pytest.mark.parametrize("status", ["cancelled", "suppressed"])
def test_evidence_after_zero_submissions_is_stored_and_counted_only(
    owner: psycopg.Connection, database: Database, status: str
) -> None:
    (id,) = add_notifications(owner)
    put(owner, id, status)
    before = row_of(owner, id)
    assert tell(database, receipt("delivered", id)).after_zero_submissions == 1
    row = row_of(owner, id)
    assert (row.status, row.reason, row.final_at) == (status, "rejected", before.final_at)
    assert row.evidence_rank == Rank.DELIVERED
    assert moves_of(owner, id) == []
    assert tell(database, receipt("accepted", id)).after_zero_submissions == 0
    assert tell(database, receipt("hard", id)).after_zero_submissions == 1
    assert row_of(owner, id).status == status


def test_evidence_ends_a_lease_without_an_attempt_and_its_message_is_stale(
    owner: psycopg.Connection, database: Database
) -> None:
    add_notifications(owner)
    (leased,) = lease(database)
    tell(database, receipt("delivered", leased.id))
    assert begin_one(database, opening_of(leased)).verdict == "stale"
    assert row_of(owner, leased.id).status == "delivered"


def test_evidence_leaves_an_open_attempt_to_its_own_close(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    tell(database, receipt("delivered", id))
    row = row_of(owner, id)
    assert (row.status, row.attempt_id) == ("delivered", opening.token)
    assert close_one(database, opening, Rejected(code="400")) == "delivered"
    row = row_of(owner, id)
    assert (row.status, row.attempt_id, row.lease_until) == ("delivered", None, None)
    assert row_of(owner, opening.token, "attempts").outcome == "rejected"


def test_evidence_for_an_attempt_that_died_stands_and_the_sweep_closes_it(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    tell(database, receipt("accepted", id))
    swept = sweep(
        database,
        channel=channel_of(database),
        declarations=DECLARATIONS,
        now=now_of(owner, hours=1),
    )
    assert swept.settled == 1
    row = row_of(owner, id)
    assert (row.status, row.attempt_id, row.lease_until) == ("submitted", None, None)
    assert row_of(owner, opening.token, "attempts").outcome == "unknown"


def test_a_report_by_reference_comes_before_the_close_and_is_matched_later(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    early = receipt("delivered", id, idempotency_key=None, reference="m-1")
    assert tell(database, early) == Recorded(
        stored=1, orphaned=1, applied=0, after_zero_submissions=0
    )
    assert match_orphans(database, declarations=DECLARATIONS).stored == 0
    close_one(database, opening, Accepted(reference="m-1"))
    assert row_of(owner, id).status == "submitted"
    assert match_orphans(database, declarations=DECLARATIONS) == Recorded(
        stored=1, orphaned=0, applied=1, after_zero_submissions=0
    )
    assert row_of(owner, id).status == "delivered"
    (kept,) = owner.execute("SELECT notification_id, attempt_id, applied FROM receipts").fetchall()
    assert kept == (id, opening.token, True)
    assert match_orphans(database, declarations=DECLARATIONS).stored == 0


def test_a_report_by_reference_after_the_close_is_matched_at_once(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    close_one(database, begun(database), Accepted(reference="m-1"))
    tell(database, receipt("hard", id, idempotency_key=None, reference="m-1"))
    assert row_of(owner, id).status == "failed"


def test_an_orphan_about_somebody_elses_copy_is_matched_and_changes_nothing(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    stranger = hash_of("archive@example.com")
    tell(
        database,
        receipt("hard", id, idempotency_key=None, reference="m-1", recipient_hash=stranger),
    )
    close_one(database, opening, Accepted(reference="m-1"))
    assert match_orphans(database, declarations=DECLARATIONS).applied == 0
    assert row_of(owner, id).status == "submitted"
    assert owner.execute("SELECT count(*) FROM suppressions").fetchone() == (0,)


def test_orphans_of_last_week_are_no_longer_asked_about(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    tell(database, receipt("delivered", id, idempotency_key=None, reference="m-1"))
    close_one(database, opening, Accepted(reference="m-1"))
    assert match_orphans(database, declarations=DECLARATIONS, now=now_of(owner, days=9)).stored == 0
    assert match_orphans(database, declarations=DECLARATIONS).stored == 1


def test_a_reference_counts_for_its_own_provider_only(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    close_one(database, begun(database), Accepted(reference="m-1"))
    other = receipt("hard", id, idempotency_key=None, reference="m-1", provider="ses")
    assert record(database, [other], provider="ses", declarations=DECLARATIONS).orphaned == 1
    assert row_of(owner, id).status == "submitted"


@pytest.mark.parametrize("kinds", [("delivered", "hard"), ("hard", "delivered")])
def test_two_receipts_at_once_both_count(
    owner: psycopg.Connection, login: Login, kinds: tuple[str, str]
) -> None:
    (id,) = add_notifications(owner)
    with connected(login, "first", "second", kind=HeldDatabase) as (first, second):
        tell(first, receipt(kinds[0], id))
        with waiting(owner, "second", lambda: tell(second, receipt(kinds[1], id))) as told:
            first.commit()
            assert told.result().applied == 1
        second.commit()
    row = row_of(owner, id)
    assert (row.status, row.evidence_rank) == ("failed", Rank.HARD_FAILURE)


def test_the_same_receipt_at_once_counts_once(owner: psycopg.Connection, login: Login) -> None:
    (id,) = add_notifications(owner)
    with connected(login, "first", "second", kind=HeldDatabase) as (first, second):
        tell(first, receipt("hard", id))
        with waiting(owner, "second", lambda: tell(second, receipt("hard", id))) as told:
            first.commit()
            assert told.result() == Recorded(
                stored=0, orphaned=0, applied=0, after_zero_submissions=0
            )
        second.commit()
    assert owner.execute("SELECT count(*) FROM suppressions").fetchone() == (1,)


def _close_as(opening: Opening) -> Callable[[Database], None]:
    return lambda database: _close_all(database, [opening], Accepted(reference="m-1"))


def test_a_receipt_that_waits_for_a_close_counts_and_so_does_the_close(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    with connected(login, "first", "second", kind=HeldDatabase) as (first, second):
        _close_as(opening)(first)
        with waiting(owner, "second", lambda: tell(second, receipt("hard", id))) as told:
            first.commit()
            assert told.result().applied == 1
        second.commit()
    row = row_of(owner, id)
    assert (row.status, row.attempt_id, row.lease_until) == ("failed", None, None)
    assert row_of(owner, opening.token, "attempts").outcome == "accepted"


def test_a_close_that_waits_for_a_receipt_counts_and_so_does_the_receipt(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database)
    with connected(login, "first", "second", kind=HeldDatabase) as (first, second):
        tell(first, receipt("delivered", id))
        with waiting(owner, "second", lambda: _close_as(opening)(second)) as closed:
            first.commit()
            closed.result()
        second.commit()
    row = row_of(owner, id)
    assert (row.status, row.attempt_id, row.lease_until) == ("delivered", None, None)
    assert row_of(owner, opening.token, "attempts").reference == "m-1"


def test_two_sets_in_opposite_order_do_not_wait_for_each_other_for_ever(
    owner: psycopg.Connection, login: Login
) -> None:
    ids = add_notifications(owner, 20)
    with connected(login, "first", "second", kind=HeldDatabase) as (first, second):
        tell(first, *(receipt("delivered", id) for id in ids))
        backwards = [receipt("hard", id) for id in reversed(ids)]
        with waiting(owner, "second", lambda: tell(second, *backwards)) as told:
            first.commit()
            assert told.result().applied == 20
        second.commit()
    assert {row_of(owner, id).status for id in ids} == {"failed"}
