"""Which provider a channel uses: its name in the channels table, made into one to call.

What a provider needs that others do not (boto3, an HTTP client of its own) is imported with it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from functions.core.declaration import Declaration
from functions.core.errors import Misconfigured
from functions.core.evidence import Receipt, StoredReceipt
from functions.core.login import GatewayCredentials
from functions.providers import (
    event,
    http,
    http_report,
    keyless,
    push_declaration,
    push_event,
    ses_event,
    sms_event,
    webhook,
)
from functions.providers.dial import Guard
from functions.providers.egress import PublicOnly
from functions.providers.http import HttpProvider
from functions.providers.keyless import KeylessProvider
from functions.providers.provider import LooksUp, Provider
from functions.providers.transport import Transport
from functions.providers.webhook import WebhookProvider

DECLARATIONS: Sequence[Declaration] = (
    http.DECLARATION,
    keyless.DECLARATION,
    webhook.DECLARATION,
    ses_event.DECLARATION,
    sms_event.DECLARATION,
    push_declaration.DECLARATION,
)

NAMES: frozenset[str] = frozenset(declaration.name for declaration in DECLARATIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What providers work with; what only some of them need is asked for by those alone.

    gateway_credentials  how we prove to a gateway who we are
    webhook_secrets      what an organization's webhooks are signed with, the current one first
    push_account         the service account of FCM, empty when there is none
    """

    transport: Transport
    gateway_credentials: Callable[[], GatewayCredentials]
    webhook_secrets: Callable[[UUID], Sequence[str]]
    push_account: Callable[[], Mapping[str, Any]]
    local_origin: str = ""
    guard: Guard = field(default_factory=PublicOnly)


class Providers:
    """The providers of one environment. Those that keep clients or tokens are made once; one that
    is made of credentials is made anew, since they change."""

    def __init__(self, equipment: Equipment) -> None:
        self._equipment = equipment
        self._kept: dict[tuple[str, str | None], Provider[Any]] = {}

    def get(self, name: str, *, url: str | None) -> Provider[Any]:
        """Return the provider ``name``, called at ``url``; raise Misconfigured if there is none."""
        match name:
            case "http":
                return self._gateway(url)
            case "http_keyless":
                return KeylessProvider(gateway=self._gateway(url))
            case "webhook":
                return WebhookProvider(
                    transport=self._equipment.transport,
                    secrets=self._equipment.webhook_secrets,
                    local_origin=self._equipment.local_origin,
                    guard=self._equipment.guard,
                )
            case "ses" | "sms" | "push":
                kept = self._kept.get((name, url))
                if kept is None:
                    kept = self._kept[name, url] = self._of_aws(name, url or None)
                return kept
            case _:
                raise Misconfigured(f"There is no provider named {name!r}.")

    def _gateway(self, url: str | None) -> HttpProvider:
        return HttpProvider(
            url=url or "",
            credentials=self._equipment.gateway_credentials(),
            transport=self._equipment.transport,
        )

    def _of_aws(self, name: str, endpoint_url: str | None) -> Provider[Any]:
        """Return a provider of AWS's or FCM's; ``endpoint_url`` stands in for the region's own."""
        transport = self._equipment.transport
        # Each with what it alone imports: boto3 takes a quarter of a second.
        if name == "push":
            from functions.providers.push import PushProvider

            return PushProvider(
                transport=transport,
                account=self._equipment.push_account,
                sns_endpoint_url=endpoint_url,
            )
        from functions.providers.aws import AwsClient

        if name == "ses":
            from functions.providers import ses

            client = AwsClient("sesv2", transport=transport, endpoint_url=endpoint_url)
            return ses.SesProvider(client=client)
        from functions.providers import sms

        client = AwsClient("pinpoint-sms-voice-v2", transport=transport, endpoint_url=endpoint_url)
        return sms.SmsProvider(client=client)


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
            case "ses":
                return ses_event.read_again(stored, hash_key=hash_key)
            case "sms":
                return sms_event.read_again(stored, hash_key=hash_key)
            case "push":
                return push_event.read_again(stored, hash_key=hash_key)
            case event.NOTES:
                return event.read_again(stored, hash_key=hash_key)
            case _:
                return None

    return reparse
