"""Callbacks that nobody should have sent: refused by the function, and nothing changes for them.

Malformed, replayed, stale, wrongly signed and oversized ones get 400, 401 or 413, never a 5xx;
nothing is written, and whatever address stands in them is not fetched.
"""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from functions.callbacks.receive import MAX_BODY_BYTES
from functions.core.login import Login
from functions.core.signature import key_of
from functions.store.connection import Database
from tests.fakes import row_of
from tests.function_process import (
    CALLBACK_ARN,
    HASH_ARN,
    FunctionProcess,
    callbacks_environment,
    function,
)
from tests.gateway import gateway
from tests.reports import HASH_KEY, PREVIOUS_SECRET, add_known, receive, report, signed_event
from tests.secrets_manager import secrets_manager
from tests.sending import records_of, sender
from tests.simulated import CALLBACK_SECRET
from tests.steps import lease
from tests.wire import Peer, answering, peer

STRANGER = "whsec_c3RyYW5nZXItc2VjcmV0LW9mLXRoZS10ZXN0cw=="
SECRETS: dict[str, Any] = {
    CALLBACK_ARN: {
        "current": CALLBACK_SECRET.removeprefix("whsec_"),
        "previous": PREVIOUS_SECRET.removeprefix("whsec_"),
    },
    HASH_ARN: {"current": HASH_KEY.decode()},
}
TABLES = ("notifications", "attempts", "receipts", "transitions", "suppressions")
CALLBACK_REFUSED = "CallbackRefused"

Event = dict[str, Any]
Change = Callable[[Event], None]


@contextmanager
def callbacks(login: Login, folder: Path) -> Generator[FunctionProcess]:
    with (
        secrets_manager(SECRETS) as manager,
        function("callbacks", callbacks_environment(login, manager), folder) as process,
    ):
        yield process


@pytest.fixture
def submitted(owner: psycopg.Connection, database: Database) -> UUID:
    """A notification that was accepted and is not confirmed."""
    (id,) = add_known(owner)
    with gateway() as served, sender(database, served.provider()) as one:
        one.deliver(records_of(lease(database)))
    assert row_of(owner, id).status == "submitted"
    return id


def state_of(owner: psycopg.Connection) -> dict[str, Any]:
    """Return everything that a callback could change."""
    return {
        table: owner.execute(
            sql.SQL("SELECT t::text FROM {} t ORDER BY 1").format(sql.Identifier(table))
        ).fetchall()
        for table in TABLES
    }


def about(id: UUID, **data: Any) -> dict[str, Any]:
    return report("delivered", idempotency_key=id, **data)


def header(name: str, value: str | None) -> Change:
    """Return what sets a header, or takes it away."""

    def change(event: Event) -> None:
        event["headers"].pop(f"webhook-{name}")
        if value is not None:
            event["headers"][f"webhook-{name}"] = value

    return change


def signature_of(event: Event, *, key: bytes, id: str | None = None) -> str:
    """Sign as nobody should: with any bytes as a key, for any id."""
    headers = event["headers"]
    content = f"{id or headers['webhook-id']}.{headers['webhook-timestamp']}.{event['body']}"
    return base64.b64encode(hmac.new(key, content.encode(), hashlib.sha256).digest()).decode()


def _as_text(event: Event) -> None:
    """Sign with the text of the secret instead of what it encodes."""
    event["headers"]["webhook-signature"] = "v1," + signature_of(
        event, key=CALLBACK_SECRET.encode()
    )


def _in_hexadecimal(event: Event) -> None:
    _, _, signature = event["headers"]["webhook-signature"].partition(",")
    event["headers"]["webhook-signature"] = "v1," + base64.b64decode(signature).hex()


def _of_another_version(event: Event) -> None:
    signature = event["headers"]["webhook-signature"]
    event["headers"]["webhook-signature"] = " ".join(
        signature.replace("v1,", version) for version in ("v1a,", "v2,", "", "V1,", "v1:", "v1")
    )


def _later(event: Event) -> None:
    headers = event["headers"]
    headers["webhook-timestamp"] = str(int(headers["webhook-timestamp"]) + 1)


def _written_anew(event: Event) -> None:
    """Another text of the same JSON."""
    event["body"] = json.dumps(json.loads(event["body"]), indent=1)


