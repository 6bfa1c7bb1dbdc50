"""One HTTP request with a total deadline, a response cap, no redirects and no hidden retries.

urllib3's timeouts bound each socket operation, so a peer that drips bytes could hold a call for
ever: a watchdog shuts the socket down at the deadline. ``Lost.begun`` tells whether a byte may have
left, which is the whole difference between "provably not sent" and "unknown".
"""

import contextlib
import socket
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

MAX_RESPONSE_BYTES = 64 * 1024
CONNECT_SECONDS = 5.0
USER_AGENT = "sendoff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer; ``complete`` is False when its body was cut off or longer than the cap."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """No answer; ``begun`` is False when provably nothing of the request was written."""

    begun: bool
    code: str
    detail: str


class _Watch:
    """One call under way: its connection, whether it began to write, and the cut at its end."""

    def __init__(self) -> None:
        self.begun = False
        self.expired = False
        self._socket: socket.socket | None = None

    def begin(self, connection: HTTPConnection) -> None:
        """Take note that the request is about to be written on ``connection``."""
        self._socket = connection.sock  # http.client keeps it there once connected
        if self.expired:
            raise TimeoutError("the deadline passed while connecting")
        self.begun = True

    def cut(self) -> None:
        self.expired = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class _Current(threading.local):
    watch: _Watch | None = None


_current = _Current()


class _Watched(HTTPConnection):
    """A connection that tells the calling thread's watch when the first byte may leave."""

    def request(self, *args: Any, **keywords: Any) -> None:
        if self.sock is None:
            self.connect()
        if _current.watch is not None:
            _current.watch.begin(self)
        super().request(*args, **keywords)


class _WatchedTls(_Watched, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Watched  # pyright: ignore[reportAssignmentType]  # its protocol is over-strict


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _WatchedTls  # pyright: ignore[reportAssignmentType]


class Transport:
    """The connections of one environment; safe to use from several threads."""

    def __init__(self, *, connections: int = 10) -> None:
        self._pools = urllib3.PoolManager(num_pools=32, maxsize=connections, retries=False)
        pools: dict[str, type[Any]] = {"http": _Pool, "https": _TlsPool}
        self._pools.pool_classes_by_scheme = pools

    def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes, deadline: float
    ) -> Response | Lost:
        """Write the request once; return its answer, or how it was lost, by ``deadline``.

        ``deadline`` is by ``time.monotonic``: it goes on while a process is stopped, so one that
        thaws too late finds no time left and sends nothing.
        """
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return Lost(begun=False, code="deadline", detail="there was no time left to begin")
        with _watching(remaining) as watch:
            try:
                answer = self._pools.urlopen(
                    method,
                    url,
                    body=body,
                    headers={"User-Agent": USER_AGENT, **headers},
                    redirect=False,
                    retries=False,
                    preload_content=False,
                    decode_content=False,
                    timeout=urllib3.Timeout(
                        connect=min(CONNECT_SECONDS, remaining), read=remaining
                    ),
                )
            except (HTTPError, OSError, ValueError) as error:
                return Lost(begun=watch.begun, code=_code_of(error, watch), detail=_say(error))
            return _read(answer, watch)


@contextlib.contextmanager
def _watching(seconds: float) -> Generator[_Watch]:
    watch = _Watch()
    timer = threading.Timer(seconds, watch.cut)
    timer.daemon = True
    _current.watch = watch
    timer.start()
    try:
        yield watch
    finally:
        timer.cancel()
        _current.watch = None


def _read(answer: urllib3.BaseHTTPResponse, watch: _Watch) -> Response:
    """Read at most the cap; a body that is longer, or ends early, is not complete."""
    body, complete = b"", True
    try:
        body = answer.read(MAX_RESPONSE_BYTES + 1)
        complete = len(body) <= MAX_RESPONSE_BYTES and not watch.expired
    except (HTTPError, OSError):
        complete = False
    if complete:
        answer.release_conn()
    else:
        answer.close()
    return Response(
        status=answer.status,
        headers=answer.headers,
        body=body[:MAX_RESPONSE_BYTES],
        complete=complete,
    )


def _code_of(error: Exception, watch: _Watch) -> str:
    if watch.expired or isinstance(error, urllib3.exceptions.TimeoutError | TimeoutError):
        return "timeout"
    if isinstance(error, urllib3.exceptions.NameResolutionError):
        return "name_resolution"
    if isinstance(error, urllib3.exceptions.SSLError):
        return "tls"
    return "connection_lost" if watch.begun else "connection_refused"


def _say(error: Exception) -> str:
    """Name the error without its text, which may carry an address."""
    return type(error).__name__
