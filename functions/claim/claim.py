"""One round of the claim: for each channel reserve, lease fair pages, decide, dispatch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from functions.core.message import LeaseMessage
from functions.core.policy import Allow, Verdict, decide
from functions.core.share import WEIGHTS, Shares
from functions.core.states import Channel
from functions.runtime.queue import Queues
from functions.store.claim import (
    NO_ORGANIZATION,
    Leased,
    Survey,
    give_back,
    lease_page,
    promote,
    record_verdicts,
    release,
    reserve,
    survey,
)
from functions.store.connection import Database

RUN = "claim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a round did, per channel; ``generation`` is the newest run's."""

    generation: int
    claimed: Mapping[str, int]
    undispatched: int

    @property
    def was_idle(self) -> bool:
        return not any(self.claimed.values())


@dataclass(slots=True, kw_only=True)
class Claimer:
    """What one run of the loop works with; to lose cursors and shares costs turns, no more."""

    database: Database
    queues: Queues
    leased_by: str
    _cursors: dict[tuple[str, str], UUID] = field(default_factory=dict[tuple[str, str], UUID])
    _shares: dict[str, Shares] = field(default_factory=dict[str, Shares])

    def round(self) -> Round:
        """Promote what became due, then claim what each channel's budget allows."""
        promote(self.database)
        channels = survey(self.database, run=RUN)
        claimed: dict[str, int] = {}
        undispatched = 0
        for channel in channels:
            if channel.ready:
                leased = self._lease(channel)
                claimed[channel.channel] = len(leased)
                undispatched += self._dispatch(channel.channel, leased)
        return Round(
            generation=max((channel.generation for channel in channels), default=0),
            claimed=claimed,
            undispatched=undispatched,
        )

    def _lease(self, channel: Survey) -> list[Leased]:
        """Lease within the channel's budget: each priority its share, then what others left."""
        budget = reserve(
            self.database, channel=channel.channel, wanted=channel.page, leased=channel.leased
        )
        if not budget:
            return []
        shares = self._shares.setdefault(channel.channel, Shares()).split(budget, channel.ready)
        leased: list[Leased] = []
        spare = 0
        for priority in channel.ready:
            wanted = shares[priority] + spare
            rows = self._lease_priority(channel, priority, wanted)
            leased += rows
            spare = wanted - len(rows)
        for priority in channel.ready if spare else ():
            rows = self._lease_priority(channel, priority, spare)
            leased += rows
            spare -= len(rows)
        if spare:
            give_back(self.database, channel=channel.channel, unused=spare)
        return leased

    def _lease_priority(self, channel: Survey, priority: str, wanted: int) -> list[Leased]:
        """Lease up to ``wanted`` rows; pages that came short because turns were uneven go on."""
        leased: list[Leased] = []
        while wanted > len(leased):
            rows = lease_page(
                self.database,
                channel=channel.channel,
                priority=priority,
                page=wanted - len(leased),
                after=self._cursors.get((channel.channel, priority), NO_ORGANIZATION),
                lease_seconds=channel.lease_seconds,
                leased_by=self.leased_by,
            )
            if not rows:
                break
            self._cursors[channel.channel, priority] = rows[0].cursor
            leased += rows
        return leased

    def _dispatch(self, channel: str, leased: list[Leased]) -> int:
        """Decide each row, store the verdicts, queue the allowed; release what was not queued."""
        verdicts: list[tuple[Leased, Verdict]] = [(row, decide(row, now=row.now)) for row in leased]
        record_verdicts(self.database, verdicts)
        rank = {priority: place for place, priority in enumerate(WEIGHTS)}
        allowed = sorted(
            (row for row, verdict in verdicts if isinstance(verdict, Allow)),
            key=lambda row: rank[row.priority],
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
