"""Parts of an SMS: how a text is encoded, and as how many messages it travels and is billed.

A part is 140 bytes: 160 units of the GSM 7-bit alphabet or 70 of UCS-2 (UTF-16 code units). Of a
text that needs several, each spends 6 bytes on its place among them and holds 153 or 67. What takes
two units (an escaped character, a surrogate pair) is never split over two parts (3GPP TS 23.038 and
23.040). One character outside of the alphabet turns the whole text to UCS-2.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

# 3GPP TS 23.038, 6.2.1: the default alphabet, but for the escape itself, in the order of its codes.
_BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞ"
    "ÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
# 6.2.1.1: these are written as an escape and a second code.
_ESCAPED = frozenset("\f^{}\\[~]|€")
_GSM = _BASIC | _ESCAPED


class Encoding(StrEnum):
    GSM_7 = "GSM-7"
    UCS_2 = "UCS-2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A text as it travels: ``units`` are septets or UTF-16 code units, ``segments`` its parts."""

    encoding: Encoding
    units: int
    segments: int


def encoded(text: str) -> Encoded:
    """Return how ``text`` travels; an empty one is still a message."""
    if _GSM.issuperset(text):
        sizes = [2 if character in _ESCAPED else 1 for character in text]
        encoding, alone, together = Encoding.GSM_7, 160, 153
    else:
        sizes = [2 if character > "\uffff" else 1 for character in text]
        encoding, alone, together = Encoding.UCS_2, 70, 67
    units = sum(sizes)
    segments = 1 if units <= alone else _parts(sizes, room=together)
    return Encoded(encoding=encoding, units=units, segments=segments)


def _parts(sizes: Iterable[int], *, room: int) -> int:
    """Return how many parts of ``room`` units hold characters of these sizes, none of them cut."""
    parts, left = 1, room
    for size in sizes:
        if size > left:
            parts, left = parts + 1, room
        left -= size
    return parts
