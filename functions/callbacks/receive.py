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
from datetime import UTC, datetime
from typing import Any, cast

from functions.core.errors import Fault, RequestRefused, Unavailable, ValidationFailed
from functions.core.problem import Refused, problem_of, unavailable
from functions.core.recipient import (
    MAX_TOKEN_CHARACTERS,
    InvalidRecipient,
    normalise,
    recipient_hash,
)
from functions.core.signature import authenticate
from functions.core.states import Channel
from functions.core.strict_json import MalformedJson, parse
from functions.providers.http import DECLARATION, Report, receipt_of
from functions.store.connection import Database
from functions.store.receipt import Recorded, channel_of, database_clock, record

MAX_BODY_BYTES = 256 * 1024
MAX_TEXT_CHARACTERS = 512
MAX_REASON_CHARACTERS = 512
"""A longer reason is cut: evidence is worth more than its wording."""


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
        parameters: Mapping[str, str] = event.get("pathParameters") or {}
        if parameters.get("provider") != DECLARATION.name:
            raise Refused("not_found", "There are no callbacks of that provider.")
        body = _body_of(event)
        signed = authenticate(body, headers=event.get("headers") or {}, secrets=self.secrets())
        signed.check_age(database_clock(self.database))
        report = read_report(body, webhook_id=signed.message_id)
        receipt = receipt_of(report, raw=body, recipient_hash=self._hash_of(report))
        return record(self.database, [receipt], provider=DECLARATION.name)

    def _hash_of(self, report: Report) -> bytes | None:
        """Return the hash of the recipient a report names, as accept would have stored it.

        A report names no channel: it is that of the notification. While that is not known it is the
        first whose address this could be, which is wrong only for a push token of another's shape.
        """
        if (recipient := report.recipient) is None:
            return None
        known = channel_of(
            self.database,
            provider=DECLARATION.name,
            idempotency_key=report.idempotency_key,
            reference=report.message_id,
        )
        likely = (Channel.WEBHOOK, Channel.SMS, Channel.EMAIL, Channel.PUSH)
        for channel in (known,) if known else likely:
            try:
                address = normalise(channel, recipient, local_webhook_origin=_origin_of(recipient))
            except InvalidRecipient:
                continue
            return recipient_hash(self.hash_key(), channel, address)
        return recipient_hash(self.hash_key(), NOBODY, recipient)


NOBODY = "nobody"
"""Stands for the channel of what is no address: the hash matches nothing, the report is a note."""


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
    """Return the report in ``body``; raise MalformedJson or UnreadableReport with every fault.

    Unknown members and unknown statuses are kept as they are: a gateway may tell more than we ask.
    """
    value, faults = parse(body)
    members: Any = cast("dict[str, Any]", value).get("data") if isinstance(value, dict) else None
    if faults or not isinstance(members, dict):
        raise MalformedJson("The callback is not an object with an object named data.")
    data = cast("dict[str, Any]", members)
    status = _text(data, "status", faults)
    message_id = _text(data, "message_id", faults)
    idempotency_key = _text(data, "idempotency_key", faults)
    if status is None:
        faults.append(Fault("/data/status", "required", "A report names a status."))
    if message_id is None and idempotency_key is None:
        faults.append(Fault("/data", "required", "A report names a message or its key."))
    permanent = data.get("permanent")
    if not isinstance(permanent, bool | None):
        faults.append(Fault("/data/permanent", "wrong_type", "It is true or false."))
    report = Report(
        event_id=_text(data, "event_id", faults) or webhook_id,
        message_id=message_id,
        idempotency_key=idempotency_key,
        recipient=_text(data, "recipient", faults, longest=MAX_TOKEN_CHARACTERS),
        status=status or "",
        permanent=permanent is True,
        reason=(_text(data, "reason", faults, longest=None) or "")[:MAX_REASON_CHARACTERS] or None,
        occurred_at=_time(cast("dict[str, Any]", value).get("timestamp"), faults),
    )
    if faults:
        raise UnreadableReport(faults)
    return report


class UnreadableReport(ValidationFailed):
    """The callback does not have the members of a report."""

    code = "malformed_json"


def _text(
    data: Mapping[str, Any],
    name: str,
    faults: list[Fault],
    *,
    longest: int | None = MAX_TEXT_CHARACTERS,
) -> str | None:
    """Return a member of the report, None when it is absent, null or empty."""
    value = data.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        faults.append(Fault(f"/data/{name}", "wrong_type", "It is a string."))
    elif longest is not None and len(value) > longest:
        faults.append(Fault(f"/data/{name}", "too_long", f"It has at most {longest} characters."))
    else:
        return value
    return None


def _time(value: Any, faults: list[Fault]) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError
        return moment.astimezone(UTC)  # beyond the years 1 to 9999 nobody could read it again
    except (TypeError, ValueError, OverflowError):
        faults.append(Fault("/timestamp", "invalid_time", "It is a time with an offset."))
        return None


def _origin_of(recipient: str) -> str:
    """Return the origin of a URL that we accepted once: the https rule is the door's, not ours."""
    return "/".join(recipient.split("/", 3)[:3]) if recipient.startswith("http://") else ""
