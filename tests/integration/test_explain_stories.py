"""Whole lives in PostgreSQL, as they are explained: every change that was written is told."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.claim.obstacle import Obstacles
from functions.core.breaker import Answering
from functions.core.cause import cause_of
from functions.core.declaration import names_of_keyed
from functions.core.evidence import Rank
from functions.core.explanation import explain
from functions.core.login import Login
from functions.core.outcome import Accepted, Blocked, Scope, Throttled, Transient, Unknown
from functions.core.states import Finding
from functions.ingest.representation import notification_detail
from functions.store.breaker import record_answers
from functions.store.browse import read_history
from functions.store.close import Closing, close
from functions.store.connection import Database
from functions.store.dossier import READ_SUPPRESSION, read_dossier
from functions.store.hold import list_holds, release_hold
from functions.store.uncertain import settle
from tests.fakes import FIRST_ORGANIZATION, add_notifications, add_suppression_fact, hash_of
from tests.guarding import add_texts, ruled, some_texts, usual_weeks
from tests.operating import (
    ACTOR,
    ALL,
    Waiting,
    action,
    arrange,
    discarded,
    operating,
    report,
    requeued,
    tell,
)
from tests.steps import (
    begin_one,
    begun,
    channel_of,
    close_one,
    declaration_of,
    lease,
    opening_of,
)
from tests.streams import claimer_of


@pytest.fixture
def operator(login: Login) -> Iterator[Database]:
    with operating(login) as database:
        yield database


@pytest.fixture
def waiting(owner: psycopg.Connection, database: Database) -> Waiting:
    return Waiting(owner=owner, database=database)


def explained(database: Database, id: UUID) -> dict[str, Any]:
    """Return the explanation; every stored change has words of its own in it."""
    dossier = read_dossier(database, notification_id=id)
    assert dossier is not None
    assert all(cause_of(step) is not None for step in dossier.history.transitions)
    told = explain(dossier, now=dossier.now, keyed_providers=names_of_keyed(ALL))
    assert "ok@example.com" not in str(told)
    assert "Your receipt" not in str(told)
    times = [entry["at"] for entry in told["timeline"][1:]]
    assert times == sorted(times)
    assert all(entry["sentence"].endswith(".") for entry in told["timeline"])
    return told


def moves(told: dict[str, Any]) -> list[tuple[str, str | None, str]]:
    return [(entry["actor"], entry["from"], entry["to"]) for entry in told["timeline"]]


def test_a_life_of_retries_and_reports_is_told(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    first = begun(database)
    throttled = Throttled(code="429", http_status=429, retry_after_seconds=0.0)
    assert close_one(database, first, throttled, again_seconds=0.0) == "pending"
    arrange(owner, id, ready=True)
    second = begun(database)
    unknown = Unknown(code="timeout")
    assert close_one(database, second, unknown, again_seconds=0.0) == "pending"
    third = begun(database)
    tell(database, report(id, rank=Rank.ACCEPTED))
    accepted = Accepted(reference="m-1", http_status=202)
    close_one(database, third, accepted)
    tell(database, report(id, recipient_hash=hash_of("somebody@else.example")))
    tell(database, report(id, address_at_fault=True, complaint=True))
    tell(database, report(id, rank=Rank.SOFT_FAILURE))

    told = explained(database, id)
    assert moves(told) == [
        ("client", None, "pending"),
        ("claim", "pending", "leased"),
        ("sender", "leased", "pending"),
        ("claim", "pending", "leased"),
        ("sender", "leased", "pending"),
        ("claim", "pending", "leased"),
        ("provider", "leased", "submitted"),
        ("sender", "submitted", "submitted"),
        ("provider", "submitted", "submitted"),
        ("provider", "submitted", "delivered"),
        ("provider", "delivered", "delivered"),
    ]
    sentences = [entry["sentence"] for entry in told["timeline"]]
    assert "the attempt is not counted" in sentences[2]
    assert "under the same key, which the provider recognises" in sentences[4]
    assert "while attempt 3 was still open" in sentences[6]
    assert "and the id m-1" in sentences[7]
    assert sentences[8].endswith("It names another recipient, so it changes nothing.")
    assert sentences[9].endswith("The recipient complained: the address is suppressed from now on.")
    assert sentences[10].endswith("Stronger evidence was known, so it changes nothing.")
    assert told["next"] is None
    assert told["summary"].startswith("It was delivered")


def test_a_doubt_that_an_operator_settled_names_them_to_operators_alone(
    database: Database, operator: Database, waiting: Waiting
) -> None:
    opening = waiting.uncertain()
    told = explained(operator, opening.id)
    assert told["next"]["action"] == "check"
    assert "as its channel's policy is" in told["next"]["sentence"]
    assert "it waits for evidence until" in told["timeline"][-1]["sentence"]

    asked = action("uncertain.settle", id=str(opening.id), note="asked the gateway")
    settle(operator, opening.id, finding=Finding.NOT_ACCEPTED, action=asked)
    told = explained(operator, opening.id)
    assert told["timeline"][-1]["by"] == ACTOR
    assert told["timeline"][-1]["sentence"].startswith(
        f'{ACTOR} settled the doubt, noting "asked the gateway": the provider did not accept it. '
        "It goes back to waiting; the next try is due at"
    )
    history = read_history(database, organization_id=FIRST_ORGANIZATION, notification_id=opening.id)
    assert history is not None
    last = notification_detail(history)["timeline"][-1]
    assert last["actor"] == "operator"
    assert last["sentence"].startswith("An operator settled the doubt: the provider did not")
    assert ACTOR not in str(last)
    assert "asked the gateway" not in str(last)


@pytest.mark.parametrize(
    ("finding", "words"),
    [
        (Finding.ACCEPTED, "the provider did accept it. Its delivery is not confirmed yet."),
        (Finding.DELIVERED, "it did arrive. It counts as delivered."),
        (Finding.HOLD, "ended the wait for evidence. It is held for a person to decide."),
    ],
)
def test_every_finding_is_told(
    operator: Database, waiting: Waiting, finding: Finding, words: str
) -> None:
    opening = waiting.uncertain()
    settle(operator, opening.id, finding=finding, action=action("uncertain.settle"))
    assert explained(operator, opening.id)["timeline"][-1]["sentence"].endswith(words)


def test_a_requeue_is_told_with_what_was_agreed_to(operator: Database, waiting: Waiting) -> None:
    opening = waiting.undecided()
    told = explained(operator, opening.id)
    assert told["notification"]["held"] is True
    assert "settle it once the provider's own records" in told["next"]["sentence"]

    asked = action(may_send_twice=True)
    assert requeued(operator, opening.id, may_send_twice=True, asked=asked) == ["requeued"]
    told = explained(operator, opening.id)
    (line,) = [one["sentence"] for one in told["timeline"] if one["by"] == ACTOR]
    assert line.startswith(f"{ACTOR} requeued it, accepting that it may be sent twice;")
    assert ", as attempt 1 of 5." in line
    assert told["next"]["action"] == "send"

    again = begun(operator)
    close_one(operator, again, Transient(code="409", http_status=409), again_seconds=3600)
    told = explained(operator, opening.id)
    (line,) = [one["sentence"] for one in told["timeline"] if one["reason"] == "transient"]
    assert line.startswith("Attempt 2 at http was answered with HTTP status 409")
    assert line.endswith(", as attempt 2 of 5.")


def test_a_discard_is_told_and_ends_it(operator: Database, waiting: Waiting) -> None:
    opening = waiting.rejected()
    asked = action("dead.discard", note="out of date")
    assert discarded(operator, opening.id, asked=asked) == ["discarded"]
    told = explained(operator, opening.id)
    assert moves(told)[-1] == ("operator", "dead", "dead")
    assert 'discarded it, noting "out of date".' in told["timeline"][-1]["sentence"]
    assert told["next"] is None


def test_a_crash_loop_is_told_with_the_attempt_that_was_left_open(
    operator: Database, waiting: Waiting
) -> None:
    told = explained(operator, waiting.crashed().id)
    assert told["summary"].endswith("senders that worked on it kept failing.")
    assert any("was never closed by its sender" in one["sentence"] for one in told["timeline"])
    opened = explained(operator, waiting.crashed(swept=False).id)
    assert "until then it cannot be requeued" in opened["next"]["sentence"]


def words_of(told: dict[str, Any], reason: str) -> str:
    (words,) = [one["sentence"] for one in told["timeline"] if one["reason"] == reason]
    return words


def test_a_breaker_is_told_to_what_waits_and_to_what_met_it(
    owner: psycopg.Connection, database: Database
) -> None:
    (first,) = add_notifications(owner)
    blocked = Blocked(code="401", http_status=401, scope=Scope.SENDER_IDENTITY)
    close_one(database, begun(database), blocked, again_seconds=0.0)
    answer = Answering(
        id=first,
        organization_id=FIRST_ORGANIZATION,
        provider="http",
        stream="transactional",
        country=None,
        origin=None,
        is_first=True,
        outcome=blocked,
    )
    record_answers(database, [answer], channel="email", calls=1, failures=0)
    told = explained(database, first)
    assert ": the sender identity of its stream is blocked" in words_of(told, "blocked")
    assert told["attempts"][0]["scope"] == "sender_identity"
    assert told["next"]["sentence"].startswith(
        "The breaker of the sender identity of its stream, transactional, at http is open since"
    )
    assert "It has been blocked or throttled since" in told["next"]["sentence"]
    arrange(owner, first, ready=True)
    begin_one(database, opening_of(lease(database)[0]))
    told = explained(database, first)
    assert "A breaker was open, or its endpoint paused, by then" in told["timeline"][-1]["sentence"]
    assert told["attempts"][1:] == []


def hook(owner: psycopg.Connection, **columns: Any) -> UUID:
    (id,) = add_notifications(owner, channel="webhook", recipient=f"{ORIGIN}/x", content={})
    return arrange(owner, id, origin=ORIGIN, **columns)


def claimed(database: Database) -> None:
    """Let the claim take up what is due, behind its obstacles."""
    obstacles = Obstacles(database=database, channel=lambda name: channel_of(database, name))
    claimer_of(database, gates=obstacles.gates).round()


INSERT_ENDPOINT = """
    INSERT INTO endpoints (organization_id, origin, failures, failing_since, code, paused_at,
                           probe_at, disabled_at)
    SELECT %(organization_id)s, %(origin)s, 12, t.at - interval '1 hour', '503',
           CASE WHEN %(state)s = 'paused' THEN t.at END,
           CASE WHEN %(state)s = 'paused' THEN t.at + interval '1 minute' END,
           CASE WHEN %(state)s = 'disabled' THEN t.at END
      FROM (SELECT clock_timestamp() AS at) t
