"""What the document says of the gateway: its callbacks to us, and our requests to it.

Another function serves the callbacks, and the gateway itself is the team's own; both are written
against this description.
"""

from typing import Any

_TEXT: dict[str, Any] = {"type": "string"}
_SIGNED = (
    "Signed as Standard Webhooks: `webhook-id`, `webhook-timestamp` (within five minutes of the "
    "database's clock) and `webhook-signature` over the bytes as they are sent."
)
_PROBLEM: dict[str, Any] = {"application/problem+json": {"schema": {"type": "object"}}}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _object(required: list[str], **members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": members}


_STATUS: dict[str, Any] = {
    "enum": ["accepted", "delivered", "failed", "bounced", "complained"],
}
_REPORT = _object(
    ["data"],
    type={"const": "delivery.updated"},
    timestamp={"type": "string", "format": "date-time"},
    data=_object(
        ["status"],
        event_id={**_TEXT, "description": "Repeated reports are recognised by it."},
        message_id={**_TEXT, "description": "The gateway's own id; this or idempotency_key."},
        idempotency_key=_TEXT,
        recipient={**_TEXT, "description": "A report about somebody else changes nothing."},
        status=_STATUS,
        permanent={"type": "boolean", "default": False},
        reason=_TEXT,
        parts={
            "type": "array",
            "description": "Of a message sent in several, or to several: the worst of them counts.",
            "items": _object(
                ["status"], status=_STATUS, permanent={"type": "boolean"}, reason=_TEXT
            ),
        },
    ),
)

CALLBACKS: dict[str, Any] = {
    "/v1/callbacks/http": {
        "post": {
            "operationId": "callback",
            "summary": "Report what became of a notification (the gateway's side)",
            "tags": ["gateway"],
            "description": (
                f"{_SIGNED} A permanent bounce or a complaint suppresses the address for the "
                "organization and channel."
            ),
            "security": [],
            "requestBody": {"required": True, "content": _json(_REPORT)},
            "responses": {
                "202": {"description": "Kept, known already, or about something not known yet"},
                "400": {"description": "Unreadable: `malformed_json`", "content": _PROBLEM},
                "401": {"description": "Bad signature: `unauthenticated`", "content": _PROBLEM},
                "413": {"description": "Over 256 KB: `too_large`", "content": _PROBLEM},
                "503": {"description": "Come back: `unavailable`", "content": _PROBLEM},
            },
        }
    }
}

_REQUEST = _object(
    ["recipient", "channel", "content", "notification_id", "attempt_id"],
    recipient=_TEXT,
    channel={"enum": ["email", "sms", "push"]},
    content={"description": "email: {subject, text, html}; sms: text; push: {title, body, data}"},
    notification_id={**_TEXT, "format": "uuid"},
    attempt_id={**_TEXT, "format": "uuid"},
)
_TAKEN = _object(
    ["message_id"],
    message_id=_TEXT,
    status={"enum": ["accepted", "delivered"], "default": "accepted"},
)

WEBHOOKS: dict[str, Any] = {
    "message": {
        "post": {
            "summary": "Hand a message to your gateway (our side)",
            "tags": ["gateway"],
            "description": (
                "Posted to `gateway_url` for email, SMS and push. `Idempotency-Key` is quoted and "
                "the same for every attempt: a gateway remembers what it accepted under it, and "
                f"answers the same again. {_SIGNED}"
            ),
            "requestBody": {"required": True, "content": _json(_REQUEST)},
            "responses": {
                "2XX": {"description": "Taken", "content": _json(_TAKEN)},
                "401": {"description": "Also 403, 407: our credentials; it waits, unspent"},
                "408": {"description": "Also 409, 425: not taken; tried again"},
                "429": {"description": "Slow down; `Retry-After` is kept, no attempt is spent"},
                "4XX": {"description": "Refused for good: the notification is held as `dead`"},
                "5XX": {"description": "Perhaps taken: tried again under the same key"},
            },
        }
    }
}
