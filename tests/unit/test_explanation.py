"""An explanation tells everything that was learnt, and neither the recipient nor the content."""

import json
from typing import Any
from uuid import UUID

import pytest

from functions.core.explanation import explain
from tests.histories import (
    ID,
    ORGANIZATION,
    RECIPIENT,
    Call,
    Change,
    Command,
    Decided,
    Dossier,
    OpenHold,
    Report,
    Row,
    Story,
    Suppressed,
    Way,
    after,
)

NOW = after(200)


def explained(story: Story, *, operator_actions: list[Command] | None = None) -> dict[str, Any]:
    dossier = Dossier(history=story, operator_actions=operator_actions or [])
    told = explain(dossier, now=NOW, keyed_providers=("http",))
    assert json.loads(json.dumps(told)) == told  # plain values alone
    return told


def sentences(told: dict[str, Any]) -> list[str]:
    return [entry["sentence"] for entry in told["timeline"]]


def submitted(**columns: Any) -> Story:
    """Return a story up to its acceptance by the provider."""
    call = Call(http_status=202, reference="m-1")
    change = Change(to_status="submitted", reason="accepted", lease_number=1, attempt_id=call.id)
    row = Row(status="submitted", submitted_at=after(4), next_check_at=after(300), **columns)
    return Story(notification=row, attempts=[call], transitions=[change])


def test_a_whole_story_is_told_with_what_comes_next() -> None:
    told = explained(submitted())
    assert told["summary"] == (
        "The provider accepted it, and since 2030-01-01T00:00:04Z its delivery is not confirmed."
    )
    assert [(entry["actor"], entry["from"], entry["to"]) for entry in told["timeline"]] == [
        ("client", None, "pending"),
        ("claim", "pending", "leased"),
        ("sender", "leased", "submitted"),
    ]
    assert told["timeline"][2] == {
        "at": "2030-01-01T00:00:04Z",
        "actor": "sender",
        "by": None,
        "from": "leased",
        "to": "submitted",
        "reason": "accepted",
        "attempt_id": str(UUID(int=1)),
        "receipt_id": None,
        "sentence": (
            "Attempt 1 at http was answered with HTTP status 202 and the id m-1 after 2.0 s: it "
            "was accepted. Its delivery is not confirmed yet."
        ),
    }
    assert told["next"]["action"] == "check"
    assert told["next"]["at"] == "2030-01-01T00:05:00Z"
    assert "Without one by 2030-01-01T01:00:04Z" in told["next"]["sentence"]
    (attempt,) = told["attempts"]
    assert (attempt["number"], attempt["reference"], attempt["started_at"]) == (
        1,
        "m-1",
        "2030-01-01T00:00:02Z",
    )


def test_the_row_is_shown_without_what_is_the_recipients() -> None:
    told = explained(submitted(key_epoch=2, event_id="order-7", in_doubt=1))
    row = told["notification"]
    assert (row["id"], row["organization_id"]) == (str(ID), str(ORGANIZATION))
    assert (row["idempotency_key"], row["event_id"], row["in_doubt"]) == (f"{ID}.2", "order-7", 1)
    assert row["held"] is False
    assert (row["recipient_id"], row["template"]) == (None, None)
    assert not {"recipient", "content", "metadata"} & set(row)
    assert "the content" not in json.dumps(told)


def test_the_recipient_is_struck_out_of_what_others_wrote() -> None:
    report = Report(
        type="bounced",
        reason=f"550 <{RECIPIENT.upper()}> unknown, nor is grace@mail.example",
        reference=f"m/{RECIPIENT}",
        evidence_rank=4,
    )
    change = Change(
        at=after(10),
        actor="provider",
        from_status="submitted",
        to_status="failed",
        reason=report.reason,
        receipt_id=report.id,
    )
    call = Call(code=RECIPIENT, detail=f"to {RECIPIENT}", http_status=202)
    story = Story(
        notification=Row(status="failed", reason=report.reason, event_id=f"up-{RECIPIENT}"),
        attempts=[call],
        receipts=[report],
        transitions=[change],
    )
    text = json.dumps(explained(story))
    assert "grace" not in text.lower()
    assert "550 <[recipient]> unknown, nor is [recipient]" in text


