"""A fact about an address that holds for every organization, not only for one.

All of them send from one number and by one application. Who texts STOP to the number tells it, not
one organization, and whoever texts START takes that back; and a device that is gone is nobody's.
"""

from dataclasses import dataclass, field
from datetime import datetime

from functions.core.suppression import Fact, SuppressionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFact:
    """What is so for everybody who sends to an address.

    ``fact``  why nothing is to be sent to it, with its provenance
    ``at``    since when, None where that is not told: now
    ``lifts`` it takes back what was chosen so before, and nothing else
    """

    channel: str
    recipient: str = field(repr=False)
    recipient_hash: bytes
    fact: Fact
    at: datetime | None
    lifts: bool = False

    @property
    def is_choice(self) -> bool:
        """Whether the recipient chose it: of what one chose, the last holds."""
        return self.fact.reason == SuppressionReason.RECIPIENT_CHOICE
