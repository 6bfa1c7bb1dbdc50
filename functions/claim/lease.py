"""Leasing within the budget of a channel: each priority its share, its streams taking turns.

What one leaves flows on: to the other stream, then to the other priorities, then back to the
bucket. A stream that is paused, closed or out of its own tokens costs the others nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from functions.claim.lane import Limits
from functions.core.share import EVENLY, Shares
from functions.store.bucket import give_back, reserve
from functions.store.claim import NO_ORGANIZATION, Leased, lease_page
from functions.store.connection import Database
from functions.store.stream import give_back_stream, reserve_stream
from functions.store.survey import Survey

PAGES_AT_ONCE = 8
"""Pages per lane, priority and round: uneven or locked organizations make them short. What is still
missing then waits for the next round, which goes on from the cursor."""


@dataclass(slots=True, kw_only=True)
class _Taking:
    """What a round takes of a channel: rows, and how many more of each stream it may."""

    channel: Survey
    room: dict[str, int]
    leased: list[Leased]


@dataclass(slots=True, kw_only=True)
class Leasing:
    """What one run of the loop leases with; to lose cursors and shares costs turns, no more."""

    database: Database
    leased_by: str
    _cursors: dict[tuple[str, str, str], UUID] = field(
        default_factory=dict[tuple[str, str, str], UUID]
    )
    _shares: dict[str, Shares] = field(default_factory=dict[str, Shares])
    _turns: dict[tuple[str, str], Shares] = field(default_factory=dict[tuple[str, str], Shares])

    def lease(self, channel: Survey, leased: list[Leased], *, limits: Limits) -> None:
        """Lease into ``leased`` what buckets, in-flight budget and ``limits`` allow."""
        ready = _open(channel, limits)
        if not ready:
            return
        budget = reserve(
            self.database, channel=channel.channel, wanted=channel.page, leased=channel.leased
        )
        if not budget:
            return
        taking = _Taking(
            channel=channel, room=self._room(channel, ready, limits, budget), leased=leased
        )
        shares = self._shares.setdefault(channel.channel, Shares()).split(budget, list(ready))
        spare = 0
        hungry: list[str] = []
        for priority, streams in ready.items():
            spare, more = self._lease_priority(taking, priority, streams, shares[priority] + spare)
            if more:
                hungry.append(priority)
        for priority in hungry:
            spare, _ = self._lease_priority(taking, priority, ready[priority], spare)
        self.give_back(channel, total=spare, by_stream=taking.room)

    def give_back(self, channel: Survey, *, total: int, by_stream: Mapping[str, int]) -> None:
        """Return ``total`` tokens to the channel's bucket, and theirs to streams that have one."""
        if total:
            give_back(self.database, channel=channel.channel, unused=total)
        for stream in channel.paced:
            if unused := by_stream.get(stream, 0):
                give_back_stream(
                    self.database, channel=channel.channel, stream=stream, unused=unused
                )

    def _room(
        self, channel: Survey, ready: Mapping[str, Sequence[str]], limits: Limits, budget: int
    ) -> dict[str, int]:
        """Return how many rows each stream may have, its own tokens taken."""
        room: dict[str, int] = {}
        for stream in dict.fromkeys(stream for streams in ready.values() for stream in streams):
            most = min(budget, limits.get((channel.channel, stream), budget))
            room[stream] = (
                reserve_stream(self.database, channel=channel.channel, stream=stream, wanted=most)
                if stream in channel.paced
                else most
            )
        return room

    def _lease_priority(
        self, taking: _Taking, priority: str, streams: Sequence[str], wanted: int
    ) -> tuple[int, bool]:
        """Lease up to ``wanted`` rows of the streams by turns; return how many are missing, and
        whether there may be more."""
        streams = [stream for stream in streams if taking.room[stream]]
        turns = self._turns.setdefault((taking.channel.channel, priority), Shares(EVENLY))
        shares = turns.split(wanted, streams)
        spare = wanted if not streams else 0
        hungry: list[str] = []
        for stream in streams:
            spare, more = self._lease_stream(taking, priority, stream, shares[stream] + spare)
            if more:
                hungry.append(stream)
        for stream in hungry:
            if stream == streams[-1]:
                break  # it was offered all that was left
            spare, _ = self._lease_stream(taking, priority, stream, spare)
        return spare, any(taking.room[stream] for stream in hungry)

    def _lease_stream(
        self, taking: _Taking, priority: str, stream: str, wanted: int
    ) -> tuple[int, bool]:
        """Lease up to ``wanted`` rows of one stream and priority; return as above."""
        channel = taking.channel
        lane = (channel.channel, stream, priority)
        missing = min(wanted, taking.room[stream])
        beyond, more = wanted - missing, True
        for _ in range(PAGES_AT_ONCE):
            if not missing or not more:
                break
            page = lease_page(
                self.database,
                channel=channel.channel,
                stream=stream,
                priority=priority,
                page=missing,
                after=self._cursors.get(lane, NO_ORGANIZATION),
                lease_seconds=channel.lease_seconds,
                leased_by=self.leased_by,
            )
            self._cursors[lane] = page.cursor
            taking.leased += page.leased
            taking.room[stream] -= len(page.leased)
            missing -= len(page.leased)
            more = page.more
        return beyond + missing, more


def _open(channel: Survey, limits: Limits) -> dict[str, list[str]]:
    """Return the streams with something ready that are not closed, by priority."""
    found = {
        priority: [s for s in streams if limits.get((channel.channel, s), 1)]
        for priority, streams in channel.ready.items()
    }
    return {priority: streams for priority, streams in found.items() if streams}