def test_a_telephone_number_is_struck_out_with_and_without_its_plus() -> None:
    reason = "+15550100123 or 15550100123"
    row = Row(status="dead", reason=reason, recipient="+15550100123")
    assert "5550100123" not in json.dumps(explained(Story(notification=row)))


def test_an_erased_recipient_is_no_obstacle() -> None:
    row = Row(status="dead", reason="no ada@example.com", recipient=None)
    told = explained(Story(notification=row))
    assert told["notification"]["reason"] == "no [recipient]"


def test_operators_are_named_although_their_names_look_like_mailboxes() -> None:
    action = Command(arguments={"note": f"asked {RECIPIENT} and zoe@example.com"})
    change = Change(
        at=after(100),
        actor="operator",
        from_status="dead",
        to_status="dead",
        reason="discarded",
        operator_action_id=action.id,
    )
    row = Row(status="dead", reason="rejected", discarded_at=after(100))
    told = explained(Story(notification=row, transitions=[change]), operator_actions=[action])
    assert told["timeline"][-1]["by"] == "ada@host"
    assert sentences(told)[-1].startswith(
        'ada@host discarded it, noting "asked [recipient] and [recipient]".'
    )
    assert told["next"] is None


def told_about(report: Report, story: Story) -> str:
    """Return the line about a report that moved nothing."""
    told = explained(
        Story(
            notification=story.notification,
            attempts=story.attempts,
            receipts=[*story.receipts, report],
            transitions=story.transitions,
        )
    )
    (entry,) = [one for one in told["timeline"] if one["receipt_id"] == str(report.id)]
    assert entry["from"] == entry["to"]
    assert entry["reason"] is None
    return entry["sentence"]


def test_a_report_about_somebody_else_says_why_it_changed_nothing() -> None:
    assert told_about(Report(applied=False), submitted()) == (
        'The provider reported "delivered" at 2030-01-01T00:00:10Z. It names another recipient, so '
        "it changes nothing."
    )


def test_a_report_that_proves_nothing_says_so() -> None:
    report = Report(type="opened", evidence_rank=0)
    assert told_about(report, submitted()).endswith(
        "It says nothing of delivery, so it is kept and changes nothing."
    )


def test_a_weaker_report_says_that_more_was_known() -> None:
    first = Report(id=UUID(int=22), evidence_rank=4, type="bounced", received_at=after(8))
    late = Report(evidence_rank=2, type="failed", received_at=after(12))
    story = submitted()
    told = Story(
        notification=story.notification,
        attempts=story.attempts,
        receipts=[first],
        transitions=[
            *story.transitions,
            Change(
                at=after(8),
                actor="provider",
                from_status="submitted",
                to_status="failed",
                receipt_id=first.id,
            ),
        ],
    )
    assert told_about(late, told).endswith("Stronger evidence was known, so it changes nothing.")
    same = Report(evidence_rank=4, type="bounced", received_at=after(12))
    assert told_about(same, told).endswith("As much was known, so it changes nothing.")


def test_a_failure_for_good_after_a_passing_one_is_told_although_the_status_stays() -> None:
    story = submitted()
    failed = Story(
        notification=Row(status="failed"),
        attempts=story.attempts,
        transitions=[
            *story.transitions,
            Change(at=after(8), actor="provider", from_status="submitted", to_status="failed"),
        ],
    )
    report = Report(evidence_rank=4, type="bounced", address_at_fault=True)
    assert told_about(report, failed).endswith(
        "It is stronger evidence of what it was already: failed. The address is at fault and "
        "suppressed from now on."
    )


def test_proof_for_what_was_never_submitted_is_kept_and_counted() -> None:
    story = Story(
        notification=Row(status="cancelled"),
        transitions=[
            Change(at=after(1), actor="client", from_status="pending", to_status="cancelled")
        ],
    )
    assert "The notification was cancelled, with nothing submitted" in told_about(Report(), story)


