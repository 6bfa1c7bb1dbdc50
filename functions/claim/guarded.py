"""The claimer as it is deployed: it minds the breakers, what lies in the way of single rows, and
the guard against abuse of SMS."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from functions.claim.claim import Claimer
from functions.claim.gate import Gates, Judged
from functions.claim.lane import Lanes
from functions.claim.obstacle import Obstacles
from functions.core.errors import Unavailable
from functions.core.policy import Allow, Defer, Verdict
from functions.core.states import Channel
from functions.runtime.queue import Queues
from functions.store.breaker import open_breakers
from functions.store.channel import Channels
from functions.store.claim import Leased
from functions.store.connection import Database
from functions.store.guard import guard

GUARD_FAILED = "sms_guard_failed"
AGAIN_AFTER = timedelta(minutes=1)


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
        gates=and_guarded(database, obstacles.gates, trouble=trouble),
        trouble=trouble,
    )


def and_guarded(
    database: Database, gates: Gates, *, trouble: Callable[[str, Exception], None]
) -> Gates:
    """Return ``gates`` with the guard behind them: it counts and reserves for what goes out, and so
    is asked last. What it cannot decide does not go out; ``trouble`` is told of it once a run."""
    guarding = _Guarding(database=database, trouble=trouble)

    def judge(leased: Sequence[Leased]) -> Judged:
        judged = gates(leased)
        texts = [
            row
            for row, verdict in judged
            if isinstance(verdict, Allow) and row.channel == Channel.SMS
        ]
        if not texts:
            return judged
        ruled = guarding.rule(texts)
        return [(row, ruled.get(row.id, verdict)) for row, verdict in judged]

    return judge


@dataclass(slots=True, kw_only=True)
class _Guarding:
    """The guard of one run: what it cannot do for one organization stops no other."""

    database: Database
    trouble: Callable[[str, Exception], None]
    _was_told: bool = field(default=False, init=False)

    def rule(self, texts: Sequence[Leased]) -> dict[UUID, Verdict]:
        """Return the verdicts: asked for all of them together, and if that fails, organization by
        organization."""
        pages: defaultdict[UUID, list[Leased]] = defaultdict(list)
        for row in texts:
            pages[row.organization_id].append(row)
        if len(pages) > 1:
            try:
                return self._ask(texts)
            except Unavailable:
                raise
            except Exception as error:  # of one organization, as a rule; nothing of it was kept
                self._tell(error)
        return {id: one for page in pages.values() for id, one in self._rule_alone(page).items()}

    def _rule_alone(self, page: Sequence[Leased]) -> dict[UUID, Verdict]:
        """Return the verdicts for an organization; if there are none, its SMS wait for a minute,
        and neither go round and round meanwhile nor cost a token."""
        try:
            return self._ask(page)
        except Unavailable:
            raise
        except Exception as error:
            self._tell(error)
            until = max(row.now for row in page) + AGAIN_AFTER
            put_off = Defer(until=until, reason=GUARD_FAILED, blocked=True)
            return {row.id: put_off for row in page}

    def _ask(self, rows: Sequence[Leased]) -> dict[UUID, Verdict]:
        return dict(zip((row.id for row in rows), guard(self.database, rows), strict=True))

    def _tell(self, error: Exception) -> None:
        if not self._was_told:
            self._was_told = True
            self.trouble(Channel.SMS, error)
