"""Faults that systems of this kind are known for, tried through the functions as processes.

C1  a lease that is shorter than the work done under it
D3  the provider accepted, and its answer never came
E1  a callback that comes before what it is about is known, or long after, or about nothing
E7  a signature that is verified, or made, over other bytes than those on the wire
"""

import base64
import json
import time
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
import standardwebhooks

from functions.core.login import Login
from functions.store.connection import Database
from functions.store.survey import promote
from tests.fakes import add_notifications, moves_of, row_of
from tests.function_process import (
    CALLBACK_ARN,
    GATEWAY_ARN,
    HASH_ARN,
    FunctionProcess,
    callbacks_environment,
    environment_of,
    function,
    sender_environment,
)
from tests.gateway import GATEWAY_SECRET, Asked, Behaviour, Gateway, gateway
from tests.reports import HASH_KEY, add_known, report, signed_event
from tests.secrets_manager import SecretsManager, secrets_manager
from tests.sending import body_of, queue_event, recorded
from tests.simulated import CALLBACK_SECRET
from tests.steps import lease, now_of
from tests.unknowns import PROVIDERS, answering, resetting, silent
from tests.wire import Wire

SECRETS: dict[str, Any] = {
    GATEWAY_ARN: {"current": GATEWAY_SECRET.removeprefix("whsec_")},
    CALLBACK_ARN: {"current": CALLBACK_SECRET.removeprefix("whsec_")},
    HASH_ARN: {"current": HASH_KEY.decode()},
}
ALL_ACKNOWLEDGED: dict[str, list[Any]] = {"batchItemFailures": []}


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions of an installation, each started where a test needs it."""

    login: Login
    manager: SecretsManager
    folder: Path
    stack: ExitStack

    def start(self, name: str) -> FunctionProcess:
        environment = {
            "sender": sender_environment(self.login, self.manager),
            "callbacks": callbacks_environment(self.login, self.manager),
            "sweeper": environment_of(self.login),
            "reconcile": environment_of(
                self.login, **self.manager.environment, GATEWAY_SECRET_ARN=GATEWAY_ARN
            ),
        }[name]
        return self.stack.enter_context(function(name, environment, self.folder))


@pytest.fixture
def functions(login: Login, tmp_path: Path) -> Generator[Functions]:
    with secrets_manager(SECRETS) as manager, ExitStack() as stack:
        yield Functions(login, manager, tmp_path, stack)


@pytest.fixture
def served(owner: psycopg.Connection) -> Generator[Gateway]:
    """The gateway of every channel; what it accepts is not delivered yet."""
    with gateway() as served:
        owner.execute("UPDATE channels SET provider_url = %s", [served.url])
        yield served


def deliver(database: Database, sending: FunctionProcess, *, seconds: float = 20.0) -> None:
    """Lease what is due, and hand it to the sender."""
    event = queue_event(*(body_of(leased) for leased in lease(database)))
    assert sending.invoke(event, seconds=seconds) == ALL_ACKNOWLEDGED


def make_due(owner: psycopg.Connection, database: Database) -> None:
    owner.execute("UPDATE notifications SET available_at = clock_timestamp()")
    promote(database)


def outcomes_of(owner: psycopg.Connection, id: UUID) -> list[str | None]:
    found = owner.execute(
        "SELECT outcome FROM attempts WHERE notification_id = %s ORDER BY lease_number", [id]
    )
    return [outcome for (outcome,) in found.fetchall()]


def wait_until(owner: psycopg.Connection, moment: Any) -> None:
    """Wait until the database's clock, which alone decides, has passed ``moment``."""
    while now_of(owner) <= moment:
        time.sleep(0.05)


# C1


