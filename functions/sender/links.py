"""The link by which a recipient stops a category: in bulk mail, and nowhere else."""

from collections.abc import Callable

from functions.core.states import Channel, Stream
from functions.core.unsubscribe import link_of, token_of, unsubscribe_key
from functions.store.delivery import Delivery


def unsubscribe_links(
    public_url: str, hash_key: Callable[[], bytes]
) -> Callable[[Delivery], str | None]:
    """Return what gives a delivery its link; none does where the API has no public address."""

    def link(delivery: Delivery) -> str | None:
        if not public_url or delivery.channel != Channel.EMAIL or delivery.stream != Stream.BULK:
            return None
        token = token_of(
            unsubscribe_key(hash_key()),
            organization_id=delivery.organization_id,
            channel=delivery.channel,
            recipient_hash=delivery.address_hash,
            category=delivery.category,
        )
        return link_of(public_url, token)

    return link
