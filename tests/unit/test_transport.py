"""One request: by its deadline, once on the wire, and "not sent" only when no byte has left."""

import socket
import ssl
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from functions.providers.dial import Address
from functions.providers.transport import MAX_RESPONSE_BYTES, Lost, Response, Transport
from tests.certificate import trusted_server_context
from tests.conftest import free_port
from tests.wire import (
    HOST,
    Script,
    Wire,
    answering,
    dripping,
    full_port,
    hanging_up,
    peer,
    resetting,
    sending,
    silent,
)

SLACK_SECONDS = 30.0
"""What a loaded machine may add to a deadline."""

PATIENCE_SECONDS = (0.4, 2.0, 10.0)
"""How long a call may take that must be under way when its deadline comes."""


def call(
    url: str,
    *,
    transport: Transport | None = None,
    seconds: float = 5.0,
    body: bytes = b'{"a":1}',
) -> Response | Lost:
    """Make one call; whatever comes of it, it ends by its deadline."""
    started = time.monotonic()
    answer = (transport or Transport()).request(
        "POST", url, headers={"X-Test": "yes"}, body=body, deadline=started + seconds
    )
    assert time.monotonic() - started < seconds + SLACK_SECONDS
    return answer


def cut_off(script: Script, *, scheme: str = "http", wants: type = object) -> Response | Lost:
    """Return what a call is told that its deadline cuts off once the request has arrived.

    Where the machine is too busy for that, the deadline is set later.
    """
    for seconds in PATIENCE_SECONDS:
        with peer(script) as server:
            answer = call(f"{scheme}://{HOST}:{server.port}/", seconds=seconds)
            assert len(server.requests) <= 1
            if server.requests and isinstance(answer, wants):
                return answer
    raise AssertionError("the request never arrived in time")


def test_a_request_arrives_as_it_was_prepared_and_its_answer_comes_back() -> None:
    with peer(answering(201, b'{"ok":true}', {"X-Answer": "1"})) as server:
        answer = call(f"{server.url}/a/b?c=d")
        assert isinstance(answer, Response)
        assert (answer.status, answer.body, answer.complete) == (201, b'{"ok":true}', True)
        assert answer.headers["x-answer"] == "1"
        (request,) = server.requests
    assert (request.method, request.target, request.body) == ("POST", "/a/b?c=d", b'{"a":1}')
    assert request.headers["x-test"] == "yes"
    assert request.headers["user-agent"] == "sendoff"


def test_connections_are_kept_and_used_again() -> None:
    transport = Transport()
    with peer(answering()) as server:
        for _ in range(3):
            assert isinstance(call(server.url, transport=transport), Response)
        assert len(server.requests) == 3
        assert server.connections == 1


def test_a_kept_connection_that_the_peer_closed_meanwhile_is_replaced() -> None:
    def once(wire: Wire) -> None:
        wire.read_request()
        wire.answer()

    transport = Transport()
    with peer(once) as server:
        assert isinstance(call(server.url, transport=transport), Response)
        server.open[0].close()
        assert isinstance(call(server.url, transport=transport), Response)
        assert (len(server.requests), server.connections) == (2, 2)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(dripping(b"HTTP/1.1 200 OK\r\nX-Long: ", b"a"), id="a header"),
        pytest.param(dripping(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"), id="headers"),
        pytest.param(dripping(b"", b"H"), id="a status line"),
    ],
)
def test_a_peer_that_never_finishes_its_headers_is_left_at_the_deadline(script: Script) -> None:
    answer = cut_off(script)
    if isinstance(answer, Lost):
        assert (answer.begun, answer.code) == (True, "timeout")
    else:
        assert not answer.complete


