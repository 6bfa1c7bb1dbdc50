"""Receive a callback over HTTP: a gateway's signed report, or a message of SNS.

202  stored, known already, or about something not known yet
400  unreadable, or a webhook-timestamp that is no number
401  a signature that is missing, wrong or too old, or a topic that is not ours
404  a provider that has no callbacks
413  more than 256 KB
503  the database cannot be reached, or SNS's certificate: the caller tries again
"""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functions.callbacks.sns import PROVIDER as SNS
from functions.callbacks.sns import SnsDoor
from functions.core.declaration import names_reporting_as
from functions.core.errors import RequestRefused, Unavailable
from functions.core.problem import Refused, problem_of, unavailable
from functions.core.signature import authenticate
from functions.core.strict_json import MalformedJson
from functions.providers.choice import DECLARATIONS
from functions.providers.http import DECLARATION
from functions.providers.http_report import hash_of, read_report, receipt_of
from functions.store.clock import database_clock
from functions.store.connection import Database
from functions.store.receipt import Recorded, channel_of, record

MAX_BODY_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """What a callback is checked against; ``secrets`` gives the live ones, current first."""

    database: Database
    secrets: Callable[[], Sequence[str]]
    hash_key: Callable[[], bytes]
    sns: SnsDoor | None = None

    def receive(self, event: Mapping[str, Any]) -> tuple[dict[str, Any], Recorded | None]:
        """Return the HTTP answer to an API Gateway event, and what was recorded if it was kept."""
        try:
            recorded = self._record(event)
        except Unavailable:
            return unavailable().answer(), None
        except RequestRefused as error:
            return problem_of(error).answer(), None
        return {"statusCode": 202, "headers": {}, "body": ""}, recorded

    def _record(self, event: Mapping[str, Any]) -> Recorded:
        parameters: Mapping[str, str] = event.get("pathParameters") or {}
        match parameters.get("provider"):
            case DECLARATION.name:
                return self._record_report(_body_of(event), event.get("headers") or {})
            case name if name == SNS and self.sns is not None:
                return self.sns.receive(_body_of(event))
            case _:
                raise Refused("not_found", "There are no callbacks of that provider.")

    def _record_report(self, body: bytes, headers: Mapping[str, str]) -> Recorded:
        signed = authenticate(body, headers=headers, secrets=self.secrets())
        signed.check_age(database_clock(self.database))
        report = read_report(body, webhook_id=signed.message_id)
        channel = channel_of(
            self.database,
            senders=names_reporting_as(DECLARATIONS, DECLARATION.name),
            idempotency_key=report.idempotency_key,
            reference=report.message_id,
        )
        hashed = hash_of(report.recipient, channel=channel, hash_key=self.hash_key())
        receipt = receipt_of(report, raw=body, recipient_hash=hashed)
        return record(
            self.database, [receipt], provider=DECLARATION.name, declarations=DECLARATIONS
        )


def _body_of(event: Mapping[str, Any]) -> bytes:
    """Return the bytes received: what was signed, also when the gateway hands them on in base64."""
    text: str = event.get("body") or ""
    if event.get("isBase64Encoded"):
        try:
            body = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise MalformedJson("The body cannot be decoded.") from None
    else:
        body = text.encode("utf-8", "surrogatepass")
    if len(body) > MAX_BODY_BYTES:
        raise Refused("too_large", f"A callback has at most {MAX_BODY_BYTES} bytes.")
    return body
