"""What the ingest function reads from its environment."""

from dataclasses import dataclass
from typing import Annotated

from functions.runtime.settings import WithDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(WithDatabase):
    hash_secret_arn: Annotated[
        str, "Secret whose `current` keys recipient hashes, cursors and unsubscribe links"
    ]
    local_webhook_origin: Annotated[
        str, "The one origin exempt from the https rule for webhook recipients; empty on AWS"
    ] = ""
