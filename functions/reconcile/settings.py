"""What the reconcile function reads from its environment."""

from dataclasses import dataclass
from typing import Annotated

from functions.runtime.settings import WithDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(WithDatabase):
    gateway_secret_arn: Annotated[
        str, "Secret that signs requests to the gateway: `current`, `previous`, optional `token`"
    ]
