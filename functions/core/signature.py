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
from dataclasses import dataclass

from functions.core.errors import RequestRefused

SECRET_PREFIX = "whsec_"
TOLERANCE_SECONDS = 300
MAX_ID_CHARACTERS = 256
MAX_TIMESTAMP_DIGITS = 12
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


class BadSignature(RequestRefused):
    """The signature is missing, malformed, wrong or too old."""

    code = "unauthenticated"


class BadTimestamp(RequestRefused):
    """The webhook-timestamp is not a whole number of seconds."""

    code = "malformed_json"


def key_of(secret: str) -> bytes:
    """Return the key bytes of a ``whsec_…`` secret (the prefix and the padding are optional)."""
    text = secret.removeprefix(SECRET_PREFIX)
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A request whose signature is right; its age is another question."""

    message_id: str
    timestamp: int

    def check_age(self, now: float) -> None:
        """Raise BadSignature when the request was signed too far from ``now`` (unix seconds)."""
        if not abs(now - self.timestamp) <= TOLERANCE_SECONDS:
            raise BadSignature("The webhook-timestamp is more than five minutes away from now.")


def authenticate(body: bytes, *, headers: Mapping[str, str], secrets: Iterable[str]) -> Signed:
    """Return what was signed with one of ``secrets``; raise BadSignature or BadTimestamp.

    Header names are compared without case. Needs no clock, so a forger costs no look at one.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    message_id, presented = lower.get(ID, ""), lower.get(SIGNATURE, "").split()
    if not message_id or not presented or TIMESTAMP not in lower:
        raise BadSignature("The Standard Webhooks headers are missing.")
    if len(message_id) > MAX_ID_CHARACTERS or not message_id.isprintable():
        raise BadSignature(
            f"A webhook-id has at most {MAX_ID_CHARACTERS} characters, all of them printable."
        )
    stamp = lower[TIMESTAMP].strip()
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= MAX_TIMESTAMP_DIGITS):
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
    return Signed(message_id=message_id, timestamp=timestamp)


def verify(body: bytes, *, headers: Mapping[str, str], secrets: Iterable[str], now: float) -> str:
    """Return the webhook-id of a request signed with one of ``secrets`` within five minutes of
    ``now`` (unix seconds); raise BadSignature or BadTimestamp."""
    signed = authenticate(body, headers=headers, secrets=secrets)
    signed.check_age(now)
    return signed.message_id
