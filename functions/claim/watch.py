"""Requests that wait to be taken in: seen by one probe a round, told to whoever drains them."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from aws_lambda_powertools import Logger

from functions.core.errors import Unavailable
from functions.runtime.doorbell import Doorbell
from functions.runtime.observability import describe
from functions.store.connection import Database
from functions.store.request import has_waiting

DRAIN = b'{"drain": true}'
"""The event that has ingest drain them."""

RING_SECONDS = 0.5
"""From one ring to the next: a drain that has begun is given the time to be done."""


@dataclass(slots=True, kw_only=True)
class RequestWatch:
    """Rings as long as something waits; ``ring`` returns why the last ring failed, if it did.

    Whatever goes wrong is told to ``trouble``, each kind once, and never stops the claim.
    """

    database: Database
    ring: Callable[[], Exception | None]
    trouble: Callable[[Exception], None]
    rest: Callable[[], None] = lambda: None
    """Called when the run is over."""
    clock: Callable[[], float] = time.monotonic
    _silent_until: float = float("-inf")
    _told: type[Exception] | None = None

    def look(self) -> None:
        """Ring if something waits. Raises Unavailable, as all of a round does."""
        if self.clock() < self._silent_until:
            return
        try:
            if not has_waiting(self.database):
                return
            self._silent_until = self.clock() + RING_SECONDS
            failed = self.ring()
        except Unavailable:
            raise
        except Exception as error:
            self._silent_until = self.clock() + RING_SECONDS
            failed = error
        if failed is not None and type(failed) is not self._told:
            self._told = type(failed)
            self.trouble(failed)


def watch_for(function_name: str, *, database: Database, logger: Logger) -> RequestWatch:
    """Return the watch that has ``function_name`` drain what waits."""
    doorbell = Doorbell(function_name, payload=DRAIN)

    def trouble(error: Exception) -> None:
        logger.error("Nobody can be told of requests that wait", extra=describe(error))

    return RequestWatch(database=database, ring=doorbell.ring, trouble=trouble, rest=doorbell.rest)
