"""A gateway with a memory on a real socket: an acceptance under a key takes effect once."""

import contextlib
import json
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from functions.core.login import GatewayCredentials
from functions.providers.http import HttpProvider
from functions.providers.transport import Transport
from tests.wire import Peer, Received, Wire, peer

GATEWAY_SECRET = "whsec_Z2F0ZXdheS1zZWNyZXQtb2YtdGhlLXRlc3Rz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as the gateway understood it."""

    key: str
    recipient: str
    received: Received

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.received.body)


Behaviour = Callable[[Wire, Asked], None]


@dataclass(slots=True)
class Gateway:
    """``effects`` is the message id by key; ``behaviour`` says what a recipient gets instead.

    ``status`` is what an acceptance claims: accepted or delivered.
    """

    status: str = "accepted"
    behaviour: dict[str, Behaviour] = field(default_factory=dict[str, Behaviour])
    effects: dict[str, str] = field(default_factory=dict[str, str])
    asked: list[Asked] = field(default_factory=list[Asked])
    server: Peer | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"{self.server.url}/gateway"

    def provider(self) -> HttpProvider:
        """Return the product's provider, which calls this gateway."""
        credentials = GatewayCredentials(secrets=(GATEWAY_SECRET,))
        return HttpProvider(url=self.url, credentials=credentials, transport=Transport())

    def accept(self, key: str) -> str:
        """Let the key take effect, once; return its message id."""
        with self._lock:
            return self.effects.setdefault(key, f"m-{len(self.effects) + 1}")

    def serve(self, wire: Wire) -> None:
        while True:
            received = wire.read_request()
            asked = Asked(
                key=received.headers["idempotency-key"].strip('"'),
                recipient=json.loads(received.body)["recipient"],
                received=received,
            )
            with self._lock:
                self.asked.append(asked)
            self.behaviour.get(asked.recipient, self._accepting)(wire, asked)

    def _accepting(self, wire: Wire, asked: Asked) -> None:
        answer = {"message_id": self.accept(asked.key), "status": self.status}
        wire.answer(200, json.dumps(answer).encode())


@contextlib.contextmanager
def gateway(*, status: str = "accepted") -> Generator[Gateway]:
    served = Gateway(status=status)
    with peer(served.serve) as server:
        served.server = server
        yield served


def giving(status: int, **headers: str) -> Behaviour:
    """Return a behaviour that refuses with ``status``."""

    def behave(wire: Wire, asked: Asked) -> None:
        del asked
        wire.answer(
            status, headers={name.replace("_", "-"): text for name, text in headers.items()}
        )

    return behave
