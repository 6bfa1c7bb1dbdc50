"""How a budget is shared between priorities: 10 : 5 : 1, and what one leaves flows on.

Weights, not strict order: high priority gets most of a scarce budget and low is never starved. The
carry makes it exact over time: with one token a round, low gets one in sixteen.
"""

from collections.abc import Sequence

WEIGHTS: dict[str, int] = {"high": 10, "normal": 5, "low": 1}


class Shares:
    """The running account of one channel; kept in memory, and only a hint if it is lost."""

    def __init__(self) -> None:
        self._owed = dict.fromkeys(WEIGHTS, 0.0)

    def split(self, budget: int, ready: Sequence[str]) -> dict[str, int]:
        """Return whole shares of ``budget`` for the priorities in ``ready``; they sum to it."""
        total = sum(WEIGHTS[name] for name in ready)
        for name, weight in WEIGHTS.items():
            self._owed[name] = self._owed[name] + budget * weight / total if name in ready else 0.0
        shares = dict.fromkeys(ready, 0)
        for _ in range(budget if ready else 0):
            furthest_behind = max(ready, key=lambda name: self._owed[name] - shares[name])
            shares[furthest_behind] += 1
        for name in ready:
            self._owed[name] -= shares[name]
        return shares
