"""Prepare: the call of each notification, made whole before an attempt is opened for it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from functions.core.errors import Unavailable, Unreadable
from functions.core.metric import ChannelMetric
from functions.core.stream import SenderIdentity
from functions.providers.provider import Provider, Submission
from functions.sender.record import Report
from functions.sender.words import Document, Documents, content_of
from functions.store.connection import Database
from functions.store.delivery import Delivery, hold_unreadable
from functions.store.template import Key

ProviderOf = Callable[[str, str | None], Provider[Any]]
"""The provider of a name, at an address of its own; raises Misconfigured if there is none."""

LinkOf = Callable[[Delivery], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A notification that goes on to begin, and the call that will be made if it opens.

    One that is out of reach has none: begin says what becomes of it, and opens nothing.
    """

    delivery: Delivery
    provider: Provider[Any]
    call: Any = None

    @property
    def has_call(self) -> bool:
        return not self.delivery.is_out_of_reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparer:
    """What calls are made with."""

    database: Database
    provider_of: ProviderOf
    documents: Documents
    unsubscribe_url: LinkOf

    def prepare(self, due: Sequence[Delivery], report: Report) -> dict[UUID, Ready]:
        """Return what goes on to begin; hold those that no call can be made of."""
        documents = self.documents.of(
            self.database, (one for one in due if not one.is_out_of_reach)
        )
        ready: dict[UUID, Ready] = {}
        for delivery in due:
            provider = self.provider_of(delivery.provider, delivery.provider_url)
            if delivery.is_out_of_reach:
                ready[delivery.id] = Ready(delivery=delivery, provider=provider)
                continue
            try:
                call = provider.prepare(self._submission_of(delivery, documents))
                ready[delivery.id] = Ready(delivery=delivery, provider=provider, call=call)
            except Unavailable:  # what the provider needs, not what this one is
                raise
            except Exception:  # whatever a row's content does to us, it does to itself alone
                report.counts[ChannelMetric.UNREADABLE_CONTENT] += 1
        hold_unreadable(
            self.database,
            [(one.id, one.lease_number) for one in due if one.id not in ready],
        )
        return ready

    def _submission_of(self, delivery: Delivery, documents: Mapping[Key, Document]) -> Submission:
        if not delivery.recipient:
            raise Unreadable("The notification has no recipient.")
        return Submission(
            notification_id=delivery.id,
            attempt_id=delivery.token,
            organization_id=delivery.organization_id,
            idempotency_key=delivery.idempotency_key,
            channel=delivery.channel,
            recipient=delivery.recipient,
            content=content_of(delivery, documents),
            created_at=delivery.created_at,
            expires_at=delivery.expires_at,
            category=delivery.category,
            stream=delivery.stream,
            sender=SenderIdentity(
                identity=delivery.sender_identity,
                configuration_set=delivery.configuration_set,
                settings=delivery.sender_settings,
            ),
            unsubscribe_url=self.unsubscribe_url(delivery),
            remaining_seconds=delivery.remaining_seconds,
        )
