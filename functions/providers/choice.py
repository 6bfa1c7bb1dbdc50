"""Which provider a channel uses: its name in the channels table, made into one to call."""

from collections.abc import Callable, Sequence

from functions.core.errors import Misconfigured
from functions.providers import http, webhook
from functions.providers.http import GatewayCredentials, HttpProvider
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
    gateway_credentials: Callable[[], GatewayCredentials],
    local_origin: str,
) -> Provider:
    """Return the provider named ``name``; raise Misconfigured when there is none.

    ``gateway_credentials`` are asked for only by a provider that needs them.
    """
    match name:
        case "http":
            return HttpProvider(
                url=url or "", credentials=gateway_credentials(), transport=transport
            )
        case "webhook":
            return WebhookProvider(transport=transport, local_origin=local_origin)
        case _:
            raise Misconfigured(f"There is no provider named {name!r}.")
