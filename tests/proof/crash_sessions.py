"""Sessions of the process that dies, as the server sees them."""

import psycopg

from tests.proof.crash_process import VICTIM

END_IDLE = """
    SELECT pg_terminate_backend(pid)
      FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = %s AND state <> 'idle'
"""

COUNT = """
    SELECT count(*)
      FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = %s AND (state <> 'idle' OR NOT %s)
"""


def end_idle_transactions(owner: psycopg.Connection) -> None:
    """Let the server end what stands idle in a transaction: it does so after 15 s, long before a
    lease is over."""
    owner.execute(END_IDLE, [VICTIM])
    _wait(owner, only_in_transaction=True)


def await_their_end(owner: psycopg.Connection) -> None:
    """Return when the server has noticed that the process is gone."""
    _wait(owner, only_in_transaction=False)


def _wait(owner: psycopg.Connection, *, only_in_transaction: bool) -> None:
    while owner.execute(COUNT, [VICTIM, only_in_transaction]).fetchone() != (0,):
        pass
