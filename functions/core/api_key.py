"""An API key as its holder sees it: ``sk_<id>_<secret>``; only a digest of the secret is kept."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

PREFIX = "sk"
SECRET_BYTES = 32
MAX_LENGTH = 512
"""Longer than any key of ours; whatever exceeds it is refused before it is looked at."""


class Scope(StrEnum):
    """What a key may do; ``admin`` includes both others."""

    SEND = "send"
    READ = "read"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentedKey:
    """The two halves of a key that somebody showed us."""

    id: UUID
    secret: str


def new_secret() -> str:
    """Return a secret nobody can guess, in letters and digits only (a double click selects it)."""
    return secrets.token_hex(SECRET_BYTES)


def write(*, key_id: UUID, secret: str) -> str:
    return f"{PREFIX}_{key_id.hex}_{secret}"


def read(text: str) -> PresentedKey | None:
    """Return the halves of ``text``, or None when it is not a key of ours."""
    if len(text) > MAX_LENGTH or not text.isascii():
        return None
    prefix, _, rest = text.partition("_")
    key_id, _, secret = rest.partition("_")
    if prefix != PREFIX or len(key_id) != 32 or not secret:
        return None
    try:
        return PresentedKey(id=UUID(hex=key_id), secret=secret)
    except ValueError:
        return None


def digest(secret: str) -> bytes:
    """Return the SHA-256 that is stored; 256 random bits need no salt and no stretching."""
    return hashlib.sha256(secret.encode()).digest()


def matches(secret: str, stored_digest: bytes) -> bool:
    """Whether ``secret`` is the one behind ``stored_digest``, in constant time."""
    return hmac.compare_digest(digest(secret), stored_digest)
