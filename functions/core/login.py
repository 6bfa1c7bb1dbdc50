"""Where the database is and who logs in: what runtime knows and the store needs."""

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
