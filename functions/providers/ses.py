"""The ``ses`` provider: email by SES v2 SendEmail, one recipient per send, and what it answers.

SES has no idempotency token: what may have been accepted is told by an event that carries the
attempt in a tag, or by nobody. A ``stream`` names who sends:

sender_identity    the From address; without one the stream waits, and nothing is called
configuration_set  without one SES publishes no events
settings           from_name: the display name beside it; reply_to: an address, or a list of them
"""

from collections.abc import Sequence
from dataclasses import dataclass
from email.errors import MessageError
from email.header import Header
from email.headerregistry import Address
from typing import Any, cast

from functions.core.content import EmailContent
from functions.core.declaration import Declaration
from functions.core.errors import Unreadable
from functions.core.outcome import Accepted, Blocked, Outcome, Scope, Unknown
from functions.core.stream import SenderIdentity
from functions.providers.answer import Class
from functions.providers.aws import Answered, AwsCall, AwsClient
from functions.providers.aws_answer import Rule, outcome_of_failure
from functions.providers.provider import Submission
from functions.providers.ses_event import DECLARATION

QUOTA_SECONDS = 600.0
"""Between looks whether the rolling 24 hours have room again."""
SERVER_ERROR_SECONDS = 5.0
"""SES asks for at least this long after a 5xx: it may have been sent."""
MAX_REFERENCE_CHARACTERS = 256
MAX_HEADER_CHARACTERS = 996
"""Of a header that we add: its name and its value together."""

_IDENTITY = Scope.SENDER_IDENTITY
_QUOTA = "Daily message quota exceeded"

