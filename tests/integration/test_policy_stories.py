"""Whole lives of what was asked by reference, by several channels or by SQL, as they are explained
and as the policy is asked about them again."""

from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.console.explain import NOT_TAKEN_IN
from functions.core.cause import cause_of
from functions.core.evidence import Rank
from functions.core.login import Login
from functions.core.outcome import Rejected
from functions.core.policy import POLICY_VERSION
from functions.store.browse import read_history
from functions.store.connection import Database
from functions.store.decided import READ_CHILDREN, READ_DECIDED, READ_PARENT
from functions.store.erase import erase_recipient
from functions.store.verdict import READ_SUBJECT
from tests import chains
from tests.by_reference import (
    ADA,
    ADAS,
    add_referring,
    address,
    call_transactional,
    declare,
    judged,
    lease_any,
    put,
)
from tests.doors import add_organizations, doors_of, enqueue
from tests.fakes import FIRST_ORGANIZATION, SECOND_ORGANIZATION, add_notifications, hash_of, row_of
from tests.operators import Operator, audit, operator_database, operator_with
from tests.steps import begin_one, lease, opening_of


@pytest.fixture
def operator(login: Login) -> Generator[Operator]:
    with operator_database(login) as database:
        yield operator_with(database, None, {})


def explained(operator: Operator, database: Database, id: UUID) -> dict[str, Any]:
    """Return the explanation; every stored change has words of its own in it, and no address."""
    history = read_history(database, organization_id=FIRST_ORGANIZATION, notification_id=id)
    assert history is not None
    assert all(cause_of(step) is not None for step in history.transitions)
    told = operator.ask("explain", id=str(id))
    assert ADAS not in str(told)
    assert all(entry["sentence"].endswith(".") for entry in told["timeline"])
    return told


def last_of(told: dict[str, Any]) -> str:
    return told["timeline"][-1]["sentence"]


def now_of(operator: Operator, id: UUID, **at: str) -> dict[str, Any]:
    """Return what the policy says now."""
    told = operator.ask("policy", id=str(id), **at)
    (today,) = told["today"]
    return today


def clock(at: datetime) -> str:
    return f"{at:%H:%M}"


def night_of(owner: psycopg.Connection) -> tuple[datetime, str]:
    """Return the database's clock, and quiet hours from two hours before to two hours after it."""
    ((now,),) = owner.execute("SELECT clock_timestamp()").fetchall()
    utc = now.astimezone(UTC)
    hours = timedelta(hours=2)
    return utc, f"{clock(utc - hours)}-{clock(utc + hours)}"


