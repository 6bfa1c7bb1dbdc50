"""When a notification is due again after an attempt that did not end it.

d = min(base · 2^(k-1), cap), or min(base · k, cap) by the linear curve, and the delay is
d/2 + uniform(0, d/2), where k counts the attempts that spent budget: half of the wait is kept so
that retries spread without ever bunching at zero ("equal jitter"). A provider's Retry-After never
shortens it and is clamped to one hour.
"""

import random
from dataclasses import dataclass
from enum import StrEnum

MAX_RETRY_AFTER_SECONDS = 3600.0


class Curve(StrEnum):
    """As stored in ``channels.backoff_curve``."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"


class UnknownPolicy(StrEnum):
    """As stored in ``channels.unknown_policy``: what becomes of an attempt whose outcome nobody
    could find out, where no key makes another one safe."""

    RETRY = "retry"
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A channel's curve. Defaults (channels table): exponential, base 60 s, cap 30 min."""

    base_seconds: float
    cap_seconds: float
    curve: str = Curve.EXPONENTIAL

    def ceiling_seconds(self, attempts_spent: int) -> float:
        """Return d for the k-th spent attempt (k ≥ 1; 0 counts as 1)."""
        k = max(attempts_spent, 1)
        times = float(k) if self.curve == Curve.LINEAR else 2.0 ** min(k - 1, 62)
        return min(self.base_seconds * times, self.cap_seconds)

    def delay_seconds(
        self,
        attempts_spent: int,
        *,
        retry_after_seconds: float | None = None,
        uniform: float | None = None,
    ) -> float:
        """Return the wait before the next attempt; ``uniform`` in [0, 1) stands for the draw."""
        half = self.ceiling_seconds(attempts_spent) / 2
        delay = half + half * (random.random() if uniform is None else uniform)
        return max(delay, clamp_retry_after(retry_after_seconds))


def clamp_retry_after(seconds: float | None) -> float:
    """Return a provider's Retry-After within [0, 1 h]; 0 when it named none."""
    return min(max(seconds or 0.0, 0.0), MAX_RETRY_AFTER_SECONDS)
