"""What stands between a lease and the queue: the policy, retries that are off, and the gates.

Whatever does not pass costs no token, and spends no attempt.
"""

from collections.abc import Callable, Sequence

from functions.core.policy import Allow, Defer, Verdict, decide
from functions.store.claim import Leased

Judged = list[tuple[Leased, Verdict]]

Gates = Callable[[Sequence[Leased]], Judged]
"""Tells of each row whether it passes: for now (``Defer``, blocked) or for good (``Suppress``) it
may not."""

RETRIES_OFF = "retries_off"


def open_to_all(leased: Sequence[Leased]) -> Judged:
    """Let every row pass."""
    return [(row, Allow()) for row in leased]


def judge(leased: Sequence[Leased], *, retries: bool, gates: Gates) -> Judged:
    """Return a verdict for each row; the gates are asked about those that nothing else stops."""
    judged: Judged = [(row, _verdict(row, retries=retries)) for row in leased]
    passing = [row for row, verdict in judged if isinstance(verdict, Allow)]
    if not passing:
        return judged
    return [one for one in judged if not isinstance(one[1], Allow)] + gates(passing)


def _verdict(row: Leased, *, retries: bool) -> Verdict:
    if not retries and not row.is_first:
        # Due at once, and yet not ready: it is promoted when retries are on again.
        return Defer(until=row.now, reason=RETRIES_OFF, blocked=True)
    return decide(row, now=row.now)
