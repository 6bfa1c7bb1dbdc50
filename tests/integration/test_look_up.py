"""A provider is asked what became of a notification: over the wire, and what an answer changes."""

import json
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from functions.core.login import Login
from functions.core.outcome import Accepted
from functions.core.signature import verify
from functions.providers.choice import DECLARATIONS
from functions.providers.http import GatewayCredentials
from functions.providers.transport import MAX_RESPONSE_BYTES, Transport
from functions.reconcile.inquiry import asking
from functions.reconcile.reconcile import CONCURRENT_QUESTIONS, Reconciler, Report
from functions.store.action import new_action
from functions.store.channel import Channels
from functions.store.connection import Database
from functions.store.restore import mark_gap
from tests.conftest import free_port
from tests.fakes import Row, add_notifications, moves_of, row_of
from tests.function_process import GATEWAY_ARN, environment_of, function
from tests.gateway import GATEWAY_SECRET
from tests.secrets_manager import secrets_manager
from tests.steps import as_owner, begun, close_one, now_of
from tests.wire import Gone, Peer, Wire, peer

CREDENTIALS = GatewayCredentials(secrets=(GATEWAY_SECRET,), token="t-1")
SECONDS = 50.0
"""Of an invocation."""

LOOKING = {"checks", "polls", "next_check_at", "updated_at"}
"""What a look writes, whatever comes of it."""

Script = Callable[[Wire], None]


def saying(status: int, body: bytes = b"", **headers: str) -> Script:
    return lambda wire: wire.answer(status, body, headers)


def telling(status: str, **members: Any) -> Script:
    return saying(200, json.dumps({"message_id": "m-1", "status": status, **members}).encode())


@dataclass(slots=True)
class Asked:
    """A gateway that is asked; ``scripts`` say by the key what it answers, or 404."""

    scripts: dict[str, Script] = field(default_factory=dict[str, Script])
    server: Peer | None = None

    def serve(self, wire: Wire) -> None:
        while True:
            request = wire.read_request()
            self.scripts.get(request.target.rpartition("/")[2], saying(404))(wire)

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"{self.server.url}/gateway"

    @property
    def targets(self) -> list[str]:
        assert self.server is not None
        return [request.target for request in self.server.requests]


@pytest.fixture
def asked(owner: psycopg.Connection) -> Generator[Asked]:
    """The gateway of every channel."""
    gateway = Asked()
    with peer(gateway.serve) as server:
        gateway.server = server
        owner.execute("UPDATE channels SET provider_url = %s, poll_rate = 20", [gateway.url])
        yield gateway


def reconcile(database: Database, *, seconds: float = SECONDS) -> Report:
    with ThreadPoolExecutor(CONCURRENT_QUESTIONS) as threads:
        return Reconciler(
            database=database,
            declarations=DECLARATIONS,
            ask=asking(
                Channels(database), transport=Transport(), gateway_credentials=lambda: CREDENTIALS
            ),
            threads=threads,
            ends_at=time.monotonic() + seconds,
        ).run()


def make_due(owner: psycopg.Connection) -> None:
    """Let everything be looked at now, and the provider be asked at once."""
    owner.execute("UPDATE notifications SET next_check_at = clock_timestamp()")
    owner.execute("UPDATE polls SET reserved_until = clock_timestamp()")


def add_submitted(owner: psycopg.Connection, database: Database) -> UUID:
    """Add one that was accepted, and is to be looked at."""
    (id,) = add_notifications(owner)
    close_one(database, begun(database), Accepted(reference="m-1"))
    make_due(owner)
    return id


def add_uncertain(owner: psycopg.Connection, login: Login, number: int = 1) -> list[UUID]:
    """Add some that may have been sent to the gateway in what a restore lost, and are looked at."""
    ids = add_notifications(owner, number)
    with as_owner(login) as operator:
        action = new_action(operator, actor="ada", command="recover", arguments={})
        marked = mark_gap(operator, since=now_of(owner), declarations=DECLARATIONS, action=action)
    assert marked.marked == number
    return ids


def without_looking(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.columns.items() if name not in LOOKING}


def test_a_question_is_signed_and_names_the_key(
    owner: psycopg.Connection, database: Database, asked: Asked
) -> None:
    id = add_submitted(owner, database)
    owner.execute("UPDATE notifications SET key_epoch = 2")
    report = reconcile(database)
    assert (report.checked, report.asked, report.missed) == (1, 1, 0)
    assert asked.server is not None
    (request,) = asked.server.requests
    assert (request.method, request.target) == ("GET", f"/gateway/{id}.2")
    assert (request.body, request.headers["authorization"]) == (b"", "Bearer t-1")
    signed = verify(b"", headers=request.headers, secrets=[GATEWAY_SECRET], now=time.time())
    assert signed == f"{id}.2"


