"""How a request is recognised again: by who asks, where, by which key, and what they ask for."""

import hashlib
import json
from typing import Any
from uuid import UUID

import orjson

from functions.store.idempotency import Request


def recognised(organization_id: UUID, *, route: str, key: str, body: Any) -> Request:
    """Return what a repetition of this request is equal to."""
    return Request(
        organization_id=organization_id,
        route=route,
        key=key,
        request_sha256=hashlib.sha256(canonical(body)).digest(),
    )


def canonical(body: Any) -> bytes:
    """Return parsed JSON as bytes that are equal for equal requests: order and spacing are gone."""
    try:
        return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # integers beyond 64 bits
        return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
