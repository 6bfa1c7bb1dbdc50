"""Redrive by the rows: what a dead letter comes to, and no crash loses or repeats a decision."""

import json
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import psycopg
import pytest

from functions.console import dead_letters
from functions.core.login import Login
from functions.core.outcome import Transient
from functions.core.states import FINAL, Channel, Status
from functions.sender.record import Report, read_records
from functions.store.connection import Database, connector
from tests import operators
from tests.fakes import Killed, add_notifications, moves_of, row_of
from tests.gateway import gateway
from tests.operators import (
    ACTOR,
    Operator,
    Queues,
    arrange,
    audit,
    letter,
    operator_database,
    operator_login,
    operator_with,
)
from tests.sending import Interrupted, body_of, queue_event, recorded, sender
from tests.steps import begun, close_one, lease

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> Generator[Queues]:
    with operators.queues(monkeypatch) as made:
        yield made


@pytest.fixture
def operator(login: Login, queues: Queues) -> Generator[Operator]:
    with operator_database(login) as database:
        yield operator_with(database, queues.sqs, queues.urls)


def dead(owner: psycopg.Connection, count: int = 1, **columns: Any) -> list[UUID]:
    """Return notifications that were rejected, and are held for that."""
    given = {"status": "dead", "reason": "rejected", "attempts_spent": 1, **columns}
    return [arrange(owner, id, **given) for id in add_notifications(owner, count)]


