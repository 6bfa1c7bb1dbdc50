"""Receive an SNS message over HTTP: proved to be SNS's own and of a topic of ours, or refused.

Beside events SNS asks whether we want to be subscribed: to a topic of ours we do.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from functions.callbacks.intake import Event, Intake
from functions.core.errors import Unavailable, Unreadable
from functions.core.problem import Refused
from functions.providers.event import read_enveloped
from functions.providers.sns_envelope import SUBSCRIPTION, Verifier, read
from functions.providers.transport import Lost, Response, Transport
from functions.store.clock import database_clock
from functions.store.receipt import NOTHING, Recorded

PROVIDER = "sns"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsDoor:
    """``topics``: the ARNs that are listened to; every other topic's messages are refused."""

    topics: Collection[str]
    verifier: Verifier
    intake: Intake
    clock: Callable[[], float]
    """The database's, in unix seconds."""

    def receive(self, body: bytes) -> Recorded:
        """Keep what a message tells; raise Refused, Forged or Unavailable."""
        try:
            envelope = read(body)
        except Unreadable as error:
            raise Refused("malformed_json", error.detail) from None
        proved = self.verifier.prove(envelope, topics=self.topics)
        proved.check_times(datetime.fromtimestamp(self.clock(), UTC))
        if envelope.type == SUBSCRIPTION:
            self.verifier.confirm(proved)
            return NOTHING
        told = read_enveloped(envelope, raw=body, hash_key=self.intake.hash_key())
        kept = self.intake.keep([Event(id=envelope.message_id, body=body, told=told)])
        if kept.again:
            raise Unavailable
        return kept.recorded


def sns_door(intake: Intake, *, topics: Collection[str]) -> SnsDoor:
    """Return the door as it is deployed: by the database's clock, certificates from the network."""
    transport = cache(Transport)  # only a message by this door needs one

    def fetch(url: str, deadline: float) -> Response | Lost:
        return transport().request("GET", url, headers={}, body=b"", deadline=deadline)

    return SnsDoor(
        topics=topics,
        verifier=Verifier(fetch),
        intake=intake,
        clock=lambda: database_clock(intake.database),
    )