def test_a_report_is_weighed_against_what_was_known_when_it_came() -> None:
    early = Report(received_at=after(3), occurred_at=after(3), evidence_rank=1, type="accepted")
    assert told_about(early, submitted()) == (
        'The provider reported "accepted" at 2030-01-01T00:00:03Z, while attempt 1 was still open. '
        "By the time it was weighed as much was known, so it changes nothing."
    )


def test_a_complaint_says_what_follows_for_the_address() -> None:
    report = Report(type="complained", complaint=True, address_at_fault=True)
    change = Change(
        at=after(10),
        actor="provider",
        from_status="submitted",
        to_status="delivered",
        receipt_id=report.id,
    )
    story = Story(
        notification=Row(status="delivered", complained=True),
        receipts=[report],
        transitions=[change],
    )
    assert sentences(explained(story))[-1].endswith(
        "It was delivered. The recipient complained: the address is suppressed from now on."
    )


def test_an_attempt_that_moved_nothing_is_told_too() -> None:
    call = Call(outcome="accepted", http_status=202, finished_at=after(12))
    report = Report()
    change = Change(at=after(10), actor="provider", to_status="delivered", receipt_id=report.id)
    story = Story(
        notification=Row(status="delivered"),
        attempts=[call],
        receipts=[report],
        transitions=[change],
    )
    assert sentences(explained(story))[-1] == (
        "Attempt 1 at http was answered with HTTP status 202 after 10 s, which counts as accepted. "
        "It moved nothing: the notification was delivered by then."
    )


def test_an_attempt_that_is_open_is_not_told_as_ended() -> None:
    call = Call(outcome=None, finished_at=None)
    row = Row(status="leased", lease_number=1, lease_until=after(240), updated_at=after(2))
    told = explained(Story(notification=row, attempts=[call]))
    assert [entry["actor"] for entry in told["timeline"]] == ["client", "claim"]
    assert told["next"]["action"] == "recover"
    assert told["summary"] == "It is being sent, since 2030-01-01T00:00:02Z."


def test_a_command_that_moved_nothing_is_told_too() -> None:
    action = Command(command="receipts.replay")
    told = explained(submitted(), operator_actions=[action])
    assert sentences(told)[-1] == (
        "ada@host gave the command receipts.replay, which moved nothing here."
    )


def test_the_lines_are_in_the_order_of_their_times() -> None:
    story = submitted()
    note = Report(received_at=after(3), occurred_at=after(3), applied=False)
    told = explained(
        Story(
            notification=story.notification,
            attempts=story.attempts,
            receipts=[note],
            transitions=story.transitions,
        )
    )
    times = [entry["at"] for entry in told["timeline"]]
    assert times == sorted(times)
    assert [entry["actor"] for entry in told["timeline"]] == [
        "client",
        "claim",
        "provider",
        "sender",
    ]


def test_the_time_it_has_stood_there_is_counted_from_its_last_arrival() -> None:
    changes = [
        Change(at=after(5), to_status="dead", reason="rejected"),
        Change(at=after(50), actor="operator", from_status="dead", reason="requeued"),
        Change(at=after(60), to_status="dead", reason="rejected"),
    ]
    row = Row(status="dead", reason="rejected", updated_at=after(99))
    told = explained(Story(notification=row, transitions=changes))
    assert told["summary"] == (
        "It is held for a person, since 2030-01-01T00:01:00Z: the provider rejected it for good."
    )
    assert told["notification"]["held"] is True


