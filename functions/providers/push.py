"""The ``push`` provider: a device by its SNS platform endpoint, or by FCM HTTP v1.

The recipient and the stream of the notification decide which:

the ARN of an endpoint                        SNS
a device token, settings.project_id           FCM
a device token, identity (the ARN of an SNS   SNS, by the endpoint that the token has or gets
    platform application)
a device token, neither                       it waits, unspent: nothing is configured

Settings of a stream: ``project_id`` of FCM; ``ttl_seconds`` for which the push service tries, where
the notification itself never expires; ``collapse`` (push_message).

It knows no keys and gives no receipts: what is accepted ends as unconfirmed at once. What is dead
by its own word (an endpoint that is disabled or gone, a token that is unregistered) is refused.
One instance is one environment's: it keeps the access token and the client of SNS.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

from functions.core.content import PushContent
from functions.core.declaration import Declaration
from functions.core.errors import Unreadable
from functions.core.outcome import Answer, Blocked, Outcome, Rejected, Scope, Unknown
from functions.providers.provider import Submission
from functions.providers.push_declaration import DECLARATION
from functions.providers.push_message import BadSetting, PayloadTooLarge
from functions.providers.transport import Transport

if TYPE_CHECKING:
    from functions.providers.fcm import Fcm, FcmCall
    from functions.providers.fcm_token import ServiceAccount
    from functions.providers.sns_push import SnsCall, SnsPush

PushCall: TypeAlias = "SnsCall | FcmCall | Outcome"
"""What to call; or what comes of it without a call."""

FCM_URL = "https://fcm.googleapis.com"


class PushProvider:
    """``account`` returns the service account of FCM, an empty one where there is none; it is asked
    whenever an access token is."""

    declaration: Declaration = DECLARATION

    def __init__(
        self,
        *,
        transport: Transport,
        account: "ServiceAccount",
        sns_endpoint_url: str | None = None,
        fcm_url: str = FCM_URL,
    ) -> None:
        self._transport = transport
        self._account = account
        self._sns_endpoint_url = sns_endpoint_url
        self._fcm_url = fcm_url
        self._sns: SnsPush | None = None
        self._fcm: Fcm | None = None

    def prepare(self, submission: Submission) -> PushCall:
        if not isinstance(submission.content, PushContent):
            raise Unreadable("The content is not a push's.")
        try:
            if submission.recipient.startswith("arn:"):
                return self._by_sns().prepare(submission)
            project_id: Any = submission.sender.settings.get("project_id") or ""
            if not isinstance(project_id, str):
                raise BadSetting("project_id")
            if project_id:
                return self._by_fcm().prepare(submission, project_id=project_id)
            if submission.sender.identity:
                return self._by_sns().prepare(submission)
            # Only a token needs one of them: an endpoint's ARN on the same stream does without.
            return Blocked(
                code="not_configured", detail="project_id or identity", scope=Scope.DESTINATION
            )
        except BadSetting as error:
            # Our configuration is at fault, not the notification: it waits, unspent.
            return Blocked(code="not_configured", detail=error.name, scope=Scope.SENDER_IDENTITY)
        except PayloadTooLarge:
            return Rejected(code="payload_too_large", detail="there is no room for any text")

    def submit(self, call: PushCall, *, deadline: float) -> Outcome:
        if isinstance(call, Answer):
            return call
        try:
            return call.submit(deadline=deadline)
        except Exception as error:  # the call may have begun: nothing less than unknown is true
            return Unknown(code="internal_error", detail=type(error).__name__)

    def _by_sns(self) -> "SnsPush":
        from functions.providers.sns_push import SnsPush  # what is not used is not imported

        if self._sns is None:
            try:
                self._sns = SnsPush(transport=self._transport, endpoint_url=self._sns_endpoint_url)
            except Exception as error:  # no region, no such service: no fault of the notification's
                raise BadSetting(type(error).__name__) from error
        return self._sns

    def _by_fcm(self) -> "Fcm":
        from functions.providers.fcm import Fcm

        if self._fcm is None:
            self._fcm = Fcm(
                transport=self._transport,
                account=self._account,
                url=self._fcm_url,
            )
        return self._fcm
