"""The ``webhook`` provider: the recipient's own URL, where acceptance is delivery.

The receiver deduplicates by ``webhook-id`` (Standard Webhooks), so key and body stay the same over
all attempts; the timestamp and the signatures are each attempt's own. https only, to public
addresses only (egress.py), but for the one local origin; redirects are never followed.
"""

import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from uuid import UUID

from functions.core.content import WebhookContent
from functions.core.declaration import Declaration
from functions.core.errors import Misconfigured, Unreadable
from functions.core.outcome import (
    Accepted,
    Blocked,
    Outcome,
    Refused,
    Rejected,
    Scope,
)
from functions.core.recipient import normalise, origin_of
from functions.core.signature import SIGNATURE, sign
from functions.core.states import Channel
from functions.core.suppression import SuppressionReason
from functions.providers.answer import Class, outcome_of_loss, outcome_of_status
from functions.providers.dial import Guard
from functions.providers.egress import FORBIDDEN_ADDRESS, FORBIDDEN_PORT, PublicOnly
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
LAST_STATUS = 599
"""RFC 9110 §15: a status beyond is none, and no table can name it."""

# Nothing was written, and nothing ever may be: no retry makes a private address public.
FORBIDDEN: Mapping[str, str] = {
    FORBIDDEN_ADDRESS: "the URL leads to an address that may not be called",
    FORBIDDEN_PORT: "the URL names a port that may not be called",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookProvider:
    """Calls the recipient's URL.

    secrets       the signing secrets of an organization, the current one first (webhook_key.py)
    local_origin  the one origin that may be plain http, and is called whatever its address
    guard         judges where every other URL leads
    """

    transport: Transport
    secrets: Callable[[UUID], Sequence[str]]
    local_origin: str = ""
    guard: Guard = field(default_factory=PublicOnly)
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
        headers = {"Content-Type": "application/json", **self._signature(body, submission)}
        return PreparedCall(method="POST", url=url, headers=headers, body=body)

    def submit(self, call: PreparedCall, *, deadline: float) -> Outcome:
        if not call.headers.get(SIGNATURE):
            # Our configuration is at fault, not the notification: it waits, unspent.
            return Blocked(code="no_signing_secret", detail="there is no secret to sign with")
        is_local = origin_of(call.url) == self.local_origin
        answer = self.transport.request(
            call.method,
            call.url,
            headers=call.headers,
            body=call.body,
            deadline=deadline,
            guard=None if is_local else self.guard,
        )
        match answer:
            case Lost(code=code) if code in FORBIDDEN:
                return Rejected(code=code, detail=FORBIDDEN[code])
            case Lost():
                return outcome_of_loss(answer)
            case Response(status=status) if 200 <= status < 300:
                return Accepted(reference=None, final=True, http_status=status)
            case Response():
                return _outcome_of(answer)

    def _signature(self, body: bytes, submission: Submission) -> dict[str, str]:
        """Return the three headers; without the signature where there is nothing to sign with.

        An error here would be taken for the notification's own, which is held for a human then.
        """
        try:
            secrets = self.secrets(submission.organization_id)
        except Misconfigured:
            secrets = ()
        return sign(
            body,
            message_id=message_id_of(submission.idempotency_key),
            timestamp=int(time.time()),
            secrets=secrets,
        )


def message_id_of(idempotency_key: str) -> str:
    """Return the ``webhook-id``: the key, without the dot of a requeue's (``<id>.<n>``).

    The signed content is ``id.timestamp.body``: a dot in an id would make two readings of it.
    """
    return idempotency_key.replace(".", "_")


def _outcome_of(response: Response) -> Outcome:
    outcome = outcome_of_status(
        response, CLASSES, server_error=Class.TRANSIENT, scope=Scope.ENDPOINT
    )
    if isinstance(outcome, Refused):
        return dataclasses.replace(
            outcome,
            suppress=Scope.ENDPOINT,
            reason=SuppressionReason.INVALID,
            source=f"webhook:{response.status}",
        )
    return dataclasses.replace(outcome, unforeseen=response.status > LAST_STATUS)
