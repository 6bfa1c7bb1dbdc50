"""`sendoff policy`, and what `sendoff explain` shows of a decision: asked and answered."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from functions.core.explanation import explain
from tests.command_line import Operator, operator_at
from tests.fake_console import no
from tests.histories import Candidate, Change, Decided, Dossier, Link, Row, Story, after

ID = "0199aaaa-0000-7000-8000-000000000001"
MADE_FROM: dict[str, Any] = {
    "recipient_version": 12,
    "rules_version": None,
    "locale": "de",
    "time_zone": "Europe/Berlin",
    "quiet_hours": {"start": "22:00", "end": "07:00"},
    "window": None,
    "preference": None,
    "contact_verified": None,
    "local_time": "2030-01-01T22:41:00+01:00",
}

BOUNCED = {
    "reason": "hard_bounce",
    "source": "ses:event",
    "category": None,
    "created_at": "2030-01-01T00:00:02.5Z",
}


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    with operator_at(tmp_path / "state") as operator:
        yield operator


def replayed(**members: Any) -> dict[str, Any]:
    """Return what the console tells of a notification that was deferred and may be sent now."""
    today = {
        "channel": "email",
        "verdict": "allow",
        "reason": None,
        "policy_version": 2,
        "until": None,
        "locale": "de",
        "inputs": {**MADE_FROM, "recipient_version": 17, "contact_verified": True},
        "contact_points": [
            {"verified": True, "suppressed": True, "suppression": BOUNCED, "chosen": False},
            {"verified": True, "suppressed": False, "suppression": None, "chosen": True},
        ],
        "changed": {"recipient_version": {"was": 12, "is": 17}},
        "sentence": "It may be sent, by email to a verified contact point, in de.",
        "difference": "It is not as it was decided.",
    }
    return {
        "id": ID,
        "status": "pending",
        "is_over": False,
        "recipient_id": "ada",
        "category": "news",
        "stream": "bulk",
        "priority": "normal",
        "is_parent": False,
        "at": "2030-01-02T09:00:00.5Z",
        "stored": {
            "channel": "email",
            "verdict": "defer",
            "reason": "quiet_hours",
            "policy_version": 1,
            "at": "2030-01-01T21:41:00.25Z",
            "inputs": MADE_FROM,
        },
        "today": [today],
        **members,
    }


def test_what_the_policy_said_and_says_is_one_screen(operator: Operator) -> None:
    operator.console.will("policy", replayed())
    ended = operator.run("policy", ID)
    assert ended.status == 0
    assert (
        ended.out
        == f"""\
{ID}  pending
news (bulk), normal, to ada
Decided at 2030-01-01T21:41:00Z, by policy 1: defer (quiet_hours).

Now, by policy 2: allow. It may be sent, by email to a verified contact point, in de.
It is not as it was decided.

MADE FROM          THEN                       NOW
recipient_version  12                         17
rules_version      none                       none
locale             de                         de
time_zone          Europe/Berlin              Europe/Berlin
quiet_hours        22:00–07:00                22:00–07:00
window             none                       none
preference         none                       none
contact_verified   none                       yes
local_time         2030-01-01T22:41:00+01:00  2030-01-01T22:41:00+01:00
Versions are running numbers of the whole service, not of the record or of the rules.

CONTACT POINT  VERIFIED  SUPPRESSED  SINCE                 BECAUSE                         CHOSEN
1              yes       yes         2030-01-01T00:00:02Z  hard_bounce (source ses:event)  no
2              yes       no          -                     -                               yes
"""
    )
    assert operator.console.asked("policy") == [{"id": ID}]


def test_another_moment_is_asked_for_and_named(operator: Operator) -> None:
    operator.console.will("policy", replayed(at="2030-12-24T22:30:00Z"))
    ended = operator.run("policy", ID, "--at", "2030-12-24T23:30:00+01:00")
    assert "\nAt 2030-12-24T22:30:00Z, by policy 2: allow." in ended.out
    assert operator.console.asked("policy") == [{"id": ID, "at": "2030-12-24T22:30:00Z"}]
    assert operator.run("policy", ID, "--at", "2030-12-24T23:30:00").status == 2
    assert operator.run("policy", ID, "--json").document == replayed(at="2030-12-24T22:30:00Z")


def test_a_literal_address_and_one_that_has_ended_say_so(operator: Operator) -> None:
    literal: dict[str, Any] = {**replayed()["today"][0], "inputs": None, "contact_points": []}
    operator.console.will(
        "policy",
        replayed(status="delivered", is_over=True, recipient_id=None, stored=None, today=[literal]),
    )
    out = operator.run("policy", ID).out
    assert "to a literal address" in out
    assert "Decided" not in out
    assert "MADE FROM" not in out
    assert out.endswith(
        "It is delivered: nothing is sent of it by itself, whatever the policy says now.\n"
    )


def test_of_a_parent_every_channel_is_told(operator: Operator) -> None:
    today = replayed()["today"][0]
    push = {
        **today,
        "channel": "push",
        "verdict": "suppress",
        "reason": "opted_out",
        "sentence": "The recipient opted out.",
        "difference": "It is never sent itself.",
    }
    operator.console.will(
        "policy",
        replayed(
            status="delivered", is_over=True, is_parent=True, stored=None, today=[push, today]
        ),
    )
    assert (
        operator.run("policy", ID).out
        == f"""\
{ID}  delivered
news (bulk), normal, to ada