@pytest.mark.parametrize(
    ("script", "status", "complained", "facts"),
    [
        (telling("accepted"), "submitted", False, []),
        (telling("delivered"), "delivered", False, []),
        (telling("failed"), "failed", False, []),
        (telling("failed", permanent=True), "failed", False, []),
        (telling("bounced"), "failed", False, []),
        (telling("bounced", permanent=True), "failed", False, ["hard_bounce"]),
        (telling("complained"), "delivered", True, ["complaint"]),
        (saying(200, b'{"status":"delivered"}'), "delivered", False, []),
        (telling("delivered", permanent="yes"), "delivered", False, []),
        (saying(200, b'{"status":"delivered","more":[1]}'), "delivered", False, []),
    ],
)
@pytest.mark.parametrize("before", ["submitted", "uncertain"])
def test_an_answer_is_evidence_like_a_report(
    owner: psycopg.Connection,
    login: Login,
    database: Database,
    asked: Asked,
    before: str,
    script: Script,
    status: str,
    complained: bool,
    facts: list[str],
) -> None:
    if before == "submitted":
        id = add_submitted(owner, database)
    else:
        (id,) = add_uncertain(owner, login)
    asked.scripts[str(id)] = script
    report = reconcile(database)
    assert (report.asked, report.answered, report.never_accepted) == (1, 1, 0)
    row = row_of(owner, id)
    assert (row.status, row.complained, row.polls) == (status, complained, 1)
    assert (row.decide_at, row.attempt_id) == (None, None)
    found = owner.execute("SELECT reason FROM suppressions").fetchall()
    assert found == [(fact,) for fact in facts]
    if status != before:
        assert moves_of(owner, id)[-1][:3] == ("provider", before, status)


def test_an_unknown_status_is_kept_as_a_note(
    owner: psycopg.Connection, database: Database, asked: Asked
) -> None:
    id = add_submitted(owner, database)
    before = without_looking(row_of(owner, id))
    asked.scripts[str(id)] = telling("queued")
    assert reconcile(database).answered == 1
    assert without_looking(row_of(owner, id)) == before
    kept = owner.execute("SELECT type, evidence_rank, notification_id FROM receipts").fetchall()
    assert kept == [("queued", 0, id)]


def test_the_same_answer_twice_is_one_receipt_and_another_status_another(
    owner: psycopg.Connection, database: Database, asked: Asked
) -> None:
    id = add_submitted(owner, database)
    for status in ("accepted", "accepted", "delivered"):
        asked.scripts[str(id)] = telling(status)
        make_due(owner)
        assert reconcile(database).answered == 1
    kept = owner.execute("SELECT type FROM receipts ORDER BY id").fetchall()
    assert kept == [("accepted",), ("delivered",)]
    assert (row_of(owner, id).status, row_of(owner, id).polls) == ("delivered", 3)


def test_never_accepted_changes_nothing_of_what_was_submitted(
    owner: psycopg.Connection, database: Database, asked: Asked
) -> None:
    id = add_submitted(owner, database)
    before = without_looking(row_of(owner, id))
    report = reconcile(database)
    assert (report.asked, report.answered, report.never_accepted) == (1, 0, 0)
    assert asked.targets == [f"/gateway/{id}"]
    assert without_looking(row_of(owner, id)) == before


def test_never_accepted_lets_an_uncertain_row_be_due_again_without_a_doubt(
    owner: psycopg.Connection, login: Login, database: Database, asked: Asked
) -> None:
    ids = add_uncertain(owner, login, 3)
    report = reconcile(database)
    assert (report.asked, report.never_accepted, report.retried) == (3, 3, 0)
    for id in ids:
        row = row_of(owner, id)
        assert (row.status, row.in_doubt, row.ready) == ("pending", 0, True)
        assert (row.attempt_id, row.decide_at) == (None, None)
        last = moves_of(owner, id)[-1]
        assert last == ("reconcile", "uncertain", "pending", "never_accepted")
    outcomes = owner.execute("SELECT DISTINCT outcome, settled FROM attempts").fetchall()
    assert outcomes == [("transient", "never_accepted")]
    assert sorted(asked.targets) == sorted(f"/gateway/{id}" for id in ids)