@pytest.mark.parametrize("name", PROVIDERS)
def test_c1_a_provider_slower_than_the_lease_is_called_once(
    owner: psycopg.Connection,
    database: Database,
    functions: Functions,
    served: Gateway,
    name: str,
) -> None:
    """A lease of three seconds, and an answer after it is over: the sender begins by making the
    lease as long as its own life, so that neither the sweep nor a claim takes the row away."""
    owner.execute("UPDATE channels SET provider = %s", [name])
    sweeping, sending = functions.start("sweeper"), functions.start("sender")
    assert sending.invoke(recorded("sender.batch")) == ALL_ACKNOWLEDGED  # it is up and connected
    (id,) = add_notifications(owner)
    (leased,) = lease(database, lease_seconds=3)
    lease_until = row_of(owner, id).lease_until

    def answer_late(wire: Wire, asked: Asked) -> None:
        wait_until(owner, lease_until + timedelta(seconds=0.2))
        assert sweeping.invoke(recorded("sweeper.scheduled"))["swept"]["email"] == {
            "LeaseReleased": 0,
            "LeaseInDoubt": 0,
            "LeaseDead": 0,
            "LeaseSettled": 0,
        }
        assert lease(database) == [], "the row is not due for anybody else"
        wire.answer(200, json.dumps({"message_id": served.accept(asked.key)}).encode())

    served.behaviour["ok@example.com"] = answer_late
    with functions.stack:
        event = queue_event(body_of(leased))
        assert sending.invoke(event) == ALL_ACKNOWLEDGED
        # And once more, as a queue does whose visibility was too short.
        again = queue_event(body_of(leased), received=2)
        assert sending.invoke(again) == ALL_ACKNOWLEDGED
    assert (len(served.asked), len(served.effects)) == (1, 1)
    assert (row_of(owner, id).status, outcomes_of(owner, id)) == ("submitted", ["accepted"])
    assert moves_of(owner, id) == [("sender", "leased", "submitted", "accepted")]


def test_c1_a_lease_that_ran_out_in_the_queue_sends_nothing_and_its_successor_sends_once(
    owner: psycopg.Connection, database: Database, functions: Functions, served: Gateway
) -> None:
    (id,) = add_notifications(owner)
    (first,) = lease(database, lease_seconds=0.2)
    wait_until(owner, row_of(owner, id).lease_until)
    with functions.stack:
        assert functions.start("sweeper").invoke({})["swept"]["email"]["LeaseReleased"] == 1
        (second,) = lease(database)
        sending = functions.start("sender")
        for one in (first, second, first, second):
            assert sending.invoke(queue_event(body_of(one))) == ALL_ACKNOWLEDGED
        assert sending.metrics["StaleDelivery"] == 3
    assert [asked.key for asked in served.asked] == [str(id)]
    assert row_of(owner, id).status == "submitted"


def test_c1_work_that_outlives_its_function_is_repeated_under_the_same_key(
    owner: psycopg.Connection, database: Database, functions: Functions, served: Gateway
) -> None:
    """The invocation ends before the answer comes: the call is given up a second earlier."""
    (id,) = add_notifications(owner)
    with functions.stack:
        sending = functions.start("sender")

        def accept_and_hang(wire: Wire, asked: Asked) -> None:
            served.accept(asked.key)
            wire.wait_until_gone()

        served.behaviour["ok@example.com"] = accept_and_hang
        deliver(database, sending, seconds=3.0)
        assert outcomes_of(owner, id) == ["unknown"]
        served.behaviour.clear()
        make_due(owner, database)
        deliver(database, sending)
    assert [asked.key for asked in served.asked] == [str(id)] * 2
    assert (len(served.effects), row_of(owner, id).status) == (1, "submitted")


# D3


def accepting(then: Behaviour, served: Gateway) -> Behaviour:
    """Accept, and then let the answer go wrong."""

    def behave(wire: Wire, asked: Asked) -> None:
        served.accept(asked.key)
        then(wire, asked)

    return behave


D3: dict[str, Behaviour] = {
    "held past the timeout": silent,
    "no JSON": answering(200, b"Thank you!"),
    "reset": resetting,
}


@pytest.mark.parametrize("case", D3)
def test_d3_an_answer_that_never_came_is_unknown_and_asked_for_again_under_the_same_key(
    owner: psycopg.Connection,
    database: Database,
    functions: Functions,
    served: Gateway,
    case: str,
) -> None:
    (id,) = add_notifications(owner)
    owner.execute("UPDATE channels SET provider_deadline_seconds = 1")
    served.behaviour["ok@example.com"] = accepting(D3[case], served)
    with functions.stack:
        sending = functions.start("sender")
        deliver(database, sending)
        assert sending.metrics["AttemptUnknown"] == 1
        assert len(served.asked) == 1, "nothing is sent again behind our back"
        row = row_of(owner, id)
        assert (row.status, row.in_doubt, outcomes_of(owner, id)) == ("pending", 1, ["unknown"])
        served.behaviour.clear()
        owner.execute("UPDATE channels SET provider_deadline_seconds = 10")
        make_due(owner, database)
        deliver(database, sending)
        assert sending.metrics["AttemptAccepted"] == 1
    assert [asked.key for asked in served.asked] == [str(id)] * 2
    assert served.effects == {str(id): "m-1"}, "the provider tells a repetition by its key"
    assert row_of(owner, id).status == "submitted"


