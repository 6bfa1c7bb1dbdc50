"""Standard Webhooks signatures (https://www.standardwebhooks.com), symmetric scheme v1.

The signed content is ``{webhook-id}.{webhook-timestamp}.{body}``, over the bytes as sent. Several
signatures may stand in the header, and several secrets may be live during a rotation: one match
is enough. Comparison is constant-time. Tolerance is five minutes either way.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Mapping

from functions.core.errors import RequestRefused

SECRET_PREFIX = "whsec_"
TOLERANCE_SECONDS = 300
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


class BadSignature(RequestRefused):
    """The signature is missing, malformed, wrong or too old."""

    code = "unauthenticated"


class BadTimestamp(RequestRefused):
    """The webhook-timestamp is not a whole number of seconds."""

    code = "malformed_json"


def key_of(secret: str) -> bytes:
    """Return the key bytes of a ``whsec_…`` secret (the prefix is optional)."""
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("A webhook secret is whsec_ and base64.") from error


def _digest(secret: str, message_id: str, timestamp: int, body: bytes) -> bytes:
    content = f"{message_id}.{timestamp}.".encode() + body
    return hmac.new(key_of(secret), content, hashlib.sha256).digest()


def sign(body: bytes, *, message_id: str, timestamp: int, secrets: Iterable[str]) -> dict[str, str]:
    """Return the three headers for ``body``, signed with every secret in turn."""
    signatures = (
        "v1," + base64.b64encode(_digest(secret, message_id, timestamp, body)).decode()
        for secret in secrets
    )
    return {ID: message_id, TIMESTAMP: str(timestamp), SIGNATURE: " ".join(signatures)}


def verify(body: bytes, *, headers: Mapping[str, str], secrets: Iterable[str], now: float) -> str:
    """Return the webhook-id of a request signed with one of ``secrets``; raise BadSignature.

    Header names are compared without case. ``now`` is unix seconds by the database's clock.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    message_id = lower.get(ID, "")
    presented = lower.get(SIGNATURE, "").split(" ")
    if not message_id or TIMESTAMP not in lower or SIGNATURE not in lower:
        raise BadSignature("The Standard Webhooks headers are missing.")
    stamp = lower[TIMESTAMP].strip()
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        raise BadTimestamp
    timestamp = int(stamp)
    expected = [
        b"v1," + base64.b64encode(_digest(secret, message_id, timestamp, body))
        for secret in secrets
    ]
    matches = [
        hmac.compare_digest(one, other.encode("utf-8", "replace"))
        for one in expected
        for other in presented
    ]
    if not any(matches):
        raise BadSignature("The signature does not match.")
    if abs(now - timestamp) > TOLERANCE_SECONDS:
        raise BadSignature("The webhook-timestamp is more than five minutes away from now.")
    return message_id
