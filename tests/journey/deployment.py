"""The running stack as its clients, its providers and its operators see it."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, TypeVar
from urllib.parse import urlencode
from uuid import uuid4

import psycopg
import urllib3

from functions.core.states import FINAL, HELD
from infra.local.emulator import Clients
from infra.local.state import Local

T = TypeVar("T")

POLL_SECONDS = 0.1
QUICKLY_SECONDS = 60.0
"""A generous deadline for what takes a few seconds on a quiet machine."""
RECOVERY_SECONDS = 150.0
"""Lease (40 s), then the next sweep (each minute), then the next attempt, and as much again."""

BATCHES, NOTIFICATIONS = "/v1/notifications/batches", "/v1/notifications"
TIMEOUT = urllib3.Timeout(connect=5.0, read=60.0)


def wait_for(look: Callable[[], T | None], *, seconds: float = QUICKLY_SECONDS, what: str) -> T:
    """Return the first value of ``look`` that is neither None nor empty nor False."""
    deadline = time.monotonic() + seconds
    while True:
        value = look()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(POLL_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    text: str
    seconds: float

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def code(self) -> str:
        """The code of a problem answer, which must be one."""
        assert self.headers["content-type"] == "application/problem+json", self
        problem = self.json
        assert problem["status"] == self.status
        return problem["code"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The API, asked with ``key``."""

    url: str
    key: str | None
    http: urllib3.PoolManager

    def call(
        self,
        method: str,
        path: str,
        value: Any = None,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Reply:
        """Ask once; ``value`` is sent as JSON, ``body`` as it is."""
        sent = {"authorization": f"Bearer {self.key}"} if self.key else {}
        if value is not None:
            body = json.dumps(value).encode()
        if body is not None:
            sent["content-type"] = "application/json"
        started = time.monotonic()
        answer = self.http.request(
            method,
            f"{self.url}{path}" + (f"?{urlencode(query)}" if query else ""),
            body=body,
            headers={**sent, **(headers or {})},
            timeout=TIMEOUT,
            retries=False,
        )
        return Reply(
            status=answer.status,
            headers={name.lower(): text for name, text in answer.headers.items()},
            text=answer.data.decode(),
            seconds=time.monotonic() - started,
        )

    def post(self, path: str, value: Any, *, key: str | None = None) -> Reply:
        """Post notifications under ``key``, or a fresh one."""
        return self.call("POST", path, value, headers={"idempotency-key": key or fresh()})

    def send(self, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the accepted batch of ``items``."""
        reply = self.post(BATCHES, {"notifications": list(items)})
        assert reply.status == 202, reply
        return reply.json

    def send_one(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return the accepted notification."""
        reply = self.post(NOTIFICATIONS, item)
        assert reply.status == 202, reply
        return reply.json

    def read(self, path: str, **query: str) -> Any:
        reply = self.call("GET", path, query=query)
        assert reply.status == 200, reply
        return reply.json

    def notification(self, id: str) -> dict[str, Any]:
        return self.read(f"{NOTIFICATIONS}/{id}")

    def counts(self, batch_id: str) -> dict[str, int]:
        """Return how many notifications of a batch there are by status."""
        return self.read(f"/v1/batches/{batch_id}")["counts"]

    def when_ended(self, id: str, *, seconds: float = QUICKLY_SECONDS) -> dict[str, Any]:
        """Return a notification once it is final or held."""

        def ended() -> dict[str, Any] | None:
            notification = self.notification(id)
            return notification if notification["status"] in FINAL | HELD else None

        return wait_for(ended, seconds=seconds, what=f"the end of notification {id}")

    def when_completed(self, batch_id: str, *, seconds: float = QUICKLY_SECONDS) -> dict[str, Any]:
        """Return a batch once each of its notifications is final or held."""
        seen: dict[str, Any] = {}

        def completed() -> dict[str, Any] | None:
            seen.update(self.read(f"/v1/batches/{batch_id}"))
            return seen if seen["status"] == "completed" else None

        try:
            return wait_for(completed, seconds=seconds, what=f"the end of batch {batch_id}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {seen['counts_by_channel']}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A stack that runs; ``first`` and ``second`` are two organizations."""

    local: Local
    http: urllib3.PoolManager

    @property
    def first(self) -> Client:
        return self.client(self.local.api_key)

    @property
    def second(self) -> Client:
        return self.client(self.local.second_tenant_api_key)

    def client(self, key: str | None) -> Client:
        return Client(url=self.local.api_url, key=key, http=self.http)

    @property
    def aws(self) -> Clients:
        return Clients(self.local.aws_endpoint_url)

    def query(self, statement: LiteralString, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement on the queue of record; return its rows."""
        with psycopg.connect(
            self.local.database_url, sslmode="disable", autocommit=True
        ) as connection:
            done = connection.execute(statement, parameters)
            return done.fetchall() if done.description else []

    def hook(self, behaviour: str, name: str) -> str:
        """Return a webhook recipient."""
        return f"{self.local.simulator_url}/hooks/{behaviour}/{name}"

    def effects(self, recipient: str) -> list[dict[str, Any]]:
        """Return what ``recipient`` got."""
        return self._ledger(recipient)["effects"]

    def requests(self, recipient: str) -> list[dict[str, Any]]:
        """Return every request the provider got for ``recipient``."""
        return self._ledger(recipient)["requests"]

    def _ledger(self, recipient: str) -> dict[str, Any]:
        query = urlencode({"recipient": recipient})
        return self._simulator("GET", f"/ledger?{query}")

    def break_provider(self, **faults: Any) -> None:
        """Switch faults of the simulated provider on."""
        self._simulator("POST", "/behaviour", faults)

    def mend_provider(self) -> None:
        self._simulator("DELETE", "/behaviour")

    def _simulator(self, method: str, path: str, value: Any = None) -> Any:
        answer = self.http.request(
            method, f"{self.local.simulator_url}{path}", json=value, timeout=TIMEOUT, retries=False
        )
        assert answer.status == 200, answer.data
        return answer.json()


def fresh() -> str:
    """Return a name that was never used."""
    return uuid4().hex


def email(behaviour: str = "ok", name: str = "") -> dict[str, Any]:
    content = {"subject": "Your receipt", "text": "Thank you."}
    recipient = f"{behaviour}+{name or fresh()}@example.com"
    return {"channel": "email", "recipient": recipient, "content": content}


def push(behaviour: str = "ok", name: str = "") -> dict[str, Any]:
    recipient = f"sim-{behaviour}-{name or fresh()}"
    return {"channel": "push", "recipient": recipient, "content": "Your parcel is here."}


def sms(number: str) -> dict[str, Any]:
    """Return a text to ``number``; +1555300 and four digits work, and are none of the demo."""
    return {"channel": "sms", "recipient": number, "content": "Your code is 318 204."}


def webhook(service: Service, behaviour: str = "ok", name: str = "") -> dict[str, Any]:
    recipient = service.hook(behaviour, name or fresh())
    return {"channel": "webhook", "recipient": recipient, "content": {"event": "order.paid"}}
