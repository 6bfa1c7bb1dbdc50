"""What ends a doubt: a report that names the attempt, a late outcome, the grace's end, a person.

And what never does: a report about another attempt or another recipient, a note, or a lease that
ran out. A doubt under a key is repeated only with the provider that knows the key, and in time.
"""

import json
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.declaration import Declaration
from functions.core.login import Login
from functions.core.outcome import (
    Accepted,
    Answer,
    Outcome,
    Refused,
    Rejected,
    Transient,
    Unknown,
)
from functions.core.timeline import timeline
from functions.providers.choice import DECLARATIONS
from functions.providers.provider import Provider
from functions.reconcile.reconcile import Reconciler, Report
from functions.store.begin import Opening
from functions.store.browse import read_history
from functions.store.close import Closing, close
from functions.store.connection import Database
from functions.store.survey import promote
from functions.store.sweep import sweep
from tests.fakes import FIRST_ORGANIZATION, Row, add_notifications, moves_of, row_of
from tests.function_process import CALLBACK_ARN, HASH_ARN, callbacks_environment, function
from tests.gateway import Asked, Gateway, gateway
from tests.reports import HASH_KEY, add_known, report, signed_event, told
from tests.secrets_manager import SecretsManager, secrets_manager
from tests.sending import records_of, sender
from tests.simulated import CALLBACK_SECRET
from tests.steps import begin_one, begun, channel_of, close_one, lease, now_of, opening_of
from tests.unknowns import answering, provider_of
from tests.wire import Wire

KEY_WINDOW = timedelta(hours=24)
"""Of the ``http`` provider."""


@pytest.fixture
def manager() -> Generator[SecretsManager]:
    secrets = {
        CALLBACK_ARN: {"current": CALLBACK_SECRET.removeprefix("whsec_")},
        HASH_ARN: {"current": HASH_KEY.decode()},
    }
    with secrets_manager(secrets) as manager:
        yield manager


@pytest.fixture
def doubtful(owner: psycopg.Connection, database: Database) -> Opening:
    """The attempt in doubt of the only notification, which is uncertain."""
    add_known(owner)
    opening = begun(database, provider="http_keyless")
    assert close_one(database, opening, Unknown(), keyed=False) == "uncertain"
    return opening


def attempt_of(owner: psycopg.Connection, opening: Opening) -> Row:
    return row_of(owner, opening.token, "attempts")


def told_of(database: Database, opening: Opening, status: str = "delivered", **data: Any) -> None:
    """Report ``status`` of the attempt, by the key that names it."""
    told(database, status, idempotency_key=f"{opening.id}.{opening.token}", **data)


def let_time_pass(owner: psycopg.Connection, seconds: float) -> None:
    """Let everything that waits have waited ``seconds`` longer."""
    owner.execute(
        "UPDATE notifications SET next_check_at = next_check_at - %(past)s,"
        " decide_at = decide_at - %(past)s, available_at = available_at - %(past)s,"
        " key_first_used_at = key_first_used_at - %(past)s",
        {"past": timedelta(seconds=seconds)},
    )


def reconcile(database: Database) -> Report:
    """Reconcile without time to ask anybody anything."""
    with ThreadPoolExecutor(1) as threads:
        return Reconciler(
            database=database,
            declarations=DECLARATIONS,
            ask=lambda inquiry: None,
            threads=threads,
            ends_at=time.monotonic(),
        ).run()


def deliver(database: Database, provider: Provider[Any]) -> None:
    promote(database)
    with sender(database, provider) as one:
        report = one.deliver(records_of(lease(database)))
    assert (report.failed, report.errors) == ([], [])


def sentences_of(database: Database, id: UUID) -> list[str]:
    """Return what a person is told of each step."""
    history = read_history(database, organization_id=FIRST_ORGANIZATION, notification_id=id)
    assert history is not None
    steps = timeline(
        history.notification,
        attempts=history.attempts,
        receipts=history.receipts,
        transitions=history.transitions,
    )
    return [step.sentence for step in steps]


@pytest.mark.parametrize(
    ("status", "data", "ends", "reason"),
    [
        ("accepted", {}, "submitted", None),
        ("delivered", {}, "delivered", None),
        ("complained", {}, "delivered", None),
        ("bounced", {"reason": "4.4.7"}, "failed", "4.4.7"),
        ("bounced", {"permanent": True, "reason": "5.1.1"}, "failed", "5.1.1"),
    ],
)
def test_a_report_that_names_the_attempt_settles_it(
    owner: psycopg.Connection,
    database: Database,
    doubtful: Opening,
    status: str,
    data: dict[str, Any],
    ends: str,
    reason: str | None,
) -> None:
    told_of(database, doubtful, status, message_id="m-9", **data)
    row, attempt = row_of(owner, doubtful.id), attempt_of(owner, doubtful)
    assert (row.status, row.reason, row.in_doubt) == (ends, reason, 0)
    assert (row.attempt_id, row.decide_at) == (None, None)
    assert (attempt.outcome, attempt.code) == ("accepted", None)
    assert moves_of(owner, doubtful.id)[-1][:3] == ("provider", "uncertain", ends)
    (receipt,) = owner.execute("SELECT attempt_id, applied FROM receipts").fetchall()
    assert receipt == (doubtful.token, True)
    let_time_pass(owner, 3600)
    assert reconcile(database).retried == 0, "the grace's end has nothing left to decide"


