"""Whole lives in PostgreSQL, as they are explained: every change that was written is told."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.declaration import names_of_keyed
from functions.core.evidence import Rank
from functions.core.explanation import explain
from functions.core.login import Login
from functions.core.outcome import Accepted, Throttled, Transient, Unknown
from functions.core.sentence import cause_of
from functions.core.states import Finding
from functions.ingest.representation import notification_detail
from functions.store.browse import read_history
from functions.store.connection import Database
from functions.store.dossier import read_dossier
from functions.store.uncertain import settle
from tests.fakes import FIRST_ORGANIZATION, add_notifications, hash_of
from tests.operating import (
    ACTOR,
    ALL,
    Waiting,
    action,
    discarded,
    operating,
    report,
    requeued,
    tell,
)
from tests.steps import begun, close_one


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
