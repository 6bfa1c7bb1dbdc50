"""What the callbacks function reads from its environment."""

from dataclasses import dataclass
from typing import Annotated

from functions.runtime.settings import WithDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(WithDatabase):
    callback_secret_arn: Annotated[str, "Secret that signs callbacks: `current` and `previous`"]
    hash_secret_arn: Annotated[str, "Secret whose `current` keys recipient hashes"]