def test_the_callbacks_function_settles_an_attempt_by_the_key_that_names_it(
    owner: psycopg.Connection,
    login: Login,
    manager: SecretsManager,
    tmp_path: Path,
    doubtful: Opening,
) -> None:
    body = report("delivered", idempotency_key=f"{doubtful.id}.{doubtful.token}")
    with function("callbacks", callbacks_environment(login, manager), tmp_path) as process:
        assert process.invoke(signed_event(body))["statusCode"] == 202
        assert process.metrics["ReceiptApplied"] == 1
    assert (row_of(owner, doubtful.id).status, row_of(owner, doubtful.id).in_doubt) == (
        "delivered",
        0,
    )
    assert attempt_of(owner, doubtful).outcome == "accepted"


@pytest.mark.parametrize("attempt", ["", f".{UUID(int=7)}", ".1", ".not-an-id"])
def test_a_report_that_names_no_attempt_of_ours_proves_it_of_the_notification_alone(
    owner: psycopg.Connection, database: Database, doubtful: Opening, attempt: str
) -> None:
    told(database, idempotency_key=f"{doubtful.id}{attempt}")
    row = row_of(owner, doubtful.id)
    assert (row.status, row.in_doubt, row.decide_at) == ("delivered", 1, None)
    assert attempt_of(owner, doubtful).outcome == "unknown"


@pytest.mark.parametrize(
    ("status", "data"),
    [("opened", {}), ("delivered", {"recipient": "archive@example.com"})],
    ids=["a note", "somebody else's copy"],
)
def test_what_proves_nothing_of_it_settles_no_attempt(
    owner: psycopg.Connection,
    database: Database,
    doubtful: Opening,
    status: str,
    data: dict[str, Any],
) -> None:
    before = row_of(owner, doubtful.id)
    told_of(database, doubtful, status, **data)
    assert row_of(owner, doubtful.id) == before
    assert attempt_of(owner, doubtful).outcome == "unknown"


def test_a_report_of_the_first_attempt_stops_a_second_that_is_not_begun(
    owner: psycopg.Connection, database: Database, doubtful: Opening
) -> None:
    owner.execute("UPDATE channels SET unknown_policy = 'retry'")
    let_time_pass(owner, 901)
    assert reconcile(database).retried == 1
    (leased,) = lease(database)
    told_of(database, doubtful)
    answer = begin_one(database, opening_of(leased), provider="http_keyless")
    assert (answer.verdict, answer.send) == ("stale", False)
    row = row_of(owner, doubtful.id)
    assert (row.status, row.in_doubt, row.lease_until) == ("delivered", 0, None)


def test_a_report_of_the_first_attempt_leaves_the_doubt_about_a_second_that_is_begun(
    owner: psycopg.Connection, database: Database, doubtful: Opening
) -> None:
    owner.execute("UPDATE channels SET unknown_policy = 'retry'")
    let_time_pass(owner, 901)
    reconcile(database)
    second = begun(database, provider="http_keyless")
    told_of(database, doubtful)
    row = row_of(owner, doubtful.id)
    assert (row.status, row.in_doubt, row.attempt_id) == ("delivered", 0, second.token)
    assert close_one(database, second, Unknown(), keyed=False) == "delivered"
    assert (row_of(owner, doubtful.id).status, row_of(owner, doubtful.id).in_doubt) == (
        "delivered",
        1,
    )
    told_of(database, second)
    assert row_of(owner, doubtful.id).in_doubt == 0
    assert {attempt_of(owner, one).outcome for one in (doubtful, second)} == {"accepted"}


def test_the_same_report_again_settles_nothing_twice(
    owner: psycopg.Connection, database: Database, doubtful: Opening
) -> None:
    for _ in range(2):
        told_of(database, doubtful, event_id="event-x")
        told_of(database, doubtful)
    assert row_of(owner, doubtful.id).in_doubt == 0