def test_what_was_passed_on_says_so_while_it_waits_and_afterwards() -> None:
    first = Call(outcome="blocked", code="401", http_status=401, scope="provider")
    change = Change(reason="blocked", lease_number=1, attempt_id=first.id)
    waits = Dossier(
        history=Story(attempts=[first], transitions=[change]), way=Way(next_provider="other")
    )
    assert sentences(explain(waits, now=NOW))[-1] == (
        "Attempt 1 at http was answered with HTTP status 401 after 2.0 s: our account at the "
        "provider is blocked or misconfigured; the attempt is not counted. It is passed on to "
        "other at once, without an attempt spent."
    )
    second = Call(id=UUID(int=2), lease_number=2, provider="other", started_at=after(5))
    told = explained(Story(attempts=[first, second], transitions=[change]))
    (line,) = [one["sentence"] for one in told["timeline"] if one["reason"] == "blocked"]
    assert line.endswith("The next attempt was made with other.")


def test_attempts_say_how_far_their_answers_reach() -> None:
    call = Call(
        outcome="blocked",
        code="SendingPausedException",
        http_status=400,
        scope="sender_identity",
    )
    told = explained(Story(notification=Row(status="delivered"), attempts=[call]))
    assert told["attempts"][0]["scope"] == "sender_identity"
    assert (
        ", which counts as blocked, about the sender identity of its stream."
        in (sentences(told)[-1])
    )


def test_what_is_on_hold_names_no_time_of_its_next_try() -> None:
    change = Change(actor="policy", reason="mix_shifted", lease_number=1)
    row = Row(reason="mix_shifted", hold_id=OpenHold().id, available_at=after(1e10))
    story = Story(notification=row, transitions=[change])
    told = explain(Dossier(history=story, way=Way(country="MV")), now=NOW)
    assert sentences(told)[-1] == (
        "Messages to its country (MV) or its prefix are unlike what its organization usually "
        "sends. It is on hold until a person has looked at them."
    )
    assert told["summary"].endswith(": its country (MV) or its prefix is on hold.")
    assert told["next"]["action"] == "decide"


def test_its_country_is_named_where_it_is_known_and_not_in_what_others_wrote() -> None:
    change = Change(actor="policy", to_status="suppressed", reason="country_not_allowed")
    row = Row(status="suppressed", reason="country_not_allowed")
    report = Report(type="its country")
    story = Story(notification=row, transitions=[change], receipts=[report])
    told = explain(Dossier(history=story, way=Way(country="MV")), now=NOW)
    assert told["summary"].endswith(": its organization may not send SMS to its country (MV).")
    (policy,) = [one["sentence"] for one in told["timeline"] if one["actor"] == "policy"]
    assert policy == ("Its organization may not send SMS to its country (MV). It is not sent.")
    assert 'The provider reported "its country" at' in sentences(told)[-1]
    assert "(" not in explain(Dossier(history=story), now=NOW)["summary"]


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (Suppressed(), " since {at}, because a message to it bounced (source ses:event)."),
        (
            Suppressed(reason="recipient_choice", source="unsubscribe", category="newsletter"),
            " for newsletter since {at}, because it unsubscribed (source unsubscribe).",
        ),
        (
            Suppressed(reason="recipient_choice", source="sms:inbound"),
            " since {at}, because it answered STOP (source sms:inbound).",
        ),
        (
            Suppressed(reason="recipient_choice", source=RECIPIENT),
            " since {at}, because it opted out (source [recipient]).",
        ),
        (
            Suppressed(reason="of tomorrow", source="api"),
            " since {at}, because of tomorrow (source api).",
        ),
        (None, "."),
    ],
)
def test_what_is_suppressed_says_by_which_fact(fact: Suppressed | None, words: str) -> None:
    story = Story(notification=Row(status="suppressed", reason="suppressed"))
    told = explain(Dossier(history=story, way=Way(suppression=fact)), now=NOW)
    assert told["summary"].endswith(
        ": the recipient is on the suppression list" + words.format(at="2030-01-01T00:00:02Z")
    )


def test_a_fact_is_told_of_nothing_that_ended_otherwise() -> None:
    story = Story(notification=Row(status="dead", reason="rejected"))
    told = explain(Dossier(history=story, way=Way(suppression=Suppressed())), now=NOW)
    assert "suppression list" not in told["summary"]


