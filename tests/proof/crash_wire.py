"""The connection to PostgreSQL, with a gate at every statement on the wire.

A forwarder inside the process that dies: the function connects to it, and it to the server. It
reads the protocol (PostgreSQL documentation, "Message Formats"), so a boundary is exactly what the
server is asked to do: to let us in, to run a statement, BEGIN and COMMIT among them, also within a
pipeline. At a phase "after" the server has answered, and the answer goes no further.
"""

import re
import selectors
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

from functions import store
from infra.local.postgres import HOST
from tests.proof.crash_boundary import Fault, Gate, Phase


def framed(kind: bytes, body: bytes = b"") -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


FLUSH, SYNC = framed(b"H"), framed(b"S")
CANCEL = (
    framed(b"P", b"\0SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(9)\0\0\0")
    + framed(b"B", b"\0\0" + b"\0\0" * 3)
    + framed(b"E", b"\0" + b"\0" * 4)
    + FLUSH
)
"""A statement that the server cancels; its answer: parsed, bound, and the error."""

CHUNK = 65536
WAIT_SECONDS = 20.0
"""Longer than any wait of the server for a lock (5 s): who waits longer has misunderstood it."""

_SIMPLE, _PARSE, _BIND, _EXECUTE = b"Q", b"P", b"B", b"E"
_ENDS_A_GROUP = (_SIMPLE, _EXECUTE, b"S", b"H", b"X")
_READY, _ERROR = b"Z", b"E"
_COMPLETIONS = (b"C", b"I", b"s")


class Message(NamedTuple):
    """A message of either side; ``raw`` is all of it."""

    kind: bytes
    raw: bytes

    @property
    def body(self) -> bytes:
        return self.raw[5:]


def messages_in(buffer: bytearray) -> Iterator[Message]:
    """Yield the whole messages at the head of ``buffer``, and take them out of it."""
    while len(buffer) >= 5:
        size = 1 + int.from_bytes(buffer[1:5], "big")
        if len(buffer) < size:
            return
        raw = bytes(buffer[:size])
        del buffer[:size]
        yield Message(raw[:1], raw)


def _without_parameters(statement: str) -> str:
    return re.sub(r"%\(\w+\)[sbt]|\$\d+", "$", statement).replace("%%", "%").strip()


def _names_of_statements() -> dict[str, str]:
    """Return the name of each statement constant of the store, by its text without parameters."""
    names: dict[str, str] = {}
    for module in iter_modules(store.__path__):
        loaded = import_module(f"{store.__name__}.{module.name}")
        for name, value in vars(loaded).items():
            if name.isupper() and isinstance(value, str) and "\n" in value:
                names.setdefault(_without_parameters(value), f"{module.name}.{name}")
    return names


_NAMES = _names_of_statements()


def label_of(statement: str) -> str:
    """Return the name of the constant that the statement is, or its first word (BEGIN, COMMIT)."""
    plain = _without_parameters(statement)
    return _NAMES.get(plain) or (plain.split() or ["nothing"])[0].upper()


