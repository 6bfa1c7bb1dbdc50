"""Take in what was requested by SQL: each becomes a notification, repeats one, or is told invalid.

A page is taken and judged organization by organization, what is cheap first. What is not judged in
time is given back at once; so is everything else before a request is judged that takes long: while
it is, another drain, half a second later, has all that waits.
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING
from uuid import UUID

from functions.ingest.deployment import Deployment
from functions.ingest.settle import Drained, take_in
from functions.store.connection import is_about_a_row
from functions.store.drain import MOST_AT_ONCE, Waiting, give_back, hold, take, take_again
from functions.templates.budget import Budget

if TYPE_CHECKING:
    import psycopg

SECONDS = 2.0
"""A drain's life. While something is left whoever saw it starts another: so many are never at it
that they would be in the way of the API."""

QUICK_STEPS = 100_000
"""What requests by template are given together at first: a quarter of a second, some hundred
receipts. One that takes more has to wait until it is alone, and is given all that a request is."""

TEMPLATES_AT_ONCE = 20
PLAIN_AT_ONCE = 100


def drain(
    deployment: Deployment,
    *,
    seconds: float = SECONDS,
    most: int = MOST_AT_ONCE,
    clock: Callable[[], float] = time.monotonic,
) -> Drained:
    """Take in what waits, page by page, until nothing does that is free, or ``seconds`` are over.

    Raises Unavailable; what was not taken in then waits as before.
    """
    deployment.hash_key()  # without it nothing can be judged, and nothing is to blame for that
    draining = _Drain(deployment=deployment, clock=clock, ends_at=clock() + seconds)
    try:
        while draining.go_on(most) and not draining.is_over:
            pass
    except Exception as error:
        if not is_about_a_row(error):  # else one of them is to blame: each is taken alone, later
            with contextlib.suppress(Exception):  # the first error is the one to tell
                draining.give_back()
        raise
    return draining.drained


@dataclass(slots=True, kw_only=True)
class _Drain:
    """What is in the hands of this drain, and what came of the rest."""

    deployment: Deployment
    clock: Callable[[], float]
    ends_at: float
    drained: Drained = field(default_factory=Drained)
    _held: dict[UUID, Waiting] = field(default_factory=dict[UUID, Waiting])

    @property
    def is_over(self) -> bool:
        return self.clock() >= self.ends_at

    def go_on(self, most: int) -> bool:
        """Take in a page, as far as there is time, and then what needs to be alone: one request in
        any case; return whether there was anything."""
        page = self._take(partial(take, most=most))
        heavy = self._take_in(page)
        alone = self._take(take_again) or heavy  # never both: it may be the end of this process
        self._give_back_but(alone)
        for place, one in enumerate(alone):
            if place == 0 or not self.is_over:
                self._settled([one], *take_in([one], self.deployment))
        self.give_back()
        return bool(page or alone)

    def give_back(self) -> None:
        """Give back all that is held."""
        self._give_back_but(())

    def _give_back_but(self, kept: Sequence[Waiting]) -> None:
        others = [self._held[id] for id in self._held.keys() - {one.id for one in kept}]
        if others:
            self.deployment.database.run(lambda connection: give_back(connection, others))
        self._held = {one.id: one for one in kept}

    def _take(self, work: Callable[["psycopg.Connection"], list[Waiting]]) -> list[Waiting]:
        taken: list[Waiting] = []

        def once(connection: "psycopg.Connection") -> list[Waiting]:
            nonlocal taken
            if not (taken and hold(connection, taken)):  # else its commit had no answer, and held
                taken = work(connection)
            return taken

        self.deployment.database.run(once)
        self._held |= {one.id: one for one in taken}
        return taken

    def _take_in(self, page: Sequence[Waiting]) -> list[Waiting]:
        """Take in of ``page`` what is quickly judged; return what is not: of each organization one,
        for then its turn is over."""
        heavy: list[Waiting] = []
        turns = deque(_turns(page))
        while turns:
            turn = turns.popleft()
            some, budget = turn, None
            if turn[0].by_template:
                some, budget = turn[:TEMPLATES_AT_ONCE], Budget(QUICK_STEPS)
            count = self._settled(some, *take_in(some, self.deployment, budget=budget))
            if count == 0:
                heavy.append(turn[0])
            elif turn[count:]:
                turns.append(turn[count:])
            if self.is_over:
                break
        return heavy

    def _settled(self, requests: Sequence[Waiting], drained: Drained, count: int) -> int:
        """Count what came of the first ``count`` of ``requests``, which are in no hands now."""
        self.drained.add(drained)
        for one in requests[:count]:
            del self._held[one.id]
        return count


def _turns(page: Sequence[Waiting]) -> list[list[Waiting]]:
    """Return what is judged together: first what has no template, of several organizations; then
    what has one, by organizations. Of both kinds first of whoever asks for the least."""
    by_kind = sorted(page, key=lambda one: (one.by_template, one.organization_id, one.id))
    groups = [
        list(group)
        for _, group in groupby(by_kind, key=lambda one: (one.by_template, one.organization_id))
    ]
    turns: list[list[Waiting]] = []
    for group in sorted(groups, key=lambda group: (group[0].by_template, len(group))):
        if turns and not group[0].by_template and len(turns[-1]) + len(group) <= PLAIN_AT_ONCE:
            turns[-1] += group
        else:
            turns.append(group)
    return turns