@pytest.mark.parametrize("case", D3)
def test_d3_without_keys_an_answer_that_never_came_is_waited_for(
    owner: psycopg.Connection,
    database: Database,
    functions: Functions,
    served: Gateway,
    case: str,
) -> None:
    """Until the callback comes, which names the attempt."""
    owner.execute(
        "UPDATE channels SET provider = 'http_keyless', provider_deadline_seconds = 1,"
        " unknown_policy = 'hold'"
    )
    (id,) = add_known(owner)
    served.behaviour["ok@example.com"] = accepting(D3[case], served)
    with functions.stack:
        deliver(database, functions.start("sender"))
        assert (row_of(owner, id).status, outcomes_of(owner, id)) == ("uncertain", ["unknown"])
        make_due(owner, database)
        assert lease(database) == []
        (asked,) = served.asked
        event = signed_event(report("delivered", idempotency_key=asked.key))
        assert functions.start("callbacks").invoke(event)["statusCode"] == 202
    row = row_of(owner, id)
    assert (row.status, row.in_doubt, outcomes_of(owner, id)) == ("delivered", 0, ["accepted"])
    assert len(served.effects) == 1


# E1


@pytest.mark.parametrize("named", ["by key", "by attempt", "by reference"])
def test_e1_a_callback_inside_the_call_counts(
    owner: psycopg.Connection,
    database: Database,
    functions: Functions,
    served: Gateway,
    named: str,
) -> None:
    """The report is there before the gateway has answered, so before its id is known to us."""
    if named == "by attempt":
        owner.execute("UPDATE channels SET provider = 'http_keyless'")
    (id,) = add_known(owner)
    called_back = functions.start("callbacks")

    def report_first(wire: Wire, asked: Asked) -> None:
        message_id = served.accept(asked.key)
        key = None if named == "by reference" else asked.key
        event = signed_event(report("delivered", message_id=message_id, idempotency_key=key))
        assert called_back.invoke(event)["statusCode"] == 202
        wire.answer(200, json.dumps({"message_id": message_id}).encode())

    served.behaviour["ok@example.com"] = report_first
    with functions.stack:
        sending = functions.start("sender")
        deliver(database, sending)
        if named == "by reference":
            assert row_of(owner, id).status == "submitted"
            reconciled = functions.start("reconcile").invoke(recorded("reconcile.scheduled"))
            assert reconciled["rematched"] == 1
            assert called_back.metrics["ReceiptOrphaned"] == 1
        for process in (sending, called_back):
            assert {line["level"] for line in process.lines} == {"INFO"}
    row = row_of(owner, id)
    assert (row.status, row.in_doubt, row.attempt_id) == ("delivered", 0, None)
    assert outcomes_of(owner, id) == ["accepted"]


def test_e1_a_callback_ten_minutes_later_counts(
    owner: psycopg.Connection, database: Database, functions: Functions, served: Gateway
) -> None:
    (id,) = add_known(owner)
    with functions.stack:
        deliver(database, functions.start("sender"))
        owner.execute(
            "UPDATE notifications SET submitted_at = submitted_at - %(ago)s,"
            " created_at = created_at - %(ago)s, evidence_at = evidence_at - %(ago)s",
            {"ago": timedelta(minutes=10)},
        )
        owner.execute("UPDATE attempts SET started_at = started_at - interval '10 minutes'")
        reconcile = functions.start("reconcile")
        assert reconcile.invoke(recorded("reconcile.scheduled"))["unconfirmed"] == 0
        event = signed_event(report("delivered", message_id="m-1"))
        assert functions.start("callbacks").invoke(event)["statusCode"] == 202
    assert row_of(owner, id).status == "delivered"


