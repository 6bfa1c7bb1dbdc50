"""A Secrets Manager on a real socket: it answers GetSecretValue, or the trouble a test asks for."""

import contextlib
import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.wire import Peer, Wire, peer

REGION = "eu-central-1"


@dataclass(slots=True)
class SecretsManager:
    """``secrets`` by ARN; ``trouble`` are the statuses given first, one per request."""

    secrets: dict[str, Any]
    trouble: list[int] = field(default_factory=list[int])
    server: Peer | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What a function's process has to know to ask here."""
        assert self.server is not None
        return {
            "AWS_ENDPOINT_URL": self.server.url,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "example-of-a-secret-key",
            "AWS_SESSION_TOKEN": "example-of-a-session-token",
        }

    def serve(self, wire: Wire) -> None:
        while True:
            request = wire.read_request()
            if self.trouble:
                wire.answer(self.trouble.pop(0), b'{"__type":"InternalServiceError"}')
                continue
            value = self.secrets.get(json.loads(request.body)["SecretId"])
            if value is None:
                wire.answer(400, b'{"__type":"ResourceNotFoundException"}')
            else:
                text = value if isinstance(value, str) else json.dumps(value)
                wire.answer(200, json.dumps({"SecretString": text}).encode())


@contextlib.contextmanager
def secrets_manager(secrets: Mapping[str, Any]) -> Generator[SecretsManager]:
    manager = SecretsManager(dict(secrets))
    with peer(manager.serve) as server:
        manager.server = server
        yield manager
