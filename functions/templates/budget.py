"""How much work templates may make: counted in steps, never measured in time.

A step is a node rendered, a turn of a loop, a variable looked up, a filter applied, or some
characters or one element of a value that is handled: about a microsecond each, and never more than
a few, for what is about to be done is paid for first. The same template with the same values takes
the same number of steps on every machine and on every day, so what was accepted is never refused
when it is sent, and an endless loop ends all the same. `python -m tests.proof.template_steps`
measures what a step takes.

The bounds lie within each other. A sender renders ten notifications before it begins with one, so
the ten heaviest ones have to be read and rendered long before its time is up.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from functions.templates.errors import Exhausted, Overdrawn

PART_STEPS = 20_000
"""To render one part (a subject, a text, …): a table of some hundred rows."""
NOTIFICATION_STEPS = 40_000
"""To render all parts of one notification, in one language of one channel."""
ITEM_STEPS = 300_000
"""To try an item in every language of every channel that it may be sent by."""
REQUEST_STEPS = 3_000_000
"""Of all items of a request, and of reading their templates: some seconds."""

PLACE_READING_STEPS = 40_000
"""To read the sources of one language of a channel: some 2,000 statements."""
VERSION_READING_STEPS = 250_000
"""To read all sources of one version."""
REQUEST_READING_STEPS = 1_000_000
"""To read the sources of all versions that a request names, whether or not they were read before.
So much is kept compiled: within a request nothing is compiled twice."""

CHARACTERS_PER_STEP = 64

IN_A_PART = "It takes more steps than a template may."
IN_A_NOTIFICATION = "Its parts take more steps together than a notification may."
IN_AN_ITEM = "In all of its languages and channels it takes more steps than a notification may."
IN_A_REQUEST = "The batch as a whole takes more steps than a request may; send it in smaller ones."

_WEIGHTY = (str, int, list, tuple, dict)


@dataclass(slots=True)
class Budget:
    """The steps that are left; as it is made, those of a request."""

    left: int = REQUEST_STEPS
    detail: str = IN_A_REQUEST
    """What is said when there are none."""
    kind: type[Exhausted] = Overdrawn
    reading_left: int = REQUEST_READING_STEPS
    _read: set[tuple[str, bool]] = field(default_factory=set[tuple[str, bool]], repr=False)

    def spend(self, steps: int) -> None:
        """Raise Exhausted when fewer than ``steps`` are left."""
        self.left -= steps
        if self.left < 0:
            raise self.kind(self.detail)

    def weigh(self, value: Any) -> None:
        """Spend what it takes to handle ``value``, all of it."""
        if isinstance(value, str):
            self.spend(1 + len(value) // CHARACTERS_PER_STEP)
        elif isinstance(value, int):
            self.spend(1 + value.bit_length() // CHARACTERS_PER_STEP)
        elif isinstance(value, list | tuple):
            elements = cast("list[Any]", value)
            self.spend(1 + len(elements))
            for element in elements:
                if isinstance(element, _WEIGHTY):
                    self.weigh(element)
        elif isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            self.spend(1 + len(members))
            for name, member in members.items():
                self.spend(len(name) // CHARACTERS_PER_STEP)
                if isinstance(member, _WEIGHTY):
                    self.weigh(member)
        else:
            self.spend(1)

    def read(self, source: str, *, is_html: bool, steps: int) -> None:
        """Spend the ``steps`` that it takes to read ``source``, once, whether or not it was read
        before: what lies in a cache must not decide."""
        if (source, is_html) in self._read:
            return
        self._read.add((source, is_html))
        self.spend(steps)
        self.reading_left -= steps
        if self.reading_left < 0:
            self.left = 0
            raise self.kind(self.detail)

    @contextmanager
    def within(
        self, most: int, detail: str, *, kind: type[Exhausted] = Exhausted
    ) -> "Generator[Budget]":
        """Give at most ``most`` steps of it; what is spent of them is taken off at the end."""
        if self.left < most:
            share = Budget(max(self.left, 0), self.detail, self.kind)
        else:
            share = Budget(most, detail, kind)
        given = share.left
        try:
            yield share
        finally:
            self.left -= given - max(share.left, 0)
