"""The ``webhook`` provider by the shared suite: every row of PROVIDERS §1.5."""

import dataclasses
import socket
from collections.abc import Callable, Sequence

import psycopg
import pytest

from functions.core.outcome import OutcomeName, Refused
from functions.providers.dial import Address
from functions.providers.transport import MAX_RESPONSE_BYTES, Transport
from functions.providers.webhook import WebhookProvider
from functions.store.connection import Database
from tests.conformance import (
    CLOSE,
    EMPTY,
    HANG,
    HTML,
    RESET,
    Row,
    Subject,
    conform,
    cut,
    respond,
)
from tests.conftest import free_port
from tests.webhooks import address_of, provider_at
from tests.wire import HOST, Script, Wire, answering, dripping, sending

SUBJECT = Subject(
    channel="webhook",
    make=provider_at,
    recipient=lambda url: f"{url}/hooks/ok",
    content={"order": 7},
)


def accepted(name: str, play: Script, *, status: int = 200, lasts: bool = False) -> Row:
    return Row(
        name=name,
        play=play,
        outcome=OutcomeName.ACCEPTED,
        code=None,
        status="delivered",
        http_status=status,
        lasts=lasts,
    )


def rejected(status: int) -> Row:
    return Row(
        name=f"{status}",
        play=respond(status, Location="http://169.254.169.254/"),
        outcome=OutcomeName.REJECTED,
        code=str(status),
        status="dead",
        http_status=status,
    )


def transient(status: int, *, asked_seconds: int = 0, unforeseen: bool = False) -> Row:
    asking = respond(status, Retry_After=str(asked_seconds))
    return Row(
        name=f"{status} after {asked_seconds} s" if asked_seconds else f"{status}",
        play=asking if asked_seconds else respond(status),
        outcome=OutcomeName.TRANSIENT,
        code=str(status),
        status="pending",
        http_status=status,
        wait_seconds=asked_seconds,
        unforeseen=unforeseen,
    )


def throttled(name: str, play: Script, *, asked_seconds: float = 0.0) -> Row:
    return Row(
        name=f"429 {name}",
        play=play,
        outcome=OutcomeName.THROTTLED,
        code="429",
        status="pending",
        scope="endpoint",
        http_status=429,
        wait_seconds=asked_seconds,
    )


def unknown(name: str, play: Script, *, code: str, lasts: bool = False) -> Row:
    """Uncertain, and safe to try again under the same id: pending, in doubt."""
    return Row(
        name=name,
        play=play,
        outcome=OutcomeName.UNKNOWN,
        code=code,
        status="pending",
        lasts=lasts,
    )


NO_END = b"HTTP/1.1 200 OK\r\n\r\n"

ROWS = [
    # 2xx: acknowledged, whatever comes after the status
    *(accepted(f"{status}", respond(status), status=status) for status in (200, 201, 202, 204)),
    accepted("299", respond(299, {"a": 1}), status=299),
    accepted("200 empty", EMPTY),
    accepted("200 of HTML", HTML),
    accepted("200 cut off", cut(b'{"ok"')),
    accepted("200 longer than is read", respond(200, b"x" * (MAX_RESPONSE_BYTES + 1))),
    accepted("200 without an end", dripping(NO_END, b"x"), lasts=True),
    # 3xx: never followed; other 4xx: permanent
    *(rejected(status) for status in (300, 301, 302, 303, 304, 307, 308)),
    *(rejected(status) for status in (400, 401, 403, 404, 405, 413, 415, 422)),
    *(rejected(status) for status in (402, 406, 407, 411, 414, 418, 421, 426, 431, 451, 499)),
    Row(
        name="410",
        play=respond(410, b"unsubscribe me"),
        outcome=OutcomeName.REFUSED,
        code="410",
        status="suppressed",
        scope="endpoint",
        http_status=410,
    ),
    *(transient(status) for status in (408, 409, 425)),
    *(transient(status) for status in (500, 501, 502, 503, 504, 505, 507, 520, 599)),
    transient(503, asked_seconds=600),
    transient(409, asked_seconds=300),
    *(transient(status, unforeseen=True) for status in (600, 999)),
    throttled("bare", respond(429)),
    throttled("in seconds", respond(429, Retry_After="600"), asked_seconds=600),
    throttled(
        "by a date",
        respond(
            429,
            Date="Fri, 02 Jan 2026 03:04:05 GMT",
            Retry_After="Fri, 02 Jan 2026 03:14:05 GMT",
        ),
        asked_seconds=600,
    ),
    throttled("in nonsense", respond(429, Retry_After="soon")),
    throttled("for a year", respond(429, Retry_After="31536000"), asked_seconds=3600),
    # No usable answer
    unknown("read timeout", HANG, code="timeout", lasts=True),
    unknown("reset after write", RESET, code="connection_lost"),
    unknown("closed after write", CLOSE, code="connection_lost"),
    unknown("a cut status line", sending(b"HTTP/1.1 20"), code="connection_lost"),
    unknown("not HTTP", sending(b"SSH-2.0-x\r\n\r\n"), code="connection_lost"),
    unknown("an interim answer", answering(103, b""), code="interim_answer"),
]


