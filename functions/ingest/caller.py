"""Who calls, as the authorizer found out, and whether they may.

The authorizer never denies: an HTTP API's own denials cannot carry problem+json. It passes
``organization_id``, ``scopes`` (separated by spaces) and ``key_id``, or ``error``, as strings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from functions.core.api_key import Scope
from functions.core.errors import Unavailable
from functions.core.problem import Refused
from functions.ingest.request import part

REALM = 'Bearer realm="sendoff"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    organization_id: UUID
    key_id: str
    scopes: frozenset[str]


NOBODY = Caller(organization_id=UUID(int=0), key_id="", scopes=frozenset())
"""The caller of a route that needs no key: no organization has this id."""


def caller_of(event: Mapping[str, Any]) -> Caller:
    """Return the caller; raise Refused (401), or Unavailable when no key can be looked up."""
    context = part(event, "requestContext", "authorizer", "lambda")
    if context.get("error") == Unavailable.code:
        raise Unavailable("The key could not be looked up.")
    try:
        return Caller(
            organization_id=UUID(context["organization_id"]),
            key_id=context["key_id"],
            scopes=frozenset(context["scopes"].split()),
        )
    except (KeyError, ValueError, AttributeError):
        raise _unauthenticated(event) from None


def allow(caller: Caller, scope: Scope) -> None:
    """Return when ``caller`` has ``scope``; raise Refused (403) otherwise."""
    if not caller.scopes & {scope, Scope.ADMIN}:
        raise Refused(
            "insufficient_scope",
            f"The key lacks the scope {scope}.",
            headers={"WWW-Authenticate": f'{REALM}, error="insufficient_scope", scope="{scope}"'},
        )


def _unauthenticated(event: Mapping[str, Any]) -> Refused:
    presented = any(name.lower() == "authorization" for name in part(event, "headers"))
    challenge = f'{REALM}, error="invalid_token"' if presented else REALM
    return Refused(
        "unauthenticated",
        "A valid key is required: Authorization: Bearer sk_…",
        headers={"WWW-Authenticate": challenge},
    )
