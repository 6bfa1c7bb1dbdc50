"""What is told of chains: which candidate was delivered when, and whether one that is held is still
of use; and why a recipient's contact points are suppressed."""

from collections.abc import Generator
from typing import Any, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.core.evidence import Rank
from functions.core.login import Login
from functions.core.outcome import Rejected, Unknown
from functions.store.chain_story import READ_DELIVERIES, READ_LINKS
from functions.store.connection import Database
from functions.store.contact_fact import READ_FACTS
from tests import chains
from tests.by_reference import ADA, ADAS, add_referring, address, judged, put
from tests.chains import Story
from tests.fakes import add_suppression_fact, row_of
from tests.operating import cancel
from tests.operators import Operator, operator_database, operator_with
from tests.steps import lease

HOLD = """
    UPDATE notifications
       SET status = 'dead', reason = 'outcome_unknown', attempt_id = NULL, decide_at = NULL
     WHERE id = %s
"""
REJECTED = Rejected(code="400", http_status=400)


@pytest.fixture
def operator(login: Login) -> Generator[Operator]:
    with operator_database(login) as database:
        yield operator_with(database, None, {})


def explained(operator: Operator, id: UUID) -> dict[str, Any]:
    told = operator.ask("explain", id=str(id))
    assert ADAS not in str(told)
    return told


def listed(operator: Operator, **filters: Any) -> list[tuple[str, bool]]:
    found = operator.ask("dead.list", **filters)["data"]
    return [(one["id"], one["needed"]) for one in found]


def fate_of(operator: Operator, id: UUID, **consent: bool) -> str:
    (done,) = operator.ask("dead.requeue", ids=[str(id)], **consent)["fates"]
    return done["fate"]


