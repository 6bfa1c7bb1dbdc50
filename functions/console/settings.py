"""What the console function reads from its environment."""

from dataclasses import dataclass
from typing import Annotated

from functions.runtime.settings import WithDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(WithDatabase):
    hash_secret_arn: Annotated[
        str, "Secret whose `current` keys recipient hashes, cursors and unsubscribe links"
    ]
    webhook_secret_arn: Annotated[
        str,
        "Secret that what webhooks are signed with is derived from: `current`, `previous`",
    ]
    email_dead_letters_url: Annotated[str, "Dead-letter queue of the email sender"]
    sms_dead_letters_url: Annotated[str, "Dead-letter queue of the SMS sender"]
    push_dead_letters_url: Annotated[str, "Dead-letter queue of the push sender"]
    webhook_dead_letters_url: Annotated[str, "Dead-letter queue of the webhook sender"]
