"""What every use case of the API works with, and what differs between deployments."""

from collections.abc import Callable
from dataclasses import dataclass

from functions.ingest.cursor import cursor_key
from functions.ingest.item import Door
from functions.store.connection import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The parts of this deployment that answers depend on."""

    database: Database
    hash_key: Callable[[], bytes]
    """Read when it is first needed: a secret store that is out fails a request, not the start."""
    local_webhook_origin: str

    @property
    def door(self) -> Door:
        return Door(hash_key=self.hash_key(), local_webhook_origin=self.local_webhook_origin)

    @property
    def cursor_key(self) -> bytes:
        return cursor_key(self.hash_key())
