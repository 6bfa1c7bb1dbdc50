"""What a provider promises, and so what may be done about an attempt whose outcome is unknown."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The promises of one provider, by the name that ``channels.provider`` has.

    How long evidence is waited for and what then happens are tunable numbers of the channel
    (``grace_seconds``, ``unknown_policy``), not promises.
    """

    name: str
    keyed: bool
    """The same key never takes effect twice: an unknown outcome may be tried again under it."""
    key_window_seconds: float | None = None
    """For how long a key is remembered from its first use; None is for ever. After it, an unknown
    outcome is held for a person, not tried again."""
    receipts: bool
    """The provider reports later what became of an accepted notification. Where it does not, an
    accepted one ends as unconfirmed at once."""
    looks_up: bool = False
    """The provider can be asked what became of a notification."""
    reports_as: str | None = None
    """Under which provider's name its reports come, if not its own."""

    @property
    def door(self) -> str:
        """The name under which its reports come."""
        return self.reports_as or self.name


def names_of_keyed(declarations: Sequence[Declaration]) -> list[str]:
    """Return the providers that honour our key, so that an unknown outcome is tried again."""
    return [declaration.name for declaration in declarations if declaration.keyed]


def names_of_looking_up(declarations: Sequence[Declaration]) -> list[str]:
    """Return the providers that can be asked."""
    return [declaration.name for declaration in declarations if declaration.looks_up]


def names_reporting_as(declarations: Sequence[Declaration], door: str) -> list[str]:
    """Return the providers whose reports come under the name ``door``."""
    return [declaration.name for declaration in declarations if declaration.door == door]