def test_quiet_hours_are_told_by_the_clock_until_they_are_over(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    now, night = night_of(owner)
    hours = night.replace("-", "–")
    put(database, time_zone="UTC", quiet_hours=night, locale="de")
    (id,) = add_referring(owner)
    judged(database, lease(database))
    row = row_of(owner, id)
    told = explained(operator, database, id)
    out = clock(row.available_at.astimezone(UTC))
    assert (
        f"in UTC, within the recipient's quiet hours {hours}; it goes out about {out}"
        in last_of(told)
    )
    assert told["timeline"][-1]["reason"] == "quiet_hours"
    assert told["summary"].endswith(": the recipient's quiet hours are not over.")
    assert told["next"]["action"] == "send"
    assert f"within the recipient's quiet hours {hours}" in told["next"]["sentence"]
    assert told["notification"]["recipient_id"] == ADA
    start, end = night.split("-")
    shown = told["decision"]
    assert shown == {
        "verdict": "defer",
        "policy_version": POLICY_VERSION,
        "recipient_version": shown["recipient_version"],
        "rules_version": None,
        "contact_point": None,
        "locale": "de",
        "time_zone": "UTC",
        "local_time": shown["local_time"],
        "preference": None,
        "quiet_hours": {"start": start, "end": end},
        "window": None,
    }

    today = now_of(operator, id)
    assert (today["verdict"], today["reason"], today["changed"]) == ("defer", "quiet_hours", {})
    assert today["difference"].startswith("It is as it was decided at")
    later = (now + timedelta(hours=3)).isoformat()
    today = now_of(operator, id, at=later)
    assert (today["verdict"], today["locale"]) == ("allow", "de")
    assert today["sentence"] == "It may be sent, by email to a verified contact point, in de."
    assert "Nothing else changed than the time" in today["difference"]
    assert row_of(owner, id).columns == row.columns
    assert audit(owner) == []


def test_a_send_window_is_told_with_the_version_of_its_rules(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    _, night = night_of(owner)
    start, end = night.split("-")
    declare(owner, hours=f"{end}-{start}")
    put(database, time_zone=None)
    (id,) = add_referring(owner)
    judged(database, lease(database))
    told = explained(operator, database, id)
    assert f"UTC, outside the send window {end}–{start} of transactional; it goes out" in last_of(
        told
    )
    assert told["decision"]["rules_version"] is not None
    assert told["summary"].endswith(": the send window of its category is not open.")
    operator.ask("category.set", organization=str(FIRST_ORGANIZATION),
                 category="transactional", settings={"window": "none"})  # fmt: skip
    today = now_of(operator, id)
    assert today["verdict"] == "allow"
    assert set(today["changed"]) == {"rules_version", "window"}
    assert f"the send window ({end}–{start} to none)" in today["difference"]


def test_hours_that_leave_no_moment_are_told_and_that_the_kind_of_its_category_was_changed(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    put(database, quiet_hours="08:00-20:00")
    declare(owner, hours="09:00-17:00")
    (id,) = add_referring(owner)
    judged(database, lease(database))
    told = explained(operator, database, id)
    assert last_of(told) == (
        "The recipient's quiet hours leave no moment of the send window of its category. It is not "
        "sent."
    )
    assert told["summary"].endswith(
        ": the recipient's quiet hours leave no moment of its category's send window."
    )
    today = now_of(operator, id)
    assert (today["verdict"], today["reason"]) == ("suppress", "no_send_time")
    assert today["difference"].startswith("It is as it was decided at")
    operator.ask("category.set", organization=str(FIRST_ORGANIZATION),
                 category="transactional", settings={"transactional": False})  # fmt: skip
    today = now_of(operator, id)
    assert today["reason"] == "no_consent"
    assert "whether the category is transactional (yes to no)" in today["difference"]


def test_an_opt_out_is_told_and_what_the_policy_says_after_it_was_taken_back(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    put(database, preferences={"news": {"email": False}})
    (id,) = add_referring(owner, category="news")
    judged(database, lease(database))
    told = explained(operator, database, id)
    assert last_of(told) == "The recipient opted out of news by email. It is not sent."
    assert told["summary"].endswith(": the recipient opted out of it.")
    assert told["next"] is None
    assert told["decision"]["preference"] is False
    before = told["decision"]["recipient_version"]

    after = put(database, preferences={"news": {"email": True}}).version
    told = operator.ask("policy", id=str(id))
    assert told["is_over"] is True
    assert told["stored"]["reason"] == "opted_out"
    (today,) = told["today"]
    assert today["verdict"] == "allow"
    assert today["changed"] == {
        "recipient_version": {"was": before, "is": after},
        "preference": {"was": False, "is": True},
    }
    assert today["difference"].endswith(
        f"Changed since: the recipient's record ({before} to {after}), what the recipient said (no "
        "to yes)."
    )


@pytest.mark.parametrize(
    ("recipient", "stream", "words"),
    [
        (
            {},
            "bulk",
            "The recipient never asked for news by email, and a bulk category is sent to nobody "
            "unasked. It is not sent.",
        ),
        (
            {"points": [address("+15550100", channel="sms")]},
            "transactional",
            "The recipient has no contact point for email. It is not sent.",
        ),
        (
            {
                "points": [address(ADAS, verified=False)],
                "preferences": {"news": {"email": True}},
            },
            "bulk",
            "The recipient has no verified contact point for email, and a bulk category is sent to "
            "no other. It is not sent.",
        ),
    ],
)
def test_what_the_policy_forbids_is_told(
    owner: psycopg.Connection,
    database: Database,
    operator: Operator,
    recipient: dict[str, Any],
    stream: str,
    words: str,
) -> None:
    put(database, *recipient.pop("points", ()), **recipient)
    if stream == "transactional":
        call_transactional(owner, "news")
    (id,) = add_referring(owner, stream=stream, category="news")
    judged(database, lease_any(database, now=night_of(owner)[0]))
    told = explained(operator, database, id)
    assert last_of(told) == words
    assert now_of(operator, id)["difference"].startswith("It is as it was decided at")


def test_what_was_decided_and_changed_before_the_attempt_goes_back(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    put(database, locale="fr")
    (id,) = add_referring(owner)
    ((row, _),) = judged(database, lease(database))
    told = explained(operator, database, id)
    assert told["decision"]["contact_point"] == {"channel": "email", "verified": True}
    assert (told["decision"]["verdict"], told["decision"]["locale"]) == ("allow", "fr")
    put(database, locale="de")
    assert begin_one(database, opening_of(row)).verdict == "changed"
    told = explained(operator, database, id)
    assert last_of(told).startswith(
        "What it was decided from was changed since, so no attempt was opened: what is known of "
        "the recipient, the rules of its category, or what is suppressed. It is decided anew, by "
        "what is known now; the next try is due at"
    )
    today = now_of(operator, id)
    assert (today["verdict"], today["locale"]) == ("allow", "de")
    assert "the locale (fr to de)" in today["difference"]
    assert today["contact_points"] == [
        {"verified": True, "suppressed": False, "suppression": None, "chosen": True}
    ]


def test_an_erased_one_says_so_and_when(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    put(database)
    (waiting,) = add_referring(owner)
    erased = erase_recipient(
        database,
        organization_id=FIRST_ORGANIZATION,
        recipient_id=ADA,
        reference_hash=hash_of(f"id:{ADA}"),
        ends_at=float("inf"),
    )
    assert erased == 1
    told = explained(operator, database, waiting)
    assert last_of(told) == (
        "The recipient was erased, as the organization asked. It is not sent, and neither its "
        "address nor its words are kept."
    )
    assert told["summary"].endswith(": the recipient was erased.")
    assert told["notification"]["erased_at"] is not None
    today = now_of(operator, waiting)
    assert (today["verdict"], today["reason"]) == ("suppress", "erased")


def test_a_literal_address_has_nothing_to_weigh(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    (id,) = add_notifications(owner)
    told = operator.ask("policy", id=str(id))
    assert (told["stored"], told["recipient_id"]) == (None, None)
    (today,) = told["today"]
    assert (today["verdict"], today["inputs"]) == ("allow", None)
    assert today["difference"] == "Nothing was decided of it yet."
    lease(database)
    today = now_of(operator, id)
    assert today["difference"] == "It is as it was decided: allow."
    assert explained(operator, database, id)["decision"]["policy_version"] == POLICY_VERSION


def test_a_chain_is_told_from_its_parent_to_its_children_and_back(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    story = chains.story(owner, database, ("push", "email"), after=300)
    told = explained(operator, database, story.id)
    assert told["timeline"][0]["sentence"] == (
        "The request was accepted and stored, for push, then email, until one of them is "
        "delivered; the first is to be sent at once."
    )
    (push,) = story.children
    assert [(one["id"], one["channel"]) for one in told["children"]] == [(str(push.id), "push")]
    assert told["next"]["action"] == "fallback"
    assert "the next one is started then, by email" in told["next"]["sentence"]

    assert story.closed(Rejected(code="400", http_status=400)) == "dead"
    story.go_on()
    told = explained(operator, database, story.id)
    assert last_of(told) == (
        "The candidate by push came to nothing, so the next one was started, by email. It waits to "
        "be sent there."
    )
    email = story.newest
    assert [(one["channel"], one["status"]) for one in told["children"]] == [
        ("push", "dead"),
        ("email", "pending"),
    ]
    assert "It is the last one" in told["next"]["sentence"]
    child = explained(operator, database, email.id)
    assert child["parent"]["id"] == str(story.id)
    assert child["timeline"][0]["sentence"].startswith(
        f"It was started as candidate 2 of notification {story.id}, by email;"
    )

    story.accepted()
    story.told(1)
    story.go_on()
    told = explained(operator, database, story.id)
    assert last_of(told) == "It follows its candidate by email. It was delivered."
    assert told["next"] is None
    asked = operator.ask("policy", id=str(story.id))
    assert [one["channel"] for one in asked["today"]] == ["push", "email"]
    assert asked["today"][0]["difference"].startswith("It is never sent itself")

    story.told(0, Rank.DELIVERED)
    story.go_on()
    told = explained(operator, database, story.id)
    assert "Another candidate by" in last_of(told)
    assert "was delivered as well: the recipient was told twice." in last_of(told)


def test_an_invalid_request_is_told_with_every_fault(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    add_organizations(owner)
    id = enqueue(owner, {"channel": "fax", "recipient": "nobody", "x": 1})
    assert operator.refusal("explain", id=str(id)) == ("not_found", NOT_TAKEN_IN)
    doors_of(database).drain()
    told = explained(operator, database, id)
    assert (told["notification"]["status"], told["notification"]["reason"]) == ("dead", "invalid")
    assert {fault["pointer"] for fault in told["faults"]} >= {"/channel", "/x"}
    assert told["timeline"][0]["sentence"] == (
        "It was asked for within a transaction of the database."
    )
    count = len(told["faults"])
    assert last_of(told) == (
        f"What was asked for is not valid ({count} faults). As it is it can never be sent: it is "
        "held for a person."
    )
    assert "discard it, for as it is it can never be sent" in told["next"]["sentence"]


def test_a_request_that_repeats_an_event_leads_to_the_first(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    add_organizations(owner)
    item = {
        "channel": "email",
        "recipient": "grace@example.com",
        "content": "Paid.",
        "event_id": "payment-7",
    }
    first, again = enqueue(owner, item), enqueue(owner, item)
    doors_of(database).drain()
    told = operator.ask("explain", id=str(again))
    assert (told["notification"]["id"], told["asked"]) == (str(first), str(again))
    assert told["repeats"] == str(first)
    assert operator.ask("explain", id=str(first))["repeats"] is None
    assert operator.ask("policy", id=str(again))["id"] == str(first)


def test_no_organization_is_mixed_up_with_another(
    owner: psycopg.Connection, database: Database, operator: Operator
) -> None:
    put(database, organization_id=SECOND_ORGANIZATION)
    (id,) = add_referring(owner)
    today = now_of(operator, id)
    assert (today["verdict"], today["reason"]) == ("suppress", "erased")
    assert today["contact_points"] == []


def test_of_what_there_is_not_nothing_is_told(operator: Operator) -> None:
    for command in ("policy", "explain"):
        assert operator.refusal(command, id=str(uuid4())) == (
            "not_found",
            "There is no notification with this id.",
        )


@pytest.mark.parametrize("at", ["yesterday", "2030-01-01T00:00:00", 7])
def test_a_moment_without_its_offset_is_refused(operator: Operator, at: Any) -> None:
    code, detail = operator.refusal("policy", id=str(uuid4()), at=at)
    assert (code, detail.startswith("at: ")) == ("invalid", True)


@pytest.mark.parametrize("statement", [READ_DECIDED, READ_PARENT, READ_CHILDREN, READ_SUBJECT])
def test_what_an_operator_looks_at_is_found_by_an_index(
    owner: psycopg.Connection, statement: str
) -> None:
    owner.execute("SET enable_seqscan = off")
    with psycopg.ClientCursor(owner) as cursor:
        asked = f"EXPLAIN {statement}".encode()
        plan = str(cursor.execute(asked, {"notification_id": uuid4()}).fetchall())
    assert "Seq Scan" not in plan