@pytest.mark.parametrize(
    ("late", "status", "reason"),
    [
        (Accepted(reference="m-1"), "submitted", None),
        (Accepted(reference="m-1", final=True), "delivered", None),
        (Transient(code="409"), "pending", None),
        (Rejected(code="400"), "dead", "rejected"),
        (Refused(code="opted_out"), "suppressed", "refused"),
    ],
    ids=lambda value: value.name if isinstance(value, Answer) else None,
)
def test_an_outcome_that_comes_after_the_sweep_settles_an_uncertain_row(
    owner: psycopg.Connection, database: Database, late: Outcome, status: str, reason: str | None
) -> None:
    (id,) = add_notifications(owner)
    opening = begun(database, provider="http_keyless")
    sweep(
        database,
        channel=channel_of(database),
        declarations=DECLARATIONS,
        now=now_of(owner, hours=1),
    )
    assert row_of(owner, id).status == "uncertain"
    assert close_one(database, opening, late, keyed=False) == status
    row, attempt = row_of(owner, id), attempt_of(owner, opening)
    assert (row.status, row.reason, row.in_doubt) == (status, reason, 0)
    assert (row.attempt_id, row.decide_at) == (None, None)
    assert (attempt.outcome, attempt.code) == (late.name, late.code)


def test_a_sender_that_is_slower_than_its_lease_settles_what_the_sweep_found(
    owner: psycopg.Connection, database: Database, login: Login
) -> None:
    """The sweep comes while the provider is being called; the answer comes all the same."""
    (id,) = add_notifications(owner)

    def sweep_and_accept(wire: Wire, asked: Asked) -> None:
        late = now_of(owner, hours=1)
        channel = channel_of(beside)
        assert sweep(beside, channel=channel, declarations=DECLARATIONS, now=late).in_doubt == 1
        assert row_of(owner, id).status == "uncertain"
        wire.answer(200, json.dumps({"message_id": served.accept(asked.key)}).encode())

    beside = Database(lambda: psycopg.connect(**_address(login), autocommit=True))
    with gateway() as served:
        served.behaviour["ok@example.com"] = sweep_and_accept
        deliver(database, provider_of("http_keyless", served))
    beside.close()
    row = row_of(owner, id)
    assert (row.status, row.in_doubt, row.attempt_id) == ("submitted", 0, None)
    assert [move[:3] for move in moves_of(owner, id)] == [
        ("sweeper", "leased", "uncertain"),
        ("sender", "uncertain", "submitted"),
    ]


def _address(login: Login) -> dict[str, Any]:
    return {"host": login.host, "port": login.port, "dbname": login.name, "user": login.user}


def never_answered(owner: psycopg.Connection, database: Database, served: Gateway) -> UUID:
    """Send one that the gateway takes and never answers for: it is uncertain now."""
    (id,) = add_notifications(owner)
    served.behaviour["ok@example.com"] = answering(500, b"")
    deliver(database, provider_of("http_keyless", served))
    assert row_of(owner, id).status == "uncertain"
    served.behaviour.clear()
    return id


def test_its_grace_over_it_is_sent_again_where_the_channel_says_retry(
    owner: psycopg.Connection, database: Database
) -> None:
    owner.execute("UPDATE channels SET unknown_policy = 'retry'")
    with gateway() as served:
        id = never_answered(owner, database, served)
        let_time_pass(owner, 890)
        assert reconcile(database).checked == 0
        let_time_pass(owner, 20)
        assert reconcile(database).retried == 1
        deliver(database, provider_of("http_keyless", served))
        attempts = owner.execute("SELECT id, outcome FROM attempts ORDER BY lease_number")
        (first, unknown), (second, accepted) = attempts.fetchall()
        assert (unknown, accepted) == ("unknown", "accepted")
        assert [asked.key for asked in served.asked] == [f"{id}.{first}", f"{id}.{second}"]
    row = row_of(owner, id)
    assert (row.status, row.in_doubt, row.attempts_spent) == ("submitted", 1, 2)
    assert [move[:3] for move in moves_of(owner, id)] == [
        ("sender", "leased", "uncertain"),
        ("reconcile", "uncertain", "pending"),
        ("sender", "leased", "submitted"),
    ]
    assert "No evidence came in the time it was waited for." in " ".join(sentences_of(database, id))


def test_its_grace_over_it_is_held_where_the_channel_says_hold(
    owner: psycopg.Connection, database: Database
) -> None:
    owner.execute("UPDATE channels SET unknown_policy = 'hold'")
    with gateway() as served:
        id = never_answered(owner, database, served)
        let_time_pass(owner, 910)
        assert reconcile(database).held == 1
        promote(database)
        assert lease(database) == []
        assert len(served.asked) == 1
    row = row_of(owner, id)
    assert (row.status, row.reason, row.in_doubt) == ("dead", "outcome_unknown", 1)
    assert sentences_of(database, id)[-1].endswith("It is held for a person to decide.")


