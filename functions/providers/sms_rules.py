"""What SendTextMessage's errors mean: PROVIDERS §1.2, and what else the service's model tells.

Credentials and throttling are common to all services. What says that a country cannot be served
with what we have waits with the country alone; so does "no origination identity", which a pool
answers for just those countries that none of its numbers serves. What is wrong with the origination
itself waits with its stream, and what is wrong with the account with the provider.
"""

from collections.abc import Sequence

from functions.core.outcome import Scope
from functions.core.suppression import SuppressionReason
from functions.providers.answer import Class
from functions.providers.aws_answer import Rule

OPT_OUT_LIST = "sms:opt_out_list"
"""Says so where the service's own list of opted-out numbers refused one."""

QUOTA_SECONDS = 600.0
"""The least wait after a spent quota: it ends with the month, or when somebody raises it."""
DAILY_LIMIT_SECONDS = 3600.0
"""The least wait after a number's quota of a day, as long as any answer may ask for."""


def _rules(
    code: str,
    *reasons: str,
    fate: Class,
    scope: Scope = Scope.PROVIDER,
    fields: Sequence[str] = ("",),
    wait_seconds: float | None = None,
) -> Sequence[Rule]:
    return [
        Rule(
            code=code, reason=reason, field=field, fate=fate, scope=scope, wait_seconds=wait_seconds
        )
        for field in fields
        for reason in reasons
    ]


RULES: Sequence[Rule] = (
    Rule(
        code="ConflictException",
        reason="DESTINATION_PHONE_NUMBER_OPTED_OUT",
        fate=Class.REFUSED,
        suppress=SuppressionReason.RECIPIENT_CHOICE,
        source=OPT_OUT_LIST,
    ),
    *_rules(
        "ConflictException",
        "DESTINATION_COUNTRY_BLOCKED_BY_PROTECT_CONFIGURATION",
        "DESTINATION_PHONE_NUMBER_BLOCKED_BY_PROTECT_NUMBER_OVERRIDE",
        fate=Class.REJECTED,
    ),
    *_rules("ConflictException", "DESTINATION_PHONE_NUMBER_NOT_VERIFIED", fate=Class.BLOCKED),
    *_rules(
        "ConflictException",
        "NO_ORIGINATION_IDENTITIES_FOUND",
        fate=Class.BLOCKED,
        scope=Scope.COUNTRY,
    ),
    *_rules(
        "ConflictException",
        "RESOURCE_NOT_ACTIVE",
        "MESSAGE_TYPE_MISMATCH",
        "NUMBER_CAPABILITIES_MISMATCH",
        "REGISTRATION_NOT_COMPLETE",
        "KEYWORD_MISMATCH",
        "PROTECT_CONFIGURATION_NOT_ASSOCIATED_WITH_CONFIGURATION_SET",
        fate=Class.BLOCKED,
        scope=Scope.SENDER_IDENTITY,
    ),
    *_rules(
        "ValidationException",
        "COUNTRY_NOT_ENABLED",
        "DESTINATION_COUNTRY_BLOCKED",
        "INVALID_IDENTITY_FOR_DESTINATION_COUNTRY",
        "INTERNATIONAL_SENDING_NOT_SUPPORTED",
        "SENDER_ID_NOT_REGISTERED",
        "SENDER_ID_NOT_SUPPORTED",
        "SENDER_ID_REQUIRES_REGISTRATION",
        "PRICE_OVER_THRESHOLD",
        "CHANNEL_NOT_ENABLED",
        fate=Class.BLOCKED,
        scope=Scope.COUNTRY,
    ),
    *_rules(
        "ValidationException",
        "FIELD_VALIDATION_FAILED",
        "INVALID_PARAMETER",
        fields=("DestinationPhoneNumber", "MessageBody"),
        fate=Class.REJECTED,
    ),
    # What the stream says, and no notification: a slip of its operator must not use them all up.
    *_rules(
        "ValidationException",
        "FIELD_VALIDATION_FAILED",
        "INVALID_PARAMETER",
        fields=(
            "OriginationIdentity",
            "ConfigurationSetName",
            "MaxPrice",
            "ProtectConfigurationId",
            "Keyword",
            "DestinationCountryParameters",
        ),
        fate=Class.BLOCKED,
        scope=Scope.SENDER_IDENTITY,
    ),
    *_rules(
        "ValidationException",
        "INVALID_ARN",
        "RESOURCE_NOT_ACCESSIBLE",
        fate=Class.BLOCKED,
        scope=Scope.SENDER_IDENTITY,
    ),
    *_rules(
        "ValidationException",
        "FIELD_VALIDATION_FAILED",
        "INVALID_PARAMETER",
        "INVALID_REQUEST",
        "MISSING_PARAMETER",
        "MAXIMUM_SIZE_EXCEEDED",
        "PARAMETERS_CANNOT_BE_USED_TOGETHER",
        "UNSPECIFIED_PARAMETER_NOT_SUPPORTED",
        "CANNOT_PARSE",
        "OTHER",
        fate=Class.REJECTED,
    ),
    *_rules(
        "ServiceQuotaExceededException",
        "DAILY_DESTINATION_CALL_LIMIT",
        fate=Class.THROTTLED,
        scope=Scope.DESTINATION,
        wait_seconds=DAILY_LIMIT_SECONDS,
    ),
    *_rules(
        "ServiceQuotaExceededException",
        "MONTHLY_SPEND_LIMIT_REACHED_FOR_TEXT",
        "MONTHLY_SPEND_LIMIT_REACHED_FOR_MEDIA",
        "MONTHLY_SPEND_LIMIT_REACHED_FOR_NOTIFY",
        "MONTHLY_SPEND_LIMIT_REACHED_FOR_RCS",
        "MONTHLY_SPEND_LIMIT_REACHED_FOR_VOICE",
        "DAILY_NOTIFY_TIER_MESSAGE_LIMIT",
        fate=Class.BLOCKED,
        wait_seconds=QUOTA_SECONDS,
    ),
    # Whatever other quota it is, it is ours and no notification's.
    Rule(code="ServiceQuotaExceededException", fate=Class.BLOCKED, unforeseen=True),
    Rule(code="ResourceNotFoundException", fate=Class.BLOCKED, scope=Scope.SENDER_IDENTITY),
    # Perhaps sent; the latter two are of all services, and modelled by none.
    *(
        Rule(code=code, fate=Class.UNKNOWN, wait_seconds=5.0)
        for code in ("InternalServerException", "InternalFailure", "ServiceUnavailable")
    ),
)
