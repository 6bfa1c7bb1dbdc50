"""What a gateway does to a call whose outcome nobody can know, and to one that surely never left.

``UNKNOWN`` are behaviours of a gateway, by what happens on the wire after the whole request was
read; each of them may have accepted it. ``NEVER_LEFT`` are places where no byte of it arrives.
"""

import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from functions.providers.dial import Address
from functions.providers.http import GatewayCredentials, HttpProvider
from functions.providers.keyless import KeylessProvider
from functions.providers.provider import Provider
from functions.providers.transport import MAX_RESPONSE_BYTES, Transport
from tests.conftest import free_port
from tests.gateway import GATEWAY_SECRET, Asked, Behaviour, Gateway
from tests.wire import Gone, Wire, full_port, peer

PROVIDERS = ("http", "http_keyless")


def provider_at(name: str, gateway: HttpProvider) -> Provider[Any]:
    """Return the provider ``name`` that calls the same gateway."""
    return gateway if name == "http" else KeylessProvider(gateway=gateway)


def provider_of(name: str, served: Gateway) -> Provider[Any]:
    return provider_at(name, served.provider())


def saying(*parts: bytes) -> Behaviour:
    """Send ``parts`` as they are and close."""

    def behave(wire: Wire, asked: Asked) -> None:
        del asked
        for part in parts:
            wire.send(part)
        raise Gone

    return behave


def answering(status: int, body: bytes) -> Behaviour:
    """Answer as a server should, but for what is in it."""

    def behave(wire: Wire, asked: Asked) -> None:
        del asked
        wire.answer(status, body)

    return behave


def resetting(wire: Wire, asked: Asked) -> None:
    del asked
    wire.reset()
    raise Gone


def silent(wire: Wire, asked: Asked) -> None:
    """Never answer."""
    del asked
    wire.wait_until_gone()


def dripping(first: bytes) -> Behaviour:
    """Begin to answer, and never come to the end."""

    def behave(wire: Wire, asked: Asked) -> None:
        del asked
        wire.send(first)
        pause = threading.Event()
        while not pause.wait(0.02):
            wire.send(b" ")

    return behave


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A behaviour, and what the ledger says of it."""

    behaviour: Behaviour
    code: str
    http_status: int | None = None
    hangs: bool = False
    """A deadline ends it; how far it had come by then is nobody's promise."""

    @property
    def ledger(self) -> set[tuple[str, int | None]]:
        """What the ledger may say of it: code and status."""
        late = {("timeout", None)} if self.hangs else set[tuple[str, int | None]]()
        return {(self.code, self.http_status)} | late


def _unreadable(behaviour: Behaviour, status: int = 200, *, hangs: bool = False) -> Lost:
    return Lost(behaviour=behaviour, code="unreadable_answer", http_status=status, hangs=hangs)


_CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + b'{"message_id":"m-1"}'
_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n" + b'{"message_id":"m-1"}'

UNKNOWN: Mapping[str, Lost] = {
    "closed": Lost(behaviour=saying(), code="connection_lost"),
    "reset": Lost(behaviour=resetting, code="connection_lost"),
    "half-a-head": _unreadable(saying(b"HTTP/1.1 200 OK\r\nContent-L")),
    "no-http": Lost(behaviour=saying(b"220 mail.example.com ESMTP\r\n"), code="connection_lost"),
    "interim": Lost(
        behaviour=saying(b"HTTP/1.1 101 Switching Protocols\r\n\r\n"), code="interim_answer"
    ),
    "empty": _unreadable(answering(200, b"")),
    "no-content": _unreadable(saying(b"HTTP/1.1 204 No Content\r\n\r\n"), 204),
    "no-json": _unreadable(answering(202, b"<html>Thank you</html>"), 202),
    "no-utf-8": _unreadable(answering(200, b'{"message_id":"\xff"}')),
    "no-object": _unreadable(answering(200, b'["m-1"]')),
    "no-id": _unreadable(answering(200, b'{"status":"delivered"}')),
    "empty-id": _unreadable(answering(200, b'{"message_id":""}')),
    "numeric-id": _unreadable(answering(200, b'{"message_id":7}')),
    "endless-id": _unreadable(answering(200, b'{"message_id":"%s"}' % (b"m" * 257))),
    "cut": _unreadable(saying(_CUT)),
    "cut-chunks": _unreadable(saying(_CHUNKED)),
    "oversized": _unreadable(
        answering(200, b'{"message_id":"m-1"}' + b" " * MAX_RESPONSE_BYTES),
    ),
    "500": Lost(behaviour=answering(500, b'{"message_id":"m-1"}'), code="500", http_status=500),
    "504": Lost(behaviour=answering(504, b""), code="504", http_status=504),
}

HANGING: Mapping[str, Lost] = {
    "silent": Lost(behaviour=silent, code="timeout"),
    "no-status": Lost(behaviour=dripping(b""), code="timeout"),
    "head-without-end": _unreadable(dripping(b"HTTP/1.1 200 OK\r\nX-Y:"), hangs=True),
    "body-without-end": _unreadable(
        dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + b'{"message_id":"m-1"}'),
        hangs=True,
    ),
}
"""Those that a deadline ends."""


Place = Callable[[ExitStack], tuple[str, Transport]]
"""Return a URL and what calls it; whatever has to be there lives as long as the stack."""


def _nowhere(_: ExitStack) -> tuple[str, Transport]:
    def resolve(host: str, port: int) -> Sequence[Address]:
        raise socket.gaierror(socket.EAI_NONAME, f"{host}:{port}")

    return "http://gateway.example/", Transport(resolve=resolve)


def _refusing(_: ExitStack) -> tuple[str, Transport]:
    return f"http://127.0.0.1:{free_port()}/", Transport()


def _plain(stack: ExitStack) -> tuple[str, Transport]:
    """A server that does not speak TLS."""

    def talk(wire: Wire) -> None:
        wire.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    return f"https://127.0.0.1:{stack.enter_context(peer(talk)).port}/", Transport()


def _full(stack: ExitStack) -> tuple[str, Transport]:
    """A place that takes no connection until the deadline."""
    return f"http://127.0.0.1:{stack.enter_context(full_port())}/", Transport()


NEVER_LEFT: Mapping[str, tuple[Place, str]] = {
    "no-address": (_nowhere, "name_resolution"),
    "refused": (_refusing, "connection_refused"),
    "no-tls": (_plain, "tls"),
    "no-connection": (_full, "timeout"),
}


def calling(url: str, transport: Transport) -> HttpProvider:
    return HttpProvider(
        url=url, credentials=GatewayCredentials(secrets=(GATEWAY_SECRET,)), transport=transport
    )
