"""Cursors: where a list goes on, authenticated and bound to whose list of what it is.

A cursor is an id and a code over organization, list, filters and id. It cannot be made up, changed,
carried to another organization or used with other filters; nothing of it reaches SQL unchecked.
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from functions.core.problem import Refused

_ID_BYTES = 16
_CODE_BYTES = 16
_PURPOSE = b"sendoff cursor 1"


def cursor_key(hash_key: bytes) -> bytes:
    """Return the key of cursors, derived from the hash secret for this purpose alone."""
    return hmac.digest(hash_key, _PURPOSE, hashlib.sha256)


def write_cursor(
    key: bytes, *, organization_id: UUID, filters: Mapping[str, Any], last_id: UUID
) -> str:
    """Return the cursor after ``last_id``; ``filters`` names the list and what narrows it."""
    code = _code(key, organization_id, filters, last_id.bytes)
    return _text(last_id.bytes + code)


def read_cursor(
    key: bytes, text: str, *, organization_id: UUID, filters: Mapping[str, Any]
) -> UUID:
    """Return the id that the list goes on after; refuse every cursor that is not ours for this."""
    try:
        token = base64.b64decode(text.encode("ascii") + b"=", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        token = b""
    last_id, code = token[:_ID_BYTES], token[_ID_BYTES:]
    expected = _code(key, organization_id, filters, last_id)
    is_whole = len(token) == _ID_BYTES + _CODE_BYTES and _text(token) == text
    if not is_whole or not hmac.compare_digest(code, expected):
        raise Refused(
            "invalid_cursor", "The cursor is not one of this list with these filters. Start anew."
        )
    return UUID(bytes=last_id)


def _text(token: bytes) -> str:
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def _code(key: bytes, organization_id: UUID, filters: Mapping[str, Any], last_id: bytes) -> bytes:
    bound = json.dumps(filters, sort_keys=True, default=str).encode()
    content = b"\0".join((organization_id.bytes, hashlib.sha256(bound).digest(), last_id))
    return hmac.digest(key, content, hashlib.sha256)[:_CODE_BYTES]
