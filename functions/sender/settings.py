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
    local_webhook_origin: Annotated[
        str, "The one origin exempt from the https rule for webhook recipients; empty on AWS"
    ] = ""
