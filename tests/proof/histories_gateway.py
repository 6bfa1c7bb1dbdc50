"""The providers of random histories: four kinds, one ledger of every call and every effect.

``http``          honours keys for a day, reports, can be asked
``webhook``       honours keys; acceptance is delivery
``http_keyless``  knows no keys, and so takes the same notification twice
``silent``        knows no keys and never reports
"""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from functions.core.declaration import Declaration
from functions.core.outcome import (
    Accepted,
    Blocked,
    Outcome,
    Refused,
    Rejected,
    Throttled,
    Transient,
    Unknown,
)
from functions.providers.choice import DECLARATIONS

SILENT = Declaration(name="silent", keyed=False, receipts=False)
ALL = (*DECLARATIONS, SILENT)
BY_NAME = {declaration.name: declaration for declaration in ALL}

BEHAVIOURS = (
    "accepted",
    "accepted final",
    "rejected",
    "refused",
    "transient",
    "throttled",
    "blocked",
    "unknown taken",
    "unknown lost",
)
"""How a provider answers; of the two unknown ones the first took it, and its answer was lost."""

DEFINITE = frozenset({"accepted", "accepted final", "rejected", "refused"})
"""What one that remembers a key answers with its first acceptance instead."""


@dataclass(slots=True, kw_only=True)
class Call:
    """An attempt that is open, and its sender's way with it."""

    id: UUID
    lease: int
    token: UUID
    channel: str
    declaration: Declaration
    key: str
    deadline: datetime
    """Until when its sender may still write the request."""
    outcome: str | None = None
    reference: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A call as the providers' ledger has it."""

    id: UUID
    token: UUID
    provider: str
    key: str
    at: datetime
    has_effect: bool
    reference: str


@dataclass(slots=True, kw_only=True)
class Gateways:
    made: list[Made] = field(default_factory=list[Made])

    def submit(self, call: Call, behaviour: str, *, now: datetime) -> None:
        """Let the provider take or refuse the call, and keep what its sender comes to know."""
        accepted = self.acceptance(call.declaration, call.key)
        if call.declaration.name == "webhook" and behaviour == "accepted":
            behaviour = "accepted final"
        if accepted is not None and behaviour in DEFINITE:
            behaviour = "accepted final" if call.declaration.name == "webhook" else "accepted"
        takes = behaviour in ("accepted", "accepted final", "unknown taken")
        reference = accepted.reference if accepted else f"reference-{len(self.made)}"
        self.made.append(
            Made(
                id=call.id,
                token=call.token,
                provider=call.declaration.name,
                key=call.key,
                at=now,
                has_effect=takes and accepted is None,
                reference=reference,
            )
        )
        call.outcome = behaviour.partition(" ")[0] if "unknown" in behaviour else behaviour
        call.reference = reference

    def acceptance(self, declaration: Declaration, key: str) -> Made | None:
        """Return the first acceptance under ``key``, where the provider remembers keys."""
        return next(
            (
                made
                for made in self.made
                if declaration.keyed
                and (made.provider, made.key, made.has_effect) == (declaration.name, key, True)
            ),
            None,
        )

    def effects(self, id: UUID) -> list[Made]:
        """Return what really reached the recipient."""
        return [made for made in self.made if made.id == id and made.has_effect]


def outcome_of(call: Call) -> Outcome:
    """Return the outcome as the product's sender hands it on."""
    match call.outcome:
        case "accepted":
            return Accepted(reference=call.reference)
        case "accepted final":
            return Accepted(reference=call.reference, final=True)
        case "rejected":
            return Rejected(code="400")
        case "refused":
            return Refused(code="410")
        case "transient":
            return Transient(code="503")
        case "throttled":
            return Throttled(code="429")
        case "blocked":
            return Blocked(code="401")
        case "unknown":
            return Unknown(code="timeout")
        case _:
            return Transient(code="deadline", begun=False)
