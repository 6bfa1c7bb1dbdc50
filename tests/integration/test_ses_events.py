"""What SES reports about an email that it accepted: where that ends, and who is suppressed."""

import copy
import itertools
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.declaration import Declaration
from functions.core.outcome import Accepted, Outcome, Unknown
from functions.providers.ses_event import DECLARATION, parse
from functions.store.close import Closing, close
from functions.store.connection import Database
from functions.store.receipt import Recorded, record
from tests.fakes import row_of
from tests.reports import HASH_KEY, add_known
from tests.ses_events import (
    BOUNCE,
    COMPLAINT,
    DELAY,
    DELIVERY,
    REJECT,
    RENDERING_FAILURE,
    SEND,
    SUBSCRIPTION,
    bounce,
    complaint,
    event_of,
)
from tests.steps import begin_one, channel_of, lease, opening_of

ADDRESS = "gone@rcpt.example"
DECLARATIONS: list[Declaration] = [DECLARATION]


def sent(
    owner: psycopg.Connection,
    database: Database,
    *,
    outcome: Outcome | None = None,
    recipient: str = ADDRESS,
) -> tuple[UUID, UUID]:
    """Return a notification that SES accepted as 0100-m1, or as ``outcome`` says, and its
    attempt."""
    (id,) = add_known(owner, recipient=recipient)
    (leased,) = lease(database)
    opening = opening_of(leased)
    begin_one(database, opening, provider="ses")
    closing = Closing(
        id=id,
        lease_number=opening.lease_number,
        token=opening.token,
        outcome=outcome or Accepted(reference="0100-m1"),
        again_seconds=60.0,
    )
    close(database, [closing], channel=channel_of(database), declaration=DECLARATION)
    return id, opening.token


def about(event: dict[str, Any], *, address: str = ADDRESS) -> dict[str, Any]:
    """Return ``event`` about the message of ``sent``, of that recipient."""
    event = copy.deepcopy(event)
    event["mail"] |= {"messageId": "0100-m1", "destination": [address]}
    for name in ("complaint", "delivery", "deliveryDelay"):
        for listed in ("complainedRecipients", "delayedRecipients"):
            if listed in event.get(name, {}):
                event[name][listed] = [{"emailAddress": address}]
    if "delivery" in event:
        event["delivery"]["recipients"] = [address]
    return event


def told(database: Database, *events: dict[str, Any]) -> list[Recorded]:
    """Record ``events`` one after the other, as they come in."""
    return [
        record(
            database,
            parse(event, hash_key=HASH_KEY),
            provider=DECLARATION.door,
            declarations=DECLARATIONS,
        )
        for event in events
    ]


def name_of(event: Any) -> str:
    (receipt,) = parse(event, hash_key=HASH_KEY)
    return receipt.type


def facts_of(owner: psycopg.Connection) -> list[tuple[str, str]]:
    return owner.execute("SELECT reason, source FROM suppressions ORDER BY id").fetchall()


@pytest.mark.parametrize(
    ("event", "status", "reason", "facts"),
    [
        (SEND, "submitted", None, []),
        (DELAY, "submitted", None, []),
        (DELIVERY, "delivered", None, []),
        (SUBSCRIPTION, "submitted", None, []),
        (REJECT, "failed", "rejected", []),
        (RENDERING_FAILURE, "failed", "template", []),
        (BOUNCE, "failed", "hard_bounce", [("hard_bounce", "ses:event")]),
        (COMPLAINT, "delivered", None, [("complaint", "ses:event")]),
        (complaint("not-spam"), "submitted", None, []),
        (
            complaint(None, complaintSubType="OnAccountSuppressionList"),
            *("suppressed", "suppressed", [("complaint", "ses:account_list")]),
        ),
        (
            bounce("Permanent", "Suppressed"),
            *("suppressed", "suppressed", [("hard_bounce", "ses:global_list")]),
        ),
        (
            bounce("Permanent", "OnAccountSuppressionList"),
            *("suppressed", "suppressed", [("hard_bounce", "ses:account_list")]),
        ),
        (bounce("Transient", "MailboxFull"), "failed", "soft_bounce", []),
        (bounce("Transient", "MessageTooLarge"), "failed", "content", []),
        (bounce("Undetermined", "Undetermined"), "failed", "undetermined", []),
        (bounce("Permanent", "MoonPhase"), "failed", "undetermined", []),
        ({**SEND, "eventType": "Moon Phase"}, "submitted", None, []),
    ],
    ids=lambda value: name_of(value) if isinstance(value, dict) else "",
)
def test_each_event_ends_where_the_table_says(
    event: dict[str, Any],
    status: str,
    reason: str | None,
    facts: list[tuple[str, str]],
    owner: psycopg.Connection,
    database: Database,
) -> None:
    id, _ = sent(owner, database)
    (recorded,) = told(database, about(event))
    assert (recorded.stored, recorded.orphaned, recorded.applied) == (1, 0, 1)
    row = row_of(owner, id)
    assert (row.status, row.reason) == (status, reason)
    assert row.complained == (facts == [("complaint", "ses:event")])
    assert facts_of(owner) == facts


def test_a_suppression_says_with_what_it_was_reported(
    owner: psycopg.Connection, database: Database
) -> None:
    sent(owner, database)
    told(database, about(BOUNCE))
    ((evidence,),) = owner.execute("SELECT evidence FROM suppressions").fetchall()
    assert evidence["feedbackId"] == "0100-f1"
    assert evidence["diagnosticCode"] == "smtp; 550 5.1.1 user unknown"
    assert ADDRESS not in str(evidence)


