"""A gateway's callbacks as API Gateway hands them on, signed now, about notifications of a test."""

import base64
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID

import psycopg

from functions.callbacks.receive import Receiver
from functions.core.recipient import recipient_hash
from functions.core.signature import sign
from functions.store.connection import Database
from functions.store.receipt import Recorded
from tests.fakes import add_notifications
from tests.sending import recorded
from tests.simulated import CALLBACK_SECRET

PREVIOUS_SECRET = "whsec_cHJldmlvdXMtc2VjcmV0LW9mLXRoZS10ZXN0cw=="
HASH_KEY = b"a key that is only good for tests"
_numbers = count(1)


def add_known(
    owner: psycopg.Connection,
    number: int = 1,
    *,
    channel: str = "email",
    recipient: str = "ok@example.com",
    **more: Any,
) -> list[UUID]:
    """Add notifications whose recipient is hashed as the door hashes it."""
    ids = add_notifications(owner, number, channel=channel, recipient=recipient, **more)
    owner.execute(
        "UPDATE notifications SET recipient_hash = %s WHERE id = ANY(%s)",
        [recipient_hash(HASH_KEY, channel, recipient), ids],
    )
    return ids


def report(status: str = "delivered", **data: Any) -> dict[str, Any]:
    """Return a report; members of ``data`` that are None are left out."""
    members = {
        "event_id": f"event-{next(_numbers)}",
        "message_id": None,
        "idempotency_key": None,
        "recipient": "ok@example.com",
        "status": status,
    }
    members |= {
        name: str(value) if isinstance(value, UUID) else value for name, value in data.items()
    }
    return {
        "type": "delivery.updated",
        "timestamp": datetime.now(UTC).isoformat(),
        "data": {name: value for name, value in members.items() if value is not None},
    }


def signed_event(
    body: Any,
    *,
    name: str = "callbacks.delivered",
    webhook_id: str | None = None,
    secrets: Sequence[str] = (CALLBACK_SECRET,),
    age_seconds: float = 0,
) -> dict[str, Any]:
    """Return the recorded event with ``body`` (an object, a text or bytes), signed just now."""
    event = recorded(name)
    raw = body if isinstance(body, bytes) else _text(body).encode("utf-8", "surrogatepass")
    event["headers"] |= sign(
        raw,
        message_id=webhook_id or f"msg-{next(_numbers)}",
        timestamp=int(time.time() - age_seconds),
        secrets=secrets,
    )
    if event["isBase64Encoded"]:
        event["body"] = base64.b64encode(raw).decode()
    else:
        event["body"] = raw.decode("utf-8", "surrogatepass")
    return event


def _text(body: Any) -> str:
    return body if isinstance(body, str) else json.dumps(body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    status: int
    body: dict[str, Any]
    headers: dict[str, str]
    recorded: Recorded | None


def receive(database: Database, event: dict[str, Any]) -> Answered:
    """Hand ``event`` to the callbacks function's use case; return the answer."""
    receiver = Receiver(
        database=database,
        secrets=lambda: (CALLBACK_SECRET, PREVIOUS_SECRET),
        hash_key=lambda: HASH_KEY,
    )
    answer, kept = receiver.receive(event)
    return Answered(
        status=answer["statusCode"],
        body=json.loads(answer["body"] or "{}"),
        headers=answer["headers"],
        recorded=kept,
    )


def told(database: Database, status: str = "delivered", **data: Any) -> Recorded:
    """Report ``status`` about a notification; it is stored, whatever comes of it."""
    answered = receive(database, signed_event(report(status, **data)))
    assert answered.status == 202, answered
    assert answered.recorded is not None
    return answered.recorded
