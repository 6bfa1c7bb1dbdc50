"""How much work templates may make: counted in steps, never measured in time.

A step is a node rendered, a turn of a loop, a variable looked up, a filter applied, or 64
characters or one element of a value that is handled: one to a few microseconds each. The same
template with the same values takes the same number of steps on every machine and on every day, so
what was accepted is never refused when it is sent, and an endless loop ends all the same.
"""

from dataclasses import dataclass, field
from typing import Any, cast

from functions.templates.errors import Exhausted

PART_STEPS = 50_000
"""Of one part (a subject, a text, …): a table of some thousand cells."""
REQUEST_STEPS = 1_000_000
"""Of everything that one request has rendered: some seconds."""
VERSION_STEPS = 250_000
"""To read all sources of one version: some 20,000 statements."""
CHARACTERS_PER_STEP = 64
STATEMENT_STEPS = 12
"""Of one ``{{ … }}`` or ``{% … %}`` when its source is read."""

_WEIGHTY = (str, int, list, tuple, dict)


@dataclass(slots=True)
class Budget:
    """The steps that are left; one for everything that a request renders."""

    left: int = REQUEST_STEPS
    _read: set[str] = field(default_factory=set[str], repr=False)

    def spend(self, steps: int) -> None:
        """Raise Exhausted when fewer than ``steps`` are left."""
        self.left -= steps
        if self.left < 0:
            raise Exhausted("It takes more steps than a template may.")

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

    def read(self, source: str) -> None:
        """Spend what it takes to read ``source``, once, whether or not it was read before: what
        lies in a cache must not decide."""
        if source not in self._read:
            self._read.add(source)
            statements = source.count("{{") + source.count("{%")
            self.spend(1 + len(source) // CHARACTERS_PER_STEP + statements * STATEMENT_STEPS)

    def part(self) -> "Budget":
        """Return what one part may take of it."""
        return Budget(min(self.left, PART_STEPS))

    def settle(self, part: "Budget") -> None:
        """Take off what ``part`` has spent."""
        self.left = max(0, self.left - min(self.left, PART_STEPS) + max(0, part.left))
