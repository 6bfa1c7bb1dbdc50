"""One request, read from an API Gateway event (HTTP API, payload 2.0), checked as it is read."""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from functions.core import strict_json
from functions.core.errors import Fault, NotFound, ValidationFailed
from functions.core.problem import Refused

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_KEY_CHARACTERS = 255
MAX_PARAMETERS = 200
_PRINTABLE = re.compile(r"[\x20-\x7e]+")
# RFC 8941, 3.3.3: a string quotes only the quote and the backslash.
_QUOTED = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def part(event: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return an object within an event; an empty one where it is absent or null."""
    for name in names:
        event = event.get(name) or {}
    return event


def unknown_fields(members: Iterable[str]) -> list[Fault]:
    """Return a fault for each of the top-level ``members``, which no schema knows; up to 100."""
    return [
        Fault(f"/{strict_json.token(name)}", "unknown_field", "There is no such field.")
        for name in islice(members, strict_json.MAX_FAULTS)
    ]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the client asks, and who it is: ``organization_id`` comes from the key alone."""

    event: Mapping[str, Any]
    organization_id: UUID
    path_parameters: Mapping[str, str]

    @cached_property
    def headers(self) -> dict[str, str]:
        """Headers by lower-case name."""
        return {name.lower(): value for name, value in part(self.event, "headers").items()}

    def path_id(self, name: str) -> UUID:
        """Return the id in the path; a malformed one is not found, like a foreign one."""
        text = self.path_parameters.get(name, "")
        if _UUID.fullmatch(text) is None:
            raise NotFound
        return UUID(text)

    def body_bytes(self) -> bytes:
        """Return the body as it was sent; refuse more than 4 MB."""
        body: str = self.event.get("body") or ""
        if self.event.get("isBase64Encoded"):
            try:
                decoded = base64.b64decode(body, validate=True)
            except (binascii.Error, ValueError):
                raise Refused("malformed_json", "The body is not what its encoding says.") from None
        else:
            # The event may carry half of a surrogate pair: no UTF-8, and refused as such.
            decoded = body.encode("utf-8", "surrogatepass")
        if len(decoded) > MAX_BODY_BYTES:
            raise Refused("too_large", f"A body has at most {MAX_BODY_BYTES} bytes.")
        return decoded

    def json_body(self) -> Any:
        """Return the JSON of the body; refuse other media types, malformed and unstorable JSON."""
        media_type, _, parameters = self.headers.get("content-type", "").partition(";")
        charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters, re.IGNORECASE)
        if (
            media_type.strip().lower() != "application/json"
            or (charset and charset[1].lower() not in ("utf-8", "utf8"))
            or self.headers.get("content-encoding", "identity").lower() != "identity"
        ):
            raise Refused(
                "unsupported_media_type", "The body is application/json in UTF-8, not compressed."
            )
        value, faults = strict_json.parse(self.body_bytes())
        if faults:
            raise ValidationFailed(faults)
        return value

    def no_body(self) -> None:
        """Refuse a body that says anything: this route has no fields."""
        value: Any = self.json_body() if self.body_bytes().strip() else {}
        if not isinstance(value, dict):
            raise ValidationFailed(
                [Fault("", "wrong_type", "The body is empty or an empty object.")]
            )
        if value:
            raise ValidationFailed(unknown_fields(cast("dict[str, Any]", value)))

    def idempotency_key(self) -> str:
        """Return the key, bare or as a quoted string: one key either way."""
        text = self.headers.get("idempotency-key", "").strip()
        if not text:
            raise Refused("idempotency_key_missing", "The header Idempotency-Key is required.")
        quoted = _QUOTED.fullmatch(text)
        key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else text
        bad = _PRINTABLE.fullmatch(key) is None or (text.startswith('"') and quoted is None)
        if bad or len(key) > MAX_KEY_CHARACTERS:
            raise Refused(
                "idempotency_key_invalid",
                f"An idempotency key has 1 to {MAX_KEY_CHARACTERS} printable ASCII characters.",
            )
        return key

    def parameters(self, known: Mapping[str, bool]) -> dict[str, list[str]]:
        """Return the query's values by name; ``known`` says which may be repeated.

        Read from the raw query string: the decoded form joins repetitions with a comma, and a
        value may contain one.
        """
        raw = self.event.get("rawQueryString")
        if raw is None:
            raw = urlencode(self.event.get("queryStringParameters") or {})
        try:
            pairs = parse_qsl(
                raw, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS
            )
        except ValueError:
            raise Refused("invalid_parameter", "The query cannot be read.") from None
        values: dict[str, list[str]] = {}
        for name, value in pairs:
            if name not in known:
                raise _unknown(name, known)
            values.setdefault(name, []).append(value)
            if "\0" in value or (len(values[name]) > 1 and not known[name]):
                raise invalid_parameter(name, "It is given once, without U+0000.")
        return values


def _unknown(name: str, known: Mapping[str, bool]) -> Refused:
    if name == "page" and "cursor" in known:
        return Refused("use_cursor", "There are no pages: pass next_cursor as cursor.")
    return Refused(
        "unknown_parameter",
        f"The query parameters of this route are: {', '.join(known) or 'none'}.",
    )


def invalid_parameter(name: str, detail: str) -> Refused:
    """Return the refusal of the query parameter ``name``."""
    return Refused("invalid_parameter", f"The query parameter {name} is not valid. {detail}")
