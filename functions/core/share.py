"""How a budget is shared between priorities: 10 : 5 : 1, and what one leaves flows on.

Weights, not strict order: high priority gets most of a scarce budget and low is never starved. The
carry makes it exact over time: with one token a round, low gets one in sixteen.
"""

from collections.abc import Sequence

WEIGHTS: dict[str, int] = {"high": 10, "normal": 5, "low": 1}


class Shares:
    """The running account of one channel; kept in memory, and only a hint if it is lost."""

    def __init__(self) -> None:
        self._carry = dict.fromkeys(WEIGHTS, 0.0)

    def split(self, budget: int, ready: Sequence[str]) -> dict[str, int]:
        """Return whole shares of ``budget`` for the priorities in ``ready``; they sum to it."""
        total = sum(WEIGHTS[name] for name in ready)
        for name in WEIGHTS:
            due = budget * WEIGHTS[name] / total if name in ready else 0.0
            self._carry[name] = self._carry[name] + due if name in ready else 0.0
        shares = {name: max(int(self._carry[name]), 0) for name in ready}
        for _ in range(budget - sum(shares.values())):
            behind = max(ready, key=lambda name: self._carry[name] - shares[name])
            shares[behind] += 1
        for _ in range(sum(shares.values()) - budget):
            ahead = min(ready, key=lambda name: self._carry[name] - shares[name])
            shares[ahead] -= 1
        for name in ready:
            self._carry[name] -= shares[name]
        return shares
