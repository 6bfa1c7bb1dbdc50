"""Servers on real sockets that do with a connection exactly what a test says, byte by byte."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field

HOST = "127.0.0.1"


class Gone(Exception):
    """The client closed the connection."""


@dataclass(slots=True)
class Wire:
    """One accepted connection, as the server holds it."""

    connected: socket.socket
    peer: "Peer"
    _unread: bytes = b""

    def read_request(self) -> "Received":
        """Return the next request, headers and body; raise Gone when there is none."""
        while b"\r\n\r\n" not in self._unread:
            self._receive()
        head, _, self._unread = self._unread.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = dict(_header(line) for line in lines)
        size = int(headers.get("content-length", "0"))
        while len(self._unread) < size:
            self._receive()
        body, self._unread = self._unread[:size], self._unread[size:]
        method, target, _ = first.split(" ")
        received = Received(method=method, target=target, headers=headers, body=body)
        self.peer.remember(received)
        return received

    def send(self, data: bytes) -> None:
        try:
            self.connected.sendall(data)
        except OSError as error:
            raise Gone from error

    def answer(
        self,
        status: int = 200,
        body: bytes = b"{}",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a whole answer; the connection stays open."""
        lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def reset(self) -> None:
        """End the connection by RST instead of FIN."""
        self.connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connected.close()

    def wait_until_gone(self) -> None:
        """Hold the connection, silently, until the client gives up or the test ends."""
        with contextlib.suppress(Gone):
            while True:
                self._receive()

    def _receive(self) -> None:
        try:
            data = self.connected.recv(65536)
        except OSError as error:
            raise Gone from error
        if not data:
            raise Gone
        self._unread += data


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request as it arrived; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Script = Callable[[Wire], None]


@dataclass(slots=True)
class Peer:
    """A server that runs ``script`` for each connection; what it saw stays to be looked at."""

    script: Script
    port: int
    connections: int = 0
    requests: list[Received] = field(default_factory=list[Received])
    changed: threading.Condition = field(default_factory=threading.Condition)
    open: list[socket.socket] = field(default_factory=list[socket.socket])

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def remember(self, received: Received) -> None:
        with self.changed:
            self.requests.append(received)
            self.changed.notify_all()

    def wait_for_requests(self, count: int, *, seconds: float = 60.0) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.requests) >= count, seconds)

    def serve(self, connected: socket.socket) -> None:
        with connected, contextlib.suppress(Gone, OSError):
            self.script(Wire(connected, self))


@contextlib.contextmanager
def peer(script: Script) -> Generator[Peer]:
    """Listen on a free port; each connection gets a thread of its own."""
    with socket.create_server((HOST, 0)) as listener:
        served = Peer(script, listener.getsockname()[1])
        threads: list[threading.Thread] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connected, _ = listener.accept()
                    served.connections += 1
                    served.open.append(connected)
                    thread = threading.Thread(target=served.serve, args=(connected,))
                    threads.append(thread)
                    thread.start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield served
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for connected in served.open:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(connected, socket.SHUT_RDWR)  # below TLS too
            for thread in threads:
                thread.join()


def answering(
    status: int = 200, body: bytes = b"{}", headers: Mapping[str, str] | None = None
) -> Script:
    """Return a script that gives every request of a connection the same answer."""

    def script(wire: Wire) -> None:
        while True:
            wire.read_request()
            wire.answer(status, body, headers)

    return script


def silent(wire: Wire) -> None:
    """Take the request and never answer."""
    wire.read_request()
    wire.wait_until_gone()


def hanging_up(wire: Wire) -> None:
    """Take the request and close."""
    wire.read_request()


def resetting(wire: Wire) -> None:
    """Take the request and reset the connection."""
    wire.read_request()
    wire.reset()


def sending(*parts: bytes, then: Script | None = None) -> Script:
    """Return a script that takes the request, sends ``parts`` as they are and closes."""

    def script(wire: Wire) -> None:
        wire.read_request()
        for part in parts:
            wire.send(part)
        if then is not None:
            then(wire)

    return script


def dripping(first: bytes, drop: bytes, *, seconds: float = 0.02) -> Script:
    """Return a script that sends ``first`` and then, slowly and without end, ``drop``."""

    def script(wire: Wire) -> None:
        wire.read_request()
        wire.send(first)
        pause = threading.Event()
        while not pause.wait(seconds):
            wire.send(drop)

    return script


@contextlib.contextmanager
def full_port() -> Generator[int]:
    """A port that takes no more connections: whoever connects waits, as for a dead address."""
    with socket.socket() as listener, contextlib.ExitStack() as waiting:
        listener.bind((HOST, 0))
        listener.listen(0)
        for _ in range(4):  # one or two fill the queue, the others wait beside it
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()
