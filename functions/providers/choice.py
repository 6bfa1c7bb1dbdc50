"""Which provider a channel uses: its name in the channels table, made into one to call."""

from collections.abc import Callable, Sequence

from functions.core.declaration import Declaration
from functions.core.errors import Misconfigured
from functions.core.evidence import Receipt, StoredReceipt
from functions.core.login import GatewayCredentials
from functions.providers import http, http_report, keyless, webhook
from functions.providers.http import HttpProvider
from functions.providers.keyless import KeylessProvider
from functions.providers.provider import LooksUp, Provider
from functions.providers.transport import Transport
from functions.providers.webhook import WebhookProvider

DECLARATIONS: Sequence[Declaration] = (
    http.DECLARATION,
    keyless.DECLARATION,
    webhook.DECLARATION,
)


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

    def gateway() -> HttpProvider:
        return HttpProvider(url=url or "", credentials=gateway_credentials(), transport=transport)

    match name:
        case "http":
            return gateway()
        case "http_keyless":
            return KeylessProvider(gateway=gateway())
        case "webhook":
            return WebhookProvider(transport=transport, local_origin=local_origin)
        case _:
            raise Misconfigured(f"There is no provider named {name!r}.")


def look_up_for(
    name: str,
    *,
    url: str | None,
    transport: Transport,
    gateway_credentials: Callable[[], GatewayCredentials],
) -> LooksUp | None:
    """Return the provider named ``name`` if it can be asked."""
    match name:
        case "http":
            return HttpProvider(
                url=url or "", credentials=gateway_credentials(), transport=transport
            )
        case _:
            return None


def reparse_for(hash_key: bytes) -> Callable[[StoredReceipt], Receipt | None]:
    """Return what reads a kept report once more, by the rules of today.

    None for one that they cannot read, and for what no provider said (an operator's finding).
    """

    def reparse(stored: StoredReceipt) -> Receipt | None:
        match stored.provider:
            case http_report.PROVIDER:
                return http_report.read_again(stored, hash_key=hash_key)
            case _:
                return None

    return reparse
