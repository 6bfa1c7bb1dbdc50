"""The secret that an organization's webhooks are signed with: derived, never stored.

``secret_of`` is HKDF-SHA256 (RFC 5869) of the installation's master secret, with the salt and the
info below: 32 bytes, written as Standard Webhooks has it. Who knows one organization's secret
learns nothing of another's or of the master's. A new number is a new secret; the one before goes
on signing beside it for seven days, so that a receiver may change over at any moment in between.
A new master changes every secret: while the previous one is kept, both sign.
"""

import base64
import hashlib
import hmac
from datetime import datetime, timedelta
from uuid import UUID

from functions.core.signature import SECRET_PREFIX

OVERLAP = timedelta(days=7)
"""How long the number before signs too: a receiver has a week to take over the new secret."""
MIN_MASTER_BYTES = 32
"""A derived key is no stronger than what it is derived from."""
KEY_BYTES = 32

_SALT = b"sendoff/webhook-signing"


def secret_of(master: bytes, *, organization_id: UUID, number: int) -> str:
    """Return the ``number``-th signing secret (``whsec_…``) of an organization.

    Raises ValueError for a master of fewer than 32 bytes, or a number below 1.
    """
    if len(master) < MIN_MASTER_BYTES:
        raise ValueError(f"A master secret has at least {MIN_MASTER_BYTES} bytes.")
    if number < 1:
        raise ValueError("The first signing secret has number 1.")
    info = b"v1/" + organization_id.bytes + number.to_bytes(4, "big")
    extracted = hmac.digest(_SALT, master, hashlib.sha256)
    # RFC 5869 §2.3: 32 bytes are one block of SHA-256, so the expansion is its first step.
    key = hmac.digest(extracted, info + b"\x01", hashlib.sha256)
    return SECRET_PREFIX + base64.b64encode(key).decode()


def secrets_of(
    master: bytes,
    *,
    previous_master: bytes | None = None,
    organization_id: UUID,
    number: int,
    rotated_at: datetime | None,
    now: datetime,
) -> tuple[str, ...]:
    """Return the secrets that sign at ``now``: the current one first, then what receivers may
    still have.

    ``number`` is the organization's, ``rotated_at`` when it got it, None for its first.
    """
    overlaps = number > 1 and rotated_at is not None and now < rotated_at + OVERLAP
    masters = [master] if previous_master in (None, master) else [master, previous_master]
    numbers = [number, number - 1] if overlaps else [number]
    return tuple(
        secret_of(one, organization_id=organization_id, number=each)
        for one in masters
        for each in numbers
    )
