"""Webhook endpoints as the public Internet has them, played on this machine's loopback.

The product's guard stands as it is; what is made up lies on either side of it: name servers that
answer what a test says, and a network in which one public address is the test's own server.
"""

import base64
import contextlib
import socket
import ssl
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from functions.core.webhook_key import secret_of
from functions.providers.dial import Address, Guard, Resolve
from functions.providers.egress import PublicOnly
from functions.providers.transport import Transport
from functions.providers.webhook import WebhookProvider
from tests.certificate import trusted_server_context
from tests.submissions import submission
from tests.wire import HOST, Peer, Script, Wire, peer

MASTER = bytes(range(100, 132))
PUBLIC = "93.184.215.14"
PUBLIC_V6 = "2606:2800:21f:cb07:6820:80da:af6b:8b2c"
NAME = "hook.example"


def secrets_for(organization_id: UUID) -> tuple[str, ...]:
    return (secret_of(MASTER, organization_id=organization_id, number=1),)


def hook(url: str, **changes: Any) -> Any:
    return submission(channel="webhook", recipient=url, content={"order": 7, "é": 1.0}, **changes)


def provider_at(local_origin: str = "", *, transport: Transport | None = None) -> WebhookProvider:
    """Return the product's provider, for a server at the local origin."""
    return WebhookProvider(
        transport=transport or Transport(), secrets=secrets_for, local_origin=local_origin
    )


def address_of(number: str, port: int) -> Address:
    """Return a socket address as the system's resolver does."""
    if ":" in number:
        return (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (number, port, 0, 0))
    return (socket.AF_INET, socket.SOCK_STREAM, 6, "", (number, port))


@dataclass(slots=True)
class Names:
    """A name server: each question takes the next answer, and the last one stays."""

    answers: list[Sequence[str]]
    asked: list[str] = field(default_factory=list[str])

    def __call__(self, host: str, port: int) -> Sequence[Address]:
        self.asked.append(host)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        return [address_of(number, port) for number in answer]


def names(*answers: Sequence[str]) -> Names:
    return Names(list(answers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """A network: to each address that the guard lets pass, the way leads as ``ways`` says.

    An address without a way is connected to as it is.
    """

    ways: Mapping[str, tuple[str, int]]
    guard: Guard = field(default_factory=PublicOnly)

    def __call__(self, resolve: Resolve) -> Resolve:
        judged = self.guard(resolve)

        def resolved(host: str, port: int) -> Sequence[Address]:
            return [
                address_of(*self.ways[address[4][0]]) if address[4][0] in self.ways else address
                for address in judged(host, port)
            ]

        return resolved


@dataclass(slots=True, kw_only=True)
class Endpoint:
    """An HTTPS server that PUBLIC and PUBLIC_V6 lead to; ``server_names`` were asked for by SNI."""

    server: Peer
    authority: Path
    server_names: list[str | None]

    def provider(self, resolve: Resolve, *, guard: Guard | None = None) -> WebhookProvider:
        """Return a provider that trusts the endpoint's certificate (by SSL_CERT_FILE)."""
        way = (HOST, self.server.port)
        return WebhookProvider(
            transport=Transport(resolve=resolve),
            secrets=secrets_for,
            guard=Routes(ways={PUBLIC: way, PUBLIC_V6: way}, guard=guard or PublicOnly()),
        )


@contextlib.contextmanager
def endpoint(script: Script, folder: Path, *, name: str = NAME) -> Generator[Endpoint]:
    """An endpoint that runs ``script`` for each connection, once its TLS stands."""
    context, authority = trusted_server_context(folder, name)
    asked: list[str | None] = []

    def note(_socket: ssl.SSLObject, server_name: str | None, _context: ssl.SSLContext) -> None:
        asked.append(server_name)

    context.sni_callback = note

    def encrypted(wire: Wire) -> None:
        with context.wrap_socket(wire.connected, server_side=True) as socket_:
            wire.peer.open.append(socket_)
            script(Wire(socket_, wire.peer))

    with peer(encrypted) as server:
        yield Endpoint(server=server, authority=authority, server_names=asked)


def changed_signatures(header: str) -> list[str]:
    """Return ``header`` with one byte of its one signature changed, for each of its bytes."""
    version, _, text = header.partition(",")
    digest = base64.b64decode(text)
    changed: list[str] = []
    for place in range(len(digest)):
        other = bytearray(digest)
        other[place] ^= 1
        changed.append(f"{version},{base64.b64encode(bytes(other)).decode()}")
    return changed
