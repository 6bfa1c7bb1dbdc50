"""Unsubscribe links: a token that says who stops what, and proves that we wrote it.

A token names an organization, a channel, the keyed hash of an address and a category, never the
address. Whoever holds it may stop that category for that address and do nothing else, so it needs
no login beside it, and a link that leaks tells nobody's address. Nothing is stored: a link in an
old message works for as long as the secret of recipient hashes lives, without expiry and any number
of times. A new secret would end it, as it would end every stored hash; that secret is not rotated.

    version 1 | channel 1 | organization 16 | hash 32 | category 1–64 | code 16 bytes, base64url

The code is HMAC-SHA256 over all that stands before it, cut to 128 bits. Equal subjects have equal
tokens. Nobody may put a link for a transactional category into a message: who writes the message
checks that, and the page behind the link refuses it once more.
"""

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass
from uuid import UUID

from functions.core.states import Channel

PATH_BEFORE = "/v1/unsubscribe/"
"""What stands before the token, in links and in the table of routes."""

_PURPOSE = b"sendoff unsubscribe 1"
_VERSION = 1
# Written into links that live for years: a number is never given to another channel.
_NUMBER_OF_CHANNEL = {Channel.EMAIL: 1, Channel.SMS: 2, Channel.PUSH: 3, Channel.WEBHOOK: 4}
_CHANNEL_OF_NUMBER = {number: channel for channel, number in _NUMBER_OF_CHANNEL.items()}
_HEAD_BYTES, _ORGANIZATION_BYTES, _HASH_BYTES, _CODE_BYTES = 2, 16, 32, 16
_MAX_CATEGORY_BYTES = 64
_FIXED_BYTES = _HEAD_BYTES + _ORGANIZATION_BYTES + _HASH_BYTES
MAX_TOKEN_CHARACTERS = -(-(_FIXED_BYTES + _MAX_CATEGORY_BYTES + _CODE_BYTES) * 4 // 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Who stops what: messages of one category, over one channel, of one organization."""

    organization_id: UUID
    channel: str
    recipient_hash: bytes
    category: str


def unsubscribe_key(hash_key: bytes) -> bytes:
    """Return the key of tokens, derived from the hash secret for this purpose alone."""
    return hmac.digest(hash_key, _PURPOSE, hashlib.sha256)


def token_of(
    key: bytes, *, organization_id: UUID, channel: str, recipient_hash: bytes, category: str
) -> str:
    """Return the token; raise ValueError for what no notification has."""
    named = category.encode("ascii")
    if len(recipient_hash) != _HASH_BYTES or not 1 <= len(named) <= _MAX_CATEGORY_BYTES:
        raise ValueError("A token names a whole hash and a category of 1 to 64 characters.")
    head = bytes((_VERSION, _NUMBER_OF_CHANNEL[Channel(channel)]))
    content = head + organization_id.bytes + recipient_hash + named
    return _text(content + _code(key, content))


def read_token(key: bytes, token: str) -> Subject | None:
    """Return whom ``token`` is about; None when it is not, character for character, one of ours."""
    if len(token) > MAX_TOKEN_CHARACTERS:
        return None
    try:
        whole = base64.b64decode(
            token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True
        )
    except (binascii.Error, ValueError):
        return None
    content, code = whole[:-_CODE_BYTES], whole[-_CODE_BYTES:]
    # One text per token: base64 leaves bits of the last character unused, and knows two alphabets.
    if not hmac.compare_digest(code, _code(key, content)) or _text(whole) != token:
        return None
    return _subject(content)


def link_of(public_url: str, token: str) -> str:
    """Return the address that stands in the message, below the API's ``public_url``."""
    return f"{public_url.rstrip('/')}{PATH_BEFORE}{token}"


def _subject(content: bytes) -> Subject | None:
    """Return what is written in an authentic token; None for a version of another time."""
    channel = _CHANNEL_OF_NUMBER.get(content[1]) if len(content) > _FIXED_BYTES else None
    if channel is None or content[0] != _VERSION:
        return None
    hash_starts = _HEAD_BYTES + _ORGANIZATION_BYTES
    return Subject(
        organization_id=UUID(bytes=content[_HEAD_BYTES:hash_starts]),
        channel=channel,
        recipient_hash=content[hash_starts:_FIXED_BYTES],
        category=content[_FIXED_BYTES:].decode("ascii"),
    )


def _code(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, hashlib.sha256)[:_CODE_BYTES]


def _text(whole: bytes) -> str:
    return base64.urlsafe_b64encode(whole).rstrip(b"=").decode()
