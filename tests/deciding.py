"""Notifications and recipients as the policy is asked about them."""

from dataclasses import dataclass, replace
from datetime import datetime, time
from typing import Any
from uuid import UUID

from functions.core.local_time import Window
from functions.core.policy import NO_RULES, ContactPoint, Recipient, Rules

SOME_ID = UUID("01900000-0000-7000-8000-0000000000aa")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A notification by reference, unless it is told otherwise."""

    id: UUID = SOME_ID
    channel: str = "email"
    category: str = "receipts"
    priority: str = "normal"
    recipient_id: str | None = "ada"
    expires_at: datetime | None = None
    in_doubt: int = 0
    contact_hash: bytes | None = None
    locale: str | None = None
    had_attempt: bool = False
    is_erased: bool = False


def window(text: str) -> Window:
    """Return the window written as ``21:00-07:00``."""
    start, _, end = text.partition("-")
    return Window(start=time.fromisoformat(start), end=time.fromisoformat(end))


def point(name: str = "a", *, verified: bool = True, **more: Any) -> ContactPoint:
    return ContactPoint(address_hash=name.encode() * 32, verified=verified, **more)


def somebody(
    *points: ContactPoint, rules: Rules = NO_RULES, transactional: bool = True, **more: Any
) -> Recipient:
    """Return a recipient with these contact points, or with a verified one, who is to be told of a
    transactional category or of a bulk one."""
    return Recipient(
        version=7,
        contact_points=points or (point(),),
        rules=replace(rules, transactional=transactional),
        **more,
    )