MADE_FROM: dict[str, Any] = {
    "recipient_version": 12,
    "rules_version": 5,
    "locale": "de",
    "time_zone": "Europe/Berlin",
    "quiet_hours": {"start": "22:00", "end": "07:00"},
    "window": None,
    "preference": True,
    "contact_verified": True,
    "local_time": "2030-01-01T01:00:00+01:00",
}


def decided(row: Row, *changes: Change, **members: Any) -> dict[str, Any]:
    dossier = Dossier(
        history=Story(notification=row, transitions=list(changes)), decided=Decided(**members)
    )
    told = explain(dossier, now=NOW, keyed_providers=("http",))
    assert json.loads(json.dumps(told)) == told
    return told


def test_what_was_decided_of_a_reference_is_shown_with_what_it_was_made_from() -> None:
    told = decided(
        Row(recipient=None),
        recipient_id="ada",
        template_name="receipt",
        template_version=3,
        verdict="allow",
        policy_version=2,
        decision=MADE_FROM,
        locale="de-AT",
        has_contact_point=True,
        addresses=[RECIPIENT],
    )
    assert told["notification"]["recipient_id"] == "ada"
    assert told["notification"]["template"] == {"name": "receipt", "version": 3}
    assert told["decision"] == {
        "verdict": "allow",
        "policy_version": 2,
        "contact_point": {"channel": "email", "verified": True},
        **{name: value for name, value in MADE_FROM.items() if name != "contact_verified"},
        "locale": "de-AT",
    }
    assert "grace" not in json.dumps(told)


def test_before_the_first_verdict_there_is_no_decision() -> None:
    told = decided(Row(recipient=None), recipient_id="ada")
    assert told["decision"] is None


def test_what_is_behind_a_reference_is_struck_out_of_what_others_wrote() -> None:
    reason = f"550 {RECIPIENT}, 4930123456, and +4930999999 before; call 112"
    told = decided(
        Row(recipient=None, status="dead", reason=reason),
        recipient_id="ada",
        addresses=["+4930123456", RECIPIENT],
    )
    assert told["notification"]["reason"] == (
        "550 [recipient], [recipient], and [recipient] before; call 112"
    )


def test_an_erasure_is_told_when_it_moved_nothing_too() -> None:
    told = decided(Row(status="delivered", final_at=after(50)), erased_at=after(90))
    assert told["notification"]["erased_at"] == "2030-01-01T00:01:30Z"
    assert sentences(told)[-1] == (
        "The recipient was erased, as the organization asked: neither their address nor its words "
        "are kept. It moved nothing."
    )
    erased = Change(
        at=after(90),
        actor="client",
        from_status="pending",
        to_status="suppressed",
        reason="erased",
    )
    told = decided(Row(status="suppressed", reason="erased"), erased, erased_at=after(90))
    assert sentences(told)[1:] == [
        "The recipient was erased, as the organization asked. It is not sent, and neither its "
        "address nor its words are kept."
    ]
    assert told["summary"].endswith(": the recipient was erased.")


def test_what_is_wrong_with_a_request_is_told_pointer_by_pointer() -> None:
    faults = [
        {"pointer": "/channel", "code": "required", "detail": "It is required."},
        {"pointer": "/x", "code": "unknown_field", "detail": f"No {RECIPIENT} here."},
    ]
    invalid = Change(
        at=after(1), actor="accept", from_status="pending", to_status="dead", reason="invalid"
    )
    told = decided(Row(recipient=None, status="dead", reason="invalid"), invalid, faults=faults)
    assert sentences(told) == [
        "It was asked for within a transaction of the database.",
        "What was asked for is not valid (2 faults). As it is it can never be sent: it is held for "
        "a person.",
    ]
    assert told["faults"] == [faults[0], {**faults[1], "detail": "No [recipient] here."}]
    assert told["next"]["sentence"] == (
        "Nothing before a person decides: discard it, for as it is it can never be sent. Ask for "
        "it anew instead."
    )
