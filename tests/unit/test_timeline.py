"""The timeline is in order, derives what is not stored, and gives the evidence of each step."""

from uuid import UUID

import pytest

from functions.core.evidence_words import duration
from functions.core.timeline import Entry, timeline
from tests.histories import START, Call, Change, Command, Report, Row, after

OTHER = UUID(int=2)


def last_of(
    change: Change,
    *,
    row: Row | None = None,
    attempts: list[Call] | None = None,
    receipts: list[Report] | None = None,
    operator_actions: list[Command] | None = None,
) -> Entry:
    """Return the last line of a story whose only stored change is ``change``."""
    return timeline(
        row or Row(),
        attempts=attempts or [],
        receipts=receipts or [],
        transitions=[change],
        operator_actions=operator_actions or [],
    )[-1]


def test_what_nobody_touched_was_accepted_and_no_more() -> None:
    (entry,) = timeline(Row(), attempts=[], receipts=[], transitions=[])
    assert (entry.actor, entry.from_status, entry.to_status) == ("client", None, "pending")
    assert entry.sentence == "The request was accepted and stored; it is to be sent at once."


def test_acceptance_says_when_it_is_to_be_sent() -> None:
    (entry,) = timeline(Row(send_at=after(3600)), attempts=[], receipts=[], transitions=[])
    assert entry.sentence.endswith("from 2030-01-01T01:00:00Z on.")


def test_a_claim_stands_before_what_its_lease_led_to() -> None:
    call = Call(lease_number=1, started_at=after(2), finished_at=after(2), outcome="transient")
    entries = timeline(
        Row(status="leased", lease_number=3, updated_at=after(9)),
        attempts=[call],
        receipts=[],
        transitions=[
            Change(at=after(2), reason="transient", lease_number=1, attempt_id=call.id),
            Change(at=after(5), actor="claim", reason="not_dispatched", lease_number=2),
        ],
    )
    assert [(entry.from_status, entry.to_status, entry.actor) for entry in entries] == [
        (None, "pending", "client"),
        ("pending", "leased", "claim"),
        ("leased", "pending", "sender"),
        ("pending", "leased", "claim"),
        ("leased", "pending", "claim"),
        ("pending", "leased", "claim"),
    ]
    assert entries[1].attempt_id == call.id
    assert entries[1].sentence == (
        "It was taken up for sending (lease 1), and attempt 1 was opened at http."
    )
    assert entries[3].sentence == "It was taken up for sending (lease 2)."
    assert [entry.at for entry in entries] == [START, *map(after, (2, 2, 5, 5, 9))]


def test_a_retry_says_what_was_answered_and_when_the_next_try_is_due() -> None:
    call = Call(outcome="transient", http_status=425, code="425")
    change = Change(reason="transient", lease_number=1, attempt_id=call.id)
    row = Row(attempts_spent=2, available_at=after(60))
    entry = last_of(change, row=row, attempts=[Call(id=OTHER, lease_number=0), call])
    assert entry.sentence == (
        "Attempt 2 at http was answered with HTTP status 425 after 2.0 s: it was not accepted, for "
        "a passing reason. It goes back to waiting; the next try is due at 2030-01-01T00:01:00Z, "
        "as attempt 3 of 5."
    )


def test_only_the_last_step_of_a_waiting_one_tells_of_a_next_try() -> None:
    calls = [
        Call(id=UUID(int=1), lease_number=1, outcome="transient", code="tls"),
        Call(id=UUID(int=2), lease_number=2, started_at=after(70), finished_at=after(71)),
    ]
    changes = [
        Change(reason="transient", lease_number=1, attempt_id=calls[0].id),
        Change(at=after(71), to_status="submitted", reason="accepted", attempt_id=calls[1].id),
    ]
    entries = timeline(Row(status="submitted"), attempts=calls, receipts=[], transitions=changes)
    assert not [entry for entry in entries if "next try" in entry.sentence]


def test_an_unknown_outcome_says_under_which_key_it_is_tried_again() -> None:
    call = Call(outcome="unknown", code="timeout", finished_at=after(5.04))
    change = Change(reason="unknown", attempt_id=call.id)
    assert last_of(change, row=Row(attempts_spent=1), attempts=[call]).sentence == (
        "Attempt 1 at http got no usable answer (timeout) after 3.0 s, so it may have been "
        "accepted. It is tried again under the same key, which the provider recognises; the next "
        "try is due at 2030-01-01T00:00:00Z, as attempt 2 of 5."
    )


def test_an_uncertain_one_says_until_when_it_waits() -> None:
    call = Call(outcome="unknown", code="timeout")
    (*_, entry) = timeline(
        Row(status="uncertain", in_doubt=1),
        attempts=[call],
        receipts=[],
        transitions=[Change(to_status="uncertain", reason="unknown", attempt_id=call.id)],
        decide_at=after(900),
    )
    assert "waits for evidence until 2030-01-01T00:15:00Z" in entry.sentence


def test_acceptance_gives_the_providers_own_id() -> None:
    call = Call(http_status=202, reference="m-1")
    change = Change(to_status="submitted", reason="accepted", attempt_id=call.id)
    assert last_of(change, attempts=[call]).sentence == (
        "Attempt 1 at http was answered with HTTP status 202 and the id m-1 after 2.0 s: it was "
        "accepted. Its delivery is not confirmed yet."
    )


