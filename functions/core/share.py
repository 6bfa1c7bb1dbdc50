"""How a budget is shared: 10 : 5 : 1 between priorities, evenly between the streams of one.

Weights, not strict order: high priority gets most of a scarce budget and low is never starved. The
carry makes it exact over time: with one token a round, low gets one in sixteen, and two streams
take turns. What one leaves flows on.
"""

from collections.abc import Mapping, Sequence

from functions.core.states import Priority, Stream

WEIGHTS: Mapping[str, int] = {
    str(Priority.HIGH): 10,
    str(Priority.NORMAL): 5,
    str(Priority.LOW): 1,
}
EVENLY: Mapping[str, int] = {str(stream): 1 for stream in Stream}


class Shares:
    """The running account of those in ``weights``; in memory, and only a hint if it is lost."""

    def __init__(self, weights: Mapping[str, int] = WEIGHTS) -> None:
        self._weights = weights
        self._owed = dict.fromkeys(weights, 0.0)

    def split(self, budget: int, ready: Sequence[str]) -> dict[str, int]:
        """Return whole shares of ``budget`` for the names in ``ready``; they sum to it."""
        total = sum(self._weights[name] for name in ready)
        for name, weight in self._weights.items():
            self._owed[name] = self._owed[name] + budget * weight / total if name in ready else 0.0
        shares = dict.fromkeys(ready, 0)
        for _ in range(budget if ready else 0):
            furthest_behind = max(ready, key=lambda name: self._owed[name] - shares[name])
            shares[furthest_behind] += 1
        for name in ready:
            self._owed[name] -= shares[name]
        return shares