@pytest.mark.parametrize(
    "headers", [b"Content-Length: 50000\r\n", b"", b"Transfer-Encoding: chunked\r\n"]
)
def test_a_peer_that_never_finishes_its_body_is_left_at_the_deadline(headers: bytes) -> None:
    drop = b"1\r\na\r\n" if b"chunked" in headers else b"a"
    answer = cut_off(dripping(b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n", drop), wants=Response)
    assert isinstance(answer, Response)
    assert (answer.status, answer.complete) == (200, False)


def test_a_peer_that_does_not_read_is_left_at_the_deadline() -> None:
    done = threading.Event()

    def deaf(wire: Wire) -> None:
        done.wait(60.0)

    with peer(deaf) as server:
        answer = call(server.url, seconds=1.0, body=b"a" * 20_000_000)
        done.set()
    assert isinstance(answer, Lost)
    assert answer.code == "timeout"


def test_an_answer_of_exactly_the_cap_is_whole_and_one_byte_more_is_not() -> None:
    for size, complete in ((MAX_RESPONSE_BYTES, True), (MAX_RESPONSE_BYTES + 1, False)):
        with peer(answering(body=b"a" * size)) as server:
            answer = call(server.url)
        assert isinstance(answer, Response)
        assert answer.complete is complete
        assert len(answer.body) == MAX_RESPONSE_BYTES


def test_an_endless_answer_is_read_to_the_cap_only() -> None:
    def endless(wire: Wire) -> None:
        wire.read_request()
        wire.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            wire.send(b"a" * 65536)

    with peer(endless) as server:
        answer = call(server.url)
    assert isinstance(answer, Response)
    assert (answer.complete, len(answer.body)) == (False, MAX_RESPONSE_BYTES)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_answer_and_is_not_followed(status: int) -> None:
    with peer(answering()) as elsewhere:
        with peer(answering(status, b"", {"Location": elsewhere.url})) as server:
            answer = call(server.url)
            assert isinstance(answer, Response)
            assert answer.status == status
            assert len(server.requests) == 1
        assert elsewhere.connections == 0


CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"
CUT_CHUNK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nonly this"
NO_LAST_CHUNK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param(resetting, "connection_lost", id="reset"),
        pytest.param(hanging_up, "connection_lost", id="close"),
        pytest.param(sending(b"HTTP/1.1 20"), "connection_lost", id="cut status line"),
        pytest.param(sending(b"SSH-2.0-x\r\n\r\n"), "connection_lost", id="not HTTP"),
        pytest.param(
            sending(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 200), "connection_lost", id="headers"
        ),
        pytest.param(answering(103, b""), "interim_answer", id="interim"),
    ],
)
def test_no_answer_after_the_request_was_written_is_unknown_and_sent_once(
    script: Script, code: str
) -> None:
    with peer(script) as server:
        answer = call(server.url)
        assert isinstance(answer, Lost)
        assert (answer.begun, answer.code) == (True, code)
        assert len(server.requests) == 1


def test_a_read_timeout_is_unknown_and_sent_once() -> None:
    answer = cut_off(silent)
    assert isinstance(answer, Lost)
    assert (answer.begun, answer.code) == (True, "timeout")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(sending(CUT), id="cut"),
        pytest.param(sending(CUT, then=Wire.reset), id="cut by reset"),
        pytest.param(sending(CUT_CHUNK), id="cut chunk"),
        pytest.param(sending(NO_LAST_CHUNK), id="no last chunk"),
    ],
)
def test_a_truncated_body_is_not_complete_and_sent_once(script: Script) -> None:
    with peer(script) as server:
        answer = call(server.url)
        assert isinstance(answer, Response)
        assert (answer.status, answer.complete) == (200, False)
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [408, 413, 429, 500, 502, 503, 504])
def test_an_answer_that_asks_for_a_retry_is_only_told(status: int) -> None:
    with peer(answering(status, headers={"Retry-After": "0"})) as server:
        answer = call(server.url)
        assert isinstance(answer, Response)
        assert answer.status == status
        assert len(server.requests) == 1


def test_a_broken_answer_is_never_the_answer_of_the_next_request() -> None:
    def late(wire: Wire) -> None:
        wire.read_request()
        wire.answer(103, b"")
        wire.answer(200, b"of the first request")
        wire.wait_until_gone()

    transport = Transport()
    with peer(late) as server:
        call(server.url, transport=transport)
        server.script = answering(200, b"of the second request")
        answer = call(server.url, transport=transport)
        assert isinstance(answer, Response)
        assert answer.body == b"of the second request"
        assert server.connections == 2


def test_nothing_is_sent_when_the_deadline_has_passed() -> None:
    with peer(answering()) as server:
        answer = Transport().request(
            "POST", server.url, headers={}, body=b"", deadline=time.monotonic()
        )
        assert isinstance(answer, Lost)
        assert (answer.begun, answer.code) == (False, "deadline")
        assert server.connections == 0


def test_a_refused_connection_is_not_begun() -> None:
    answer = call(f"http://{HOST}:{free_port()}")
    assert isinstance(answer, Lost)
    assert (answer.begun, answer.code) == (False, "connection_refused")


def test_a_name_without_address_is_not_begun() -> None:
    def no_such_name(host: str, port: int) -> Sequence[Address]:
        raise socket.gaierror(socket.EAI_NONAME, f"{host}:{port}")

    def no_address(host: str, port: int) -> Sequence[Address]:
        return []

    for resolve in (no_such_name, no_address):
        answer = call("http://gone.example/hook", transport=Transport(resolve=resolve))
        assert isinstance(answer, Lost)
        assert (answer.begun, answer.code) == (False, "name_resolution")
        assert "gone.example" not in answer.detail


def test_a_name_server_that_never_answers_costs_no_more_than_the_deadline() -> None:
    end_of_test = threading.Event()

    def never(host: str, port: int) -> Sequence[Address]:
        end_of_test.wait(30)
        return []

    answer = call("http://slow.example/", transport=Transport(resolve=never), seconds=0.3)
    end_of_test.set()
    assert isinstance(answer, Lost)
    assert (answer.begun, answer.code) == (False, "timeout")


