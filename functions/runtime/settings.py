"""Settings: a frozen dataclass per function, read once from the environment, at import.

A field ``max_connections: Annotated[int, "what it means"] = 1`` is read from MAX_CONNECTIONS. All
names that are missing or malformed are reported at once, so one deployment shows every mistake.
"""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from functions.core.errors import Misconfigured

S = TypeVar("S")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What every function reads."""

    service: Annotated[str, "Name in logs and metrics; the prefix of all resource names"] = (
        "sendoff"
    )
    log_level: Annotated[str, "Least level written to the log"] = "INFO"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WithDatabase(Common):
    """What every function with a database connection reads."""

    database_host: Annotated[str, "PostgreSQL host"]
    database_port: Annotated[int, "PostgreSQL port"] = 5432
    database_name: Annotated[str, "PostgreSQL database"] = "sendoff"
    database_user: Annotated[str, "PostgreSQL role"] = "sendoff_service"
    database_auth: Annotated[
        str, "How to log in: `iam` (a token per connect), `secret` (DATABASE_SECRET_ARN) or `trust`"
    ] = "iam"
    database_secret_arn: Annotated[str, "Secret with the role's `username` and `password`"] = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One environment variable of a settings class, for documents and tests."""

    name: str
    type: str
    default: object | None
    required: bool
    meaning: str


def variables(settings_class: type) -> list[Variable]:
    """Return the environment variables that ``settings_class`` reads, in order."""
    hints = get_type_hints(settings_class, include_extras=True)
    return [
        Variable(
            name=field.name.upper(),
            type=_plain(hints[field.name]).__name__,
            default=None if field.default is dataclasses.MISSING else field.default,
            required=field.default is dataclasses.MISSING,
            meaning=_meaning(hints[field.name]),
        )
        for field in dataclasses.fields(settings_class)
    ]


def load(settings_class: type[S], environment: Mapping[str, str]) -> S:
    """Return settings read from ``environment``; raise Misconfigured naming every fault."""
    hints = get_type_hints(settings_class)
    values: dict[str, Any] = {}
    faults: list[str] = []
    for field in dataclasses.fields(settings_class):  # pyright: ignore[reportArgumentType]
        name = field.name.upper()
        text = environment.get(name, "")
        if not text:
            if field.default is dataclasses.MISSING:
                faults.append(f"{name} is missing")
            continue
        try:
            values[field.name] = hints[field.name](text)
        except ValueError:
            faults.append(f"{name} is not {hints[field.name].__name__}: {text!r}")
    if faults:
        raise Misconfigured(f"{settings_class.__module__}: {'; '.join(faults)}.")
    return settings_class(**values)


def _plain(hint: Any) -> type:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _meaning(hint: Any) -> str:
    return str(get_args(hint)[1]) if get_origin(hint) is Annotated else ""
