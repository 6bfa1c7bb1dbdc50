"""One round of the claim: for each channel reserve, lease fair pages, decide, dispatch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from functions.core.errors import Unavailable
from functions.core.message import LeaseMessage
from functions.core.policy import Allow, Verdict, decide
from functions.core.share import WEIGHTS, Shares
from functions.core.states import Channel
from functions.runtime.queue import Queues
from functions.store.bucket import give_back, reserve
from functions.store.claim import (
    NO_ORGANIZATION,
    Leased,
    lease_page,
    record_verdicts,
    release,
)
from functions.store.connection import Database
from functions.store.survey import PROMOTED_AT_ONCE, Survey, promote, survey

RUN = "claim"

PAGES_AT_ONCE = 8
"""Pages per priority and round: uneven or locked organizations make them short. What is still
missing then waits for the next round, which goes on from the cursor."""

_RANK = {priority: place for place, priority in enumerate(WEIGHTS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a round did, per channel; ``generation`` is the newest run's."""

    generation: int
    promoted: int
    claimed: Mapping[str, int]
    undispatched: int

    @property
    def was_idle(self) -> bool:
        """Nothing was claimed, and nothing more has become due than could be promoted."""
        return not any(self.claimed.values()) and self.promoted < PROMOTED_AT_ONCE


def _raise(channel: str, error: Exception) -> None:
    del channel
    raise error


@dataclass(slots=True, kw_only=True)
class Claimer:
    """What one run of the loop works with; to lose cursors and shares costs turns, no more."""

    database: Database
    queues: Queues
    leased_by: str
    trouble: Callable[[str, Exception], None] = _raise
    """Is told, once a run, of a channel that could not be claimed from; the others go on."""
    _cursors: dict[tuple[str, str], UUID] = field(default_factory=dict[tuple[str, str], UUID])
    _shares: dict[str, Shares] = field(default_factory=dict[str, Shares])
    _troubled: set[str] = field(default_factory=set[str])

    def round(self) -> Round:
        """Promote what became due, then claim what each channel's budget allows."""
        promoted = promote(self.database)
        channels = survey(self.database, run=RUN)
        claimed: dict[str, int] = {}
        undispatched = 0
        for channel in channels:
            if not channel.ready:
                continue
            leased: list[Leased] = []
            try:
                self._lease(channel, leased)
            except Unavailable:
                raise
            except Exception as error:  # what one channel's rows or numbers do stays with it
                if channel.channel not in self._troubled:
                    self._troubled.add(channel.channel)
                    self.trouble(channel.channel, error)
            finally:  # what is leased goes out, even when the database went away in between
                undispatched += self._dispatch(channel.channel, leased)
            claimed[channel.channel] = len(leased)
        return Round(
            generation=max((channel.generation for channel in channels), default=0),
            promoted=promoted,
            claimed=claimed,
            undispatched=undispatched,
        )

    def _lease(self, channel: Survey, leased: list[Leased]) -> None:
        """Lease within the channel's budget: each priority its share, then what others left."""
        budget = reserve(
            self.database, channel=channel.channel, wanted=channel.page, leased=channel.leased
        )
        if not budget:
            return
        shares = self._shares.setdefault(channel.channel, Shares()).split(budget, channel.ready)
        spare = 0
        hungry: list[str] = []
        for priority in channel.ready:
            spare, more = self._lease_priority(channel, priority, shares[priority] + spare, leased)
            if more:
                hungry.append(priority)
        for priority in hungry:
            spare, _ = self._lease_priority(channel, priority, spare, leased)
        if spare:
            give_back(self.database, channel=channel.channel, unused=spare)

    def _lease_priority(
        self, channel: Survey, priority: str, wanted: int, leased: list[Leased]
    ) -> tuple[int, bool]:
        """Lease up to ``wanted`` rows into ``leased``; return how many are missing, and whether
        there may be more."""
        more = True
        for _ in range(PAGES_AT_ONCE):
            if not wanted or not more:
                break
            page = lease_page(
                self.database,
                channel=channel.channel,
                priority=priority,
                page=wanted,
                after=self._cursors.get((channel.channel, priority), NO_ORGANIZATION),
                lease_seconds=channel.lease_seconds,
                leased_by=self.leased_by,
            )
            self._cursors[channel.channel, priority] = page.cursor
            leased += page.leased
            wanted -= len(page.leased)
            more = page.more
        return wanted, more

    def _dispatch(self, channel: str, leased: list[Leased]) -> int:
        """Decide each row, store the verdicts, queue the allowed; release what was not queued."""
        verdicts: list[tuple[Leased, Verdict]] = [(row, decide(row, now=row.now)) for row in leased]
        record_verdicts(self.database, verdicts)
        allowed = sorted(
            (row for row, verdict in verdicts if isinstance(verdict, Allow)),
            key=lambda row: _RANK[row.priority],
        )
        failed = self.queues.send(
            channel,
            [
                LeaseMessage(id=row.id, lease_number=row.lease_number, channel=Channel(row.channel))
                for row in allowed
            ],
        )
        release(self.database, [(message.id, message.lease_number) for message in failed])
        return len(failed)
