"""What an organization's webhooks are signed with, read at most once a minute."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from uuid import UUID

from functions.core.errors import Misconfigured
from functions.core.signature import key_of
from functions.core.webhook_key import secrets_of
from functions.store.connection import Database
from functions.store.webhook_key import WebhookKey, read_webhook_key

KEPT_SECONDS = 60.0
KEPT_AT_MOST = 10_000


class SigningSecrets:
    """The secrets by organization; ``masters`` gives the installation's, the current one first."""

    def __init__(self, database: Database, masters: Callable[[], Sequence[str]]) -> None:
        self._database = database
        self._masters = masters
        self._kept: dict[UUID, tuple[WebhookKey, float]] = {}

    def of(self, organization_id: UUID) -> tuple[str, ...]:
        """Return what signs now, the current one first; raise Misconfigured, Unavailable."""
        masters = [key_of(secret) for secret in self._masters()]
        key = self._key_of(organization_id)
        try:
            return secrets_of(
                masters[0],
                previous_master=masters[1] if len(masters) > 1 else None,
                organization_id=organization_id,
                number=key.number,
                rotated_at=key.rotated_at,
                now=datetime.now(UTC),
            )
        except ValueError as error:
            raise Misconfigured(str(error)) from error

    def _key_of(self, organization_id: UUID) -> WebhookKey:
        kept = self._kept.get(organization_id)
        if kept is None or time.monotonic() > kept[1]:
            if len(self._kept) >= KEPT_AT_MOST:
                self._kept.clear()
            key = read_webhook_key(self._database, id=organization_id)
            kept = self._kept[organization_id] = (key, time.monotonic() + KEPT_SECONDS)
        return kept[0]
