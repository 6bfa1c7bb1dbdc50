"""A submission as a sender hands it to a provider, and a call made of it over real sockets."""

import time
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from functions.core.content import read_content
from functions.core.outcome import Outcome
from functions.providers.provider import Provider, Submission

NOTIFICATION_ID = UUID("01900000-0000-7000-8000-0000000000aa")
ATTEMPT_ID = UUID("01900000-0000-7000-8000-0000000000bb")
ORGANIZATION_ID = UUID("01900000-0000-7000-8000-0000000000cc")


def submission(
    *,
    channel: str = "email",
    recipient: str = "ok@example.com",
    content: Any = "Thank you for your order.",
    attempt_id: UUID = ATTEMPT_ID,
    idempotency_key: str = str(NOTIFICATION_ID),
) -> Submission:
    return Submission(
        organization_id=ORGANIZATION_ID,
        notification_id=NOTIFICATION_ID,
        attempt_id=attempt_id,
        idempotency_key=idempotency_key,
        channel=channel,
        recipient=recipient,
        content=read_content(channel, content),
        created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )


def submit(provider: Provider[Any], what: Submission, *, seconds: float = 5.0) -> Outcome:
    return provider.submit(provider.prepare(what), deadline=time.monotonic() + seconds)
