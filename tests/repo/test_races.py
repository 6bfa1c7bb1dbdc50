"""Every race that the lease and attempt protocol survived is a named test, and stays one."""

import ast
from pathlib import Path

import pytest

from tests.repo.repository import python_files, tree_of

INTEGRATION = Path("tests/integration")

BEGIN, CLOSE = "test_begin_races", "test_close_races"

# A race, and the tests that hold it: module of tests/integration, name of the test.
RACES: dict[str, tuple[tuple[str, str], ...]] = {
    "begin, then cancel": (
        (BEGIN, "test_a_cancel_that_waits_for_a_begin_is_too_late"),
        ("test_cancel_api", "test_an_attempt_that_opens_while_cancel_waits_wins"),
    ),
    "cancel, then begin": (
        (BEGIN, "test_a_begin_that_waits_for_a_cancel_sends_nothing"),
        (BEGIN, "test_a_begin_that_waited_for_a_cancel_undone_sends"),
    ),
    "a cancel between the claim's look and its lock": (
        ("test_claim", "test_a_row_cancelled_between_the_claims_look_and_its_lock_is_not_leased"),
    ),
    "a suppression committed while begin waits for the lock": (
        (BEGIN, "test_a_suppression_committed_while_begin_waits_for_the_lock_counts"),
    ),
    "two parallel deliveries": (
        (BEGIN, "test_two_parallel_deliveries_of_one_message_send_once"),
        (
            "test_sender_processes",
            "test_d4_the_same_messages_in_two_processes_at_once_are_one_request_each",
        ),
    ),
    "the same message twice in one batch": (
        ("test_begin", "test_the_same_message_twice_in_one_set_opens_one_attempt"),
        ("test_sender_redelivery", "test_d4_the_same_message_twice_in_one_batch_is_one_request"),
    ),
    "a begin repeated after a lost COMMIT": (
        (BEGIN, "test_a_begin_repeated_after_a_lost_commit_sends_once"),
    ),
    "a close repeated after a lost COMMIT": (
        (BEGIN, "test_a_close_repeated_after_a_lost_commit_changes_nothing_more"),
    ),
    "the sweep first, and begin waits": (
        (BEGIN, "test_a_begin_that_waits_for_the_sweep_is_stale"),
    ),
    "the sweep beside a closing worker": (
        ("test_sweep", "test_a_sweep_passes_over_a_row_that_its_worker_is_closing"),
        ("test_sweep", "test_a_close_that_comes_between_the_sweeps_look_and_its_lock_stands"),
    ),
    "a close after expiry, before the sweep": (
        (CLOSE, "test_a_close_after_the_lease_ran_out_counts_when_no_sweep_came_first"),
    ),
    "a close after expiry, after the sweep": (
        (CLOSE, "test_a_close_after_the_sweep_resolves_the_doubt_and_is_fenced"),
        (CLOSE, "test_acceptance_after_the_sweep_is_proof"),
        ("test_doubt", "test_an_outcome_that_comes_after_the_sweep_settles_an_uncertain_row"),
        ("test_doubt", "test_a_sender_that_is_slower_than_its_lease_settles_what_the_sweep_found"),
    ),
    "a late transient after a re-lease": (
        (CLOSE, "test_a_late_transient_after_a_new_lease_is_fenced_and_the_ledger_keeps_it"),
        (CLOSE, "test_a_late_refusal_after_a_new_lease_ends_nothing"),
    ),
    "a late acceptance after a re-lease that is not begun": (
        (CLOSE, "test_late_acceptance_stops_a_lease_not_yet_begun"),
    ),
    "a late acceptance after a re-lease that is begun, and then rejected": (
        (CLOSE, "test_late_acceptance_outlives_whatever_a_begun_lease_comes_to"),
    ),
    "a late close while reconcile moves on": (
        (CLOSE, "test_a_late_close_while_reconcile_moves_on_is_fenced"),
        (CLOSE, "test_a_close_that_waits_for_reconcile_finds_what_it_decided"),
        (CLOSE, "test_a_check_passes_over_a_row_that_is_being_closed"),
    ),
    "evidence while reconcile moves on": (
        ("test_check", "test_evidence_that_comes_between_the_look_and_the_lock_decides"),
    ),
    "two set writers in opposite order": (
        (BEGIN, "test_two_sets_of_the_same_rows_in_opposite_order_send_each_once"),
        (BEGIN, "test_a_set_writer_locks_in_id_order_whatever_order_it_was_given"),
        (
            "test_receipts",
            "test_two_sets_in_opposite_order_do_not_wait_for_each_other_for_ever",
        ),
        ("test_cancel_api", "test_two_batch_cancels_in_opposite_order_do_not_deadlock"),
    ),
    "a receipt before the close": (
        (CLOSE, "test_what_a_receipt_proved_before_the_close_stands"),
        ("test_receipts", "test_a_close_that_waits_for_a_receipt_counts_and_so_does_the_receipt"),
        ("test_receipts", "test_a_receipt_that_waits_for_a_close_counts_and_so_does_the_close"),
    ),
    "a receipt for an attempt that died": (
        (
            "test_receipts",
            "test_evidence_for_an_attempt_that_died_stands_and_the_sweep_closes_it",
        ),
        (
            "test_receipt_races",
            "test_a_receipt_that_waits_for_a_sweep_counts_and_settles_the_attempt",
        ),
    ),
    "a receipt for a cancelled row": (
        ("test_receipts", "test_evidence_after_zero_submissions_is_stored_and_counted_only"),
        (
            "test_receipt_races",
            "test_a_receipt_that_waits_for_a_cancel_is_counted_and_moves_nothing",
        ),
        ("test_receipt_races", "test_a_cancel_that_waits_for_a_receipt_is_too_late"),
    ),
    "a receipt beside a begin": (
        ("test_receipt_races", "test_a_begin_that_waits_for_a_receipt_sends_nothing"),
        (
            "test_receipt_races",
            "test_a_receipt_that_waits_for_a_begin_leaves_the_attempt_to_its_close",
        ),
    ),
    "an expiry beside a sender": (
        (
            "test_sweep",
            "test_an_expiry_leaves_a_leased_row_to_its_sender_and_a_locked_one_to_its_holder",
        ),
    ),
    "twins of one idempotency key": (
        ("test_ingest_idempotency", "test_twenty_twins_at_once_are_one_set"),
    ),
    "events of two requests in opposite order": (
        (
            "test_ingest_idempotency",
            "test_twins_of_an_event_under_different_keys_are_one_notification",
        ),
    ),
    "four claimers against one bucket, with the clock stepped back": (
        (
            "test_claim_pace",
            "test_four_claimers_at_one_bucket_get_what_one_would_also_with_the_clock_stepped_back",
        ),
    ),
    "a sender stopped past its lease between begin and the call": (
        (
            "test_sender_processes",
            "test_a_sender_stopped_past_its_time_sends_nothing_and_gives_the_attempt_back",
        ),
        (
            "test_sender_processes",
            "test_a_sender_stopped_past_its_lease_sends_nothing_although_another_has_sent",
        ),
    ),
    "a requeue beside whoever else wants the row": (
        ("test_requeue_races", "test_evidence_that_waited_for_the_requeue_stops_the_sending"),
        ("test_requeue_races", "test_a_late_close_that_waited_for_the_requeue"),
        ("test_requeue_races", "test_a_cancel_beside_a_requeue_comes_before_it_or_after_it"),
        ("test_requeue_races", "test_a_requeue_does_not_wake_the_message_of_the_former_lease"),
    ),
    "two runs that give turns to questions": (
        ("test_poll_pace", "test_a_run_beside_another_waits_and_gives_away_what_follows"),
    ),
}


def names_in(module: str) -> set[str]:
    """Return the tests that ``module`` runs; one that is skipped or expected to fail is none."""
    path = INTEGRATION / f"{module}.py"
    assert path in python_files("tests"), f"{path} is missing"
    return {
        node.name
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef)
        and not any(word in ast.unparse(mark) for mark in node.decorator_list for word in LEFT_OUT)
    }


LEFT_OUT = ("skip", "xfail", "mark.soak", "mark.system")


@pytest.mark.parametrize("race", RACES)
def test_a_race_has_its_tests(race: str) -> None:
    missing = [f"{module}::{name}" for module, name in RACES[race] if name not in names_in(module)]
    assert missing == []


def test_no_test_stands_for_two_races() -> None:
    named = [test for tests in RACES.values() for test in tests]
    assert sorted(set(named)) == sorted(named)
