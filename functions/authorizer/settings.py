"""What the authorizer function reads from its environment."""

from dataclasses import dataclass

from functions.runtime.settings import WithDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(WithDatabase):
    pass
