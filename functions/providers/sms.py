"""The ``sms`` provider: AWS End User Messaging SMS (pinpoint-sms-voice-v2), SendTextMessage.

It knows no keys: an attempt of unknown outcome waits for an event that names it in its context,
then the channel's policy decides. A stream's sender is an origination number, pool or sender id
(none: the service chooses) and a configuration set (none: no events come). Its settings:

max_price                  the most that one part may cost, in USD ("0.05")
max_segments               the most parts that a text may have (10): each is billed
protect_configuration_id   instead of the configuration set's or the account's own
keyword                    where the origination needs one
in_entity_id, in_template_id   registrations that India requires

A setting that cannot be is the stream's fault, not the notification's: it waits, unspent.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from functions.core.content import SmsContent
from functions.core.declaration import Declaration
from functions.core.errors import Unreadable
from functions.core.outcome import Accepted, Blocked, Outcome, Rejected, Scope, Transient, Unknown
from functions.core.segment import encoded
from functions.core.states import Stream
from functions.core.stream import SenderIdentity
from functions.providers.aws import Answered, AwsCall, AwsClient, Declined
from functions.providers.aws_answer import outcome_of_failure
from functions.providers.provider import Submission
from functions.providers.sms_event import DECLARATION
from functions.providers.sms_rules import RULES

SERVICE = "pinpoint-sms-voice-v2"

MIN_LIFETIME_SECONDS = 5
MAX_LIFETIME_SECONDS = 72 * 3600
"""Of a message at the service; the most is what it takes by itself, too."""
MAX_SEGMENTS = 10
MAX_REFERENCE_CHARACTERS = 256

SmsCall = AwsCall | Outcome
"""What to call; or what comes of it without a call."""

_MESSAGE_TYPES: Mapping[str, str] = {
    Stream.TRANSACTIONAL: "TRANSACTIONAL",
    Stream.BULK: "PROMOTIONAL",
}
_E164 = re.compile(r"\+[1-9][0-9]{1,14}")

# What the service takes, by its model: a setting's parameter and its shape.
_SETTINGS: Mapping[str, tuple[str, re.Pattern[str]]] = {
    "max_price": ("MaxPrice", re.compile(r"[0-9]{0,2}\.[0-9]{1,5}")),
    "protect_configuration_id": ("ProtectConfigurationId", re.compile(r"[A-Za-z0-9_:/-]{1,256}")),
    "keyword": ("Keyword", re.compile(r"[ \S]{1,30}")),
}
_COUNTRY_SETTINGS: Mapping[str, tuple[str, re.Pattern[str]]] = {
    "in_entity_id": ("IN_ENTITY_ID", re.compile(r"\S{1,64}")),
    "in_template_id": ("IN_TEMPLATE_ID", re.compile(r"\S{1,64}")),
}
_SENDERS: Mapping[str, tuple[str, re.Pattern[str]]] = {
    "identity": ("OriginationIdentity", re.compile(r"[A-Za-z0-9_:/+-]{1,256}")),
    "configuration_set": ("ConfigurationSetName", re.compile(r"[A-Za-z0-9_:/-]{1,256}")),
}


class _NotPossible(Exception):
    """A setting of the stream, by name, that the service would not take."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True, slots=True, kw_only=True)
class SmsProvider:
    client: AwsClient
    declaration: Declaration = DECLARATION

    def prepare(self, submission: Submission) -> SmsCall:
        if not isinstance(submission.content, SmsContent):
            raise Unreadable("The content is not an SMS's.")
        if _E164.fullmatch(submission.recipient) is None:  # the service takes far more than that
            raise Unreadable("The recipient is not a telephone number.")
        remaining = submission.remaining_seconds
        if remaining is not None and remaining < MIN_LIFETIME_SECONDS:
            # It could outlive its time by what the service adds: so it is not sent, and is due
            # again when that time is over, which ends it.
            return Transient(
                code="too_little_time",
                detail=f"a message lives {MIN_LIFETIME_SECONDS} s at the least",
                begun=False,
                retry_after_seconds=float(MIN_LIFETIME_SECONDS),
            )
        try:
            most = _max_segments_of(submission.sender)
            parameters = _parameters_of(submission, submission.content.text)
        except _NotPossible as error:
            return Blocked(code="not_configured", detail=error.name, scope=Scope.SENDER_IDENTITY)
        segments = encoded(submission.content.text).segments
        if segments > most:
            return Rejected(code="too_many_segments", detail=f"{segments} of at most {most}")
        return AwsCall(operation="send_text_message", parameters=parameters)

    def submit(self, call: SmsCall, *, deadline: float) -> Outcome:
        if not isinstance(call, AwsCall):
            return call
        try:
            answer = self.client.call(call, deadline=deadline)
            if isinstance(answer, Answered):
                return _accepted(answer)
            outcome = outcome_of_failure(answer, RULES)
            if isinstance(answer, Declined) and answer.reason:  # it tells more than the error does
                return replace(outcome, code=answer.reason, detail=answer.code)
            return outcome
        except Exception as error:  # the call may have begun: nothing less than unknown is true
            return Unknown(code="internal_error", detail=type(error).__name__)


def _parameters_of(submission: Submission, text: str) -> dict[str, Any]:
    sender, remaining = submission.sender, submission.remaining_seconds
    named = {"identity": sender.identity, "configuration_set": sender.configuration_set}
    by_country = _read(sender.settings, _COUNTRY_SETTINGS)
    return {
        "DestinationPhoneNumber": submission.recipient,
        "MessageBody": text,
        "MessageType": _MESSAGE_TYPES[submission.stream],
        # Every event repeats it: by that the attempt is found, whatever was heard of the answer.
        "Context": {
            "attempt_id": str(submission.attempt_id),
            "notification_id": str(submission.notification_id),
            "organization_id": str(submission.organization_id),
        },
        "TimeToLive": int(min(MAX_LIFETIME_SECONDS, remaining or MAX_LIFETIME_SECONDS)),
        **_read(named, _SENDERS),
        **_read(sender.settings, _SETTINGS),
        **({"DestinationCountryParameters": by_country} if by_country else {}),
    }


def _read(
    values: Mapping[str, Any], shapes: Mapping[str, tuple[str, re.Pattern[str]]]
) -> dict[str, str]:
    """Return the parameters that ``values`` are for, without those that say nothing."""
    parameters: dict[str, str] = {}
    for name, (parameter, shape) in shapes.items():
        value = values.get(name)
        if value is None or value == "":
            continue
        if not isinstance(value, str | int | float) or shape.fullmatch(str(value)) is None:
            raise _NotPossible(name)
        parameters[parameter] = str(value)
    return parameters


def _max_segments_of(sender: SenderIdentity) -> int:
    most = sender.settings.get("max_segments")
    if most is None:
        return MAX_SEGMENTS
    if type(most) is not int or most < 1:
        raise _NotPossible("max_segments")
    return most


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