def test_never_accepted_is_not_believed_within_the_grace(
    owner: psycopg.Connection, login: Login, database: Database, asked: Asked
) -> None:
    """It may still be on its way to the provider."""
    (id,) = add_uncertain(owner, login)
    owner.execute("UPDATE notifications SET decide_at = clock_timestamp() + interval '1 minute'")
    before = without_looking(row_of(owner, id))
    report = reconcile(database)
    assert (report.asked, report.never_accepted) == (1, 0)
    assert without_looking(row_of(owner, id)) == before
    row = row_of(owner, id)
    assert row.next_check_at <= row.decide_at


def _drip(wire: Wire) -> None:
    wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
    while True:
        time.sleep(0.05)
        wire.send(b" ")


def _close(wire: Wire) -> None:
    raise Gone


def _reset(wire: Wire) -> None:
    wire.reset()
    raise Gone


def _cut(wire: Wire) -> None:
    wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + b'{"status":"delivered"}')
    raise Gone


USELESS: Mapping[str, Script] = {
    "empty": saying(200),
    "no JSON": saying(200, b"<html>"),
    "no UTF-8": saying(200, b'{"status":"\xff"}'),
    "no object": saying(200, b'["delivered"]'),
    "null": saying(200, b"null"),
    "no status": saying(200, b'{"message_id":"m-1"}'),
    "empty status": saying(200, b'{"status":""}'),
    "a number": saying(200, b'{"status":3}'),
    "an endless status": saying(200, b'{"status":"%s"}' % (b"d" * 513)),
    "a status twice": saying(200, b'{"status":"accepted","status":"delivered"}'),
    "an id that is none": saying(200, b'{"status":"delivered","message_id":7}'),
    "an unstorable status": saying(200, b'{"status":"deliv\\u0000ered"}'),
    "NaN": saying(200, b'{"status":"delivered","x":NaN}'),
    "nested": saying(200, b'{"status":' + b"[" * 20_000),
    "oversized": saying(200, b'{"status":"delivered"}' + b" " * MAX_RESPONSE_BYTES),
    "cut": _cut,
    "closed": _close,
    "reset": _reset,
    "silence": lambda wire: wire.wait_until_gone(),
    "dripping": _drip,
    "another 2xx": saying(202, b'{"status":"delivered"}'),
    "elsewhere": saying(302, b'{"status":"delivered"}', Location="/gateway/other"),
    "our request": saying(400, b'{"status":"delivered"}'),
    "our credentials": saying(401, b'{"status":"delivered"}'),
    "gone": saying(410, b'{"status":"delivered"}'),
    "too fast": saying(429, b'{"status":"delivered"}'),
    "broken": saying(500, b'{"status":"delivered"}'),
    "away": saying(503, b'{"status":"delivered"}'),
}


def test_what_is_no_answer_changes_nothing(
    owner: psycopg.Connection,
    login: Login,
    database: Database,
    asked: Asked,
    subtests: pytest.Subtests,
) -> None:
    ids = dict(zip(USELESS, add_uncertain(owner, login, len(USELESS)), strict=True))
    for case, id in ids.items():
        asked.scripts[str(id)] = USELESS[case]
    before = {case: without_looking(row_of(owner, id)) for case, id in ids.items()}
    report = reconcile(database)
    assert report.asked == len(USELESS)
    assert (report.answered, report.never_accepted, report.retried, report.held) == (0, 0, 0, 0)
    for case, id in ids.items():
        with subtests.test(case):
            assert without_looking(row_of(owner, id)) == before[case]
            assert row_of(owner, id).polls == 1
    assert owner.execute("SELECT count(*) FROM receipts").fetchone() == (0,)
    assert len(asked.targets) == len(USELESS), "each was asked about once, and nothing followed"


@pytest.mark.parametrize("url", [None, "", "ftp://gateway.example/", "not a url"])
def test_without_a_gateway_nobody_is_asked(
    owner: psycopg.Connection, login: Login, database: Database, asked: Asked, url: str | None
) -> None:
    (id,) = add_uncertain(owner, login)
    owner.execute("UPDATE channels SET provider_url = %s", [url])
    before = without_looking(row_of(owner, id))
    assert reconcile(database).answered == 0
    assert without_looking(row_of(owner, id)) == before
    assert asked.targets == []


