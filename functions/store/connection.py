"""One direct connection per environment, and the rule for what happens when it is lost.

Every piece of work handed to ``Database.run`` is one transaction and safe to repeat after an
unknown COMMIT: begin knows its own token, close keeps a known outcome, accept has its idempotency
key, receipts are deduplicated. So a lost connection is discarded and the work is run once more.
"""

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Generator
from typing import TypeVar

import psycopg

from functions.core.errors import Misconfigured, Unavailable
from functions.core.login import Login

T = TypeVar("T")

CONNECT_TIMEOUT_SECONDS = 3
STALL_SECONDS = 17.0
"""Longer than the server's own statement_timeout (15 s), shorter than any function lives with one
more connect: a server that is frozen keeps its sockets open and enforces nothing."""

TCP_USER_TIMEOUT_MILLISECONDS = 10_000

# Lost or unusable: connection trouble (08), shutdown and crash (57P0x), cannot connect now,
# read-only after a failover (25006), session terminated while idle in a transaction (25P03).
_LOST_CLASSES = ("08", "57P0")
_LOST_STATES = frozenset({"25006", "25P03"})
# The server undid the transaction and asks for it again: serialization failure, deadlock.
_REPEAT_STATES = frozenset({"40001", "40P01"})
# Undone because something took too long (lock_timeout, statement_timeout) or ran out (53: memory,
# disk, connections). Repeating at once would only add to it.
_BUSY_STATES = frozenset({"55P03", "57014"})
_BUSY_CLASSES = ("53",)


Connect = Callable[[], psycopg.Connection]


def connector(login: Callable[[], Login], *, application_name: str) -> Connect:
    """Return a function that opens a connection; ``login`` is asked anew at each connect."""

    def connect() -> psycopg.Connection:
        who = login()
        return psycopg.connect(
            host=who.host,
            port=who.port,
            dbname=who.name,
            user=who.user,
            password=who.password,
            sslmode="require" if who.tls else "disable",
            application_name=application_name,
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            tcp_user_timeout=TCP_USER_TIMEOUT_MILLISECONDS,
            target_session_attrs="read-write",
            autocommit=True,
        )

    return connect


class Database:
    """The connection of this environment, opened at first use and kept between invocations."""

    def __init__(self, connect: Connect, *, stall_seconds: float = STALL_SECONDS) -> None:
        self._connect = connect
        self._stall_seconds = stall_seconds
        self._connection: psycopg.Connection | None = None

    def run(self, work: Callable[[psycopg.Connection], T], *, pipelined: bool = False) -> T:
        """Run ``work`` in one transaction, once more if the connection was lost; return its value.

        ``pipelined`` sends statements without waiting for each answer: BEGIN, lock and statement
        cost one round trip, and each statement still has a snapshot of its own.
        Raises Unavailable when the database cannot be reached, or a lock or statement timed out;
        it says ``maybe_done`` only when the connection was lost after COMMIT could have been sent.
        """
        committing = maybe_done = False

        def work_to_commit(connection: psycopg.Connection) -> T:
            nonlocal committing
            value = work(connection)
            committing = True
            return value

        for last in (False, True):
            committing = False
            try:
                connection = self._open()
            except psycopg.OperationalError as error:
                if last:
                    raise Unavailable(_say(error), maybe_done=maybe_done) from error
                continue
            try:
                return self._transact(connection, work_to_commit, pipelined)
            except psycopg.Error as error:
                maybe_done = maybe_done or (committing and is_lost(error))
                if _is_busy(error) or (last and _is_repeatable(error)):
                    raise Unavailable(_say(error), maybe_done=maybe_done) from error
                if not _is_repeatable(error):
                    raise
        raise AssertionError("unreachable")

    def _transact(
        self,
        connection: psycopg.Connection,
        work: Callable[[psycopg.Connection], T],
        pipelined: bool,
    ) -> T:
        pipeline = connection.pipeline() if pipelined else contextlib.nullcontext()
        try:
            watch = _cut_when_stalled(connection, self._stall_seconds)
            with watch, pipeline, connection.transaction():
                return work(connection)
        except psycopg.Error as error:
            if is_lost(error):
                self.close()
            raise
        except BaseException:
            if connection.closed or connection.broken:
                self.close()
            raise

    def _open(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        return self._connection

    def close(self) -> None:
        """Discard the connection; the next use opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()


@contextlib.contextmanager
def _cut_when_stalled(connection: psycopg.Connection, seconds: float) -> Generator[None]:
    """Shut the connection's socket down after ``seconds``: whoever waits on it finds it lost."""
    watchdog = threading.Timer(seconds, _cut, (connection,))
    watchdog.daemon = True
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


def _cut(connection: psycopg.Connection) -> None:
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as same,
    ):
        same.shutdown(socket.SHUT_RDWR)


def is_about_a_row(error: Exception) -> bool:
    """Whether ``error`` may come of what a row holds, and not of the database around it: a missing
    right, column or server is everybody's trouble."""
    if isinstance(error, psycopg.Error):
        return isinstance(error, psycopg.DataError | psycopg.IntegrityError)
    return not isinstance(error, Unavailable | Misconfigured)


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection that raised ``error`` must not be used again."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return state.startswith(_LOST_CLASSES) or state in _LOST_STATES


def _say(error: psycopg.Error) -> str:
    """Name the error without its text, which may quote a row."""
    return f"The database is not available ({type(error).__name__})."


def _is_busy(error: psycopg.Error) -> bool:
    return error.sqlstate in _BUSY_STATES or (error.sqlstate or "").startswith(_BUSY_CLASSES)


def _is_repeatable(error: psycopg.Error) -> bool:
    return is_lost(error) or error.sqlstate in _REPEAT_STATES
