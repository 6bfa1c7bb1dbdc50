"""Several channels in order, in words: how each began, what moved the whole, what comes next."""

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from functions.core.explanation import explain
from functions.core.timeline import timeline
from tests.histories import Candidate, Change, Decided, Dossier, Row, Story, after

PARENT = UUID(int=50)
ORDER = ["push", "sms", "email"]
PUSH = Candidate(id=UUID(int=51), channel="push", status="failed", reason="bounced")
SMS = Candidate(id=UUID(int=52), place=1, channel="sms", created_at=after(60))
NEVER = datetime.max.replace(tzinfo=after(0).tzinfo)
NOW = after(100)


def chain(row: Row, *children: Candidate, **more: Any) -> Dossier:
    decided = Decided(channels=ORDER, children=list(children), place=len(children) - 1, **more)
    return Dossier(history=Story(notification=row), decided=decided)


def next_of(row: Row, *children: Candidate, **more: Any) -> dict[str, Any] | None:
    return explain(chain(row, *children, **more), now=NOW)["next"]


PENDING = Row(channel="push", available_at=NEVER)


def test_the_parent_says_by_which_channels_it_goes() -> None:
    (first, *_) = explain(chain(PENDING, PUSH), now=NOW)["timeline"]
    assert first["sentence"] == (
        "The request was accepted and stored, for push, SMS, then email, until one of them is "
        "delivered; the first is to be sent at once."
    )


def test_a_candidate_says_of_what_it_is_one() -> None:
    row = Row(channel="sms", parent_id=PARENT)
    (entry,) = timeline(row, attempts=[], receipts=[], transitions=[], decided=Decided(place=1))
    assert (entry.actor, entry.sentence) == (
        "fallback",
        f"It was started as candidate 2 of notification {PARENT}, by SMS; it is to be sent at "
        "once.",
    )
    (entry,) = timeline(row, attempts=[], receipts=[], transitions=[])
    assert entry.sentence.startswith(f"It was started as a candidate of notification {PARENT},")


def moved(*steps: Change, children: tuple[Candidate, ...] = (PUSH, SMS)) -> list[str]:
    told = timeline(
        PENDING,
        attempts=[],
        receipts=[],
        transitions=steps,
        decided=Decided(channels=ORDER, children=list(children)),
    )
    return [entry.sentence for entry in told[1:]]


def step(at: float, to_status: str, reason: str | None = None) -> Change:
    return Change(
        at=after(at), actor="fallback", from_status="pending", to_status=to_status, reason=reason
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            step(60, "pending", "fallback_started"),
            "The candidate by push came to nothing, so the next one was started, by SMS. It waits "
            "to be sent there.",
        ),
        (
            step(60, "pending", "fallback_after"),
            "The candidate by push was not delivered in the time it had, so the next one was "
            "started, by SMS. It waits to be sent there.",
        ),
        (
            step(20, "submitted", "accepted"),
            "It follows its candidate by push (accepted). Its delivery is not confirmed yet.",
        ),
        (
            step(70, "dead", "budget_spent"),
            "It follows its candidate by SMS (budget_spent). It is held for a person to look at.",
        ),
        (step(80, "delivered"), "It follows its candidate by SMS. It was delivered."),
        (
            step(90, "delivered", "fallback_double"),
            "Another candidate by SMS was delivered as well: the recipient was told twice. It was "
            "delivered.",
        ),
    ],
)
def test_what_moved_the_parent_is_told_by_channel(change: Change, words: str) -> None:
    assert moved(change) == [words]


def test_the_one_that_was_delivered_is_named_also_when_it_is_not_the_newest() -> None:
    late = Candidate(id=PUSH.id, channel="push", status="delivered")
    assert moved(step(90, "delivered"), children=(late, SMS)) == [
        "It follows its candidate by push. It was delivered."
    ]


def test_a_second_delivery_names_the_one_that_is_not_shown() -> None:
    pair = [Candidate(id=one.id, place=place, channel=one.channel, status="delivered")
            for place, one in enumerate((PUSH, SMS))]  # fmt: skip
    told = timeline(
        PENDING, attempts=[], receipts=[],
        transitions=[step(80, "delivered"), step(90, "delivered", "fallback_double")],
        decided=Decided(channels=ORDER, children=pair, place=1),
    )  # fmt: skip
    assert [entry.sentence.partition(".")[0] for entry in told[1:]] == [
        "It follows its candidate by SMS",
        "Another candidate by push was delivered as well: the recipient was told twice",
    ]


def test_one_that_was_sent_again_is_named_while_it_waits() -> None:
    again = Candidate(id=PUSH.id, channel="push", status="leased")
    ended = Candidate(id=SMS.id, place=1, channel="sms", status="failed")
    back = Change(at=after(90), actor="fallback", from_status="failed", to_status="pending")
    assert moved(back, children=(again, ended)) == [
        "It follows its candidate by push. It waits to be sent."
    ]
    assert moved(back, children=(PUSH, ended)) == ["It follows its candidate. It waits to be sent."]


