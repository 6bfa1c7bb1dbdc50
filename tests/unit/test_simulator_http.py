"""The simulator as an HTTP server: routes, page, connections."""

import socket
from collections.abc import Generator
from urllib.parse import urlsplit

import pytest
import urllib3

from tests.simulated import (
    CallbackApi,
    Client,
    callback_api,
    simulator,
)

NO_ANSWER = (urllib3.exceptions.ReadTimeoutError, urllib3.exceptions.ProtocolError)


@pytest.fixture
def api() -> Generator[CallbackApi]:
    with callback_api() as api:
        yield api


@pytest.fixture
def client(api: CallbackApi) -> Generator[Client]:
    with simulator(callback_url=api.url) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("POST", "/", 405),
        ("PUT", "/ledger", 405),
        ("GET", "/gateway", 405),
        ("POST", "/gateway/k", 405),
        ("GET", "/health", 200),
        ("HEAD", "/", 200),
    ],
)
def test_other_routes_are_answered_plainly(
    client: Client, method: str, path: str, status: int
) -> None:
    assert client.http.request(method, f"{client.url}{path}").status == status


def test_the_page_is_one_document_that_loads_nothing_from_elsewhere(client: Client) -> None:
    answer = client.http.request("GET", client.url)
    page = answer.data.decode()
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert '<html lang="en">' in page
    assert "src=" not in page
    assert "https://" not in page


def test_the_activity_shows_counts_and_the_newest_first(client: Client) -> None:
    client.send("ok+1@example.com", key="k-1")
    client.send("reject@example.com", key="k-2")
    seen = client.call("GET", "/activity")
    assert seen["counts"] == [
        {"channel": "email", "behaviour": "ok", "requests": 1, "effects": 1},
        {"channel": "email", "behaviour": "reject", "requests": 1, "effects": 0},
    ]
    assert [request["idempotency_key"] for request in seen["requests"]] == ["k-2", "k-1"]
    assert seen["effects"][0]["excerpt"] == "Your receipt · Thank you."


def test_one_connection_serves_many_requests_even_sent_ahead(client: Client) -> None:
    parts = urlsplit(client.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=5) as raw:
        raw.sendall(b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n" * 3)
        received = b""
        while received.count(b'{"status":"ok"}') < 3:
            received += raw.recv(4096)
        raw.sendall(b"GET /health HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        while chunk := raw.recv(4096):
            received += chunk
    assert received.count(b"HTTP/1.1 200 OK") == 4


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"POST /gateway HTTP/1.1\r\nhost: a\r\ncontent-length: 20000000\r\n\r\n", b"413"),
    ],
)
def test_a_request_that_is_no_http_or_too_large_is_refused(
    client: Client, sent: bytes, status: bytes
) -> None:
    parts = urlsplit(client.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=5) as raw:
        raw.sendall(sent)
        assert raw.recv(4096).split()[1] == status
    assert client.http.request("GET", f"{client.url}/health").status == 200
