"""The ``webhook`` provider: the recipient's own URL, where acceptance is delivery.

The receiver deduplicates by ``webhook-id`` (Standard Webhooks), so key and body stay the same over
all attempts. https only, but for the one local origin; redirects are never followed.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC

from functions.core.content import WebhookContent
from functions.core.declaration import Declaration
from functions.core.errors import Unreadable
from functions.core.outcome import Accepted, Outcome, Scope
from functions.core.recipient import normalise
from functions.core.signature import ID, TIMESTAMP
from functions.core.states import Channel
from functions.providers.answer import Class, outcome_of_loss, outcome_of_status
from functions.providers.provider import PreparedCall, Submission
from functions.providers.transport import Lost, Response, Transport

DECLARATION = Declaration(name="webhook", keyed=True, key_window_seconds=24 * 3600, receipts=False)

# PROVIDERS §1.5. 410: the endpoint asks never to be called again.
CLASSES: Mapping[int, Class] = {
    408: Class.TRANSIENT,
    409: Class.TRANSIENT,
    410: Class.REFUSED,
    425: Class.TRANSIENT,
    429: Class.THROTTLED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookProvider:
    """Calls the recipient's URL; ``local_origin`` is the one origin that may be plain http."""

    transport: Transport
    local_origin: str = ""
    declaration: Declaration = DECLARATION

    def prepare(self, submission: Submission) -> PreparedCall:
        if not isinstance(submission.content, WebhookContent):
            raise Unreadable("The content is not a webhook's.")
        # Checked again as at the door: a row written by hand may name any address.
        url = normalise(
            Channel.WEBHOOK, submission.recipient, local_webhook_origin=self.local_origin
        )
        timestamp = submission.created_at.astimezone(UTC).isoformat()
        body = json.dumps(
            {"type": "notification", "timestamp": timestamp, "data": submission.content.data},
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
        ).encode()
        headers = {
            "Content-Type": "application/json",
            ID: submission.idempotency_key,
            TIMESTAMP: str(int(time.time())),
        }
        return PreparedCall(method="POST", url=url, headers=headers, body=body)

    def submit(self, call: PreparedCall, *, deadline: float) -> Outcome:
        answer = self.transport.request(
            call.method, call.url, headers=call.headers, body=call.body, deadline=deadline
        )
        match answer:
            case Lost():
                return outcome_of_loss(answer)
            case Response(status=status) if 200 <= status < 300:
                return Accepted(reference=None, final=True, http_status=status)
            case Response():
                return outcome_of_status(
                    answer, CLASSES, server_error=Class.TRANSIENT, scope=Scope.ENDPOINT
                )
