"""A pace with a burst: at most so many at once, and then one each time a place becomes free.

The state is one moment, when the bucket will be full again (the generic cell rate algorithm): in t
hours at most limit · (1 + t) pass. Those that may not pass are given places one after the other, so
that they do not all come back for the same one.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

FARTHEST = timedelta(days=1)
"""Nobody is sent away for longer; who comes back too early is sent away again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """``full_at``: when the whole burst is there again; ``place_at``: the last place given away."""

    full_at: datetime | None = None
    place_at: datetime | None = None

    def wait(self, *, per_hour: int, now: datetime) -> datetime | None:
        """Return from when on one more may pass, None for now; the first place free, if none is."""
        step = _step(per_hour)
        free_at = (self.full_at or now) - step * (per_hour - 1)
        if free_at <= now:
            return None
        if self.place_at is not None:
            free_at = max(free_at, self.place_at + step)
        return min(free_at, now + FARTHEST)

    def taken(self, *, per_hour: int, now: datetime) -> "Bucket":
        """Return the bucket after one more has passed."""
        return replace(self, full_at=max(self.full_at or now, now) + _step(per_hour))

    def reserved(self, place_at: datetime) -> "Bucket":
        """Return the bucket with that place given away."""
        return replace(self, place_at=place_at)


FULL = Bucket()


def _step(per_hour: int) -> timedelta:
    return timedelta(hours=1) / per_hour