@dataclass(slots=True)
class _Session:
    """One connection of the function, forwarded to the server."""

    gate: Gate
    client: socket.socket
    server: socket.socket
    prepared: dict[bytes, str] = field(default_factory=dict[bytes, str])
    bound: str = ""
    asked: int = 0
    """Statements the server was asked to run and has not answered yet."""
    group: bytearray = field(default_factory=bytearray)
    sent: bytearray = field(default_factory=bytearray)
    """Of the client, not a whole message yet."""
    answered: bytearray = field(default_factory=bytearray)
    """Of the server, not a whole message yet."""

    def serve(self) -> None:
        number = self.gate.arrive()
        if self.gate.meet(number, Phase.BEFORE, "connect") or not self._let_in(number):
            return
        with selectors.DefaultSelector() as selector:
            selector.register(self.client, selectors.EVENT_READ)
            selector.register(self.server, selectors.EVENT_READ)
            goes_on = True
            while goes_on:
                readable = [key.fileobj for key, _ in selector.select()]
                # One at a time: to hand on a statement may take what the server has said.
                goes_on = self._answer() if self.server in readable else self._ask()

    def _let_in(self, number: int) -> bool:
        """Forward the start of the session; return whether the client may have it."""
        self.server.sendall(self.client.recv(CHUNK))
        welcome = self._read_until(_READY)
        if welcome is None or self.gate.meet(number, Phase.AFTER, "connect"):
            return False
        self.client.sendall(welcome)
        return True

    def _answer(self) -> bool:
        """Hand on what the server says; return whether it goes on."""
        data = self.server.recv(CHUNK)
        if not data:
            return False
        self.answered += data
        for message in messages_in(self.answered):
            self._count(message)
        self.client.sendall(data)
        return True

    def _count(self, message: Message) -> None:
        if message.kind in _COMPLETIONS:
            self.asked -= 1
        elif message.kind == _READY:
            self.asked = 0

    def _ask(self) -> bool:
        """Hand on what the client says, statement by statement; return whether it goes on."""
        data = self.client.recv(CHUNK)
        if not data:
            return False
        self.sent += data
        for message in messages_in(self.sent):
            self.group += message.raw
            self._learn(message)
            if message.kind in _ENDS_A_GROUP and not self._forward(message):
                return False
        return True

    def _learn(self, message: Message) -> None:
        """Remember what a prepared or bound statement says."""
        if message.kind == _PARSE:
            name, statement, _ = message.body.split(b"\0", 2)
            self.prepared[name] = statement.decode()
        elif message.kind == _BIND:
            _, name, _ = message.body.split(b"\0", 2)
            self.bound = self.prepared[name]

    def _forward(self, last: Message) -> bool:
        """Send the messages up to ``last``, which may run a statement; return whether to go on."""
        group = bytes(self.group)
        self.group.clear()
        if last.kind not in (_SIMPLE, _EXECUTE):
            self.server.sendall(group)
            return True
        is_simple = last.kind == _SIMPLE
        label = label_of(last.body.rstrip(b"\0").decode() if is_simple else self.bound)
        number = self.gate.arrive()
        fault = self.gate.meet(number, Phase.BEFORE, label)
        if fault is Fault.TIMEOUT:
            return self._time_out(group, is_simple)
        if fault:
            return False
        self.asked += 1
        self.server.sendall(group)
        if not self.gate.is_awaited(number, Phase.AFTER):
            return self.gate.meet(number, Phase.AFTER, label) is None
        if not is_simple:
            self.server.sendall(FLUSH)  # else the server keeps its answer until the pipeline ends
        answer = self._read_until(_READY if is_simple else None)
        if answer is None or self.gate.meet(number, Phase.AFTER, label):
            return False
        self.client.sendall(answer)
        return True

    def _time_out(self, group: bytes, is_simple: bool) -> bool:
        """Have another statement cancelled, and its error taken for that of ``group``."""
        self.server.sendall(CANCEL)
        answer = self._read_until(_ERROR)
        if answer is None:
            return False
        *earlier, _, _, error = [read.raw for read in messages_in(bytearray(answer))]
        self.client.sendall(b"".join((*earlier, error)))
        # What follows an error is not run, until the client says that it has seen it.
        self.server.sendall(SYNC if is_simple else group)
        return True

    def _read_until(self, kind: bytes | None) -> bytes | None:
        """Return what the server says up to a message of ``kind``; None: up to its answer to
        everything it was asked. Return None when it went away instead."""
        read = bytearray()
        while True:
            data = self.server.recv(CHUNK)
            if not data:
                return None
            read += data
            self.answered += data
            for message in messages_in(self.answered):
                self._count(message)
                if message.kind == kind or (kind is None and message.kind == _ERROR):
                    return bytes(read)
            if kind is None and self.asked <= 0:
                return bytes(read)


@dataclass(slots=True)
class Wire:
    """Where the function connects to instead of the server at ``port``."""

    gate: Gate
    server_port: int
    listener: socket.socket = field(default_factory=lambda: socket.create_server((HOST, 0)))

    @property
    def port(self) -> int:
        return self.listener.getsockname()[1]

    def start(self) -> "Wire":
        threading.Thread(target=self._accept, daemon=True, name="wire").start()
        return self

    def _accept(self) -> None:
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Forward a connection until either side, or a fault, ends it for both."""
        with client:
            if self.gate.is_down:
                return
            with socket.create_connection((HOST, self.server_port)) as server:
                server.settimeout(WAIT_SECONDS)
                for side in (client, server):
                    side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    _Session(gate=self.gate, client=client, server=server).serve()
                except (ConnectionError, TimeoutError):
                    return
