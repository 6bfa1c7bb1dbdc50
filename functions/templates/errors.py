"""What keeps a template from becoming words.

Malformed          its source cannot be read: found when a version is made, with the line
Unrenderable       its source and these values give no words, within limits or at all
├── TooLong        what it gives is too long
├── Missing        a value is not there
└── Exhausted      it takes more steps than it may
    └── Overdrawn  not by itself, but with all that it is rendered together with
"""

from functions.core.errors import SendoffError, Unreadable


class Malformed(SendoffError):
    """The source of a template cannot be read."""

    code = "malformed_template"

    def __init__(self, detail: str, *, line: int) -> None:
        super().__init__(f"Line {line}: {detail}")
        self.line = line


class Unrenderable(Unreadable):
    """A template and its values give no words. Its detail never repeats a value."""

    item_code = "not_allowed"
    """What the fault of an item is called."""


class TooLong(Unrenderable):
    """What it gives is too long."""

    item_code = "too_long"


class Missing(Unrenderable):
    """A value that the template refers to is not there."""

    item_code = "missing_variable"


class Exhausted(Unrenderable):
    """It takes more steps than it may."""

    item_code = "too_many"


class Overdrawn(Exhausted):
    """It takes, with all that it is rendered together with, more steps than that may: the place
    where they ended says nothing."""
