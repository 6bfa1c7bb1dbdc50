"""Which provider a channel uses: its name in the channels table, made into one to call."""

from collections.abc import Sequence

from functions.core.errors import Misconfigured
from functions.providers import http, webhook
from functions.providers.http import HttpProvider
from functions.providers.provider import Declaration, Provider
from functions.providers.transport import Transport
from functions.providers.webhook import WebhookProvider

DECLARATIONS: Sequence[Declaration] = (http.DECLARATION, webhook.DECLARATION)

KEYED_PROVIDERS: Sequence[str] = tuple(
    declaration.name for declaration in DECLARATIONS if declaration.keyed
)
"""Providers that honour our key, so that an unknown outcome may be tried again under it."""


def provider_for(
    name: str,
    *,
    url: str | None,
    transport: Transport,
    gateway_secrets: tuple[str, ...],
    gateway_token: str,
    local_origin: str,
) -> Provider:
    """Return the provider named ``name``; raise Misconfigured when there is none."""
    match name:
        case "http":
            return HttpProvider(
                url=url or "", secrets=gateway_secrets, token=gateway_token, transport=transport
            )
        case "webhook":
            return WebhookProvider(transport=transport, local_origin=local_origin)
        case _:
            raise Misconfigured(f"There is no provider named {name!r}.")
