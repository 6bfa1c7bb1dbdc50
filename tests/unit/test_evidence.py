"""Evidence: what each report of a gateway proves, by the table of the contract."""

import itertools
from datetime import UTC, datetime

import pytest

from functions.core.evidence import STATUS_OF_RANK, Rank, Receipt
from functions.core.states import FINAL, Status
from functions.providers.http_report import Part, Report, receipt_of

AT = datetime(2026, 1, 2, tzinfo=UTC)


def receipt(status: str, *, permanent: bool = False, parts: tuple[Part, ...] = ()) -> Receipt:
    report = Report(
        event_id="e-1",
        message_id="m-1",
        idempotency_key="k-1",
        recipient="ok@example.com",
        whole=Part(status=status, permanent=permanent, reason="why"),
        occurred_at=AT,
        parts=parts,
    )
    return receipt_of(report, raw=b"raw", recipient_hash=b"hash")


@pytest.mark.parametrize(
    ("status", "permanent", "rank", "address_at_fault", "complaint"),
    [
        ("accepted", False, Rank.ACCEPTED, False, False),
        ("delivered", False, Rank.DELIVERED, False, False),
        ("failed", False, Rank.SOFT_FAILURE, False, False),
        ("failed", True, Rank.HARD_FAILURE, False, False),
        ("bounced", False, Rank.SOFT_FAILURE, False, False),
        ("bounced", True, Rank.HARD_FAILURE, True, False),
        ("complained", False, Rank.DELIVERED, True, True),
        ("complained", True, Rank.DELIVERED, True, True),
        ("delivered", True, Rank.DELIVERED, False, False),
        ("accepted", True, Rank.ACCEPTED, False, False),
        ("opened", False, Rank.NONE, False, False),
        ("opened", True, Rank.NONE, False, False),
        ("DELIVERED", False, Rank.NONE, False, False),
    ],
)
def test_every_status_of_a_report_has_its_rank(
    status: str, permanent: bool, rank: Rank, address_at_fault: bool, complaint: bool
) -> None:
    found = receipt(status, permanent=permanent)
    assert (found.rank, found.address_at_fault, found.complaint) == (
        rank,
        address_at_fault,
        complaint,
    )


def test_a_receipt_keeps_what_the_report_said() -> None:
    found = receipt("delivered")
    assert (found.provider, found.event_key, found.type) == ("http", "e-1", "delivered")
    assert (found.idempotency_key, found.reference, found.recipient_hash) == ("k-1", "m-1", b"hash")
    assert (found.reason, found.occurred_at, found.raw) == ("why", AT, b"raw")


def test_the_stronger_the_evidence_the_more_final_its_status() -> None:
    assert list(STATUS_OF_RANK) == [rank for rank in Rank if rank != Rank.NONE]
    assert STATUS_OF_RANK[Rank.ACCEPTED] == Status.SUBMITTED
    assert {STATUS_OF_RANK[rank] for rank in Rank if rank > Rank.ACCEPTED} <= FINAL


@pytest.mark.parametrize(
    ("parts", "rank"),
    [
        (("delivered", "delivered"), Rank.DELIVERED),
        (("delivered", "accepted"), Rank.ACCEPTED),
        (("delivered", "opened"), Rank.NONE),
        (("delivered", "failed", "accepted"), Rank.SOFT_FAILURE),
        (("failed", "bounced!", "delivered"), Rank.HARD_FAILURE),
        (("complained", "delivered"), Rank.DELIVERED),
    ],
)
def test_of_several_parts_the_worst_counts_in_whatever_order(
    parts: tuple[str, ...], rank: Rank
) -> None:
    said = [
        Part(status=part.rstrip("!"), permanent=part.endswith("!"), reason=part) for part in parts
    ]
    for order in itertools.permutations(said):
        found = receipt("delivered", parts=order)
        assert found.rank == rank
        assert found.complaint == ("complained" in parts)
        assert found.permanent == (rank is Rank.HARD_FAILURE)