"""
ORIGIN = "https://hooks.example"


def add_endpoint(owner: psycopg.Connection, state: str) -> None:
    parameters = {"organization_id": FIRST_ORGANIZATION, "origin": ORIGIN, "state": state}
    owner.execute(INSERT_ENDPOINT, parameters)


def test_a_paused_endpoint_is_told(owner: psycopg.Connection, database: Database) -> None:
    id = hook(owner)
    add_endpoint(owner, "paused")
    claimed(database)
    told = explained(database, id)
    assert words_of(told, "endpoint_paused").startswith(
        "Its endpoint is paused, so no attempt was opened. It goes back to waiting; the next try"
    )
    assert f"Its endpoint, {ORIGIN}, is paused since" in told["next"]["sentence"]
    assert "after 12 failures in a row" in told["next"]["sentence"]
    assert told["summary"].endswith(": its endpoint is paused.")


def test_an_endpoint_that_is_busy_is_told(owner: psycopg.Connection, database: Database) -> None:
    owner.execute("UPDATE channels SET endpoint_concurrency = 1")
    first, second = hook(owner), hook(owner)
    add_endpoint(owner, "failing")
    claimed(database)
    assert explained(database, first)["next"]["action"] == "recover"
    told = explained(database, second)
    assert "as many calls to it as it gets at once" in words_of(told, "endpoint_busy")
    assert "calls to it are limited to 1 at once" in told["next"]["sentence"]


def test_a_disabled_endpoint_is_told_before_and_after(
    owner: psycopg.Connection, database: Database
) -> None:
    id = hook(owner)
    add_endpoint(owner, "disabled")
    assert "never to be called again" in explained(database, id)["next"]["sentence"]
    (leased,) = lease(database, channel="webhook")
    begin_one(database, opening_of(leased), provider="webhook")
    told = explained(database, id)
    assert words_of(told, "disabled") == (
        "Its endpoint has asked never to be called again, so no attempt was opened. It is not sent."
    )
    assert told["next"] is None


def test_retries_that_are_off_are_told(owner: psycopg.Connection, database: Database) -> None:
    id = hook(owner, attempts_spent=1)
    owner.execute("UPDATE channels SET retries = false")
    claimed(database)
    told = explained(database, id)
    assert "Retries are off for its channel" in words_of(told, "retries_off")
    assert "Once they are on again" in told["next"]["sentence"]


def test_what_is_passed_on_is_told(owner: psycopg.Connection, database: Database) -> None:
    owner.execute("UPDATE channels SET fallback_provider = 'http_keyless'")
    (id,) = add_notifications(owner)
    opening = begun(database)
    closing = Closing(
        id=opening.id,
        lease_number=opening.lease_number,
        token=opening.token,
        outcome=Transient(code="connection_refused"),
        again_seconds=60.0,
        next_provider="http_keyless",
    )
    close(database, [closing], channel=channel_of(database), declaration=declaration_of("http"))
    told = explained(database, id)
    assert words_of(told, "transient").endswith(
        "It is passed on to http_keyless at once, without an attempt spent."
    )
    assert "it was passed on to http_keyless" in told["next"]["sentence"]
    assert told["next"]["sentence"].endswith("for attempt 1 of 5 at http_keyless.")
    begun(database, provider="http_keyless")
    told = explained(database, id)
    assert "The next attempt was made with http_keyless." in words_of(told, "transient")


NOON = datetime(2030, 5, 15, 12, tzinfo=UTC)


def test_a_hold_is_told_until_and_after_its_release(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    usual_weeks(database, owner, until=NOON)
    ids = add_texts(owner, some_texts(30, at=NOON, country="MV", stem="+960771"))
    ruled(database, now=NOON)
    last = ids[-1]
    told = explained(database, last)
    (hold,) = list_holds(database)
    assert told["notification"]["hold_id"] == str(hold.id)
    assert "It is on hold until a person has looked" in words_of(told, "mix_shifted")
    assert told["next"]["sentence"].startswith("Messages to MV are on hold since 2030-05-15T12:00")
    assert (told["next"]["action"], told["next"]["at"]) == ("decide", None)
    history = read_history(database, organization_id=FIRST_ORGANIZATION, notification_id=last)
    assert history is not None
    shown = notification_detail(history)
    assert (shown["hold_id"], shown["next"]) == (hold.id, {"action": "decide", "at": None})
    release_hold(operator, hold.id, discard=False, action=action("hold.release"), now=NOON)
    told = explained(database, last)
    assert words_of(told, "hold_released").startswith(
        f"{ACTOR} released the hold it waited under. It waits to be sent; the next try is due at"
    )
    assert told["notification"]["hold_id"] is None


def test_a_hold_that_was_discarded_is_told(
    owner: psycopg.Connection, database: Database, operator: Database
) -> None:
    usual_weeks(database, owner, until=NOON)
    ids = add_texts(owner, some_texts(30, at=NOON, country="MV", stem="+960771"))
    ruled(database, now=NOON)
    (hold,) = list_holds(database)
    release_hold(operator, hold.id, discard=True, action=action("hold.release"), now=NOON)
    told = explained(database, ids[-1])
    assert "discarded the hold it waited under. It is not sent." in words_of(told, "hold_discarded")
    assert told["summary"].endswith(": an operator discarded the hold it waited under.")


def test_what_the_guard_forbids_or_puts_off_is_told(
    owner: psycopg.Connection, database: Database
) -> None:
    owner.execute(
        "INSERT INTO sms_guards (organization_id, countries, daily_budget) VALUES (%s, '{FR}', 1)",
        [FIRST_ORGANIZATION],
    )
    allowed, forbidden = add_texts(
        owner, [*some_texts(1, at=NOON), *some_texts(1, at=NOON, country="MV", stem="+960771")]
    )
    ruled(database, now=NOON)
    told = explained(database, forbidden)
    assert words_of(told, "country_not_allowed") == (
        "Its organization may not send SMS to its country (MV). It is not sent."
    )
    told = explained(database, allowed)  # no prices: nothing to keep a budget by
    assert "There were no prices" in words_of(told, "sms_price_unknown")
    assert "There are no prices" in told["next"]["sentence"]


def test_what_is_suppressed_tells_the_newest_live_fact(
    owner: psycopg.Connection, database: Database
) -> None:
    def told() -> str:
        return explained(database, id)["summary"]

    (id,) = add_notifications(owner)
    opening = opening_of(lease(database)[0])
    add_suppression_fact(owner, category="transactional")
    add_suppression_fact(owner, category="newsletter")  # another category's
    begin_one(database, opening)
    assert "on the suppression list for transactional since 20" in told()
    assert told().endswith(", because an operator said so (source test).")
    add_suppression_fact(owner)
    assert "on the suppression list since 20" in told()
    add_suppression_fact(owner, kind="lift")
    assert "for transactional since 20" in told()
    add_suppression_fact(owner, kind="lift", category="transactional")
    assert told().endswith(": the recipient is on the suppression list.")


def test_the_fact_is_found_by_an_index(owner: psycopg.Connection) -> None:
    owner.execute("SET enable_seqscan = off")
    with psycopg.ClientCursor(owner) as cursor:
        explained = f"EXPLAIN {READ_SUPPRESSION}"
        plan = str(cursor.execute(explained, {"notification_id": uuid4()}).fetchall())
    assert "Seq Scan" not in plan
    assert "Index Scan using suppressions_by_" in plan  # which one, the few rows decide


def test_what_our_settings_keep_from_being_sent_is_told_as_ours(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    blocked = Blocked(code="not_configured", detail="reply_to", scope=Scope.SENDER_IDENTITY)
    close_one(database, begun(database), blocked, again_seconds=0.0)
    assert words_of(explained(database, id), "blocked").startswith(
        "Attempt 1 at http made no request, because the sender identity of its stream, or its "
        "settings, are not usable (not_configured: reply_to); the attempt is not counted."
    )