def _of_another_report(event: Event) -> None:
    event["body"] = event["body"].replace("delivered", "bounced")


def _without_headers(event: Event) -> None:
    event["headers"] = {}


def _with_no_headers_at_all(event: Event) -> None:
    event.pop("headers")


def _without_a_body(event: Event) -> None:
    event.pop("body")


def _claimed_to_be_base64(event: Event) -> None:
    event["isBase64Encoded"] = True


WRONGLY_SIGNED: Mapping[str, Change] = {
    "no signature": header("signature", None),
    "no id": header("id", None),
    "no timestamp": header("timestamp", None),
    "empty": header("signature", ""),
    "blank": header("signature", "   "),
    "a guess": header("signature", "v1,AAAA"),
    "no base64": header("signature", "v1,!!!"),
    "non-ASCII": header("signature", "v1,é" + "ü" * 42 + "="),
    "half a pair": header("signature", "v1,\ud800"),
    "a comma": header("signature", ","),
    "many": header("signature", " ".join(f"v1,{number}" for number in range(2_000))),
    "another id": header("id", "msg-another"),
    "an id of control characters": header("id", "msg\n1"),
    "an endless id": header("id", "m" * 257),
    "the secret's text": _as_text,
    "hexadecimal": _in_hexadecimal,
    "another version": _of_another_version,
    "another second": _later,
    "the same JSON": _written_anew,
    "another report": _of_another_report,
    "no headers": _without_headers,
    "no headers at all": _with_no_headers_at_all,
    "no body": _without_a_body,
}

NO_TIMESTAMPS = (
    "", " ", "soon", "NaN", "nan", "Infinity", "-Infinity", "-1", "+1", "1e9", "1.5", "0x10",
    "1_000", "1 000", "null", "٣٤٥", "１２３", "²", "1767225600000", "9" * 400,
    "1767225600,1767225600", "2026-01-01T00:00:00Z", "\ud800", "\u200b1",
)  # fmt: skip

MALFORMED = (
    b"", b"not json", b"{", b"null", b"7", b"[]", b"{}", b'{"data":[]}', b'{"data":{}}',
    b'{"data":{"status":"delivered"}}', b'{"data":{"status":7,"idempotency_key":"k"}}',
    b'{"data":{"status":"delivered","idempotency_key":"k","x":NaN}}',
    b'{"data":{"status":"delivered","idempotency_key":"k","x":1e999}}',
    b'{"data":{"status":"delivered","idempotency_key":"k","x":%s}}' % (b"9" * 5_000),
    b'{"data":{"status":"delivered","idempotency_key":"k","status":"bounced"}}',
    b'{"data":{"status":"deliv\\u0000ered","idempotency_key":"k"}}',
    b'{"data":{"status":"delivered","idempotency_key":"\\ud800"}}',
    b'{"data":{"status":"delivered","idempotency_key":"\xff"}}',
    b'\xef\xbb\xbf{"data":{"status":"delivered","idempotency_key":"k"}}',
    '{"data":{"status":"delivered","idempotency_key":"k"}}'.encode("utf-16"),
    b'{"data":{"status":"delivered","idempotency_key":"k"}} trailing',
    b'{"timestamp":"NaN","data":{"status":"delivered","idempotency_key":"k"}}',
    b'{"timestamp":1e308,"data":{"status":"delivered","idempotency_key":"k"}}',
    b'{"timestamp":"2026-01-01","data":{"status":"delivered","idempotency_key":"k"}}',
    b'{"data":' * 20_000,
    b"[" * 100_000,
)  # fmt: skip