Now by push, by policy 2: suppress (opted_out). The recipient opted out.
Now by email, by policy 2: allow. It may be sent, by email to a verified contact point, in de.
It is never sent itself.

It is delivered: nothing is sent of it by itself, whatever the policy says now.
"""
    )


def test_what_there_is_not_is_refused(operator: Operator) -> None:
    operator.console.will("policy", no("not_found", "There is no notification with this id."))
    ended = operator.run("policy", ID)
    assert (ended.status, ended.out) == (3, "")
    assert operator.run("policy", "7").status == 2


def told(row: Row, *changes: Change, **members: Any) -> dict[str, Any]:
    dossier = Dossier(
        history=Story(notification=row, transitions=list(changes)), decided=Decided(**members)
    )
    return explain(dossier, now=after(100))


def test_explain_shows_a_decision_and_what_it_was_made_from(operator: Operator) -> None:
    operator.console.will(
        "explain",
        told(
            Row(recipient=None),
            recipient_id="ada",
            template_name="receipt",
            template_version=3,
            verdict="allow",
            policy_version=2,
            decision={
                **MADE_FROM,
                "rules_version": 5,
                "contact_verified": True,
                "preference": True,
            },
            locale="de-AT",
            has_contact_point=True,
            parent=Candidate(id=UUID(ID)),
        ),
    )
    lines = operator.run("explain", ID).out.splitlines()
    begin = lines.index(f"  Parent    {ID}, pending")
    assert lines[begin - 1 : begin + 8] == [
        "  Template  receipt, version 3",
        f"  Parent    {ID}, pending",
        "  Recipient ada, version 12 (running number)",
        "  Decided   allow, by policy 2 and the category's rules 5",
        "  Goes to   email, verified",
        "  Locale    de-AT",
        "  Zone      Europe/Berlin; 2030-01-01 22:41 there when it was decided",
        "  Choice    opted in to its category on its channel",
        "  Quiet     22:00–07:00",
    ]


def test_explain_shows_what_was_erased(operator: Operator) -> None:
    row = Row(recipient=None, status="suppressed", reason="erased")
    operator.console.will(
        "explain",
        told(
            row,
            recipient_id="ada",
            erased_at=after(50),
            verdict="suppress",
            policy_version=2,
            decision={"recipient_version": None},
        ),
    )
    out = operator.run("explain", ID).out
    assert "  Recipient ada; nothing was left of them when it was decided\n" in out
    assert "  Erased    at 2030-01-01T00:00:50Z\n" in out


def test_explain_shows_candidates_and_where_to_decide(operator: Operator) -> None:
    push = Candidate(id=UUID(int=51), status="suppressed", reason="opted_out")
    sms = Candidate(id=UUID(int=52), place=1, channel="sms", status="dead", reason="rejected")
    row = Row(recipient=None, status="dead", reason="rejected")
    operator.console.will(
        "explain", told(row, recipient_id="ada", channels=["push", "sms"], children=[push, sms])
    )
    ended = operator.run("explain", ID)
    assert ended.status == 1
    cells = [line.split() for line in ended.out.splitlines()]
    assert ["1", "push", str(push.id), "suppressed", "(opted_out)", "-", "-"] in cells
    assert ["2", "sms", str(sms.id), "dead", "(rejected)", "decide", "-"] in cells
    assert f"  sendoff explain {sms.id} --state-dir {operator.state_dir}\n" in ended.out
    assert "requeue" not in ended.out


def beside(stood: str, **parent: Any) -> dict[str, Any]:
    """Return what is told of a candidate by push that is held, beside one by SMS."""
    row = Row(status="dead", reason="outcome_unknown", in_doubt=1, parent_id=UUID(ID))
    dossier = Dossier(
        history=Story(notification=row),
        decided=Decided(place=0, parent=Candidate(id=UUID(ID), **parent)),
        links=[Link(id=row.id, place=0, channel="push", status="dead"), Link(status=stood)],
    )
    return explain(dossier, now=after(100))


@pytest.mark.parametrize(
    ("stood", "parent", "words"),
    [
        ("delivered", {"status": "delivered"}, "delivered by SMS"),
        ("delivered", {"status": "pending"}, "delivered by SMS"),
        ("pending", {"status": "cancelled"}, "cancelled"),
    ],
)
def test_what_is_over_by_another_channel_can_only_be_discarded_and_waits_for_nobody(
    operator: Operator, stood: str, parent: dict[str, Any], words: str
) -> None:
    operator.console.will("explain", beside(stood, **parent))
    ended = operator.run("explain", ID)
    assert ended.status == 0
    assert ended.out.endswith(
        f"Next: Its notification was {words}: nothing of it is sent any more; discard it.\n\n"
        f"  sendoff dead discard {ID} --state-dir {operator.state_dir}\n"
    )


def test_what_goes_on_by_another_channel_is_sent_again_only_with_consent(
    operator: Operator,
) -> None:
    operator.console.will("explain", beside("pending", status="pending"))
    ended = operator.run("explain", ID)
    assert ended.status == 0
    assert (
        "Next: Its notification goes on by SMS (pending), without this one: settle it once the "
        "provider's own records tell whether it was accepted, requeue it with --may-send-twice if "
        "a second message does no harm, or discard it.\n"
    ) in ended.out
    assert f"  sendoff dead requeue {ID} --may-send-twice --state-dir" in ended.out
    operator.console.will("explain", beside("suppressed", status="suppressed"))
    ended = operator.run("explain", ID)
    assert ended.status == 0
    assert "Its notification has ended (suppressed), without this one: settle it" in ended.out
    operator.console.will("explain", beside("dead", status="dead"))
    ended = operator.run("explain", ID)
    assert ended.status == 1
    assert "Next: Nothing before a person decides: settle it" in ended.out


def test_explain_shows_nothing_to_decide_of_a_candidate_beside_one_that_was_delivered(
    operator: Operator,
) -> None:
    push = Candidate(id=UUID(int=51), status="dead", reason="rejected")
    sms = Candidate(id=UUID(int=52), place=1, channel="sms", status="delivered")
    row = Row(recipient=None, channel="sms", status="delivered", final_at=after(50))
    operator.console.will(
        "explain", told(row, recipient_id="ada", channels=["push", "sms"], children=[push, sms])
    )
    ended = operator.run("explain", ID)
    assert ended.status == 0
    cells = [line.split() for line in ended.out.splitlines()]
    assert ["1", "push", str(push.id), "dead", "(rejected)", "-", "-"] in cells


def test_explain_shows_every_fault_of_a_request_and_offers_to_discard_it(
    operator: Operator,
) -> None:
    faults = [
        {"pointer": "/channel", "code": "required", "detail": "It is required."},
        {"pointer": "", "code": "wrong_type", "detail": "It is an object."},
    ]
    row = Row(recipient=None, status="dead", reason="invalid")
    operator.console.will("explain", told(row, faults=faults))
    ended = operator.run("explain", ID)
    assert ended.status == 1
    assert "2 faults in what was asked for:\n" in ended.out
    assert "/channel  required    It is required.\n" in ended.out
    assert "/         wrong_type  It is an object.\n" in ended.out
    assert f"sendoff dead discard {ID}" in ended.out
    assert "requeue" not in ended.out


def test_explain_says_which_notification_a_request_repeats(operator: Operator) -> None:
    first = told(Row())
    operator.console.will("explain", {**first, "asked": ID, "repeats": first["notification"]["id"]})
    out = operator.run("explain", ID).out
    assert out.startswith(f"{ID} repeats an event: the notification of it is the one below.\n\n")
