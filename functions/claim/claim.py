"""One round of the claim: for each channel reserve, lease fair pages, decide, dispatch; and let
chains of fallback candidates go on."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from functions.claim.gate import Gates, Judged, judge, open_to_all
from functions.claim.lane import Limits, no_limits
from functions.claim.lease import Leasing
from functions.core.errors import Unavailable
from functions.core.message import LeaseMessage
from functions.core.policy import Allow
from functions.core.share import WEIGHTS
from functions.core.states import Channel
from functions.runtime.queue import Queues
from functions.store.chain import Advanced, advance
from functions.store.claim import Leased, record_verdicts, release
from functions.store.connection import Database
from functions.store.survey import (
    FIRST_PLACE,
    PROMOTED_AT_ONCE,
    Place,
    Survey,
    promote,
    promote_first,
    survey,
)

RUN = "claim"

CHAINS = "chains"
"""What trouble is told of that concerns no single channel."""

_RANK = {priority: place for place, priority in enumerate(WEIGHTS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a round did, per channel; ``generation`` is the newest run's."""

    generation: int
    more_is_due: bool
    """More has become due than could be promoted at once."""
    promoted: int
    claimed: Mapping[str, int]
    put_off: Mapping[str, int]
    """Leased as well, and not let through to the queue."""
    undispatched: int
    advanced: Advanced

    @property
    def was_idle(self) -> bool:
        """Nothing was claimed, and nothing waits for the next round."""
        return not (
            self.more_is_due
            or self.advanced.started
            or self.advanced.is_full
            or any(self.claimed.values())
            or any(self.put_off.values())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """How many rows were let through, and how many were not; and of the first, how many the queue
    did not take."""

    allowed: int
    stopped: int
    refused: int


def _raise(channel: str, error: Exception) -> None:
    del channel
    raise error


@dataclass(slots=True, kw_only=True)
class Claimer:
    """What one run of the loop works with."""

    database: Database
    queues: Queues
    leased_by: str
    lanes: Callable[[Sequence[Survey]], Limits] = no_limits
    """Tells once a round which streams are closed, or open to one row."""
    gates: Gates = open_to_all
    trouble: Callable[[str, Exception], None] = _raise
    """Is told, once a run, of a channel that could not be claimed from, or of chains that do not go
    on; the others do."""
    _leasing: Leasing = field(init=False)
    _troubled: set[str] = field(default_factory=set[str])
    _retries_off: frozenset[str] = frozenset()
    _place: Place = FIRST_PLACE

    def __post_init__(self) -> None:
        self._leasing = Leasing(database=self.database, leased_by=self.leased_by)

    def round(self) -> Round:
        """Promote what became due, claim what each channel's budget allows, and let chains go on:
        what they start is claimed by the next round, at once."""
        promoted, more_is_due = self._promote()
        channels = survey(self.database, run=RUN)
        self._note_retries(channels)
        limits = self.lanes(channels)
        claimed, put_off = Counter[str](), Counter[str]()
        undispatched = 0
        for channel in channels:
            if not channel.ready:
                continue
            leased: list[Leased] = []
            try:
                self._leasing.lease(channel, leased, limits=limits)
            except Unavailable:
                raise
            except Exception as error:  # what one channel's rows or numbers do stays with it
                self._tell(channel.channel, error)
            finally:  # what is leased goes out, even when the database went away in between
                sent = self._dispatch(channel, leased)
            claimed[channel.channel] = sent.allowed
            put_off[channel.channel] = sent.stopped
            undispatched += sent.refused
        advanced = self._advance()
        return Round(
            generation=max((channel.generation for channel in channels), default=0),
            more_is_due=more_is_due,
            promoted=promoted,
            claimed=claimed,
            put_off=put_off,
            undispatched=undispatched,
            advanced=advanced,
        )

    def _promote(self) -> tuple[int, bool]:
        """Make ready what became due; return how much, and whether more is due.

        While a channel's retries are off, those that are due stay where they are. A walk over all
        that is due remembers how far it got, so that each of them is passed over once in a run.
        """
        if not self._retries_off:
            promoted = promote(self.database)
            return promoted, promoted >= PROMOTED_AT_ONCE
        walk = promote_first(self.database, after=self._place)
        self._place = walk.place
        return walk.promoted, not walk.is_over

    def _note_retries(self, channels: Sequence[Survey]) -> None:
        """Begin the walk anew when retries were switched on or off somewhere."""
        off = frozenset(channel.channel for channel in channels if not channel.retries)
        if off != self._retries_off:
            self._retries_off, self._place = off, FIRST_PLACE

    def _advance(self) -> Advanced:
        """Let a page of chains go on; what stops them stops nothing else."""
        try:
            return advance(self.database)
        except Unavailable:  # the next round finds out; what this one claimed is to be counted
            return Advanced()
        except Exception as error:
            self._tell(CHAINS, error)
            return Advanced()

    def _tell(self, what: str, error: Exception) -> None:
        if what not in self._troubled:
            self._troubled.add(what)
            self.trouble(what, error)

    def _dispatch(self, channel: Survey, leased: Sequence[Leased]) -> _Sent:
        """Decide each row, store the verdicts, queue the allowed; release what was not queued."""
        judged = self._judge(channel, leased)
        record_verdicts(self.database, judged)
        stopped = Counter(row.stream for row, verdict in judged if not isinstance(verdict, Allow))
        self._leasing.give_back(channel, total=stopped.total(), by_stream=stopped)
        allowed = sorted(
            (row for row, verdict in judged if isinstance(verdict, Allow)),
            key=lambda row: _RANK[row.priority],
        )
        failed = self.queues.send(
            channel.channel,
            [
                LeaseMessage(id=row.id, lease_number=row.lease_number, channel=Channel(row.channel))
                for row in allowed
            ],
        )
        release(self.database, [(message.id, message.lease_number) for message in failed])
        return _Sent(allowed=len(allowed), stopped=stopped.total(), refused=len(failed))

    def _judge(self, channel: Survey, leased: Sequence[Leased]) -> Judged:
        """Return a verdict for each row; none when that fails, and their leases are given back:
        what cannot be decided is not sent. Their tokens are gone, so that it does not go round and
        round."""
        try:
            return judge(leased, database=self.database, retries=channel.retries, gates=self.gates)
        except Exception as error:
            release(self.database, [(row.id, row.lease_number) for row in leased])
            if isinstance(error, Unavailable):
                raise
            self._tell(channel.channel, error)
            return []