@pytest.mark.parametrize("place", ["http://127.0.0.1:{}/gateway", "https://{}.invalid/gateway"])
def test_a_gateway_that_is_not_there_changes_nothing(
    owner: psycopg.Connection, login: Login, database: Database, asked: Asked, place: str
) -> None:
    (id,) = add_uncertain(owner, login)
    owner.execute("UPDATE channels SET provider_url = %s", [place.format(free_port())])
    before = without_looking(row_of(owner, id))
    report = reconcile(database)
    assert (report.asked, report.answered, report.never_accepted) == (1, 0, 0)
    assert without_looking(row_of(owner, id)) == before


def test_a_gateway_that_never_answers_is_asked_twelve_times_and_then_its_key_decides(
    owner: psycopg.Connection, login: Login, database: Database, asked: Asked
) -> None:
    (id,) = add_uncertain(owner, login)
    asked.scripts[str(id)] = saying(503)
    for count in range(1, 13):
        make_due(owner)
        assert reconcile(database).asked == 1
        assert (row_of(owner, id).status, row_of(owner, id).polls) == ("uncertain", count)
    make_due(owner)
    report = reconcile(database)
    assert (report.asked, report.retried) == (0, 1)
    row = row_of(owner, id)
    assert (row.status, row.in_doubt, row.polls) == ("pending", 1, 12)
    assert len(asked.targets) == 12


def test_without_the_time_to_ask_the_key_decides_at_once(
    owner: psycopg.Connection, login: Login, database: Database, asked: Asked
) -> None:
    (id,) = add_uncertain(owner, login)
    report = reconcile(database, seconds=1)
    assert (report.asked, report.retried) == (0, 1)
    assert (row_of(owner, id).status, row_of(owner, id).in_doubt) == ("pending", 1)
    assert asked.targets == []


@pytest.mark.parametrize("provider", ["http_keyless", "webhook"])
def test_a_provider_that_cannot_be_asked_is_not(
    owner: psycopg.Connection, database: Database, asked: Asked, provider: str
) -> None:
    id = add_submitted(owner, database)
    owner.execute("UPDATE channels SET provider = %s", [provider])
    owner.execute("UPDATE notifications SET provider = %s", [provider])
    report = reconcile(database)
    assert (report.checked, report.asked) == (1, 0)
    assert (row_of(owner, id).polls, asked.targets) == (0, [])


def test_one_of_a_former_provider_is_not_asked_about_at_the_present_one(
    owner: psycopg.Connection, database: Database, asked: Asked
) -> None:
    add_submitted(owner, database)
    owner.execute("UPDATE notifications SET provider = 'http_keyless'")
    assert reconcile(database).asked == 0
    assert asked.targets == []


def test_a_channel_that_may_not_poll_does_not(
    owner: psycopg.Connection, database: Database, asked: Asked
) -> None:
    add_submitted(owner, database)
    owner.execute("UPDATE channels SET poll_rate = 0")
    report = reconcile(database)
    assert (report.checked, report.asked) == (1, 0)
    assert asked.targets == []


def test_the_reconcile_function_asks_and_counts(
    owner: psycopg.Connection, login: Login, database: Database, asked: Asked, tmp_path: Path
) -> None:
    id = add_submitted(owner, database)
    asked.scripts[str(id)] = telling("delivered")
    secret = GATEWAY_SECRET.removeprefix("whsec_")
    with secrets_manager({GATEWAY_ARN: {"current": secret, "token": "t-1"}}) as manager:
        environment = environment_of(login, **manager.environment, GATEWAY_SECRET_ARN=GATEWAY_ARN)
        with function("reconcile", environment, tmp_path) as process:
            answer = process.invoke({}, seconds=SECONDS)
            assert (answer["asked"], answer["answered"], answer["missed"]) == (1, 1, 0)
            assert (process.metrics["LookedUp"], process.metrics["LookUpAnswered"]) == (1, 1)
    assert row_of(owner, id).status == "delivered"
    assert asked.server is not None
    (request,) = asked.server.requests
    assert request.headers["authorization"] == "Bearer t-1"


def test_a_look_at_what_was_decided_meanwhile_asks_nobody(
    owner: psycopg.Connection, database: Database, asked: Asked
) -> None:
    """The cutoff has come: the answer would decide nothing that a report could not decide later."""
    id = add_submitted(owner, database)
    owner.execute("UPDATE notifications SET submitted_at = submitted_at - %s", [timedelta(days=30)])
    report = reconcile(database)
    assert (report.asked, report.unconfirmed) == (0, 1)
    assert row_of(owner, id).status == "unconfirmed"
    assert asked.targets == []
