"""How we prove who we are, to the database and to a gateway: runtime knows, others need it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """One log-in to PostgreSQL; ``password`` never shows in a representation."""

    host: str
    port: int
    name: str
    user: str
    tls: bool
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayCredentials:
    """How we prove who we are: Standard Webhooks ``secrets``, and a bearer ``token`` or ""."""

    secrets: tuple[str, ...] = field(repr=False)
    token: str = field(default="", repr=False)
