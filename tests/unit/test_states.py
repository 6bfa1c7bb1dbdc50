"""Statuses: which are final, which wait for a person, and what evidence makes of them."""

from functions.core.evidence import STATUS_OF_RANK, Rank
from functions.core.states import FINAL, HELD, MAX_STARTS, Channel, Priority, Reason, Status

LIVE = {Status.PENDING, Status.LEASED, Status.UNCERTAIN, Status.SUBMITTED}


def test_every_status_is_live_held_or_final_and_only_one_of_them() -> None:
    assert set(Status) == LIVE | HELD | FINAL
    assert not FINAL & HELD
    assert not LIVE & (FINAL | HELD)


def test_the_names_are_what_is_stored_and_shown() -> None:
    assert [str(status) for status in Status] == [
        "pending", "leased", "uncertain", "submitted", "delivered", "failed",
        "unconfirmed", "suppressed", "cancelled", "expired", "dead",
    ]  # fmt: skip
    assert [str(channel) for channel in Channel] == ["email", "sms", "push", "webhook"]
    assert [str(priority) for priority in Priority] == ["high", "normal", "low"]


def test_evidence_of_any_rank_stops_further_attempts() -> None:
    assert set(STATUS_OF_RANK) == set(Rank) - {Rank.NONE}
    assert not set(STATUS_OF_RANK.values()) & {Status.PENDING, Status.LEASED, Status.UNCERTAIN}


def test_the_reasons_are_those_of_the_contract() -> None:
    assert {str(reason) for reason in Reason} == {
        "rejected", "budget_spent", "outcome_unknown", "crash_loop", "waited_too_long",
        "unreadable", "invalid", "no_receipt_by_cutoff", "provider_gives_no_receipts", "expired",
        "suppressed", "refused", "erased",
    }  # fmt: skip


def test_a_crash_loop_is_five_starts() -> None:
    assert MAX_STARTS == 5
