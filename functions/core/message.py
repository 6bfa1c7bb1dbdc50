"""The message that rides the queue: ids only, never an address, a body or a secret."""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from functions.core.errors import Unreadable
from functions.core.states import Channel

VERSION = 1
MAX_LEASE_NUMBER = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseMessage:
    """One lease of one notification, on its way to a sender."""

    id: UUID
    lease_number: int
    channel: Channel

    def dumps(self) -> str:
        return json.dumps(
            {"v": VERSION, "id": str(self.id), "lease": self.lease_number, "channel": self.channel}
        )

    @classmethod
    def loads(cls, body: str) -> "LeaseMessage":
        """Return the message in ``body``; raise Unreadable for anything else."""
        try:
            value: Any = json.loads(body)
            if value["v"] != VERSION or type(value["lease"]) is not int:
                raise Unreadable("The message is of another version or names no lease number.")
            if not 0 < value["lease"] <= MAX_LEASE_NUMBER:
                raise Unreadable("The message names an impossible lease number.")
            return cls(
                id=UUID(value["id"]),
                lease_number=value["lease"],
                channel=Channel(value["channel"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Unreadable("The message is not a lease message.") from error