def test_e1_a_callback_about_nothing_is_kept_quietly(
    owner: psycopg.Connection, functions: Functions
) -> None:
    unknown = uuid4()
    with functions.stack:
        called_back = functions.start("callbacks")
        for data in (
            {"message_id": "m-none"},
            {"idempotency_key": str(unknown)},
            {"idempotency_key": f"{unknown}.{uuid4()}"},
            {"idempotency_key": "k"},
        ):
            for _ in range(5):
                event = signed_event(report("bounced", permanent=True, **data))
                answer = called_back.invoke(event)
                assert (answer["statusCode"], answer["body"]) == (202, "")
        reconcile = functions.start("reconcile")
        for _ in range(3):
            assert reconcile.invoke(recorded("reconcile.scheduled"))["rematched"] == 0
        for process in (called_back, reconcile):
            assert {line["level"] for line in process.lines} == {"INFO"}
        assert called_back.metrics["ReceiptOrphaned"] == 20
    assert owner.execute("SELECT count(*) FROM receipts").fetchone() == (20,)
    assert owner.execute("SELECT count(*) FROM suppressions").fetchone() == (0,)


# E7

ODD = '{"data":{"idempotency_key":"%s",  "status":"delivered","b":1.0,  "a":"é"}}'
"""Odd spacing, a float, raw UTF-8: whoever writes it anew writes something else."""

BYTES = {"as it is": ODD, "with a newline": ODD + "\n", "with spaces": f" \r\n{ODD}\t "}


def test_e7_what_was_signed_are_the_bytes_received(
    owner: psycopg.Connection, functions: Functions, subtests: pytest.Subtests
) -> None:
    with functions.stack:
        called_back = functions.start("callbacks")
        for case, change, name in product(
            BYTES, (str.lower, str.upper, str.title), ("callbacks.delivered", "callbacks.base64")
        ):
            with subtests.test(f"{case} {change.__name__} {name}"):
                (id,) = add_known(owner)
                body = BYTES[case] % id
                event = signed_event(body, name=name)
                event["headers"] = {change(key): text for key, text in event["headers"].items()}
                assert called_back.invoke(event)["statusCode"] == 202
                assert row_of(owner, id).status == "delivered"
                found = owner.execute("SELECT raw FROM receipts WHERE notification_id = %s", [id])
                assert [bytes(raw) for (raw,) in found] == [body.encode()]


def test_e7_a_body_that_is_no_report_is_read_only_after_its_signature_was_right(
    functions: Functions,
) -> None:
    body = '{"b":1.0,  "a":"é"}'
    with functions.stack:
        called_back = functions.start("callbacks")
        for name in ("callbacks.delivered", "callbacks.base64"):
            for text in (body, body + "\n"):
                event = signed_event(text, name=name)
                assert called_back.invoke(event)["statusCode"] == 400
                event["headers"]["webhook-id"] = "another"
                assert called_back.invoke(event)["statusCode"] == 401


def test_e7_one_changed_byte_fails(
    owner: psycopg.Connection, functions: Functions, subtests: pytest.Subtests
) -> None:
    (id,) = add_known(owner)
    body = (ODD % id).encode()
    with functions.stack:
        called_back = functions.start("callbacks")
        for place in range(0, len(body), 7):
            with subtests.test(str(place)):
                event = signed_event(body, name="callbacks.base64")
                changed = bytearray(body)
                changed[place] ^= 1
                event["body"] = base64.b64encode(bytes(changed)).decode()
                assert called_back.invoke(event)["statusCode"] == 401
        for added in (b"\n", b" ", b"\0"):
            event = signed_event(body, name="callbacks.base64")
            event["body"] = base64.b64encode(body + added).decode()
            assert called_back.invoke(event)["statusCode"] == 401
    assert row_of(owner, id).status == "pending"


@pytest.mark.parametrize(
    "content",
    [
        "é  –  👍 \u2028 </script>",
        {"subject": "Grüße", "text": "1.0 é\r\n\ttab", "html": "<p>&amp; é</p>"},
        {"text": '"quoted" \\ / \u0001'},
    ],
)
def test_e7_what_we_sign_are_the_bytes_we_send(
    owner: psycopg.Connection,
    database: Database,
    functions: Functions,
    served: Gateway,
    content: Any,
) -> None:
    (id,) = add_notifications(owner, content=content)
    with functions.stack:
        deliver(database, functions.start("sender"))
    (asked,) = served.asked
    received = asked.received
    names = {"webhook-id", "webhook-timestamp", "webhook-signature"}
    headers = {name: value for name, value in received.headers.items() if name in names}
    standardwebhooks.Webhook(GATEWAY_SECRET).verify(received.body, headers)
    assert headers["webhook-id"] == str(id)
    assert int(received.headers["content-length"]) == len(received.body)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(GATEWAY_SECRET).verify(received.body + b"\n", headers)
