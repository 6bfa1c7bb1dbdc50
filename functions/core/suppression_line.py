"""A suppression as a line of a file: its columns, and how it is read, by the rules of the API.

column          content
channel         email, sms, push or webhook
recipient       the address, in any spelling that the API takes
recipient_hash  instead of the address: 64 hexadecimal digits, of the installation they come from
category        empty: every one
reason          as in the API
source          who says so; empty: ``import``
source_at       when they said it, with its offset; empty: now
evidence        JSON; empty: none

A file with history has three more, of which a line that does not hold any more is known: it is
passed over, for to state it again would suppress who is not suppressed.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functions.core.content import MAX_DEPTH, encoded_bytes, is_too_deep
from functions.core.errors import RequestRefused
from functions.core.recipient import InvalidRecipient, normalise, recipient_hash
from functions.core.states import CATEGORY, Channel
from functions.core.strict_json import UNSTORABLE, MalformedJson, parse
from functions.core.suppression import (
    MAX_EVIDENCE_BYTES,
    MAX_SOURCE_CHARACTERS,
    SuppressionReason,
)
from functions.core.times import DETAIL, InvalidTime, parse_time

COLUMNS = (
    "channel",
    "recipient",
    "category",
    "reason",
    "source",
    "source_at",
    "evidence",
    "recipient_hash",
)
OF_HISTORY = ("kind", "active", "created_at")
NEEDED = ("channel", "reason")
SOURCE = "import"

_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedFact:
    """A suppression that a line states; what the line left out is None and says nothing."""

    channel: str
    recipient: str | None
    """None when only its hash is known."""
    recipient_hash: bytes
    category: str | None
    reason: str
    source: str | None
    source_at: datetime | None
    evidence: str | None
    """JSON."""


class Refused(RequestRefused):
    """A line states nothing; says which cell is wrong, and never repeats it."""

    def __init__(self, column: str, item_code: str, detail: str) -> None:
        super().__init__(f"{column}: {detail}" if column else detail)
        self.item_code = item_code


def is_history(line: Mapping[str, str]) -> bool:
    """Whether the line tells of a fact that has been lifted or replaced since, or of a lift."""
    kind, active = (line.get(name, "").strip().lower() for name in ("kind", "active"))
    return kind == "lift" or active == "false"


def read_line(
    line: Mapping[str, str], *, hash_key: bytes, local_webhook_origin: str = ""
) -> StatedFact:
    """Return what the cells of ``line`` state, by column; raise Refused.

    Spaces around a cell say nothing: spreadsheets leave them.
    """
    cells = {name: text.strip() for name, text in line.items()}
    for name, text in cells.items():
        if UNSTORABLE.search(text):
            raise Refused(name, "not_encodable", "It is not text in UTF-8, or contains U+0000.")
    channel = _channel(cells.get("channel", ""))
    recipient, hashed = _address(
        channel, cells, hash_key=hash_key, local_webhook_origin=local_webhook_origin
    )
    return StatedFact(
        channel=channel,
        recipient=recipient,
        recipient_hash=hashed,
        category=_category(cells.get("category", "")),
        reason=_reason(cells.get("reason", "")),
        source=_source(cells.get("source", "")),
        source_at=_source_at(cells.get("source_at", "")),
        evidence=_evidence(cells.get("evidence", "")),
    )


def _channel(text: str) -> Channel:
    try:
        return Channel(text.lower())
    except ValueError:
        detail = f"It is one of {', '.join(Channel)}."
        raise Refused("channel", "wrong_type" if text else "required", detail) from None


def _address(
    channel: Channel, cells: Mapping[str, str], *, hash_key: bytes, local_webhook_origin: str
) -> tuple[str | None, bytes]:
    """Return the address, if there is one, and its hash."""
    text, digits = (cells.get(name, "") for name in ("recipient", "recipient_hash"))
    given = bytes.fromhex(digits) if _HASH.fullmatch(digits) else None
    if digits and given is None:
        raise Refused("recipient_hash", "wrong_type", "It is 64 hexadecimal digits.")
    if not text:
        if given is None:
            raise Refused("recipient", "required", "There is neither an address nor its hash.")
        return None, given
    try:
        recipient = normalise(channel, text, local_webhook_origin=local_webhook_origin)
    except InvalidRecipient as error:
        raise Refused("recipient", error.item_code, error.detail) from None
    hashed = recipient_hash(hash_key, channel, recipient)
    if given not in (None, hashed):
        detail = "It is not the hash of the address, or it is of another installation."
        raise Refused("recipient_hash", "not_allowed", detail)
    return recipient, hashed


def _category(text: str) -> str | None:
    if text and re.fullmatch(CATEGORY, text) is None:
        raise Refused("category", "wrong_type", "It is 1 to 64 of a-z, 0-9, _ and -, or empty.")
    return text or None


def _reason(text: str) -> SuppressionReason:
    try:
        return SuppressionReason(text.lower())
    except ValueError:
        detail = f"It is one of {', '.join(SuppressionReason)}."
        raise Refused("reason", "wrong_type" if text else "required", detail) from None


def _source(text: str) -> str | None:
    if len(text) > MAX_SOURCE_CHARACTERS:
        detail = f"It has at most {MAX_SOURCE_CHARACTERS} characters."
        raise Refused("source", "too_long", detail)
    return text or None


def _source_at(text: str) -> datetime | None:
    try:
        return parse_time(text) if text else None
    except InvalidTime:
        raise Refused("source_at", "invalid_time", DETAIL) from None


def _evidence(text: str) -> str | None:
    if not text:
        return None
    try:
        value, faults = parse(text.encode())
    except MalformedJson:
        raise Refused("evidence", "malformed_json", "It is not JSON, or it is empty.") from None
    if faults:
        raise Refused("evidence", faults[0].code, faults[0].detail)
    if is_too_deep(value):
        detail = f"It is nested deeper than {MAX_DEPTH} levels."
        raise Refused("evidence", "not_encodable", detail)
    if encoded_bytes(value) > MAX_EVIDENCE_BYTES:
        detail = f"It has at most {MAX_EVIDENCE_BYTES} bytes as JSON."
        raise Refused("evidence", "too_long", detail)
    return None if value is None else written(value)


def written(value: Any) -> str:
    """Return JSON as it is compared: equal values are equal texts."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