def test_a_candidate_that_is_dead_waits_for_nobody_once_the_next_one_goes_on(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    story = chains.story(owner, database, ("push", "sms"))
    story.closed(Unknown(code="timeout"), keyed=False)
    push = story.children[0].id
    owner.execute(HOLD, [push])
    assert listed(operator) == [(str(push), True)], "its notification was not told of it yet"
    story.go_on()
    assert listed(operator) == []
    assert listed(operator, needless=True) == [(str(push), False)]
    assert listed(operator, ids=[str(push)]) == [(str(push), False)]
    told = explained(operator, push)
    assert told["chain"]["outcome"] == "goes_on"
    assert told["waits_for_person"] is False
    assert told["next"]["sentence"].startswith(
        "Its notification goes on by SMS (pending), without this one: settle it once"
    )
    assert "requeue it with --may-send-twice if a second message" in told["next"]["sentence"]
    assert fate_of(operator, push) == "needs_consent"
    (shown, _) = explained(operator, story.id)["children"]
    assert (shown["status"], shown["next"]) == ("dead", None)

    story.accepted()
    story.told(1)
    told = explained(operator, push)  # before its notification was told
    sentence = "Its notification was delivered by SMS: nothing of it is sent any more; discard it."
    assert told["next"]["sentence"] == sentence
    story.go_on()
    told = explained(operator, push)
    assert (told["next"]["sentence"], told["waits_for_person"]) == (sentence, False)
    assert told["chain"]["is_over"] is True
    assert listed(operator) == []
    assert fate_of(operator, push) == "chain_delivered"
    assert fate_of(operator, push, may_send_twice=True) == "chain_delivered"
    (shown, _) = explained(operator, story.id)["children"]
    assert (shown["status"], shown["next"]) == ("dead", None)


def test_a_dead_candidate_of_a_cancelled_notification_can_only_be_discarded(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    story = chains.story(owner, database, ("push", "sms"))
    story.closed(REJECTED)
    story.go_on()
    cancel(database, story.id)
    push = story.children[0].id
    told = explained(operator, push)
    assert told["next"]["sentence"] == (
        "Its notification was cancelled: nothing of it is sent any more; discard it."
    )
    assert fate_of(operator, push, may_send_twice=True) == "chain_cancelled"
    assert listed(operator) == []


def test_every_candidate_of_a_notification_that_is_held_waits_for_a_person(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    story = chains.story(owner, database, ("push", "sms"))
    story.closed(REJECTED)
    story.go_on()
    story.closed(REJECTED)
    story.go_on()
    assert listed(operator) == [(str(one.id), True) for one in story.children]
    told = explained(operator, story.children[0].id)
    assert (told["chain"]["outcome"], told["waits_for_person"]) == ("open", True)
    assert told["next"]["sentence"] == (
        "Nothing before a person decides: requeue it once its cause is gone, or discard it."
    )
    parent = explained(operator, story.id)
    assert parent["waits_for_person"] is True
    assert parent["summary"].endswith(": the provider rejected it for good (its candidate by SMS).")
    assert [one["next"]["action"] for one in parent["children"]] == ["decide", "decide"]


def deliveries(operator: Operator, story: Story) -> list[str]:
    """Return what is told of how a parent was delivered."""
    return [
        entry["sentence"]
        for entry in explained(operator, story.id)["timeline"]
        if entry["actor"] == "fallback" and entry["to"] == "delivered"
    ]


@pytest.mark.parametrize(
    ("order", "first", "second"), [((1, 0), "SMS", "email"), ((0, 1), "email", "SMS")]
)
def test_a_double_names_which_candidate_was_delivered_first_and_which_as_well(
    owner: psycopg.Connection,
    database: Database,
    operator: Operator,
    order: tuple[int, int],
    first: str,
    second: str,
) -> None:
    story = chains.story(owner, database, ("email", "sms"), after=1)
    story.accepted()
    story.go_on(now=story.later(seconds=60))
    story.accepted()
    story.told(order[0], Rank.DELIVERED)
    story.go_on()
    followed = f"It follows its candidate by {first}. It was delivered."
    assert deliveries(operator, story) == [followed]
    story.told(order[1], Rank.DELIVERED)
    story.go_on()
    before, double = deliveries(operator, story)
    assert before == followed, "as it was told before the other one was delivered"
    assert double.startswith(
        f"Another candidate by {second} was delivered as well: the recipient was told twice."
    )


def test_the_delivery_that_failed_again_is_not_taken_for_the_one_that_came_after(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    story = chains.story(owner, database, ("email", "sms"), after=1)
    story.accepted()
    story.go_on(now=story.later(seconds=60))
    story.accepted()
    story.told(0, Rank.DELIVERED)
    story.go_on()
    story.told(0, Rank.HARD_FAILURE)
    story.go_on()
    story.told(1, Rank.DELIVERED)
    story.go_on()
    assert deliveries(operator, story) == [
        "It follows its candidate by email. It was delivered.",
        "It follows its candidate by SMS. It was delivered.",
    ]


def test_why_contact_points_are_suppressed_and_since_when_is_told(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    put(database)
    (id,) = add_referring(owner)
    add_suppression_fact(owner, recipient=ADAS, category="newsletter")  # another category's
    add_suppression_fact(owner, recipient=ADAS)
    judged(database, lease(database))
    assert row_of(owner, id).reason == "suppressed"
    told = explained(operator, id)
    assert (
        "because it must not be sent: the contact point of the recipient is on the suppression "
        "list since 20"
    ) in told["summary"]
    assert told["summary"].endswith(", because an operator said so (source test).")
    (today,) = operator.ask("policy", id=str(id))["today"]
    (point,) = today["contact_points"]
    assert point["suppressed"] is True
    fact = point["suppression"]
    assert (fact["reason"], fact["source"], fact["category"]) == ("operator", "test", None)
    assert fact["created_at"]

    other = "ada@home.example"
    put(database, address(other), address(ADAS))
    add_suppression_fact(owner, recipient=other, category="transactional")
    summary = explained(operator, id)["summary"]
    assert ": contact point 1 of the recipient is on the suppression list for trans" in summary
    assert "; contact point 2 of the recipient is on the suppression list since 20" in summary
    assert other not in summary
    add_suppression_fact(owner, recipient=ADAS, kind="lift")
    summary = explained(operator, id)["summary"]
    assert "contact point 2" not in summary
    (today,) = operator.ask("policy", id=str(id))["today"]
    assert [bool(one["suppression"]) for one in today["contact_points"]] == [True, False]
    assert [one["suppressed"] for one in today["contact_points"]] == [True, False]
    add_suppression_fact(owner, recipient=other, kind="lift", category="transactional")
    assert explained(operator, id)["summary"].endswith(
        ": the recipient is on the suppression list."
    )


def test_a_link_stops_nothing_that_is_transactional(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    put(database)
    (id,) = add_referring(owner)
    add_suppression_fact(owner, recipient=ADAS)
    owner.execute("UPDATE suppressions SET source = 'unsubscribe'")
    (today,) = operator.ask("policy", id=str(id))["today"]
    assert today["verdict"] == "allow"
    assert [one["suppression"] for one in today["contact_points"]] == [None]


def test_of_an_erased_one_the_policy_says_no_more_than_that(
    owner: psycopg.Connection, operator: Operator
) -> None:
    (id,) = add_referring(owner, recipient_id=ADA)
    (today,) = operator.ask("policy", id=str(id))["today"]
    assert (today["reason"], today["sentence"]) == (
        "erased",
        "The recipient was erased: nothing is left that it could be sent to.",
    )


def test_a_parent_says_by_which_channel_there_was_no_contact_point(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    story = chains.story(owner, database, ("push", "email"))
    story.suppressed("opted_out")
    story.go_on()
    story.suppressed("no_contact_point")
    story.go_on()
    assert explained(operator, story.id)["summary"].endswith(
        ": the recipient has no contact point for email (its candidate by email)."
    )


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (READ_LINKS, "notifications_candidates"),
        (READ_DELIVERIES, "notifications_candidates"),
        (READ_FACTS, "suppressions_by_"),
    ],
)
def test_what_is_read_is_found_by_an_index(
    owner: psycopg.Connection, statement: LiteralString, index: str
) -> None:
    owner.execute("SET enable_seqscan = off")
    parameters = {"parent_id": uuid4(), "notification_id": uuid4()}
    with psycopg.ClientCursor(owner) as cursor:
        plan = str(cursor.execute(f"EXPLAIN {statement}", parameters).fetchall())
    assert "Seq Scan" not in plan
    assert index in plan
