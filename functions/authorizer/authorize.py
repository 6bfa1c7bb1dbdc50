"""Recognise who presents a key. Never denies: the function behind answers 401, 403 or 503.

An HTTP API's own denials cannot carry problem+json, so what was found goes on as context:
``organization_id``, ``scopes`` (separated by spaces) and ``key_id``; or ``error``, one of
``unauthenticated`` and ``unavailable``. All values are strings.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from functions.core import api_key
from functions.core.errors import Unavailable
from functions.store.connection import Database
from functions.store.organization import ApiKey, find_api_key

KEPT_SECONDS = 60.0
"""How long a look-up is believed: a revoked key is refused after at most this long."""
MAX_KEPT = 1000
"""Look-ups kept of each kind; the oldest makes room. Ids made up by an attacker cost their own."""
UNAUTHENTICATED = "unauthenticated"
_SCHEME = "bearer"
_NOBODY = bytes(32)


@dataclass(slots=True)
class KeyCache:
    """Look-ups of the last minute: keys that live, and apart from them ids without one."""

    database: Database
    clock: Callable[[], float] = time.monotonic
    _live: dict[UUID, tuple[float, ApiKey]] = field(default_factory=dict[UUID, Any])
    _absent: dict[UUID, float] = field(default_factory=dict[UUID, float])

    def find(self, key_id: UUID) -> ApiKey | None:
        """Return the live key; raises Unavailable when it is not known and cannot be looked up."""
        now = self.clock()
        until, key = self._live.get(key_id, (now, None))
        if until > now:
            return key
        if self._absent.get(key_id, now) > now:
            return None
        found = find_api_key(self.database, key_id=key_id)
        # Counted from before the look-up: it may have read what was revoked meanwhile.
        self._live.pop(key_id, None)
        self._absent.pop(key_id, None)
        if found is None:
            _keep(self._absent, key_id, now + KEPT_SECONDS)
        else:
            _keep(self._live, key_id, (now + KEPT_SECONDS, found))
        return found


def _keep(kept: dict[UUID, Any], key_id: UUID, value: Any) -> None:
    if len(kept) >= MAX_KEPT:
        del kept[next(iter(kept))]
    kept[key_id] = value


def authorize(event: Mapping[str, Any], *, keys: KeyCache) -> dict[str, Any]:
    """Return the simple response (payload 2.0) for a request."""
    return {"isAuthorized": True, "context": _context(event, keys)}


def _context(event: Mapping[str, Any], keys: KeyCache) -> dict[str, str]:
    headers: Mapping[str, str] = event.get("headers") or {}
    lines = [value for name, value in headers.items() if name.lower() == "authorization"]
    scheme, _, credentials = (lines[0] if lines else "").strip().partition(" ")
    presented = api_key.read(credentials.strip()) if scheme.lower() == _SCHEME else None
    if presented is None:
        return {"error": UNAUTHENTICATED}
    try:
        key = keys.find(presented.id)
    except Unavailable as error:
        return {"error": error.code}
    # Compared even when there is no such key, so that the time taken tells nothing.
    if not api_key.matches(presented.secret, key.secret_sha256 if key else _NOBODY) or key is None:
        return {"error": UNAUTHENTICATED}
    return {
        "organization_id": str(key.organization_id),
        "scopes": " ".join(key.scopes),
        "key_id": str(key.id),
    }