# PROVIDERS §1.1. Which exception carries the text of the daily quota is not documented: any of
# those that could.
RULES: Sequence[Rule] = (
    Rule(code="BadRequestException", fate=Class.REJECTED),
    Rule(
        code="MessageRejected",
        text="Email address is not verified",
        fate=Class.BLOCKED,
        scope=_IDENTITY,
    ),
    Rule(code="MessageRejected", fate=Class.REJECTED),
    Rule(code="413", fate=Class.REJECTED),
    Rule(code="MailFromDomainNotVerifiedException", fate=Class.BLOCKED, scope=_IDENTITY),
    Rule(code="SendingPausedException", fate=Class.BLOCKED, scope=_IDENTITY),
    Rule(code="NotFoundException", fate=Class.BLOCKED, scope=_IDENTITY),
    Rule(code="AccountSuspendedException", fate=Class.BLOCKED),
    *(
        Rule(code=code, text=_QUOTA, fate=Class.BLOCKED, wait_seconds=QUOTA_SECONDS)
        for code in (
            "LimitExceededException",
            "TooManyRequestsException",
            "Throttling",
            "ThrottlingException",
        )
    ),
    Rule(code="LimitExceededException", fate=Class.THROTTLED),
    *(
        Rule(code=code, fate=Class.UNKNOWN, wait_seconds=SERVER_ERROR_SECONDS)
        for code in (
            "InternalServiceErrorException",
            "InternalFailure",
            "ServiceUnavailable",
            "ServiceUnavailableException",
            "ConcurrentModificationException",
            "500",
            "502",
            "503",
            "504",
        )
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SesProvider:
    client: AwsClient
    declaration: Declaration = DECLARATION

    def prepare(self, submission: Submission) -> AwsCall | Blocked:
        """Return the call, or what keeps every email of its stream from being sent."""
        if not isinstance(submission.content, EmailContent):
            raise Unreadable("The content is not an email's.")
        # Checked again as at the door: a row written by hand may hold anything.
        recipient = _addr_spec(submission.recipient)
        if recipient is None:
            raise Unreadable("The recipient is not an email address.")
        message = _message(submission.content) | _headers(submission.unsubscribe_url)
        sender = _sender(submission.sender)
        if isinstance(sender, Blocked):
            return sender
        tags = {
            "attempt_id": submission.attempt_id,
            "notification_id": submission.notification_id,
            "organization_id": submission.organization_id,
        }
        return AwsCall(
            operation="send_email",
            parameters={
                **sender,
                "Destination": {"ToAddresses": [recipient]},
                "Content": {"Simple": message},
                "EmailTags": [{"Name": name, "Value": str(id)} for name, id in tags.items()],
            },
        )

    def submit(self, call: AwsCall | Blocked, *, deadline: float) -> Outcome:
        if isinstance(call, Blocked):
            return call
        try:
            answer = self.client.call(call, deadline=deadline)
            if isinstance(answer, Answered):
                return _accepted(answer)
            return outcome_of_failure(answer, RULES)
        except Exception as error:  # it may have been sent: nothing less than unknown is true
            return Unknown(code="internal_error", detail=type(error).__name__)


def _accepted(answer: Answered) -> Outcome:
    """Return the outcome of a 2xx: without a usable id it is unknown, for the request was taken."""
    reference = answer.result.get("MessageId")
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


def _message(content: EmailContent) -> dict[str, Any]:
    """Return the simple message. SES encodes its parts; a subject of several lines it never gets:
    the others would be headers of their own."""
    if content.subject and content.subject.splitlines() != [content.subject]:
        raise Unreadable("The subject is not a single line.")
    parts = {"Text": content.text, "Html": content.html}
    return {
        "Subject": _utf8(content.subject),
        "Body": {name: _utf8(part) for name, part in parts.items() if part},
    }


def _utf8(text: str) -> dict[str, str]:
    return {"Data": text, "Charset": "UTF-8"}


def _headers(unsubscribe_url: str | None) -> dict[str, Any]:
    """Return the two headers of a one-click unsubscription (RFC 8058), none for no URL."""
    if unsubscribe_url is None:
        return {}
    name, value = "List-Unsubscribe", f"<{unsubscribe_url}>"
    is_text = value.isascii() and value.isprintable()
    if (
        not is_text
        or len(name) + len(value) > MAX_HEADER_CHARACTERS
        or any(character in unsubscribe_url for character in "<>, ")
    ):
        raise Unreadable("The unsubscribe URL does not go into a header.")
    return {
        "Headers": [
            {"Name": name, "Value": value},
            {"Name": "List-Unsubscribe-Post", "Value": "List-Unsubscribe=One-Click"},
        ]
    }


def _sender(sender: SenderIdentity) -> dict[str, Any] | Blocked:
    """Return who sends, as parameters. A stream that does not tell is at fault, not its emails:
    they wait, unspent, until somebody sets it right."""
    address = _addr_spec(sender.identity or "")
    if address is None:
        return _not_configured("the stream names no From address")
    named = _named(sender.settings.get("from_name") or "", address)
    if named is None:
        return _not_configured("from_name is not a single line of text")
    replies = _reply_to(sender.settings.get("reply_to") or [])
    if replies is None:
        return _not_configured("reply_to is not an address, nor a list of them")
    parameters: dict[str, Any] = {"FromEmailAddress": named}
    if replies:
        parameters["ReplyToAddresses"] = replies
    if sender.configuration_set:
        parameters["ConfigurationSetName"] = sender.configuration_set
    return parameters


def _not_configured(detail: str) -> Blocked:
    return Blocked(code="not_configured", detail=detail, scope=Scope.SENDER_IDENTITY)


def _named(name: Any, address: str) -> str | None:
    """Return ``address`` beside ``name`` as a header has them: the name quoted, or encoded when it
    is not plain ASCII; None when it is no single line."""
    if not isinstance(name, str) or not name.isprintable():
        return None
    if name.isascii() and "=?" not in name:  # which would be read as encoded
        return str(Address(display_name=name, addr_spec=address))
    words = Header(name, "utf-8", maxlinelen=75).encode(linesep="")
    return f"{words} <{address}>"


def _reply_to(setting: Any) -> list[str] | None:
    given = cast("list[Any]", setting) if isinstance(setting, list) else [setting]
    addresses = [_addr_spec(one) if isinstance(one, str) else None for one in given]
    return None if None in addresses else [one for one in addresses if one]


def _addr_spec(text: str) -> str | None:
    """Return ``text`` when it is exactly one address, in ASCII as SES wants it; None otherwise."""
    try:
        address = Address(addr_spec=text).addr_spec
    except (ValueError, IndexError, MessageError):  # what its parser does to nonsense
        return None
    return text if address == text and text.isascii() and text.isprintable() else None
