"""The ``http`` provider: a gateway of the team's own, by the gateway contract of API.md.

A gateway remembers acceptances under a key, so an unknown outcome is tried again under the same
key. It signs nothing into the URL and follows nothing; its callbacks are parsed here too.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from functions.core.content import (
    Content,
    EmailContent,
    PushContent,
    SmsContent,
    WebhookContent,
)
from functions.core.declaration import Declaration
from functions.core.evidence import Receipt
from functions.core.login import GatewayCredentials
from functions.core.outcome import Accepted, Blocked, Outcome, Scope, Unknown
from functions.core.signature import sign
from functions.providers.answer import Class, outcome_of_loss, outcome_of_status
from functions.providers.http_report import PROVIDER, looked_up
from functions.providers.provider import NeverAccepted, PreparedCall, Submission
from functions.providers.transport import Lost, Response, Transport

DECLARATION = Declaration(
    name=PROVIDER, keyed=True, key_window_seconds=24 * 3600, receipts=True, looks_up=True
)

# API.md, gateway contract: as PROVIDERS §1.5, except that 401, 403 and 407 are about our
# credentials, and 5xx may have been accepted: it is tried again under the same key.
CLASSES: Mapping[int, Class] = {
    401: Class.BLOCKED,
    403: Class.BLOCKED,
    407: Class.BLOCKED,
    408: Class.TRANSIENT,
    409: Class.TRANSIENT,
    425: Class.TRANSIENT,
    429: Class.THROTTLED,
}
MAX_REFERENCE_CHARACTERS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpProvider:
    """A gateway at ``url``; an empty one waits until the channel names it."""

    url: str
    credentials: GatewayCredentials
    transport: Transport
    declaration: Declaration = DECLARATION

    def prepare(self, submission: Submission) -> PreparedCall:
        body = json.dumps(
            {
                "recipient": submission.recipient,
                "channel": submission.channel,
                "content": content_as_json(submission.content),
                "notification_id": str(submission.notification_id),
                "attempt_id": str(submission.attempt_id),
            },
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
        ).encode()
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": f'"{submission.idempotency_key}"',
            **self._proof(body, submission.idempotency_key),
        }
        return PreparedCall(method="POST", url=self.url, headers=headers, body=body)

    def look_up(
        self, *, channel: str, idempotency_key: str, deadline: float
    ) -> Receipt | NeverAccepted | None:
        """Ask the gateway: ``GET <url>/<key>`` (API.md); 404 is its word for never accepted."""
        del channel  # a gateway knows its keys without
        if urlsplit(self.url).scheme not in ("http", "https"):
            return None
        answer = self.transport.request(
            "GET",
            f"{self.url}/{quote(idempotency_key, safe='')}",
            headers=self._proof(b"", idempotency_key),
            body=b"",
            deadline=deadline,
        )
        match answer:
            case Response(status=404):
                return NeverAccepted()
            case Response(status=200, complete=True):
                return looked_up(answer.body, idempotency_key=idempotency_key)
            case _:
                return None

    def _proof(self, body: bytes, message_id: str) -> dict[str, str]:
        """Return the headers that prove who we are."""
        headers = sign(
            body,
            message_id=message_id,
            timestamp=int(time.time()),
            secrets=self.credentials.secrets,
        )
        if self.credentials.token:
            headers["Authorization"] = f"Bearer {self.credentials.token}"
        return headers

    def submit(self, call: PreparedCall, *, deadline: float) -> Outcome:
        if urlsplit(call.url).scheme not in ("http", "https"):
            # Our configuration is at fault, not the notification: it waits, unspent.
            return Blocked(code="not_configured", detail="the channel names no gateway URL")
        answer = self.transport.request(
            call.method, call.url, headers=call.headers, body=call.body, deadline=deadline
        )
        match answer:
            case Lost():
                return outcome_of_loss(answer)
            case Response(status=status) if 200 <= status < 300:
                return _accepted(answer)
            case Response():
                return outcome_of_status(
                    answer, CLASSES, server_error=Class.UNKNOWN, scope=Scope.PROVIDER
                )


def content_as_json(content: Content) -> Any:
    """Return ``content`` as the gateway gets it: one shape per channel, absent members left out."""
    match content:
        case EmailContent(subject=subject, text=text, html=html):
            parts = {"subject": subject, "text": text, "html": html}
            return {name: part for name, part in parts.items() if part is not None}
        case SmsContent(text=text):
            return text
        case PushContent(title=title, body=body, data=data):
            return {"title": title or "", "body": body or "", "data": data}
        case WebhookContent(data=data):
            return data


def _accepted(response: Response) -> Outcome:
    """Return the outcome of a 2xx: without a usable id it is unknown, for the request was taken."""
    try:
        answer: Any = json.loads(response.body) if response.complete else None
        reference: Any = answer["message_id"]
        final = answer.get("status") == "delivered"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        reference, final = None, False
    if not isinstance(reference, str) or not _is_storable(reference):
        return Unknown(
            code="unreadable_answer",
            http_status=response.status,
            detail="a 2xx answer without a message_id",
        )
    return Accepted(reference=reference, final=final, http_status=response.status)


def _is_storable(reference: str) -> bool:
    """Whether an id can be kept; one that could not would keep its whole set from closing."""
    return 0 < len(reference) <= MAX_REFERENCE_CHARACTERS and reference.isprintable()