def test_an_event_settles_what_became_of_an_attempt_that_nobody_answered(
    owner: psycopg.Connection, database: Database
) -> None:
    id, attempt_id = sent(owner, database, outcome=Unknown(code="timeout"))
    assert row_of(owner, id).status == "uncertain"
    send = about(event_of("Send", notification_id=id, attempt_id=attempt_id, send={}))
    told(database, send)
    assert row_of(owner, id).status == "submitted"
    attempt = row_of(owner, attempt_id, "attempts")
    assert (attempt.outcome, attempt.reference) == ("accepted", "0100-m1")


# FAULTS F5


def test_f5_one_soft_bounce_suppresses_nobody_and_neither_do_many(
    owner: psycopg.Connection, database: Database
) -> None:
    id, _ = sent(owner, database)
    for number in range(5):
        told(database, about(bounce("Transient", "MailboxFull", feedback_id=f"f-{number}")))
    assert (row_of(owner, id).status, facts_of(owner)) == ("failed", [])


def test_f5_a_permanent_reply_ends_it_for_good_even_after_a_delivery(
    owner: psycopg.Connection, database: Database
) -> None:
    id, _ = sent(owner, database)
    denied = bounce("Transient", "General", status="5.3.0", diagnosticCode="smtp; 550 denied")
    told(database, about(DELIVERY), about(denied))
    row = row_of(owner, id)
    assert (row.status, row.reason, row.evidence_rank) == ("failed", "denied_by_receiver", 4)
    assert facts_of(owner) == []


def test_f5_a_permanent_bounce_suppresses_at_once_and_once(
    owner: psycopg.Connection, database: Database
) -> None:
    id, _ = sent(owner, database)
    counted = told(database, about(BOUNCE), about(BOUNCE), about(BOUNCE))
    assert [recorded.stored for recorded in counted] == [1, 0, 0]
    assert row_of(owner, id).status == "failed"
    assert facts_of(owner) == [("hard_bounce", "ses:event")]


FATES: list[tuple[list[dict[str, Any]], str]] = [
    ([bounce("Transient", "General"), DELIVERY], "delivered"),
    ([bounce("Undetermined", "Undetermined"), DELIVERY], "delivered"),
    ([BOUNCE, DELIVERY], "failed"),
    ([SEND, DELAY, DELIVERY, COMPLAINT], "delivered"),
]


@pytest.mark.parametrize(("events", "status"), FATES)
def test_f5_the_order_of_events_decides_nothing(
    events: list[dict[str, Any]], status: str, owner: psycopg.Connection, database: Database
) -> None:
    ends: set[tuple[str, str | None]] = set()
    for order in itertools.permutations(events):
        id, _ = sent(owner, database)
        told(database, *(about(event) for event in order))
        row = row_of(owner, id)
        ends.add((row.status, row.reason))
        owner.execute("TRUNCATE notifications, attempts, receipts, suppressions CASCADE")
    assert {end for end, _ in ends} == {status}
    assert len(ends) == 1


# FAULTS E6


@pytest.mark.parametrize(
    "event",
    [
        about(DELIVERY, address="archive@rcpt.example"),
        bounce("Permanent", "NoEmail", address="archive@rcpt.example"),
        about(COMPLAINT, address="archive@rcpt.example"),
        about(REJECT, address="archive@rcpt.example"),
    ],
    ids=lambda event: event["eventType"],
)
def test_e6_what_is_about_somebody_elses_copy_is_a_note(
    event: dict[str, Any], owner: psycopg.Connection, database: Database
) -> None:
    id, _ = sent(owner, database)
    event["mail"]["messageId"] = "0100-m1"
    (recorded,) = told(database, event)
    assert (recorded.stored, recorded.orphaned, recorded.applied) == (1, 0, 0)
    assert (row_of(owner, id).status, facts_of(owner)) == ("submitted", [])


def test_e6_a_bounce_that_names_nobody_is_a_note(
    owner: psycopg.Connection, database: Database
) -> None:
    id, _ = sent(owner, database)
    event = about(bounce("Permanent", "NoEmail"))
    event["bounce"]["bouncedRecipients"] = []
    (recorded,) = told(database, event)
    assert recorded.stored == 1
    assert (row_of(owner, id).status, facts_of(owner)) == ("submitted", [])


def test_e6_of_several_that_bounced_only_ours_counts(
    owner: psycopg.Connection, database: Database
) -> None:
    id, _ = sent(owner, database)
    event = about(bounce("Permanent", "NoEmail", address="archive@rcpt.example"))
    event["bounce"]["bouncedRecipients"].append({"emailAddress": ADDRESS.upper()})
    (recorded,) = told(database, event)
    assert (recorded.stored, recorded.applied) == (2, 1)
    assert row_of(owner, id).status == "failed"
    ((address,),) = owner.execute("SELECT recipient FROM suppressions").fetchall()
    assert address == ADDRESS


def test_e6_a_copy_that_was_delivered_does_not_cover_the_bounce_of_ours(
    owner: psycopg.Connection, database: Database
) -> None:
    id, _ = sent(owner, database)
    told(database, about(DELIVERY, address="archive@rcpt.example"), about(BOUNCE))
    assert row_of(owner, id).status == "failed"
