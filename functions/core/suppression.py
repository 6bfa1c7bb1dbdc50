"""Facts about an address: why nothing may be sent to it, and who says so."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MAX_SOURCE_CHARACTERS = 128
MAX_EVIDENCE_BYTES = 16 * 1024
"""As JSON, of a fact that somebody states."""


class SuppressionReason(StrEnum):
    """As stored in ``suppressions.reason`` (API.md)."""

    HARD_BOUNCE = "hard_bounce"
    COMPLAINT = "complaint"
    INVALID = "invalid"
    RECIPIENT_CHOICE = "recipient_choice"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """That an address is not to be written to again, and its provenance.

    ``source`` names who says so (``ses:event``, ``ses:account_list``, ``sms:opt_out`` …);
    ``evidence`` is what they said it with, and holds no address.
    """

    reason: SuppressionReason
    source: str
    evidence: dict[str, Any] = field(default_factory=dict[str, Any])
