"""Push by SNS platform endpoints: CreatePlatformEndpoint where need be, and one Publish.

SNS takes a message and tries for hours to hand it to the push service: so it always has a time to
live. A device token gets an endpoint of the stream's platform application before the attempt is
opened. That is no sending and may be repeated; it is done each time, for anybody may delete one.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functions.core.outcome import (
    Accepted,
    Blocked,
    Outcome,
    Refused,
    Rejected,
    Scope,
    Transient,
    Unknown,
)
from functions.providers.answer import Class
from functions.providers.aws import Answered, AwsCall, AwsClient, Declined
from functions.providers.aws_answer import Rule, outcome_of_failure
from functions.providers.provider import Submission
from functions.providers.push_message import (
    PushMessage,
    apns_payload,
    compact,
    fcm_message,
    fitted,
    message_of,
)
from functions.providers.transport import Lost, Transport

ENDPOINT = "sns:publish"
TOKEN = "sns:token"
"""Say so where an endpoint is dead, or a token was never one."""

PREPARING_SECONDS = 2.0
"""For an endpoint; a set of notifications gets theirs one after the other."""
PAUSE_SECONDS = 5.0
"""After no answer came, so that a set does not wait for each of its members."""
MAX_REFERENCE_CHARACTERS = 256

_IDENTITY = Scope.SENDER_IDENTITY
_EXISTING = re.compile(r"Endpoint (arn:\S+) already exists with the same Token", re.IGNORECASE)

# PROVIDERS §1.3. Also of a Publish: an application that is gone is nothing about the endpoint.
RULES: Sequence[Rule] = (
    Rule(code="EndpointDisabled", fate=Class.REFUSED, source=ENDPOINT),
    Rule(code="NotFound", text="PlatformApplication", fate=Class.BLOCKED, scope=_IDENTITY),
    Rule(code="NotFound", text="platform application", fate=Class.BLOCKED, scope=_IDENTITY),
    Rule(code="NotFound", fate=Class.REFUSED, source=ENDPOINT),
    Rule(code="PlatformApplicationDisabled", fate=Class.BLOCKED, scope=_IDENTITY),
    *(
        Rule(code=code, fate=Class.REJECTED)
        for code in (
            "InvalidParameter",
            "InvalidParameterValue",
            "ParameterValueInvalid",
            "ValidationError",
            "ValidationException",
        )
    ),
    *(
        Rule(code=code, fate=Class.BLOCKED)
        for code in (
            "AuthorizationError",
            "InvalidSecurity",
            "KMSAccessDenied",
            "KMSDisabled",
            "KMSInvalidState",
            "KMSNotFound",
            "KMSOptInRequired",
        )
    ),
    Rule(code="Throttled", fate=Class.THROTTLED),
    Rule(code="Throttling", fate=Class.THROTTLED),
    Rule(code="KMSThrottling", fate=Class.THROTTLED),
    Rule(code="InternalError", fate=Class.UNKNOWN),
    Rule(code="InternalFailure", fate=Class.UNKNOWN),
    Rule(code="ServiceUnavailable", fate=Class.UNKNOWN),
)

# Of the token and the application, before there is an endpoint.
ENDPOINT_RULES: Sequence[Rule] = (
    Rule(code="NotFound", fate=Class.BLOCKED, scope=_IDENTITY),
    Rule(
        code="InvalidParameter",
        text="PlatformApplicationArn",
        fate=Class.BLOCKED,
        scope=_IDENTITY,
    ),
    Rule(code="InvalidParameter", text="Token Reason", fate=Class.REFUSED, source=TOKEN),
    *RULES,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """How SNS names a platform in a message, and the attribute with its time to live."""

    ttl: str
    is_apple: bool


PLATFORMS: Mapping[str, Platform] = {
    "GCM": Platform(ttl="AWS.SNS.MOBILE.FCM.TTL", is_apple=False),
    "APNS": Platform(ttl="AWS.SNS.MOBILE.APNS.TTL", is_apple=True),
    "APNS_SANDBOX": Platform(ttl="AWS.SNS.MOBILE.APNS_SANDBOX.TTL", is_apple=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsCall:
    """A Publish; ``made``: its endpoint was made for the token just before."""

    client: AwsClient
    call: AwsCall
    made: bool

    def submit(self, *, deadline: float) -> Outcome:
        answer = self.client.call(self.call, deadline=deadline)
        if isinstance(answer, Answered):
            return _accepted(answer)
        outcome = outcome_of_failure(answer, RULES)
        return _of_gone_endpoint(outcome) if self.made else outcome


class SnsPush:
    """The SNS of one environment; ``prepare`` is for one thread at a time."""

    def __init__(self, *, transport: Transport, endpoint_url: str | None = None) -> None:
        self._client = AwsClient("sns", transport=transport, endpoint_url=endpoint_url)
        self._out: Outcome | None = None
        self._out_until = 0.0

    def prepare(self, submission: Submission) -> SnsCall | Outcome:
        made = not submission.recipient.startswith("arn:")
        arn: str | Outcome = submission.recipient
        application = submission.sender.identity or ""
        _, _, path = (application if made else submission.recipient).partition("/")
        name = path.partition("/")[0]
        platform = PLATFORMS.get(name)
        if platform is None:
            if made:
                return Blocked(code="not_configured", detail="identity", scope=_IDENTITY)
            return Rejected(code="platform_not_supported", detail=name)
        parameters = _publish(message_of(submission), name, platform)
        if made:
            arn = self._endpoint_of(submission.recipient, application)
        if not isinstance(arn, str):
            return arn
        call = AwsCall(operation="publish", parameters={"TargetArn": arn, **parameters})
        return SnsCall(client=self._client, call=call, made=made)

    def _endpoint_of(self, token: str, application: str) -> str | Outcome:
        """Return the ARN of the endpoint that ``token`` has or gets, or what stands in the way."""
        if self._out is not None and time.monotonic() < self._out_until:
            return self._out
        deadline = time.monotonic() + PREPARING_SECONDS
        create = AwsCall(
            operation="create_platform_endpoint",
            parameters={"PlatformApplicationArn": application, "Token": token},
        )
        answer = self._client.call(create, deadline=deadline)
        if isinstance(answer, Answered):
            return _made(answer)
        if isinstance(answer, Declined) and (existing := _EXISTING.search(answer.message)):
            return self._enabled(existing[1], token, deadline=deadline)
        return self._note(answer, _not_sent(outcome_of_failure(answer, ENDPOINT_RULES)))

    def _enabled(self, arn: str, token: str, *, deadline: float) -> str | Outcome:
        """Return the endpoint that the token had with other attributes, once it has ours."""
        enable = AwsCall(
            operation="set_endpoint_attributes",
            parameters={"EndpointArn": arn, "Attributes": {"Token": token, "Enabled": "true"}},
        )
        answer = self._client.call(enable, deadline=deadline)
        if isinstance(answer, Answered):
            return arn
        outcome = _of_gone_endpoint(_not_sent(outcome_of_failure(answer, RULES)))
        return self._note(answer, outcome)

    def _note(self, answer: Any, outcome: Outcome) -> Outcome:
        """Have the next ones not wait as long, when it was waiting that came to nothing."""
        if isinstance(answer, Lost):
            self._out, self._out_until = outcome, time.monotonic() + PAUSE_SECONDS
        return outcome


def _made(answer: Answered) -> str | Outcome:
    arn: Any = answer.result.get("EndpointArn")
    if isinstance(arn, str) and arn:
        return arn
    return Transient(code="unreadable_answer", http_status=answer.http_status)


def _publish(message: PushMessage, name: str, platform: Platform) -> dict[str, Any]:
    """Return the parameters of a Publish but for where it goes."""
    attributes = {platform.ttl: str(message.ttl_seconds)}
    if platform.is_apple:
        payload = fitted(message, apns_payload)
        attributes |= {
            "AWS.SNS.MOBILE.APNS.COLLAPSE_ID": message.collapse_id,
            "AWS.SNS.MOBILE.APNS.PUSH_TYPE": "alert" if message.is_shown else "background",
            "AWS.SNS.MOBILE.APNS.PRIORITY": "10" if message.is_shown else "5",
        }
    else:
        payload = fitted(message, lambda one: {"fcmV1Message": {"message": fcm_message(one)}})
    return {
        "MessageStructure": "json",
        # The default is for platforms without a payload of their own: there is none here.
        "Message": compact({"default": "notification", name: payload}),
        "MessageAttributes": {
            attribute: {"DataType": "String", "StringValue": value}
            for attribute, value in attributes.items()
        },
    }


def _not_sent(outcome: Outcome) -> Outcome:
    """Return what ``outcome`` of making an endpoint means to the notification: whatever came of
    that, it was not published."""
    if isinstance(outcome, Unknown):
        return Transient(
            code=outcome.code,
            detail=outcome.detail,
            http_status=outcome.http_status,
            retry_after_seconds=outcome.retry_after_seconds,
            unforeseen=outcome.unforeseen,
        )
    return outcome


def _of_gone_endpoint(outcome: Outcome) -> Outcome:
    """Return what it means that an endpoint which we made is gone: the next attempt makes another,
    the token may be as good as ever."""
    if isinstance(outcome, Refused) and outcome.code == "NotFound":
        return Transient(code=outcome.code, http_status=outcome.http_status)
    return outcome


def _accepted(answer: Answered) -> Outcome:
    """Return the outcome of a 2xx: without a usable id it is unknown, for the request was taken."""
    reference: Any = answer.result.get("MessageId")
    if (
        isinstance(reference, str)
        and 0 < len(reference) <= MAX_REFERENCE_CHARACTERS
        and reference.isprintable()
    ):
        return Accepted(reference=reference, http_status=answer.http_status)
    return Unknown(
        code="unreadable_answer",
        http_status=answer.http_status,
        detail="a 2xx answer without a MessageId",
    )