def test_a_tenant_is_told_what_happened_without_the_candidates() -> None:
    (words,) = [
        entry.sentence
        for entry in timeline(
            PENDING,
            attempts=[],
            receipts=[],
            transitions=[step(60, "pending", "fallback_started")],
        )[1:]
    ]
    assert words == (
        "The candidate before came to nothing, so the next one was started. It waits to be sent "
        "there."
    )


def test_what_comes_next_is_the_next_candidate_in_its_time() -> None:
    assert next_of(PENDING, PUSH, SMS, next_step_at=after(360)) == {
        "action": "fallback",
        "at": "2030-01-01T00:06:00Z",
        "sentence": (
            f"Its candidate by SMS, {SMS.id}, is pending. Unless it is delivered by "
            "2030-01-01T00:06:00Z, the next one is started then, by email; at once, if it comes to "
            "nothing before."
        ),
    }
    told = next_of(PENDING, PUSH, next_step_at=after(90))
    assert told is not None
    assert told["sentence"] == (
        f"Its candidate by push, {PUSH.id}, has failed (bounced). Its time is over: the next one "
        "is started at once, by SMS."
    )


def test_of_the_last_candidate_the_parent_shares_the_fate() -> None:
    email = Candidate(id=UUID(int=53), place=2, channel="email", available_at=after(300))
    assert next_of(PENDING, PUSH, SMS, email) == {
        "action": "send",
        "at": "2030-01-01T00:05:00Z",
        "sentence": (
            f"Its candidate by email, {email.id}, is pending. It is the last one: what becomes of "
            "it becomes of this notification."
        ),
    }


def test_a_chain_that_goes_no_further_says_so() -> None:
    told = next_of(PENDING, PUSH, SMS)
    assert told is not None
    assert told["sentence"].endswith("is pending. No other one is started.")


def test_a_parent_that_is_held_is_decided_at_its_candidate() -> None:
    row = Row(status="dead", reason="rejected", available_at=NEVER)
    email = Candidate(id=UUID(int=53), place=2, channel="email", status="dead", reason="rejected")
    assert next_of(row, PUSH, SMS, email) == {
        "action": "decide",
        "at": None,
        "sentence": (
            f"Its candidate by email, {email.id}, is dead (rejected). Nothing before a person "
            "decides there."
        ),
    }


def test_what_comes_next_of_one_that_outlived_the_later_ones_is_what_comes_next_of_it() -> None:
    again = Candidate(id=PUSH.id, channel="push", status="pending", available_at=after(300))
    ended = Candidate(id=SMS.id, place=1, channel="sms", status="unconfirmed")

    def told(**more: Any) -> dict[str, Any] | None:
        decided = Decided(channels=ORDER, children=[again, ended], place=0, **more)
        dossier = Dossier(history=Story(notification=PENDING), decided=decided)
        return explain(dossier, now=NOW)["next"]

    assert told() == {
        "action": "send",
        "at": "2030-01-01T00:05:00Z",
        "sentence": (
            f"Its candidate by push, {PUSH.id}, is pending. It outlived the later ones: if it is "
            "delivered, so is this notification."
        ),
    }
    waiting = told(next_step_at=after(360))
    assert waiting is not None
    assert (waiting["action"], waiting["sentence"]) == (
        "fallback",
        f"Its candidate by push, {PUSH.id}, is pending. Unless one is delivered by "
        "2030-01-01T00:06:00Z, the next one is started then, by email.",
    )


def test_nothing_comes_after_the_end_of_a_chain() -> None:
    row = Row(status="delivered", final_at=after(90), available_at=NEVER)
    assert next_of(row, PUSH, SMS) is None


def test_the_candidates_are_shown_in_their_order_each_with_what_is_next() -> None:
    told = explain(chain(PENDING, PUSH, SMS, next_step_at=after(360)), now=NOW)
    assert told["children"] == [
        {
            "id": str(PUSH.id),
            "place": 0,
            "channel": "push",
            "status": "failed",
            "reason": "bounced",
            "created_at": "2030-01-01T00:00:00Z",
            "next": None,
        },
        {
            "id": str(SMS.id),
            "place": 1,
            "channel": "sms",
            "status": "pending",
            "reason": None,
            "created_at": "2030-01-01T00:01:00Z",
            "next": {"action": "send", "at": "2030-01-01T00:00:00Z"},
        },
    ]
    assert told["parent"] is None
    child = Dossier(
        history=Story(notification=Row(channel="sms", parent_id=PARENT)),
        decided=Decided(place=1, parent=Candidate(id=PARENT, place=1)),
    )
    parent = explain(child, now=NOW)["parent"]
    assert (parent["id"], parent["status"]) == (str(PARENT), "pending")
