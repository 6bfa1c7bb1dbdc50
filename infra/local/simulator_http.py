"""HTTP/1.1 for the simulator: h11 on asyncio, so that a thousand waiting calls cost no threads.

A web framework would always answer; a simulator must also be able to accept and say nothing, to
close in the middle and to refuse before it has read, so a Reply says which of these happens.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from urllib.parse import unquote

import h11

MAX_BODY_BYTES = 16 * 1024 * 1024

logger = logging.getLogger(__name__)


class Ending(Enum):
    """What happens to the connection after a request."""

    ANSWER = auto()
    SILENCE = auto()
    """Nothing is written; it stays open until the client closes it."""
    CLOSE = auto()
    """Closed without an answer."""
    RESET = auto()
    """Reset without an answer."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    headers: tuple[tuple[bytes, bytes], ...]
    """Names in lower case."""
    body: bytes = b""

    @property
    def path(self) -> str:
        return unquote(self.target.partition("?")[0])

    def header(self, name: bytes) -> str | None:
        for one, value in self.headers:
            if one == name:
                return value.decode("latin-1")
        return None

    def parameter(self, name: str) -> str | None:
        """Return a query parameter; a bare ``+`` stays one, as addresses and numbers need it."""
        for pair in self.target.partition("?")[2].split("&"):
            one, _, value = pair.partition("=")
            if one == name:
                return unquote(value)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """How a request ends. ``before`` is awaited first; ``then`` runs once it has ended."""

    status: int = 200
    body: bytes = b""
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()
    ending: Ending = Ending.ANSWER
    before: Callable[[], Awaitable[object]] | None = None
    then: Callable[[], object] | None = None


Answer = Callable[[Request], Reply]


class Connection(asyncio.Protocol):
    """One client: reads requests, one after the other, and ends each as its Reply says."""

    def __init__(self, answer: Answer, connections: "set[Connection]") -> None:
        self._answer = answer
        self._connections = connections
        self._http = h11.Connection(h11.SERVER)
        self._head: Request | None = None
        self._body = bytearray()
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None
        self._is_silent = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        if self._is_silent:
            return
        try:
            self._http.receive_data(data)
            self._advance()
        except h11.RemoteProtocolError as error:
            self._complain(error)

    def reset(self) -> None:
        self._transport.abort()

    def _advance(self) -> None:
        """Take in what has arrived, up to a whole request."""
        while self._task is None:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    self._send(h11.InformationalResponse(status_code=100, headers=[]))
                return
            if event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                return
            if isinstance(event, h11.Request):
                self._begin(event)
            elif isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > MAX_BODY_BYTES:
                    raise _too_large()
            elif isinstance(event, h11.EndOfMessage):
                self._end()
            if self._transport.is_closing():
                return

    def _begin(self, event: h11.Request) -> None:
        self._head = Request(
            method=event.method.decode(),
            target=event.target.decode("latin-1"),
            headers=tuple(event.headers),
        )
        self._body.clear()
        if int(self._head.header(b"content-length") or 0) > MAX_BODY_BYTES:
            raise _too_large()

    def _end(self) -> None:
        head = self._head
        assert head is not None
        request = Request(head.method, head.target, head.headers, bytes(self._body))
        try:
            reply = self._answer(request)
        except Exception:
            logger.exception("The simulator failed to answer.")
            reply = Reply(status=500)
        if reply.before is None:
            self._finish(reply)
        else:
            self._task = asyncio.ensure_future(self._finish_later(reply, reply.before))

    async def _finish_later(self, reply: Reply, before: Callable[[], Awaitable[object]]) -> None:
        await before()
        self._task = None
        self._finish(reply)
        self._advance()

    def _finish(self, reply: Reply) -> None:
        if not self._transport.is_closing():
            match reply.ending:
                case Ending.ANSWER:
                    self._write(reply)
                case Ending.SILENCE:
                    self._is_silent = True
                case Ending.CLOSE:
                    self._transport.close()
                case Ending.RESET:
                    self.reset()
        if reply.then is not None:
            reply.then()

    def _write(self, reply: Reply) -> None:
        headers = [
            (b"content-length", b"%d" % len(reply.body)),
            (b"content-type", reply.content_type),
            *reply.headers,
        ]
        reason = HTTPStatus(reply.status).phrase.encode()
        head = self._http.send(
            h11.Response(status_code=reply.status, headers=headers, reason=reason)
        )
        is_bare = self._head is not None and self._head.method == "HEAD"
        body = None if is_bare or not reply.body else self._http.send(h11.Data(data=reply.body))
        end = self._http.send(h11.EndOfMessage())
        self._transport.write(b"".join(part for part in (head, body, end) if part))
        if self._http.our_state is h11.MUST_CLOSE:
            self._transport.close()
        else:
            self._http.start_next_cycle()

    def _send(self, event: h11.Event) -> None:
        self._transport.write(self._http.send(event) or b"")

    def _complain(self, error: h11.RemoteProtocolError) -> None:
        """Say what is wrong with the request, if that is still possible, and close."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [(b"content-length", b"0"), (b"connection", b"close")]
            self._send(h11.Response(status_code=error.error_status_hint, headers=headers))
            self._send(h11.EndOfMessage())
        self._transport.close()


def _too_large() -> h11.RemoteProtocolError:
    return h11.RemoteProtocolError("The body is too large.", error_status_hint=413)