NAME = "hook.example"


def nothing(wire: Wire) -> None:
    """Take no request: close, or answer in plain text where TLS is spoken."""
    wire.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def unresolved(url: str) -> WebhookProvider:
    """The provider where the server's name has no address."""

    def resolve(host: str, port: int) -> Sequence[Address]:
        raise socket.gaierror(socket.EAI_NONAME, f"{host}:{port}")

    return provider_at(named(url), transport=Transport(resolve=resolve))


def refusing(url: str) -> WebhookProvider:
    """The provider where nobody listens at the server's name."""

    def resolve(host: str, port: int) -> Sequence[Address]:
        del host, port
        return [address_of(HOST, free_port())]

    return provider_at(named(url), transport=Transport(resolve=resolve))


def named(url: str) -> str:
    return url.replace(HOST, NAME)


def encrypted(url: str) -> str:
    return url.replace("http:", "https:")


def forbidding(url: str) -> WebhookProvider:
    """The provider where the server is nothing of its own."""
    del url
    return provider_at()


def without_secret(url: str) -> WebhookProvider:
    return WebhookProvider(transport=Transport(), secrets=lambda _: (), local_origin=url)


def unsent(name: str, outcome: OutcomeName, code: str, *, status: str, scope: str | None) -> Row:
    return Row(
        name=name,
        play=nothing,
        outcome=outcome,
        code=code,
        status=status,
        scope=scope,
        requests=0,
    )


def not_sent(name: str) -> Row:
    return unsent(name, OutcomeName.TRANSIENT, name, status="pending", scope=None)


FORBIDDEN_ADDRESS = unsent(
    "forbidden address", OutcomeName.REJECTED, "forbidden_address", status="dead", scope=None
)
FORBIDDEN_PORT = unsent(
    "forbidden port", OutcomeName.REJECTED, "forbidden_port", status="dead", scope=None
)
NO_SECRET = unsent(
    "no secret", OutcomeName.BLOCKED, "no_signing_secret", status="pending", scope="provider"
)

# Nothing was written: the row, how the provider is made, and the recipient by the server's URL.
UNSENT: list[tuple[Row, Callable[[str], WebhookProvider], Callable[[str], str]]] = [
    (not_sent("name_resolution"), unresolved, lambda url: f"{named(url)}/a"),
    (not_sent("connection_refused"), refusing, lambda url: f"{named(url)}/a"),
    (not_sent("tls"), lambda url: provider_at(encrypted(url)), lambda url: f"{encrypted(url)}/a"),
    (FORBIDDEN_ADDRESS, forbidding, lambda url: f"{encrypted(url)}/a"),
    (FORBIDDEN_PORT, forbidding, lambda _: f"https://{NAME}:25/"),
    (NO_SECRET, without_secret, lambda url: url),
]


@pytest.mark.parametrize(
    ("row", "make", "recipient"), UNSENT, ids=[row.name for row, _, _ in UNSENT]
)
def test_what_was_never_written_is_known_not_to_be_sent(
    row: Row,
    make: Callable[[str], WebhookProvider],
    recipient: Callable[[str], str],
    owner: psycopg.Connection,
    database: Database,
) -> None:
    subject = dataclasses.replace(SUBJECT, make=make, recipient=recipient)
    conform(row, subject, owner=owner, database=database)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_row_comes_to_what_the_table_says(
    row: Row, owner: psycopg.Connection, database: Database
) -> None:
    played = conform(row, SUBJECT, owner=owner, database=database)
    for request in played.requests:
        assert request.headers["webhook-id"] == str(played.notification.id)
        assert request.headers["webhook-signature"].startswith("v1,")
    if isinstance(played.outcome, Refused):
        ((reason, source, _),) = played.facts
        assert (reason, source) == ("invalid", "webhook:410")
    assert (played.notification.status == "delivered") == (row.outcome == OutcomeName.ACCEPTED)