def test_many_dead_addresses_cost_no_more_than_the_deadline() -> None:
    with full_port() as dead:

        def resolve(host: str, port: int) -> Sequence[Address]:
            return socket.getaddrinfo(HOST, dead, type=socket.SOCK_STREAM) * 50

        answer = call("http://dead.example/", transport=Transport(resolve=resolve), seconds=0.4)
    assert isinstance(answer, Lost)
    assert (answer.begun, answer.code) == (False, "timeout")


def test_the_next_address_is_tried_when_one_refuses() -> None:
    with peer(answering()) as server:

        def resolve(host: str, port: int) -> Sequence[Address]:
            addresses: list[Address] = []
            for candidate in (free_port(), server.port):
                addresses += socket.getaddrinfo(HOST, candidate, type=socket.SOCK_STREAM)
            return addresses

        answer = call("http://two.example/", transport=Transport(resolve=resolve))
    assert isinstance(answer, Response)


@pytest.mark.parametrize("url", ["http://[::1", "http://a..b/", "ftp://a.example/", "http://"])
def test_a_url_that_cannot_be_called_is_not_begun(url: str) -> None:
    answer = call(url)
    assert isinstance(answer, Lost)
    assert not answer.begun


def test_a_server_that_does_not_speak_tls_is_not_begun() -> None:
    def plain(wire: Wire) -> None:
        wire.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with peer(plain) as server:
        answer = call(f"https://{HOST}:{server.port}/")
        assert isinstance(answer, Lost)
        assert (answer.begun, answer.code) == (False, "tls")
        assert server.requests == []


def test_a_tls_handshake_that_never_ends_is_not_begun() -> None:
    with peer(Wire.wait_until_gone) as server:
        answer = call(f"https://{HOST}:{server.port}/", seconds=0.4)
    assert isinstance(answer, Lost)
    assert (answer.begun, answer.code) == (False, "timeout")


def over_tls(script: Script, context: ssl.SSLContext) -> Script:
    def wrapped(wire: Wire) -> None:
        with context.wrap_socket(wire.connected, server_side=True) as encrypted:
            wire.peer.open.append(encrypted)
            script(Wire(encrypted, wire.peer))

    return wrapped


def test_a_certificate_that_nobody_vouches_for_is_not_begun(tmp_path: Path) -> None:
    context, _ = trusted_server_context(tmp_path, HOST)
    with peer(over_tls(answering(), context)) as server:
        answer = call(f"https://{HOST}:{server.port}/")
        assert isinstance(answer, Lost)
        assert (answer.begun, answer.code) == (False, "tls")
        assert server.requests == []


def test_https_works_is_reused_and_keeps_its_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, authority = trusted_server_context(tmp_path, HOST)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    transport = Transport()
    with peer(over_tls(answering(body=b"by TLS"), context)) as server:
        url = f"https://{HOST}:{server.port}/"
        for _ in range(2):
            answer = call(url, transport=transport)
            assert isinstance(answer, Response)
            assert (answer.body, answer.complete) == (b"by TLS", True)
        assert (len(server.requests), server.connections) == (2, 1)
    for first in (b"", b"HTTP/1.1 200 OK\r\nX-A: ", b"HTTP/1.1 200 OK\r\n\r\n"):
        answer = cut_off(over_tls(dripping(first, b"a"), context), scheme="https")
        if isinstance(answer, Lost):
            assert (first, answer.begun, answer.code) == (b"", True, "timeout")
        else:
            assert not answer.complete


def test_many_threads_get_each_its_own_answer() -> None:
    def echo(wire: Wire) -> None:
        while True:
            wire.answer(200, wire.read_request().body)

    transport = Transport(connections=8)

    def round_trip(number: int) -> bool:
        body = b"%d" % number
        answer = transport.request(
            "POST", server.url, headers={}, body=body, deadline=time.monotonic() + 10
        )
        return isinstance(answer, Response) and answer.body == body

    with peer(echo) as server, ThreadPoolExecutor(16) as threads:
        assert all(threads.map(round_trip, range(400)))
        assert len(server.requests) == 400


def test_one_call_cut_at_its_deadline_disturbs_no_other() -> None:
    def moody(wire: Wire) -> None:
        while True:
            request = wire.read_request()
            if request.body == b"slow":
                wire.wait_until_gone()
            else:
                wire.answer(200, request.body)

    transport = Transport(connections=4)

    def one(number: int) -> Response | Lost:
        slow = number % 4 == 0
        return transport.request(
            "POST",
            server.url,
            headers={},
            body=b"slow" if slow else b"%d" % number,
            deadline=time.monotonic() + (0.1 if slow else 10),
        )

    with peer(moody) as server, ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(one, range(80)))
    for number, answer in enumerate(answers):
        if number % 4:
            assert isinstance(answer, Response)
            assert answer.body == b"%d" % number
        else:
            assert isinstance(answer, Lost)
            assert answer.begun
