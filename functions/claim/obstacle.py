"""What lies in the way of single rows: a country that is closed, an endpoint that is in trouble.

Whole lanes that are closed are passed over before anything is leased (lane.py). These are not: what
is for them is due again when somebody is to find out, and the oldest of it does. An endpoint that
fails has so many calls at once and no more: what hangs for one receiver leaves room for the others.
One that works has as many as there are.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from functions.claim.gate import Judged
from functions.core.breaker import ENDPOINT_PROBE_SECONDS, PROBE_SECONDS
from functions.core.outcome import Scope
from functions.core.policy import Allow, Defer, Verdict
from functions.store.breaker import OpenBreaker, open_breakers
from functions.store.channel import ChannelRow
from functions.store.claim import Leased
from functions.store.connection import Database
from functions.store.endpoint import Trouble, troubles_of

COUNTRY_BLOCKED = "country_blocked"
ENDPOINT_PAUSED = "endpoint_paused"
ENDPOINT_BUSY = "endpoint_busy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """The gates of one run; ``channel`` gives a channel's numbers."""

    database: Database
    channel: Callable[[str], ChannelRow]

    def gates(self, leased: Sequence[Leased]) -> Judged:
        """Return a verdict for each row, the rows of an endpoint or a country in their order."""
        groups: defaultdict[_Group, list[Leased]] = defaultdict(list)
        for row in leased:
            groups[_group_of(row)].append(row)
        endpoints = {(row.organization_id, row.origin) for row in leased if row.origin}
        troubles: dict[_Group, Trouble] = {
            (one.organization_id, one.origin): one for one in troubles_of(self.database, endpoints)
        }
        closed = self._closed_countries(leased)
        judged: Judged = []
        for group, rows in groups.items():
            if (trouble := troubles.get(group)) is not None:
                judged += self._at_endpoint(rows, trouble)
            elif (breaker := closed.get(group)) is not None:
                judged += _at_country(rows, breaker)
            else:
                judged += [(row, Allow()) for row in rows]
        return judged

    def _closed_countries(self, leased: Sequence[Leased]) -> dict["_Group", OpenBreaker]:
        """Return the breakers that close a country to each provider that its channel has."""
        if not any(row.country for row in leased):
            return {}
        closing: defaultdict[tuple[str, str], list[OpenBreaker]] = defaultdict(list)
        for one in open_breakers(self.database):
            if one.scope == Scope.COUNTRY:
                closing[one.channel, one.key].append(one)
        closed: dict[_Group, OpenBreaker] = {}
        for (name, country), breakers in closing.items():
            channel = self.channel(name)
            used = {channel.provider, channel.fallback_provider} - {None}
            mine = [one for one in breakers if one.provider in used]
            if len(mine) == len(used):
                closed[name, country] = min(mine, key=lambda one: one.probe_at)
        return closed

    def _at_endpoint(self, rows: Sequence[Leased], trouble: Trouble) -> Judged:
        if trouble.is_paused and trouble.probe_at is not None:
            return _while_closed(
                rows,
                until=trouble.probe_at,
                is_due=trouble.is_due,
                again_seconds=ENDPOINT_PROBE_SECONDS,
                reason=ENDPOINT_PAUSED,
            )
        channel = self.channel(rows[0].channel)
        others = max(trouble.in_flight - len(rows), 0)
        judged: Judged = []
        for place, row in enumerate(rows, start=others):
            turns = place // channel.endpoint_concurrency
            seconds = turns * channel.provider_deadline_seconds
            judged.append((row, _later(row, seconds, ENDPOINT_BUSY) if turns else Allow()))
        return judged


_Group = tuple[UUID | str, str]
"""An endpoint (organization, origin) or a country (channel, country); rows of neither: their
channel."""


def _group_of(row: Leased) -> _Group:
    if row.origin:
        return row.organization_id, row.origin
    return row.channel, row.country or ""


def _at_country(rows: Sequence[Leased], breaker: OpenBreaker) -> Judged:
    return _while_closed(
        rows,
        until=breaker.probe_at,
        is_due=breaker.is_due,
        again_seconds=PROBE_SECONDS,
        reason=COUNTRY_BLOCKED,
    )


def _while_closed(
    rows: Sequence[Leased], *, until: datetime, is_due: bool, again_seconds: float, reason: str
) -> Judged:
    """Let the first of ``rows`` find out when it is time; all others wait for what it finds."""
    if not is_due:
        return [(row, Defer(until=until, reason=reason, blocked=True)) for row in rows]
    first, *rest = rows
    return [(first, Allow()), *((row, _later(row, again_seconds, reason)) for row in rest)]


def _later(row: Leased, seconds: float, reason: str) -> Verdict:
    return Defer(until=row.now + timedelta(seconds=seconds), reason=reason, blocked=True)