def attacks(id: UUID) -> list[tuple[str, int, Event]]:
    """Return what is tried: its name, the answer it deserves, and the event."""
    tried: list[tuple[str, int, Event]] = []
    for name, change in WRONGLY_SIGNED.items():
        event = signed_event(about(id))
        change(event)
        tried.append((name, 401, event))
    tried.append(("a stranger", 401, signed_event(about(id), secrets=[STRANGER])))
    for age in (310, -310, 86_400, -86_400, 1_700_000_000):
        tried.append((f"{age} s old", 401, signed_event(about(id), age_seconds=age)))
    for stamp in NO_TIMESTAMPS:
        event = signed_event(about(id))
        event["headers"]["webhook-timestamp"] = stamp
        tried.append((f"the timestamp {stamp[:30]!a}", 400, event))
    for body in MALFORMED:
        event = signed_event(body, name="callbacks.base64")
        tried.append((f"the body {body[:60]!r}", 400, event))
    whole = json.dumps(about(id))
    large = whole + " " * (MAX_BODY_BYTES + 1 - len(whole))
    for name in ("callbacks.delivered", "callbacks.base64"):
        tried.append(("oversized", 413, signed_event(large, name=name)))
        unsigned = signed_event(large, name=name, secrets=[STRANGER])
        tried.append(("oversized and unsigned", 413, unsigned))
    event = signed_event(about(id))
    _claimed_to_be_base64(event)
    tried.append(("no base64, but said to be", 400, event))
    for parameters in ({"provider": "ses"}, {"provider": "../http"}, {}, None):
        event = signed_event(about(id))
        event["pathParameters"] = parameters
        tried.append((f"the provider {parameters}", 404, event))
    return tried


CODES = {400: "malformed_json", 401: "unauthenticated", 404: "not_found", 413: "too_large"}


def test_whatever_is_wrong_with_a_callback_is_refused_and_changes_nothing(
    owner: psycopg.Connection,
    login: Login,
    tmp_path: Path,
    submitted: UUID,
    subtests: pytest.Subtests,
) -> None:
    tried = attacks(submitted)
    before = state_of(owner)
    with callbacks(login, tmp_path) as process:
        for name, status, event in tried:
            with subtests.test(name):
                answer = process.invoke(event)
                assert answer["statusCode"] == status
                assert answer["headers"]["Content-Type"] == "application/problem+json"
                assert json.loads(answer["body"])["code"] == CODES[status]
        assert process.metrics == {CALLBACK_REFUSED: len(tried)}
        assert {line["level"] for line in process.lines} == {"INFO"}
        assert "Traceback" not in process.output
    assert state_of(owner) == before


def test_what_stands_in_a_callback_is_not_fetched(
    owner: psycopg.Connection, login: Login, tmp_path: Path, submitted: UUID
) -> None:
    def plant(server: Peer, secret: str) -> Event:
        body = about(
            submitted,
            recipient=server.url,
            message_id=server.url,
            event_id=server.url,
            reason=server.url,
            url=server.url,
            SigningCertURL=server.url,
            SubscribeURL=server.url,
        )
        body |= {"$schema": server.url, "SigningCertURL": server.url, "Type": "Notification"}
        event = signed_event(body, secrets=[secret])
        event["headers"] |= {
            "host": server.url.removeprefix("http://"),
            "webhook-url": server.url,
            "x-amz-sns-message-type": "SubscriptionConfirmation",
            "x-forwarded-host": server.url,
        }
        return event

    with peer(answering()) as server, callbacks(login, tmp_path) as process:
        for secret, status in ((STRANGER, 401), (CALLBACK_SECRET, 202)):
            assert process.invoke(plant(server, secret))["statusCode"] == status
        assert server.connections == 0
    # It names somebody else's address: a note.
    assert row_of(owner, submitted).status == "submitted"


def test_a_replayed_callback_is_taken_once(
    owner: psycopg.Connection, login: Login, tmp_path: Path, submitted: UUID
) -> None:
    event = signed_event(about(submitted))
    with callbacks(login, tmp_path) as process:
        assert process.invoke(event)["statusCode"] == 202
        after = state_of(owner)
        for _ in range(3):
            assert process.invoke(event)["statusCode"] == 202
        # The same report signed anew, as by a gateway that had no answer.
        again = signed_event(json.loads(event["body"]))
        assert process.invoke(again)["statusCode"] == 202
        # Under another id the signature is no longer right.
        event["headers"]["webhook-id"] = "msg-again"
        assert process.invoke(event)["statusCode"] == 401
        assert process.metrics["ReceiptStored"] == 1
    assert state_of(owner) == after
    assert row_of(owner, submitted).status == "delivered"


def test_an_old_report_replayed_after_a_stronger_one_moves_nothing(
    owner: psycopg.Connection, login: Login, tmp_path: Path, submitted: UUID
) -> None:
    old = signed_event(report("failed", idempotency_key=submitted))
    with callbacks(login, tmp_path) as process:
        for event in (old, signed_event(about(submitted)), old):
            assert process.invoke(event)["statusCode"] == 202
    assert row_of(owner, submitted).status == "delivered"


