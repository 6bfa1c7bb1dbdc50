"""What the callbacks function reads from its environment."""

from dataclasses import dataclass
from typing import Annotated

from functions.runtime.settings import WithDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(WithDatabase):
    callback_secret_arn: Annotated[str, "Secret that signs callbacks: `current` and `previous`"]
    hash_secret_arn: Annotated[
        str, "Secret whose `current` keys recipient hashes, cursors and unsubscribe links"
    ]
    event_topic_arns: Annotated[
        str, "SNS topics that may call over HTTP, separated by commas; every other is refused"
    ] = ""

    @property
    def event_topics(self) -> frozenset[str]:
        return frozenset(
            name for part in self.event_topic_arns.split(",") if (name := part.strip())
        )
