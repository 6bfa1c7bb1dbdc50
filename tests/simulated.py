"""A client of the simulator, and an API that takes its callbacks, over real sockets."""

import json
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import urllib3

from functions.core import signature
from infra.local.simulator import HOST, Settings, running

CALLBACK_SECRET = "whsec_Y2FsbGJhY2stc2VjcmV0LW9mLXRoZS10ZXN0cw=="
GATEWAY_SECRET = "whsec_Z2F0ZXdheS1zZWNyZXQtb2YtdGhlLXRlc3Rz"
WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    headers: dict[str, str]
    body: bytes
    is_signed: bool
    arrived_at: float

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.body)["data"]


@dataclass(slots=True)
class CallbackApi:
    """Takes callbacks and remembers them; ``answers`` are given first, then 202."""

    url: str = ""
    content_type: str = "application/problem+json"
    answers: list[int] = field(default_factory=list[int])
    callbacks: list[Callback] = field(default_factory=list[Callback])
    changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, headers: dict[str, str], body: bytes) -> int:
        try:
            signature.verify(body, headers=headers, secrets=[CALLBACK_SECRET], now=time.time())
            is_signed = True
        except signature.BadSignature:
            is_signed = False
        with self.changed:
            status = self.answers.pop(0) if self.answers else 202
            self.callbacks.append(
                Callback(
                    headers=headers, body=body, is_signed=is_signed, arrived_at=time.monotonic()
                )
            )
            self.changed.notify_all()
        return status

    def wait(self, count: int) -> list[Callback]:
        """Return the callbacks once there are ``count``."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.callbacks) >= count, WAIT_SECONDS)
            return list(self.callbacks)


@contextmanager
def callback_api() -> Generator[CallbackApi]:
    api = CallbackApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(api.take(dict(self.headers.items()), body))
            self.send_header("content-type", api.content_type)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    with serving(Handler) as origin:
        api.url = f"{origin}/v1/callbacks/http"
        yield api


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Generator[str]:
    """Serve ``handler`` on a free port; yield its origin."""
    with ThreadingHTTPServer((HOST, 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@dataclass(slots=True)
class Client:
    """Speaks to a simulator as the product and a tester would."""

    url: str
    http: urllib3.PoolManager

    def send(
        self,
        recipient: str,
        *,
        key: str,
        channel: str = "email",
        secret: str | None = None,
        timeout: float = WAIT_SECONDS,
    ) -> urllib3.BaseHTTPResponse:
        """Post what the ``http`` provider posts."""
        body = json.dumps(
            {
                "recipient": recipient,
                "channel": channel,
                "content": {"subject": "Your receipt", "text": "Thank you."},
                "notification_id": key,
                "attempt_id": "a-1",
            }
        ).encode()
        headers = {"idempotency-key": f'"{key}"'}
        if secret:
            now = int(time.time())
            headers |= signature.sign(body, message_id=key, timestamp=now, secrets=[secret])
        return self.http.request(
            "POST",
            f"{self.url}/gateway",
            body=body,
            headers=headers,
            timeout=timeout,
            retries=False,
        )

    def hook(self, path: str, *, key: str, method: str = "POST") -> urllib3.BaseHTTPResponse:
        headers = {"webhook-id": key}
        url = f"{self.url}/hooks/{path}"
        return self.http.request(
            method, url, body=b'{"data": 1}', headers=headers, timeout=2.0, retries=False
        )

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Return the parsed answer of a control route."""
        answer = self.http.request(
            method, f"{self.url}{path}", body=json.dumps(body).encode() if body else None
        )
        return answer.json() if answer.data else None

    def effects(self, **parameters: str) -> list[dict[str, Any]]:
        return self._ledger(parameters)["effects"]

    def requests(self, **parameters: str) -> list[dict[str, Any]]:
        return self._ledger(parameters)["requests"]

    def _ledger(self, parameters: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
        answer = self.http.request("GET", f"{self.url}/ledger", fields=parameters)
        return cast(dict[str, list[dict[str, Any]]], answer.json())


@contextmanager
def simulator(
    *, callback_url: str | None = None, gateway_secret: str | None = None
) -> Generator[Client]:
    settings = Settings(
        port=0,
        callback_url=callback_url,
        callback_secret=CALLBACK_SECRET,
        gateway_secret=gateway_secret,
    )
    with running(settings) as url, urllib3.PoolManager(maxsize=20) as http:
        yield Client(url, http)


def eventually(holds: Callable[[], bool]) -> bool:
    """Wait until ``holds`` is true; return whether it became so in time."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.01)
    return False