def in_doubt_under_its_key(owner: psycopg.Connection, database: Database) -> UUID:
    """Return a notification that is due again, in doubt under the key of ``http``."""
    (id,) = add_notifications(owner)
    close_one(database, begun(database), Unknown(), again_seconds=None)
    return id


def test_within_the_key_window_a_doubt_is_repeated_under_the_same_key(
    owner: psycopg.Connection, database: Database
) -> None:
    id = in_doubt_under_its_key(owner, database)
    let_time_pass(owner, KEY_WINDOW.total_seconds() - 60)
    with gateway() as served:
        deliver(database, served.provider())
        assert [asked.key for asked in served.asked] == [str(id)]
    assert row_of(owner, id).status == "submitted"


def test_after_the_key_window_a_doubt_is_held_and_not_repeated(
    owner: psycopg.Connection, database: Database
) -> None:
    id = in_doubt_under_its_key(owner, database)
    let_time_pass(owner, KEY_WINDOW.total_seconds() + 1)
    with gateway() as served:
        deliver(database, served.provider())
        assert served.asked == []
    row = row_of(owner, id)
    assert (row.status, row.reason, row.in_doubt) == ("dead", "outcome_unknown", 1)
    assert (row.attempt_id, row.lease_until, row.attempts_spent) == (None, None, 1)
    assert moves_of(owner, id)[-1] == ("sender", "leased", "dead", "key_window_over")
    assert "the provider remembers its key no longer" in sentences_of(database, id)[-1]


def test_without_a_doubt_no_key_is_ever_too_old(
    owner: psycopg.Connection, database: Database
) -> None:
    (id,) = add_notifications(owner)
    close_one(database, begun(database), Transient(), again_seconds=None)
    let_time_pass(owner, 10 * KEY_WINDOW.total_seconds())
    with gateway() as served:
        deliver(database, served.provider())
        assert len(served.effects) == 1
    assert row_of(owner, id).status == "submitted"


def test_a_doubt_under_a_key_is_held_when_the_channel_has_another_provider_now(
    owner: psycopg.Connection, database: Database
) -> None:
    id = in_doubt_under_its_key(owner, database)
    owner.execute("UPDATE channels SET provider = 'http_keyless'")
    with gateway() as served:
        deliver(database, provider_of("http_keyless", served))
        assert served.asked == []
    row = row_of(owner, id)
    assert (row.status, row.reason, row.in_doubt) == ("dead", "outcome_unknown", 1)
    assert moves_of(owner, id)[-1] == ("sender", "leased", "dead", "provider_changed")
    assert "the channel has another provider now" in sentences_of(database, id)[-1]


def test_what_the_policy_lets_be_tried_again_goes_by_whatever_provider_there_is(
    owner: psycopg.Connection, database: Database
) -> None:
    owner.execute("UPDATE channels SET unknown_policy = 'retry'")
    with gateway() as served:
        id = never_answered(owner, database, served)
        let_time_pass(owner, 910)
        assert reconcile(database).retried == 1
        deliver(database, served.provider())
        assert served.asked[-1].key == str(id)
    assert row_of(owner, id).status == "submitted"


@pytest.mark.parametrize(
    ("claims", "status", "reason"),
    [
        ("accepted", "unconfirmed", "provider_gives_no_receipts"),
        ("delivered", "delivered", None),
    ],
)
def test_where_no_reports_are_given_nothing_is_waited_for(
    owner: psycopg.Connection, database: Database, claims: str, status: str, reason: str | None
) -> None:
    (id,) = add_known(owner)
    silent = Declaration(name="http", keyed=True, receipts=False)
    with gateway(status=claims) as served:
        deliver(database, replace(served.provider(), declaration=silent))
    row = row_of(owner, id)
    assert (row.status, row.reason, row.evidence_rank > 0) == (status, reason, True)
    assert row.final_at is not None
    let_time_pass(owner, 10 * 86_400)
    assert reconcile(database).checked == 0
    said = sentences_of(database, id)[-1]
    assert ("gives no reports of delivery" in said) == (reason is not None)
    told(database, "bounced", idempotency_key=id, permanent=True)
    assert row_of(owner, id).status == "failed", "evidence counts all the same"


def test_where_no_reports_are_given_a_late_acceptance_ends_at_once(
    owner: psycopg.Connection, database: Database, doubtful: Opening
) -> None:
    closing = Closing(
        id=doubtful.id,
        lease_number=doubtful.lease_number,
        token=doubtful.token,
        outcome=Accepted(reference="m-1"),
        again_seconds=None,
    )
    silent = Declaration(name="http_keyless", keyed=False, receipts=False)
    close(database, [closing], channel=channel_of(database), declaration=silent)
    row = row_of(owner, doubtful.id)
    assert (row.status, row.reason) == ("unconfirmed", "provider_gives_no_receipts")
    assert (row.in_doubt, row.attempt_id, row.decide_at) == (0, None, None)
