"""A fact about an address that holds for every organization, for they all send from one number.

Who texts STOP to it tells the number, not one organization; whoever texts START takes that back.
"""

from dataclasses import dataclass, field
from datetime import datetime

from functions.core.suppression import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFact:
    """What somebody chose by writing to the number that all organizations send from.

    ``fact``  the choice, with its provenance
    ``at``    when it was made, None where that is not told: now
    ``lifts`` it takes back what was chosen so before, and nothing else
    """

    channel: str
    recipient: str = field(repr=False)
    recipient_hash: bytes
    fact: Fact
    at: datetime | None
    lifts: bool
