"""One HTTP request with a total deadline, a response cap, no redirects and no hidden retries.

urllib3's timeouts bound each socket operation, so a peer that drips bytes could hold a call for
ever: a watchdog shuts the socket down at the deadline. ``Lost.begun`` tells whether a byte may have
left, which is the whole difference between "provably not sent" and "unknown".
"""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
)

from functions.providers.dial import (
    Forbidden,
    Guard,
    Resolve,
    dial,
    seconds_until,
    system_resolve,
)

MAX_RESPONSE_BYTES = 64 * 1024
USER_AGENT = "sendoff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A final answer; ``complete`` is False when its body was cut off or longer than the cap."""

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


class _Late(HTTPError):
    """The deadline passed before the first byte was written."""


class _Barred(HTTPError):
    """The guard of this call lets it go nowhere; ``code`` is its reason."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class _Watch:
    """One call under way: until when, whether it began to write, and the cut at its end."""

    def __init__(self, *, deadline: float, resolve: Resolve) -> None:
        self.deadline = deadline
        self.resolve = resolve
        self.begun = False
        self.expired = False
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def begin(self, connected: socket.socket) -> None:
        """Take note that the request is about to be written on ``connected``.

        The last look at the clock: a process that was stopped until now sends nothing.
        """
        with self._lock:
            try:
                connected.settimeout(seconds_until(self.deadline))
            except TimeoutError as error:
                raise _Late from error
            self._socket = connected
            self.begun = True

    def cut(self) -> None:
        """End the call: whoever reads or writes its socket finds it closed."""
        with self._lock:
            self.expired = True
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    # Not SSLSocket's own, which would have its reader go on below TLS.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def let_go(self) -> None:
        """Leave the socket alone from now on: it goes back to the pool and may serve another."""
        with self._lock:
            self._socket = None


class _Current(threading.local):
    """The call of this thread: urllib3 passes nothing of ours to its connections."""

    watch: _Watch


_current = _Current()


class _Watched(HTTPConnection):
    """A connection made by the deadline, which tells its call when the first byte may leave."""

    def _new_conn(self) -> socket.socket:
        watch = _current.watch
        try:
            return dial(self._dns_host, self.port, deadline=watch.deadline, resolve=watch.resolve)
        except Forbidden as error:
            raise _Barred(error.code) from error
        except socket.gaierror as error:
            raise NameResolutionError(self.host, self, error) from error
        except TimeoutError as error:
            raise ConnectTimeoutError(self, "not connected in time") from error
        except OSError as error:
            raise NewConnectionError(self, "not connected") from error

    def request(self, *args: Any, **keywords: Any) -> None:
        if self.sock is None:
            self.connect()
        assert self.sock is not None
        _current.watch.begin(self.sock)
        super().request(*args, **keywords)


class _WatchedTls(_Watched, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Watched  # pyright: ignore[reportAssignmentType]  # its protocol is over-strict

    def _put_conn(self, conn: Any) -> None:
        _current.watch.let_go()
        super()._put_conn(conn)


class _TlsPool(_Pool, HTTPSConnectionPool):
    ConnectionCls = _WatchedTls  # pyright: ignore[reportAssignmentType]


class _SinglePool(_Pool):
    """Keeps no connection: the next call resolves its name, and is judged, for itself."""

    def _put_conn(self, conn: Any) -> None:
        _current.watch.let_go()
        if conn is not None:
            conn.close()


class _SingleTlsPool(_SinglePool, _TlsPool):
    pass


class Transport:
    """The connections of one environment; safe to use from several threads."""

    def __init__(self, *, connections: int = 10, resolve: Resolve = system_resolve) -> None:
        self._resolve = resolve
        context = ssl.create_default_context()  # 50 ms of certificates, once for all
        self._pools = _pool_manager(connections, context, http=_Pool, https=_TlsPool)
        self._single = _pool_manager(1, context, http=_SinglePool, https=_SingleTlsPool)

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        deadline: float,
        guard: Guard | None = None,
    ) -> Response | Lost:
        """Write the request once; return its answer, or how it was lost, by ``deadline``.

        ``deadline`` is by ``time.monotonic``: it goes on while a process is stopped, so one that
        thaws too late finds no time left and sends nothing. Under a ``guard`` the call has a
        connection of its own, to an address that was judged for this very call. What the guard
        forbids is Lost by its code, not begun.
        """
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return Lost(begun=False, code="deadline", detail="there was no time left to begin")
        pools, resolve, own = self._pools, self._resolve, dict[str, str]()
        if guard is not None:
            pools, resolve, own = self._single, guard(self._resolve), {"Connection": "close"}
        with _watching(deadline, resolve) as watch:
            try:
                answer = pools.urlopen(
                    method,
                    url,
                    body=body,
                    headers={"User-Agent": USER_AGENT, **own, **headers},
                    redirect=False,
                    retries=False,
                    preload_content=False,
                    decode_content=False,
                    timeout=remaining,
                )
            except (HTTPError, OSError, ValueError) as error:
                return Lost(begun=watch.begun, code=_code_of(error, watch), detail=_say(error))
            return _read(answer, watch)


def _pool_manager(
    connections: int, context: ssl.SSLContext, **classes: type[Any]
) -> urllib3.PoolManager:
    """Return pools that follow nothing, repeat nothing, and know no proxy of the environment."""
    pools = urllib3.PoolManager(
        num_pools=32, maxsize=connections, retries=False, ssl_context=context
    )
    pools.pool_classes_by_scheme = classes
    return pools


@contextlib.contextmanager
def _watching(deadline: float, resolve: Resolve) -> Generator[_Watch]:
    watch = _Watch(deadline=deadline, resolve=resolve)
    timer = threading.Timer(deadline - time.monotonic(), watch.cut)
    timer.daemon = True
    _current.watch = watch
    timer.start()
    try:
        yield watch
    finally:
        timer.cancel()
        watch.let_go()


def _read(answer: urllib3.BaseHTTPResponse, watch: _Watch) -> Response | Lost:
    """Read at most the cap; a body that is longer, or ends early, is not complete."""
    if answer.status < 200:
        # An interim answer that nobody asked for: the final one would answer the next request.
        answer.close()
        return Lost(begun=True, code="interim_answer", detail=f"status {answer.status}")
    body = b""
    try:
        # To the very end: only the read that finds nothing more tells a whole body from a cut one.
        while part := answer.read(MAX_RESPONSE_BYTES + 1 - len(body)):
            body += part
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
    if isinstance(error, _Late):
        return "deadline"
    if isinstance(error, _Barred):
        return error.code
    if isinstance(error, NameResolutionError):
        return "name_resolution"
    if isinstance(error, NewConnectionError):  # to urllib3 a kind of timeout
        return "connection_refused"
    if watch.expired or isinstance(error, urllib3.exceptions.TimeoutError):
        return "timeout"
    if isinstance(error, urllib3.exceptions.SSLError):
        return "tls"
    return "connection_lost" if watch.begun else "not_callable"


def _say(error: Exception) -> str:
    """Name the error without its text, which may carry an address."""
    return type(error).__name__
