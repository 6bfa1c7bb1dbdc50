"""Push by FCM HTTP v1: one message to one device token, and what Google answers.

The token that proves who we are is got before the attempt is opened. One that Google refuses is
forgotten, and the next attempt has another; when that is refused as well, the account is to blame.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote

from functions.core.outcome import Accepted, Blocked, Outcome, Scope, Transient, Unknown
from functions.providers.answer import Class, outcome_of_loss
from functions.providers.aws import Declined
from functions.providers.aws_answer import Rule, outcome_of_failure
from functions.providers.fcm_token import AccessToken, AccessTokens, ServiceAccount
from functions.providers.provider import PreparedCall, Submission
from functions.providers.push_message import fcm_message, fitted, message_of
from functions.providers.transport import Lost, Response, Transport

MAX_REFERENCE_CHARACTERS = 256
MAX_WORD_CHARACTERS = 64

UNREGISTERED = "fcm:unregistered"
INVALID_TOKEN = "fcm:invalid_token"

_IDENTITY = Scope.SENDER_IDENTITY
_UNAUTHENTICATED = "UNAUTHENTICATED"
_OF_OUR_TOKEN = frozenset({_UNAUTHENTICATED, "PERMISSION_DENIED", "401", "403"})
_OF_FCM = "google.firebase.fcm.v1.FcmError"
_OF_REQUEST = "google.rpc.BadRequest"
_TOKEN_FIELD = "message.token"

# PROVIDERS §1.4. The code is FcmError's; without one Google's status; without that the HTTP status.
# A token of another project is no dead token, and many of them are our mistake: a person looks.
RULES: Sequence[Rule] = (
    Rule(code="UNREGISTERED", fate=Class.REFUSED, source=UNREGISTERED),
    Rule(code="NOT_FOUND", text="NotRegistered", fate=Class.REFUSED, source=UNREGISTERED),
    Rule(code="INVALID_ARGUMENT", field=_TOKEN_FIELD, fate=Class.REFUSED, source=INVALID_TOKEN),
    Rule(code="INVALID_ARGUMENT", fate=Class.REJECTED),
    Rule(code="SENDER_ID_MISMATCH", fate=Class.REJECTED),
    Rule(
        code="QUOTA_EXCEEDED",
        text="device message rate",
        fate=Class.THROTTLED,
        scope=Scope.DESTINATION,
    ),
    Rule(code="QUOTA_EXCEEDED", fate=Class.THROTTLED),
    Rule(code="RESOURCE_EXHAUSTED", fate=Class.THROTTLED),
    Rule(code="UNAVAILABLE", fate=Class.TRANSIENT),
    Rule(code="UNSPECIFIED_ERROR", fate=Class.TRANSIENT),
    Rule(code="408", fate=Class.TRANSIENT),
    Rule(code="502", fate=Class.TRANSIENT),
    Rule(code="503", fate=Class.TRANSIENT),
    Rule(code="INTERNAL", fate=Class.UNKNOWN),
    *(
        Rule(code=code, fate=Class.BLOCKED, scope=_IDENTITY)
        for code in ("THIRD_PARTY_AUTH_ERROR", "APNS_AUTH_ERROR", *sorted(_OF_OUR_TOKEN))
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FcmCall:
    """A message that can be written, and the access token it is written under."""

    request: PreparedCall = field(repr=False)
    token: AccessToken
    tokens: AccessTokens
    transport: Transport

    def submit(self, *, deadline: float) -> Outcome:
        answer = self.transport.request(
            self.request.method,
            self.request.url,
            headers=self.request.headers,
            body=self.request.body,
            deadline=deadline,
        )
        match answer:
            case Lost():
                return outcome_of_loss(answer)
            case Response(complete=False, status=status):
                return Unknown(
                    code="unreadable_answer", http_status=status, detail="cut or too long"
                )
            case Response(status=status) if 200 <= status < 300:
                self.tokens.passed(self.token)
                return _accepted(answer)
            case Response():
                return self._failed(answer)

    def _failed(self, answer: Response) -> Outcome:
        outcome = outcome_of_failure(declined(answer), RULES)
        if outcome.code not in _OF_OUR_TOKEN:
            return outcome
        another_is_in_vain = self.tokens.refused(self.token)
        if outcome.code in (_UNAUTHENTICATED, "401") and not another_is_in_vain:
            return Transient(code=outcome.code, detail=outcome.detail, http_status=answer.status)
        return outcome


class Fcm:
    """FCM of one environment; several projects may be reached by one service account."""

    def __init__(self, *, transport: Transport, account: ServiceAccount, url: str) -> None:
        self._transport = transport
        self._tokens = AccessTokens(transport=transport, account=account)
        self._url = url

    def prepare(self, submission: Submission, *, project_id: str) -> FcmCall | Outcome:
        body = fitted(
            message_of(submission),
            lambda message: {"message": {"token": submission.recipient, **fcm_message(message)}},
        )
        token = self._tokens.get()
        if isinstance(token, Blocked):
            return token
        request = PreparedCall(
            method="POST",
            url=f"{self._url}/v1/projects/{quote(project_id, safe='')}/messages:send",
            headers={
                "Content-Type": "application/json",
                "Authorization": f"Bearer {token.text}",
            },
            body=body.encode(),
        )
        return FcmCall(request=request, token=token, tokens=self._tokens, transport=self._transport)


def declined(answer: Response) -> Declined:
    """Return an error of FCM's as the tables know errors; its reason is what it names beside."""
    value = _json(answer.body)
    said: Any = cast("dict[str, Any]", value).get("error") if isinstance(value, dict) else None
    error = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
    details = _objects_in(error, "details")
    of_fcm = next((one for one in details if str(one.get("@type")).endswith(_OF_FCM)), None)
    code = (_word(of_fcm, "errorCode") or _word(of_fcm, "error_code")).upper()
    status = _word(error, "status").upper()
    fields = [
        _word(violation, "field")
        for detail in details
        if str(detail.get("@type")).endswith(_OF_REQUEST)
        for violation in _objects_in(detail, "fieldViolations")
    ]
    if code == "INVALID_ARGUMENT" and not fields:
        # FCM's own error with no field named is its answer to a token that is none; what is wrong
        # with the request comes with the field, or without FCM's error.
        fields = [_TOKEN_FIELD]
    return Declined(
        code=code or status or str(answer.status),
        message=str(error.get("message") or ""),
        http_status=answer.status,
        headers=answer.headers,
        reason=", ".join(fields)[:MAX_REFERENCE_CHARACTERS] or (status if code else ""),
        fields=tuple(fields),
    )


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _objects_in(members: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of a list that may not be there."""
    value: Any = members.get(name)
    entries = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]


def _word(members: dict[str, Any] | None, name: str) -> str:
    """Return a member that goes to the ledger: cut, and empty where it could not be kept."""
    value = (members or {}).get(name)
    return value[:MAX_WORD_CHARACTERS] if isinstance(value, str) and value.isprintable() else ""


def _accepted(answer: Response) -> Outcome:
    """Return the outcome of a 2xx: without a usable name it is unknown, for the request was
    taken."""
    value = _json(answer.body)
    name: Any = cast("dict[str, Any]", value).get("name") if isinstance(value, dict) else None
    if isinstance(name, str) and 0 < len(name) <= MAX_REFERENCE_CHARACTERS and name.isprintable():
        return Accepted(reference=name, http_status=answer.status)
    return Unknown(
        code="unreadable_answer", http_status=answer.status, detail="a 2xx answer without a name"
    )