def fates(result: Any) -> dict[str | None, tuple[str, bool]]:
    """Return fate of each message, and whether it was kept, by the notification it names."""
    return {one["id"]: (one["fate"], one["kept"]) for one in result["messages"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A row that a message names: how it is, what comes of it, whether the message stays."""

    name: str
    columns: dict[str, Any]
    fate: str
    kept: bool = False


CASES = [
    Case(name="dead", columns={"status": "dead", "reason": "rejected"}, fate="requeued"),
    Case(name="spent", columns={"status": "dead", "reason": "budget_spent"}, fate="requeued"),
    Case(name="pending", columns={"status": "pending"}, fate="already_scheduled"),
    Case(
        name="leased",
        columns={"status": "leased", "lease_number": 9, "lease_until": "2100-01-01T00:00:00Z"},
        fate="already_scheduled",
    ),
    Case(
        name="uncertain", columns={"status": "uncertain", "in_doubt": 1}, fate="awaiting_evidence"
    ),
    Case(
        name="submitted",
        columns={"status": "submitted", "evidence_rank": 1},
        fate="submitted",
    ),
    *(
        Case(
            name=status,
            columns={"status": status, "final_at": "2026-01-01T00:00:00Z"},
            fate=status,
        )
        for status in sorted(FINAL)
    ),
    Case(
        name="discarded",
        columns={
            "status": "dead",
            "reason": "rejected",
            "discarded_at": "2026-01-01T00:00:00Z",
            "final_at": "2026-01-01T00:00:00Z",
        },
        fate="discarded",
    ),
    Case(
        name="too late",
        columns={
            "status": "dead",
            "reason": "rejected",
            "expires_at": "2026-01-01T00:00:00Z",
        },
        fate="expired",
    ),
    Case(
        name="in doubt",
        columns={"status": "dead", "reason": "outcome_unknown", "in_doubt": 1},
        fate="needs_consent",
        kept=True,
    ),
    Case(
        name="open",
        columns={"status": "dead", "reason": "crash_loop", "attempt_id": uuid4()},
        fate="attempt_open",
        kept=True,
    ),
]


def arranged(owner: psycopg.Connection, case: Case) -> UUID:
    evidence = {"evidence_at": "2026-01-01T00:00:00Z", "evidence_key": "k"}
    columns = case.columns | (evidence if "evidence_rank" in case.columns else {})
    return arrange(owner, add_notifications(owner)[0], **columns)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_dead_letter_is_decided_by_its_row(
    owner: psycopg.Connection, operator: Operator, queues: Queues, case: Case
) -> None:
    id = arranged(owner, case)
    before = row_of(owner, id)
    queues.put(letter(id))
    expected = {str(id): (case.fate, case.kept)}

    preview = operator.ask("dlq.preview", channel="email")
    assert (fates(preview), preview["count"]) == (expected, 1)
    assert (row_of(owner, id), queues.visible(), audit(owner)) == (before, 1, [])

    redriven = operator.ask("dlq.redrive", channel="email")
    assert (fates(redriven), redriven["count"]) == (expected, 1)
    assert queues.visible() == int(case.kept)
    row = row_of(owner, id)
    if case.fate == "requeued":
        assert (row.status, row.ready, row.attempts_spent) == ("pending", True, 0)
        assert moves_of(owner, id) == [("operator", "dead", "pending", "requeued")]
    else:
        assert row == before
    (kept,) = audit(owner)
    assert (kept.actor, kept.command, kept.arguments) == (
        ACTOR,
        "dlq.redrive",
        {"channel": "email"},
    )
    assert (str(kept.id), kept.result) == (redriven["action_id"], {"fates": {case.fate: 1}})


def test_every_status_there_is_has_a_fate() -> None:
    assert {case.columns["status"] for case in CASES} == set(Status)


def test_a_dead_letter_of_no_notification_is_dropped(operator: Operator, queues: Queues) -> None:
    id = uuid4()
    queues.put(letter(id))
    assert fates(operator.ask("dlq.redrive", channel="email")) == {str(id): ("not_found", False)}
    assert queues.visible() == 0


UNREADABLE = [
    "not json",
    "{}",
    '{"v":2,"id":"019b76da-a800-7000-8000-000000000001","lease":1,"channel":"email"}',
    '{"v":1,"id":"019b76da-a800-7000-8000-000000000001","lease":1,"channel":"fax"}',
    "x" * 5000,
]


@pytest.mark.parametrize("body", UNREADABLE, ids=range(len(UNREADABLE)))
def test_what_cannot_be_read_stays_and_is_listed(
    owner: psycopg.Connection, operator: Operator, queues: Queues, body: str
) -> None:
    (message_id,) = queues.put(body)
    for command in ("dlq.preview", "dlq.redrive", "dlq.redrive"):
        (message,) = operator.ask(command, channel="email")["messages"]
        assert message == {
            "message_id": message_id,
            "id": None,
            "lease": None,
            "fate": "unreadable",
            "kept": True,
            "body": body[:200],
        }
        assert queues.visible() == 1
    assert [kept.result for kept in audit(owner)] == [{"fates": {}}] * 2


def test_a_message_of_another_channel_stays(
    owner: psycopg.Connection, operator: Operator, queues: Queues
) -> None:
    (id,) = dead(owner)
    queues.put(letter(id, channel=Channel.SMS, lease=3))
    (message,) = operator.ask("dlq.redrive", channel="email")["messages"]
    assert (message["id"], message["lease"]) == (str(id), 3)
    assert (message["fate"], message["kept"]) == ("other_channel", True)
    assert "body" not in message
    assert (row_of(owner, id).status, queues.visible()) == ("dead", 1)


def test_an_operator_may_say_that_sending_twice_is_acceptable(
    owner: psycopg.Connection, operator: Operator, queues: Queues
) -> None:
    (id,) = dead(owner, reason="outcome_unknown", in_doubt=1)
    queues.put(letter(id))
    asked = operator.ask("dlq.redrive", channel="email", may_send_twice=False)
    assert fates(asked) == {str(id): ("needs_consent", True)}
    asked = operator.ask("dlq.redrive", channel="email", may_send_twice=True)
    assert fates(asked) == {str(id): ("requeued", False)}
    assert (row_of(owner, id).status, queues.visible()) == ("pending", 0)


def test_two_messages_of_one_row_have_one_fate_and_one_effect(
    owner: psycopg.Connection, operator: Operator, queues: Queues
) -> None:
    (id,) = dead(owner)
    queues.put(letter(id, lease=1), letter(id, lease=2))
    result = operator.ask("dlq.redrive", channel="email")
    assert [one["fate"] for one in result["messages"]] == ["requeued", "requeued"]
    assert sorted(one["lease"] for one in result["messages"]) == [1, 2]
    assert len(moves_of(owner, id)) == 1
    assert queues.visible() == 0


def test_a_limit_bounds_what_is_decided_and_the_rest_stays(
    owner: psycopg.Connection, operator: Operator, queues: Queues
) -> None:
    queues.put(*(letter(id) for id in dead(owner, 25)))
    for expected in (12, 12, 1, 0):
        result = operator.ask("dlq.redrive", channel="email", limit=12)
        assert len(result["messages"]) == expected
    assert queues.visible() == 0
    assert owner.execute("SELECT DISTINCT status FROM notifications").fetchall() == [("pending",)]


def test_what_stays_does_not_hold_back_its_neighbours(
    owner: psycopg.Connection, operator: Operator, queues: Queues
) -> None:
    (id,) = dead(owner)
    doubtful = dead(owner, 12, reason="outcome_unknown", in_doubt=1)
    queues.put(*UNREADABLE * 3, *(letter(one) for one in doubtful), letter(id))
    result = operator.ask("dlq.redrive", channel="email", limit=1)
    assert fates(result)[str(id)] == ("requeued", False)
    assert Counter(one["fate"] for one in result["messages"]) == {
        "unreadable": 15,
        "needs_consent": 12,
        "requeued": 1,
    }
    assert queues.visible() == 27


@dataclass(slots=True)
class Endless:
    """A queue of messages that nobody can read, without an end."""

    given: int = 0
    released: int = 0

    def get_queue_attributes(self, **arguments: Any) -> dict[str, Any]:
        del arguments
        return {"Attributes": {"ApproximateNumberOfMessages": "100000"}}

    def receive_message(self, *, MaxNumberOfMessages: int, **arguments: Any) -> dict[str, Any]:
        del arguments
        ids = range(self.given, self.given + MaxNumberOfMessages)
        self.given = ids.stop
        return {
            "Messages": [
                {"MessageId": str(id), "ReceiptHandle": str(id), "Body": "not json"} for id in ids
            ]
        }

    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: list[Any]) -> Any:
        del QueueUrl
        self.released += len(Entries)
        return {}


@pytest.mark.parametrize("limit", [1, 100])
def test_only_so_many_messages_are_looked_at(login: Login, limit: int) -> None:
    endless = Endless()
    with operator_database(login) as database:
        operator = operator_with(database, endless, {"email": "https://queue/email"})
        result = operator.ask("dlq.redrive", channel="email", limit=limit)
    assert len(result["messages"]) == dead_letters.MAX_RECEIVED
    assert endless.given == endless.released == dead_letters.MAX_RECEIVED


@pytest.mark.parametrize("limit", [0, 101, "10", None])
def test_a_limit_is_from_1_to_100(operator: Operator, limit: Any) -> None:
    if limit is None:
        assert operator.ask("dlq.preview", channel="email", limit=None)["messages"] == []
    else:
        code, detail = operator.refusal("dlq.redrive", channel="email", limit=limit)
        assert (code, detail) == ("invalid", "limit: It is a whole number from 1 to 100.")


def test_a_queue_is_named_by_its_channel(operator: Operator) -> None:
    assert operator.refusal("dlq.preview")[0] == "invalid"
    assert operator.refusal("dlq.preview", channel="email-dlq")[0] == "invalid"


@dataclass(slots=True)
class Between:
    """SQS as it is, but for one call that does not come to be, or whose answer is lost.

    Once it has ended, nothing is heard of it any more, as of a process that was killed; what was
    hidden by it then is seen again, as after the time for which it was hidden.
    """

    sqs: "SQSClient"
    at: str
    taking_effect: bool = False
    error: type[BaseException] = Killed
    ended: bool = field(default=False, init=False)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call: Callable[..., Any] = getattr(self.sqs, name)

        def called(**arguments: Any) -> Any:
            if self.ended and self.error is Killed:
                raise Killed
            if name == "receive_message":
                arguments["VisibilityTimeout"] = 0
            if name != self.at:
                return call(**arguments)
            if self.taking_effect:
                call(**arguments)
            self.ended = True
            raise self.error

        return called


@pytest.mark.parametrize("taking_effect", [False, True])
@pytest.mark.parametrize(
    "at",
    [
        "get_queue_attributes",
        "receive_message",
        "delete_message_batch",
        "change_message_visibility_batch",
    ],
)
def test_a_console_that_dies_between_two_calls_loses_nothing_and_decides_once(
    owner: psycopg.Connection, login: Login, queues: Queues, at: str, taking_effect: bool
) -> None:
    ids = dead(owner, 3)
    queues.put(*(letter(id) for id in ids), "not json")
    with operator_database(login) as database:
        dying = Between(queues.sqs, at=at, taking_effect=taking_effect)
        with pytest.raises(Killed):
            operator_with(database, dying, queues.urls).ask("dlq.redrive", channel="email")
        again = operator_with(database, queues.sqs, queues.urls)
        result = again.ask("dlq.redrive", channel="email")
    decided = at in ("delete_message_batch", "change_message_visibility_batch")
    left = 0 if decided and (taking_effect or at != "delete_message_batch") else len(ids)
    fate = "already_scheduled" if decided else "requeued"
    assert Counter(one["fate"] for one in result["messages"] if one["id"]) == (
        {fate: left} if left else {}
    )
    assert queues.visible() == 1, "what cannot be read stays"
    for id in ids:
        assert moves_of(owner, id) == [("operator", "dead", "pending", "requeued")]
        assert row_of(owner, id).status == "pending"
    assert len(audit(owner)) == (2 if decided else 1)


def test_a_deletion_that_fails_is_told_and_made_up_for(
    owner: psycopg.Connection, login: Login, queues: Queues
) -> None:
    (id,) = dead(owner)
    queues.put(letter(id))
    with operator_database(login) as database:
        failing = Between(queues.sqs, at="delete_message_batch", error=ConnectionError)
        result = operator_with(database, failing, queues.urls).ask("dlq.redrive", channel="email")
        assert fates(result) == {str(id): ("requeued", True)}
        assert (row_of(owner, id).status, queues.visible()) == ("pending", 1)
        again = operator_with(database, queues.sqs, queues.urls)
        result = again.ask("dlq.redrive", channel="email")
    assert fates(result) == {str(id): ("already_scheduled", False)}
    assert queues.visible() == 0
    assert len(moves_of(owner, id)) == 1


def test_a_queue_that_does_not_answer_is_told_and_nothing_is_decided(
    owner: psycopg.Connection, login: Login, queues: Queues
) -> None:
    (id,) = dead(owner)
    queues.put(letter(id))
    with operator_database(login) as database:
        for at in ("get_queue_attributes", "receive_message"):
            failing = Between(queues.sqs, at=at, error=ConnectionError)
            code, detail = operator_with(database, failing, queues.urls).refusal(
                "dlq.redrive", channel="email"
            )
            assert (code, detail) == (
                "unavailable",
                "The queue is not available (ConnectionError).",
            )
    assert (row_of(owner, id).status, queues.visible(), audit(owner)) == ("dead", 1, [])


@pytest.mark.parametrize("done", [False, True])
def test_a_database_that_is_gone_before_or_after_the_decision_deletes_no_message(
    owner: psycopg.Connection, login: Login, queues: Queues, done: bool
) -> None:
    (id,) = dead(owner)
    queues.put(letter(id))
    who = operator_login(login)
    # The first piece of work takes the action's id, the second judges, the third decides.
    connect = connector(lambda: who, application_name="console")
    interrupted = Interrupted(connect, out=[3], done=done)
    failing = operator_with(interrupted, queues.sqs, queues.urls)
    code, detail = failing.refusal("dlq.redrive", channel="email")
    assert code == "unavailable"
    assert ("It may have been done" in detail) == done
    assert queues.visible() == 1, "let go at once"
    result = failing.ask("dlq.redrive", channel="email")
    interrupted.close()
    assert fates(result) == {str(id): ("already_scheduled" if done else "requeued", False)}
    assert moves_of(owner, id) == [("operator", "dead", "pending", "requeued")]
    assert (row_of(owner, id).status, queues.visible()) == ("pending", 0)


def test_a_preview_that_fails_lets_go_of_what_it_looked_at(
    owner: psycopg.Connection, login: Login, queues: Queues
) -> None:
    (id,) = dead(owner)
    queues.put(letter(id))
    interrupted = Interrupted(
        connector(lambda: operator_login(login), application_name="console"), out=[1]
    )
    code, _ = operator_with(interrupted, queues.sqs, queues.urls).refusal(
        "dlq.preview", channel="email"
    )
    assert (code, queues.visible()) == ("unavailable", 1)
    interrupted.close()


def test_what_was_redriven_goes_out_under_a_new_lease_and_its_old_message_does_nothing(
    owner: psycopg.Connection, database: Database, operator: Operator, queues: Queues
) -> None:
    """The queue's own redrive puts old messages back: stale, acknowledged and counted."""
    (id,) = add_notifications(owner, max_attempts=1)
    opening = begun(database)
    close_one(database, opening, Transient(code="503", http_status=503))
    assert (row_of(owner, id).status, row_of(owner, id).reason) == ("dead", "budget_spent")
    old = letter(id, lease=opening.lease_number)
    with gateway() as served:

        def deliver(body: str) -> Report:
            with sender(database, served.provider()) as one:
                return one.deliver(read_records(queue_event(body)))

        assert deliver(old).counts["StaleDelivery"] == 1, "put back before anybody decided"
        assert row_of(owner, id).status == "dead"
        queues.put(old)
        assert fates(operator.ask("dlq.redrive", channel="email")) == {str(id): ("requeued", False)}
        report = deliver(old)
        assert (report.failed, report.counts["StaleDelivery"]) == ([], 1)
        assert served.asked == []
        (leased,) = lease(database)
        assert (leased.id, leased.lease_number > opening.lease_number) == (id, True)
        assert deliver(old).counts["StaleDelivery"] == 1
        assert deliver(body_of(leased)).counts["AttemptAccepted"] == 1
        assert len(served.asked) == 1
    assert row_of(owner, id).status == "submitted"


def test_the_recorded_redrive_is_answered_by_the_deployed_handler(
    monkeypatch: pytest.MonkeyPatch, owner: psycopg.Connection, login: Login, queues: Queues
) -> None:
    ids = dead(owner, 2)
    queues.put(*(letter(id, channel=Channel.SMS) for id in ids), "not json", channel="sms")
    with operators.deployed(monkeypatch, login, queues.urls) as operator:
        answer = operator.answer(recorded("console.redrive"))
    assert json.loads(json.dumps(answer)) == answer
    assert answer["ok"]
    assert Counter(one["fate"] for one in answer["result"]["messages"]) == {
        "requeued": 2,
        "unreadable": 1,
    }
    assert [kept.actor for kept in audit(owner)] == [recorded("console.redrive")["actor"]]
