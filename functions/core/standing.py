"""Where a notification stands: what of it tells what happens next, read by the store."""

from datetime import datetime
from typing import Protocol
from uuid import UUID


class Standing(Protocol):
    """Where a notification is, and what its row says of the times ahead."""

    @property
    def status(self) -> str: ...
    @property
    def available_at(self) -> datetime: ...
    @property
    def expires_at(self) -> datetime | None: ...
    @property
    def lease_until(self) -> datetime | None: ...
    @property
    def next_check_at(self) -> datetime | None: ...
    @property
    def discarded_at(self) -> datetime | None: ...
    @property
    def hold_id(self) -> UUID | None: ...
