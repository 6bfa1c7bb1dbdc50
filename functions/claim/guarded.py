"""The claimer as it is deployed: it minds the breakers, what lies in the way of single rows, and
the guard against abuse of SMS."""

from collections.abc import Callable, Sequence

from functions.claim.claim import Claimer
from functions.claim.gate import Gates, Judged
from functions.claim.lane import Lanes
from functions.claim.obstacle import Obstacles
from functions.core.policy import Allow
from functions.core.states import Channel
from functions.runtime.queue import Queues
from functions.store.breaker import open_breakers
from functions.store.channel import Channels
from functions.store.claim import Leased
from functions.store.connection import Database
from functions.store.guard import guard


def guarded_claimer(
    *,
    database: Database,
    queues: Queues,
    leased_by: str,
    trouble: Callable[[str, Exception], None],
) -> Claimer:
    """Return the claimer of one run of the loop."""
    obstacles = Obstacles(database=database, channel=Channels(database).get)
    return Claimer(
        database=database,
        queues=queues,
        leased_by=leased_by,
        lanes=Lanes(breakers=lambda: open_breakers(database)).limits,
        gates=and_guarded(database, obstacles.gates),
        trouble=trouble,
    )


def and_guarded(database: Database, gates: Gates) -> Gates:
    """Return ``gates`` with the guard behind them: it counts and reserves for what goes out, and so
    is asked last. What it cannot decide does not go out."""

    def judge(leased: Sequence[Leased]) -> Judged:
        judged = gates(leased)
        texts = [
            row
            for row, verdict in judged
            if isinstance(verdict, Allow) and row.channel == Channel.SMS
        ]
        if not texts:
            return judged
        ruled = dict(zip((row.id for row in texts), guard(database, texts), strict=True))
        return [(row, ruled.get(row.id, verdict)) for row, verdict in judged]

    return judge