def test_what_was_found_out_later_does_not_change_what_was_known_then() -> None:
    call = Call(outcome="accepted", code="timeout")  # a report has settled it since
    change = Change(to_status="uncertain", reason="unknown", attempt_id=call.id)
    entry = last_of(change, row=Row(status="submitted"), attempts=[call])
    assert entry.sentence.startswith(
        "Attempt 1 at http got no usable answer (timeout) after 2.0 s, so it may have been accepted"
    )
    call = Call(outcome="transient", code="timeout", settled="never_accepted")
    assert "Attempt 1 at http got no usable answer (timeout) after 2.0 s, so" in (
        last_of(change, row=Row(), attempts=[call]).sentence
    )


def test_a_call_that_could_not_be_made_is_not_said_to_be_unanswered() -> None:
    call = Call(outcome="transient", code="connection_refused")
    change = Change(reason="transient", attempt_id=call.id)
    assert last_of(change, attempts=[call]).sentence.startswith(
        "Attempt 1 at http could not be made (connection_refused): it was not accepted"
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3, "0 ms"),
        (0.04, "40 ms"),
        (1, "1.0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7200, "2 h"),
        (3 * 86400, "3 days"),
    ],
)
def test_a_length_of_time_has_the_unit_a_person_would_use(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_throttled_one_says_for_how_long() -> None:
    call = Call(outcome="throttled", http_status=429, code="429", retry_after_seconds=90)
    change = Change(reason="throttled", attempt_id=call.id)
    assert "asked to slow down for 90 s; the attempt is not counted" in (
        last_of(change, attempts=[call]).sentence
    )


def test_a_report_says_what_when_it_occurred_and_when_it_was_told() -> None:
    report = Report(occurred_at=after(3), received_at=after(10), type="bounced", reason="no such")
    change = Change(
        at=after(10),
        actor="provider",
        from_status="submitted",
        to_status="failed",
        reason="no such",
        receipt_id=report.id,
    )
    entry = last_of(change, row=Row(status="failed"), receipts=[report])
    assert entry.sentence == (
        'The provider reported "bounced" (no such), which occurred at 2030-01-01T00:00:03Z and was '
        "told at 2030-01-01T00:00:10Z. It was accepted and could not be delivered."
    )


def test_a_report_that_came_before_the_answer_says_so() -> None:
    call = Call(started_at=after(2), finished_at=after(12), http_status=202)
    report = Report(occurred_at=after(10), received_at=after(10))
    change = Change(at=after(10), actor="provider", to_status="delivered", receipt_id=report.id)
    entries = timeline(
        Row(status="delivered"), attempts=[call], receipts=[report], transitions=[change]
    )
    assert entries[-1].sentence == (
        'The provider reported "delivered" at 2030-01-01T00:00:10Z, while attempt 1 was still '
        "open. It was delivered."
    )


def test_a_report_that_waited_for_its_notification_says_so() -> None:
    report = Report(occurred_at=after(10), received_at=after(10))
    change = Change(
        at=after(60),
        actor="provider",
        from_status="submitted",
        to_status="delivered",
        receipt_id=report.id,
    )
    assert "was kept until the notification it names was known" in (
        last_of(change, receipts=[report]).sentence
    )


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("pending", "It was waiting for another try, which is not made."),
        ("uncertain", "That settles the doubt."),
        ("dead", "It had been dead until then."),
        ("unconfirmed", "It had ended unconfirmed before."),
        ("failed", "That outweighs the failure that was reported before."),
    ],
)
def test_proof_says_what_it_means_for_where_it_was(before: str, words: str) -> None:
    report = Report()
    change = Change(
        at=after(10),
        actor="provider",
        from_status=before,
        to_status="delivered",
        receipt_id=report.id,
    )
    assert last_of(change, receipts=[report]).sentence.endswith(f"It was delivered. {words}")


REQUEUED = Change(
    at=after(100),
    actor="operator",
    from_status="dead",
    to_status="pending",
    reason="requeued",
    operator_action_id=UUID(int=31),
)


def test_a_requeue_names_who_did_it_and_that_they_accepted_a_second_message() -> None:
    action = Command(arguments={"ids": ["…"], "may_send_twice": True})
    entry = last_of(REQUEUED, row=Row(available_at=after(100)), operator_actions=[action])
    assert entry.by == "ada@host"
    assert entry.sentence == (
        "ada@host requeued it, accepting that it may be sent twice; its attempts are counted anew. "
        "It waits to be sent; the next try is due at 2030-01-01T00:01:40Z, as attempt 1 of 5."
    )


def test_a_tenant_is_not_told_which_operator_it_was() -> None:
    entry = last_of(REQUEUED, row=Row(status="leased"))
    assert (entry.actor, entry.by) == ("operator", None)
    assert entry.sentence == (
        "An operator requeued it; its attempts are counted anew. It waits to be sent."
    )


def test_a_note_is_kept_with_what_was_done() -> None:
    change = Change(
        actor="operator",
        from_status="dead",
        to_status="dead",
        reason="discarded",
        operator_action_id=UUID(int=31),
    )
    action = Command(command="dead.discard", arguments={"note": "{out} of date"})
    assert last_of(change, row=Row(status="dead"), operator_actions=[action]).sentence == (
        'ada@host discarded it, noting "{out} of date". It rests as it is; only evidence can still '
        "change it."
    )


def test_an_attempt_that_stands_for_lost_history_has_no_claim() -> None:
    call = Call(lease_number=3, outcome="unknown", code="restored", started_at=after(5))
    change = Change(
        at=after(50),
        actor="operator",
        from_status="leased",
        to_status="uncertain",
        reason="restored",
        lease_number=3,
        attempt_id=call.id,
    )
    entries = timeline(Row(status="uncertain"), attempts=[call], receipts=[], transitions=[change])
    assert [entry.actor for entry in entries] == ["client", "operator"]
    assert "after the database was restored" in entries[-1].sentence
