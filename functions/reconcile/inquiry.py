"""Ask a provider what became of a notification."""

import time
from collections.abc import Callable

from functions.core.login import GatewayCredentials
from functions.providers.choice import look_up_for
from functions.providers.transport import Transport
from functions.reconcile.reconcile import ASK_SECONDS, Answer, Ask
from functions.store.channel import Channels
from functions.store.check import Inquiry


def asking(
    channels: Channels,
    *,
    transport: Transport,
    gateway_credentials: Callable[[], GatewayCredentials],
) -> Ask:
    """Return what asks the provider of an inquiry, where its channel has it now."""

    def ask(inquiry: Inquiry) -> Answer:
        deadline = time.monotonic() + ASK_SECONDS
        try:
            provider = look_up_for(
                inquiry.provider,
                url=channels.get(inquiry.channel).provider_url,
                transport=transport,
                gateway_credentials=gateway_credentials,
            )
            if provider is None:
                return None
            return provider.look_up(
                channel=inquiry.channel,
                idempotency_key=inquiry.idempotency_key,
                deadline=deadline,
            )
        except Exception:  # no answer is an answer: it is asked again at its next look
            return None

    return ask
