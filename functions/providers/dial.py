"""Open a TCP connection by a deadline: resolve the name, then try its addresses in turn.

The system's resolver knows no time limit, and a name may have many dead addresses: with one timeout
per socket operation, a recipient's name server could hold a sender for minutes.
"""

import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

CONNECT_SECONDS = 5.0
"""For one address; all of them share the deadline."""

Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]
Resolve = Callable[[str, int], Sequence[Address]]
"""Raises socket.gaierror for a name without address, Forbidden for one that may not be called."""

Guard = Callable[[Resolve], Resolve]
"""Stands before a resolver and judges its answers."""


class Forbidden(Exception):
    """A name must not be called, whatever it resolves to; ``code`` says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def system_resolve(host: str, port: int) -> Sequence[Address]:
    """Return the addresses of ``host`` as the system knows them."""
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def dial(host: str, port: int, *, deadline: float, resolve: Resolve) -> socket.socket:
    """Return a socket connected to ``host``, whose timeout ends at ``deadline`` (monotonic).

    Raises TimeoutError, socket.gaierror, Forbidden, or the OSError of the last address.
    """
    failure: OSError = socket.gaierror(socket.EAI_NONAME, "the name has no address")
    for family, kind, protocol, _, address in _resolve_by(host, port, deadline, resolve):
        candidate = socket.socket(family, kind, protocol)
        try:
            candidate.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            candidate.settimeout(min(CONNECT_SECONDS, seconds_until(deadline)))
            candidate.connect(address)
            candidate.settimeout(seconds_until(deadline))  # a TLS handshake has this much left
        except OSError as error:
            candidate.close()
            failure = error
        else:
            return candidate
    raise failure


def seconds_until(deadline: float) -> float:
    """Return what is left; raise TimeoutError when nothing is."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("the deadline passed")
    return seconds


def _resolve_by(host: str, port: int, deadline: float, resolve: Resolve) -> Sequence[Address]:
    """Ask in a thread of its own, which is left behind when the answer takes too long."""
    answers: queue.SimpleQueue[Sequence[Address] | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(resolve(host, port))
        except Exception as error:  # handed over: it is raised where the name was asked for
            answers.put(error)

    threading.Thread(target=ask, name="resolve", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds_until(deadline))
    except queue.Empty:
        raise TimeoutError("the name was not resolved in time") from None
    if isinstance(answer, Exception):
        raise answer
    return answer
