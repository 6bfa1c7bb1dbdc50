"""Receive a gateway's callback: verify the bytes, read the report, keep and apply the receipt.

202  stored, known already, or about something not known yet
400  unreadable, or a webhook-timestamp that is no number
401  a signature that is missing, wrong or too old
413  more than 256 KB
503  the database cannot be reached: the gateway tries again
"""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from functions.core.errors import Fault, RequestRefused, Unavailable, ValidationFailed
from functions.core.problem import Problem, Refused, problem_of, unavailable
from functions.core.recipient import InvalidRecipient, normalise, recipient_hash
from functions.core.signature import verify
from functions.core.states import Channel
from functions.core.strict_json import MalformedJson, parse
from functions.providers.http import DECLARATION, Report, receipt_of
from functions.store.connection import Database
from functions.store.receipt import Recorded, database_clock, record

MAX_BODY_BYTES = 256 * 1024
MAX_TEXT_CHARACTERS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """What a callback is checked against; ``secrets`` gives the live ones, current first."""

    database: Database
    secrets: Callable[[], Sequence[str]]
    hash_key: Callable[[], bytes]

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
        provider = (event.get("pathParameters") or {}).get("provider")
        if provider != DECLARATION.name:
            raise Refused("not_found", "There are no callbacks of that provider.")
        body = _body_of(event)
        webhook_id = verify(
            body,
            headers=event.get("headers") or {},
            secrets=self.secrets(),
            now=database_clock(self.database),
        )
        report = read_report(body, webhook_id=webhook_id)
        receipt = receipt_of(report, raw=body, recipient_hash=self._hash_of(report.recipient))
        return record(self.database, [receipt], provider=provider)

    def _hash_of(self, recipient: str | None) -> bytes | None:
        """Return the hash of the recipient a report names, as accept would have stored it."""
        if recipient is None:
            return None
        channel = _channel_of(recipient)
        try:
            recipient = normalise(channel, recipient, local_webhook_origin=_origin_of(recipient))
        except InvalidRecipient:
            pass  # nobody of ours: its hash matches no notification, and the report stays a note
        return recipient_hash(self.hash_key(), channel, recipient)


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


def read_report(body: bytes, *, webhook_id: str) -> Report:
    """Return the report in ``body``; raise MalformedJson or ValidationFailed with every fault.

    Unknown members and unknown statuses are kept as they are: a gateway may tell more than we ask.
    """
    value, faults = parse(body)
    data: Any = cast("dict[str, Any]", value).get("data") if isinstance(value, dict) else None
    if faults or not isinstance(data, dict):
        raise MalformedJson("The callback is not an object with an object named data.")
    members = cast("dict[str, Any]", data)
    texts = {
        name: _text(members, name, faults)
        for name in (
            "event_id",
            "message_id",
            "idempotency_key",
            "recipient",
            "status",
            "reason",
        )
    }
    if not texts["status"]:
        faults.append(Fault("/data/status", "required", "A report names a status."))
    if not (texts["message_id"] or texts["idempotency_key"]):
        faults.append(Fault("/data", "required", "A report names a message or its key."))
    if not isinstance(permanent := members.get("permanent", False), bool | None):
        faults.append(Fault("/data/permanent", "wrong_type", "It is true or false."))
    occurred_at = _time(cast("dict[str, Any]", value).get("timestamp"), faults)
    if faults:
        raise UnreadableReport(faults)
    return Report(
        event_id=texts["event_id"] or webhook_id,
        message_id=texts["message_id"],
        idempotency_key=texts["idempotency_key"],
        recipient=texts["recipient"],
        status=texts["status"] or "",
        permanent=bool(permanent),
        reason=texts["reason"],
        occurred_at=occurred_at,
    )


class UnreadableReport(ValidationFailed):
    """The callback does not have the members of a report."""

    code = "malformed_json"


def _text(members: Mapping[str, Any], name: str, faults: list[Fault]) -> str | None:
    value = members.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        faults.append(Fault(f"/data/{name}", "wrong_type", "It is a string."))
        return None
    if len(value) > MAX_TEXT_CHARACTERS:
        faults.append(Fault(f"/data/{name}", "too_long", f"At most {MAX_TEXT_CHARACTERS}."))
        return None
    return value


def _time(value: Any, faults: list[Fault]) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        moment = None
    if moment is None or moment.tzinfo is None:
        faults.append(Fault("/timestamp", "invalid_time", "It is a time with an offset."))
        return None
    return moment


def _channel_of(recipient: str) -> Channel:
    """Return the channel whose addresses look like ``recipient``; a report does not name it."""
    if recipient.startswith(("https://", "http://")):
        return Channel.WEBHOOK
    if "@" in recipient:
        return Channel.EMAIL
    return Channel.SMS if recipient.startswith("+") else Channel.PUSH


def _origin_of(recipient: str) -> str:
    """Return the origin of a URL that we accepted once: the https rule is the door's, not ours."""
    return "/".join(recipient.split("/", 3)[:3]) if recipient.startswith("http://") else ""
