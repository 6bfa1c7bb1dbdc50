"""What a sender function reads from its environment; one function per channel, one code."""

from dataclasses import dataclass
from typing import Annotated

from functions.runtime.settings import WithDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(WithDatabase):
    channel: Annotated[str, "The channel whose queue this function serves"]
    gateway_secret_arn: Annotated[
        str, "Secret that signs requests to the gateway: `current`, `previous`, optional `token`"
    ]
    hash_secret_arn: Annotated[
        str, "Secret whose `current` keys recipient hashes, cursors and unsubscribe links"
    ]
    webhook_secret_arn: Annotated[
        str,
        "Secret that what webhooks are signed with is derived from: `current`, `previous`",
    ]
    push_secret_arn: Annotated[str, "Secret with the service account of FCM, as Google gives it"]
    public_url: Annotated[
        str, "Where recipients reach the API, without `/v1`; empty: mail has no unsubscribe links"
    ] = ""
    own_networks: Annotated[
        str,
        "Networks of ours that no webhook may reach, in CIDR form with commas between; private "
        "ones are refused anyway",
    ] = ""
    local_webhook_origin: Annotated[
        str, "The one origin exempt from the https rule for webhook recipients; empty on AWS"
    ] = ""