def test_of_several_signatures_the_second_may_be_the_right_one(
    owner: psycopg.Connection, login: Login, tmp_path: Path, submitted: UUID
) -> None:
    def before(first: str) -> Event:
        event = signed_event(about(submitted))
        headers = event["headers"]
        headers["webhook-signature"] = f"{first} {headers['webhook-signature']}"
        return event

    wrong = base64.b64encode(b"x" * 32).decode()
    with callbacks(login, tmp_path) as process:
        for first in (
            f"v1,{wrong}", f"v1a,{wrong}", f"v2,{wrong}", "v1,", "v1", ",", "v1,é", "\ud800",
            "v1,!!", f"v1,{wrong} v1,{wrong}", "   ",
        ):  # fmt: skip
            assert process.invoke(before(first))["statusCode"] == 202, first
        both = signed_event(about(submitted), secrets=[STRANGER, PREVIOUS_SECRET])
        assert process.invoke(both)["statusCode"] == 202
    assert row_of(owner, submitted).status == "delivered"


def test_an_id_beyond_ascii_is_verified_as_it_was_signed(database: Database) -> None:
    event = signed_event(report(idempotency_key="k"), webhook_id="msg-é-👍")
    assert receive(database, event).status == 202
    event["headers"]["webhook-id"] = "msg-e-👍"
    assert receive(database, event).status == 401


@pytest.mark.parametrize("text", ["é" * 512, "👍" * 512])
def test_the_longest_event_id_there_may_be_is_kept(
    owner: psycopg.Connection, database: Database, text: str
) -> None:
    event = signed_event(report(idempotency_key="k", event_id=text, message_id=text))
    assert receive(database, event).status == 202
    assert owner.execute("SELECT event_key FROM receipts").fetchall() == [(text,)]


SOME_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(
    ["event_id", "message_id", "idempotency_key", "recipient", "status", "permanent", "reason"]
)
DATA = st.dictionaries(NAMES | st.text(max_size=8), SOME_JSON, max_size=8)
REPORTS = st.fixed_dictionaries(
    {"data": DATA | SOME_JSON}, optional={"timestamp": SOME_JSON | st.datetimes().map(str)}
)
BODIES = st.binary(max_size=200) | (REPORTS | SOME_JSON).map(
    lambda value: json.dumps(value).encode("utf-8", "surrogatepass")
)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(body=BODIES)
def test_whatever_is_signed_is_taken_or_refused_and_never_an_error(
    database: Database, body: bytes
) -> None:
    answered = receive(database, signed_event(body, name="callbacks.base64"))
    assert answered.status in (202, 400), body


HEADER = st.text(max_size=40) | st.sampled_from(["v1,AAAA", "0", str(int(time.time()))])


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    headers=st.dictionaries(
        st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature", "Webhook-Id"]),
        HEADER,
    ),
    body=st.none() | st.text(max_size=40),
    encoded=st.none() | st.booleans(),
)
def test_whatever_its_headers_are_a_forgery_is_refused(
    database: Database, headers: dict[str, str], body: str | None, encoded: bool | None
) -> None:
    event = signed_event(report(idempotency_key="k"))
    event |= {"headers": headers, "body": body, "isBase64Encoded": encoded}
    assert receive(database, event).status in (400, 401)


def test_the_secret_itself_never_helps_a_forger(login: Login, tmp_path: Path) -> None:
    """A key that is empty, or ours without its encoding, signs nothing that we accept."""
    event = signed_event(report(idempotency_key="k"))
    with callbacks(login, tmp_path) as process:
        for key in (b"", b"whsec_", CALLBACK_SECRET.removeprefix("whsec_").encode()):
            forged = "v1," + signature_of(event, key=key)
            changed = {**event, "headers": event["headers"] | {"webhook-signature": forged}}
            assert process.invoke(changed)["statusCode"] == 401
        right = "v1," + signature_of(event, key=key_of(CALLBACK_SECRET))
        changed = {**event, "headers": event["headers"] | {"webhook-signature": right}}
        assert process.invoke(changed)["statusCode"] == 202
